"""Models as ONNX graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper, numpy_helper

from okl.data.dataset import HOURS, WEEKDAYS, Encoding, Schema, TextColumn
from okl.data.values import YEAR_DAYS
from okl.features import predictors
from okl.features.base import FeatureMap
from okl.features.cells import CellTree
from okl.features.fourier import FourierFeatures, StructuredFeatures, dense_frequencies
from okl.features.linear import SparseInputs, StandardisedLinear
from okl.features.nystrom import NystromFeatures
from okl.foundation.errors import ConfigError, ModelError
from okl.foundation.types import FloatArray, Integers
from okl.kernels import Gaussian, Kernel, Laplacian, Linear, Matern32, Matern52, NamedKernel, Polynomial
from okl.models.file import Model
from okl.models.inputs import MATRIX, WORDS, plain_means

# Graph construction.

ROWS = "n_rows"  # the size of every first axis that is free
LAST = np.array([1])  # axis of the columns of rows


@dataclass(eq=False)
class Graph:
    """Nodes of ONNX's own operators, one named value each; names that are `taken` by inputs are avoided."""

    taken: set[str] = field(default_factory=set)
    _nodes: list[NodeProto] = field(default_factory=list)
    _constants: list[TensorProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str | NDArray[Any], name: str | None = None, **attributes: Any) -> str:
        """Add a node of inputs (names, or arrays as constants); return the name of its value."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        name = self.free(name or f"{operator.lower()}_{len(self._nodes)}")
        self._nodes.append(helper.make_node(operator, names, [name], name=f"make_{name}", **attributes))
        return name

    def column(self, value: str) -> str:
        """Return a value (rows,) as one column, (rows, 1)."""
        return self.add("Unsqueeze", value, LAST)

    def constant(self, values: NDArray[Any] | list[Any]) -> str:
        """Add an array that the graph holds; returns its name."""
        name = self.free(f"constant_{len(self._constants)}")
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def free(self, name: str) -> str:
        """Return the name, with underscores appended until it is free, and mark it as taken."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def cast(self, value: str, dtype: Any) -> str:
        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def finished(self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> GraphProto:
        return helper.make_graph(self._nodes, name, inputs, outputs, self._constants)


def values_of(name: str, dtype: Any, shape: list[str | int]) -> ValueInfoProto:
    """Return an input or output of a graph."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def kernel_nodes(graph: Graph, kernel: Kernel, inputs: str, vectors: FloatArray) -> str:
    """Return values k(x, v): (rows, n_vectors), of inputs (rows, n_inputs) with (n_vectors, n_inputs); or ConfigError.

    Distances are made in double precision: in single precision those of near rows would be lost in the squares.
    """
    compare, values = _nodes_of(kernel)
    return values(graph, kernel, compare(graph, inputs, vectors), vectors.dtype)


def kernel_row_nodes(graph: Graph, kernel: Kernel, row: str, vectors: str) -> str:
    """Return values k(x, v) (n_vectors,) of one row with vectors (n_vectors, n_inputs), all double; or ConfigError."""
    compare, values = _nodes_of(kernel)
    if compare is _products:
        return values(graph, kernel, graph.add("MatMul", vectors, row), np.float64)
    differences = graph.add("Sub", vectors, row)
    if compare is _absolute_distances:
        compared = graph.add("ReduceSum", graph.add("Abs", differences), LAST, keepdims=0)
    else:
        compared = graph.add("ReduceSumSquare", differences, LAST, keepdims=0)
    return values(graph, kernel, compared, np.float64)


def _nodes_of(kernel: Kernel) -> tuple[_Compare, _Values]:
    """Return functions that add what a kernel compares rows by, and its values from that, to a graph."""
    nodes = _NODES.get(type(kernel)) if isinstance(kernel, NamedKernel) else None
    if nodes is None:
        raise ConfigError(
            f"The kernel {kernel.name!r} cannot be exported to ONNX. Train with one of "
            f"{', '.join(kind.name for kind in _NODES)}."
        )
    return nodes


def _gaussian(graph: Graph, kernel: Gaussian, squares: str, dtype: Any) -> str:
    scaled = _times(graph, squares, -0.5 / kernel.bandwidth**2, np.float64)
    return graph.add("Exp", graph.cast(scaled, dtype))


def _matern32(graph: Graph, kernel: Matern32, squares: str, dtype: Any) -> str:
    s = _scaled_roots(graph, squares, 3.0**0.5 / kernel.bandwidth, dtype)
    return graph.add("Mul", _plus(graph, s, 1.0, dtype), graph.add("Exp", graph.add("Neg", s)))


def _matern52(graph: Graph, kernel: Matern52, squares: str, dtype: Any) -> str:
    s = _scaled_roots(graph, squares, 5.0**0.5 / kernel.bandwidth, dtype)
    third = _times(graph, graph.add("Mul", s, s), 1.0 / 3.0, dtype)
    polynomial = graph.add("Add", _plus(graph, s, 1.0, dtype), third)
    return graph.add("Mul", polynomial, graph.add("Exp", graph.add("Neg", s)))


def _laplacian(graph: Graph, kernel: Laplacian, sums: str, dtype: Any) -> str:
    return graph.add("Exp", _times(graph, sums, -1.0 / kernel.bandwidth, dtype))


def _polynomial(graph: Graph, kernel: Polynomial, products: str, dtype: Any) -> str:
    base = power = _plus(graph, _times(graph, products, kernel.scale, dtype), kernel.offset, dtype)
    for _ in range(kernel.degree - 1):  # Pow rounds to single precision in some runtimes
        power = graph.add("Mul", power, base)
    return power


def _linear(graph: Graph, kernel: Linear, products: str, dtype: Any) -> str:
    return products


def _products(graph: Graph, inputs: str, vectors: FloatArray) -> str:
    return graph.add("MatMul", inputs, vectors.T)


def _squared_distances(graph: Graph, inputs: str, vectors: FloatArray) -> str:
    """Return ||x - v||^2, at least 0, in double precision."""
    wide = vectors.astype(np.float64)
    x = graph.cast(inputs, np.float64)
    own = graph.add("ReduceSumSquare", x, LAST, keepdims=1)
    theirs = graph.constant((wide * wide).sum(axis=1)[None, :])
    products = _times(graph, _products(graph, x, wide), -2.0, np.float64)
    squares = graph.add("Add", graph.add("Add", own, theirs), products)
    return graph.add("Max", squares, np.array(0.0))


def _absolute_distances(graph: Graph, inputs: str, vectors: FloatArray) -> str:
    """Return sum_j |x_j - v_j| by a loop over inputs: all differences at once would take n_inputs times the memory."""
    dtype = vectors.dtype
    n_rows = graph.add("Shape", inputs, start=0, end=1)
    shape = graph.add("Concat", n_rows, np.array([len(vectors)]), axis=0)
    zeros = graph.add("ConstantOfShape", shape, value=helper.make_tensor("zero", _kind(dtype), [1], [0.0]))
    columns = graph.add("Transpose", inputs, perm=[1, 0])
    body, n_vectors = Graph(graph.taken), len(vectors)
    total, column, entries = (body.free(name) for name in ("sum", "column", "entries"))
    apart = body.add("Sub", body.column(column), body.add("Unsqueeze", entries, np.array([0])))
    more = body.add("Add", total, body.add("Abs", apart))
    sums: list[str | int] = ["rows_here", n_vectors]
    rows = values_of(column, dtype, ["rows_here"])
    taken = [values_of(total, dtype, sums), rows, values_of(entries, dtype, [n_vectors])]
    one_input = body.finished("one_input", taken, [values_of(more, dtype, sums)])
    return graph.add("Scan", zeros, columns, vectors.T, body=one_input, num_scan_inputs=2)


_Compare: TypeAlias = Callable[[Graph, str, FloatArray], str]
_Values: TypeAlias = Callable[[Graph, Any, str, Any], str]
_NODES: dict[type[NamedKernel], tuple[_Compare, _Values]] = {
    Gaussian: (_squared_distances, _gaussian),
    Laplacian: (_absolute_distances, _laplacian),
    Matern32: (_squared_distances, _matern32),
    Matern52: (_squared_distances, _matern52),
    Polynomial: (_products, _polynomial),
    Linear: (_products, _linear),
}


def _scaled_roots(graph: Graph, squares: str, factor: float, dtype: Any) -> str:
    return graph.cast(_times(graph, graph.add("Sqrt", squares), factor, np.float64), dtype)


def _times(graph: Graph, value: str, factor: float, dtype: Any) -> str:
    return graph.add("Mul", value, np.array(factor, dtype=dtype))


def _plus(graph: Graph, value: str, term: float, dtype: Any) -> str:
    return graph.add("Add", value, np.array(term, dtype=dtype))


def _kind(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


# Feature maps and predictors.

MOST_SINGLE = 100.0  # sum of the sizes of weights beyond which kernel values of single precision move scores by 1e-5


def score_nodes(graph: Graph, predictor: predictors.Predictor, inputs: str) -> str:
    """Return scores (rows, n_outputs) of inputs, in the predictor's precision.

    Raises ModelError : ONNX nodes for such a predictor or map are not known
    Raises ConfigError : its kernel is a function of the user's own
    """
    if isinstance(predictor, predictors.CalibratedPredictor):
        predictor = predictor.plain()
    if isinstance(predictor, predictors.KernelExpansion):
        if predictor.n_supports == 0:
            nothing = np.zeros((predictor.n_inputs, predictor.n_outputs), dtype=predictor.supports.dtype)
            sums = graph.add("MatMul", inputs, nothing)
        else:
            sums = _expansion_sums(graph, predictor, inputs)
        return _with_offsets(graph, sums, predictor.offsets)
    if isinstance(predictor, predictors.LocalExpansion):
        return _local_scores(graph, predictor, inputs)
    if not isinstance(predictor, predictors.LinearPredictor):
        raise ModelError(
            f"A predictor of kind {predictor.describe().get('kind')!r} cannot be exported to ONNX. Use okl predict."
        )
    scores = _linear_scores(graph, predictor.feature_map, predictor.weights, inputs)
    return _with_offsets(graph, scores, predictor.offsets)


def _expansion_sums(graph: Graph, predictor: predictors.KernelExpansion, inputs: str) -> str:
    """Return weighted sums of kernel values, in double precision where large weights cancel."""
    supports, weights = predictor.supports, predictor.coefficients.T
    wide = weights.dtype == np.float32 and float(np.abs(weights).sum(axis=0).max()) > MOST_SINGLE
    if wide:
        inputs, supports, weights = graph.cast(inputs, np.float64), supports.astype(np.float64), weights.astype(float)
    values = kernel_nodes(graph, predictor.kernel, inputs, supports)
    sums = graph.add("MatMul", values, weights)
    return graph.cast(sums, np.float32) if wide else sums


def _local_scores(graph: Graph, predictor: predictors.LocalExpansion, inputs: str) -> str:
    """Return means over partitions of the sums over the cell of each row, in double precision.

    A loop of the graph over rows: kernel values of all rows at once would take rows times the largest cell of memory.
    The file holds the supports once, in the order of the model.
    """
    wide = graph.cast(inputs, np.float64)
    body = Graph(graph.taken)
    index, more = body.free("index"), body.free("more")
    offsets, members, weights = list[str](), list[str](), list[str]()
    for partition in predictor.partitions:
        order, starts, coefficients = _without_empty_cells(partition)
        cells = _cell_nodes(graph, partition.tree, wide)
        offsets.append(graph.add("Gather", partition.offsets.astype(np.float64), cells))
        column = graph.column(cells)
        ends = [graph.add("Gather", each, column) for each in (starts[:-1], starts[1:])]
        here = [body.add("Gather", each, index) for each in ends]
        members.append(body.add("Slice", graph.constant(order), *here))
        weights.append(body.add("Slice", graph.constant(coefficients.T), *here))
    supports = predictor.supports if predictor.n_supports else np.zeros((1, predictor.n_inputs))
    chosen = body.add("Gather", graph.constant(supports), body.add("Concat", *members, axis=0))
    row = body.add("Gather", wide, index)
    values = kernel_row_nodes(body, predictor.kernel, row, body.cast(chosen, np.float64))
    sums = body.add("MatMul", values, body.cast(body.add("Concat", *weights, axis=0), np.float64))
    of_row = body.finished(
        "one_row",
        [values_of(index, np.int64, []), values_of(more, np.bool_, [])],
        [values_of(body.add("Identity", more), np.bool_, []), values_of(sums, np.float64, [predictor.n_outputs])],
    )
    n_rows = graph.add("Shape", inputs, start=0, end=1)  # Scan would refuse no rows
    total = graph.add("Sum", *offsets, graph.add("Loop", n_rows, "", body=of_row))
    return graph.cast(_times(graph, total, 1.0 / len(predictor.partitions), np.float64), predictor.precision)


def _without_empty_cells(partition: predictors.Partition) -> tuple[NDArray[np.int32], Integers, FloatArray]:
    """Return order, starts and coefficients in which an empty cell has one member with coefficients 0."""
    counts = np.diff(partition.starts)
    places = partition.starts[:-1][counts == 0]  # runtimes differ in products over nothing
    order = np.insert(partition.order, places, 0).astype(np.int32)
    coefficients: FloatArray = np.insert(partition.coefficients, places, 0.0, axis=1)
    return order, np.concatenate([[0], np.cumsum(np.maximum(counts, 1))]), coefficients


def _cell_nodes(graph: Graph, tree: CellTree, inputs: str) -> str:
    """Return the cell of each row, (rows,), of inputs in double precision: all rows go down one level after another."""
    n_rows = graph.add("Shape", inputs, start=0, end=1)
    at = graph.add("ConstantOfShape", n_rows, value=helper.make_tensor("zero", _kind(np.int64), [1], [0]))
    if not tree.depth:
        return at  # there is one cell
    directions, thresholds = graph.constant(tree.directions), graph.constant(tree.thresholds)
    children, zero, one = (graph.constant(each) for each in (tree.children.ravel(), np.array(0), LAST))
    for _ in range(tree.depth):
        split = graph.add("Max", at, zero)  # a row in its cell stays there
        products = graph.add("Mul", inputs, graph.add("Gather", directions, split))
        above = graph.add(
            "Greater", graph.add("ReduceSum", products, one, keepdims=0), graph.add("Gather", thresholds, split)
        )
        child = graph.add("Add", graph.add("Add", split, split), graph.cast(above, np.int64))
        at = graph.add("Where", graph.add("Less", at, zero), at, graph.add("Gather", children, child))
    return graph.add("Sub", np.array(-1), at)


def _with_offsets(graph: Graph, scores: str, offsets: FloatArray | None) -> str:
    return scores if offsets is None else graph.add("Add", scores, offsets[None, :])


def _linear_scores(graph: Graph, feature_map: FeatureMap, weights: FloatArray, inputs: str) -> str:
    if isinstance(feature_map, FourierFeatures):
        return _wave_scores(graph, feature_map.frequencies, weights, inputs)
    if isinstance(feature_map, StructuredFeatures):
        return _wave_scores(graph, dense_frequencies(feature_map), weights, inputs)
    if isinstance(feature_map, NystromFeatures):
        values = kernel_nodes(graph, feature_map.kernel, inputs, feature_map.dense_landmarks)
        features = graph.add("MatMul", values, feature_map.projection)
        return graph.add("MatMul", features, weights.T)
    if isinstance(feature_map, SparseInputs):
        n = feature_map.n_inputs  # then a constant column, if there is one
        sums = graph.add("MatMul", inputs, weights[:, :n].T)
        constant = weights[:, n:].sum(axis=1) * weights.dtype.type(feature_map.constant)
        return graph.add("Add", sums, constant[None, :]) if feature_map.constant else sums
    if isinstance(feature_map, StandardisedLinear):
        shifted = graph.add("Sub", inputs, feature_map.shift[None, :])
        slopes = (weights[:, :-1] * feature_map.factor).astype(weights.dtype)  # one pass over the rows less
        scores = graph.add("MatMul", shifted, slopes.T)
        constant = (weights[:, -1:].T * weights.dtype.type(feature_map.constant)).astype(weights.dtype)
        return graph.add("Add", scores, constant)
    raise ModelError(
        f"A feature map of kind {feature_map.describe().get('kind')!r} cannot be exported to ONNX. Use okl predict."
    )


def _wave_scores(graph: Graph, frequencies: FloatArray, weights: FloatArray, inputs: str) -> str:
    """Return sums of sines and cosines of x @ frequencies; both halves of the weights hold the map's own factor."""
    n_frequencies = frequencies.shape[1]
    scaled = (weights * n_frequencies**-0.5).astype(weights.dtype)
    angles = graph.add("MatMul", inputs, frequencies)
    halves = [
        graph.add("MatMul", graph.add(wave, angles), part.T)
        for wave, part in (("Sin", scaled[:, :n_frequencies]), ("Cos", scaled[:, n_frequencies:]))
    ]
    return graph.add("Add", *halves)


# Documentation of the inputs.

_DATES = ("date", "timestamp", "time")
PART_FORMULAS = {
    "years": f"days / {YEAR_DAYS}",
    "year_sin": "sin(2 * pi * day_of_year / days_of_year)",
    "year_cos": "cos(2 * pi * day_of_year / days_of_year)",
    "week_sin": "sin(2 * pi * weekday / 7)",
    "week_cos": "cos(2 * pi * weekday / 7)",
    "day_sin": "sin(2 * pi * share_of_day)",
    "day_cos": "cos(2 * pi * share_of_day)",
    **{name: f"weekday == {number}" for number, name in enumerate(WEEKDAYS)},
    **{name: f"floor(24 * share_of_day) == {number}" for number, name in enumerate(HOURS)},
}
"""Each part, see `okl.data.values.date_parts`, as a Python expression of what `_TERMS` names."""
_TERMS = (
    "days is the time since 2000-01-01 in days (whole ones where a column has no parts of the day), day_of_year counts "
    "from 0, days_of_year is 365 or 366, weekday is 0 on Mondays, and share_of_day is 0 at midnight and 0.5 at noon"
)


def date_formulas(schema: Schema) -> dict[str, str]:
    """Return the formula of each input that is a part of a date, by its name; {} for models without dates."""
    return {
        name: PART_FORMULAS[part]
        for encoding in schema.encodings
        for name, part in zip(encoding.inputs, encoding.parts, strict=False)
    }


def input_sentences(schema: Schema) -> str:
    """Describe the marks of missing values, their treatment, and the parts of dates."""
    kinds = {encoding.kind for encoding in schema.encodings}
    filled = {"mean": "the mean of the training rows", "zero": "0"}.get(schema.missing)
    numbers = "number or part of a date" if kinds.intersection(_DATES) else "number"
    if filled is None:
        sentences = ["Numbers must be finite: the scores of a row with NaN are NaN."]
    else:
        sentences = [f"NaN stands for a missing {numbers}, which becomes {filled}; other numbers must be finite."]
    if schema.missing_words:  # a graph takes numbers, of which -999 is one
        words = " and ".join(map(repr, schema.missing_words))
        sentences.append(f"Write NaN in place of {words}, which mean a missing value in rows for okl.")
    if "category" in kinds:
        dropped = ", and the scores of its row are NaN" if schema.missing == "drop" else ""
        sentences.append(f'"" stands for missing text{dropped}.')
    if kinds.intersection(_DATES):
        zones = {encoding.column: encoding.time_zone for encoding in schema.encodings if encoding.time_zone}
        clocks = "".join(f"; {column!r} is in the time zone {zone}" for column, zone in zones.items())
        sentences.append(f"Parts of dates are computed as in the property 'dates', where {_TERMS}{clocks}.")
    if schema.texts:
        sentences.append(
            f're.findall(r"{WORDS}", text.lower()) are the words of a text; behind the last one of a row, and in the '
            'place of a missing text, is "".'
        )
    return " ".join(sentences)


# Input nodes: one matrix, or a tensor for each column of a mixed table.

LABELS_DOMAIN = "ai.onnx.ml"
_OF_COLUMNS = ("number", "category")  # encodings whose tensor has the name of their column


def input_names(schema: Schema) -> set[str]:
    """Return names of the tensors that a graph takes; see `input_nodes`."""
    if not schema.encodings and not schema.texts:
        return {MATRIX}
    parts = {name for encoding in schema.encodings for name in encoding.inputs if encoding.kind not in _OF_COLUMNS}
    return {*schema.source_columns, *parts}


def input_nodes(graph: Graph, schema: Schema) -> tuple[str, list[ValueInfoProto]]:
    """Return raw inputs (rows, n_features), as float32 in double, before scaling, and what the graph takes for them.

    Columns of numbers alone are one matrix, `rows`. In a mixed table every source column is a tensor (rows,) of its
    name: double, or text for categories, where "" is missing. Numbers that are categories are text, too, spelt as in
    training, as the model's property `categories` has them. ONNX has no dates: each part of one is a tensor,
    computed as in the model's property `dates`.

    Raises ConfigError : the columns are folded svmlight indices
    """
    if schema.svmlight is not None and schema.svmlight.hashed:
        raise ConfigError("The model hashes svmlight indices, which ONNX cannot represent. Remove hash_columns.")
    if not schema.encodings and not schema.texts:
        value = MATRIX
        fills = np.array(0.0) if schema.missing == "zero" else plain_means(schema)
        if fills is not None and schema.features:
            value = graph.add("Where", graph.add("IsNaN", value), fills, value)
        return _rounded(graph, value), [values_of(MATRIX, np.float64, [ROWS, schema.n_features])]
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    blocks, names, given = list[str](), list[str](), list[ValueInfoProto]()
    means = plain_means(schema)
    for number, column in enumerate(schema.dense.source_columns):
        plain = Encoding(column, "number", (column,), fills=() if means is None else (float(means[number]),))
        encoding = by_column.get(column, plain)
        taken, block = _block(graph, encoding, schema)
        given += taken
        blocks.append(block)
        names += encoding.inputs
    every = graph.add("Concat", *blocks, axis=1)
    indices = [names.index(name) for name in schema.features]
    chosen = graph.add("Gather", every, np.array(indices), axis=1)
    return _rounded(graph, chosen), given


def _rounded(graph: Graph, value: str) -> str:
    """Return the nearest float32, as data sets hold every input in training."""
    return graph.cast(graph.cast(value, np.float32), np.float64)


def _block(graph: Graph, encoding: Encoding, schema: Schema) -> tuple[list[ValueInfoProto], str]:
    if encoding.kind == "category":
        return [values_of(encoding.column, np.object_, [ROWS])], _categories(graph, encoding, schema.missing == "drop")
    names = encoding.inputs[:-1] if encoding.missing else encoding.inputs
    taken = (encoding.column,) if encoding.kind == "number" else names
    columns = [graph.column(name) for name in taken]
    given = [values_of(name, np.float64, [ROWS]) for name in taken]
    block = columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)
    if encoding.fills or schema.missing == "zero":
        fills = np.array(encoding.fills or [0.0] * len(names))[None, :]
        absent = graph.add("IsNaN", block)
        filled = graph.add("Where", absent, fills, block)
        if not encoding.missing:
            return given, filled
        first = graph.add("Gather", absent, np.array([0]), axis=1)
        block = graph.add("Concat", filled, graph.cast(first, np.float64), axis=1)
    return given, block


