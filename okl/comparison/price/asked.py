"""What is asked of a path of bounds: which limits they stand for, in which ball, and what is refused at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from okl.comparison.settings import CompareSettings
from okl.errors import ConfigError
from okl.online.constraints.columns import check_columns, without_features
from okl.online.constraints.grammar import parse_constraints
from okl.online.constraints.quantities import Constraint, columns_of
from okl.store.dataset import Dataset

FREQUENCIES = 400  # as okl train takes by default
OF_MODELS = ("halving", "tolerance", "iterations", "memory")
OF_PATHS = ("constraint_path", "radius", "learn_sensitive", "certify")


@dataclass(frozen=True)
class Asked:
    """Constraints, some of which take each bound of a path in turn.

    constraints : all of columns, as they were given; radius : of the ball that weights stay in
    certify : whether the best weights under each bound are looked for, too
    """

    constraints: tuple[Constraint, ...]
    radius: float
    certify: bool = True

    @property
    def swept(self) -> tuple[int, ...]:
        """Places of the constraints abs(QUANTITY) <= BOUND, whose bound is that of the path."""
        return tuple(place for place, one in enumerate(self.constraints) if one.low == -one.high)

    @property
    def bound(self) -> float:
        """The bound that was given."""
        return self.constraints[self.swept[0]].high

    def at(self, bound: float) -> tuple[Constraint, ...]:
        """All constraints with this bound."""
        swept = self.swept
        return tuple(
            Constraint(one.quantity, -bound, bound) if place in swept else one
            for place, one in enumerate(self.constraints)
        )

    def kept(self, bound: float | None) -> tuple[Constraint, ...]:
        """What is learnt under: None leaves the path's constraints out, and only those."""
        swept = self.swept
        if bound is None:
            return tuple(one for place, one in enumerate(self.constraints) if place not in swept)
        return self.at(bound)


def asked_of(settings: CompareSettings) -> Asked:
    """What the settings ask for.

    Raises
    ------
    ConfigError : bad grammar, no constraint abs(...) <= BOUND, several bounds, no ball, options of other comparisons
    """
    constraints, norm = parse_constraints(settings.constraints)
    radii = [radius for radius in (settings.radius, norm) if radius is not None]
    asked = Asked(constraints, min(radii, default=0.0), settings.certify)
    if not asked.swept:
        raise ConfigError(
            f"constraint = {' and '.join(settings.constraints)!r}: none of them is abs(QUANTITY) <= BOUND, whose bound "
            "goes along the path. Add one, such as 'abs(covariance(COLUMN)) <= 0.01'."
        )
    bounds = {constraints[place].high for place in asked.swept}
    if len(bounds) > 1:
        raise ConfigError(
            f"Constraints abs(QUANTITY) <= BOUND were given with the bounds {', '.join(map(str, sorted(bounds)))}, but "
            "they go along a path together. Give them one bound, or compare them one after the other."
        )
    if settings.constraint_path == "auto" and asked.bound == 0.0:
        raise ConfigError(
            "A path goes from the bound that was given upwards by equal factors, but that is 0. Give one above 0, or "
            "the bounds themselves: --constraint-path 0.001,0.01,0.1."
        )
    if not radii:
        raise ConfigError(
            "Constraints were given, but what keeps them takes weights of a bounded set. Add --constraint "
            "'norm <= 10', or --radius 10."
        )
    _refuse(settings, OF_MODELS, "a path of bounds has no use for it. Leave it out.")
    if settings.models not in (("all",), ("fogd",)):
        raise ConfigError(
            f"models = {', '.join(settings.models)} and a constraint were given, but it is fogd that learns under "
            "constraints. Leave one of them out."
        )
    return asked


def refuse_options_of_paths(settings: CompareSettings) -> None:
    """Raise ConfigError for options of a path of bounds where there is no constraint."""
    _refuse(settings, OF_PATHS, "no constraint was. Leave it out, or add --constraint.")


def check_price(settings: CompareSettings, data: Dataset) -> None:
    """Refuse what can be known to be wrong before a row is read.

    Raises
    ------
    ConfigError : as `asked_of`, or a task that is not of two classes; DataError : a column that is not there
    """
    asked, schema = asked_of(settings), data.schema
    if schema.task != "binary":
        raise ConfigError(
            f"{data.folder}: the target {schema.target!r} makes this a {schema.task} task, but constraints are about "
            "the scores of two classes. Leave --constraint out, or ingest with --task binary."
        )
    check_columns(schema, asked.constraints, str(data.folder))
    priced_columns(settings, data)


def priced_columns(settings: CompareSettings, data: Dataset) -> Dataset:
    """The data set without the inputs that constraints look at, unless these are to be learnt from, too."""
    asked = asked_of(settings)
    return data if settings.learn_sensitive else without_features(data, columns_of(asked.constraints))


def bounds_between(first: float, last: float, count: int) -> tuple[float, ...]:
    """Bounds from the first on, each the same multiple of the one before; the last one itself is no more of them.

    >>> bounds_between(0.01, 0.16, 2)
    (0.01, 0.04)
    >>> bounds_between(0.2, 0.1, 5)
    (0.2,)
    """
    if last <= first:
        return (first,)
    steps = np.geomspace(first, last, count + 1)[:-1].tolist()
    # four digits are meant to be read; the first bound is the one that was asked for
    return (first, *(float(f"{step:.4g}") for step in steps[1:]))


def _refuse(settings: CompareSettings, names: tuple[str, ...], why: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value != CompareSettings.model_fields[name].default:
            told = ",".join(map(str, value)) if isinstance(value, tuple) else value
            raise ConfigError(f"{name} = {told} was given, but {why}")


def worst(values: list[float | None]) -> float | None:
    """The value furthest from 0, None where there is none."""
    found = [value for value in values if value is not None and math.isfinite(value)]
    return max(found, key=abs, default=None)
