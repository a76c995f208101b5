"""Features and scores of rows on several threads, for callers that hold all rows at once.

A row has the same bits whatever other rows come with it: the compiled map promises that, so that scoring one row equals
scoring it among a million.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from okl.compiled.blocks import as_compiled, borrowed_block, run_threads
from okl.compiled.fourier import fourier_scores, fourier_transform
from okl.features.fourier import FourierFeatures
from okl.features.protocol import check_inputs, check_weights
from okl.types import FloatArray

LEAST_ROWS = 512  # of a thread: below, starting it takes longer than its work


def transform_each(fourier: FourierFeatures, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
    """Features (rows, n_columns) of inputs (rows, n_inputs).

    Raises
    ------
    DataError : the inputs do not have the map's columns
    """
    inputs = as_compiled(inputs, fourier.precision)
    check_inputs(fourier, inputs)
    features = np.empty((len(inputs), fourier.n_columns), dtype=fourier.precision)
    parts = _parts(len(inputs), n_threads)

    def transform(thread: int) -> None:
        with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
            fourier_transform(features[parts[thread]], block, inputs[parts[thread]], fourier.waves, 0, 1)

    run_threads(len(parts), transform)
    return features


def score_each(fourier: FourierFeatures, weights: FloatArray, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
    """Scores (rows, n_outputs) of inputs (rows, n_inputs) by weights (n_outputs, n_columns).

    Raises
    ------
    DataError, ConfigError : the inputs or the weights do not have the map's columns
    """
    inputs = as_compiled(inputs, fourier.precision)
    check_inputs(fourier, inputs)
    weights = as_compiled(weights, fourier.precision)
    check_weights(fourier, weights)
    scores = np.empty((len(inputs), len(weights)), dtype=fourier.precision)
    parts = _parts(len(inputs), n_threads)

    def score(thread: int) -> None:
        with borrowed_block(fourier.rows_per_block, fourier.widths, inputs.dtype) as block:
            fourier_scores(scores[parts[thread]], block, inputs[parts[thread]], fourier.waves, weights, 0, 1)

    run_threads(len(parts), score)
    return scores


def _parts(n_rows: int, n_threads: int) -> list[slice]:
    """One stretch of rows for each thread."""
    edges = np.linspace(0, n_rows, max(1, min(n_threads, n_rows // LEAST_ROWS)) + 1).astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]
