"""Projections onto balls, the dual sets of MM-FDA and MM-MPM, and the step from a dual point to w."""

from __future__ import annotations

import math

import numpy as np

from okl.accelerated.projections.checked import check_point
from okl.checks import check_positive
from okl.errors import ConfigError, DataError
from okl.types import FloatArray


def project_ball(out: FloatArray, point: FloatArray, radius: float) -> float:
    """Overwrite out (n,) by the nearest point of the ball ||a||_2 <= radius: min(1, radius / ||point||) point.

    Parameters
    ----------
    out, point : (n,), float32 or float64, of one precision; out may be the point itself
    radius : above 0, finite

    Returns
    -------
    The factor, 1 where the point lies in the ball

    Raises
    ------
    ConfigError : the radius is not above 0
    DataError : shapes or precisions that do not fit, or a point that is not finite

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, section 4.1.4.
    """
    check_positive("radius", radius)
    point = check_point(out, point)
    largest = _largest(point)
    # in units of the largest entry: its square neither overflows nor vanishes
    units = math.sqrt(float(np.sum(np.square(point / largest, dtype=np.float64)))) if largest else 1.0
    factor = 1.0 if largest <= radius / units else radius / largest / units
    np.multiply(point, factor, out=out, casting="same_kind")
    return factor


def project_ball_pair(
    plus_out: FloatArray, minus_out: FloatArray, plus_point: FloatArray, minus_point: FloatArray, radius: float
) -> tuple[float, float]:
    """Overwrite two vectors by the nearest points of one ball each, and return the two factors; see `project_ball`.

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, section 4.1.4, of MM-MPM.
    """
    return project_ball(plus_out, plus_point, radius), project_ball(minus_out, minus_point, radius)


def dual_norm(z: FloatArray, p: float) -> float:
    """The norm ||z||_q, 1/p + 1/q = 1: the largest <w, z> with ||w||_p <= 1; p from 1 to infinity, both included."""
    largest = _largest(z)
    if not largest:
        return 0.0
    if p == 1:
        return largest
    return largest * float(_power_sum(z, largest, _conjugate(p)))


def align_with(z: FloatArray, p: float, radius: float = 1.0) -> FloatArray:
    """The w of ||w||_p <= radius with the largest <w, z>: w_i = radius sign(z_i) |z_i|^(q-1) / ||z||_q^(q-1).

    Parameters
    ----------
    z : (n,), finite
    p : from 1 to infinity; at 1 the weight is on the first largest entry, at infinity every entry of w is +-radius
    radius : the bound lambda of (8); the paper prints 1, with which neither the gap nor the objective fits

    Returns
    -------
    w (n,), float64, 0 where z is 0: then every w of the ball is as good. <w, z> = radius ||z||_q

    Raises
    ------
    ConfigError : p is below 1, or the radius not above 0
    DataError : an entry of z is not finite

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, (25), with the factor that (8) needs.
    """
    check_positive("radius", radius)
    q, largest = _conjugate(p), _largest(z)
    w = np.zeros(len(z))
    if not largest:
        return w
    if math.isinf(q):
        place = int(np.argmax(np.abs(z)))
        w[place] = radius * math.copysign(1.0, z[place])
        return w
    shares = (np.abs(z.astype(np.float64)) / largest) ** (q - 1.0) if q > 1 else np.ones(len(z))
    aligned: FloatArray = radius * np.sign(z) * shares / _power_sum(z, largest, q) ** (q - 1.0)
    return aligned


def _conjugate(p: float) -> float:
    """The q of 1/p + 1/q = 1."""
    if not p >= 1:
        raise ConfigError(f"p = {p!r}, but a norm takes a number from 1 to infinity.")
    if p == 1:
        return math.inf
    return 1.0 if math.isinf(p) else p / (p - 1.0)


def _power_sum(z: FloatArray, largest: float, q: float) -> float:
    """||z / largest||_q, for finite q."""
    return float(np.sum((np.abs(z.astype(np.float64)) / largest) ** q) ** (1.0 / q))


def _largest(point: FloatArray) -> float:
    largest = float(np.max(np.abs(point), initial=0.0))
    if not math.isfinite(largest):
        bad = int(np.flatnonzero(~np.isfinite(point))[0])
        raise DataError(
            f"A point to project takes finite numbers, but entry {bad} is {point[bad]}: the step before it has "
            "diverged, take a shorter one."
        )
    return largest
