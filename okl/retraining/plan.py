"""What a run is about to learn: which shards, beginning with what, and the lineage of the version to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from okl.configuration import TrainSettings
from okl.execution.protocol import Execution
from okl.online.solver import OnlineState
from okl.progress import Observer
from okl.retraining.challenger import Challenger, is_online, learn_shards, same_place, solve_window
from okl.retraining.champion import Known
from okl.retraining.lineages import Planned, learnt_otherwise, lineage_of, warm_for
from okl.retraining.record import ShardRecord
from okl.retraining.settings import RetrainSettings
from okl.retraining.shardstore import ShardStore


@dataclass(frozen=True, eq=False)
class LearningPlan:
    """Settled before anything is learnt.

    settings, known : of the run; train : how to learn; online : whether the learner goes on with what comes
    records : shards that the version learns and its parent had not; accepted : these and all that the parent learnt
    begin : state that an online learner goes on from, None: it begins anew; why : it does, though there is a champion
    lineage : of the version to be; otherwise : the setting of learning that is why, "" for none
    """

    settings: RetrainSettings
    known: Known
    train: TrainSettings
    online: bool
    records: tuple[ShardRecord, ...]
    accepted: tuple[ShardRecord, ...]
    begin: OnlineState | None
    why: str
    lineage: Planned
    otherwise: str = ""

    def learn(self, store: ShardStore, execution: Execution, observer: Observer) -> Challenger:
        """Learn the challenger; raises DivergedError."""
        if self.online:
            learnt = learn_shards(self.train, store, self.begin, self.records, execution, observer)
            return replace(learnt, how=f"{learnt.how}, as {self.otherwise}") if self.otherwise else learnt
        window = self.accepted[-self.settings.window_shards :]
        warm = warm_for(self.settings, self.known)
        return solve_window(self.train, store, window, self.records, execution, observer, warm)


def plan_learning(
    settings: RetrainSettings, store: ShardStore, known: Known, pending: Sequence[ShardRecord]
) -> LearningPlan:
    """What is to be learnt of the shards that wait, at least one.

    An online learner whose champion has no state to go on from, or was begun with other settings of learning, begins
    anew, with all shards: nothing of them is there.
    """
    train = same_place(settings.train, str(store.place))
    online = is_online(train, store.dataset(pending[0]))
    accepted = accepted_of(known, pending)
    begin, why = known.champion.state() if online and known.champion is not None else (None, "")
    otherwise = "" if begin is None else learnt_otherwise(settings, known)
    if otherwise:
        begin, why = None, otherwise
    records = accepted if why else tuple(pending)
    lineage = lineage_of(settings, known, records, online, fresh=begin is None)
    return LearningPlan(settings, known, train, online, records, accepted, begin, why, lineage, otherwise)


def accepted_of(known: Known, pending: Sequence[ShardRecord]) -> tuple[ShardRecord, ...]:
    """Shards that the champion has learnt, and those that wait, in the order of learning."""
    wanted = known.learnt | {record.sha256 for record in pending}
    return tuple(one for one in known.accepted() if one.sha256 in wanted)