def _categories(graph: Graph, encoding: Encoding, drops: bool) -> str:
    """Return the inputs of a text column (rows, inputs): target means, then 1 where the row has a value, else 0."""
    n, n_categories = len(encoding.inputs), len(encoding.categories)
    if encoding.means:
        texts, table = [*encoding.categories, ""], encoding.table.T.astype(np.float64)
        table[-1] = np.nan if drops else table[-1]
        codes = _codes(graph, encoding.column, texts, [*range(n_categories), n_categories + 1], n_categories)
        return graph.add("Gather", table, codes, axis=0)
    other, absent = n_categories if encoding.other else n, n - 1 if encoding.missing else n
    codes = _codes(graph, encoding.column, [*encoding.categories, ""], [*range(n_categories), absent], other)
    column = graph.column(codes)
    block = graph.cast(graph.add("Equal", column, np.arange(n)[None, :]), np.float64)
    if not drops:
        return block
    missing = _codes(graph, encoding.column, [""], [1], 0)
    absent_rows = graph.column(graph.cast(missing, np.bool_))
    return graph.add("Where", absent_rows, np.array(np.nan), block)


def _codes(graph: Graph, column: str, texts: list[str], codes: list[int], otherwise: int) -> str:
    return graph.add(
        "LabelEncoder", column, domain=LABELS_DOMAIN, keys_strings=texts, values_int64s=codes, default_int64=otherwise
    )


