"""Champion and challenger on the reserved rows of the latest shards, overall and by slice, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from okl.evaluation import ConstantPredictor, predictor_tallies
from okl.execution.protocol import Execution
from okl.predictors import Predictor
from okl.retraining.challenger import Challenger
from okl.retraining.champion import Known
from okl.retraining.decision import TESTS, Decision, Rule, decide
from okl.retraining.pairs import ALL, BEFORE, NEWEST, SHARD, Pairs, compare, merged
from okl.retraining.record import ShardRecord
from okl.retraining.settings import RetrainSettings
from okl.retraining.shardstore import ShardStore
from okl.store.dataset import Dataset, Schema
from okl.store.wording import scalars

COUNTED = ("confusion", "reliability", "residual_histogram")


@dataclass(frozen=True, eq=False)
class Judgement:
    """What came out.

    shards : names of those whose reserved rows were looked at; metrics : by predictor
    bytes_read : of part files; counted : what the challenger's mistakes are told by, and the labels
    """

    decision: Decision
    shards: tuple[str, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    bytes_read: int
    counted: Mapping[str, Any] = field(default_factory=dict)


def judge_challenger(
    settings: RetrainSettings,
    store: ShardStore,
    known: Known,
    accepted: Sequence[ShardRecord],
    challenger: Challenger,
    execution: Execution,
    looks: int,
) -> Judgement:
    """Judge champion and challenger on the same reserved rows; before the first version, a constant is champion.

    accepted : shards that may be looked at; looks : how often challengers of this champion were kept before
    """
    schema, champion = challenger.data.schema, known.champion
    learnt = {*known.learnt, *(record.sha256 for record in challenger.learnt)}
    some = [record for record in accepted if record.sha256 in learnt]
    chosen = judged_on(some, settings.holdout_shards, schema, known.learnt)
    if not chosen:
        nothing = Decision("keep", "Kept: there is no reserved row to judge on.", TESTS[schema.task], None, {})
        return Judgement(nothing, (), {}, 0)
    first: Predictor = champion.model.predictor if champion else ConstantPredictor(schema)
    constant = "the mean so far" if schema.task == "regression" else "the majority class"
    rule = Rule(settings.publish_if, settings.margin, settings.level, settings.slice_margin, settings.guard_shards)
    return judge(
        store, chosen, first, challenger.predictor, rule, execution, settings.slices,
        "the champion" if champion else constant, known.learnt, looks,
    )  # fmt: skip


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
    reports = {name: tally.report() for name, tally in tallies.items()}
    metrics = {name: scalars(report) for name, report in reports.items()}
    names = tuple(record.name for record in records)
    counted = {name: value for name, value in reports.get("challenger", {}).items() if name in COUNTED}
    counted |= {"labels": list(whole.schema.labels), "target": whole.schema.target}
    return Judgement(decision, names, metrics, sum(shard.size_bytes for shard in reserved), counted)


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
