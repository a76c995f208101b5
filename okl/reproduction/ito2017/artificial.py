"""The artificial data of section 5: two Gaussian clouds, scaled to [-1, 1]."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from okl.execution.protocol import Rows


@lru_cache(maxsize=1)
def artificial_rows(n_rows: int, n_columns: int, seed: int) -> Rows:
    """Draw rows; float32 inputs, which must not be written into.

    Positives are N(0, I), negatives N(10 / sqrt(n) e, S S') with entries of S from N(0, 1); either class with
    probability 1/2; columns are scaled to [-1, 1]. Source: Ito et al., 2017, section 5.
    """
    draw = np.random.default_rng(seed)
    positive = draw.random(n_rows) < 0.5
    inputs = draw.standard_normal((n_rows, n_columns))
    mixing = draw.standard_normal((n_columns, n_columns))
    inputs[~positive] = inputs[~positive] @ mixing.T + 10.0 / np.sqrt(n_columns)
    least, most = inputs.min(axis=0), inputs.max(axis=0)
    scaled = -1.0 + 2.0 * ((inputs - least) / (most - least))
    return Rows(scaled.astype(np.float32), np.where(positive, 1.0, -1.0))
