"""Simultaneous retrainings, and readers while champions change.

    python -m tests.benchmarks.retrainraces [ROUNDS [FLOWS [SECONDS]]]

Two processes retrain one model at the same moment, ROUNDS times (50 by default) with the registry in a folder, and as
often under s3:// (a local server); then FLOWS pairs (10) of flow runs of a deployment do. In turn both have the same
settings; other seeds, so that they learn different models; or one starts later, after another shard has arrived. At the
end the log is read: every version was learnt from the champion at the moment of its publication, and every accepted
shard is in the champion's lineage once.

Then for SECONDS (30) champions are promoted, rolled back and pruned without a pause, while two processes load
`m@champion` and predict, and the flow `okl-score` scores a file: all scores must be those of one version.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.foundation.errors import ConflictError, OklError
from okl.foundation.locations import file_system, place_of
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.models.registry import Registry
from tests.benchmarks.readersatonce import read_while_moved
from tests.benchmarks.retrainflows import Deployed
from tests.lifecycle.shards import content, land
from tests.models.test_remote import Store
from tests.objectstore import point_at, s3_server

ROWS, LATEST_SECONDS = 1_000, 0.5
KINDS = ("same", "other seeds", "one later")


def settings_for(place: Path, registry: str, seed: int = 1) -> RetrainSettings:
    """Return the settings of a retraining."""
    return RetrainSettings.model_validate({
        "name": "m", "source": str(place / "in"), "registry": registry, "settle_seconds": 0, "publish_if": "not worse",
        "ingest": {"scale": "standard", "keys": ["hour"]},
        "train": {"frequencies": 50, "bandwidth": 1.0, "seed": seed, "step_size": 0.5, "threads": 1},
    })  # fmt: skip


def _racer(requests: Connection, ready: Barrier) -> None:
    """Retrain at each request, as soon as the other process is ready."""
    while (order := requests.recv()) is not None:
        text, seconds = order
        settings = RetrainSettings.model_validate_json(text)
        ready.wait()
        time.sleep(seconds)
        try:
            outcome = retrain(settings)["outcome"]
        except ConflictError:
            outcome = "conflict"
        except OklError as error:
            outcome = f"{type(error).__name__}: {error}"
        requests.send(outcome)


@contextmanager
def racers() -> Iterator[list[Connection]]:
    """Start two processes that retrain on request; yield their connections."""
    context = multiprocessing.get_context("spawn")
    ready, ends, processes = context.Barrier(2), [], []
    for _ in range(2):
        near_end, far_end = context.Pipe()
        processes.append(process := context.Process(target=_racer, args=(far_end, ready)))
        process.start()
        ends.append(near_end)
    try:
        yield ends
        for end in ends:
            end.send(None)
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.kill()


def race(place: Path, registry: str, rounds: int) -> bool:
    """Run so many rounds of two processes; print their outcomes, and return whether all checks hold."""
    random, outcomes = np.random.default_rng(3), Counter[str]()
    land(place / "in", "day-000.parquet", content(0, ROWS))
    retrain(settings_for(place, registry))
    start = time.perf_counter()
    with racers() as ends:
        for number in range(1, rounds + 1):
            kind = KINDS[number % len(KINDS)]
            land(place / "in", f"day-{number:03d}.parquet", content(number, ROWS))
            seeds = (1, 2) if kind == "other seeds" else (1, 1)
            later = LATEST_SECONDS * random.random() if kind == "one later" else 0.0
            for end, seed, wait in zip(ends, seeds, (0.0, later), strict=True):
                end.send((settings_for(place, registry, seed).model_dump_json(), wait))
            if later:
                time.sleep(later / 2)
                land(place / "in", f"day-{number:03d}-later.parquet", content(number + 1_000, ROWS))
            outcomes[f"{kind}: {' + '.join(sorted(end.recv() for end in ends))}"] += 1
    retrain(settings_for(place, registry))
    print(f"{registry}: {rounds} rounds, {time.perf_counter() - start:.0f} s")
    return _verdict(place, registry, outcomes)


def race_flows(place: Path, home: Path, rounds: int) -> bool:
    """Run so many pairs of flow runs of a deployment; return whether all checks hold."""
    registry, outcomes = str(place / "registry"), Counter[str]()
    with Deployed(home, place / "note") as deployed:
        for number in range(rounds):
            land(place / "in", f"day-{number:03d}.parquet", content(number, ROWS))
            ends = [deployed.start(settings_for(place, registry, seed))[1] for seed in (1, 1 + number % 2)]
            outcomes[" + ".join(sorted(str(end()["outcome"]) for end in ends))] += 1
        retrain(settings_for(place, registry))
    print(f"flow runs: {rounds} pairs")
    return _verdict(place, registry, outcomes)


def _verdict(place: Path, registry: str, outcomes: Counter[str]) -> bool:
    """Print the outcomes of rounds, and check the log."""
    for outcome, times in sorted(outcomes.items()):
        print(f"  {times:3} x {outcome}")
    model, champion = Registry(registry).model("m"), None
    for entry in model.entries():
        if entry.published is not None:
            assert entry.published.lineage.parent == champion, f"entry {entry.number}: an update was lost"
        champion = entry.state.champion
    lineage: list[Any] = [shard for one in model.ancestry(model.version()) for shard in one.lineage.shards]
    counts = Counter(shard["sha256"] for shard in lineage)
    accepted = [one.sha256 for one in ShardStore(place_of(registry) / "m" / "data").accepted()]
    correct = counts == Counter(accepted) and len(accepted) == len(list((place / "in").iterdir()))
    print(
        f"  {model.state().latest} versions, each of the champion before; each of {len(counts)} shards once: {correct}"
    )
    for version in model.versions():
        version.verify()
    return correct


def main(rounds: str = "50", flows: str = "10", seconds: str = "30") -> None:
    """Run all races and print them; exit code 1 if a check fails."""
    right = True
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folders = [Path(name) / part for part in ("folder", "s3", "flows", "home")]
        for folder in folders:
            folder.mkdir()
        patch.setenv("OKL_HOME", str(folders[3]))
        right &= race(folders[0], str(folders[0] / "registry"), int(rounds))
        with s3_server() as (address, app):
            app._app = Store(app._app)
            point_at(patch, address)
            file_system("s3://any")[0].mkdir("registries")
            right &= race(folders[1], "s3://registries/all", int(rounds))
        right &= race_flows(folders[2], folders[3], int(flows))
        right &= read_while_moved(folders[0], str(folders[0] / "registry"), float(seconds))
    sys.stdout.flush()
    os._exit(0 if right else 1)  # s3fs would wait for its threads


if __name__ == "__main__":
    main(*sys.argv[1:])