OPSET = 18
IR_VERSION = 8  # of the oldest runtimes that know the opset
ML_OPSET = 3  # of operators on text
MOST_BYTES = 2**31 - 2**24  # of the numbers in a file: protobuf takes 2 GB at most, with some MB for all else
SCORES, LABELS, PREDICTIONS, PROBABILITIES = "scores", "labels", "predictions", "probabilities"


def to_onnx(model: Model) -> ModelProto:
    """Return the model as an ONNX graph of standard operators, which scores rows as okl does, up to rounding.

    Its input `rows` is (n, n_features), double, raw values in the order of schema.features; for mixed tables, see
    `okl.models.onnx`. Rounding to float32, scaling and encoding are done inside. Its outputs are `scores` before
    the link, (n,) or (n, n_classes) in the model's precision, and `labels` (n,), or for regression `predictions` (n,),
    double, in the target's own unit; where a column of a mixed table has that name, the output has an underscore more.
    A classifier with probabilities also has `probabilities` (n, n_classes), double.
    A value that is not finite is no error there, as it is in okl: it makes scores that are no numbers, but a missing
    one that the model imputes. The file describes missing values and the computation of parts of dates.

    Raises ModelError, ConfigError : ONNX cannot represent the model
    """
    schema = model.schema
    if model.predictor.n_inputs != schema.n_features:
        raise ModelError(f"The model scores {model.predictor.n_inputs} inputs, but its schema has {schema.n_features}.")
    if (size := sum(array.nbytes for array in model.predictor.arrays().values())) > MOST_BYTES:
        raise ModelError(
            f"The model holds {size / 2**30:.1f} GB of numbers, but an ONNX file holds less than 2 GB. Score rows with "
            "okl predict, or train a smaller model."
        )
    graph = Graph(input_names(schema))
    raw, given = input_nodes(graph, schema) if schema.features or not schema.texts else ("", [])
    inputs = [_scaled(graph, schema, raw, model.precision)] if schema.features else []
    if schema.sparse is not None and not schema.texts:
        inputs = [_of_unit_length(graph, raw) if schema.sparse.unit_length else raw]
    for text in schema.texts:
        given.append(values_of(text.column, np.object_, [ROWS, f"words of {text.column}"]))
        inputs.append(_terms(graph, text))
    inputs = [graph.cast(value, model.precision) for value in inputs] if schema.sparse is not None else inputs
    joined = inputs[0] if len(inputs) == 1 else graph.add("Concat", *inputs, axis=1)
    scores = score_nodes(graph, model.predictor, joined)
    single = model.predictor.n_outputs == 1
    if single:
        scores = graph.add("Squeeze", scores, LAST)
    scores = graph.add("Identity", scores, name=SCORES)
    output = _output_value(graph, schema, scores)
    shape: list[str | int] = [ROWS] if single else [ROWS, model.predictor.n_outputs]
    outputs = [values_of(scores, model.precision, shape), output]
    if isinstance(model.predictor, predictors.CalibratedPredictor):
        outputs.append(_probabilities(graph, model.predictor, scores))
    finished = graph.finished("okl", given, outputs)
    return _sealed(finished, model)


