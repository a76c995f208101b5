"""The commands as Python functions: `okl.train`, `okl.compare`, `okl.ingest`, `okl.evaluate`, `okl.predict`, ..."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest as ingest_source
from okl.data.ingest.writer import Progress
from okl.foundation.errors import ConfigError, DataError, DivergedError, ModelError, OklError
from okl.foundation.settings import ONE_OF_MANY, IngestSettings, settings_from
from okl.foundation.telemetry import Observer
from okl.runs.run import IN_MEMORY
from okl.solvers.settings import TrainSettings

if TYPE_CHECKING:
    from okl.report.comparison import ComparisonResult
    from okl.report.results import RunResult

Place = str | os.PathLike[str]
TABLE = "table"
"""Name of the temporary file, and of the run, of a table in memory."""


def shown(observer: Observer | None) -> AbstractContextManager[Observer]:
    """Return a block with an observer, or with that of Python if it is None, which has ended after the block."""
    from okl.report.progress import observed, python_observer

    return observed(python_observer()) if observer is None else nullcontext(observer)


def train(data: Place | TrainSettings | Any, *, observer: Observer | None = None, **options: Any) -> RunResult:
    """Train on a data set, a source or a table, evaluate and save: `okl train` in this process, without Prefect.

    Parameters
    ----------
    data : folder of a data set, or a source; a table in memory (pandas, polars, Arrow) with the target column; or all
        settings at once, which `options` then change
    observer : observer of stages and progress; None: a bar in a terminal, lines in a notebook, nothing elsewhere
    options : fields of `TrainSettings`, such as frequencies=400, passes=3, workers=2, out="runs/first"; and for a
        source those of `IngestSettings`, such as target="churned", holdout=0.2, key="id", or all of them as ingest=...

    Returns
    -------
    RunResult : a mapping of what `okl train --json` prints, with attributes: model (the trained model), test, train and
    progressive (metrics), certificate, report (location of the page), run (folder), ...

    Raises
    ------
    OklError : the run failed; no incomplete files remain
    """
    from okl.report.results import RunResult
    from okl.runs.train import TrainingRun

    base: dict[str, Any] = {}
    if isinstance(data, TrainSettings):  # what was left open stays open: some defaults go by what else is given
        base = data.model_dump(exclude_unset=True)
        data = base.pop("data")
    with location_of(data) as location:
        given = _with_ingest(TrainSettings, {"data": location} | base | options, "okl.train")
        settings = settings_from(TrainSettings, given, "okl.train", others=OF_SOURCES)
        with shown(observer) as observer:
            return RunResult(TrainingRun(settings, observer, in_memory=is_in_memory(data)).perform())


def compare(data: Place | Any, *, observer: Observer | None = None, **options: Any) -> ComparisonResult:
    """Compare models on the same folds, and save the best: `okl compare`.

    Parameters
    ----------
    data : folder of a data set, a source, or a table in memory with the target column
    observer : observer of stages and progress; None: a bar in a terminal, lines in a notebook, nothing elsewhere
    options : fields of `CompareSettings`, such as models="c-svm,logistic", folds=5, out="runs/first"; and for a source
        or table those of `IngestSettings`, such as target="churned"

    Returns
    -------
    what `okl compare --json` prints, as a `ComparisonResult`: the table, the winner, its certificate and its model

    Raises
    ------
    OklError : the settings, the data or a fit is wrong; no incomplete files remain
    """
    from okl.report.comparison import ComparisonResult
    from okl.runs.compare import ComparisonRun
    from okl.runs.compare_settings import CompareSettings

    with location_of(data) as location:
        given = _with_ingest(CompareSettings, {"data": location} | options, "okl.compare")
        settings = settings_from(CompareSettings, given, "okl.compare", others=OF_SOURCES)
        with shown(observer) as observer:
            return ComparisonResult(ComparisonRun(settings, observer, in_memory=is_in_memory(data)).perform())


def ingest(
    source: Place,
    destination: Place,
    settings: IngestSettings | None = None,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    """Turn Parquet, CSV, JSON lines or svmlight text into a sharded data set: `okl ingest`.

    Parameters
    ----------
    source : file, folder or glob; destination : folder of the data set
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


