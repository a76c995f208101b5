"""The one face that every method shows the loop in training.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from okl.execution.protocol import Execution
from okl.predictors import Predictor
from okl.store.dataset import Dataset

State = TypeVar("State")


@dataclass(frozen=True)
class Outcome:
    """Why a solver stopped; a value, not an exception, so that a loop may still look at the state."""

    kind: Literal["done", "diverged", "out of budget"]
    reason: str


@dataclass(frozen=True)
class Standing:
    """How far a state is, and how good what it predicted was before it learnt each row.

    done_rows, total_rows : rows learnt and to learn, over all passes
    error, baseline_error : progressive mistake rate or squared error (scaled target units), of the learner and of the
        majority class or mean so far
    surrogate, squared_gradients, stepped_gradients : sums so far, as in okl.online.progress; 0 where nobody counts
    kept_wrong : of each model that a tracker keeps, the latest last, rows of this window it is wrong on; else empty
    violation : sum so far under constraints, as in okl.online.progress; None without
    """

    done_rows: int
    total_rows: int
    error: float
    baseline_error: float
    surrogate: float = 0.0
    squared_gradients: float = 0.0
    stepped_gradients: float = 0.0
    kept_wrong: tuple[int, ...] = ()
    violation: float | None = None


@dataclass(frozen=True)
class Convergence:
    """How far a method that goes over all rows in every iteration has come; how many it will take is not known.

    iterations : done, of all classes; relative_gap : of the point it stands at, over the larger objective
    objective, dual_objective : primal and dual; the optimum is between the two
    sample_rows : of those rows that all this is about, where they are a sample; 0: all rows
    """

    iterations: int
    relative_gap: float
    objective: float
    dual_objective: float
    sample_rows: int = 0


class Solver(Protocol[State]):
    """Frozen configuration; all that evolves is in the state, a picklable value that no method writes into."""

    def start(self, data: Dataset, execution: Execution) -> State: ...

    def advance(self, state: State, data: Dataset, execution: Execution) -> State: ...

    def finished(self, state: State) -> Outcome | None: ...

    def standing(self, state: State) -> Standing | Convergence: ...

    def predictor(self, state: State) -> Predictor: ...

    def chosen(self, state: State) -> dict[str, Any]:
        """What `start` chose from the data (bandwidth, step size, ...), each with its reason: for people."""
        ...
