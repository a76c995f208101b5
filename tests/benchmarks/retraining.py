"""Nightly retraining on real rows in their order, against training once and against refits from all shards.

    python -m tests.benchmarks.retraining FOLDER [electricity] [--poison|--noise]   (FOLDER/NAME.parquet, last column y)

Thirty shards, the first three of them available at the start. Every night the champion scores the new shard before it
is learnt. With --poison the labels of one shard are flipped, with --noise they are permuted.

On electricity (a stream that changes all the time, and that chose no default) progressive errors were .2560
with "better", .2565 with "not worse", .2828 with "clearly better", .2568 of training once and .2519 of refits from all
shards every night, which read 4 times the bytes (5.5 MB and 1.3) and learn 5.6 seconds, "better" .5. The flipped
shard and the one with permuted labels were quarantined, and the other nights ran as usual.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.manifest import open_dataset
from okl.distributed import open_execution
from okl.foundation.telemetry import NullObserver
from okl.lifecycle.champion import learn_shards, same_location
from okl.lifecycle.retrain import retrain
from okl.lifecycle.scoring import progressive
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.models.registry import Registry
from tests.benchmarks.contract import SHARDS, cut

FIRST, POISONED = 3, 15


def nightly(place: Path, content: pa.Table, poison: str, **values: Any) -> list[dict[str, Any]]:
    """Return the results of all nights, on each of which a shard arrives and the model is retrained."""
    days = place / "days"
    days.mkdir(parents=True)
    (place / "in").mkdir()
    cut(content, days)
    train = {"frequencies": 200, "order": "stored", "seed": 1, "threads": 1}
    defaults: dict[str, Any] = {
        "name": "m", "source": str(place / "in"), "registry": str(place / "registry"), "settle_seconds": 0,
        "train": train, "ingest": {"scale": "standard", "target": "y"},
    }  # fmt: skip
    settings = RetrainSettings.model_validate(defaults | values)
    results = []
    for day, path in enumerate(sorted(days.iterdir())):
        table = pq.read_table(path)
        if poison and day == POISONED:
            labels = table["y"].to_numpy()
            wrong = -labels if poison == "--poison" else np.random.default_rng(0).permutation(labels)
            table = table.set_column(table.schema.names.index("y"), "y", pa.array(wrong))
        pq.write_table(table, place / "in" / path.name)
        if day >= FIRST - 1:
            results.append(retrain(settings))
    return results


def figures_of(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the progressive error of the champions, outcomes, seconds and bytes."""
    scored = [score for result in results for score in result["progressive"] if not score["contradicts"]]
    latest = {score["shard"]: score for score in reversed(scored)}  # scored before it was first learnt
    rows = sum(score["rows"] for score in latest.values())
    outcomes = [result["outcome"] for result in results]
    return {
        "error": round(sum(score["rows"] * score["error"] for score in latest.values()) / rows, 4),
        "nights": len(results),
        "published": outcomes.count("published"),
        "kept": outcomes.count("kept"),
        "rejected": [
            score["name"] + " " + ",".join(score["kinds"]) for r in results for score in r["shards"]["rejected"]
        ],
        "learning seconds": round(sum(result["seconds"] for result in results), 2),
        "seconds": round(sum(result["total_seconds"] for result in results), 2),
        "megabytes": round(sum(result["bytes_read"] for result in results) / 1e6, 2),
    }


def others(place: Path, result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures of the first version on all later shards, and of nightly refits from all shards so far."""
    settings = RetrainSettings.model_validate(result["settings"])
    store = ShardStore(place / "registry" / "m" / "data")
    train, records = same_location(settings.train, str(store.location)), store.accepted()
    first = Registry(place / "registry").model("m").version(1).load()
    wrong, rows, size = {"once": 0.0, "refit": 0.0}, 0, 0
    learning = 0.0
    start = time.perf_counter()
    with open_execution(threads=1) as execution:
        for night in range(FIRST, len(records)):
            data = open_dataset(store.location / records[night].key)
            refit = learn_shards(train, store, None, records[:night], execution, NullObserver())
            size, learning = size + refit.bytes_read, learning + refit.seconds
            for name, predictor in (("once", first.predictor), ("refit", refit.predictor)):
                score = progressive(data, first.schema, predictor, execution)
                wrong[name] += score.error * score.rows
            rows += score.rows
    seconds = time.perf_counter() - start
    refits = {"learning seconds": round(learning, 2), "seconds": round(seconds, 2), "megabytes": round(size / 1e6, 2)}
    return {
        "once": {"error": round(wrong["once"] / rows, 4)},
        "refit": {"error": round(wrong["refit"] / rows, 4)} | refits,
    }


def main(folder: str, name: str = "electricity", poison: str = "") -> None:
    """Print a line per method."""
    content = pq.read_table(Path(folder) / f"{name}.parquet")
    content = content.slice(0, min(content.num_rows, 90_000))
    for rule in ("better", "clearly better", "not worse"):
        with tempfile.TemporaryDirectory() as place:
            results = nightly(Path(place), content, poison, publish_if=rule)
            print(f"{name}, {SHARDS} shards, published if {rule}:", figures_of(results))
            agreements = [one["agreement"] for result in results for one in result["progressive"]]
            print("    agreement with the champion: least", round(float(np.min(agreements)), 3))
            for one in [result["drift"]["why"] for result in results if result["drift"]["found"]]:
                print("    ", one)
            for one in [result["reason"] for result in results if result["outcome"] == "kept"][:3]:
                print("    ", one)
            for result in results:
                print(
                    *(f"    {one.get('reason', one['kinds'])}" for one in result["shards"]["rejected"]),
                    sep="\n",
                    end="",
                )
            print()
            if rule == "not worse" and not poison:
                print("   ", others(Path(place), results[-1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
