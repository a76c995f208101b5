"""Vectorised exponential, logarithm, sine and cosine, shuffling and CPU intrinsics."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from okl.compiled.jit import compiled, nested_row
from okl.foundation.types import Doubles, FloatArray, Integers

# CPU intrinsics that numba does not offer, usable in vectorised loops.


@intrinsic  # type: ignore[untyped-decorator]
def rint(typing_context: Any, value: Any) -> Any:
    """Nearest whole number of the same type (numba's np.rint is a call that keeps loops from being vectorised)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.rint", [arguments[0].type])
        return builder.call(function, arguments)

    return value(value), generate


@intrinsic  # type: ignore[untyped-decorator]
def muladd(typing_context: Any, left: Any, right: Any, addend: Any) -> Any:
    """Return left * right + addend, fused where the CPU can; all of one type. Reordering never reaches inside."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.fmuladd", [kind], ir.FunctionType(kind, [kind] * 3))
        return builder.call(function, arguments)

    return left(left, left, left), generate


@intrinsic  # type: ignore[untyped-decorator]
def power_of_two(typing_context: Any, exponent: Any) -> Any:
    """Return 2^exponent for a whole number of float type within the normal exponents; otherwise undefined.

    Adding 1.5 * 2^(mantissa bits) leaves the number in the lowest bits, from where a shift makes it the exponent.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        single = signature.return_type == types.float32
        mantissa, bias, width = (23, 127, 32) if single else (52, 1023, 64)
        kind = arguments[0].type
        shifted = builder.fadd(arguments[0], ir.Constant(kind, 1.5 * 2.0**mantissa + bias))
        bits = builder.bitcast(shifted, ir.IntType(width))
        return builder.bitcast(builder.shl(bits, ir.Constant(ir.IntType(width), mantissa)), kind)

    return exponent(exponent), generate


# Exponential of non-positive numbers as a polynomial, because np.exp is a call.
#
# x = n log 2 + r with n = rint(x / log 2); log 2 comes in two parts, the first so short that n times it is exact.
# Then exp(x) = 2^n (1 + r + r^2 q(r)); q interpolates at Chebyshev nodes of |r| <= log(2) / 2, with a largest
# relative error of 1e-8 (float32) and 2e-17 (float64): below the rounding of the format. Values below the least
# normal number become 0.
#
# Source of the two-part reduction: Cody & Waite, Software Manual for the Elementary Functions, 1980, chapter 6.


def exp_negative(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for x <= 0, NaN for NaN, in the precision of x; compiled code uses one of the two below."""
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


# Logarithm of positive numbers as a polynomial, because math.log is a call.
#
# x = 2^n m with m between sqrt(1/2) and sqrt(2); log m = 2 atanh(z), z = (m - 1) / (m + 1), by the first eleven terms
# of its series: with z^2 <= 0.0295 those left out are below 1e-18 of it. log 2 comes in two parts, of which n times
# the first is exact.
#
# Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, chapter 5; the series is textbook.

_WORD = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def _mantissa(typing_context: Any, value: Any) -> Any:
    """Return the m in [1, 2) of a normal float64 2^n m > 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], _WORD)
        bits = builder.and_(bits, ir.Constant(_WORD, (1 << 52) - 1))
        return builder.bitcast(builder.or_(bits, ir.Constant(_WORD, 1023 << 52)), arguments[0].type)

    return value(value), generate


