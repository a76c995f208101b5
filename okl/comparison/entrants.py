"""Who takes part: models and solvers by name, and what each of them is."""

from __future__ import annotations

from typing import Any, get_args

from okl.accelerated.catalogue import MODEL_NAMES, is_model
from okl.comparison.settings import CompareSettings
from okl.configuration import SolverName, TrainSettings
from okl.errors import ConfigError
from okl.online.budget.strategies import STRATEGIES
from okl.online.maps import FourierChoice
from okl.recipes import make_recipe
from okl.store.dataset import Dataset, Schema
from okl.store.targets import MAX_LABELS

IN_MAPS = ("fogd", "nogd")
ONLINE_NAMES = tuple(name for name in get_args(SolverName) if name in (*IN_MAPS, *STRATEGIES))
OF_FREQUENCIES = "fogd and the nine with a certificate would"
OF_A_MAP = "fogd would, and the nine with a certificate if frequencies are given"
GROUPS = {"all": MODEL_NAMES, "online": ONLINE_NAMES}


def entrants(settings: CompareSettings) -> tuple[str, ...]:
    """Names of those who take part, in the order of asking, each once.

    Raises
    ------
    ConfigError : an unknown name, or none
    """
    names = [name for word in settings.models for name in GROUPS.get(word, (word,))]
    if unknown := [name for name in names if name not in ONLINE_NAMES and not is_model(name)]:
        raise ConfigError(
            f"models = {', '.join(unknown)}: not compared here. Name some of all ({', '.join(MODEL_NAMES)}) "
            f"or online ({', '.join(ONLINE_NAMES)}). "
            "Runs of okl train, by whichever solver, stand side by side in okl runs."
        )
    if not names:
        raise ConfigError("models is empty. Name some, or all.")
    return tuple(dict.fromkeys(names))


def is_certified(name: str) -> bool:
    """Whether it is one of the models with a duality gap; the others are online solvers."""
    return is_model(name)


def train_settings(settings: CompareSettings, name: str) -> TrainSettings:
    """What `okl train --solver NAME` would be told: what the comparison says, all else as it is by default."""
    told: dict[str, Any] = {"kernel": settings.kernel, "bandwidth": settings.bandwidth}
    if name == "fogd":
        told["map"] = settings.map
        if settings.frequencies is not None:
            told["frequencies"] = settings.frequencies
    told |= {"data": settings.data, "solver": name, "seed": settings.seed, "precision": settings.precision}
    return TrainSettings(**told)


def check_entrants(settings: CompareSettings, data: Dataset) -> None:
    """Refuse what can be known to be wrong before a row is read.

    Raises
    ------
    ConfigError : names, a task that is no classification, settings that one of them does not take
    """
    names = entrants(settings)
    schema = data.schema
    if schema.task == "regression":
        raise ConfigError(
            f"{data.folder}: the target {schema.target!r} makes this a regression, but okl compare is for classes "
            "only. Run okl train once for each solver (--solver ridge, fogd, nogd, or none: a race), a source "
            "with the same --holdout; then okl runs shows them side by side. Numbers that name classes, "
            f"{MAX_LABELS:,} at most, take --task multiclass where a source is ingested."
        )
    check_parts(settings, data)
    _check_map(settings, names, schema)


def check_parts(settings: CompareSettings, data: Dataset) -> None:
    """Raise ConfigError if there are too few rows to be judged on."""
    if settings.holdout == "test" and not data.rows("test"):
        raise ConfigError(
            f"holdout = test, but {data.folder} has no test rows. Give a share such as --holdout 0.2, or use --folds."
        )
    smallest = min(data.schema.class_counts)
    if settings.holdout is None and smallest < settings.folds:
        raise ConfigError(
            f"folds = {settings.folds}, but the smallest class has {smallest} training rows: each fold takes one of "
            "every class. Use fewer folds, or --holdout."
        )


def map_choice(settings: CompareSettings, names: tuple[str, ...]) -> FourierChoice | None:
    """The map that those with a certificate learn in; None where they take the inputs, or none of them takes part.

    Raises
    ------
    ConfigError : a kernel without a Fourier map, or a way of drawing frequencies that is none
    """
    if settings.frequencies is None or not any(map(is_certified, names)):
        return None
    if settings.kernel in ("polynomial", "linear"):
        raise ConfigError(
            f"kernel = {settings.kernel!r} has no Fourier map. Use gaussian, laplacian, matern32 or matern52, or leave "
            "frequencies out."
        )
    bandwidth = None if settings.bandwidth == "auto" else settings.bandwidth
    return FourierChoice(settings.kernel, bandwidth, settings.frequencies, settings.map)


def _check_map(settings: CompareSettings, names: tuple[str, ...], schema: Schema) -> None:
    online = [name for name in names if not is_certified(name)]
    for name in online:
        make_recipe(train_settings(settings, name), schema)
    if map_choice(settings, names) is not None or "fogd" in names:
        return
    if len(online) == len(names):
        for name, others in (("frequencies", OF_FREQUENCIES), ("map", OF_A_MAP)):
            if _changed(settings, name):
                who = f"the solver {names[0]} takes" if len(names) == 1 else f"{_list(names)} take"
                raise ConfigError(
                    f"{_told(settings, name)}, but {who} no {name}: {others}. Leave it out, or name some in models."
                )
    for name in ("map",) if online else ("bandwidth", "kernel", "map"):
        if _changed(settings, name):
            raise ConfigError(
                f"{_told(settings, name)}, but the nine models take inputs as they are unless there is a map. Set "
                "frequencies too, or leave it out."
            )


def _told(settings: CompareSettings, name: str) -> str:
    return f"{name} = {getattr(settings, name)!r} was given"


def _list(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _changed(settings: CompareSettings, name: str) -> bool:
    return bool(getattr(settings, name) != CompareSettings.model_fields[name].default)
