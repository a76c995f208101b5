"""The champion meets new shards before they are learnt: what contradicts it, what is noise, and whether rows change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from okl.errors import DivergedError
from okl.execution.protocol import Execution
from okl.predictors import Predictor
from okl.progress import NullObserver
from okl.retraining.challenger import is_online, learn_shards, same_place, solve_window
from okl.retraining.champion import Champion, Known
from okl.retraining.drifting import Scored, compared, drift_of
from okl.retraining.pairs import ALL, compare
from okl.retraining.progressive import Progressive, agreement_of, contradiction, progressive, unrelated
from okl.retraining.record import Finding, ShardRecord
from okl.retraining.sensitive import without_constraints
from okl.retraining.settings import RetrainSettings
from okl.retraining.shardstore import ShardStore

CLEAR, BY_CHANCE, SURE = 10.0, 3.0, 2.0  # standard deviations
LATEST = 3  # shards that the champion's usual agreement is measured on


@dataclass(eq=False)
class Scoring:
    """The champion's errors on new shards.

    champion, known : of now; told : a row a shard, for the report; scored : by name, for the signal of drift
    kept, rejected : records, brought up to date
    """

    settings: RetrainSettings
    store: ShardStore
    champion: Champion
    known: Known
    execution: Execution
    told: list[dict[str, Any]] = field(default_factory=list)
    scored: dict[str, Scored] = field(default_factory=dict)
    kept: list[ShardRecord] = field(default_factory=list)
    rejected: list[ShardRecord] = field(default_factory=list)

    def score(self, pending: Sequence[ShardRecord]) -> None:
        """Score shards in the order of learning; quarantine those whose labels contradict the champion or are noise."""
        learnt = [one for one in self.known.accepted() if one.sha256 in self.known.learnt]
        past = [one.scored for one in learnt if one.scored is not None and one.scored.version in self.champion.ancestry]
        for record in pending:
            data, schema = self.store.dataset(record), self.champion.model.schema
            found = progressive(data, schema, self.champion.model.predictor, self.execution, self.champion.limit)
            against = self._against(record, found)
            self.told.append({"shard": record.name, **found.as_json(), "contradicts": against is not None})
            if against is not None and not record.released and self.settings.contradiction:
                self.rejected.append(self.store.quarantine(record, against))
                continue
            if record.scored is None or record.scored.version not in self.champion.ancestry:
                now = Scored(self.champion.version.number, found.rows, found.wrong, found.error, found.constant)
                record = self.store.put(
                    replace(record, scored=compared(past, now))
                )  # scored again, it is not tested twice
            assert record.scored is not None, "it was scored now or before"
            past.append(record.scored)
            self.scored[record.name] = record.scored
            self.kept.append(record)

    def drift(self) -> dict[str, Any]:
        """Whether rows change: found, why, figures; see okl.retraining.drifting."""
        return drift_of(self.scored)

    def _against(self, record: ShardRecord, found: Progressive) -> Finding | None:
        task, level = self.champion.model.schema.task, self.settings.contract.level
        against = contradiction(record.name, task, found, level)
        if against is not None or found.deviations >= BY_CHANCE or not self.settings.contradiction:
            return against
        rows, usual = self._usual(record)
        if not rows or usual[1] * math.sqrt(found.rows / rows) < CLEAR:
            return None  # chance may explain it
        probe = self._probe(record)
        if probe is None or probe[0] == 0.0 or not probe[1] < BY_CHANCE:
            return None  # such as rows that are all of one class
        highest = probe[0] + SURE * probe[0] / probe[1]  # its standard error added twice
        return unrelated(record.name, found, usual[0], *probe) if highest < 0.5 * usual[0] else None

    def _usual(self, record: ShardRecord) -> tuple[int, tuple[float, float]]:
        """The champion's agreement on reserved rows of the latest shards that it learnt: rows, and as agreement_of."""
        learnt = [one for one in self.known.accepted() if one.sha256 in self.known.learnt and one.test_rows]
        return self._agreement(learnt[-LATEST:], self.champion.model.predictor)

    def _probe(self, record: ShardRecord) -> tuple[float, float] | None:
        """How a model that is learnt from this shard alone agrees with its reserved rows; None if nobody can say."""
        train = without_constraints(same_place(self.settings.train, str(self.store.place)))
        parts = (self.execution, NullObserver())
        try:
            if is_online(train, self.store.dataset(record)):
                predictor = learn_shards(train, self.store, None, [record], *parts).predictor
            else:
                predictor = solve_window(train, self.store, [record], [record], *parts).predictor
        except DivergedError:
            return None
        rows, found = self._agreement([record], predictor)
        return found if rows else None

    def _agreement(self, records: Sequence[ShardRecord], predictor: Predictor) -> tuple[int, tuple[float, float]]:
        if not records or not any(record.test_rows for record in records):
            return 0, (0.0, 0.0)
        data = self.store.union(list(records))
        pairs = compare(data, data.split("test"), predictor, predictor, predictor.precision, self.execution)[ALL]
        return pairs.rows, agreement_of(data.schema.task, pairs.agreement)
