"""References to models: a folder or URL, NAME@VERSION, or NAME."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okl.data.manifest import is_dataset
from okl.foundation.errors import DataError, ModelError
from okl.foundation.folders import name_of, resumable_in
from okl.foundation.locations import DATED, Place, RemotePath, close_to, okl_home, place_of, runs_named
from okl.foundation.telemetry import run_logger
from okl.foundation.validation import NAME
from okl.models.file import DESCRIPTION, WHAT_TO_GIVE, Model, load_model
from okl.models.registry import MODEL, Registry, Version
from okl.models.registry_log import CHAMPION

_LOG = run_logger()
REFERENCE = re.compile(rf"({NAME.pattern})@([a-z][a-z0-9_-]*|[1-9][0-9]*)")

REGISTRY = "folder or URL of the registry of NAME@VERSION; default: OKL_REGISTRY, or the okl home"

Location = str | os.PathLike[str]


def model_or_location(given: Any) -> Model | Location:
    """Return a model in memory, also that of a fitted automatic estimator, or the location of a model or a result's.

    Raises
    ------
    ModelError : it is of another type
    """
    given = getattr(given, "model_", given)
    if isinstance(given, Mapping):  # the result of a run
        return os.fspath(given["model"])
    if not isinstance(given, str | os.PathLike | Model):
        raise ModelError(
            f"model is of type {type(given).__name__}; expected a folder, NAME@VERSION, the result of okl.train, a "
            "model such as okl.load returns, or a fitted okl.KernelClassifier or okl.KernelRegressor."
        )
    return given


def is_reference(model: Location) -> bool:
    """Return whether a model is given as NAME@VERSION, and not as a folder that has such a name.

    >>> is_reference("churn@champion"), is_reference("churn@7"), is_reference("runs/churn@7"), is_reference("churn")
    (True, True, False, False)
    """
    return REFERENCE.fullmatch(os.fspath(model)) is not None and not os.path.isdir(model)


def find_version(reference: str, registry: Location | None = None) -> Version:
    """Return the version that NAME@ALIAS or NAME@NUMBER means now, which never changes; or raise RegistryError."""
    name, _, which = reference.partition("@")
    return Registry(registry).model(name).version(which)


def resolve_name(model: Location, registry: Location | None = None) -> str:
    """Return the model of a name: a folder, a URL or NAME@ALIAS; anything else unchanged; ModelError for unknown names.

    A run's folder or URL means the model in it; a NAME alone NAME@champion where models of that name are registered,
    else the model of the newest run in okl's home that has this name, with or without its date.
    """
    given = os.fspath(model)
    path = place_of(given)
    if isinstance(path, RemotePath):
        return str(path / MODEL) if _is_run(path) else given
    if is_reference(given) or (path / DESCRIPTION).is_file():
        return given
    if (path / MODEL / DESCRIPTION).is_file():
        return str(path / MODEL)
    if not NAME.fullmatch(given):
        return given
    registered = Registry(registry).model(given)
    if registered.state().latest:
        return f"{given}@{CHAMPION}"
    if (run := run_named(given)) is not None:
        return str(run / MODEL)
    if path.exists():
        return given
    for name in map(name_of, resumable_in(okl_home() / "runs")):
        if given in (name, DATED.sub("", name)):
            so_far = close_to(given)  # the model that an interrupt leaves
            raise ModelError(f"The run {name} is unfinished. Resume it: okl train --resume {name}. {so_far}".strip())
    advice = f"{close_to(given, registered.others())} {WHAT_TO_GIVE}".strip()
    raise ModelError(f"No folder, run or registered model is named {given!r}. {advice}")


def _is_run(path: RemotePath) -> bool:
    """Return whether the model at a URL is that of a run; without an answer, reading fails later."""
    try:
        return not (path / DESCRIPTION).is_file() and (path / MODEL / DESCRIPTION).is_file()
    except DataError:
        return False


def run_named(name: str) -> Path | None:
    """Return the newest run in okl's home so named, with or without its date (logged); None if there is none."""
    runs = runs_named(name)
    if len(runs) > 1 and not any(run.name == name for run in runs):
        _LOG.warning("%s is %s, the newest of %d runs of this name.", name, runs[0].name, len(runs))
    return next((run for run in runs if run.name == name), runs[0] if runs else None)


def pinned(model: Location, registry: Location | None = None) -> str:
    """Return a permanent reference: NAME@NUMBER for NAME@ALIAS or NAME; a folder or URL as it is (`resolve_name`)."""
    reference = resolve_name(model, registry)
    return str(find_version(reference, registry)) if is_reference(reference) else reference


def load(model: Location, registry: Location | None = None) -> Model:
    """Open a model, given by its folder or URL, as NAME@ALIAS or NAME@NUMBER of a registry, or as in `resolve_name`.

    Every byte is checked against its digests, and no stored code is run. An alias is looked up once, and a version's
    files never change: if another version is promoted at the same time, the model is still of one version.

    Parameters
    ----------
    model : folder, URL, or reference; registry : folder or URL; None: OKL_REGISTRY, or `registry` in okl's home

    Raises
    ------
    ModelError : missing, damaged, incomplete, or written by a later okl
    RegistryError : no such model, version or alias; or the version was pruned
    """
    reference = resolve_name(model, registry)
    return find_version(reference, registry).load() if is_reference(reference) else load_model(reference)


def result_of_run(folder: Place) -> dict[str, Any]:
    """Return the result of the run of a model's folder; {} for a model outside the folder of its run."""
    try:
        read = json.loads((folder.parent / "result.json").read_text(encoding="utf-8"))
    except (OSError, DataError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def run_data(model: Location, registry: Location | None = None) -> str | None:
    """Return the location of the data set of the model's run; None if it is not there. model : as `load` has it."""
    reference = resolve_name(model, registry)
    folder = find_version(reference, registry).model_folder if is_reference(reference) else place_of(reference)
    location = (result_of_run(folder.absolute()).get("dataset") or {}).get("folder")
    return str(location) if location and is_dataset(location) else None
