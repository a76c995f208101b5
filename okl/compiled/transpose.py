"""Columns into rows: scaled, transposed in tiles and scattered to any order, in one pass over the values.

Legend: n columns, m rows; values are float32, arithmetic is float64, what is written has the precision of the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from okl.compiled.door import compiled
from okl.types import FloatArray

TILE_ROWS = 16  # a tile's rows of output stay in the first-level cache for up to about 400 columns
TILE_COLUMNS = 256


@intrinsic  # type: ignore[untyped-decorator]
def _float32_at(typing_context: Any, address: Any) -> Any:
    """Pointer to float32 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), generate


@compiled
def scatter_columns(
    out: FloatArray,
    addresses: NDArray[np.int64],
    positions: NDArray[np.int64],
    shift: FloatArray,
    factor: FloatArray,
) -> None:
    """Write out (rows, n): out[positions[r], c] = (column c at row r - shift[c]) * factor[c].

    addresses : (n,) of the columns, each m contiguous float32 that the caller keeps alive; positions : (m,), distinct
    """
    m, n = positions.size, addresses.size
    for first_column in range(0, n, TILE_COLUMNS):
        last_column = min(first_column + TILE_COLUMNS, n)
        for first in range(0, m, TILE_ROWS):
            last = min(first + TILE_ROWS, m)
            for c in range(first_column, last_column):
                column = carray(_float32_at(addresses[c]), m)
                for r in range(first, last):
                    out[positions[r], c] = (np.float64(column[r]) - shift[c]) * factor[c]
