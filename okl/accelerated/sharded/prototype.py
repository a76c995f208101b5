"""What a margin model is to a single row of each group: all that shards need to know of it, whatever model it is.

A model is asked for its problem on one row of each group, weighted so that each number in it is that of a row of the
whole data. Shards spread these numbers over their rows; nothing here knows more than two models by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.dual import DualProblem
from okl.accelerated.models.dwd import DWD
from okl.accelerated.models.nusvm import NuSVM
from okl.accelerated.operators import DenseRows
from okl.accelerated.outer import EuclideanNorm, Outer
from okl.accelerated.protocol import Problem
from okl.accelerated.regions import Bound, BoxHyperplane, SimplexPair
from okl.accelerated.sparsity import SparseProblem
from okl.errors import ConfigError
from okl.types import FloatArray


@dataclass(frozen=True)
class Classes:
    """Groups of like rows: how many there are, and what one of them weighs; first all of +1, then those of -1.

    -1 is one group, or, where the rest of several classes weigh differently, one a class in the order of the labels.
    """

    rows: tuple[int, ...]
    weights: tuple[float, ...] = (1.0, 1.0)

    @property
    def signs(self) -> NDArray[np.float64]:
        """Of the groups."""
        return np.array([1.0] + [-1.0] * (len(self.rows) - 1))

    @property
    def totals(self) -> NDArray[np.float64]:
        """What the groups weigh."""
        totals: NDArray[np.float64] = np.array(self.rows, dtype=np.float64) * np.array(self.weights)
        return totals

    @property
    def one_each(self) -> DenseRows:
        """A row of each group."""
        return DenseRows(np.ones((len(self.rows), 1)), self.signs)


def prototype_of(model: object, classes: Classes) -> DualProblem | SparseProblem:
    """The model's problem on one row of each group.

    Raises
    ------
    ConfigError : the model's parameter is outside the range that classes of these sizes allow
    """
    each = classes.one_each
    rows, weights = np.array(classes.rows, dtype=np.float64), np.array(classes.weights)
    if isinstance(model, NuSVM):  # a share of the weight of all rows
        problem = _checked(model.problem(each, classes.totals))
        region = problem.region
        assert isinstance(region, BoxHyperplane | SimplexPair)
        risk = replace(problem.risk, steepest=problem.risk.steepest / rows)  # type: ignore[type-var, attr-defined]
        return replace(problem, region=replace(region, upper=_divided(region.upper, rows)), risk=risk)
    if isinstance(model, DWD):  # the steepest slope is one over nu times the weight of all rows
        return _checked(replace(model, nu=model.nu * float(rows @ weights / weights.sum())).problem(each, weights))
    problem = model.problem(each, weights)  # type: ignore[attr-defined]
    if not isinstance(problem, DualProblem | SparseProblem):
        raise ConfigError(
            f"{type(model).__name__} makes a {type(problem).__name__}, but over shards a model is a DualProblem or a "
            "SparseProblem. Solve it in memory, with its problem and okl.accelerated.fapg.Fapg."
        )
    return problem


def outer_at(prototype: DualProblem, level: int, first_length: float, longest_first: float) -> Outer:
    """The function of ||A a|| of the whole data at a level of smoothing.

    first_length : ||A a|| of the first point; longest_first : the longest row times the largest entry of that point
    """
    outer = prototype.outer
    if not isinstance(outer, EuclideanNorm):
        return outer
    less = prototype.at_level(level).outer
    assert isinstance(less, EuclideanNorm)
    first = max(0.1 * first_length, 0.1 * longest_first, float(np.finfo(np.float32).tiny))  # as okl...models.dwd does
    return EuclideanNorm(first * less.width / outer.width)


def _checked(problem: Problem) -> DualProblem:
    assert isinstance(problem, DualProblem)
    return problem


def _divided(bound: Bound, rows: FloatArray) -> Bound:
    divided: FloatArray = np.asarray(bound, dtype=np.float64) / rows
    return divided
