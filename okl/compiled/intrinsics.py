"""Single instructions that numba has no word for; all of them work inside loops that LLVM vectorises."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def rint(typing_context: Any, value: Any) -> Any:
    """Nearest whole number of the same type (numba's np.rint is a call that keeps loops from being vectorised)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.rint", [arguments[0].type])
        return builder.call(function, arguments)

    return value(value), generate


@intrinsic  # type: ignore[untyped-decorator]
def muladd(typing_context: Any, left: Any, right: Any, addend: Any) -> Any:
    """left * right + addend, fused where the CPU can; three of one type. Reordering of sums does not reach inside."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.fmuladd", [kind], ir.FunctionType(kind, [kind] * 3))
        return builder.call(function, arguments)

    return left(left, left, left), generate


@intrinsic  # type: ignore[untyped-decorator]
def power_of_two(typing_context: Any, exponent: Any) -> Any:
    """2^exponent for a whole number of float type within the format's normal exponents; otherwise undefined.

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
