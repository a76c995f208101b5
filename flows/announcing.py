"""Events that a retraining tells others by, and the artifact that remembers what was told.

| event | when | payload |
|---|---|---|
| `okl.model.promoted` | a version is champion that was not announced | model, registry, version, parent, reason |
| `okl.model.drifted` | the run found drift | what it found |
| `okl.data.missing` | so many runs in a row found no new file, and again after as many more | model, source, windows |

Their resource is `okl.model.NAME`. The artifact `okl-arrivals-NAME` has a row of every run: its history is that of the
source, and its last row is what the next run goes on from. A run that was killed between publishing and announcing
leaves the announcement to the next one.
"""

from __future__ import annotations

import json
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey
from prefect.events import emit_event

from flows.artifacts import artifact_key, clean, record_table
from okl.retraining.settings import RetrainSettings

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