def evaluate(
    model: Place | Any, source: Place | Any = None, *, observer: Observer | None = None, **options: Any
) -> dict[str, Any]:
    """Evaluate a saved model on labelled rows, out of core: `okl evaluate`.

    Parameters
    ----------
    model : folder of a model, NAME@VERSION of a registry, the result of a run, a model that `okl.load` returns, or a
        fitted `okl.KernelClassifier` or `okl.KernelRegressor`
    source : data set, or raw rows with the target column: files, or a table in memory; None: the data set of the run
    options : fields of `EvaluateSettings`: split="test", threshold, recall, precision, registry, workers, threads

    Returns
    -------
    model, source, split, rows, seconds, metrics, and learnt_rows: how many of the rows the model is known to have
    learned from

    Raises
    ------
    OklError : rows that do not fit the model; a label never seen in training
    """
    from okl.runs.evaluate import EvaluateSettings, evaluate_model

    with _location_of_model(model) as place, location_of(source) as location:
        given = _plain({"model": place, "source": location} | options)
        with shown(observer) as observer:
            measured = evaluate_model(settings_from(EvaluateSettings, given, "okl.evaluate"), observer)
        measured |= {"source": IN_MEMORY} if is_in_memory(source) else {}
        return measured | _named(model, "model")


def predict(
    model: Place | Any,
    source: Place | Any,
    out: Place | None = None,
    *,
    observer: Observer | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Score raw rows or a data set with a saved model, out of core, in the order of the rows.

    `okl predict`.

    `okl.load(model).predict(rows)` returns the labels or numbers of rows in memory.

    Parameters
    ----------
    model : as of `evaluate`; source : rows, or a table in memory
    out : new folder for Parquet files of scores, or new file (.csv, .parquet); required
    options : fields of `ScoreSettings`: keys, registry, workers, scheduler, threads

    Returns
    -------
    model, source, out, rows, scored (those that miss no value), files, seconds, rows_per_second, and counts of the
    predicted labels or the mean prediction, of scored rows

    Raises
    ------
    OklError : the run failed; no incomplete files remain
    """
    from okl.runs.predict import ONE_FILE, ScoreSettings, ScoringRun, score_to_file

    if out is None:
        raise ConfigError(
            'okl.predict writes scores to files: give it out="scores.csv". For predictions in memory, use '
            "okl.load(MODEL).predict(rows), or estimator.predict(rows)."
        )
    with _location_of_model(model) as place, location_of(source) as location:
        given = _plain({"model": place, "source": location, "out": out} | options)
        settings = settings_from(ScoreSettings, given, "okl.predict")
        with shown(observer) as observer:
            if settings.out.endswith(ONE_FILE):
                scored = score_to_file(settings, observer)
            else:
                scored = ScoringRun(settings, observer).perform()
        scored |= {"source": IN_MEMORY} if is_in_memory(source) else {}
        return scored | _named(model, "model")


def explain(
    model: Place | Any, source: Place | Any = None, *, observer: Observer | None = None, **options: Any
) -> dict[str, Any]:
    """Describe a saved model and compute the importance of its columns: `okl explain`.

    Parameters
    ----------
    model : as of `evaluate`, or the name of a run
    source : labelled rows, raw or a data set, or a table in memory; None: the data set of the model's run
    options : fields of `ExplainSettings`: registry, rows, optimise, repeats, seed

    Returns
    -------
    what it is, its configuration and lineage, the metrics and certificate of its run, and importance, as
    `okl explain --json` prints

    Raises
    ------
    OklError : the model cannot be read, or the rows do not fit it
    """
    from okl.runs.explain import ExplainSettings
    from okl.runs.explain import explain as run

    with _location_of_model(model) as place, location_of(source) as location:
        given = _plain({"model": place, "source": location} | options)
        with shown(observer) as observer:
            found = run(settings_from(ExplainSettings, given, "okl.explain"), observer)
        if is_in_memory(source):
            found["importance"]["on"] = f"rows of a {IN_MEMORY}"
        return found | _named(model, "model", "folder")


# Models in memory, which are saved for the time of a call

SAVED = "model in memory"


@contextmanager
def _location_of_model(model: Place | Any) -> Iterator[Place]:
    """Yield the location of a model: as given, of a run's result, or of a temporary copy; or raise ModelError."""
    from okl.models.file import Model
    from okl.models.reference import model_or_location

    model = model_or_location(model)
    if not isinstance(model, Model):
        yield model
        return
    with TemporaryDirectory(prefix="okl-model-") as folder:
        model.save(location := Path(folder) / "model")
        try:
            yield location
        except OklError as error:
            raise type(error)(str(error).replace(str(location), f"the {SAVED}")) from None


def _named(model: Place | Any, *entries: str) -> dict[str, str]:
    """Return what a result has instead of the location of a temporary copy."""
    from okl.models.file import Model
    from okl.models.reference import model_or_location

    return dict.fromkeys(entries, SAVED) if isinstance(model_or_location(model), Model) else {}


# Tables in memory, which the commands read from a temporary file


def is_in_memory(data: Any) -> bool:
    """Return whether rows are a table, and no location."""
    return not (data is None or isinstance(data, str | os.PathLike))


def in_python(text: str) -> str:
    """Return a message with the options of commands that name a column as arguments.

    >>> in_python("Leave it out (--drop t) or use --key 'a b'. Name the target: --target NAME. Remove --text.")
    'Leave it out (drop="t") or use key="a b". Name the target: target="NAME". Remove text.'
    """
    text = re.sub(r"--(target|key|drop|category|text) (?:'([^']+)'|([\w./-]*\w))", r'\1="\2\3"', text)
    return text.replace("--text", "text")


@contextmanager
def location_of(
    data: Place | Any | None, name: str = TABLE, reworded: Callable[[str], str] = in_python
) -> Iterator[str | None]:
    """Yield the location of rows: as given, or of a temporary Parquet file of a table; or raise ModelError.

    reworded : changes the options of commands in the messages of errors
    """
    with TemporaryDirectory(prefix="okl-rows-") if is_in_memory(data) else nullcontext("") as folder:
        location, file = data, ""
        if folder:
            import pyarrow as pa
            import pyarrow.parquet as pq

            from okl.models.inputs import table_of

            if hasattr(data, "dtype") and not hasattr(data, "iloc"):
                raise ModelError(
                    f"Got an array ({type(data).__name__}); expected a table with named columns, such as a pandas "
                    "DataFrame. The estimators okl.KernelClassifier and okl.KernelRegressor take arrays."
                )
            location = file = str(Path(folder) / f"{name}.parquet")
            table = table_of(data)
            try:
                pq.write_table(table, file, compression="none")
            except pa.ArrowNotImplementedError as error:
                raise ModelError(f"{name} has a column of a type that Parquet files do not have: {error}") from None
        try:
            yield None if location is None else os.fspath(location)
        except (DataError, DivergedError) as error:
            said = str(error).replace(file, name) if file else str(error)
            raise type(error)(reworded(said)) from None


def _with_ingest(kind: type[BaseModel], options: dict[str, Any], where: str) -> dict[str, Any]:
    """Return options with those of ingestion gathered as "ingest"."""
    options, own = _plain(options), kind.model_fields.keys()
    of_source = {name: options[name] for name in options if name in OF_SOURCES and name not in own}
    given = {name: value for name, value in options.items() if name not in of_source}
    if of_source:
        before = given.get("ingest") or {}
        before = before.model_dump(exclude_unset=True) if isinstance(before, IngestSettings) else dict(before)
        given["ingest"] = settings_from(IngestSettings, before | of_source, where)
    return given


OF_SOURCES = tuple(IngestSettings.model_fields)
SEVERAL = {one: several for several, one in ONE_OF_MANY.items()}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values by the names of settings or options such as key; paths become text, as in JSON and TOML."""
    named = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in values.items()}
    for one in SEVERAL.keys() & values.keys():
        if (several := SEVERAL[one]) not in named:
            value = named.pop(one)
            named[several] = (value,) if isinstance(value, str) else value
    return named
