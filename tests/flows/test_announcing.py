"""Events of retrainings: each new champion once, drift when detected, missing data after several runs."""

from __future__ import annotations

import json
from typing import Any

from prefect import flow

from flows.artifacts import announce
from flows.records import wait_for_records
from flows.server import TemporaryServer
from flows.stages import Started
from okl.lifecycle.settings import RetrainSettings
from okl.solvers.settings import TrainSettings
from tests.distributed.processes import soon
from tests.flows.conftest import query


def result(version: int | None = None, parent: int | None = None, n_accepted: int = 0, **more: Any) -> dict[str, Any]:
    shards = {"accepted": [{"name": "day"}] * n_accepted, "rejected": [], "standing": [], "still_written": []}
    outcome = "published" if version else "nothing new"
    base = {"model": "told", "registry": "/registry", "outcome": outcome, "reason": "why", "shards": shards}
    return base | {"version": version, "parent": parent, "drift": {"found": False, "why": ""}} | more


@flow(persist_result=False)
def announce_all(results: list[dict[str, Any]]) -> None:
    settings = RetrainSettings(name="told", source="/inbox", train=TrainSettings(data="/inbox"))
    for one in results:
        announce(settings, one, 2)


def test_events_are_sent_once(configured: TemporaryServer) -> None:
    file = {"name": "day 1", "sha256": "1" * 64, "status": "quarantined", "reason": "No row can be read."}
    twin = {"name": "day 3", "sha256": "3" * 64, "status": "duplicate"}
    rejected = {"accepted": [], "rejected": [file, twin], "standing": [], "still_written": []}
    standing = rejected | {"rejected": [], "standing": [file]}
    bad = standing | {"rejected": [file | {"name": f"day {n}", "sha256": str(n) * 64} for n in (2, 4)]}
    drift = {"found": True, "why": "the error rose", "shards": [{"rate": float("nan")}]}
    choice = {"cause": "day shows drift", "solver": "ridge", "why": ["Best of 8."], "outcome": "published"}
    announce_all(
        [
            result(1, None, n_accepted=2),
            result(None, 1),  # no new data
            result(None, 1, shards=rejected),  # twice: a released file that fails again is rejected each night
            result(2, 1, shards=standing | {"accepted": [{"name": "day"}]}, drift=drift, choice=choice),
            result(None, 2, shards=standing, drift=drift),  # its file waits after a rollback
            # version 3 was promoted by hand, or its run was killed before the announcement; its file is quarantined
            result(None, 3, shards=bad, drift=drift),
            result(None, 3),  # three in a row
            result(None, 3, registry="/another"),  # a registry without earlier announcements
        ]
    )
    wait_for_records(Started(), 20.0)  # sends the events

    def events(kind: str) -> list[dict[str, Any]]:
        where = f"event = '{kind}' and resource_id = 'okl.model.told'"
        return [
            json.loads(row)
            for (row,) in query(configured.home, f"select payload from events where {where} order by occurred")
        ]

    assert soon(lambda: len(events("okl.model.promoted")) == 4), "events are stored with a delay"
    promoted = [(one["version"], one["parent"], one["registry"]) for one in events("okl.model.promoted")]
    assert promoted == [(1, None, "/registry"), (2, 1, "/registry"), (3, None, "/registry"), (3, None, "/another")]
    assert soon(lambda: len(events("okl.model.current")) == 8), "each run with a champion, whatever its outcome"
    assert [one["version"] for one in events("okl.model.current")] == [1, 1, 1, 2, 2, 3, 3, 3]
    again = "Solver and settings were chosen again, because day shows drift: ridge. Best of 8."
    assert events("okl.model.drifted") == [drift | {"shards": [{"rate": "nan"}], "choice": again}]
    why = "No row can be read."
    quarantined = [(one["names"], one["reason"], one["why"]) for one in events("okl.data.quarantined")]
    assert quarantined == [(["day 1"], why, why), (["day 2", "day 4"], why, f"{why} Also quarantined: day 4.")]
    empty = "The latest 2 runs found no usable new file in /inbox."
    assert [(one["windows"], one["why"]) for one in events("okl.data.missing")] == [(2, empty), (2, empty)]
