"""Scores of rows in a feature map, block by block, on any number of threads with the same bits."""

from __future__ import annotations

import numpy as np

from okl.compiled.blocks import MOST_ROWS, Block, as_compiled, borrowed_block, run_threads
from okl.compiled.door import one_blas_thread
from okl.compiled.fourier import fourier_scores, score_block
from okl.features.fourier import FourierFeatures
from okl.features.protocol import FeatureMap, check_inputs, check_weights
from okl.types import FloatArray


def score_rows(feature_map: FeatureMap, weights: FloatArray, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
    """Scores z(x) @ weights' of every row: (rows, n_outputs), in the map's precision.

    Parameters
    ----------
    weights : (n_outputs, n_columns); inputs : (rows, n_inputs); n_threads : int >= 1

    Raises
    ------
    DataError, ConfigError : the inputs or the weights do not have the map's columns
    """
    inputs = as_compiled(inputs, feature_map.precision)
    check_inputs(feature_map, inputs)
    weights = as_compiled(weights, feature_map.precision)
    check_weights(feature_map, weights)
    scores = np.empty((len(inputs), len(weights)), dtype=feature_map.precision)
    size = feature_map.rows_per_block if isinstance(feature_map, FourierFeatures) else MOST_ROWS
    n_threads = max(1, min(n_threads, -(-len(inputs) // size)))

    def score(thread: int) -> None:
        if isinstance(feature_map, FourierFeatures):
            _score_fourier(feature_map, scores, weights, inputs, thread, n_threads)
        else:
            _score_any(feature_map, scores, weights, inputs, thread, n_threads)

    with one_blas_thread():
        run_threads(n_threads, score)
    return scores


def transform_rows(feature_map: FeatureMap, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
    """Features (rows, n_columns) of inputs (rows, n_inputs), each thread mapping a stretch of rows.

    Raises
    ------
    DataError : the inputs do not have the map's columns
    """
    inputs = as_compiled(inputs, feature_map.precision)
    check_inputs(feature_map, inputs)
    features = np.empty((len(inputs), feature_map.n_columns), dtype=feature_map.precision)
    n_threads = max(1, min(n_threads, -(-len(inputs) // MOST_ROWS)))
    edges = np.linspace(0, len(inputs), n_threads + 1).astype(int)

    def transform(thread: int) -> None:
        part = slice(edges[thread], edges[thread + 1])
        features[part] = feature_map.transform(inputs[part])

    with one_blas_thread():
        run_threads(n_threads, transform)
    return features


def _score_fourier(
    fourier: FourierFeatures, scores: FloatArray, weights: FloatArray, inputs: FloatArray, thread: int, n_threads: int
) -> None:
    with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
        fourier_scores(scores, block, inputs, fourier.waves, weights, thread, n_threads)


def _score_any(
    feature_map: FeatureMap, scores: FloatArray, weights: FloatArray, inputs: FloatArray, thread: int, n_threads: int
) -> None:
    for first in range(thread * MOST_ROWS, len(inputs), n_threads * MOST_ROWS):
        part = slice(first, first + MOST_ROWS)
        score_block(scores[part], block_of(feature_map.transform(inputs[part])), weights)


def block_of(features: FloatArray) -> Block:
    """Features (rows, n_columns) of any map as a block; the second half is empty."""
    return Block(np.ascontiguousarray(features), np.empty((len(features), 0), dtype=features.dtype))
