"""Prediction with a saved model, from files and from streams."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from okl.data.ingest.csv import packed_ending
from okl.data.ingest.sources import altered_columns
from okl.distributed.cluster_file import check_execution_options
from okl.features.predictors import CalibratedPredictor
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.folders import RunFolder, atomic_file, check_published, output_folder
from okl.foundation.locations import Place, place_of
from okl.foundation.settings import Columns, ExecutionSettings
from okl.foundation.telemetry import NullObserver, Observer, run_logger
from okl.models.file import Model
from okl.models.inputs import Replaced, predictions, prepare_rows, refuse_nonfinite, replaced_sentences
from okl.models.pieces import TablePiece, check_pieces, read_table, table_pieces
from okl.models.reference import REGISTRY, is_reference, load, pinned
from okl.runs.run import Run

_LOG = run_logger()

# Scores of one piece

PREDICTION, PROBABILITY = "prediction", "probability_"
ONE_FILE = (".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class ScorePiece:
    """Score the rows of a piece and write them as one Parquet file, by a temporary file that is renamed."""

    model: Model
    keys: tuple[str, ...]
    folder: Place

    def __call__(self, piece: TablePiece) -> dict[str, Any]:
        """Write the file of a piece; see `write`."""
        with (
            atomic_file(self.folder / f"part-{piece.index:05d}.parquet") as partial_path,
            pq.ParquetWriter(partial_path, self.output_schema(piece), compression="zstd") as writer,
        ):
            return self.write(piece, writer)

    def write(self, piece: TablePiece, writer: pacsv.CSVWriter | pq.ParquetWriter) -> dict[str, Any]:
        """Return the numbers of rows, of rows with a score, of each predicted label (or the sum of predictions), and of
        replaced values; see `okl.models.inputs.Replaced`.
        """
        counts: Counter[Any] = Counter()
        replaced: Replaced = Counter()
        rows, scored, total = 0, 0, 0.0
        for batch, predicted, some in self.batches(piece):
            replaced.update(some)
            if self.model.schema.task == "regression":
                total += float(predicted.sum())
            else:
                counts.update(predicted.tolist())
            writer.write_batch(batch)
            rows, scored = rows + batch.num_rows, scored + len(predicted)
        return {"rows": rows, "scored": scored, "counts": counts, "total": total, "replaced": replaced}

    def batches(self, piece: TablePiece) -> Iterator[tuple[pa.RecordBatch, NDArray[Any], Replaced]]:
        """Return keys, scores, predictions, those of complete rows, and replaced values; DivergedError, DataError."""
        schema, model = self.output_schema(piece), piece.schema_for(self.model.schema)
        columns, predictor = [*model.source_columns, *self.keys], self.model.predictor
        for source in read_table(piece, list(dict.fromkeys(columns)), exact=self.keys):
            raw = prepare_rows(model, source, self.model.precision)
            scores = predictor.scores(raw.inputs)
            predicted = predictions(self.model.schema, scores)
            absent = None if raw.complete is None else ~raw.complete
            refuse_nonfinite(model, scores, predicted, absent, source.file, source.first_row)
            arrays = [source.batch.column(name) for name in self.keys]
            arrays += [pa.array(np.ascontiguousarray(column), mask=absent) for column in np.atleast_2d(scores.T)]
            arrays.append(pa.array(predicted, type=schema.field("prediction").type, mask=absent))
            if isinstance(predictor, CalibratedPredictor):
                arrays += [pa.array(column, mask=absent) for column in predictor.probabilities(scores).T.copy()]
            complete = predicted if absent is None else predicted[~absent]
            yield pa.record_batch(arrays, schema=schema), complete, raw.replaced

    def output_schema(self, piece: TablePiece) -> pa.Schema:
        """Return the schema: unchanged keys, score (one for each of several classes), prediction, probabilities.

        A prediction that is the score has its precision: one number of two types would be printed in two ways.
        """
        model, precision = self.model.schema, pa.from_numpy_dtype(np.dtype(self.model.precision))
        fields = [piece.schema.field(name) for name in self.keys]
        no_scores = np.zeros((1, model.n_outputs)) if model.n_outputs > 1 else np.zeros(1)
        is_score = model.task == "regression" and not model.scale_target
        prediction = precision if is_score else pa.array(predictions(model, no_scores)).type
        for name in output_names(self.model):
            kind = prediction if name == PREDICTION else pa.float64() if name.startswith(PROBABILITY) else precision
            fields.append(pa.field(name, kind))
        return pa.schema(fields)


def output_names(model: Model) -> list[str]:
    """Return columns that scoring adds to the keys: scores, the prediction, and any probabilities of classes."""
    schema = model.schema
    scores = [f"score_{label}" for label in schema.labels] if schema.task == "multiclass" else ["score"]
    probabilities = [f"{PROBABILITY}{label}" for label in schema.labels] if model.has_probabilities else []
    return [*scores, PREDICTION, *probabilities]


# Scoring of files to a folder

SCORE_STAGES = ("check", "score", "report")


class ScoreSettings(ExecutionSettings):
    """Settings of scoring: model, rows and destination, and where the work runs."""

    model: str = Field(description="folder or URL of a model, or NAME@VERSION of a registry, such as NAME@champion")
    registry: str | None = Field(None, description=REGISTRY)
    source: str = Field(description="raw rows (Parquet, CSV, JSON lines, svmlight) or the folder of a data set")
    out: str = Field(description="new folder or URL for the scores, or a new file (.csv, .parquet)")
    keys: Columns = Field((), description="columns to copy to the scores, besides the model's own keys")
    threshold: float | None = Field(
        None, description="probability from which on the second of two classes is predicted; none: the model's own"
    )


@dataclass(eq=False)
class ScoringRun(Run[ScoreSettings]):
    """Scoring run."""

    STAGES = SCORE_STAGES

    def __post_init__(self) -> None:
        super().__post_init__()
        self.output = output_folder(place_of(self.settings.out).absolute())

    @property
    def name(self) -> str:
        return self.folder.name

    def check(self) -> dict[str, Any]:
        """Open the model, an alias resolved once for all rows, split the source into pieces, check their columns."""
        self.settings = self.settings.model_copy(update={"model": pinned(self.settings.model, self.settings.registry)})
        self.model, self.pieces, self.keys = check_score(self.settings)
        return {"pieces": len(self.pieces), "keys": list(self.keys)}

    def score(self) -> dict[str, Any]:
        """Score all pieces, each to its own file."""
        started, output = time.perf_counter(), self.output
        assert output is not None
        output.open()
        # workers upload to a URL themselves
        work = ScorePiece(self.model, self.keys, output.staging if isinstance(output, RunFolder) else output.folder)
        parts = self.execution.map(work, self.pieces)
        self._result = summed(parts, self.settings, self.model, self.pieces, self.observer, started)
        self._result["out"] = str(self.folder)
        return {name: self._result[name] for name in ("rows", "scored", "seconds")}

    def report(self) -> dict[str, Any]:
        self.complete("_scores.json")  # readers of Parquet folders skip names with an underscore
        return {"out": str(self.folder)}

    def report_markdown(self) -> str:
        from okl.report.format import flatten
        from okl.report.render import plain

        result = {name.replace("_", " "): value for name, value in self._result.items()}
        sentence = f"{result['scored']:,} of {result['rows']:,} rows scored by {result['model']}."
        rows = [f"| {plain(name)} | {plain(text)} |" for name, text in flatten(result)]
        return "\n".join(["# Scores", "", plain(sentence), "", "| Figure | Value |", "|---|---:|", *rows, ""])

    def metrics_table(self) -> list[dict[str, Any]]:
        """Return the label counts or the mean prediction, one per row, and the number of rows without a score."""
        counts = dict(self._result.get("predictions") or {"mean": self._result.get("mean_prediction")})
        if bare := self._result.get("rows", 0) - self._result.get("scored", 0):
            counts["(no score)"] = bare
        return [{"prediction": name, "value": value} for name, value in counts.items()]


def summed(
    parts: Iterable[dict[str, Any]],
    settings: ScoreSettings,
    model: Model,
    pieces: Sequence[TablePiece],
    observer: Observer,
    started: float,
) -> dict[str, Any]:
    """Return the summary of the scores of all pieces; the observer gets the progress in rows."""
    counted = [piece.rows for piece in pieces]
    expected = 0 if None in counted else sum(rows or 0 for rows in counted)
    done, scored, counts, total, replaced = 0, 0, Counter[Any](), 0.0, Counter[str]()
    for part in parts:
        done, scored, total = done + part["rows"], scored + part["scored"], total + part["total"]
        counts.update(part["counts"])
        replaced.update(part["replaced"])
        observer.advance(done, expected, {})
    seconds = time.perf_counter() - started
    result: dict[str, Any] = {
        "model": settings.model,
        "source": settings.source,
        "out": settings.out,
        "rows": done,
        "scored": scored,
        "files": len(pieces),
        "seconds": seconds,
        "rows_per_second": done / max(seconds, 1e-9),
        "warnings": replaced_sentences(replaced, model.schema),
    }
    if model.schema.task == "regression":
        return result | {"mean_prediction": total / scored if scored else None}
    return result | {"predictions": {str(label): counts[label] for label in model.schema.labels}}


# Fields of the folder of scores

FIELD = re.compile(r"\{(date|time|run|version)\}")


def fill_out_fields(settings: ScoreSettings, due: datetime, run: str) -> ScoreSettings:
    """Return settings with the fields {date}, {time}, {run} and {version} of `out` filled in; a retry gets the same.

    With {version}, the model is fixed to that version, so that the name of the folder matches its scores.
    """
    fields = set(FIELD.findall(settings.out))
    if not fields:
        return settings
    due, model = due.astimezone(UTC), settings.model
    values = {"date": f"{due:%Y-%m-%d}", "time": f"{due:%Y-%m-%dT%H%M%S}", "run": run[:8]}
    if "version" in fields:
        if not is_reference(model):
            raise ConfigError(
                f"out = {settings.out} contains {{version}}, but {model} is not registered. Give NAME@VERSION."
            )
        model = pinned(model, settings.registry)
        values["version"] = model.rpartition("@")[2]
    out = FIELD.sub(lambda match: values[match[1]], settings.out)
    return settings.model_copy(update={"model": model, "out": out})


def check_score(settings: ScoreSettings, look: bool = True) -> tuple[Model, Sequence[TablePiece], tuple[str, ...]]:
    """Validate the settings before rows are scored; return the model, the pieces and the key columns.

    look : whether long CSV files are read for the types of their columns
    Raises OklError : the model or the source cannot be opened, they do not fit each other, or the destination exists
    """
    check_published(place_of(settings.out))
    check_execution_options(settings)
    model = load(settings.model, settings.registry).with_threshold(settings.threshold)
    inputs = set(model.schema.source_columns)
    exact = {*model.schema.keys, *settings.keys} - inputs  # numeric inputs of the model must stay numbers
    pieces = table_pieces(settings.source, model.schema, look, exact)
    columns = pieces[0].schema
    check_pieces(model.schema, pieces, settings.source)
    if missing := [name for name in settings.keys if name not in columns.names]:
        raise ConfigError(
            f"{settings.source} has no key column {missing[0]!r}. Its columns are {', '.join(columns.names[:8])}."
        )
    keys = (*(name for name in model.schema.keys if name in columns.names), *settings.keys)
    if taken := [name for name in keys if name in output_names(model)]:
        raise ConfigError(f"Key column {taken[0]!r} has the same name as an output column. Rename it in the source.")
    if look and (lost := altered_columns([source.piece for source in pieces], inputs.intersection(keys))):
        raise DataError(
            f"{settings.source}: column {min(lost)!r} is a numeric input and a key, but has values such as 00501 that "
            "change when written as numbers. Remove the key, or use a copy of the column under another name."
        )
    return model, pieces, tuple(dict.fromkeys(keys))


# Scoring to one file or stream, in this process and without records


def score_to_file(settings: ScoreSettings, observer: Observer) -> dict[str, Any]:
    """Score rows in order to a new CSV or Parquet file, return the summary; OklError leaves no file."""
    if settings.workers or settings.scheduler or settings.cluster:
        raise ConfigError(
            f"{settings.out} is one file, which this process writes alone. With workers, give a folder as --out."
        )
    check_score(settings, look=False)
    with atomic_file(place_of(settings.out), replaces=False) as partial_path:
        partial_path.parent.mkdir(parents=True, exist_ok=True)
        return _score(settings, partial_path, observer)


PARQUET = b"PAR1"  # first bytes of a Parquet file
SVMLIGHT = re.compile(rb"\s*[-+.\deE]+(\s+\d+:|\s+-\d+:|\s*#|\s*$)")  # first line of svmlight text


def score_stream(
    model: str,
    rows: BinaryIO,
    out: BinaryIO,
    keys: Sequence[str] = (),
    registry: str | None = None,
    threshold: float | None = None,
) -> int:
    """Score rows of CSV with a header line, of JSON lines, svmlight text or Parquet to CSV; return the number of rows.

    Column types are certain only after all rows were read, so rows go to a temporary file first.

    model : folder of a model, its URL, or NAME@VERSION; registry : see `okl.load`; rows : raw rows
    out : destination of key columns, scores, predictions and probabilities, in the order of the rows
    keys : columns to copy, besides the model's own keys; threshold : see `ScoreSettings`
    Raises OklError : as `okl predict`; nothing is written then
    """
    with tempfile.TemporaryDirectory(prefix="okl-rows-") as folder:
        file = _write_stream(rows, Path(folder))
        settings = ScoreSettings(
            model=model, registry=registry, source=str(file), out="", keys=tuple(keys), threshold=threshold
        )
        try:
            return score_to_stream(settings, out)
        except (DataError, DivergedError) as error:
            raise type(error)(str(error).replace(str(file), "standard input")) from None


def score_to_stream(settings: ScoreSettings, out: BinaryIO) -> int:
    """Score rows to CSV and return their number; OklError, also for a late row, leaves nothing written."""
    with tempfile.TemporaryDirectory(prefix="okl-scores-") as folder:
        file = Path(folder) / "scores.csv"
        result = _score(settings.model_copy(update={"out": str(file)}), file, NullObserver())
        with file.open("rb") as stream:
            shutil.copyfileobj(stream, out)
    for sentence in result["warnings"]:
        _LOG.warning("%s", sentence)
    return int(result["rows"])


def _score(settings: ScoreSettings, file: Path, observer: Observer) -> dict[str, Any]:
    started = time.perf_counter()
    model, pieces, keys = check_score(settings)
    work = ScorePiece(model, keys, place_of(file.parent))
    observer.stage("score")
    schema, is_csv = work.output_schema(pieces[0]), settings.out.endswith(".csv")
    with pacsv.CSVWriter(file, schema) if is_csv else pq.ParquetWriter(file, schema, compression="zstd") as writer:
        return summed((work.write(piece, writer) for piece in pieces), settings, model, pieces, observer, started)


def _write_stream(rows: BinaryIO, folder: Path) -> Path:
    """Write the stream to a file with a suffix for its format."""
    beginning = rows.read(len(PARQUET))
    if not beginning:
        raise DataError("Standard input is empty; expected CSV with a header line, JSON lines, or a Parquet file.")
    packed = packed_ending(beginning)
    if beginning != PARQUET and not packed:
        beginning += rows.readline()
    text = ".jsonl" if beginning.startswith(b"{") else ".svm" if SVMLIGHT.match(beginning) else f".csv{packed}"
    ending = ".parquet" if beginning == PARQUET else text
    file = folder / f"standard-input{ending}"
    with file.open("wb") as stream:
        stream.write(beginning)
        shutil.copyfileobj(rows, stream)
    return file
