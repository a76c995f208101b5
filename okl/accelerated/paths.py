"""One model over a grid of its parameter, each solution found from the one before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from okl.accelerated.catalogue import make_model, parameter_of
from okl.accelerated.classifier import Classifier
from okl.accelerated.fapg import Fapg
from okl.accelerated.fitting import Fitted, solve_problem
from okl.accelerated.protocol import Problem
from okl.types import FloatArray

_FIRM = 1e9  # times the Lipschitz constant: a prox that only brings a point into the set


class PathPoint(NamedTuple):
    """A parameter, its solution, and what that took: seconds, iterations of the method."""

    parameter: float
    solution: Fitted
    seconds: float
    iterations: int


def path(
    name: str,
    rows: Any,
    grid: Sequence[float],
    method: Fapg,
    fit_intercept: bool = True,
    sample_weight: FloatArray | None = None,
) -> list[PathPoint]:
    """Solve a model for every parameter of a grid, in its order, warm from the one before.

    The point of the one before is taken as it is or, where that is better, scaled by the ratio of the parameters,
    which brings points of one box or ball into the next. The first is solved from the problem's own start.

    Parameters
    ----------
    name : one of MODEL_NAMES
    rows : operator
    grid : values of C, nu or kappa; neighbours that are close together save most
    method : Fapg
    fit_intercept : whether there is a bias
    sample_weight : (m,) or None

    Raises
    ------
    ConfigError : a value outside the valid range for these rows
    """
    points: list[PathPoint] = []
    for value in grid:
        started = time.perf_counter()
        problem = with_parameter(name, value, fit_intercept).problem(rows, sample_weight)
        first = _warm(name, problem, points[-1], value) if points else None
        found = solve_problem(problem, method, first)
        points.append(PathPoint(value, found, time.perf_counter() - started, found.iterations))
    return points


def with_parameter(name: str, value: float, fit_intercept: bool = True) -> Classifier:
    """The model of a name with its one parameter, whatever that is called."""
    own = parameter_of(name)
    return make_model(
        name,
        C=value if own == "C" else None,
        nu=value if own == "nu" else None,
        kappa=value if own == "kappa" else None,
        fit_intercept=fit_intercept,
    )


def _warm(name: str, problem: Problem, before: PathPoint, value: float) -> FloatArray:
    ratio = before.parameter / value if parameter_of(name) == "nu" else value / before.parameter
    candidates = [_inside(problem, scale * before.solution.point) for scale in (1.0, ratio)]
    return min(candidates, key=lambda point: _objective(problem, point))


def _inside(problem: Problem, point: FloatArray) -> FloatArray:
    out = np.empty(problem.n_points)
    problem.prox(out, point, _FIRM * problem.first_lipschitz)
    return out


def _objective(problem: Problem, point: FloatArray) -> float:
    image = np.empty(problem.n_image)
    problem.image(image, point)
    return problem.smooth(point, image) + problem.penalty(point)
