"""One model fitted to rows held by an operator: what estimators, paths and comparisons call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from okl.accelerated.classifier import Classifier
from okl.accelerated.fapg import Fapg, solve
from okl.accelerated.minimax import MinimaxProblem
from okl.accelerated.protocol import Problem, Solution
from okl.accelerated.stochastic import StochasticStart
from okl.compiled.door import one_blas_thread
from okl.errors import DivergedError
from okl.solvers import Outcome
from okl.types import FloatArray


class ProblemMaker(Protocol):
    """A classification or regression model: configuration that makes a problem of rows."""

    def problem(self, rows: Any, sample_weight: FloatArray | None = None) -> Problem: ...


@dataclass(frozen=True, eq=False)
class Fitted(Solution):
    """A solution and how it was found.

    point : of the problem, to start another from; objective : of the problem at the last point, which for a dual model
        is the negated dual objective
    iterations, reads : of the method, and of the data
    outcome : why the method stopped: "done" may be a numerical floor above the gap asked for, as its reason says
    note : what the user should know of the problem, such as what was added to a singular covariance; mostly empty
    """

    point: FloatArray
    objective: float
    iterations: int
    reads: int
    outcome: Outcome
    note: str = ""

    @property
    def converged(self) -> bool:
        """Whether the method did not run out of iterations."""
        return self.outcome.kind == "done"


@one_blas_thread()  # bits depend on the number of threads
def fit_one(
    model: ProblemMaker,
    rows: Any,
    method: Fapg,
    sample_weight: FloatArray | None = None,
    start: FloatArray | StochasticStart | None = None,
) -> Fitted:
    """Solve a model's problem to the method's tolerance.

    Parameters
    ----------
    model : of `okl.accelerated.models`
    rows : operator; the minimax and l1 models take explicit rows
    method : Fapg
    sample_weight : (m,) or None
    start : point of the problem (n_points,) to start from, brought into its set; a StochasticStart, which finds one;
        None: the problem's own

    Returns
    -------
    the solution of least certified gap; `converged` is False when the iterations ran out

    Raises
    ------
    ConfigError : a parameter outside its valid range for these rows
    DataError : rows or weights that do not fit
    DivergedError : the objective is no longer finite
    """
    problem = model.problem(rows, sample_weight)
    point = start.point(problem, rows, sample_weight) if isinstance(start, StochasticStart) else start
    found = solve_problem(problem, method, point)
    if isinstance(model, Classifier):
        model.check(found, rows, sample_weight)
    return found


def solve_problem(problem: Problem, method: Fapg, start: FloatArray | None = None) -> Fitted:
    """The same of a problem that is already made."""
    state, outcome = solve(problem, method, start)
    if outcome.kind == "diverged":
        raise DivergedError(f"The solver diverged: {outcome.reason}. Scale the columns, or take a smaller C.")
    found = method.solution(state, problem)
    record = state.history[-1]
    return Fitted(
        weights=found.weights,
        bias=found.bias,
        certificate=found.certificate,
        point=state.best.point,
        objective=state.best_record.objective,
        iterations=record.iteration,
        reads=state.reads,
        outcome=outcome,
        note=problem.note if isinstance(problem, MinimaxProblem) else "",
    )
