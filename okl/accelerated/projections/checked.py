"""What a projection is given, checked and in the form that compiled code reads."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from okl.compiled.blocks import as_compiled
from okl.compiled.projections import Entries
from okl.compiled.projectionschecks import count_signs, sum_bounds
from okl.errors import ConfigError, DataError
from okl.types import FloatArray

_ROUNDING = 1e-12  # of the sums: at nu_max the bounds of a class sum to 1/2 but for rounding


class Sums(NamedTuple):
    """Least and largest sums of the entries of either sign within their boxes, and their numbers."""

    plus: tuple[float, float]
    minus: tuple[float, float]
    n_plus: int
    n_minus: int


def check_point(out: FloatArray, point: FloatArray) -> FloatArray:
    """Return the point as compiled code reads it, or raise DataError unless out can take its projection."""
    point = check_values(point)
    if out.shape != point.shape or out.dtype != point.dtype or not (out.flags.c_contiguous and out.flags.writeable):
        raise DataError(
            f"A projection is written into a contiguous, writable array of the point's shape {point.shape} and "
            f"precision {point.dtype}, but out has shape {out.shape}, precision {out.dtype}, "
            f"contiguous: {out.flags.c_contiguous}, writable: {out.flags.writeable}."
        )
    return point


def check_values(point: FloatArray) -> FloatArray:
    """Return the point as compiled code reads it, or raise DataError unless it is a vector of floats."""
    point = np.asarray(point)
    if point.ndim != 1 or len(point) == 0 or point.dtype not in (np.float32, np.float64):
        raise DataError(
            f"A point to project is a vector of at least one float32 or float64, but it has shape {point.shape} and "
            f"precision {point.dtype}."
        )
    return as_compiled(point, point.dtype)


def checked_entries(point: FloatArray, signs: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Entries, Sums]:
    """Entries in the form that compiled code reads, and what they can sum to; only what has another type is copied.

    Raises
    ------
    DataError : signs are not -1 and +1, or their number or that of the bounds is not the point's
    ConfigError : a lower bound is above its upper bound or infinite, an upper one -infinite, or one is NaN
    """
    labels = _as_signs(np.asarray(signs), len(point))
    n_plus, n_minus = count_signs(labels)
    if n_plus + n_minus != len(point):
        bad = int(np.flatnonzero((labels != 1) & (labels != -1))[0])
        raise DataError(f"Signs are -1 and +1, but the sign of entry {bad} is {np.asarray(signs)[bad]}.")
    if np.ndim(lower) == 0 and np.ndim(upper) == 0:
        low, high = float(np.asarray(lower)), float(np.asarray(upper))
        _check_order(low <= high and low < math.inf and high > -math.inf, "", low, high)
        plus, minus = ((count * low, count * high) if count else (0.0, 0.0) for count in (n_plus, n_minus))
        return Entries(point, labels, low, high), Sums(plus, minus, n_plus, n_minus)
    lows, highs = _as_bounds(lower, "lower", len(point)), _as_bounds(upper, "upper", len(point))
    totals = np.empty(5)
    sum_bounds(totals, labels, lows, highs)
    if totals[4] or math.inf in totals[[0, 2]] or -math.inf in totals[[1, 3]]:
        bad = int(np.flatnonzero(~((lows <= highs) & (lows < math.inf) & (highs > -math.inf)))[0])
        _check_order(False, f" of entry {bad}", lows[bad], highs[bad])
    plus_least, plus_most, minus_least, minus_most = totals[:4].tolist()
    return Entries(point, labels, lows, highs), Sums(
        (plus_least, plus_most), (minus_least, minus_most), n_plus, n_minus
    )


def check_signed_total(total: float, sums: Sums) -> None:
    """Raise ConfigError unless entries, each times its sign, can sum to the total, but for rounding."""
    least, most = sums.plus[0] - sums.minus[1], sums.plus[1] - sums.minus[0]
    # the sums of the two signs may all but cancel: what rounding does to their difference goes by them
    size = min(abs(sums.plus[0]) + abs(sums.minus[1]), abs(sums.plus[1]) + abs(sums.minus[0]))
    check_total(total, least, most, "the sum of signs times entries is", "total", size)


def check_total(total: float, least: float, most: float, whose: str, name: str, size: float | None = None) -> None:
    """Raise ConfigError, naming the bound in the way, unless entries can sum to the total, but for rounding.

    size : of the terms of the sums, where these are differences; None: of the sums themselves
    """
    if not math.isfinite(total):
        raise ConfigError(f"{name} = {total!r}, but it takes a finite number.")
    slack = _ROUNDING * (abs(total) + (min(abs(least), abs(most)) if size is None else size))
    if total < least - slack:
        raise ConfigError(
            f"{name} = {total:g} is out of reach: {whose} at least {least:g} because of the lower bounds of entries "
            f"with sign +1 and the upper bounds of those with sign -1. Loosen them or raise {name}."
        )
    if total > most + slack:
        raise ConfigError(
            f"{name} = {total:g} is out of reach: {whose} at most {most:g} because of the upper bounds of entries "
            f"with sign +1 and the lower bounds of those with sign -1. Loosen them or reduce {name}."
        )


def _check_order(valid: bool, whose: str, lower: float, upper: float) -> None:
    if not valid:
        raise ConfigError(
            f"lower = {lower:g} and upper = {upper:g}{whose} enclose no number: it takes lower <= upper, neither "
            "of them NaN, and an infinite bound only on its own side."
        )


def _as_signs(signs: NDArray[np.generic], size: int) -> NDArray[np.int8]:
    if signs.shape != (size,):
        raise DataError(f"Signs have shape {signs.shape}, but the point has {size} entries: one sign for each.")
    if signs.dtype != np.int8:
        signs = (signs == 1).astype(np.int8) - (signs == -1).astype(np.int8)
    labels: NDArray[np.int8] = as_compiled(signs, np.int8)
    return labels


def _as_bounds(bound: ArrayLike, name: str, size: int) -> NDArray[np.float64]:
    values = np.asarray(bound, dtype=np.float64)
    if values.ndim and values.shape != (size,):
        raise DataError(
            f"{name} has shape {values.shape}, but the point has {size} entries: it takes a number or one for each."
        )
    bounds: NDArray[np.float64] = as_compiled(values if values.ndim else np.full(size, values), np.float64)
    return bounds
