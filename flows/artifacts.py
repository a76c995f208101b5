"""Prefect artifacts and events."""

from __future__ import annotations

import json
import math
import re
import threading
from contextvars import copy_context
from typing import Any
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, create_table_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey
from prefect.events import emit_event
from prefect.logging import get_logger

from flows.progress import describe_metrics
from okl.lifecycle.settings import RetrainSettings

# Prefect artifacts that survive their way: into JSON, into a database, onto a page.

ARTIFACT_SECONDS = 1.0  # between updates: each costs the server, on the same machine, some 10 ms of a core


def artifact_key(*parts: str) -> str:
    """Join words into a key that Prefect accepts: lower-case letters, digits and single dashes.

    >>> artifact_key("okl train", "Mean_Squared error")
    'okl-train-mean-squared-error'
    """
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def clean(value: Any) -> Any:
    """Return `value` with every number that JSON cannot hold written as text, at any depth.

    Prefect turns NaN into null, which hides it, and lets Infinity pass, which breaks the page that shows it.

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


def record_table(key: str, rows: list[dict[str, Any]], description: str) -> UUID:
    """Store flat rows as a table artifact of the current run and return its id."""
    return _id(create_table_artifact(table=clean(rows), key=artifact_key(key), description=description))


def record_markdown(key: str, markdown: str, description: str) -> UUID:
    """Store a report as a markdown artifact of the current run and return its id; pictures are data URIs in it."""
    return _id(create_markdown_artifact(markdown=markdown, key=artifact_key(key), description=description))


def record_progress(key: str, description: str) -> UUID:
    """Store a progress artifact of the current run, at 0 %, and return its id."""
    return _id(create_progress_artifact(progress=0.0, key=artifact_key(key), description=description))


def _id(created: Any) -> UUID:
    # Prefect's functions are typed for both worlds; called from a flow that is not async they return the id itself
    assert isinstance(created, UUID)
    return created


class ArtifactObserver:
    """A progress artifact of the current Prefect run, brought up to date once a second by a thread of its own.

    The learning thread only leaves its latest figures; a slow or missing server never holds it up, and a failed update
    is logged, not raised: progress is no reason to lose a model.

    Parameters
    ----------
    key : the artifact's key
    """

    def __init__(self, key: str) -> None:
        self.artifact = record_progress(key, "starting")
        self._latest: tuple[float, str] = (0.0, "starting")
        self._stage = ""
        self._over = threading.Event()
        # the context carries Prefect's settings: without it the thread would talk to another server
        self._thread = threading.Thread(target=copy_context().run, args=(self._follow,), daemon=True)
        self._thread.start()

    def stage(self, name: str) -> None:
        """Note the name; the share stays until the stage has one of its own, so that a run that is over shows 100 %."""
        self._stage = name
        self._latest = (self._latest[0], name)

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        """Leave the latest figures for the thread."""
        share = 100.0 * min(done / total, 1.0) if total > 0 else 0.0
        rows = f"{self._stage}: {done:,} of {total:,} rows" if total > 0 else f"{self._stage}: {done:,} rows"
        self._latest = (share, f"{rows}; {describe_metrics(metrics)}" if metrics else rows)

    def finish(self) -> None:
        """Write the last figures and end the thread; returns when they have arrived or have failed to."""
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
    except Exception as error:  # whatever it is, the run goes on; see the class
        get_logger("okl").warning("The progress artifact could not be updated: %s", error)


# Events that a retraining tells others by, and the artifact that remembers what was told.
#
# | event | when | payload | |---|---|---| | `okl.model.promoted` | a version is champion that was not announced |
# model, registry, version, parent, reason | | `okl.model.drifted` | the run found drift | what it found | |
# `okl.data.missing` | so many runs in a row found no new file, and again after as many more | model, source, windows
# |
#
# Their resource is `okl.model.NAME`. The artifact `okl-arrivals-NAME` has a row of every run: its history is that of
# the source, and its last row is what the next run goes on from. A run that was killed between publishing and
# announcing leaves the announcement to the next one.

PROMOTED, DRIFTED, MISSING = "okl.model.promoted", "okl.model.drifted", "okl.data.missing"
NOTHING: dict[str, Any] = {"empty_windows": 0, "announced": None}


def announce(settings: RetrainSettings, result: dict[str, Any], most_empty: int) -> None:
    """Emit the events that a run gives rise to, and keep its row.

    Parameters
    ----------
    result : of the run, as `okl retrain --json` prints it
    most_empty : runs in a row without a new file, after which that is told
    """
    name, key = settings.name, artifact_key("okl-arrivals", settings.name)
    before = _last_row(key, result["registry"])
    champion = result["version"] or result["parent"]
    if champion is not None and champion != before["announced"]:
        told = {one: result[one] for one in ("model", "registry", "reason")}
        parent = result["parent"] if champion == result["version"] else None
        _emit(PROMOTED, name, told | {"version": champion, "parent": parent})
    if (result.get("drift") or {}).get("found"):
        _emit(DRIFTED, name, result["drift"])
    empty = before["empty_windows"] + 1 if _is_empty(settings, result) else 0
    if empty and empty % most_empty == 0:
        _emit(MISSING, name, {"model": name, "source": settings.source, "windows": empty})
    row = {
        "model": name,
        "outcome": result["outcome"],
        "reason": result["reason"],
        "accepted": len(result["shards"]["accepted"]),
        "rejected": len(result["shards"]["rejected"]),
        "still_written": len(result["shards"]["still_written"]),
        "empty_windows": empty,
        "announced": champion,
        "registry": result["registry"],
    }
    record_table(key, [row], "What arrived, and which version was announced as champion")


def _is_empty(settings: RetrainSettings, result: dict[str, Any]) -> bool:
    """Whether nothing came: a backfill of a window of the past says nothing of that."""
    shards = result["shards"]
    held_again = [one for one in shards.get("released_in_vain", ()) if one["there"]]  # each night, and never new
    came = shards["accepted"] or shards["still_written"] or len(shards["rejected"]) > len(held_again)
    return not came and settings.window_from is None and settings.window_to is None


def _last_row(key: str, registry: str) -> dict[str, Any]:
    """The row that the last run with this registry left."""
    wanted = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=[key]))
    with get_client(sync_client=True) as client:
        found = client.read_latest_artifacts(artifact_filter=wanted)
    for one in found:
        rows: list[dict[str, Any]] = json.loads(str(one.data))
        if rows and rows[0].get("registry") == registry:
            return NOTHING | rows[0]
    return NOTHING


def _emit(event: str, name: str, payload: dict[str, Any]) -> None:
    resource = {"prefect.resource.id": f"okl.model.{name}", "prefect.resource.name": name}
    if "version" in payload:  # so that automations can tell the events of two versions apart
        resource["okl.model.version"] = str(payload["version"])
    emit_event(event, resource=resource, payload=clean(payload))
