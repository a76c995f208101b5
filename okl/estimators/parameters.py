"""Parameters of estimators as people give them: numbers of any type, "auto", a source of randomness."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from okl.errors import ConfigError

SAMPLE_ROWS = 4096  # rows that "auto" parameters are settled on
Auto = Literal["auto"]
RandomState = int | np.random.RandomState | None


def draw_seed(rng: np.random.RandomState) -> int:
    """Seed of a map: drawn first, so that it does not depend on the number of rows."""
    return int(rng.randint(2**31 - 1))


def number_or_auto(name: str, value: Any) -> float | None:
    """The number above 0 that was given, of any numeric type, or None for "auto"; ConfigError for anything else."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise ConfigError(f'{name} = {value!r}, but it takes a finite number above 0, or "auto".')
    return float(value)


def whole_number(name: str, value: Any) -> int:
    """The whole number from 1 on that was given, of any integer type; ConfigError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise ConfigError(f"{name} = {value!r}, but it takes a whole number of at least 1.")
    return int(value)
