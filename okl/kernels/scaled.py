"""What kernels of (x - x') / bandwidth share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from okl.checks import check_positive
from okl.errors import ConfigError
from okl.types import FloatArray

LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e-100, 1e100


@dataclass(frozen=True)
class Scaled:
    """A kernel of (x - x') / bandwidth."""

    bandwidth: float

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)


def check_bandwidth(bandwidth: float) -> None:
    """ConfigError for a bandwidth whose square leaves the range of floating numbers."""
    check_positive("bandwidth", bandwidth)
    if not LEAST_BANDWIDTH <= bandwidth <= MOST_BANDWIDTH:
        raise ConfigError(
            f"bandwidth = {bandwidth!r}, but it takes one from {LEAST_BANDWIDTH:g} to {MOST_BANDWIDTH:g}: the "
            "squares of others leave the range of floating numbers."
        )


def distances(left: FloatArray, right: FloatArray, metric: str) -> FloatArray:
    """Distances of every row of left (m, d) from every row of right (n, d): (m, n), float64."""
    values: FloatArray = cdist(np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64), metric)
    return values


def as_frequencies(points: FloatArray) -> FloatArray:
    """Frequencies (n_inputs, points), C-contiguous, of points (points, n_inputs)."""
    return np.ascontiguousarray(points.T)
