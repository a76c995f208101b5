"""Functions of numbers that are compiled to machine code at their first use, and called by its address.

They are losses and kernels that one class or one extension file declares, or losses and constraints of the rounds of
`okl.oco`. An address is a number like any other, so
that loops need not be compiled, or cached, for each function. A call takes some 2 ns. An address is valid in the
process that compiled the function only: it is no part of what is stored or sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic, overload

from okl.compiled.jit import compiled
from okl.foundation.types import Doubles, FloatArray

VALUE, SLOPE = 0, 1
Scalar = Callable[[float, float], float]


@intrinsic  # type: ignore[untyped-decorator]
def call_extension(typing_context: Any, address: Any, which: Any, f: Any, y: Any) -> Any:
    """Return the value or derivative of the function at an address of this process."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, real = ir.IntType(64), ir.DoubleType()
        function = builder.inttoptr(arguments[0], ir.FunctionType(real, [whole, real, real]).as_pointer())
        return builder.call(function, arguments[1:])

    return types.float64(types.int64, types.int64, types.float64, types.float64), generate


@dataclass(frozen=True, eq=False)
class ExtensionCode:
    """Machine code of a function, for this process. address : of it; code : what keeps it there"""

    address: int
    code: Any


@cache
def compiled_functions(value: Scalar, derivative: Scalar) -> ExtensionCode:
    """Return two functions of (score, target), floats, that return a float, as machine code of this process.

    Raises TypeError : numba does not know what a function does, or it returns no number
    """
    try:
        numbers = types.float64(types.float64, types.float64)
        of_value, of_slope = (numba.njit(numbers, error_model="numpy")(one) for one in (value, derivative))

        def either(which: int, f: float, y: float) -> Any:
            return of_value(f, y) if which == VALUE else of_slope(f, y)

        return _extension_code(either)
    except Exception as error:  # numba has many for what it cannot do
        raise TypeError(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from error


@cache
def compiled_profile(profile: Callable[[float], float]) -> ExtensionCode:
    """Return a function of one float that returns a float as machine code of this process."""
    of_distance = numba.njit(types.float64(types.float64), error_model="numpy")(profile)

    def value(which: int, s: float, unused: float) -> Any:
        return of_distance(s)

    return _extension_code(value)


def _extension_code(function: Callable[[int, float, float], Any]) -> ExtensionCode:
    signature = types.float64(types.int64, types.float64, types.float64)
    code = numba.cfunc(signature, error_model="numpy")(function)
    return ExtensionCode(int(code.address), code)


@compiled
def evaluate_extension(out: FloatArray, address: int, which: int, scores: FloatArray, targets: FloatArray) -> None:
    """Overwrite out (rows,) by values or derivatives at scores and targets (rows,)."""
    for row in range(out.shape[0]):
        out[row] = call_extension(address, which, scores[row], targets[row])


# Functions of a round and a point, with as many values as there are constraints, or one of a loss, and their slopes.

_REAL, _WHOLE = types.float64, types.int64
_POINTER = types.CPointer(types.float64)


@intrinsic  # type: ignore[untyped-decorator]
def call_oracle(typing_context: Any, address: Any, at: Any, point: Any, values: Any, slopes: Any) -> Any:
    """Overwrite values (m,) and slopes (m, p) by those of the function at an address, in round at, at a point (p,).

    Arrays are contiguous; all become NaN where the function raises an error.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        point, values, slopes = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[2:], arguments[2:], strict=True)
        )
        size, count = (cgutils.unpack_tuple(builder, one.shape)[0] for one in (point, values))
        whole, pointer = ir.IntType(64), ir.DoubleType().as_pointer()
        kind = ir.FunctionType(ir.DoubleType(), [whole, pointer, whole, pointer, whole, pointer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(function, [arguments[1], point.data, size, values.data, count, slopes.data])
        return context.get_dummy_value()

    return types.none(_WHOLE, _WHOLE, point, values, slopes), generate


def _write(out, found):  # type: ignore[no-untyped-def]
    """Overwrite an array by a number or by an array of its shape; one row (1, p) also by an array (p,)."""


def _write_row(out: Doubles, found: FloatArray) -> None:
    if found.shape[0] != out.shape[0]:
        raise ValueError("other values than expected")
    for i in range(out.shape[0]):
        out[i] = found[i]


def _write_only_row(out: Doubles, found: FloatArray) -> None:
    if out.shape[0] != 1 or found.shape[0] != out.shape[1]:
        raise ValueError("other slopes than expected")
    for j in range(out.shape[1]):
        out[0, j] = found[j]


def _write_rows(out: Doubles, found: FloatArray) -> None:
    if found.shape[0] != out.shape[0] or found.shape[1] != out.shape[1]:
        raise ValueError("other slopes than expected")
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = found[i, j]


_BY_DIMENSIONS = {(1, 1): _write_row, (2, 1): _write_only_row, (2, 2): _write_rows}


@overload(_write, strict=False)
def _choose_write(out, found):  # type: ignore[no-untyped-def]
    # loops: a slice compiles numba's message about unequal shapes, for seconds, in every process
    if isinstance(found, types.Array) and (out.ndim, found.ndim) in _BY_DIMENSIONS:
        return _BY_DIMENSIONS[out.ndim, found.ndim]
    return _write_any if out.ndim == 1 else _write_any_rows


def _write_any(out: Doubles, found: Any) -> None:
    out[:] = found


def _write_any_rows(out: Doubles, found: Any) -> None:
    out[:, :] = found


@dataclass(frozen=True, eq=False)
class OracleCode:
    """Value and slope as compiled functions that Python can call, and the machine code of both."""

    value: Callable[..., Any]
    slope: Callable[..., Any]
    both: ExtensionCode


@cache
def compiled_oracle(value: Callable[..., Any], slope: Callable[..., Any], takes_round: bool) -> OracleCode:
    """Return two functions of (round, point (p,)), or of the point alone, as machine code for `call_oracle`.

    Functions that numba has compiled already are taken as they are.

    Raises TypeError : numba does not know what a function does, or it returns no numbers
    """
    of_value, of_slope = (
        one if isinstance(one, Dispatcher) else numba.njit(boundscheck=True)(one) for one in (value, slope)
    )

    def in_round(at: int, x: Doubles, values: Doubles, slopes: Doubles) -> None:
        _write(values, of_value(at, x))  # type: ignore[no-untyped-call]
        _write(slopes, of_slope(at, x))  # type: ignore[no-untyped-call]

    def always(at: int, x: Doubles, values: Doubles, slopes: Doubles) -> None:
        _write(values, of_value(x))  # type: ignore[no-untyped-call]
        _write(slopes, of_slope(x))  # type: ignore[no-untyped-call]

    try:
        fill = numba.njit(in_round if takes_round else always)

        def both(at: int, point: Any, size: int, values: Any, count: int, slopes: Any) -> float:
            out, rows = numba.carray(values, (count,)), numba.carray(slopes, (count, size))
            out[:] = np.nan
            rows[:, :] = np.nan
            fill(at, numba.carray(point, (size,)).copy(), out, rows)  # a copy: the function may change its argument
            return 0.0

        code = numba.cfunc(_REAL(_WHOLE, _POINTER, _WHOLE, _POINTER, _WHOLE, _POINTER), error_model="numpy")(both)
        return OracleCode(of_value, of_slope, ExtensionCode(int(code.address), code))
    except Exception as error:  # numba has many for what it cannot do
        raise TypeError(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from error
