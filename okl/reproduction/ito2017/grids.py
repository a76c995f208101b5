"""The grid of each model, fixed before any data is seen, and solutions over it, each found from the one before.

The paper states no grid. Parameters that have a largest value are fractions of it, for the rows that are learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from okl.accelerated.fapg import Fapg, solve
from okl.accelerated.minimax import MinimaxProblem
from okl.accelerated.models.logistic import LogisticRegression
from okl.accelerated.models.mmfda import MMFDA, fda_kappa_max
from okl.accelerated.models.mmmpm import MMMPM, mpm_kappa_max
from okl.accelerated.models.nusvm import NuSVM, nu_max
from okl.accelerated.moments import ClassMoments
from okl.accelerated.operators import RowOperator
from okl.accelerated.protocol import Problem, Solution
from okl.accelerated.weighting import weights_of
from okl.types import FloatArray

NOTHING_LEFT = 1e-5  # of the first squared length of w: nearly 0, which has no direction


@dataclass(frozen=True)
class Grid:
    """Values of a model's parameter in the order in which they are solved.

    parameter : its name; values : of it, or fractions of its largest value; of_largest : which of the two
    """

    parameter: str
    values: tuple[float, ...]
    of_largest: bool = True

    @property
    def falls(self) -> bool:
        """Whether values become smaller."""
        return self.values[0] > self.values[-1]

    def describe(self) -> str:
        """In words."""
        low, high = min(self.values), max(self.values)
        unit = f" times {self.parameter}_max of the rows learnt" if self.of_largest else ""
        return f"{self.parameter}: {len(self.values)} values from {low:g} to {high:g}{unit}"


def _fractions(*values: int) -> tuple[float, ...]:
    return tuple(value / 100 for value in values)


_KAPPAS = _fractions(1, *range(5, 100, 5), 98)
GRIDS: dict[str, Grid] = {
    # from the largest, whose solution is nearly known, down to where classes overlap too much for w other than 0
    "nu_svm": Grid("nu", _fractions(*range(99, 0, -2))),
    "logistic": Grid("C", tuple(10.0 ** (k / 5) for k in range(-10, 6)), of_largest=False),
    "mm_mpm": Grid("kappa", _KAPPAS),
    "mm_fda": Grid("kappa", _KAPPAS),
}


class Solved(NamedTuple):
    """A value of the grid, the parameter that it comes to, its solution, and the iterations that it took."""

    value: float
    parameter: float
    solution: Solution
    iterations: int


def margin_solutions(name: str, rows: RowOperator, method: Fapg) -> Iterator[Solved]:
    """Solutions of nu-SVM or logistic regression over their grid; they end before w is 0.

    Where nu comes close to its least value, below which w = 0 is best, w shrinks and iterations grow without end.
    """
    grid = GRIDS[name]
    largest = nu_max(rows.signs, weights_of(rows, None)) if grid.of_largest else 1.0
    parameters = [value * largest for value in grid.values]
    problems = (
        (NuSVM(parameter) if name == "nu_svm" else LogisticRegression(parameter)).problem(rows)
        for parameter in parameters
    )
    # a logistic dual grows with C, that of nu-SVM does not with nu
    scales = _growth(parameters) if name == "logistic" else [1.0] * len(parameters)
    return _solutions(grid, parameters, problems, scales, method)


def minimax_solutions(name: str, moments: ClassMoments, method: Fapg) -> Iterator[Solved]:
    """Solutions of MM-MPM or MM-FDA over their grid from the moments of the classes."""
    moments = moments.mended()
    largest = mpm_kappa_max(moments) if name == "mm_mpm" else fda_kappa_max(moments)
    parameters = [value * largest for value in GRIDS[name].values]
    first: MinimaxProblem = (MMMPM if name == "mm_mpm" else MMFDA)(parameters[0]).problem_of(moments)
    problems = (replace(first, kappa=parameter) for parameter in parameters)  # the roots of covariances are the same
    return _solutions(GRIDS[name], parameters, problems, _growth(parameters), method)


def _growth(parameters: Sequence[float]) -> list[float]:
    """Each over the one before, and 1 for the first."""
    return [1.0, *(after / before for before, after in pairwise(parameters))]


def _solutions(
    grid: Grid, parameters: Sequence[float], problems: Iterator[Problem], scales: Sequence[float], method: Fapg
) -> Iterator[Solved]:
    point: FloatArray | None = None
    longest = 0.0
    for value, parameter, problem, scale in zip(grid.values, parameters, problems, scales, strict=True):
        state, outcome = solve(problem, method, None if point is None else scale * point)
        solution = method.solution(state, problem)
        squared = float(solution.weights @ solution.weights)
        longest = max(longest, squared)
        if squared <= NOTHING_LEFT * longest or (grid.falls and outcome.kind != "done"):
            return
        yield Solved(value, parameter, solution, state.history[-1].iteration)
        point = state.best.point
        method = replace(method, first_lipschitz=state.pace.lipschitz)
