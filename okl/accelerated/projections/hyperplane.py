"""Projections onto boxes cut by hyperplanes: the dual sets of C-SVM, l2-SVM, logistic regression, DWD and nu-SVM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from okl.accelerated.projections.checked import check_point
from okl.accelerated.projections.prepared import ProjectedPair, hyperplane_set_of, pair_set_of
from okl.types import FloatArray


class Projected(NamedTuple):
    """The multiplier of the hyperplane, and entries read and written over the number of entries."""

    theta: float
    passes: float


def project_box_hyperplane(
    out: FloatArray,
    point: FloatArray,
    signs: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    total: float = 0.0,
    theta: float = 0.0,
    n_threads: int = 1,
) -> Projected:
    """Overwrite out by the nearest point of a box on a hyperplane.

    argmin ||a - point||^2 subject to sum_i y_i a_i = total, lower_i <= a_i <= upper_i;
    a_i = clip(point_i - theta y_i, lower_i, upper_i)

    Parameters
    ----------
    out : (m,), C-contiguous, of the point's precision; may be the point itself
    point : (m,), float32 or float64; the search runs in float64 for both
    signs : y (m,), -1 or +1; those that come as int8 need no copy
    lower, upper : numbers or (m,), those that come as float64 need no copy; may be infinite on their own side
    total : sum_i y_i a_i
    theta : a guess at the multiplier, such as the last iteration's; changes the result by rounding only
    n_threads : any number gives the same bits

    Returns
    -------
    Projected with the multiplier theta, of which there may be several, and the number of passes over the data

    Raises
    ------
    ConfigError : the set is empty
    DataError : shapes, precisions or signs that do not fit, or a point with NaN

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, (18) and (20), without the change of variable, which an infinite
    bound breaks.
    """
    point = check_point(out, point)
    found = hyperplane_set_of(point, signs, lower, upper, total).project(out, point, (theta, -theta), n_threads)
    return Projected(found.plus_theta, found.passes)


def project_truncated_simplex_pair(
    out: FloatArray,
    point: FloatArray,
    signs: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    plus_total: float = 0.5,
    minus_total: float = 0.5,
    thetas: tuple[float, float] = (0.0, 0.0),
    n_threads: int = 1,
) -> ProjectedPair:
    """Overwrite out by the nearest point of a box whose entries of each sign have a given sum.

    argmin ||a - point||^2 subject to sum_(y_i = 1) a_i = plus_total, sum_(y_i = -1) a_i = minus_total,
    lower_i <= a_i <= upper_i; a_i = clip(point_i - theta, lower_i, upper_i) with the theta of its class

    Parameters
    ----------
    plus_total, minus_total : sums over the signs +1 and -1; both 1/2 for nu-SVM
    thetas : guesses at the two multipliers
    the others : as of `project_box_hyperplane`; both classes are found in the same passes

    Raises
    ------
    ConfigError : the set is empty; for nu-SVM that means nu above nu_max = 2 min(m_plus, m_minus) / m
    DataError : shapes, precisions or signs that do not fit, or a point with NaN

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, (21) and (22).
    """
    point = check_point(out, point)
    return pair_set_of(point, signs, lower, upper, plus_total, minus_total).project(out, point, thetas, n_threads)


def project_truncated_simplex(
    out: FloatArray,
    point: FloatArray,
    lower: ArrayLike,
    upper: ArrayLike,
    total: float = 1.0,
    theta: float = 0.0,
    n_threads: int = 1,
) -> Projected:
    """Overwrite out by the nearest point with sum_i a_i = total and lower_i <= a_i <= upper_i: (18) of the paper.

    Parameters, what comes back and what is raised are those of `project_box_hyperplane` with signs +1.
    """
    return project_box_hyperplane(out, point, np.ones(len(point), dtype=np.int8), lower, upper, total, theta, n_threads)
