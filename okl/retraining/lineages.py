"""Where a version comes from, told before it is learnt; and the model that it becomes."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from okl.checkpoints.origin import WHERE_IT_RUNS, source_sha256
from okl.configuration import TrainSettings
from okl.planning import mode_of
from okl.predictors import Predictor
from okl.provenance import RECORDED, processor, provenance, version_of
from okl.registry.lineage import WINDOW_ROWS, Lineage
from okl.retraining.challenger import Challenger
from okl.retraining.champion import Known
from okl.retraining.judging import Judgement
from okl.retraining.record import ShardRecord
from okl.retraining.settings import NOT_OF_TRAIN, RetrainSettings
from okl.store.model import Model

LEARNING = ("holdout", "window_shards")
JUDGING = ("publish_if", "margin", "level", "slices", "slice_margin", "holdout_shards", "guard_shards")


@dataclass(frozen=True, eq=False)
class Planned:
    """The lineage of a version to be; judging : settings that decide whether it is published."""

    lineage: Lineage
    judging: Mapping[str, Any]

    def judged(self) -> Lineage:
        """The lineage with what decides about it: another margin is another judgement."""
        return replace(self.lineage, settings={**self.lineage.settings, "judging": dict(self.judging)})

    def measured(self, judgement: Judgement, certificate: Mapping[str, Any] | None, challenger: Challenger) -> Planned:
        """With figures, the decision, and the environment."""
        versions = {name: version_of(name) for name in RECORDED} | {"python": platform.python_version()}
        environment = {
            "versions": versions,
            "source_sha256": source_sha256(),
            "processor": processor(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "how": challenger.how,
        } | ({} if challenger.online else {WINDOW_ROWS: challenger.data.rows("train")})
        metrics: dict[str, Any] = {name: dict(figures) for name, figures in judgement.metrics.items()}
        if certificate is not None:
            metrics["certificate"] = {name: value for name, value in certificate.items() if _plain(value)}
        decision = judgement.decision.as_json()
        lineage = replace(self.lineage, environment=environment, metrics=metrics, decision=decision)
        return replace(self, lineage=lineage)


def lineage_of(
    settings: RetrainSettings, known: Known, records: Sequence[ShardRecord], online: bool, fresh: bool
) -> Planned:
    """The lineage of what is about to be learnt.

    An online learner goes on from the champion, unless it begins anew: then it has no parent, and all shards are its
    own. A batch solver is a child of the champion, too: its shards are those that had not been read before.
    """
    parent = None if online and fresh else known.parent
    decisive = {"train": _train(settings), "seed": settings.ingest.seed} | {
        name: getattr(settings, name) for name in LEARNING
    }
    judging = {name: getattr(settings, name) for name in JUDGING}
    return Planned(Lineage(parent, tuple(_shard(record) for record in records), decisive), judging)


def next_model(challenger: Challenger, known: Known, settings: RetrainSettings, processors: tuple[str, ...]) -> Model:
    """The challenger with all that raw rows need to become scores; scaling is that of the first shards."""
    schema, champion = challenger.data.schema, known.champion
    grown = challenger.online and champion is not None and challenger.how.startswith("gone on")
    if grown and champion is not None:
        counts = zip(champion.model.schema.class_counts, schema.class_counts, strict=True)
        schema = replace(schema, class_counts=tuple(before + new for before, new in counts))
    chosen = challenger.solver.chosen(challenger.state)
    origin = provenance(challenger.data, settings.train.seed) | {"processors": list(processors), "chosen": chosen}
    return Model(schema, challenger.predictor, settings.train.model_dump(mode="json"), origin)


def warm_for(settings: RetrainSettings, known: Known) -> Predictor | None:
    """The champion's solution, if it solves the same problem as is about to be solved for other shards."""
    champion = known.champion
    if champion is None:
        return None
    before = champion.version.lineage.settings.get("train", {})
    if _decisive(before) != _decisive(_train(settings)):
        return None
    return champion.model.predictor


def learnt_otherwise(settings: RetrainSettings, known: Known) -> str:
    """The first setting by which the champion's learner is another than is asked for now; "" for none.

    A learner keeps what it was settled with, its map, steps, limits and passes; going on, it would pass over the rest.
    """
    if known.champion is None:
        return ""
    usual = {name: field.default for name, field in TrainSettings.model_fields.items()}
    before = usual | dict(known.champion.model.configuration)  # an older okl had fewer settings
    now = _train(settings) | {"mode": mode_of(settings.train)}
    before["mode"] = mode_of(TrainSettings.model_construct(**before))  # auto is another one with workers
    other = next((name for name in _decisive(now) if _plainly(before[name]) != _plainly(now[name])), None)
    return f"{other} is {now[other]!r}, and was {before[other]!r} for {known.champion.version}" if other else ""


def _decisive(train: dict[str, Any]) -> dict[str, Any]:
    """Without what a retraining passes over, which an older okl took all the same."""
    return {name: value for name, value in train.items() if name not in NOT_OF_TRAIN}


def _plainly(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value  # as JSON has it


def _train(settings: RetrainSettings) -> dict[str, Any]:
    values = settings.train.model_dump(mode="json").items()
    return {name: value for name, value in values if name not in (*WHERE_IT_RUNS, "data")}


def _shard(record: ShardRecord) -> dict[str, Any]:
    return {
        "sha256": record.sha256,
        "name": record.name,
        "rows": record.train_rows,
        "test_rows": record.test_rows,
        "first_time": record.first_time,
        "last_time": record.last_time,
    }


def _plain(value: Any) -> bool:
    return isinstance(value, int | float | str | bool) and value == value
