"""The exponential of what is not positive, as a polynomial that LLVM turns into vector code; numba's np.exp is a call.

x = n log 2 + r with n = rint(x / log 2); log 2 comes in two parts, the first so short that n times it is exact. Then
exp(x) = 2^n (1 + r + r^2 q(r)); q interpolates at Chebyshev nodes of |r| <= log(2) / 2, with a largest relative error
of 1e-8 (float32) and 2e-17 (float64): below the rounding of the format. Values below the least normal number become 0.

Source of the two-part reduction: Cody & Waite, Software Manual for the Elementary Functions, 1980, chapter 6.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from okl.compiled.door import compiled
from okl.compiled.intrinsics import muladd, power_of_two, rint
from okl.types import FloatArray


def exp_negative(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0, NaN for NaN, in the precision of x: in compiled code one of the two below."""
    return np.exp(x)


# every sum is a muladd: under `compiled_sum` others could be reordered, which would join the two parts of log 2


def _exp_float32(x):  # type: ignore[no-untyped-def]
    bounded = x if x > np.float32(-87.33654) else np.float32(-87.33654)
    n = rint(bounded * np.float32(1.4426950408889634))
    r = muladd(n, np.float32(-3.1946184945309415e-05), muladd(n, np.float32(-0.693115234375), x))
    q = muladd(r, np.float32(0.0013926183587713494), np.float32(0.008363179052722578))
    q = muladd(r, muladd(r, q, np.float32(0.041666554617204574)), np.float32(0.16666576989698775))
    q = muladd(r, q, np.float32(0.5))
    value = muladd(r * r, q, r)
    scale = power_of_two(n)
    return np.float32(0) if x < np.float32(-87.33654) else muladd(scale, value, scale)


def _exp_float64(x):  # type: ignore[no-untyped-def]
    bounded = x if x > -708.3964185322641 else -708.3964185322641
    n = rint(bounded * 1.4426950408889634)
    r = muladd(n, -1.9082149292705877e-10, muladd(n, -0.6931471803691238, x))
    q = muladd(r, 2.510038549551032e-08, 2.7620088445409746e-07)
    q = muladd(r, muladd(r, q, 2.7557268459997064e-06), 2.4801521295954376e-05)
    q = muladd(r, muladd(r, q, 0.00019841269863053618), 0.0013888888917213717)
    q = muladd(r, muladd(r, q, 0.008333333333330062), 0.04166666666662413)
    q = muladd(r, muladd(r, q, 0.16666666666666669), 0.5)
    value = muladd(r * r, q, r)
    scale = power_of_two(n)
    return 0.0 if x < -708.3964185322641 else muladd(scale, value, scale)


@overload(exp_negative, inline="always")
def _choose_exp(x):  # type: ignore[no-untyped-def]
    return _exp_float32 if x == types.float32 else _exp_float64


@compiled
def exponentials(values: FloatArray) -> None:
    """Overwrite values (n,), none of them above 0, by their exponentials."""
    for j in range(values.shape[0]):
        values[j] = exp_negative(values[j])  # type: ignore[no-untyped-call]