def _scaled(graph: Graph, schema: Schema, values: str, precision: str) -> str:
    """Return inputs from raw values, as `Model.prepare` makes them: in double precision, then rounded."""
    if schema.squashed:
        (shift, factor), (at, *_) = schema.reading_stages
        z = graph.add("Mul", graph.add("Sub", values, shift[None, :]), factor[None, :])
        ninths = graph.add("Div", graph.add("Mul", z, z), np.array(9.0))
        roots = graph.add("Sqrt", graph.add("Add", ninths, np.array(1.0)))
        is_squashed = np.isin(np.arange(len(schema.features)), at)[None, :]
        values = graph.add("Where", is_squashed, graph.add("Div", z, roots), values)
    shift, factor = schema.shift_and_factor
    if shift.any() or (factor != 1.0).any():
        values = graph.add("Sub", values, shift[None, :])
        values = graph.add("Mul", values, factor[None, :])
    return graph.cast(values, precision)


def _of_unit_length(graph: Graph, rows: str) -> str:
    """Return rows (rows, columns), double, divided by their lengths, as float32; empty rows stay 0."""
    squares = graph.add("ReduceSumSquare", rows, LAST, keepdims=1)
    lengths, one = graph.add("Sqrt", squares), graph.constant(np.array(1.0))
    zero = graph.add("Equal", lengths, np.array(0.0))
    return graph.cast(graph.add("Div", rows, graph.add("Where", zero, one, lengths)), np.float32)


