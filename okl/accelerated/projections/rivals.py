"""The paper's searches for the multiplier, and the one it compares with: the same projections, other ways.

They take two numbers as bounds, and reach y-weighted sums by the paper's change of variable, b_i = -a_i + lower + upper
where y_i = -1, which takes finite bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from okl.accelerated.projections.checked import check_point, check_signed_total, checked_entries
from okl.accelerated.projections.hyperplane import Projected
from okl.accelerated.projections.multiplier import write_clipped
from okl.accelerated.projections.workspace import workspace
from okl.checks import check_choice
from okl.compiled.projections import Doubles
from okl.compiled.projectionsrivals import bisect, bisect_finely, copy_entries, search_breakpoints
from okl.errors import ConfigError
from okl.types import FloatArray

Rival = Literal["bisection", "refined-bisection", "breakpoints"]
RIVALS: tuple[Rival, ...] = ("bisection", "refined-bisection", "breakpoints")


def project_box_hyperplane_by(
    rival: Rival, out: FloatArray, point: FloatArray, signs: ArrayLike, lower: float, upper: float, total: float = 0.0
) -> Projected:
    """Overwrite out by the nearest point of a box on a hyperplane, as `project_box_hyperplane` does, by another search.

    Parameters
    ----------
    rival : "bisection" (Algorithm 2), "refined-bisection" (Algorithm 5) or "breakpoints" (Kiwiel's)
    the others : as of `project_box_hyperplane`; bounds are numbers, and finite where there is a sign of -1

    Returns
    -------
    Projected with the multiplier and the number of iterations, each of which goes over what is left of the data

    Raises
    ------
    ConfigError : the set is empty, or a bound is infinite where the change of variable needs it
    DataError : shapes, precisions or signs that do not fit

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, Algorithms 2 and 5, section 4.1.2; Kiwiel, Mathematical Programming
    112, 2008, Algorithm 3.1.
    """
    check_choice("rival", rival, RIVALS)
    point = check_point(out, point)
    entries, sums = checked_entries(point, signs, float(lower), float(upper))
    check_signed_total(total, sums)
    moved, target = point, total
    if sums.n_minus:
        if not math.isfinite(lower + upper):
            raise ConfigError(
                f"lower = {lower:g} and upper = {upper:g}, but {rival} takes finite bounds where a sign is -1. "
                "Use project_box_hyperplane."
            )
        moved = np.where(entries.signs > 0, point.astype(np.float64), lower + upper - point.astype(np.float64))
        target = total + (lower + upper) * sums.n_minus
    root, iterations = _SEARCHES[rival](moved, float(lower), float(upper), target)
    write_clipped(out, entries, root, -root)
    return Projected(root, iterations)


def _by_breakpoints(point: FloatArray, lower: float, upper: float, total: float) -> tuple[float, int]:
    kept, bends = workspace.doubles("kept", len(point)), workspace.doubles("bends", 2 * len(point))
    copy_entries(kept, point)
    return search_breakpoints(kept, bends, lower, upper, total)


def _by(search: Callable[[Doubles, float, float, float, float, float], tuple[float, int]]) -> _Search:
    def found(point: FloatArray, lower: float, upper: float, total: float) -> tuple[float, int]:
        kept = workspace.doubles("kept", len(point))
        return search(kept, *copy_entries(kept, point), lower, upper, total)

    return found


_Search = Callable[[FloatArray, float, float, float], tuple[float, int]]
_SEARCHES: dict[Rival, _Search] = {
    "bisection": _by(bisect),
    "refined-bisection": _by(bisect_finely),
    "breakpoints": _by_breakpoints,
}
