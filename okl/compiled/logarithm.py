"""The logarithm of what is positive, as a polynomial that LLVM turns into vector code; numba's math.log is a call.

x = 2^n m with m between sqrt(1/2) and sqrt(2); log m = 2 atanh(z), z = (m - 1) / (m + 1), by the first eleven terms of
its series: with z^2 <= 0.0295 those left out are below 1e-18 of it. log 2 comes in two parts, of which n times the
first is exact.

Source: Cody & Waite, Software Manual for the Elementary Functions, 1980, chapter 5; the series is textbook.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from okl.compiled.door import compiled, compiled_row
from okl.compiled.intrinsics import muladd
from okl.types import FloatArray

_WORD = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def _mantissa(typing_context: Any, value: Any) -> Any:
    """The m in [1, 2) of a normal float64 2^n m > 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], _WORD)
        bits = builder.and_(bits, ir.Constant(_WORD, (1 << 52) - 1))
        return builder.bitcast(builder.or_(bits, ir.Constant(_WORD, 1023 << 52)), arguments[0].type)

    return value(value), generate


@intrinsic  # type: ignore[untyped-decorator]
def _exponent(typing_context: Any, value: Any) -> Any:
    """The n of a normal float64 2^n m > 0 with m in [1, 2), as a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        bits = builder.lshr(builder.bitcast(arguments[0], _WORD), ir.Constant(_WORD, 52))
        # in the lowest bits of 2^52 a whole number is itself: no conversion, which older CPUs have no vectors for
        shifted = builder.bitcast(builder.or_(bits, ir.Constant(_WORD, 1075 << 52)), kind)
        return builder.fsub(shifted, ir.Constant(kind, 2.0**52 + 1023.0))

    return value(value), generate


@compiled_row
def log_positive(x: float) -> float:
    """log(x) of a normal float64 x > 0; undefined for any other."""
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
