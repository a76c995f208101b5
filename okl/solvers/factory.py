"""Construction of solvers from settings and a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from okl.data.dataset import ROBUST, Dataset, Schema
from okl.data.squash import with_squashed
from okl.foundation.errors import ConfigError
from okl.solvers.base import Solver
from okl.solvers.online.constraints import check_columns, columns_of, parse_constraints, without_features
from okl.solvers.online.settings import MapLearningOptions
from okl.solvers.settings import TrainSettings

SPARSE_SOLVERS = ("l2-svm", "logistic", "c-svm", "nu-svm", "dwd", "l1-logistic", "l1-l2-svm", "fogd")
MAPPED_SOLVERS = (*SPARSE_SOLVERS, "mm-fda", "mm-mpm", "nogd", "scs", "wolfe", "pegasos", "ridge")
SPARSE_MAPS, SPARSE_LANDMARKS = ("independent", "nystrom", "auto"), ("uniform", "rpcholesky", "supports")


def check_rows(settings: TrainSettings, schema: Schema) -> None:
    """Raise ConfigError for sparse rows with a solver or a kernel that takes dense ones."""
    if schema.sparse is None or settings.solver == "auto":
        return
    options, name = settings.options, settings.solver
    linear = name in MAPPED_SOLVERS and getattr(options, "kernel", "linear") == "linear"
    solvers = (*SPARSE_SOLVERS, "nogd") if linear else MAPPED_SOLVERS
    if name not in solvers:
        raise ConfigError(
            f"The solver {name} takes dense rows{' with --kernel linear' * linear}, but these are sparse. Use --solver "
            f"auto, {', '.join(solvers[:-1])} or {solvers[-1]}."
        )
    for option, allowed in (("map", SPARSE_MAPS), ("landmarks", SPARSE_LANDMARKS)):
        if (given := getattr(options, option, allowed[0])) not in allowed:
            use = " or ".join(allowed[:2])
            raise ConfigError(f"{option} = {given!r} takes dense rows, but these are sparse. Use {use}.")


def make_solver(settings: TrainSettings, data: Dataset) -> Solver[Any]:
    """Make the solver of the settings for a data set; ConfigError if they do not fit."""
    settings.check_options()
    check_rows(settings, data.schema)
    return settings.options.build(settings, data.schema, data.rows("train"))


def check_sensitive(keys: Sequence[str], names: Sequence[str]) -> None:
    """Raise ConfigError if all names, columns of constraints to train on, are keys."""
    if names and set(names) <= set(keys):
        raise ConfigError(
            f"--learn-sensitive trains on the columns of constraints, but {names[0]!r} is a key: constrained text "
            "cannot be an input. Remove --learn-sensitive, and add a copy of the column with another name."
        )


def training_columns(
    settings: TrainSettings, data: Dataset, named: str | None = None, metric: tuple[float, ...] = ()
) -> Dataset:
    """Return the data set with the columns to train on: without columns of constraints unless learn_sensitive is set.

    Its rescaling is that of the settings.

    named : name of the data in errors, such as its source; None: its folder; metric : learnt weights of these columns
    Raises DataError : a constraint names a column that does not exist; ConfigError : no input would be left, all
        columns of constraints to train on are keys, or rows are sparse and the solver takes dense ones
    """
    check_rows(settings, data.schema)
    if settings.rescale != "stored":
        if settings.rescale in ROBUST and not data.schema.squashed:
            data = with_squashed(data, settings.seed)
        data = replace(data, schema=data.schema.scaled_as(settings.rescale))
    options = settings.options
    if not isinstance(options, MapLearningOptions):
        return data.with_metric(metric)
    constraints, _ = parse_constraints(options.constraints)
    check_columns(data.schema, constraints, named or str(data.folder))
    if options.learn_sensitive:
        check_sensitive(data.schema.keys, columns_of(constraints))
        return data.with_metric(metric)
    return without_features(data, columns_of(constraints)).with_metric(metric)
