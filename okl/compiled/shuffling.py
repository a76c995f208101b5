"""A uniform permutation, drawn from numbers that NumPy's generator made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled


@compiled
def shuffle_from(positions: NDArray[np.int64], draws: NDArray[np.float64], last: int) -> None:
    """Settle positions[last], [last - 1], ..., one a draw: each changes places with one at or before it, in place.

    draws : (at most last,), uniform on [0, 1); with all of them for last = m - 1 the permutation of m is uniform

    Source: Durstenfeld, Communications of the ACM 7(7), 1964, Algorithm 235.
    """
    for i in range(draws.size):
        k = last - i
        j = int(draws[i] * (k + 1))
        positions[k], positions[j] = positions[j], positions[k]