def _terms(graph: Graph, text: TextColumn) -> str:
    """Return the weighted terms of a column of words, (rows, terms), as `okl.data.sparse.weighted_terms` makes them."""
    terms = [term.split(" ") for term in text.terms]
    order = sorted(range(len(terms)), key=lambda index: len(terms[index]))
    n_words = sum(len(words) == 1 for words in terms)
    pairs = n_words < len(terms)
    counts = graph.add(
        "TfIdfVectorizer", text.column, mode="TF", min_gram_length=1, max_gram_length=2 if pairs else 1,
        max_skip_count=0, ngram_counts=[0, n_words] if pairs else [0], ngram_indexes=order,
        pool_strings=[word for index in order for word in terms[index]],
    )  # fmt: skip
    wide, zero, one = graph.cast(counts, np.float64), graph.constant(np.array(0.0)), graph.constant(np.array(1.0))
    logs = graph.add("Add", graph.add("Log", graph.add("Max", wide, one)), one)
    damped = graph.add("Where", graph.add("Greater", wide, zero), logs, zero)
    return _of_unit_length(graph, graph.add("Mul", damped, np.array([text.weights])))


def _output_value(graph: Graph, schema: Schema, scores: str) -> Any:
    """Return the graph outputs derived from scores, as `okl.models.file.predictions` defines them."""
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        wide = graph.cast(scores, np.float64)
        own = graph.add("Div", wide, np.array(factor or 1.0))
        output = graph.add("Add", own, np.array(shift), name=PREDICTIONS)
        return values_of(output, np.float64, [ROWS])
    if schema.task == "multiclass":
        chosen = graph.add("ArgMax", scores, axis=1, keepdims=0)
    else:
        zero = graph.add("CastLike", np.array(0.0), scores)
        chosen = graph.cast(graph.add("Not", graph.add("Less", scores, zero)), np.int64)
    labels = np.array(schema.labels)
    if labels.dtype.kind == "U":
        labels = labels.astype(object)
    output = graph.add("Gather", labels, chosen, name=LABELS)
    return values_of(output, labels.dtype, [ROWS])


