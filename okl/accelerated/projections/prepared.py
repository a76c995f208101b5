"""Boxes cut by hyperplanes, checked once for many projections, as a method projects onto one set in every iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from okl.accelerated.projections.checked import check_point, check_signed_total, check_total, checked_entries
from okl.accelerated.projections.multiplier import find_multipliers, write_clipped
from okl.accelerated.projections.window import Group
from okl.compiled.projections import Entries
from okl.compiled.projectionsnewton import improve_multiplier, improve_multipliers
from okl.types import FloatArray


class ProjectedPair(NamedTuple):
    """The multipliers of the two classes, and entries read and written over the number of entries."""

    plus_theta: float
    minus_theta: float
    passes: float


@dataclass(frozen=True, eq=False)
class PreparedSet:
    """A box cut by one hyperplane, or by one for the entries of each sign.

    a_i = clip(point_i - theta, lower_i, upper_i), theta by the sign; with one hyperplane that of -1 is minus that of +1

    Parameters
    ----------
    entries : signs and bounds as compiled code reads them; the point is that of each projection
    groups : entries that share a multiplier: all, or those of sign +1 and those of sign -1
    """

    entries: Entries
    groups: tuple[Group, ...]

    def project(
        self, out: FloatArray, point: FloatArray, guesses: tuple[float, float] = (0.0, 0.0), n_threads: int = 1
    ) -> ProjectedPair:
        """Overwrite out (m,), which may be the point (m,), by the nearest point of the set.

        Raises
        ------
        DataError : shapes or precisions that do not fit, or a point with NaN
        """
        point = check_point(out, point)
        found = self.multipliers(point, guesses, n_threads)
        write_clipped(out, self.entries._replace(point=point), found.plus_theta, found.minus_theta, n_threads)
        return found

    def multipliers(
        self, point: FloatArray, guesses: tuple[float, float] = (0.0, 0.0), n_threads: int = 1
    ) -> ProjectedPair:
        """The multipliers alone, of a point as compiled code reads it; passes count the one that writes, too.

        guesses : from where a few steps of Newton's method are tried first, unless both are 0
        """
        entries = self.entries._replace(point=point)
        if any(guesses):
            improved = self._improved(entries, guesses)
            if improved is not None:
                return improved
        signed = (guesses[0], -guesses[1])
        groups = tuple(group._replace(guess=guess) for group, guess in zip(self.groups, signed, strict=False))
        values, passes = find_multipliers(entries, groups, n_threads)
        return ProjectedPair(values[0], -values[-1], passes)

    def _improved(self, entries: Entries, guesses: tuple[float, float]) -> ProjectedPair | None:
        first, last = self.groups[0], self.groups[-1]
        if len(self.groups) == 1:
            theta, passes, found = improve_multiplier(entries, first.total, guesses[0])
            return ProjectedPair(theta, -theta, passes + 1.0) if found else None
        plus, minus, passes, found = improve_multipliers(entries, first.total, -last.total, *guesses)
        return ProjectedPair(plus, minus, passes + 1.0) if found else None


def hyperplane_set_of(
    point: FloatArray, signs: ArrayLike, lower: ArrayLike, upper: ArrayLike, total: float
) -> PreparedSet:
    """The set of `project_box_hyperplane` for points like this one, or the errors that it raises."""
    entries, sums = checked_entries(point, signs, lower, upper)
    check_signed_total(total, sums)
    return PreparedSet(entries, (Group(0, len(point), total, 0.0),))


def pair_set_of(
    point: FloatArray,
    signs: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    plus_total: float,
    minus_total: float,
) -> PreparedSet:
    """The set of `project_truncated_simplex_pair` for points like this one, or the errors that it raises."""
    entries, sums = checked_entries(point, signs, lower, upper)
    check_total(plus_total, *sums.plus, "entries with sign +1 sum to", "plus_total")
    check_total(minus_total, *sums.minus, "entries with sign -1 sum to", "minus_total")
    groups = (Group(1, sums.n_plus, plus_total, 0.0), Group(-1, sums.n_minus, -minus_total, 0.0))
    return PreparedSet(entries, groups)


def hyperplane_set(signs: ArrayLike, lower: ArrayLike, upper: ArrayLike, total: float) -> PreparedSet:
    """The same for float64 points, of bounds that may all be one number."""
    return hyperplane_set_of(np.empty(np.shape(signs)), signs, _joined(lower), _joined(upper), total)


def pair_set(
    signs: ArrayLike, lower: ArrayLike, upper: ArrayLike, plus_total: float, minus_total: float
) -> PreparedSet:
    """The same for float64 points, of bounds that may all be one number."""
    return pair_set_of(np.empty(np.shape(signs)), signs, _joined(lower), _joined(upper), plus_total, minus_total)


def _joined(bound: ArrayLike) -> ArrayLike:
    """The one number that all bounds are, which need not be read then, or the bounds."""
    values = np.asarray(bound)
    return float(values[0]) if values.ndim == 1 and len(values) and (values == values[0]).all() else values
