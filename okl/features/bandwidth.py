"""A bandwidth from the data: the median distance of random pairs of rows."""

from __future__ import annotations

import numpy as np

from okl.errors import DataError
from okl.types import FloatArray

_PAIRS = 20_000
_SEED = 20160417  # any fixed number: the same sample gives the same bandwidth


def median_distance(sample: FloatArray) -> float:
    """Median Euclidean distance of pairs of differing rows, in units of the inputs; 1.0 if no two rows differ.

    Every row is paired with rows a few random shifts away, about 20,000 pairs in all, so that every row takes part
    equally often. Equal rows say nothing about the scale and are left out.

    Parameters
    ----------
    sample : (rows, n_inputs), finite

    Raises
    ------
    DataError : the sample has no rows, or is not a matrix

    Source: the median heuristic, as in Gretton et al., JMLR 13, 2012, section 8.
    """
    if sample.ndim != 2 or len(sample) == 0:
        raise DataError(f"A bandwidth is chosen from sampled rows, but a sample of shape {sample.shape} came.")
    rows = np.ascontiguousarray(sample, dtype=np.float64)
    shifts = np.arange(1, len(rows))
    wanted = max(1, _PAIRS // len(rows))
    if len(shifts) > wanted:
        shifts = np.random.default_rng(_SEED).choice(shifts, size=wanted, replace=False)
    distances = np.concatenate([np.zeros(1), *(_distances(rows, int(shift)) for shift in shifts)])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def _distances(rows: FloatArray, shift: int) -> FloatArray:
    difference = rows - np.roll(rows, shift, axis=0)
    lengths: FloatArray = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return lengths
