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
    """

    done_rows: int
    total_rows: int
    error: float
    baseline_error: float


class Solver(Protocol[State]):
    """Frozen configuration; all that evolves is in the state, a picklable value that no method writes into."""

    def start(self, data: Dataset, execution: Execution) -> State: ...

    def advance(self, state: State, data: Dataset, execution: Execution) -> State: ...

    def finished(self, state: State) -> Outcome | None: ...

    def standing(self, state: State) -> Standing: ...

    def predictor(self, state: State) -> Predictor: ...

    def chosen(self, state: State) -> dict[str, Any]:
        """What `start` chose from the data (bandwidth, step size, ...), each with its reason: for people."""
        ...
