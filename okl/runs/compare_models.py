"""Names of the models that can be compared, their settings for training, and the checks before a comparison."""

from __future__ import annotations

from typing import Any

from okl.data.dataset import Dataset, Schema
from okl.foundation.errors import ConfigError
from okl.foundation.types import Task
from okl.kernels import shift_invariant_kernels
from okl.metrics.criterion import criterion_of
from okl.runs.compare_settings import CompareSettings
from okl.runs.loop import factory_of
from okl.solvers.accelerated.models import MODEL_NAMES, is_model
from okl.solvers.factory import SPARSE_SOLVERS
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.settings import OnlineSettings
from okl.solvers.options import FourierOptions
from okl.solvers.settings import SOLVER_NAMES, TrainSettings, solver_settings

_ONLINE = {
    name: kind for name in SOLVER_NAMES if issubclass(kind := solver_settings(name), OnlineSettings) and kind.COMPARED
}
ONLINE_NAMES = tuple(_ONLINE)
IN_FOURIER_MAPS = tuple(name for name, kind in _ONLINE.items() if issubclass(kind, FourierOptions))
OF_FREQUENCIES = f"{', '.join(IN_FOURIER_MAPS)} and certified models use it"
OF_A_MAP = f"{', '.join(IN_FOURIER_MAPS)} and certified models with frequencies use it"
RIDGE, AUTO = "ridge", "auto"
LEAST_SQUARES = (AUTO, RIDGE)  # the automatic choice, and kernel least squares with the kernel of the settings
GROUPS = {"all": (*LEAST_SQUARES, *MODEL_NAMES), "online": ONLINE_NAMES}
OF_REGRESSION = {"all": (*LEAST_SQUARES, "fogd", "nogd"), "online": ("fogd", "nogd")}
OF_SPARSE = (AUTO, *filter(is_model, SPARSE_SOLVERS))


def model_names(settings: CompareSettings, task: Task = "binary", sparse: bool = False) -> tuple[str, ...]:
    """Return the names of the models to compare, without duplicates, in the order of the setting.

    sparse : whether rows are sparse: models of dense rows are left out
    Raises ConfigError : a name is unknown or not for the task or the rows, or there is no name
    """
    groups = OF_REGRESSION if task == "regression" else GROUPS
    names = [name for word in settings.models for name in groups.get(word, (word,))]
    if "boosting" in names:
        raise ConfigError("models = boosting: it is no model of okl. okl train --beside boosting compares with it.")
    if unknown := [name for name in names if name not in (*LEAST_SQUARES, *ONLINE_NAMES) and not is_model(name)]:
        raise ConfigError(
            f"models = {', '.join(unknown)}: not available in okl compare. Choose from all "
            f"({', '.join(GROUPS['all'])}) or online ({', '.join(ONLINE_NAMES)})."
        )
    if task == "regression" and (others := [name for name in names if name not in groups["all"]]):
        raise ConfigError(
            f"models = {', '.join(others)}: for classes only, but the target makes this a regression task. Choose from "
            f"{', '.join(groups['all'])}."
        )
    if not names:
        raise ConfigError("models is empty. Give at least one name, or all.")
    taken = (AUTO,) if task == "regression" else OF_SPARSE
    kept = dict.fromkeys(name for name in names if not sparse or name in taken)
    if not kept:
        raise ConfigError(
            f"models = {', '.join(settings.models)}: compared on dense rows only, but these are sparse. Rows of a "
            f"{'regression' if task == 'regression' else 'classification'} are taken by {', '.join(taken)}."
        )
    return tuple(kept)


def left_out(settings: CompareSettings, schema: Schema) -> str:
    """Return a sentence on the models that are left out because rows are sparse; "" if there are none."""
    names = model_names(settings, schema.task)
    out = [name for name in names if name not in model_names(settings, schema.task, schema.sparse is not None)]
    return f"rows are sparse, so these are left out: {', '.join(out)}" if out else ""


def train_settings(settings: CompareSettings, name: str) -> TrainSettings:
    """Return settings of `okl train --solver NAME`: those of the comparison, and defaults for the rest."""
    if name == AUTO:
        shared = {"data": settings.data, "seed": settings.seed, "optimise": settings.optimise}
        return TrainSettings(solver=name, **shared)
    values: dict[str, Any] = {"kernel": settings.kernel, "bandwidth": settings.bandwidth}
    if name == RIDGE:
        values["optimise"] = settings.optimise
    if name in IN_FOURIER_MAPS:
        values["map"] = settings.map
        if settings.frequencies is not None:
            values["frequencies"] = settings.frequencies
    values |= {"data": settings.data, "solver": name, "seed": settings.seed}
    return TrainSettings(**values | ({"precision": settings.precision} if name != RIDGE else {}))


def check_models(settings: CompareSettings, data: Dataset) -> None:
    """Raise ConfigError for settings that are unknown, of another task or unused, before a row is read."""
    schema = data.schema
    names = model_names(settings, schema.task, schema.sparse is not None)
    if schema.sparse is not None and settings.frequencies is not None:
        raise ConfigError("frequencies is set, but rows are sparse and models of them linear. Remove it.")
    criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    if settings.holdout == "test" and not data.rows("test"):
        raise ConfigError(
            f"holdout = test, but {data.folder} has no test rows. Set --holdout to a share such as 0.2, or use --folds."
        )
    smallest = min(schema.class_counts, default=data.rows("train"))
    if settings.holdout is None and smallest < settings.folds:
        kind = "the smallest class has" if schema.class_counts else "there are"
        raise ConfigError(
            f"folds = {settings.folds}, but {kind} {smallest} training rows; each "
            "fold needs one of every class. Use fewer folds, or --holdout."
        )
    _check_map(settings, names, schema)


def map_choice(settings: CompareSettings, names: tuple[str, ...]) -> FourierChoice | None:
    """Return the Fourier map of the certified models, None if these are linear or none; or raise ConfigError."""
    if settings.frequencies is None or not any(map(is_model, names)):
        return None
    if settings.kernel not in (able := shift_invariant_kernels()):
        raise ConfigError(
            f"kernel = {settings.kernel!r} has no Fourier map. Use {', '.join(able[:-1])} or {able[-1]}, or remove "
            "frequencies."
        )
    bandwidth = None if settings.bandwidth == "auto" else settings.bandwidth
    return FourierChoice(settings.kernel, bandwidth, settings.frequencies, settings.map)


def _check_map(settings: CompareSettings, names: tuple[str, ...], schema: Schema) -> None:
    online = [name for name in names if not is_model(name)]
    for name in online:
        if name not in LEAST_SQUARES:
            factory_of(train_settings(settings, name), schema)
    if map_choice(settings, names) is not None or set(names) & set(IN_FOURIER_MAPS):
        return
    changed = {
        name: f"{name} = {value!r} is set"
        for name, value in settings.model_dump().items()
        if value != CompareSettings.model_fields[name].default
    }
    for name, others in (("frequencies", OF_FREQUENCIES), ("map", OF_A_MAP)):
        if name in changed and len(online) == len(names):
            listed = f"{', '.join(names[:-1])} and {names[-1]} do"
            subject = f"the solver {names[0]} does" if len(names) == 1 else listed
            raise ConfigError(
                f"{changed[name]}, but {subject} not use {name}: {others}. Remove it, or add one of these to models."
            )
    for name in ("map",) if online else ("bandwidth", "kernel", "map"):
        if name in changed:
            raise ConfigError(
                f"{changed[name]}, but certified models are linear in the inputs without a map. Set frequencies too, "
                "or remove it."
            )