def _probabilities(graph: Graph, predictor: predictors.CalibratedPredictor, scores: str) -> Any:
    """Return the probability of each class, from scores."""
    logits = graph.add("Add", graph.cast(scores, np.float64), np.array(predictor.shifts))
    n_classes = max(2, predictor.n_outputs)
    if predictor.n_outputs > 1:
        output = graph.add("Softmax", logits, axis=1, name=PROBABILITIES)
    else:
        second = graph.column(graph.add("Sigmoid", logits))
        first = graph.add("Sub", np.array(1.0), second)
        output = graph.add("Concat", first, second, axis=1, name=PROBABILITIES)
    return values_of(output, np.float64, [ROWS, n_classes])


def _sealed(graph: Any, model: Model) -> ModelProto:
    """Add the description to the graph, and check it by ONNX's own checker."""
    schema = model.schema
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(LABELS_DOMAIN, ML_OPSET)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="okl")
    made.ir_version = IR_VERSION
    made.doc_string = (
        f"{schema.task} of {schema.target!r} from {len(schema.source_columns)} raw columns; a matrix has them in the "
        f"order of the property 'columns'. {input_sentences(schema)}"
    )
    properties = {
        "columns": json.dumps(schema.source_columns),
        "target": schema.target,
        "task": schema.task,
        "labels": json.dumps(schema.labels),
        "categories": json.dumps(
            {encoding.column: encoding.categories for encoding in schema.encodings if encoding.kind == "category"}
        ),
        "provenance": json.dumps(model.provenance),
    }
    if dates := date_formulas(schema):
        properties["dates"] = json.dumps(dates)
    helper.set_model_props(made, properties)
    checker.check_model(made, full_check=True)
    return made
