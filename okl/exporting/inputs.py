"""How raw columns become inputs, as ONNX nodes: numbers in one matrix, or a tensor for each column of a mixed table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import ValueInfoProto

from okl.errors import ConfigError
from okl.exporting.graph import ROWS, Graph, values_of
from okl.exporting.madeup import MATRIX
from okl.store.dataset import Schema
from okl.store.encodings import Encoding

LABELS_DOMAIN = "ai.onnx.ml"
_OF_COLUMNS = ("number", "category")  # encodings whose tensor has the name of their column


@dataclass(frozen=True)
class Inputs:
    """value : raw inputs (rows, n_features), as float32 in double, before scaling; given : what the graph takes"""

    value: str
    given: list[ValueInfoProto]


def input_names(schema: Schema) -> set[str]:
    """Names of the tensors that a graph takes; see `input_nodes`."""
    if not schema.encodings:
        return {MATRIX}
    parts = {name for encoding in schema.encodings for name in encoding.inputs if encoding.kind not in _OF_COLUMNS}
    return {*schema.source_columns, *parts}


def input_nodes(graph: Graph, schema: Schema) -> Inputs:
    """Raw inputs in the order of schema.features.

    Columns of numbers alone are one matrix, `rows`. In a mixed table every source column is a tensor (rows,) of its
    name: double, or text for categories, where "" is missing. Numbers that are categories are text, too, spelt as in
    training, as the model's property `categories` has them. ONNX has no dates: each part of one is a tensor,
    computed as the model's property `dates` says.

    Raises
    ------
    ConfigError : the columns are folded svmlight indices
    """
    if schema.svmlight is not None and schema.svmlight.hashed:
        raise ConfigError(
            "The model takes svmlight indices that are folded by a hash, which ONNX cannot say. Leave out hash_columns."
        )
    if not schema.encodings:
        value = MATRIX
        if schema.missing == "zero":
            value = graph.add("Where", graph.add("IsNaN", value), graph.constant(np.array(0.0)), value)
        return Inputs(_rounded(graph, value), [values_of(MATRIX, np.float64, [ROWS, schema.n_features])])
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    blocks: list[str] = []
    names: list[str] = []
    given: list[ValueInfoProto] = []
    for column in schema.source_columns:
        encoding = by_column.get(column, Encoding(column, "number", (column,)))
        taken, block = _block(graph, encoding, schema)
        given += taken
        blocks.append(block)
        names += encoding.inputs
    every = graph.add("Concat", *blocks, axis=1)
    places = [names.index(name) for name in schema.features]
    chosen = graph.add("Gather", every, graph.constant(np.array(places)), axis=1)
    return Inputs(_rounded(graph, chosen), given)


def _rounded(graph: Graph, value: str) -> str:
    """The nearest float32, as data sets hold every input: what was learnt is what is scored."""
    return graph.cast(graph.cast(value, np.float32), np.float64)


def _block(graph: Graph, encoding: Encoding, schema: Schema) -> tuple[list[ValueInfoProto], str]:
    if encoding.kind == "category":
        return [values_of(encoding.column, np.object_, [ROWS])], _categories(graph, encoding, schema.missing == "drop")
    names = encoding.inputs[:-1] if encoding.missing else encoding.inputs
    taken = (encoding.column,) if encoding.kind == "number" else names
    columns = [graph.add("Unsqueeze", name, graph.constant(np.array([1]))) for name in taken]
    given = [values_of(name, np.float64, [ROWS]) for name in taken]
    block = columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)
    if encoding.fills or schema.missing == "zero":
        fills = np.array(encoding.fills or [0.0] * len(names))[None, :]
        absent = graph.add("IsNaN", block)
        filled = graph.add("Where", absent, graph.constant(fills), block)
        if not encoding.missing:
            return given, filled
        first = graph.add("Gather", absent, graph.constant(np.array([0])), axis=1)
        block = graph.add("Concat", filled, graph.cast(first, np.float64), axis=1)
    return given, block


def _categories(graph: Graph, encoding: Encoding, drops: bool) -> str:
    """1 where the row has a value, else 0: (rows, inputs). A code past the last input stands for none of them."""
    n, known = len(encoding.inputs), len(encoding.categories)
    other, absent = known if encoding.other else n, n - 1 if encoding.missing else n
    codes = _codes(graph, encoding.column, [*encoding.categories, ""], [*range(known), absent], other)
    column = graph.add("Unsqueeze", codes, graph.constant(np.array([1])))
    block = graph.cast(graph.add("Equal", column, graph.constant(np.arange(n)[None, :])), np.float64)
    if not drops:
        return block
    missing = _codes(graph, encoding.column, [""], [1], 0)
    absent_rows = graph.add("Unsqueeze", graph.cast(missing, np.bool_), graph.constant(np.array([1])))
    return graph.add("Where", absent_rows, graph.constant(np.array(np.nan)), block)


def _codes(graph: Graph, column: str, words: list[str], codes: list[int], otherwise: int) -> str:
    return graph.add(
        "LabelEncoder", column, domain=LABELS_DOMAIN, keys_strings=words, values_int64s=codes, default_int64=otherwise
    )
