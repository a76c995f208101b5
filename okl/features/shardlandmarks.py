"""Landmarks in one pass over shards that do not fit in memory."""

from __future__ import annotations

import numpy as np

from okl.errors import ConfigError
from okl.features.landmarks import MOST_ROWS, Landmarks, choose_landmarks
from okl.kernels import Kernel
from okl.store.dataset import Dataset
from okl.store.reading import read_rows
from okl.types import FloatArray, Precision


def read_landmarks(
    data: Dataset, kernel: Kernel, n_landmarks: int, method: Landmarks, seed: int, precision: Precision = "float32"
) -> FloatArray:
    """Choose landmarks among the training rows, reading every row group at most once.

    What is held is a uniform sample of n_landmarks rows for "uniform", of 20,000 for "kmeans", of 10,000 for
    "rpcholesky", and one row group. Depends on data and seed only, not on workers or threads.

    Parameters
    ----------
    kernel, n_landmarks, method, seed : as for `choose_landmarks`

    Returns
    -------
    (n_landmarks, n_inputs), scaled as the schema says

    Raises
    ------
    ConfigError : more landmarks than rows that the method looks at, or an unknown method
    DataError : a shard that is missing or damaged

    Source: as for `choose_landmarks`.
    """
    total = data.rows("train")
    if n_landmarks > total:
        raise ConfigError(f"{n_landmarks:,} landmarks were asked for, but there are {total:,} training rows.")
    rows = _sample_evenly(data, max(MOST_ROWS.get(method, 0), n_landmarks), seed, precision)
    return choose_landmarks(kernel, rows, n_landmarks, method, seed)


def _sample_evenly(data: Dataset, number: int, seed: int, precision: Precision) -> FloatArray:
    """Training rows, each as likely as another, without replacement, in the order of the data set; at most all."""
    groups = [(shard, group) for shard in data.split("train") for group in range(len(shard.row_groups))]
    ends = np.cumsum([shard.row_groups[group] for shard, group in groups])
    rng = np.random.default_rng((seed, 0x5EED))
    taken = np.sort(rng.choice(ends[-1], size=min(number, int(ends[-1])), replace=False, shuffle=False))
    firsts = np.searchsorted(taken, [0, *ends])
    parts = []
    for index, (shard, group) in enumerate(groups):
        inside = taken[firsts[index] : firsts[index + 1]]
        if len(inside):
            start = ends[index] - shard.row_groups[group]
            parts.append(read_rows(data, shard, (group,), precision).inputs[inside - start])
    return np.concatenate(parts)
