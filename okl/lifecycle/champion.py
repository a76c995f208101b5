"""The champion, the state of its solver, and the training of a challenger."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.features.predictors import LinearPredictor, Predictor
from okl.foundation.errors import CheckpointError, DataError, listed
from okl.foundation.locations import Place
from okl.foundation.telemetry import Observer
from okl.lifecycle.shard_store import ShardRecord, ShardStore, Time, accepted_among
from okl.models.file import Model
from okl.models.registry import RegisteredModel, Version
from okl.models.registry_log import CHAMPION
from okl.report.format import counted
from okl.runs.checkpoint import ARRAYS, HEAD, STATE, checkpoints_of, name_of, read_head, read_value, write_checkpoint
from okl.runs.loop import TrainedSolver, run_loop
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.base import Solver
from okl.solvers.factory import make_solver
from okl.solvers.online.solver import OnlineSolver, OnlineState
from okl.solvers.settings import TrainSettings
from okl.solvers.subgradient.solver import SubgradientSolver

# Learner state: JSON and arrays, verified when read; reading runs no code.
#
#     state/checkpoint.json, state.json, arrays.safetensors     as of a run that was broken off, see okl.runs.checkpoint
#
# It is read by later versions of okl, too, as long as what it is made of has the same parts; otherwise it is refused,
# and the model is learned anew from its shards.

NAME = "learner"


def save_state(folder: Path, state: OnlineState, about: dict[str, Any]) -> None:
    """Write the state from which a later run continues into a new folder, with its origin; or raise OSError."""
    slimmed = replace(state, windows=(), segments=())  # the data of earlier training is not needed
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".state-") as scratch:
        write_checkpoint(Path(scratch), NAME, slimmed, about, {}, None)
        (written,) = checkpoints_of(Path(scratch), NAME)
        written.rename(folder)


def load_state(folder: Place) -> tuple[OnlineState, dict[str, Any]]:
    """Return the state and its origin; CheckpointError if it is missing, damaged or of unknown parts."""
    if isinstance(folder, Path):
        return _load(folder)
    with tempfile.TemporaryDirectory(prefix="okl-") as scratch:
        for name in (HEAD, STATE, ARRAYS):
            try:
                (Path(scratch) / name).write_bytes((folder / name).read_bytes())
            except DataError as error:
                raise CheckpointError(f"{folder} cannot be read: {error}") from None
        return _load(Path(scratch))


def _load(folder: Path) -> tuple[OnlineState, dict[str, Any]]:
    head = read_head(folder)
    state = read_value(head, {})
    for part in _parts(state, set()):
        required = [f.name for f in fields(part) if f.default is MISSING and f.default_factory is MISSING]
        names = {field.name for field in fields(part)}
        # not what is computed once
        own = {name for name in vars(part) if not hasattr(type(part), name) or name in names}
        if not own <= names or not set(required) <= own:
            raise CheckpointError(
                f"{folder} was written by a version of okl with other fields in {type(part).__name__}."
            )
    if not isinstance(state, OnlineState):
        raise CheckpointError(f"{folder} has no state of an online solver.")
    return state, head.about


def _parts(value: Any, visited: set[int]) -> Iterator[Any]:
    """Yield all instances of known dataclasses in a value."""
    items: Sequence[Any] = ()
    if isinstance(value, tuple | list):
        items = value
    elif isinstance(value, dict):
        items = [*value.values()]
    elif is_dataclass(value) and name_of(type(value)) is not None and id(value) not in visited:
        visited.add(id(value))
        yield value
        items = [*vars(value).values()]
    for item in items:
        yield from _parts(item, visited)


# The champion and its history.

LEARNER_STATE = "state"


@dataclass(frozen=True, eq=False)
class Champion:
    """The current champion, loaded.

    trained_on : SHA-256 of the shards in its lineage, in training order, repeated if trained on again
    ancestry : numbers of its ancestors and its own
    limit : regression: squared error above which a row counts as wrong, the mean squared error of the first ancestor
        on reserved rows
    first_shards : SHA-256 of the shards of its first ancestor
    """

    version: Version
    model: Model
    trained_on: tuple[str, ...]
    ancestry: frozenset[int] = frozenset()
    limit: float = 0.5
    first_shards: tuple[str, ...] = ()

    def state(self) -> tuple[OnlineState | None, str]:
        """Return the learner state to continue from; None and the reason if this okl has none."""
        try:
            return load_state(self.version.files / LEARNER_STATE)[0], ""
        except CheckpointError as error:
            return None, f"{self.version} has no state to continue from: {error}"


@dataclass(frozen=True, eq=False)
class ModelHistory:
    """State of a model before this run. champion : None before the first version; records : of all shards"""

    champion: Champion | None
    records: Mapping[str, ShardRecord] = field(default_factory=dict)

    @property
    def trained_on(self) -> frozenset[str]:
        """Return shards of the champion's lineage."""
        return frozenset(self.champion.trained_on) if self.champion else frozenset()

    @property
    def parent(self) -> int | None:
        return self.champion.version.number if self.champion else None

    def accepted(self) -> list[ShardRecord]:
        """Return the accepted shards in training order."""
        return accepted_among(self.records.values())

    def trained(self) -> list[ShardRecord]:
        """Return the accepted shards of the champion's lineage in training order."""
        return [record for record in self.accepted() if record.sha256 in self.trained_on]

    @property
    def excluded(self) -> list[ShardRecord]:
        """Return the shards of the champion's lineage that were excluded by hand since."""
        return [record for record in self.records.values() if record.excluded and record.sha256 in self.trained_on]

    @property
    def exclusion(self) -> str:
        """Return which shards of the champion's lineage were excluded, as the end of a sentence; "" for none."""
        names = [record.name for record in self.excluded]
        return f"{listed(names)} {'was' if len(names) == 1 else 'were'} excluded" if names else ""

    @property
    def apart(self) -> int:
        """Return training rows of a champion that was published from a run, of which no shard is known; else 0."""
        if self.champion is None or not self.trained_on.isdisjoint(self.records):
            return 0
        return sum(int(shard.get("rows", 0)) for shard in self.champion.version.lineage.shards)

    @property
    def watermark(self) -> Time | None:
        """Return the latest time of the shards that were trained on."""
        times = [
            record.last_time
            for sha, record in self.records.items()
            if sha in self.trained_on and record.last_time is not None
        ]
        return max(times, key=lambda time: (isinstance(time, str), time), default=None)


