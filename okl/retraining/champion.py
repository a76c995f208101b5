"""What a retraining begins with: the champion, all shards in its lineage, and how far in time they reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from okl.errors import CheckpointError
from okl.online.solver import OnlineState
from okl.registry.entry import CHAMPION
from okl.registry.model import RegisteredModel
from okl.registry.version import Version
from okl.retraining.record import ShardRecord, Time
from okl.retraining.statefile import load_state
from okl.store.model import Model

STATE = "state"


@dataclass(frozen=True, eq=False)
class Champion:
    """The version of now, opened.

    learnt : SHA-256 of every shard in its lineage, in order, as often as it was learnt
    ancestry : numbers of the versions that it goes back to, and its own
    limit : of regression, the squared error that a row is missed above: the first of these versions' mean on reserved
        rows, so that it was set before
    """

    version: Version
    model: Model
    learnt: tuple[str, ...]
    ancestry: frozenset[int] = frozenset()
    limit: float = 0.5

    def state(self) -> tuple[OnlineState | None, str]:
        """What an online learner goes on from; None and why, if there is none that this okl can go on from."""
        try:
            return load_state(self.version.files / STATE)[0], ""
        except CheckpointError as error:
            return None, f"{self.version} has no state to go on from: {error}"


@dataclass(frozen=True, eq=False)
class Known:
    """What was before this run.

    champion : None before the first version; records : of all shards
    """

    champion: Champion | None
    records: Mapping[str, ShardRecord] = field(default_factory=dict)

    @property
    def learnt(self) -> frozenset[str]:
        """Shards of the champion's lineage."""
        return frozenset(self.champion.learnt) if self.champion else frozenset()

    @property
    def parent(self) -> int | None:
        """Number of the champion's version."""
        return self.champion.version.number if self.champion else None

    def accepted(self) -> list[ShardRecord]:
        """Shards that may be learnt, in the order of learning."""
        return sorted((one for one in self.records.values() if one.status == "accepted"), key=lambda one: one.order)

    @property
    def apart(self) -> int:
        """Training rows of a champion that was published from a run, of which no shard is known; else 0."""
        if self.champion is None or not self.learnt.isdisjoint(self.records):
            return 0
        return sum(int(shard.get("rows", 0)) for shard in self.champion.version.lineage.shards)

    @property
    def watermark(self) -> Time | None:
        """Latest time of a shard that was learnt."""
        times = [one.last_time for sha, one in self.records.items() if sha in self.learnt and one.last_time is not None]
        texts = [one for one in times if isinstance(one, str)]
        numbers = [one for one in times if not isinstance(one, str)]
        return max(texts) if texts else max(numbers, default=None)


def open_champion(model: RegisteredModel) -> Champion | None:
    """The champion, None where nothing was published yet.

    Raises
    ------
    ModelError : it is damaged; RegistryError : the registry cannot be read
    """
    head = model.head()
    if head.state.champion is None:
        return None
    version = model.resolved(CHAMPION, head)
    line = [*model.ancestry(version)][::-1]
    learnt = tuple(str(shard["sha256"]) for one in line for shard in one.lineage.shards)
    loaded = version.load()
    return Champion(version, loaded, learnt, frozenset(one.number for one in line), _limit(loaded, line[0]))


def _limit(model: Model, first: Version) -> float:
    """The first version's mean squared error on reserved rows; the target's variance where nothing was decided."""
    overall = (first.lineage.decision or {}).get("overall") or {}
    target = model.schema.target_statistics
    return float(overall.get("challenger") or (target.standard_deviation**2 if target else 0.0) or 0.5)


def in_window(record: ShardRecord, first: str | None, last: str | None) -> bool:
    """Whether a shard's time is at least the first, and below the last, where they are given; none has no window."""
    if first is None and last is None:
        return True
    if record.first_time is None or record.last_time is None:
        return False
    kind = str if isinstance(record.first_time, str) else float
    begins, ends = record.first_time, record.last_time
    return (first is None or begins >= kind(first)) and (last is None or ends < kind(last))  # type: ignore[operator]
