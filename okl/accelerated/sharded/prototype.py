"""What a margin model is to a single row of either class: all that shards need to know of it, whatever model it is.

A model is asked for its problem on two rows, one of either class, weighted so that each number in it is that of a row
of the whole data. Shards spread these numbers over their rows; nothing here knows more than two models by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

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
    """Rows of either class and what one of them weighs; +1 first."""

    rows: tuple[int, int]
    weights: tuple[float, float] = (1.0, 1.0)


def prototype_of(model: object, classes: Classes) -> DualProblem | SparseProblem:
    """The model's problem on one row of either class, +1 first.

    Raises
    ------
    ConfigError : the model's parameter is outside the range that classes of these sizes allow
    """
    two = DenseRows(np.ones((2, 1)), np.array([1.0, -1.0]))
    rows, weights = np.array(classes.rows, dtype=np.float64), np.array(classes.weights)
    if isinstance(model, NuSVM):  # a share of the weight of all rows
        problem = _checked(model.problem(two, rows * weights))
        region = problem.region
        assert isinstance(region, BoxHyperplane | SimplexPair)
        risk = replace(problem.risk, steepest=problem.risk.steepest / rows)  # type: ignore[type-var, attr-defined]
        return replace(problem, region=replace(region, upper=_divided(region.upper, rows)), risk=risk)
    if isinstance(model, DWD):  # the steepest slope is one over nu times the weight of all rows
        return _checked(replace(model, nu=model.nu * float(rows @ weights / weights.sum())).problem(two, weights))
    problem = model.problem(two, weights)  # type: ignore[attr-defined]
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
