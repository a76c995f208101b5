"""Python functions `okl.train`, `okl.ingest`, `okl.evaluate` and `okl.predict`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest as ingest_source
from okl.data.ingest.writer import Progress
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.telemetry import NullObserver, Observer
from okl.solvers.settings import TrainSettings

if TYPE_CHECKING:
    from okl.report.results import RunResult

Place = str | os.PathLike[str]
OF_SOURCE = IngestSettings.model_fields.keys() - TrainSettings.model_fields.keys()


def train(data: Place | TrainSettings, *, observer: Observer | None = None, **options: Any) -> RunResult:
    """Train on a data set or a source, evaluate and save: `okl train` in this process, without Prefect.

    Parameters
    ----------
    data : folder of a data set, or a source; or all settings at once, which `options` then change
    observer : observer of stages and progress
    options : fields of `TrainSettings`, such as frequencies=400, passes=3, workers=2, out="runs/first"; and for a
        source those of `IngestSettings`, such as target="churned", holdout=0.2, or all of them as ingest=...

    Returns
    -------
    RunResult : a mapping of what `okl train --json` prints, with attributes: model (the trained model), test, train and
    progressive (metrics), certificate, report (location of the page), run (folder), ...

    Raises
    ------
    OklError : the run failed; no incomplete files remain
    """
    from okl.runs.train import train as run

    if not isinstance(data, TrainSettings | str | os.PathLike):
        raise ConfigError(
            f"okl.train reads rows from files, but data is a {type(data).__name__}. Write it to a file (Parquet, CSV), "
            "or fit rows in memory with an estimator such as okl.KernelRidgeClassifier."
        )
    base_settings: dict[str, Any] = {"data": data}
    if isinstance(data, TrainSettings):  # what was left open stays open: some defaults go by what else is given
        base_settings = data.model_dump(exclude_unset=True)
    of_source = {name: value for name, value in options.items() if name in OF_SOURCE}
    given = base_settings | {name: value for name, value in options.items() if name not in of_source}
    if of_source:
        before = given.get("ingest") or {}
        before = before.model_dump() if isinstance(before, IngestSettings) else dict(before)
        given["ingest"] = settings_from(IngestSettings, before | of_source, "okl.train")
    return run(settings_from(TrainSettings, _plain(given), "okl.train"), observer)


def ingest(
    source: Place,
    destination: Place,
    settings: IngestSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Turn Parquet, CSV or svmlight text into a sharded data set: `okl ingest`.

    Parameters
    ----------
    source : file, directory or glob; destination : folder of the data set
    settings : how, which `options` then change; overwrite : replace a data set made from another source
    progress : called with the rows done and all rows (None if unknown)
    options : fields of `IngestSettings`, such as target="y", scale="standard", holdout=0.2

    Returns
    -------
    the data set, as `okl.open_dataset(destination)` does

    Raises
    ------
    OklError : the run failed; no incomplete files remain
    """
    given = settings.model_dump() if settings is not None else {}
    made = settings_from(IngestSettings, _plain(given | options), "okl.ingest")
    return ingest_source(os.fspath(source), os.fspath(destination), made, overwrite, progress).dataset


def evaluate(model: Place, source: Place, *, observer: Observer | None = None, **options: Any) -> dict[str, Any]:
    """Evaluate a saved model on labelled rows, out of core: `okl evaluate`.

    Parameters
    ----------
    model : folder of a model, or NAME@WHICH of a registry; source : data set, or raw rows with the target column
    options : fields of `EvaluateSettings`: split="test", registry, workers, scheduler, threads

    Returns
    -------
    model, source, split, rows, seconds, metrics, and learnt_rows: how many of the rows the model is known to have
    learned from

    Raises
    ------
    OklError : rows that do not fit the model; a label never seen in training
    """
    from okl.runs.evaluate import EvaluateSettings, evaluate_model

    given = _plain({"model": model, "source": source} | options)
    return evaluate_model(settings_from(EvaluateSettings, given, "okl.evaluate"), observer)


def predict(
    model: Place, source: Place, out: Place, *, observer: Observer | None = None, **options: Any
) -> dict[str, Any]:
    """Score raw rows or a data set with a saved model, out of core, as Parquet in the order of the rows.

    `okl predict`.

    Rows in memory are scored by `okl.load(model).predict(rows)`.

    Parameters
    ----------
    model : folder of a model, or NAME@WHICH of a registry; source : rows; out : folder to make for the scores
    options : fields of `ScoreSettings`: keys, registry, workers, scheduler, threads

    Returns
    -------
    model, source, out, rows, scored (those that miss no value), files, seconds, rows_per_second, and counts of the
    predicted labels or the mean prediction, of scored rows

    Raises
    ------
    OklError : the run failed; no incomplete files remain
    """
    from okl.runs.predict import ScoreSettings, ScoringRun

    given = _plain({"model": model, "source": source, "out": out} | options)
    settings = settings_from(ScoreSettings, given, "okl.predict")
    return ScoringRun(settings, observer or NullObserver()).perform()


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with paths as text, because settings contain only JSON and TOML values."""
    return {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}
