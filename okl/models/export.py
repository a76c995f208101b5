"""Export of a model, verified against okl's own scores."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal, get_args
from zipfile import ZIP_DEFLATED

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okl.data.dataset import INDICES, VALUES, Schema
from okl.data.ingest.sources import SourceBatch
from okl.data.sparse import finite_sparse_rows, texts_of
from okl.data.values import date_parts
from okl.features.fourier import FourierFeatures
from okl.features.nystrom import NystromFeatures
from okl.features.predictors import LinearPredictor, base_of
from okl.foundation.errors import ConfigError, ModelError
from okl.foundation.folders import write_durably
from okl.foundation.locations import place_of
from okl.foundation.types import Doubles, FloatArray
from okl.foundation.validation import check_choice
from okl.models.file import Model
from okl.models.inputs import MATRIX, WORDS, plain_means, prepare_rows
from okl.models.reference import load, model_or_location

Format = Literal["onnx", "skops"]
FORMATS: tuple[Format, ...] = get_args(Format)
EXTRAS = {"onnx": ("onnx", "onnxruntime"), "skops": ("skops",)}
N_CHECKED, MOST_CHECKED = 4096, 2**23  # rows, and numbers of them
MOST_DENSE = 262_144  # columns of sparse rows that a file holds dense
MOST_MAP_NUMBERS = 2**27  # of landmarks or frequencies, which a file holds dense: ONNX files end at 2 GiB
TOLERANCE = 1e-5  # of the largest score; of classes, of 1 at least
Feeds = dict[str, NDArray[Any]]
Scorer = Callable[[Feeds], FloatArray]
Location = str | os.PathLike[str]


def export(
    model: Location | Model | Any,
    out: Location,
    format: Format | None = None,
    registry: Location | None = None,
) -> dict[str, Any]:
    """Write a model as one file that other programs score raw rows with: `okl export`.

    Before the file is there, it scores made-up rows, spread as the training rows were, and okl does; scores that are
    more than 1e-5 of the largest one apart (of classes, of 1 if none is larger) are an error.

    Parameters
    ----------
    model : folder or URL of a model, NAME@VERSION of a registry, the result of a run, a model in memory, or a
        fitted automatic estimator
    out : file or URL to make
    format : "onnx" (scores, and labels or predictions; standard operators only) or "skops" (a pipeline of
        scikit-learn's own estimators, as `skops.io.load` opens it). ONNX takes sparse rows of at most 262,144 columns,
        as a dense matrix or as the words of each document. None: the ending of `out`
    registry : folder or URL of the registry that NAME@VERSION is looked up in; None: OKL_REGISTRY, or okl's home

    Returns
    -------
    model, out, format, bytes, rows (checked), largest_difference, rows_per_second (of that file's runtime, one thread)

    Raises
    ------
    ConfigError : a package is missing, the file exists, its ending is no format, or the format cannot represent the
        model's kernel
    DataError : the file cannot be written
    RegistryError : no such model, version or alias; or the version was pruned
    ModelError : the model cannot be read or represented, or scores differ
    """
    model = model_or_location(model)
    if format is None:
        ending = os.fspath(out).rpartition(".")[2]
        if ending not in FORMATS:
            raise ConfigError(f"{out} does not end in .onnx or .skops. Rename it, or set format to onnx or skops.")
        format = ending
    check_choice("format", format, FORMATS)
    missing = [name for name in EXTRAS[format] if find_spec(name) is None]
    if missing:
        raise ConfigError(f"--format {format} requires {' and '.join(missing)}. Install: pip install 'okl[{format}]'.")
    out_path = place_of(os.fspath(out))
    if out_path.exists():
        raise ConfigError(f"{out_path} already exists and is not overwritten. Remove it, or choose another name.")
    opened = model if isinstance(model, Model) else load(model, registry)
    if format == "onnx" and opened.schema.sparse is not None and opened.schema.n_features > MOST_DENSE:
        fewer = ", okl predict, or fewer terms (--max-terms)" if opened.schema.texts else " or okl predict"
        raise ConfigError(
            f"The model takes sparse rows of {opened.schema.n_features:,} columns, but ONNX holds rows dense, of at "
            f"most {MOST_DENSE:,}. Use --format skops{fewer}."
        )
    if opened.schema.sparse is not None and (numbers := _map_numbers(opened)) > MOST_MAP_NUMBERS:
        raise ConfigError(
            f"The feature map has {numbers:,} numbers for {opened.schema.n_features:,} columns, but a file holds at "
            f"most {MOST_MAP_NUMBERS:,}. Train with fewer landmarks or frequencies, or use okl predict."
        )
    content, scorer = _as_onnx(opened) if format == "onnx" else _as_skops(opened)
    n_rows = max(1, min(N_CHECKED, MOST_CHECKED // opened.schema.n_features))
    rows = synthetic_rows(opened.schema, n_rows)
    feeds = feeds_of(opened.schema, rows) if format == "onnx" else {MATRIX: matrix_of(opened.schema, rows)}
    started_at = time.perf_counter()
    theirs = scorer(feeds)
    seconds = time.perf_counter() - started_at
    prepared = prepare_rows(opened.schema, SourceBatch("made-up rows", 0, rows), opened.precision)
    least = 0.0 if opened.schema.task == "regression" else 1.0  # targets of classes are 1 and -1
    difference = largest_difference(opened.predictor.scores(prepared.inputs), theirs, least)
    if not difference <= TOLERANCE:
        raise ModelError(
            f"Scores of the exported model differ from okl's by {difference:.2g} of the largest score, more than "
            f"{TOLERANCE:g}. Nothing was written. Train with --precision float64, or with --scale standard."
        )
    write_durably(out_path, content)
    return {
        "model": "model in memory" if isinstance(model, Model) else os.fspath(model),
        "out": str(out_path),
        "format": format,
        "bytes": len(content),
        "rows": rows.num_rows,
        "largest_difference": difference,
        "rows_per_second": rows.num_rows / seconds,
    }


def largest_difference(ours: FloatArray, theirs: FloatArray, least: float = 0.0) -> float:
    """Return the largest difference of scores, relative to the largest of ours, or to the least such unit."""
    apart = np.abs(np.asarray(theirs, dtype=np.float64).reshape(ours.shape) - ours)
    return float(apart.max() / (max(least, float(np.abs(ours).max())) or 1.0))


def _as_onnx(model: Model) -> tuple[bytes, Scorer]:
    from onnxruntime import InferenceSession, SessionOptions

    from okl.models.onnx import to_onnx

    content: bytes = to_onnx(model).SerializeToString()
    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(content, options, providers=["CPUExecutionProvider"])
    scores = session.get_outputs()[0].name
    session.run([scores], feeds_of(model.schema, synthetic_rows(model.schema, 1)))  # what it prepares once is not timed
    return content, lambda feeds: np.asarray(session.run([scores], feeds)[0])


def _as_skops(model: Model) -> tuple[bytes, Scorer]:
    from skops.io import dumps, loads

    from okl.models.sklearn import to_sklearn

    content: bytes = dumps(to_sklearn(model), compression=ZIP_DEFLATED)
    pipeline = loads(content)  # without any trusted type: the file holds scikit-learn's own only
    if model.schema.task == "regression":
        shift, factor = model.schema.target_shift_and_factor
        return content, lambda feeds: (np.asarray(pipeline.predict(feeds[MATRIX])) - shift) * (factor or 1.0)
    return content, lambda feeds: np.asarray(pipeline.decision_function(feeds[MATRIX]))


def matrix_of(schema: Schema, batch: pa.RecordBatch) -> Any:
    """Return raw rows for a pipeline: columns in the order of schema.source_columns, or a sparse matrix."""
    if schema.sparse is not None and not schema.sparse.texts:
        return finite_sparse_rows(batch, schema.sparse, "rows", 0)
    numbers = [_numbers(batch.column(name)) for name in schema.dense.source_columns]
    texts = [np.array(texts_of(batch.column(text.column)), dtype=object) for text in schema.texts]
    return np.stack([*numbers, *texts], axis=1)


# Synthetic rows for the verification of an export.

UNSEEN = "a value that did not occur in training"
DAY_SECONDS = 86_400


def _map_numbers(model: Model) -> int:
    """Return the numbers of dense landmarks or frequencies of a model of sparse rows; 0 without a map."""
    predictor = base_of(model.predictor)
    feature_map = predictor.feature_map if isinstance(predictor, LinearPredictor) else None
    if isinstance(feature_map, NystromFeatures):
        return feature_map.n_landmarks * feature_map.n_inputs
    return feature_map.frequencies.size if isinstance(feature_map, FourierFeatures) else 0


MADE_VALUES = 30  # most values of a made-up sparse row


def synthetic_rows(schema: Schema, n_rows: int) -> pa.RecordBatch:
    """Draw synthetic raw rows: float64 numbers, normal about the training mean and within the training range.

    They are no float32 numbers, so that an export that does not round as okl does is found. Text has every category,
    one never seen, and none; dates are of four decades; where the model imputes missing values, one in eight numbers
    is missing.
    """
    random = np.random.default_rng(0)
    statistics = dict(zip(schema.features, schema.feature_statistics, strict=True))
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    arrays = _sparse(schema, n_rows, random)
    for column in schema.dense.source_columns:
        encoding = by_column.get(column)
        if encoding is not None and encoding.kind == "category":
            choices = pa.array(
                [*encoding.categories, UNSEEN, *([None] if schema.missing != "drop" else [])], pa.string()
            )
            arrays[column] = choices.take(pa.array(random.integers(len(choices), size=n_rows)))
        elif encoding is not None and encoding.kind != "number":
            seconds = random.integers(0, 40 * 365 * DAY_SECONDS, size=n_rows)
            times = pa.array(seconds).cast(pa.timestamp("s", encoding.time_zone or None))
            kinds = {"date": pa.date32(), "time": pa.time32("s")}
            arrays[column] = times.cast(kinds.get(encoding.kind, times.type))
        else:
            moments = statistics[column if encoding is None else encoding.inputs[0]]
            drawn = moments.mean + moments.standard_deviation * random.standard_normal(n_rows)
            values = np.clip(drawn, moments.minimum, moments.maximum)
            imputed = schema.missing == "zero" or plain_means(schema) is not None or (encoding and encoding.fills)
            absent = random.random(n_rows) < 0.125 if imputed else np.zeros(n_rows, dtype=bool)
            arrays[column] = pa.array(values, mask=absent)
    return pa.record_batch({column: arrays[column] for column in schema.source_columns})


def _sparse(schema: Schema, n_rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    """Return made-up texts of known and unknown words, some of them empty, or made-up sparse rows."""
    if schema.sparse is None:
        return {}
    lengths = random.integers(0, min(MADE_VALUES, schema.sparse.n_columns) + 1, n_rows)
    if schema.sparse.texts:
        made = {}
        for text in schema.sparse.texts:
            words = np.array([*text.terms, UNSEEN.title()], dtype=object)
            made[text.column] = pa.array([" ".join(random.choice(words, length)) for length in lengths], pa.string())
        return made
    indices = [np.sort(random.choice(schema.sparse.n_columns, length, replace=False)) for length in lengths]
    values = pa.array(random.standard_normal(int(lengths.sum())).astype(np.float32))
    starts = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    flat = pa.array(np.concatenate(indices).astype(np.int32))
    return {name: pa.ListArray.from_arrays(starts, part) for name, part in ((INDICES, flat), (VALUES, values))}


def words_of(column: pa.Array) -> NDArray[Any]:
    """Return the words of each document as a graph takes them, (rows, most words), "" after the last one."""
    words = [re.findall(WORDS, text.lower()) for text in texts_of(column)]
    matrix = np.full((len(words), max(1, max(map(len, words), default=1))), "", dtype=object)
    for row, found in enumerate(words):
        matrix[row, : len(found)] = found
    return matrix


def feeds_of(schema: Schema, batch: pa.RecordBatch) -> dict[str, NDArray[Any]]:
    """Return the inputs of a graph of `input_nodes`: a matrix, or a tensor for each column or part of a date."""
    if schema.sparse is not None and not schema.sparse.texts:
        return {MATRIX: finite_sparse_rows(batch, schema.sparse, "rows", 0).toarray().astype(np.float64)}
    if not schema.encodings and not schema.texts:
        columns = [_numbers(batch.column(name)) for name in schema.features]
        return {MATRIX: np.stack(columns, axis=1)}
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    feeds = {text.column: words_of(batch.column(text.column)) for text in schema.texts}
    for name in schema.dense.source_columns:
        encoding, column = by_column.get(name), batch.column(name)
        if encoding is None or encoding.kind == "number":
            feeds[name] = _numbers(column)
        elif encoding.kind == "category":
            feeds[name] = column.fill_null("").to_numpy(zero_copy_only=False)
        else:
            parts = date_parts(column, encoding.kind, encoding.time_zone, encoding.has_calendar)
            feeds |= dict(zip(encoding.inputs, parts, strict=False))  # the input of missing dates is made in the graph
    return feeds


def _numbers(column: pa.Array) -> Doubles:
    values: Doubles = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values
