"""Rows of the subgradient benchmarks: sets of the shared folder, standardised, in a Fourier map, in a seeded order."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.bundle import score_rows
from okl.compiled.fourier import fourier_transform
from okl.compiled.jit import as_compiled
from okl.compiled.threads import borrowed_block
from okl.features.bandwidth import median_distance
from okl.features.base import transform_rows
from okl.features.fourier import FourierFeatures, draw_map
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
from okl.papers.base import DataFolder, RowSelection

SMALL = ("wdbc", "australian")
SETS = (*SMALL, "magic", "a9a", "ijcnn1", "covtype_binary")
N_FREQUENCIES, SAMPLE, TIMED = 128, 2048, 3

Doubles = NDArray[np.float64]


class Mapped(NamedTuple):
    """rows (m, 2 N_FREQUENCIES) float32; targets (m,).

    seconds_a_row : of the map on one thread, into memory that is already allocated: the first access to a page costs
    ten times as much as mapping its rows, and would cost any method the same
    """

    rows: FloatArray
    targets: Doubles
    seconds_a_row: float


def standardised(folder: str, name: str, n_rows: int | None = None) -> tuple[FloatArray, Doubles]:
    """Return inputs of mean 0 and spread 1, and targets, shuffled by seed 0; constant columns are 0."""
    stored = DataFolder(folder).rows(RowSelection(name, "binary"), "float32")
    order = np.random.default_rng(0).permutation(len(stored.targets))[:n_rows]
    inputs = stored.inputs[order].astype(np.float64)
    spread = inputs.std(axis=0)
    inputs = (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return inputs.astype(np.float32), stored.targets[order]


def kernel_of(inputs: FloatArray) -> Gaussian:
    """Return the Gaussian kernel at the median distance of the first rows."""
    return Gaussian(median_distance(inputs[:SAMPLE]))


def mapped(folder: str, name: str, n_rows: int | None = None, n_frequencies: int = N_FREQUENCIES) -> Mapped:
    """Return a set in a map of the kernel."""
    inputs, targets = standardised(folder, name, n_rows)
    feature_map = draw_map("orthogonal", kernel_of(inputs), inputs.shape[1], n_frequencies, 0)
    transform_rows(feature_map, inputs[:256])
    rows = transform_rows(feature_map, inputs)
    assert isinstance(feature_map, FourierFeatures)
    seconds = []
    for _ in range(TIMED):
        start = time.perf_counter()
        with borrowed_block(feature_map.rows_per_block, feature_map.widths, rows.dtype) as block:
            fourier_transform(rows, block, inputs, feature_map.waves, 0, 1)
        seconds.append(time.perf_counter() - start)
    return Mapped(rows, as_compiled(targets, np.float64), float(np.median(seconds)) / len(rows))


def objective(data: Mapped, weights: Doubles, lam: float) -> float:
    """Return lam / 2 |w|^2 + mean hinge on all rows."""
    scores = np.empty(len(data.rows))
    score_rows(scores, data.rows, np.ascontiguousarray(weights, dtype=np.float64))
    return float(0.5 * lam * weights @ weights + np.maximum(0.0, 1.0 - data.targets * scores).mean())
