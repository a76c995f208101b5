"""What a retraining has come to, as the plain dict that `okl retrain --json` prints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from okl.retraining.challenger import Challenger
from okl.retraining.champion import Known
from okl.retraining.drifting import drift_of
from okl.retraining.judging import Judgement
from okl.retraining.settings import RetrainSettings
from okl.retraining.wording import certified_sentence

MOST_HISTORY = 60  # shards before, for the picture of errors over time


@dataclass(eq=False)
class Account:
    """Filled in stage by stage.

    outcome : "nothing new", "judged before", "dry run", "kept" or "published"; reason : one sentence
    version : that was published; folder : of its files; apart : as of Known, of a champion that was judged
    changed : since the champion, in data and settings, see `okl.registry.changes`
    report : page of what was judged, with pictures; mlflow : what MLflow took, or why it did not
    shards, progressive, drift : of new shards, see Intake and Scoring; history : a row a shard that was scored before
    """

    settings: RetrainSettings
    registry: str
    outcome: str = "nothing new"
    reason: str = "No shard is new."
    version: int | None = None
    folder: str | None = None
    parent: int | None = None
    apart: int = 0
    shards: dict[str, Any] = field(default_factory=dict)
    progressive: list[dict[str, Any]] = field(default_factory=list)
    drift: dict[str, Any] = field(default_factory=lambda: drift_of({}))
    history: list[dict[str, Any]] = field(default_factory=list)
    challenger: Challenger | None = None
    judgement: Judgement | None = None
    certificate: dict[str, Any] | None = None
    changed: dict[str, Any] | None = None
    report: str | None = None
    mlflow: str | None = None
    begun: float = field(default_factory=time.perf_counter)

    def as_json(self) -> dict[str, Any]:
        """The result so far."""
        challenger, judgement = self.challenger, self.judgement
        return {
            "model": self.settings.name,
            "registry": self.registry,
            "outcome": self.outcome,
            "reason": self.reason,
            "version": self.version,
            "folder": self.folder,
            "parent": self.parent,
            "apart": self.apart,
            "shards": self.shards,
            "progressive": self.progressive,
            "drift": self.drift,
            "history": self.history,
            "how": challenger.how if challenger else None,
            "learning": list(challenger.curve) if challenger else [],
            "decision": judgement.decision.as_json() if judgement else None,
            "judged_on": list(judgement.shards) if judgement else [],
            "metrics": {name: dict(one) for name, one in judgement.metrics.items()} if judgement else {},
            "counted": dict(judgement.counted) if judgement else {},
            "previous": self._previous(),
            "certificate": self.certificate,
            "certified": certified_sentence(challenger.online, self.certificate) if challenger else "",
            "report": self.report,
            "mlflow": self.mlflow,
            "seconds": challenger.seconds if challenger else 0.0,
            "total_seconds": time.perf_counter() - self.begun,
            "bytes_read": (challenger.bytes_read if challenger else 0) + (judgement.bytes_read if judgement else 0),
            "settings": self.settings.model_dump(mode="json"),
        }

    def _previous(self) -> dict[str, Any] | None:
        """What changed since the champion, with both models' figures on the same reserved rows, if judged."""
        if self.changed is None:
            return None
        if self.judgement is None:
            return {part: values for part, values in self.changed.items() if part != "metrics"}
        champion, challenger = (self.judgement.metrics.get(name, {}) for name in ("champion", "challenger"))
        figures = {name: [champion.get(name), value] for name, value in challenger.items() if value is not None}
        return self.changed | {"metrics": figures, "same_rows": True}


def history_of(known: Known) -> list[dict[str, Any]]:
    """How champions did on the latest shards of the lineage before they were learnt, a row a shard."""
    learnt = [one for one in known.accepted() if one.sha256 in known.learnt and one.scored is not None]
    return [
        {"shard": one.name, "version": one.scored.version, "rows": one.scored.rows, "error": one.scored.error,
         "constant": one.scored.constant, "fired": one.scored.fired}
        for one in learnt[-MOST_HISTORY:] if one.scored is not None
    ]  # fmt: skip


def metrics_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One flat row a figure of a result: predictor, metric, value."""
    return [
        {"predictor": name, "metric": metric, "value": value}
        for name, figures in (result.get("metrics") or {}).items()
        for metric, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
