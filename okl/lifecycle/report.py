"""Result of a retraining as JSON, its report, and the challengers and files of earlier runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from okl.foundation.locations import Place, json_files
from okl.lifecycle.contract import learnable
from okl.lifecycle.error_drift import drift_of
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ATTEMPTS, PAGE, ShardStore
from okl.models.registry import RegisteredModel
from okl.report.blocks import Page
from okl.report.retraining import certified_sentence, retraining_page

if TYPE_CHECKING:
    from okl.lifecycle.champion import Challenger, ModelHistory
    from okl.lifecycle.decide import ChallengerResult

# The report.


def report_page(result: Mapping[str, Any]) -> Page:
    """Return the report."""
    settings = RetrainSettings.model_validate(result["settings"])
    return retraining_page(result, settings.model_dump(mode="json", exclude_defaults=True))


# The result as JSON.

MOST_HISTORY = 60  # shards before, for the picture of errors over time


@dataclass(eq=False)
class RetrainResult:
    """Result of a retraining, filled in stage by stage.

    outcome : "nothing new", "pinned", "judged before", "dry run", "kept" or "published"; reason : one sentence
    version : that was published; folder : of its files; apart : as of ModelHistory, of the compared champion
    changed : since the champion, in data and settings, see `okl.lifecycle.versions`
    choice : a choice that was made again: its cause, solver, reasons, and why its challenger was rejected
    chosen : reasons of the automatic choice for the first shards; data_warnings : on the columns of the first one,
        and on copies of rows and new columns in later ones
    report : page of the comparison, with pictures; mlflow : what MLflow recorded, or the reason why not
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
    judgement: ChallengerResult | None = None
    certificate: dict[str, Any] | None = None
    changed: dict[str, Any] | None = None
    choice: dict[str, Any] | None = None
    chosen: list[str] = field(default_factory=list)
    data_warnings: list[str] = field(default_factory=list)
    report: str | None = None
    mlflow: str | None = None
    started_at: float = field(default_factory=time.perf_counter)

    def as_json(self) -> dict[str, Any]:
        """Return the result so far."""
        challenger, judgement = self.challenger, self.judgement
        own = ("outcome", "reason", "version", "folder", "parent", "apart", "shards", "progressive", "drift", "history")
        return {
            "model": self.settings.name,
            "registry": self.registry,
            **{name: getattr(self, name) for name in own},
            "how": challenger.how if challenger else None,
            "chosen": self.chosen,
            "choice": self.choice,
            "data_warnings": self.data_warnings,
            "learning": list(challenger.curve) if challenger else [],
            "decision": judgement.decision.as_json() if judgement else None,
            "judged_on": list(judgement.shards) if judgement else [],
            "metrics": {name: dict(values) for name, values in judgement.metrics.items()} if judgement else {},
            "counted": dict(judgement.counted) if judgement else {},
            "previous": self._previous(),
            "certificate": self.certificate,
            "certified": certified_sentence(challenger.online, self.certificate) if challenger else "",
            "report": self.report,
            "mlflow": self.mlflow,
            "seconds": challenger.seconds if challenger else 0.0,
            "total_seconds": time.perf_counter() - self.started_at,
            "bytes_read": (challenger.bytes_read if challenger else 0) + (judgement.bytes_read if judgement else 0),
            "settings": self.settings.model_dump(mode="json"),
        }

    def _previous(self) -> dict[str, Any] | None:
        """Return the changes since the champion, with both models' figures on the same reserved rows, if compared."""
        if self.changed is None:
            return None
        if self.judgement is None:
            return {part: values for part, values in self.changed.items() if part != "metrics"}
        champion, challenger = (self.judgement.metrics.get(name, {}) for name in ("champion", "challenger"))
        figures = {name: [champion.get(name), value] for name, value in challenger.items() if value is not None}
        return self.changed | {"metrics": figures, "same_rows": True}


def history_of(history: ModelHistory) -> list[dict[str, Any]]:
    """Return the errors of champions on the latest shards of the lineage before training, a row per shard."""
    scored = [(record.name, record.scored) for record in history.trained() if record.scored is not None]
    trained = [(name, scores) for name, scores in scored if not scores.reserved]
    names = ("version", "rows", "error", "constant", "fired")
    return [{"shard": name} | {key: getattr(scored, key) for key in names} for name, scored in trained[-MOST_HISTORY:]]


# Recent challengers.

MOST_SHOWN = 10
DATA = "data"  # the shard store's folder in that of a model


def latest_attempts(model: RegisteredModel) -> list[dict[str, Any]]:
    """Return compared challengers, newest first: at, outcome, version, champion, reason, page.

    outcome : "published" or "kept"; version : None if rejected; champion : the compared champion, None for none
    page : location of its report; at : ISO 8601, "" if unknown
    Raises RegistryError, DataError : the registry does not answer, or its log is damaged
    """
    published = [
        {"at": entry.at, "outcome": "published", "version": made.version, "champion": made.lineage.parent,
         "reason": entry.why, "page": str(model.folder / "versions" / made.folder / PAGE)}
        for entry in model.entries() if (made := entry.published) is not None and made.lineage.decision
    ]  # fmt: skip
    attempts = published + _stored_attempts(model.folder / DATA / ATTEMPTS)
    # of one second: by the champion of then, who stays after what was kept
    order = sorted(
        attempts, key=lambda attempt: (attempt["at"], attempt["champion"] or 0, attempt["outcome"] == "published")
    )
    return order[: -MOST_SHOWN - 1 : -1]


def quarantined(model: RegisteredModel) -> list[dict[str, Any]]:
    """Return excluded files by name with sha256, rows, reason, and whether they can be released; or DataError."""
    store = ShardStore(model.folder / DATA)
    records, files = store.records(), store.file_state().entries
    now = {name: digest for name, (*_, digest) in files.items() if digest in records}
    there = [one for sha, one in records.items() if any(now.get(name, sha) == sha for name in one.names)]
    standing = sorted((one for one in there if one.status == "quarantined"), key=lambda record: record.name)
    return [
        {"name": record.name, "sha256": record.sha256, "rows": record.rows, "reason": record.reason,
         "releasable": learnable(record.findings)} for record in standing[:MOST_SHOWN]
    ]  # fmt: skip


def _stored_attempts(folder: Place) -> list[dict[str, Any]]:
    attempts = []
    for file in json_files(folder):
        try:
            attempt = json.loads(file.read_text(encoding="utf-8"))
            champion, reason, at = int(file.name[:8]), str(attempt["reason"]), str(attempt.get("at") or _changed(file))
        except (ValueError, KeyError, TypeError, AttributeError):  # as in `Attempts.find`: it is compared again
            continue
        attempts.append(
            {"at": at, "outcome": "kept", "version": None, "champion": champion or None, "reason": reason,
             "page": str(folder / file.name.replace(".json", ".html"))}
        )  # fmt: skip
    return attempts


def _changed(file: Place) -> str:
    if not isinstance(file, Path):
        return ""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
