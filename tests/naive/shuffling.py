"""The obvious twin of okl.compiled.shuffling."""

from __future__ import annotations

from typing import Any

import numpy as np


def shuffle_from(positions: np.ndarray[Any, Any], draws: np.ndarray[Any, Any], last: int) -> None:
    left = list(positions[: last + 1])
    for i, draw in enumerate(draws):
        place = int(draw * len(left))
        positions[last - i] = left[place]
        left[place] = left[-1]  # who stood last takes the free place
        left.pop()
    positions[: len(left)] = left
