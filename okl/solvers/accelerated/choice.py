"""The choice of a method for a problem, by sizes and C: the same data and settings always take the same method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.solvers.accelerated import l1_newton, minimax_newton, working_sets
from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.dual_descent import is_descended
from okl.solvers.accelerated.fapg import Fapg, FapgState
from okl.solvers.accelerated.l1_newton import L1Newton, L1State
from okl.solvers.accelerated.minimax_newton import MinimaxNewton, MinimaxState
from okl.solvers.accelerated.newton import Newton, NewtonState
from okl.solvers.accelerated.newton_parts import MOST_COLUMNS
from okl.solvers.accelerated.newton_problem import bends, is_smooth, is_supported
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import BoxHyperplane, BoxRegion, EntropyBarrier, HalfSquare, LinearTerm, Quadratic
from okl.solvers.accelerated.working_sets import WorkingSets, WorkingSetState
from okl.solvers.base import Outcome

MethodName = Literal["auto", "newton", "working-sets", "fapg", "proven"]
METHOD_NAMES: tuple[MethodName, ...] = ("auto", "newton", "working-sets", "fapg", "proven")

Method = Fapg | Newton | L1Newton | MinimaxNewton | WorkingSets
MethodState = FapgState | NewtonState | L1State | MinimaxState | WorkingSetState
_METHODS: dict[type[MethodState], type[Method]] = {
    FapgState: Fapg,
    NewtonState: Newton,
    L1State: L1Newton,
    MinimaxState: MinimaxNewton,
    WorkingSetState: WorkingSets,
}

_MOST_OF_L1 = 5000  # columns or rows, whichever are fewer: no more columns have a weight
_SAMPLE, _POWERS, _FEWEST = 1000, 8, 50  # rows and products with them for an eigenvalue; columns
_TIGHTEST = 1e-9  # tolerance that FAPG reaches surely
_TIGHT, _OF_TIGHT = 1e-6, 0.25  # tolerances below take FAPG more steps, and Newton's method few more; their share
# Most C times the largest eigenvalue of Z'Z, as a share of squared columns, at which FAPG is faster than Newton's
# method; from 10 sets of 57 to 1,000 columns at C = 2^-10 to 32, to gaps of 1e-4 and 1e-6.
_OF_HINGE, _OF_LOGISTIC, _OF_SQUARES = 1.0 / 50.0, 1.0 / 100.0, 1.0 / 1000.0


@dataclass(frozen=True)
class MethodChoice:
    """A method by name, with its limits.

    name : "newton"; "working-sets"; "fapg", or "proven" with its bound on the iterations; or "auto": Newton's method
        for explicit rows of all models with at most 1,000 columns; with any number for logistic, for l2-svm over
        sparse shards and for c-svm of sparse rows in memory; and for l1 models in memory with at most 5,000 columns or
        rows; working sets for exact kernels of c-svm, l2-svm and nu-svm; FAPG for all others, and for dense rows of
        l2-svm, and of c-svm and logistic with a bias or over shards, where C is so small that it is faster
    tolerance : of the gap, relative to the objective; > 0
    max_iterations : int >= 1
    Raises ConfigError : a name or a number outside its range
    """

    name: MethodName = "auto"
    tolerance: float = 1e-6
    max_iterations: int = 20_000

    def __post_init__(self) -> None:
        check_choice("method", self.name, METHOD_NAMES)
        check_positive("tolerance", self.tolerance)
        check_at_least("max_iterations", self.max_iterations, 1)

    def method(self, kind: type[Method]) -> Method:
        """Return a method of a kind, with these limits."""
        if kind is not Fapg:
            return kind(self.tolerance, self.max_iterations)  # type: ignore[arg-type]
        name: Any = "proven" if self.name == "proven" else "practical"
        return Fapg(name, self.tolerance, max_iterations=self.max_iterations)

    def choose(
        self,
        problem: CompositeProblem,
        n_columns: int | None = None,
        sparse: bool = False,
        sampled: Callable[[], RowSample] | None = None,
    ) -> Method:
        """Return the method for a problem.

        problem : or the prototype of one over shards, whose rows have n_columns; sparse : whether these are sparse
        sampled : returns a sample of the rows over shards, if they are dense
        Raises ConfigError : Newton's method is set for a problem that it does not solve
        """
        of_kernel = working_sets.is_supported(problem)
        if self.name == "working-sets" and not of_kernel:
            raise ConfigError(
                'method = "working-sets" solves c-svm, l2-svm and nu-svm with an exact kernel. Set method = "auto".'
            )
        if of_kernel and self.name in ("auto", "working-sets"):
            return self.method(WorkingSets)
        if minimax_newton.is_supported(problem):
            return self._either(MinimaxNewton, problem.n_image <= MOST_COLUMNS)
        with_l1 = l1_newton.is_supported(problem)
        possible = is_supported(problem) or with_l1
        if self.name == "newton" and not possible:
            raise ConfigError(
                'method = "newton" solves models of explicit columns. Set method = "auto", or a feature map for a '
                "kernel."
            )
        if with_l1:
            few = n_columns <= MOST_COLUMNS if n_columns else min(problem.n_points, problem.n_image) <= _MOST_OF_L1
            return self._either(L1Newton, few)
        suits = (
            possible
            and self.name == "auto"  # no rows are sampled for a method by name
            and (
                (n_columns or problem.n_image) <= MOST_COLUMNS
                or is_smooth(problem)
                or (sparse and bends(problem))
                or (is_descended(problem) and isinstance(problem.rows, SparseRows))
            )
            and not is_fapg_faster(problem, self.tolerance, sampled)
        )
        return self._either(Newton, suits)

    def _either(self, kind: type[Method], suits: bool) -> Method:
        return self.method(kind if self.name == "newton" or (self.name == "auto" and suits) else Fapg)


class RowSample(NamedTuple):
    """Some of the rows of Z (m, n), dense, and m."""

    rows: FloatArray
    total: int


def is_fapg_faster(problem: Any, tolerance: float, sampled: Callable[[], RowSample] | None = None) -> bool:
    """Return whether FAPG is faster than Newton's method on dense rows Z (m, n).

    FAPG takes about sqrt(C lambda) iterations, lambda the largest eigenvalue of Z'Z, here estimated on a sample; a
    step of Newton's method costs about as much as n of them, also over shards, where the sums of its Hessian are sent.

    sampled : returns a sample of rows over shards; without one, the rows of the problem are those in memory
    """
    dense = sampled is not None or isinstance(problem.rows, DenseRows)
    if not dense or not isinstance(problem.outer, HalfSquare) or tolerance < _TIGHTEST:
        return False
    # without a bias, products with vectors or passes over dual entries are as fast
    if sampled is None and not problem.intercept and (is_smooth(problem) or is_descended(problem)):
        return False
    region, separable = problem.region, problem.separable
    if isinstance(region, EntropyBarrier):
        share, costs = _OF_LOGISTIC, region.upper
    elif isinstance(separable, Quadratic):
        share, costs = _OF_SQUARES, 0.5 / np.maximum(separable.curvatures, np.finfo(np.float32).tiny)
    elif isinstance(region, BoxRegion | BoxHyperplane) and separable == LinearTerm(-1.0):
        share, costs = _OF_HINGE, np.asarray(region.upper)
    else:
        return False
    if sampled:
        some, total = sampled()
    else:
        total = problem.n_points
        some = problem.rows.rows[:: max(total // _SAMPLE, 1)]
    fewest = min(total, some.shape[1])
    if fewest < _FEWEST:
        return False
    sample = np.asarray(some, np.float64)
    vector, eigenvalue = np.ones(sample.shape[1]), 0.0
    for _ in range(_POWERS):
        vector /= max(float(np.linalg.norm(vector)), np.finfo(np.float64).tiny)
        vector = sample.T @ (sample @ vector)
        eigenvalue = float(np.linalg.norm(vector)) * total / len(sample)
    share *= _OF_TIGHT if tolerance < _TIGHT else 1.0
    return bool(float(np.mean(costs)) * eigenvalue < share * fewest**2)


Chooser = MethodChoice | Method
"""A method, or the choice of one."""


def choose_method(
    chooser: Chooser,
    problem: CompositeProblem,
    n_columns: int | None = None,
    sparse: bool = False,
    sampled: Callable[[], RowSample] | None = None,
) -> Method:
    """Return the method for a problem, or for a prototype whose rows have n_columns; see `MethodChoice.choose`."""
    return chooser.choose(problem, n_columns, sparse, sampled) if isinstance(chooser, MethodChoice) else chooser


def method_of_state(chooser: Chooser, state: MethodState) -> Any:
    """Return the method that made a state."""
    if not isinstance(chooser, MethodChoice):
        return chooser
    return chooser.method(_METHODS[type(state)])


@np.errstate(over="ignore", invalid="ignore")  # an end that is not finite has a message
def solve(problem: CompositeProblem, chooser: Chooser, point: FloatArray | None = None) -> tuple[Any, Outcome, Any]:
    """Advance until the method has finished, from a dual point or the problem's own start; return the method, too."""
    method: Any = choose_method(chooser, problem)
    opened = method.opened(problem, point)
    state = method.start(opened, point)
    while (outcome := method.finished(state)) is None:
        state = method.advance(state, opened)
    return state, outcome, method
