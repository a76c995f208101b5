"""Export of a model, verified against okl's own scores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okl.data.dataset import Encoding, Schema
from okl.data.ingest.sources import SourceBatch
from okl.data.values import date_parts
from okl.foundation.errors import ConfigError, ModelError
from okl.foundation.folders import write_whole
from okl.foundation.locations import place_of
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_choice
from okl.models.file import Model
from okl.models.inputs import plain_means, prepare_rows
from okl.models.reference import load

Format = Literal["onnx", "skops"]
FORMATS: tuple[Format, ...] = get_args(Format)
EXTRAS = {"onnx": ("onnx", "onnxruntime"), "skops": ("skops",)}
N_CHECKED = 4096  # rows
TOLERANCE = 1e-5  # of the largest score, at least 1
Feeds = dict[str, NDArray[Any]]
Scorer = Callable[[Feeds], FloatArray]
Location = str | os.PathLike[str]


def export(model: Location, out: Location, format: Format = "onnx", registry: Location | None = None) -> dict[str, Any]:
    """Write a model as one file that other programs score raw rows with: `okl export`.

    Before the file is there, it scores made-up rows, spread as the training rows were, and okl does; scores that are
    more than 1e-5 of the largest one apart (of 1, if none is larger) are an error.

    Parameters
    ----------
    model : folder or URL of a model, or NAME@WHICH of a registry; out : file or URL to make
    format : "onnx" (scores, and labels or predictions; standard operators only) or "skops" (a pipeline of
        scikit-learn's own estimators, as `skops.io.load` opens it)
    registry : folder or URL of the registry that NAME@WHICH is looked up in; None: OKL_REGISTRY, or okl's home

    Returns
    -------
    model, out, format, bytes, rows (checked), largest_difference, rows_per_second (of that file's runtime, one thread)

    Raises
    ------
    ConfigError : a package is missing, the file exists, or the format cannot represent the model's kernel
    DataError : the file cannot be written
    RegistryError : no such model, version or alias; or the version was pruned
    ModelError : the model cannot be read or represented, or scores differ
    """
    check_choice("format", format, FORMATS)
    missing = [name for name in EXTRAS[format] if find_spec(name) is None]
    if missing:
        raise ConfigError(f"--format {format} requires {' and '.join(missing)}. Install: pip install 'okl[{format}]'.")
    out_path = place_of(os.fspath(out))
    if out_path.exists():
        raise ConfigError(f"{out_path} already exists and is not overwritten. Remove it, or choose another name.")
    opened = load(model, registry)
    if opened.schema.sparse is not None:
        raise ConfigError(
            f"The model takes sparse rows of {opened.schema.n_features:,} columns, which no export holds. Use okl "
            "predict, or okl.load in Python."
        )
    content, scorer = _as_onnx(opened) if format == "onnx" else _as_skops(opened)
    rows = made_up(opened.schema, N_CHECKED)
    feeds = feeds_of(opened.schema, rows)
    started_at = time.perf_counter()
    theirs = scorer(feeds)
    seconds = time.perf_counter() - started_at
    prepared = prepare_rows(opened.schema, SourceBatch("made-up rows", 0, rows), opened.precision)
    difference = largest_difference(opened.predictor.scores(prepared.inputs), theirs)
    if not difference <= TOLERANCE:
        raise ModelError(
            f"Scores of the exported model differ from okl's by {difference:.2g} of the largest score, more than "
            f"{TOLERANCE:g}. Nothing was written. Train with --precision float64, or with --scale standard."
        )
    write_whole(out_path, content)
    return {
        "model": os.fspath(model),
        "out": str(out_path),
        "format": format,
        "bytes": len(content),
        "rows": rows.num_rows,
        "largest_difference": difference,
        "rows_per_second": rows.num_rows / seconds,
    }


def largest_difference(ours: FloatArray, theirs: FloatArray) -> float:
    """Return the largest difference of scores, relative to the largest of ours or to 1."""
    apart = np.abs(np.asarray(theirs, dtype=np.float64).reshape(ours.shape) - ours)
    return float(apart.max() / max(1.0, float(np.abs(ours).max())))


def _as_onnx(model: Model) -> tuple[bytes, Scorer]:
    from onnxruntime import InferenceSession, SessionOptions

    from okl.models.onnx import to_onnx

    content: bytes = to_onnx(model).SerializeToString()
    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(content, options, providers=["CPUExecutionProvider"])
    scores = session.get_outputs()[0].name
    session.run([scores], feeds_of(model.schema, made_up(model.schema, 1)))  # what it prepares once is not timed
    return content, lambda feeds: np.asarray(session.run([scores], feeds)[0])


def _as_skops(model: Model) -> tuple[bytes, Scorer]:
    from skops.io import dumps, loads

    from okl.models.sklearn import to_sklearn

    content: bytes = dumps(to_sklearn(model))
    pipeline = loads(content)  # without any trusted type: the file holds scikit-learn's own only
    if model.schema.task == "regression":
        shift, factor = model.schema.target_shift_and_factor
        return content, lambda feeds: (np.asarray(pipeline.predict(_matrix(feeds))) - shift) * (factor or 1.0)
    return content, lambda feeds: np.asarray(pipeline.decision_function(_matrix(feeds)))


def _matrix(feeds: Feeds) -> NDArray[Any]:
    """Raw columns side by side, in the order of schema.source_columns."""
    return feeds[MATRIX] if MATRIX in feeds else np.stack([*feeds.values()], axis=1)


# Synthetic rows for the verification of an export.

MATRIX = "rows"  # what a graph calls the raw values of columns of numbers
UNSEEN = "a value that did not occur in training"
DAY_SECONDS = 86_400


def made_up(schema: Schema, n_rows: int) -> pa.RecordBatch:
    """Raw rows: numbers of double precision, normal about the training mean and within the training range.

    They are no float32 numbers, so that an export that does not round as okl does is found. Text has every category,
    one never seen, and none; dates are of four decades; where the model imputes missing values, one in eight numbers
    is missing.
    """
    random = np.random.default_rng(0)
    statistics = dict(zip(schema.features, schema.feature_statistics, strict=True))
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    arrays = {}
    for column in schema.source_columns:
        encoding = by_column.get(column)
        if encoding is not None and encoding.kind == "category":
            choices = pa.array(
                [*encoding.categories, UNSEEN, *([None] if schema.missing != "drop" else [])], pa.string()
            )
            arrays[column] = choices.take(pa.array(random.integers(len(choices), size=n_rows)))
        elif encoding is not None and encoding.kind != "number":
            arrays[column] = _dates(encoding, n_rows, random)
        else:
            moments = statistics[column if encoding is None else encoding.inputs[0]]
            drawn = moments.mean + moments.standard_deviation * random.standard_normal(n_rows)
            values = np.clip(drawn, moments.minimum, moments.maximum)
            imputed = schema.missing == "zero" or plain_means(schema) is not None or (encoding and encoding.fills)
            absent = random.random(n_rows) < 0.125 if imputed else np.zeros(n_rows, dtype=bool)
            arrays[column] = pa.array(values, mask=absent)
    return pa.record_batch(arrays)


def feeds_of(schema: Schema, batch: pa.RecordBatch) -> dict[str, NDArray[Any]]:
    """Return the inputs of a graph of `input_nodes`: a matrix, or a tensor for each column or part of a date."""
    if not schema.encodings:
        columns = [_numbers(batch.column(name)) for name in schema.features]
        return {MATRIX: np.stack(columns, axis=1)}
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    feeds: dict[str, NDArray[Any]] = {}
    for name in schema.source_columns:
        encoding, column = by_column.get(name), batch.column(name)
        if encoding is None or encoding.kind == "number":
            feeds[name] = _numbers(column)
        elif encoding.kind == "category":
            feeds[name] = column.fill_null("").to_numpy(zero_copy_only=False)
        else:
            parts = date_parts(column, encoding.kind == "timestamp", encoding.time_zone)
            feeds |= dict(zip(encoding.inputs, parts, strict=False))  # the input of missing dates is made in the graph
    return feeds


def _numbers(column: pa.Array) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values


def _dates(encoding: Encoding, n_rows: int, random: np.random.Generator) -> pa.Array:
    seconds = random.integers(0, 40 * 365 * DAY_SECONDS, size=n_rows)
    if encoding.kind == "date":
        return pa.array((seconds // DAY_SECONDS).astype(np.int32)).cast(pa.date32())
    return pa.array(seconds).cast(pa.timestamp("s", encoding.time_zone or None))
