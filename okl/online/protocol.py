"""The face of every learner that sees a row once: predict, suffer, then learn."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from okl.execution.protocol import Rows
from okl.online.progress import Progress
from okl.predictors import Predictor
from okl.types import Precision, Task


class Learned(Protocol):
    """What evolves: a picklable value that no method writes into."""

    @property
    def progress(self) -> Progress: ...


State = TypeVar("State", bound=Learned)


class RowLearner(Protocol[State]):
    """Frozen settings of learning one row at a time, exactly in the order of the rows."""

    @property
    def task(self) -> Task: ...

    @property
    def precision(self) -> Precision:
        """That inputs come in."""
        ...

    def start(self) -> State:
        """Nothing learnt yet."""
        ...

    def learn(self, state: State, rows: Rows, n_threads: int = 1) -> State:
        """Learn rows in their order; the state that came stays as it is.

        Several calls whose rows end at multiples of 256 give the same bits as one; so does any number of threads.

        Raises
        ------
        DataError : inputs or targets do not fit; DivergedError : what was learnt is no longer finite
        """
        ...

    def predictor(self, state: State) -> Predictor:
        """What scores rows with what was learnt."""
        ...

    def chosen(self, state: State) -> dict[str, Any]:
        """What was chosen while learning (support vectors, rank, leader), each with its reason: for people."""
        ...


class MixableLearner(RowLearner[State], Protocol[State]):
    """A learner whose states, learnt apart on shards, can be put together again: what the mode mix needs."""

    def fork(self, state: State) -> State:
        """What a shard starts a round from."""
        ...

    def join(self, base: State, parts: list[State]) -> State:
        """One state from what shards learnt from fork(base), in the order given."""
        ...
