"""Champion and challenger on the reserved rows of the latest shards, overall and by slice, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from okl.evaluation import predictor_tallies
from okl.execution.protocol import Execution
from okl.predictors import Predictor
from okl.retraining.decision import Decision, Rule, decide
from okl.retraining.pairs import ALL, BEFORE, NEWEST, SHARD, Pairs, compare, merged
from okl.retraining.record import ShardRecord
from okl.retraining.shardstore import ShardStore
from okl.store.dataset import Dataset, Schema
from okl.store.wording import scalars


@dataclass(frozen=True, eq=False)
class Judgement:
    """What came out.

    shards : names of those whose reserved rows were looked at; metrics : by predictor
    bytes_read : of part files
    """

    decision: Decision
    shards: tuple[str, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    bytes_read: int


def judge(
    store: ShardStore,
    records: Sequence[ShardRecord],
    first: Predictor,
    second: Predictor,
    rule: Rule,
    execution: Execution,
    slices: tuple[str, ...] = (),
    other: str = "the champion",
    known: Collection[str] = (),
    looks: int = 0,
) -> Judgement:
    """Compare two predictors, the champion first.

    Parameters
    ----------
    records : accepted shards whose reserved rows to look at; each is a slice of its own
    other : what the first is, for people; known : SHA-256 of shards that the first has learnt
    looks : how often challengers of this champion were kept before
    """
    pairs: dict[str, Pairs] = {}
    parts: list[Dataset] = []
    precision = second.precision
    for record in records:
        data = store.dataset(record)
        parts.append(data)
        if not data.split("test"):
            continue
        found = compare(data, data.split("test"), first, second, precision, execution, slices)
        age = {BEFORE if record.sha256 in known else NEWEST: found[ALL]} if known else {}
        pairs = merged(pairs, found | age | {f"{SHARD}{record.name}": found[ALL]})
    whole = store.union(list(records))
    missing = () if ALL not in pairs else _missing(whole.schema, pairs[ALL])
    decision = decide(whole.schema.task, pairs, rule, other, missing, looks)
    predictors = {"champion": first, "challenger": second}
    reserved = whole.split("test")
    tallies = predictor_tallies(whole, reserved, predictors, precision, execution) if reserved else {}
    metrics = {name: scalars(tally.report()) for name, tally in tallies.items()}
    names = tuple(record.name for record in records)
    return Judgement(decision, names, metrics, sum(shard.size_bytes for shard in reserved))


def judged_on(
    accepted: Sequence[ShardRecord], shards: int, schema: Schema, known: Collection[str] = ()
) -> list[ShardRecord]:
    """The latest shards that have reserved rows.

    Parameters
    ----------
    accepted : in the order of learning; known : SHA-256 of those that the champion has learnt
    shards : so many that are new to it at most, and so many before; more of the latter until every label is there
    """
    reserved = [one for one in accepted if one.test_rows]
    chosen = [one for one in reserved if one.sha256 not in known][-shards:]
    for earlier, record in enumerate(reversed([one for one in reserved if one not in chosen])):
        seen = [any(one.class_counts[i] for one in chosen) for i in range(len(schema.labels))]
        if (earlier >= shards or not known) and all(seen):
            break
        chosen.append(record)
    return sorted(chosen, key=lambda one: one.order)


def _missing(schema: Schema, pairs: Pairs) -> tuple[str, ...]:
    if schema.task == "regression":
        return ()
    rows = pairs.agreement.sum(axis=1)
    return tuple(repr(label) for label, count in zip(schema.labels, rows, strict=True) if count == 0)
