"""Kernel values of rows with fixed vectors, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from okl.errors import ConfigError
from okl.exporting.graph import Graph, values_of
from okl.kernels import KERNELS, Gaussian, Kernel, Laplacian, Linear, Matern32, Matern52, Polynomial
from okl.types import FloatArray


def kernel_nodes(graph: Graph, kernel: Kernel, inputs: str, vectors: FloatArray) -> str:
    """Values k(x, v): (rows, n_vectors), of inputs (rows, n_inputs) with vectors (n_vectors, n_inputs).

    Distances are made in double precision: in single precision those of near rows would be lost in the squares.

    Raises
    ------
    ConfigError : the kernel is a function of the user's own
    """
    nodes = _NODES.get(type(kernel))
    if nodes is None:
        raise ConfigError(
            f"The kernel {kernel.name!r} is a function of your own, which ONNX cannot hold. Train with one of "
            f"{', '.join(KERNELS)}."
        )
    return nodes(graph, kernel, inputs, vectors)


def _gaussian(graph: Graph, kernel: Gaussian, inputs: str, vectors: FloatArray) -> str:
    scaled = _times(graph, _squared_distances(graph, inputs, vectors), -0.5 / kernel.bandwidth**2, np.float64)
    return graph.add("Exp", graph.cast(scaled, vectors.dtype))


def _matern32(graph: Graph, kernel: Matern32, inputs: str, vectors: FloatArray) -> str:
    s = _scaled_distances(graph, inputs, vectors, 3.0**0.5 / kernel.bandwidth)
    return graph.add("Mul", _plus(graph, s, 1.0, vectors.dtype), graph.add("Exp", graph.add("Neg", s)))


def _matern52(graph: Graph, kernel: Matern52, inputs: str, vectors: FloatArray) -> str:
    s = _scaled_distances(graph, inputs, vectors, 5.0**0.5 / kernel.bandwidth)
    third = _times(graph, graph.add("Mul", s, s), 1.0 / 3.0, vectors.dtype)
    polynomial = graph.add("Add", _plus(graph, s, 1.0, vectors.dtype), third)
    return graph.add("Mul", polynomial, graph.add("Exp", graph.add("Neg", s)))


def _laplacian(graph: Graph, kernel: Laplacian, inputs: str, vectors: FloatArray) -> str:
    """The sum over inputs is a loop of the graph: all differences at once would take n_inputs times the memory."""
    dtype = vectors.dtype
    n_rows = graph.add("Shape", inputs, start=0, end=1)
    shape = graph.add("Concat", n_rows, graph.constant(np.array([len(vectors)])), axis=0)
    zeros = graph.add("ConstantOfShape", shape, value=helper.make_tensor("zero", _kind(dtype), [1], [0.0]))
    columns = graph.add("Transpose", inputs, perm=[1, 0])
    total, column, entries, more = (graph.free(name) for name in ("sum", "column", "entries", "more"))
    standing, lying, difference, size = (graph.free(name) for name in ("standing", "lying", "difference", "size"))
    last, first = graph.free("last"), graph.free("first")
    body = helper.make_graph(
        [
            _node("Unsqueeze", [column, last], standing),
            _node("Unsqueeze", [entries, first], lying),
            _node("Sub", [standing, lying], difference),
            _node("Abs", [difference], size),
            _node("Add", [total, size], more),
        ],
        "one_input",
        [
            values_of(total, dtype, ["rows_here", len(vectors)]),
            values_of(column, dtype, ["rows_here"]),
            values_of(entries, dtype, [len(vectors)]),
        ],
        [values_of(more, dtype, ["rows_here", len(vectors)])],
        [helper.make_tensor(last, _kind(np.int64), [1], [1]), helper.make_tensor(first, _kind(np.int64), [1], [0])],
    )
    sums = graph.add("Scan", zeros, columns, graph.constant(vectors.T), body=body, num_scan_inputs=2)
    return graph.add("Exp", _times(graph, sums, -1.0 / kernel.bandwidth, dtype))


def _polynomial(graph: Graph, kernel: Polynomial, inputs: str, vectors: FloatArray) -> str:
    products = _times(graph, _products(graph, inputs, vectors), kernel.scale, vectors.dtype)
    base = power = _plus(graph, products, kernel.offset, vectors.dtype)
    for _ in range(kernel.degree - 1):  # Pow rounds to single precision in some runtimes
        power = graph.add("Mul", power, base)
    return power


def _linear(graph: Graph, kernel: Linear, inputs: str, vectors: FloatArray) -> str:
    return _products(graph, inputs, vectors)


_NODES: dict[type, Callable[[Graph, Any, str, FloatArray], str]] = {
    Gaussian: _gaussian,
    Laplacian: _laplacian,
    Matern32: _matern32,
    Matern52: _matern52,
    Polynomial: _polynomial,
    Linear: _linear,
}


def _products(graph: Graph, inputs: str, vectors: FloatArray) -> str:
    return graph.add("MatMul", inputs, graph.constant(vectors.T))


def _squared_distances(graph: Graph, inputs: str, vectors: FloatArray) -> str:
    """||x - v||^2, at least 0, in double precision."""
    wide = vectors.astype(np.float64)
    x = graph.cast(inputs, np.float64)
    own = graph.add("ReduceSumSquare", x, graph.constant(np.array([1])), keepdims=1)
    theirs = graph.constant((wide * wide).sum(axis=1)[None, :])
    products = _times(graph, _products(graph, x, wide), -2.0, np.float64)
    squares = graph.add("Add", graph.add("Add", own, theirs), products)
    return graph.add("Max", squares, graph.constant(np.array(0.0)))


def _scaled_distances(graph: Graph, inputs: str, vectors: FloatArray, factor: float) -> str:
    roots = graph.add("Sqrt", _squared_distances(graph, inputs, vectors))
    return graph.cast(_times(graph, roots, factor, np.float64), vectors.dtype)


def _times(graph: Graph, value: str, factor: float, dtype: Any) -> str:
    return graph.add("Mul", value, graph.constant(np.array(factor, dtype=dtype)))


def _plus(graph: Graph, value: str, term: float, dtype: Any) -> str:
    return graph.add("Add", value, graph.constant(np.array(term, dtype=dtype)))


def _node(operator: str, inputs: list[str], output: str) -> NodeProto:
    return helper.make_node(operator, inputs, [output])


def _kind(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
