"""What Python callers use: the commands of `okl` as functions, without Prefect; options are the fields of settings."""

from __future__ import annotations

import os
from typing import Any

from okl.configuration import IngestSettings, TrainSettings, settings_from
from okl.progress import NullObserver, Observer, perform
from okl.store.dataset import Dataset
from okl.store.ingest import ingest as ingest_source
from okl.store.spreading import Progress

Place = str | os.PathLike[str]


def train(data: Place | TrainSettings, *, observer: Observer | None = None, **options: Any) -> dict[str, Any]:
    """Learn from a data set or a source, evaluate and save: `okl train` in this process, without Prefect.

    Parameters
    ----------
    data : folder of a data set, or a source with `ingest=IngestSettings(target=...)` (or a dict) beside it; or all
        settings at once, which `options` then change
    observer : is told the stages and the progress
    options : fields of `TrainSettings`, such as frequencies=400, passes=3, workers=2, out="runs/first"

    Returns
    -------
    what `okl train --json` prints: model (path), run (folder), rows, seconds, progressive, train, test, baselines, ...

    Raises
    ------
    OklError : one sentence that says what is wrong; nothing half-written stays
    """
    from okl.training import train as run

    given = data.model_dump() if isinstance(data, TrainSettings) else {"data": data}
    return run(settings_from(TrainSettings, _plain(given | options), "okl.train"), observer)


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
    progress : is told the rows done and the rows in all (None where only reading tells)
    options : fields of `IngestSettings`, such as target="y", scale="standard", holdout=0.2

    Returns
    -------
    the data set, as `okl.open_dataset(destination)` does

    Raises
    ------
    OklError : one sentence that says what is wrong; nothing half-written stays
    """
    given = settings.model_dump() if settings is not None else {}
    made = settings_from(IngestSettings, _plain(given | options), "okl.ingest")
    return ingest_source(os.fspath(source), os.fspath(destination), made, overwrite, progress).dataset


def evaluate(model: Place, source: Place, *, observer: Observer | None = None, **options: Any) -> dict[str, Any]:
    """Measure a saved model on labelled rows, out of core: `okl evaluate`.

    Parameters
    ----------
    model : folder of a model, or NAME@WHICH of a registry; source : data set, or raw rows with the target column
    options : fields of `EvaluateSettings`: split="test", registry, workers, scheduler, threads

    Returns
    -------
    model, source, split, rows, seconds, metrics

    Raises
    ------
    OklError : rows that do not fit the model; a label never seen in training
    """
    from okl.measuring import EvaluateSettings, evaluate_model

    given = _plain({"model": model, "source": source} | options)
    return evaluate_model(settings_from(EvaluateSettings, given, "okl.evaluate"), observer)


def predict(
    model: Place, source: Place, out: Place, *, observer: Observer | None = None, **options: Any
) -> dict[str, Any]:
    """Score raw rows or a data set with a saved model, out of core, as Parquet in the order of the rows: `okl predict`.

    Rows in memory are scored by `okl.load(model).predict(rows)`.

    Parameters
    ----------
    model : folder of a model, or NAME@WHICH of a registry; source : rows; out : folder to make for the scores
    options : fields of `ScoreSettings`: keys, registry, workers, scheduler, threads

    Returns
    -------
    model, source, out, rows, files, seconds, and counts of the predicted labels or the mean prediction

    Raises
    ------
    OklError : one sentence that says what is wrong; nothing half-written stays
    """
    from okl.scoring import SCORE_STAGES, ScoreSettings, ScoringRun

    given = _plain({"model": model, "source": source, "out": out} | options)
    settings = settings_from(ScoreSettings, given, "okl.predict")
    return perform(ScoringRun(settings, observer or NullObserver()), SCORE_STAGES)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Values with paths as text: settings hold what JSON and TOML can."""
    return {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}
