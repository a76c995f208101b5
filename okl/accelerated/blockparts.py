"""A dual problem in some of its entries, all others at rest: the same objective, over the same set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.barriers import EntropyBarrier, RootsBarrier
from okl.accelerated.dual import DualProblem
from okl.accelerated.operators import DenseRows, SparseRows
from okl.accelerated.regions import Box, BoxHyperplane, Region, SimplexPair
from okl.accelerated.separable import Entropy, Quadratic, Roots, Separable
from okl.compiled.rowpasses import add_rows, add_sparse_rows, multiply_rows, multiply_sparse_rows
from okl.compiled.steps import inner, squared_distance
from okl.errors import ConfigError
from okl.types import FloatArray, IntArray

Spread = Callable[[Any], Any]
"""Of a bound or a curvature: those of the block's rows."""


@dataclass(frozen=True, eq=False)
class AffineRows:
    """A a + offset of some rows; offset is what all other rows add up to.

    rows : (b, n) C-contiguous, or compressed by rows; signs : (b,); offset : (n,)
    """

    rows: Any
    signs: FloatArray
    offset: FloatArray

    @property
    def n_points(self) -> int:
        """Rows."""
        return len(self.signs)

    @property
    def n_image(self) -> int:
        """Columns."""
        return len(self.offset)

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (n,) by A a + offset."""
        out[:] = self.offset
        self.add(out, point, 1.0)

    def add(self, out: FloatArray, point: FloatArray, sign: float) -> None:
        """Add sign A a to out (n,)."""
        rows, signs = self.rows, sign * self.signs
        if isinstance(rows, np.ndarray):
            add_rows(out, rows, signs, point)
        else:
            add_sparse_rows(out, rows.data, rows.indices, rows.indptr, signs, point)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (b,) by A'v."""
        rows = self.rows
        if isinstance(rows, np.ndarray):
            multiply_rows(out, rows, self.signs, image)
        else:
            multiply_sparse_rows(out, rows.data, rows.indices, rows.indptr, self.signs, image)

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """||v||^2."""
        return float(inner(image, image))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """||v - v'||^2."""
        return float(squared_distance(image, other_image))

    def squared_lengths(self) -> NDArray[np.float64]:
        """||z_i||^2, (b,)."""
        if isinstance(self.rows, np.ndarray):
            lengths = np.einsum("ij,ij->i", self.rows, self.rows, dtype=np.float64)
        else:
            lengths = self.rows.multiply(self.rows).sum(axis=1)
        return np.asarray(lengths, dtype=np.float64)

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Scale v, (n,)."""
        return scale * image


def cut_of(rows: Any, chosen: IntArray) -> Any:
    """Some rows (b, n) of an operator, dense or compressed as they are there.

    Raises
    ------
    ConfigError : the operator holds no explicit rows
    """
    if not isinstance(rows, DenseRows | SparseRows):
        raise ConfigError(
            f"A stochastic start takes explicit rows, but {type(rows).__name__} came: map the inputs, or start from 0."
        )
    return np.ascontiguousarray(rows.rows[chosen]) if isinstance(rows, DenseRows) else rows.rows[chosen]


def part_of(problem: DualProblem, rows: IntArray, point: FloatArray, image: FloatArray) -> DualProblem:
    """The problem in the entries of some rows (b,), from their point (b,) and the image (n,) of all.

    Raises
    ------
    ConfigError : no explicit rows, or a set that cannot be cut into blocks
    """

    def chosen(values: Any) -> Any:
        return values[rows] if isinstance(values, np.ndarray) else values

    cut = cut_of(problem.rows, rows)
    return resting(problem, cut, problem.rows.signs[rows], point, image, chosen)


def resting(
    problem: DualProblem, rows: Any, signs: FloatArray, point: FloatArray, image: FloatArray, spread: Spread
) -> DualProblem:
    """The same for rows (b, n) of these signs (b,), whatever the problem's own are; see Spread."""
    moving = AffineRows(rows, signs, image.copy())
    moving.add(moving.offset, point, -1.0)
    separable, region = _separable(problem.separable, spread), _region(problem.region, signs, point, spread)
    return replace(problem, rows=moving, separable=separable, region=region, first=point)


def _separable(whole: Separable, spread: Spread) -> Separable:
    if isinstance(whole, Quadratic):
        return Quadratic(spread(whole.curvatures))
    if isinstance(whole, Entropy):
        return replace(whole, upper=spread(whole.upper))
    return Roots(spread(whole.scales), spread(whole.lower)) if isinstance(whole, Roots) else whole


def _region(whole: Region, signs: FloatArray, point: FloatArray, spread: Spread) -> Region:
    if isinstance(whole, Box):
        return Box(spread(whole.lower), spread(whole.upper))
    if isinstance(whole, SimplexPair):
        plus, minus = float(point[signs > 0].sum()), float(point[signs < 0].sum())
        return SimplexPair(signs, spread(whole.upper), plus, minus)
    if isinstance(whole, BoxHyperplane):
        normal = spread(whole.signs)
        return BoxHyperplane(normal, spread(whole.lower), spread(whole.upper), float(normal @ point))
    if isinstance(whole, EntropyBarrier):
        return replace(whole, signs=signs, upper=spread(whole.upper), total=float(signs @ point))
    if isinstance(whole, RootsBarrier):
        upper, scales = spread(whole.upper), spread(whole.scales)
        return replace(whole, signs=signs, upper=upper, scales=scales, total=float(signs @ point))
    raise ConfigError(f"The set {type(whole).__name__} cannot be cut into blocks of rows.")