def open_champion(model: RegisteredModel) -> Champion | None:
    """Return the champion, None without one; ModelError if it is damaged, RegistryError if unreadable."""
    head = model.head()
    if head.state.champion is None:
        return None
    version = model.resolved(CHAMPION, head)
    line = [*model.ancestry(version)][::-1]
    digests = tuple(str(shard["sha256"]) for version in line for shard in version.lineage.shards)
    loaded = version.load()
    first = tuple(str(shard["sha256"]) for shard in line[0].lineage.shards)
    ancestry = frozenset(version.number for version in line)
    return Champion(version, loaded, digests, ancestry, _limit(loaded, line[0]), first)


def _limit(model: Model, first: Version) -> float:
    """Return the first version's mean squared error on reserved rows, or the target's variance; of classes 0.5."""
    if model.schema.task != "regression":
        return 0.5
    overall = (first.lineage.decision or {}).get("overall") or {}
    target = model.schema.target_statistics
    return float(overall.get("challenger") or (target.standard_deviation**2 if target else 0.0) or 0.5)


# Training of a challenger: online learners continue, batch solvers solve a window again.


@dataclass(frozen=True, eq=False)
class Challenger:
    """Trained challenger.

    data : shards that were read; trained_on : of these, the shards that are new in this version
    how : description of the training; seconds : training time; bytes_read : bytes of the shards
    curve : online solver: for each shard its name, rows, progressive error and that of the majority class or mean
    """

    solver: Solver[Any]
    state: Any
    data: Dataset
    trained_on: tuple[ShardRecord, ...]
    how: str
    seconds: float
    bytes_read: int
    curve: tuple[dict[str, Any], ...] = field(default=())

    @property
    def predictor(self) -> Predictor:
        return self.solver.predictor(self.state)

    @property
    def online(self) -> bool:
        """Return whether the learner can continue with later shards."""
        return isinstance(self.solver, OnlineSolver)


def is_online(settings: TrainSettings, data: Dataset) -> bool:
    """Return whether the settings describe a learner that continues with new rows."""
    return isinstance(make_solver(within(settings, data), data), OnlineSolver)


def within(settings: TrainSettings, data: Dataset) -> TrainSettings:
    """Return settings with at most as many landmarks as training rows: shards differ in their rows."""
    landmarks, rows = getattr(settings.options, "n_landmarks", None), data.rows("train")
    return settings.replaced(n_landmarks=rows) if isinstance(landmarks, int) and landmarks > rows > 0 else settings


def learn_shards(
    settings: TrainSettings,
    store: ShardStore,
    begin: OnlineState | None,
    records: Sequence[ShardRecord],
    execution: Execution,
    observer: Observer,
) -> Challenger:
    """Train on shards one after the other, each as its own data set; the bits do not depend on their number in a run.

    begin : state of the champion; None: start on a sample of all these shards; DivergedError if weights diverge
    """
    whole = store.union(list(records))
    if begin is None:
        first = make_solver(settings, whole)
        assert isinstance(first, OnlineSolver), "is_online says so"
        state, how = first.start(whole, execution), f"started anew on {len(records)} shards"
    else:
        state, how = begin, f"continued with {len(records)} new shards"
    seconds, curve = 0.0, []
    solver: OnlineSolver | None = None
    for record in records:
        data = store.dataset(record)
        made = make_solver(settings, data)
        assert isinstance(made, OnlineSolver), "is_online says so"
        solver, before = made, state.learned.progress
        done = run_loop(solver, solver.continued(state, data), data, execution, observer)
        state, seconds = done.state, seconds + done.seconds
        grown = state.learned.progress.since(before)
        errors = {"error": grown.error, "baseline_error": grown.baseline_error}
        curve.append({"shard": record.name, "rows": grown.rows, **errors})
    assert solver is not None, "there is a shard"
    size = settings.options.n_passes * _bytes(whole)
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
    """Solve a batch problem over the latest shards from a warm solution and its map, or raise DivergedError."""
    data = store.union(list(window))
    solver = make_solver(within(settings, data), data)
    how = f"solved on the latest {counted(len(window), 'shard')}"
    if isinstance(solver, AcceleratedSolver | SubgradientSolver) and isinstance(warm, LinearPredictor):
        state: Any = solver.start(data, execution, warm)
        how = f"{how}, warm-started from the champion in its feature map"
    else:
        state = solver.start(data, execution)
    done: TrainedSolver = run_loop(solver, state, data, execution, observer)
    return Challenger(solver, done.state, data, tuple(new), how, done.seconds, _bytes(data))


def same_location(settings: TrainSettings, location: str) -> TrainSettings:
    """Return the settings with the store as data."""
    return settings.model_copy(update={"data": location, "out": None, "ingest": None})


def _bytes(data: Dataset) -> int:
    return sum(shard.size_bytes for shard in data.split("train"))
