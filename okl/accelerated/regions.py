"""Sets of dual points, each with its projection: what a model's dual point must not leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.projections import project_box_hyperplane, project_truncated_simplex_pair
from okl.types import FloatArray

Bound = float | FloatArray


class Region(Protocol):
    """A convex function of points (m,) with a cheap prox: the indicator of a set, or a barrier on one.

    value : of a feasible point; 0 for a set
    prox : overwrite out, not `point` itself, by the minimiser of the function plus lipschitz / 2 ||a - point||^2; for a
        set that is the nearest point
    """

    def value(self, point: FloatArray) -> float: ...

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None: ...


class _Set:
    def value(self, point: FloatArray) -> float:
        """0."""
        return 0.0


@dataclass(frozen=True, eq=False)
class Box(_Set):
    """lower <= a_i <= upper: of a model without a bias; bounds are numbers or (m,), upper may be infinite."""

    lower: Bound
    upper: Bound

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Clip every entry."""
        np.clip(point, self.lower, self.upper, out=out)


@dataclass(frozen=True, eq=False)
class BoxHyperplane(_Set):
    """lower <= a_i <= upper and sum_i s_i a_i = total; signs (m,) -1 or +1.

    Source: Ito et al., 2017, (20).
    """

    signs: FloatArray
    lower: Bound
    upper: Bound
    total: float = 0.0

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Subtract one multiple of the signs and clip."""
        project_box_hyperplane(out, point, self._signs, self.lower, self.upper, self.total)

    @cached_property
    def _signs(self) -> NDArray[np.int8]:
        return self.signs.astype(np.int8)


@dataclass(frozen=True, eq=False)
class SimplexPair(_Set):
    """0 <= a_i <= upper, the entries of each sign summing to total; signs (m,) -1 or +1.

    Source: Ito et al., 2017, (21) and (22).
    """

    signs: FloatArray
    upper: Bound
    total: float = 0.5

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Subtract one number from the entries of each sign and clip."""
        project_truncated_simplex_pair(out, point, self._signs, 0.0, self.upper, self.total, self.total)

    @cached_property
    def _signs(self) -> NDArray[np.int8]:
        return self.signs.astype(np.int8)
