"""Feature maps and predictors as ONNX nodes: inputs (rows, n_inputs) in, scores (rows, n_outputs) out."""

from __future__ import annotations

import numpy as np

from okl.errors import ModelError
from okl.expansions import KernelExpansion
from okl.exporting.graph import Graph
from okl.exporting.kernels import kernel_nodes
from okl.features.fourier import FourierFeatures
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import NystromFeatures
from okl.features.protocol import FeatureMap
from okl.features.structured import StructuredFeatures
from okl.predictors import LinearPredictor, Predictor
from okl.types import FloatArray

MOST_SINGLE = 100.0  # sum of the sizes of weights beyond which kernel values of single precision move scores by 1e-5


def score_nodes(graph: Graph, predictor: Predictor, inputs: str) -> str:
    """Scores (rows, n_outputs) of inputs, in the predictor's precision.

    Raises
    ------
    ModelError : ONNX nodes for such a predictor or map are not known
    ConfigError : its kernel is a function of the user's own
    """
    if isinstance(predictor, KernelExpansion):
        if predictor.n_supports == 0:
            sums = graph.add("MatMul", inputs, graph.constant(_no_weights(predictor)))
        else:
            sums = _expansion_sums(graph, predictor, inputs)
        return _with_offsets(graph, sums, predictor.offsets)
    if not isinstance(predictor, LinearPredictor):
        raise ModelError(f"A predictor of kind {predictor.describe().get('kind')!r} cannot be exported to ONNX.")
    scores = _linear_scores(graph, predictor.feature_map, predictor.weights, inputs)
    return _with_offsets(graph, scores, predictor.offsets)


def _expansion_sums(graph: Graph, predictor: KernelExpansion, inputs: str) -> str:
    """Weighted sums of kernel values, in double precision where large weights cancel."""
    supports, weights = predictor.supports, predictor.coefficients.T
    wide = weights.dtype == np.float32 and float(np.abs(weights).sum(axis=0).max()) > MOST_SINGLE
    if wide:
        inputs, supports, weights = graph.cast(inputs, np.float64), supports.astype(np.float64), weights.astype(float)
    values = kernel_nodes(graph, predictor.kernel, inputs, supports)
    sums = graph.add("MatMul", values, graph.constant(weights))
    return graph.cast(sums, np.float32) if wide else sums


def _with_offsets(graph: Graph, scores: str, offsets: FloatArray | None) -> str:
    return scores if offsets is None else graph.add("Add", scores, graph.constant(offsets[None, :]))


def _linear_scores(graph: Graph, feature_map: FeatureMap, weights: FloatArray, inputs: str) -> str:
    if isinstance(feature_map, FourierFeatures):
        return _wave_scores(graph, feature_map.frequencies, weights, inputs)
    if isinstance(feature_map, StructuredFeatures):
        return _wave_scores(graph, dense_frequencies(feature_map), weights, inputs)
    if isinstance(feature_map, NystromFeatures):
        values = kernel_nodes(graph, feature_map.kernel, inputs, feature_map.landmarks)
        features = graph.add("MatMul", values, graph.constant(feature_map.projection))
        return graph.add("MatMul", features, graph.constant(weights.T))
    if isinstance(feature_map, StandardisedLinear):
        shifted = graph.add("Sub", inputs, graph.constant(feature_map.shift[None, :]))
        slopes = (weights[:, :-1] * feature_map.factor).astype(weights.dtype)  # one pass over the rows less
        scores = graph.add("MatMul", shifted, graph.constant(slopes.T))
        constant = (weights[:, -1:].T * weights.dtype.type(feature_map.constant)).astype(weights.dtype)
        return graph.add("Add", scores, graph.constant(constant))
    raise ModelError(f"A feature map of kind {feature_map.describe().get('kind')!r} cannot be exported to ONNX.")


def _wave_scores(graph: Graph, frequencies: FloatArray, weights: FloatArray, inputs: str) -> str:
    """Sums of sines and cosines of x @ frequencies; both halves of the weights hold the map's own factor."""
    n_frequencies = frequencies.shape[1]
    scaled = (weights * n_frequencies**-0.5).astype(weights.dtype)
    angles = graph.add("MatMul", inputs, graph.constant(frequencies))
    halves = [
        graph.add("MatMul", graph.add(wave, angles), graph.constant(part.T))
        for wave, part in (("Sin", scaled[:, :n_frequencies]), ("Cos", scaled[:, n_frequencies:]))
    ]
    return graph.add("Add", *halves)


def dense_frequencies(structured: StructuredFeatures) -> FloatArray:
    """The frequencies (n_inputs, n_frequencies) that the rotations of a structured map amount to."""
    size = structured.signs.shape[2]
    hadamard = np.ones((1, 1))
    while len(hadamard) < size:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    blocks = []
    for first, second, third in structured.signs.astype(np.float64):
        turned = hadamard * first @ (hadamard * second) @ (hadamard * third)  # H D1 H D2 H D3: rows are directions
        blocks.append(turned / size**1.5)
    directions = np.concatenate(blocks)[: structured.n_frequencies, : structured.n_inputs]
    radii = structured.radii.astype(np.float64)
    return np.ascontiguousarray((directions * radii[:, None]).T, dtype=structured.radii.dtype)


def _no_weights(predictor: KernelExpansion) -> FloatArray:
    """Zeros (n_inputs, n_outputs): all scores of no supports are 0."""
    return np.zeros((predictor.n_inputs, predictor.n_outputs), dtype=predictor.supports.dtype)
