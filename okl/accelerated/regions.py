"""Sets of dual points, each with its projection: what a model's dual point must not leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from okl.accelerated.projections import PreparedSet, hyperplane_set, pair_set
from okl.types import FloatArray

Bound: TypeAlias = "float | FloatArray"


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
        self.prepared.project(out, point)

    @cached_property
    def prepared(self) -> PreparedSet:
        """The set, checked once."""
        return hyperplane_set(self.signs.astype(np.int8), self.lower, self.upper, self.total)


@dataclass(frozen=True, eq=False)
class SimplexPair(_Set):
    """0 <= a_i <= upper, the entries of sign +1 summing to plus and those of sign -1 to minus; signs (m,) -1 or +1.

    Source: Ito et al., 2017, (21) and (22), where both sum to 1/2; other totals are those of a part of the rows.
    """

    signs: FloatArray
    upper: Bound
    plus: float = 0.5
    minus: float = 0.5

    @property
    def lower(self) -> float:
        """0."""
        return 0.0

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Subtract one number from the entries of each sign and clip."""
        self.prepared.project(out, point)

    @cached_property
    def prepared(self) -> PreparedSet:
        """The set, checked once."""
        return pair_set(self.signs.astype(np.int8), 0.0, self.upper, self.plus, self.minus)
