"""The exact kernel matrix tile by tile: held as far as a budget goes, computed again beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators.protocol import signs_of
from okl.compiled.blocks import as_compiled, run_threads
from okl.compiled.kernelblocks import kernel_block
from okl.compiled.projection import panels_of
from okl.compiled.rowpasses import add_rows, multiply_rows
from okl.compiled.steps import distance_product, inner
from okl.errors import ConfigError, DataError
from okl.kernels import Kernel
from okl.types import FloatArray, Precision

TILE_ROWS = 256  # a tile of float64 values stays in the second-level cache while it is used twice
_GROUPS = 16  # of tile rows, each with sums of its own: fixed, so that bits do not depend on the number of threads


@dataclass(frozen=True, eq=False)
class KernelTiles:
    """The lower half of (k(x_i, x_j)) in square tiles; each is used for itself and for its mirror image.

    A product with a vector has the same bits whatever the budget and the number of threads: tiles that are not held are
    computed as they were the first time, and sums are added in one order.

    Parameters
    ----------
    kernel : Kernel
    inputs : (m, n_inputs), finite
    precision : of kernel values; sums are float64
    budget_bytes : int >= 0, what held tiles may take; the whole half takes m^2 / 2 numbers
    n_threads : int >= 1

    Raises
    ------
    ConfigError : a budget below 0
    DataError : inputs that are no matrix, kernel values that are not finite
    """

    kernel: Kernel
    inputs: FloatArray
    precision: Precision = "float64"
    budget_bytes: int = 2**30
    n_threads: int = 1

    def __post_init__(self) -> None:
        if self.budget_bytes < 0:
            raise ConfigError(f"budget_bytes = {self.budget_bytes}, but it takes a whole number of at least 0.")
        if self.inputs.ndim != 2 or len(self.inputs) == 0:
            raise DataError(
                f"Inputs of shape {self.inputs.shape} came: give a matrix (rows, columns) of one row or more."
            )
        object.__setattr__(self, "inputs", as_compiled(self.inputs, self.precision))
        # |k(x, x')|^2 <= k(x, x) k(x', x'): the diagonal speaks for all
        if not (np.isfinite(self.diagonal).all() and np.isfinite(self.inputs.sum(dtype=np.float64))):
            raise DataError("The kernel matrix holds NaN or infinite values: drop or fill such inputs, or scale them.")

    @property
    def n_rows(self) -> int:
        """Rows of the inputs, and of the matrix."""
        return len(self.inputs)

    @property
    def n_tiles(self) -> int:
        """Tiles of the lower half."""
        return self._n_parts * (self._n_parts + 1) // 2

    @cached_property
    def n_held(self) -> int:
        """Tiles that the budget holds, the first ones."""
        return min(self.n_tiles, self.budget_bytes // (TILE_ROWS**2 * np.dtype(self.precision).itemsize))

    @cached_property
    def diagonal(self) -> NDArray[np.float64]:
        """k(x_i, x_i), (m,)."""
        values = np.empty(self.n_rows)
        for part in range(self._n_parts):
            values[_cut(part)] = np.diagonal(self._computed(part, part))
        return values

    def multiply(self, out: FloatArray, vector: FloatArray) -> None:
        """Overwrite out (m,) by the matrix times vector (m,), both float64."""
        sums = np.zeros((min(_GROUPS, self._n_parts), self.n_rows))
        n_threads = min(self.n_threads, len(sums))

        def add_groups(thread: int) -> None:
            for group in range(thread, len(sums), n_threads):
                for part in range(group, self._n_parts, _GROUPS):
                    self._add_tile_row(sums[group], part, vector)

        run_threads(n_threads, add_groups)
        out[:] = 0.0
        for group in sums:  # in order, whoever summed them
            out += group

    def _add_tile_row(self, sums: FloatArray, part: int, vector: FloatArray) -> None:
        here = _cut(part)
        ones, products = np.ones(len(vector[here])), np.empty(len(vector[here]))
        for other in range(part + 1):
            tile, there = self._tile(part, other), _cut(other)
            multiply_rows(products, tile, ones, vector[there])
            sums[here] += products
            if other < part:
                add_rows(sums[there], tile, ones, vector[here])

    def _tile(self, part: int, other: int) -> FloatArray:
        place = part * (part + 1) // 2 + other
        if place >= self.n_held:
            return self._computed(part, other)
        if self._held[place] is None:  # by one thread only: tile rows belong to groups
            self._held[place] = self._computed(part, other)
        tile = self._held[place]
        assert tile is not None
        return tile

    def _computed(self, part: int, other: int) -> FloatArray:
        inputs = self.inputs[_cut(part)]
        if self.kernel.rule is None:
            matrix = self.kernel.matrix(inputs, self.inputs[_cut(other)])
            return as_compiled(matrix, self.precision)
        values = np.empty((len(inputs), len(self.inputs[_cut(other)])), dtype=self.precision)
        kernel_block(values, inputs, self._panels[other], self.kernel.rule)
        return values

    @property
    def _n_parts(self) -> int:
        return -(-self.n_rows // TILE_ROWS)

    @cached_property
    def _panels(self) -> list[FloatArray]:
        return [panels_of(self.inputs[_cut(part)].T) for part in range(self._n_parts)]

    @cached_property
    def _held(self) -> list[FloatArray | None]:
        return [None] * self.n_held


@dataclass(frozen=True, eq=False)
class TiledKernel:
    """A'A = (s_i s_j k(x_i, x_j)) of tiles, which problems with other labels may share; the image is A'A a itself.

    Parameters
    ----------
    tiles : KernelTiles of m rows
    labels : (m,), -1 or +1

    Raises
    ------
    DataError : shapes that do not fit, labels that are not both -1 and +1
    """

    tiles: KernelTiles
    labels: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", signs_of(self.labels))
        if len(self.labels) != self.tiles.n_rows:
            raise DataError(
                f"{self.tiles.n_rows} inputs and {len(self.labels)} labels do not fit together: give one label a row."
            )

    @property
    def signs(self) -> FloatArray:
        """The labels, (m,)."""
        return self.labels

    @property
    def n_points(self) -> int:
        """Rows."""
        return self.tiles.n_rows

    @property
    def n_image(self) -> int:
        """Rows again: the image of a point is as long as the point."""
        return self.tiles.n_rows

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (m,) by A'A a."""
        self.tiles.multiply(out, self.signs * point)
        out *= self.signs

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Copy the image: it is what is asked for."""
        out[:] = image

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """a'A'A a; rounding may not make it negative."""
        return max(0.0, float(inner(point, image)))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """(a - b)'A'A (a - b); rounding may not make it negative."""
        return max(0.0, float(distance_product(point, other, image, other_image)))

    def squared_lengths(self) -> NDArray[np.float64]:
        """k(x_i, x_i), (m,)."""
        return self.tiles.diagonal

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Coefficients scale s_i a_i of the rows, (m,): f(x) = sum_i coefficient_i k(x_i, x) - b."""
        return scale * self.signs * point


def _cut(part: int) -> slice:
    return slice(part * TILE_ROWS, (part + 1) * TILE_ROWS)
