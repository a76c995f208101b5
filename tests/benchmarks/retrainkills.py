"""Kills of a retraining at random moments: `python -m tests.benchmarks.retrainkills [KILLS]`.

While shards arrive, a process that retrains is killed (SIGKILL) again and again. After each kill the champion loads;
in the end a run completes, and every shard, so every row, is in the champion's lineage exactly once.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from okl.registry.registry import Registry
from okl.retraining.run import RETRAIN_STAGES, RetrainingRun, retrain
from okl.retraining.settings import RetrainSettings
from okl.retraining.shardstore import ShardStore
from tests.retraining.shards import content, land


def main(kills: str = "30") -> None:
    """Print in which stages the kills fell, and what the lineage holds; ends with 1 if a row is lost or twice."""
    random, fell = np.random.default_rng(7), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        settings = RetrainSettings.model_validate({
            "name": "m", "source": str(place / "in"), "registry": str(place / "registry"), "settle_seconds": 0,
            "publish_if": "not worse", "ingest": {"scale": "standard", "keys": ["hour"]},
            "train": {"frequencies": 50, "seed": 1, "step_size": 0.1, "order": "stored", "threads": 1},
        })  # fmt: skip
        land(place / "in", "day-000.parquet", content(1000))
        model, store = Registry(settings.registry).model("m"), ShardStore(place / "registry" / "m" / "data")
        retrain(settings)
        begun = time.perf_counter()
        land(place / "in", "day-0.parquet", content(1001))
        retrain(settings)
        usual, day = time.perf_counter() - begun, 0
        while sum(fell.values()) < int(kills):
            day += 1
            land(place / "in", f"day-{day:03d}.parquet", content(1001 + day))
            stage = _killed(settings, place / "stage", 2.5 * usual * random.random())
            if stage != "done":
                fell[stage] += 1
            model.version().load()
        last = retrain(settings)
        lineage: list[Any] = [shard for one in model.ancestry(model.version()) for shard in one.lineage.shards]
        counts = Counter(shard["sha256"] for shard in lineage)
        accepted = store.accepted()
        whole = {record.sha256 for record in accepted} == set(counts) and set(counts.values()) == {1}
        rows = sum(shard["rows"] for shard in lineage) == sum(record.train_rows for record in accepted)
        print(f"{kills} kills, by stage: {dict(fell)}; then: {last['outcome']}")
        print(f"{model.version().number} versions; {len(counts)} shards in the lineage, {day + 2} arrived")
        print("each shard and row once:", whole and rows and len(counts) == day + 2)
        sys.exit(0 if whole and rows and len(counts) == day + 2 else 1)


def _killed(settings: RetrainSettings, note: Path, seconds: float) -> str:
    """Retrain in a child that is killed after so many seconds; the stage it was in."""
    child = os.fork()
    if child == 0:
        run = RetrainingRun(settings)
        for stage in RETRAIN_STAGES:
            note.write_text(stage)
            getattr(run, stage)()
        note.write_text("done")
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return note.read_text() if note.exists() else "before"


if __name__ == "__main__":
    main(*sys.argv[1:])
