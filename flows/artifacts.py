"""Prefect artifacts of runs, and events of retraining.

| event | emitted when | payload |
|---|---|---|
| `okl.model.promoted` | the champion was not announced yet | model, registry, version, parent, reason |
| `okl.model.current` | a run has ended and there is a champion | model, registry, version |
| `okl.model.drifted` | a run detects drift | the drift report |
| `okl.data.quarantined` | files were quarantined that no run announced before | model, files, names, reason |
| `okl.data.missing` | several consecutive runs have no new file, or only quarantined ones | model, source, windows |

Their resource is `okl.model.NAME`. The artifact `okl-arrivals-NAME` has a row for every run; the next run reads the
last row. If a run is killed between publishing and announcing, the next run makes the announcement.
"""

from __future__ import annotations

import json
import math
import re
import threading
from contextvars import copy_context
from html import unescape
from typing import Any
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, create_table_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactCollectionFilter
from prefect.events import emit_event
from prefect.logging import get_logger

from okl.foundation.errors import listed
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import DIGITS
from okl.report.format import counted
from okl.report.progress import STAGES, describe_metrics
from okl.report.retraining import choice_sentence

# Artifacts

ARTIFACT_SECONDS = 1.0  # between updates: each takes the server about 10 ms of a core


def artifact_key(*parts: str) -> str:
    """Join parts into a key that Prefect accepts: lower-case letters, digits and single dashes.

    >>> artifact_key("okl train", "Mean_Squared error")
    'okl-train-mean-squared-error'
    """
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def clean(value: Any) -> Any:
    """Return `value` with every number that JSON cannot represent as text, at any depth.

    Prefect converts NaN to null, which hides it, and stores Infinity, which its web page cannot show.

    >>> clean({"loss": float("inf"), "rates": [0.5, float("nan")]})
    {'loss': 'inf', 'rates': [0.5, 'nan']}
    """
    if isinstance(value, dict):
        return {str(key): clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    return value


def first_paragraph(markdown: str) -> str:
    r"""Return the first paragraph of a report as plain text, for its description in the list of artifacts.

    >>> first_paragraph("# Churn\n\nLog loss 0.3 \\| 9 rows.\n\n## Test\n")
    'Log loss 0.3 | 9 rows.'
    """
    lines = (line for line in markdown.splitlines() if line and line[0] not in "#|")
    return unescape(re.sub(r"\\(.)", r"\1", next(lines, "")))


def record_table(key: str, rows: list[dict[str, Any]], description: str) -> None:
    """Store flat rows as a table artifact of the current run, with numbers of six digits for the page."""
    short = [
        {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]
    create_table_artifact(table=clean(short), key=artifact_key(key), description=description)


def record_markdown(key: str, markdown: str, description: str) -> None:
    """Store a report as a markdown artifact of the current run; it embeds figures as data URIs."""
    create_markdown_artifact(markdown=markdown, key=artifact_key(key), description=description)


class ArtifactObserver:
    """Progress artifact of the current Prefect run, updated once a second by a thread.

    The training thread only stores its latest progress, so a slow server never delays it. A failed update is logged,
    not raised, because it must not stop the run.
    """

    def __init__(self, key: str) -> None:
        created = create_progress_artifact(progress=0.0, key=artifact_key(key), description="starting")
        assert isinstance(created, UUID)  # typed as sync or async; called from a sync flow it returns the id
        self.artifact = created
        self._latest: tuple[float, str] = (0.0, "starting")
        self._stage = ""
        self._over = threading.Event()
        # the context holds Prefect's settings: without it the thread would connect to another server
        self._thread = threading.Thread(target=copy_context().run, args=(self._follow,), daemon=True)
        self._thread.start()

    def stage(self, name: str) -> None:
        """Set the stage; keep the percentage until the stage has progress, so that a finished run shows 100 %."""
        self._stage = name
        self._latest = (self._latest[0], STAGES.get(name, name))

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        share = 100.0 * min(done / total, 1.0) if total > 0 else 0.0
        count = f"{done:,} of {total:,}" if total > 0 else f"{done:,}"  # of rows, passes, candidates or models
        stage = f"{STAGES.get(self._stage, self._stage)}: {count}"
        self._latest = (share, f"{stage}; {describe_metrics(metrics)}" if metrics else stage)

    def end(self, description: str, complete: bool = False) -> None:
        """Describe the end of the run: its result, or why it ended before it was complete."""
        self._latest = (100.0 if complete else self._latest[0], description)

    def finish(self) -> None:
        """Write the final progress and end the thread; return after the last update succeeded or failed."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        written: tuple[float, str] | None = None
        with get_client(sync_client=True) as client:
            while not self._over.wait(ARTIFACT_SECONDS):
                if (latest := self._latest) != written:
                    _update(client, self.artifact, *latest)
                    written = latest
            _update(client, self.artifact, *self._latest)


def _update(client: SyncPrefectClient, artifact: UUID, share: float, description: str) -> None:
    assert math.isfinite(share)
    try:
        client.update_artifact(artifact, ArtifactUpdate(data=share, description=description))
    except Exception as error:  # any error: progress must not stop the run
        get_logger("okl").warning("The progress artifact could not be updated: %s", error)


# Events of retraining

PROMOTED, CURRENT = "okl.model.promoted", "okl.model.current"
DRIFTED, MISSING, QUARANTINED = "okl.model.drifted", "okl.data.missing", "okl.data.quarantined"
NOTHING: dict[str, Any] = {"empty_windows": 0, "announced": None, "quarantined": "", "drifted": ""}
MOST_NAMED = 5  # files in an event


def announce(settings: RetrainSettings, result: dict[str, Any], most_empty: int) -> None:
    """Emit the events of a retraining run, one of them after most_empty runs without a usable file; store its row."""
    name, key = settings.name, artifact_key("okl-arrivals", settings.name)
    before = _last_row(key, result["registry"])
    champion = result["version"] or result["parent"]
    if champion is not None and champion != before["announced"]:
        payload = {field: result[field] for field in ("model", "registry", "reason")}
        parent = result["parent"] if champion == result["version"] else None
        _emit(PROMOTED, name, payload | {"version": champion, "parent": parent})
    if champion is not None:
        _emit(CURRENT, name, {"model": name, "registry": result["registry"], "version": champion})
    drifted = result["drift"]["why"] if (result.get("drift") or {}).get("found") else before["drifted"]
    if drifted != before["drifted"]:  # files wait after a rollback, and drift again in each run
        _emit(DRIFTED, name, result["drift"] | ({"choice": choice} if (choice := choice_sentence(result)) else {}))
    shards = result["shards"]
    out = [one for one in (*shards["rejected"], *shards["standing"]) if one["status"] == "quarantined"]
    if new := [one for one in out if one["sha256"][:DIGITS] not in before["quarantined"]]:
        names, reason = [one["name"] for one in new], new[0]["reason"]
        why = f"{reason} Also quarantined: {listed(names[1:], MOST_NAMED)}." if names[1:] else reason
        of_files = {"files": len(new), "names": names[:MOST_NAMED], "reason": reason}
        _emit(QUARANTINED, name, {"why": why, "model": name} | of_files)
    empty = before["empty_windows"] + 1 if _is_empty(settings, result) else 0
    if empty and empty % most_empty == 0:
        why = f"The latest {counted(empty, 'run')} found no usable new file in {settings.source}."
        _emit(MISSING, name, {"why": why, "model": name, "source": settings.source, "windows": empty})
    row: dict[str, Any] = {"outcome": result["outcome"], "announced": champion}
    row |= {kind: len(shards[kind]) for kind in ("accepted", "rejected", "still_written")}
    row["waiting"] = max(0, len(shards.get("learnt", ())) - row["accepted"])
    row |= {"empty_windows": empty, "model": name, "reason": result["reason"], "registry": result["registry"]}
    row["drifted"] = drifted
    row["quarantined"] = " ".join(one["sha256"][:DIGITS] for one in out)
    record_table(key, [row], "New shards, and the champion")


def _is_empty(settings: RetrainSettings, result: dict[str, Any]) -> bool:
    """Return whether no new file could be used; a run with a time window (a backfill) is never empty."""
    arrived = result["shards"]["accepted"] or result["shards"]["still_written"]
    return not arrived and settings.window_from is None and settings.window_to is None


def _last_row(key: str, registry: str) -> dict[str, Any]:
    """Return the row of the last run with this registry."""
    wanted = ArtifactCollectionFilter.model_validate({"key": {"any_": [key]}})
    with get_client(sync_client=True) as client:
        artifacts = client.read_latest_artifacts(artifact_filter=wanted)
    for artifact in artifacts:
        rows: list[dict[str, Any]] = json.loads(str(artifact.data))
        if rows and rows[0].get("registry") == registry:
            return NOTHING | rows[0]
    return NOTHING


def _emit(event: str, name: str, payload: dict[str, Any]) -> None:
    resource = {"prefect.resource.id": f"okl.model.{name}", "prefect.resource.name": name}
    if "version" in payload:  # lets automations distinguish the events of two versions
        resource["okl.model.version"] = str(payload["version"])
    emit_event(event, resource=resource, payload=clean(payload))