@intrinsic  # type: ignore[untyped-decorator]
def _exponent(typing_context: Any, value: Any) -> Any:
    """Return the n of a normal float64 2^n m > 0 with m in [1, 2), as a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        bits = builder.lshr(builder.bitcast(arguments[0], _WORD), ir.Constant(_WORD, 52))
        # in the lowest bits of 2^52 a whole number is itself: no conversion, which older CPUs have no vectors for
        shifted = builder.bitcast(builder.or_(bits, ir.Constant(_WORD, 1075 << 52)), kind)
        return builder.fsub(shifted, ir.Constant(kind, 2.0**52 + 1023.0))

    return value(value), generate


@nested_row
def log_positive(x: float) -> float:
    """Return log(x) of a normal float64 x > 0; undefined for other x."""
    m, n = _mantissa(x), _exponent(x)
    large = m > 1.4142135623730951
    m = 0.5 * m if large else m
    n = n + 1.0 if large else n
    z = (m - 1.0) / (m + 1.0)
    s = z * z
    p = muladd(s, 1.0 / 21.0, 1.0 / 19.0)
    p = muladd(s, muladd(s, p, 1.0 / 17.0), 1.0 / 15.0)
    p = muladd(s, muladd(s, p, 1.0 / 13.0), 1.0 / 11.0)
    p = muladd(s, muladd(s, p, 1.0 / 9.0), 1.0 / 7.0)
    p = muladd(s, muladd(s, p, 1.0 / 5.0), 1.0 / 3.0)
    value: float = muladd(n, 1.9082149292705877e-10, muladd(2.0 * z * s, p, 2.0 * z))
    return muladd(n, 0.6931471803691238, value)  # type: ignore[no-any-return]


@compiled
def logarithms(values: FloatArray) -> None:
    """Overwrite values (n,), float64 and above 0, by their logarithms."""
    for j in range(values.shape[0]):
        values[j] = log_positive(np.float64(values[j]))


# Sine and cosine of angles in half turns, as polynomials.
#
# Range reduction is exact: n = rint(x), r = x - n in [-1/2, 1/2], sin(pi x) = (-1)^n sin(pi r), and so for the
# cosine. The coefficients interpolate sin(pi r) / r and cos(pi r) in r^2 at Chebyshev nodes of [0, 1/4]; their
# largest errors are 7e-9 and 5e-8 (float32), 3e-16 and 1e-16 (float64): near or below the rounding of the format.


def _wave(x, a):  # type: ignore[no-untyped-def]
    """Pair of a sin(pi x) and a cos(pi x) in the precision of x: in compiled code one of the two below."""
    return a * np.sin(np.pi * x), a * np.cos(np.pi * x)


def _wave_float32(x, a):  # type: ignore[no-untyped-def]
    n = rint(x)
    r = x - n
    # a (-1)^n without integers, which would overflow for large angles
    a = a - np.float32(2) * a * abs(n - np.float32(2) * rint(np.float32(0.5) * n))
    t = r * r
    s = np.float32(-0.5982904112834275) + t * np.float32(0.07765591227601387)
    s = np.float32(-5.167710076668315) + t * (np.float32(2.550077386528912) + t * s)
    s = np.float32(3.1415926400772034) + t * s
    c = np.float32(-1.331872972787485) + t * np.float32(0.21968242357537815)
    c = np.float32(-4.934792802489459) + t * (np.float32(4.058410790762598) + t * c)
    c = np.float32(0.9999999530275123) + t * c
    return (a * r) * s, a * c


def _wave_float64(x, a):  # type: ignore[no-untyped-def]
    n = rint(x)
    r = x - n
    a = a - 2.0 * a * abs(n - 2.0 * rint(0.5 * n))
    t = r * r
    s = 0.0004659870158043378 + t * -2.113362735205297e-05
    s = 0.08214587881631043 + t * (-0.0073703643265304155 + t * s)
    s = 2.5501640398618677 + t * (-0.599264528825224 + t * s)
    s = 3.1415926535897927 + t * (-5.1677127800497855 + t * s)
    c = -0.00010456655338748738 + t * 4.149564353942586e-06
    c = -0.025806888737002202 + t * (0.0019295562724817132 + t * c)
    c = -1.335262768843447 + t * (0.23533063012953284 + t * c)
    c = -4.934802200544676 + t * (4.058712126416497 + t * c)
    c = 1.0 + t * c
    return (a * r) * s, a * c


@overload(_wave, inline="always")
def _choose_wave(x, a):  # type: ignore[no-untyped-def]
    return _wave_float32 if x == types.float32 else _wave_float64


@compiled
def sines_and_cosines(sines: FloatArray, cosines: FloatArray, amplitude: np.floating[Any]) -> None:
    """Overwrite sines, which hold angles in half turns, by amplitude * sine, and cosines by amplitude * cosine.

    sines, cosines : (rows, n_frequencies), C-contiguous, of one precision, not overlapping
    amplitude : scalar of that precision
    """
    for row in range(sines.shape[0]):
        sine, cosine = sines[row], cosines[row]
        for j in range(sines.shape[1]):
            sine[j], cosine[j] = _wave(sine[j], amplitude)  # type: ignore[no-untyped-call]


@compiled
def shuffle_from(positions: Integers, draws: Doubles, last: int) -> None:
    """Shuffle positions[last], [last - 1], ..., in place, by a draw for each, which swaps it with one at or before it.

    draws : (at most last,), uniform on [0, 1); with all of them for last = m - 1 the permutation of m is uniform

    Source: Durstenfeld, Communications of the ACM 7(7), 1964, Algorithm 235.
    """
    for i in range(draws.size):
        k = last - i
        j = int(draws[i] * (k + 1))
        positions[k], positions[j] = positions[j], positions[k]
