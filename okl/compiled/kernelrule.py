"""How compiled code knows a kernel: a code and its numbers."""

from __future__ import annotations

from typing import NamedTuple

GAUSSIAN, LAPLACIAN, MATERN32, MATERN52, POLYNOMIAL, LINEAR = 0, 1, 2, 3, 4, 5


class KernelRule(NamedTuple):
    """A kernel of okl.kernels, with r = ||x - x'|| the Euclidean distance.

    GAUSSIAN exp(-scale r^2); LAPLACIAN exp(-scale ||x - x'||_1); MATERN32 (1 + scale r) exp(-scale r); MATERN52
    (1 + scale r + (scale r)^2 / 3) exp(-scale r); POLYNOMIAL (scale <x, x'> + offset)^degree; LINEAR <x, x'>.

    code : one of these; scale > 0; offset, degree : of POLYNOMIAL, otherwise 0
    """

    code: int
    scale: float
    offset: float
    degree: int
