"""Stand-ins for numba's intrinsics where it is switched off: what each computes, in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def stand_in() -> None:
    """Have intrinsics called by Python compute, where they would raise NotImplementedError."""
    from numba.core import extending

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return STAND_INS[self._name](*arguments)

    extending._Intrinsic.__call__ = call  # type: ignore[method-assign]


def _tile(term: Callable[[Any, Any], Any]) -> Callable[..., None]:
    """Rows and columns of a tile: sums over inputs of a term of inputs (rows, n, 1) and a panel (n, width)."""

    def write(products: Any, inputs: Any, panels: Any, panel: int, first: int) -> None:
        from okl.compiled.products import TILE

        width = panels.shape[-1]
        part = products[first : first + TILE.rows, panel * width : (panel + 1) * width]
        factors = np.asarray(panels[panel])[:, : part.shape[1]]
        part[:] = term(inputs[first : first + TILE.rows, :, None], factors[None]).sum(axis=1)

    return write


def _whole_power(exponent: Any) -> Any:
    return type(exponent)(2.0) ** exponent


STAND_INS: dict[str, Callable[..., Any]] = {
    "rint": np.rint,
    "muladd": lambda left, right, addend: left * right + addend,
    "power_of_two": _whole_power,
    "_mantissa": lambda value: 2.0 * math.frexp(value)[0],
    "_exponent": lambda value: float(math.frexp(value)[1] - 1),
    "_project_tile": _tile(lambda inputs, factors: inputs * factors),
    "_squares_tile": _tile(lambda inputs, factors: (inputs - factors) ** 2),
    "_absolutes_tile": _tile(lambda inputs, factors: np.abs(inputs - factors)),
}
