"""Losses that extensions bring: two scalar functions, compiled to machine code that the learners' loops call.

An address stands where the codes of okl's own losses are told apart: it is a number like any other, so that loops need
not be compiled, or cached, for each loss, and those of okl's own losses stay as they are. A call takes some 2 ns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from okl.compiled.door import compiled

VALUE, SLOPE = 0, 1
Scalar = Callable[[float, float], float]


@intrinsic  # type: ignore[untyped-decorator]
def call_own(typing_context: Any, address: Any, which: Any, f: Any, y: Any) -> Any:
    """Value or derivative at a score of the loss at an address of this process."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, real = ir.IntType(64), ir.DoubleType()
        function = builder.inttoptr(arguments[0], ir.FunctionType(real, [whole, real, real]).as_pointer())
        return builder.call(function, arguments[1:])

    return types.float64(types.int64, types.int64, types.float64, types.float64), generate


@dataclass(frozen=True, eq=False)
class CompiledLoss:
    """Machine code of a loss, for this process. address : of it; code : what keeps it there"""

    address: int
    code: Any


def compile_loss(value: Scalar, derivative: Scalar) -> CompiledLoss:
    """Compile two functions of (score, target), floats, that return a float.

    Raises
    ------
    TypeError : numba does not know what a function does, or it returns no number
    """
    try:
        numbers = types.float64(types.float64, types.float64)
        of_value, of_slope = (numba.njit(numbers, error_model="numpy")(one) for one in (value, derivative))

        def either(which: int, f: float, y: float) -> Any:
            return of_value(f, y) if which == VALUE else of_slope(f, y)

        signature = types.float64(types.int64, types.float64, types.float64)
        code = numba.cfunc(signature, error_model="numpy")(either)
    except Exception as error:  # numba has many for what it cannot do
        raise TypeError(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from error
    return CompiledLoss(int(code.address), code)


@compiled
def evaluate_own(
    out: NDArray[np.float64], address: int, which: int, scores: NDArray[np.float64], targets: NDArray[np.float64]
) -> None:
    """Overwrite out (rows,) by values or derivatives at scores and targets (rows,)."""
    for row in range(out.shape[0]):
        out[row] = call_own(address, which, scores[row], targets[row])
