"""How a challenger is learnt: an online learner goes on with new shards, a batch solver solves a window anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from okl.accelerated.solver import AcceleratedSolver
from okl.configuration import TrainSettings
from okl.execution.protocol import Execution
from okl.learning import Learnt, learn
from okl.online.progress import Progress
from okl.online.solver import OnlineSolver, OnlineState
from okl.planning import make_solver
from okl.predictors import LinearPredictor, Predictor
from okl.progress import Observer
from okl.retraining.record import ShardRecord
from okl.retraining.shardstore import ShardStore
from okl.solvers import Solver
from okl.store.dataset import Dataset
from okl.subgradient.solver import SubgradientSolver


@dataclass(frozen=True, eq=False)
class Challenger:
    """What was learnt.

    data : the shards that were read; learnt : of these, those that this version learnt and its parent had not
    how : one sentence; seconds : of learning; bytes_read : of part files
    curve : of an online learner, a row a shard: its name, rows, progressive error and that of the majority or mean
    """

    solver: Solver[Any]
    state: Any
    data: Dataset
    learnt: tuple[ShardRecord, ...]
    how: str
    seconds: float
    bytes_read: int
    curve: tuple[dict[str, Any], ...] = field(default=())

    @property
    def predictor(self) -> Predictor:
        """What it learnt."""
        return self.solver.predictor(self.state)

    @property
    def online(self) -> bool:
        """Whether it can go on with the shards that come."""
        return isinstance(self.solver, OnlineSolver)


def is_online(settings: TrainSettings, data: Dataset) -> bool:
    """Whether the settings mean a learner that goes on with new rows."""
    return isinstance(make_solver(settings, data), OnlineSolver)


def learn_shards(
    settings: TrainSettings,
    store: ShardStore,
    begin: OnlineState | None,
    records: Sequence[ShardRecord],
    execution: Execution,
    observer: Observer,
) -> Challenger:
    """Learn shards one after the other, each as a data set of its own.

    So what is learnt does not depend on how many of them came in one run: the same bits as one a night.

    Parameters
    ----------
    begin : what the champion had learnt; None: a learner is settled on a sample of all these shards

    Raises
    ------
    DivergedError : what is learnt is no longer finite
    """
    whole = store.union(list(records))
    if begin is None:
        first = make_solver(settings, whole)
        assert isinstance(first, OnlineSolver), "is_online says so"
        state, how = first.start(whole, execution), f"begun anew on {len(records)} shards"
    else:
        state, how = begin, f"gone on with {len(records)} new shards"
    seconds, curve = 0.0, []
    solver: OnlineSolver | None = None
    for record in records:
        data = store.dataset(record)
        made = make_solver(settings, data)
        assert isinstance(made, OnlineSolver), "is_online says so"
        solver, before = made, state.learned.progress
        done = learn(solver, solver.continued(state, data), data, execution, observer)
        state, seconds = done.state, seconds + done.seconds
        curve.append(_row(record, state.learned.progress.since(before)))
    assert solver is not None, "there is a shard"
    size = settings.passes * _bytes(whole)
    return Challenger(solver, state, whole, tuple(records), how, seconds, size, tuple(curve))


def solve_window(
    settings: TrainSettings,
    store: ShardStore,
    window: Sequence[ShardRecord],
    new: Sequence[ShardRecord],
    execution: Execution,
    observer: Observer,
    warm: Predictor | None = None,
) -> Challenger:
    """Solve a batch problem over the latest shards.

    Parameters
    ----------
    window : shards that are read; new : of these and those before, what the champion had not
    warm : a solution of the same problem for other shards: it is begun from, and its feature map stays

    Raises
    ------
    DivergedError : the method has diverged
    """
    data = store.union(list(window))
    solver = make_solver(settings, data)
    how = f"solved anew over the latest {len(window)} shards"
    if isinstance(solver, AcceleratedSolver | SubgradientSolver) and isinstance(warm, LinearPredictor):
        state: Any = solver.start(data, execution, warm)
        how = f"{how}, from the champion's solution and in its feature map"
    else:
        state = solver.start(data, execution)
    done: Learnt = learn(solver, state, data, execution, observer)
    return Challenger(solver, done.state, data, tuple(new), how, done.seconds, _bytes(data))


def same_place(settings: TrainSettings, place: str) -> TrainSettings:
    """The settings with the store as their data, which they do not look at."""
    return settings.model_copy(update={"data": place, "out": None, "ingest": None})


def _bytes(data: Dataset) -> int:
    return sum(shard.size_bytes for shard in data.split("train"))


def _row(record: ShardRecord, grown: Progress) -> dict[str, Any]:
    return {"shard": record.name, "rows": grown.rows, "error": grown.error, "baseline_error": grown.baseline_error}
