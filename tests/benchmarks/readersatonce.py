"""Readers of `m@champion` while champions change: see `tests.benchmarks.retrainraces`."""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import okl
from okl.foundation.errors import OklError
from okl.foundation.telemetry import NullObserver
from okl.foundation.types import FloatArray
from okl.models.registry import Registry
from okl.runs.predict import ScoreSettings, ScoringRun
from tests.lifecycle.shards import content, land

ROWS, VERSIONS_KEPT, READERS, LOOK_BACK = 2_000, 3, 2, 8


def read_while_moved(place: Path, registry: str, seconds: float) -> bool:
    """Load, predict and score while another process promotes, rolls back and prunes; return whether all was whole."""
    source, model = land(place / "rows", "rows.parquet", content(9_999, ROWS)), Registry(registry).model("m")
    latest = model.state().latest
    versions = {_digest(okl.load(f"m@{number}", registry), source): number for number in range(1, latest + 1)}
    assert len(versions) == latest, "each version has different scores"
    context = multiprocessing.get_context("spawn")
    stop, results, ready = context.Event(), context.Queue(), context.Barrier(READERS + 2)
    shared = (registry, str(source), list(versions), ready, stop, results)
    works: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (_move, (registry, ready, stop, results)),
        *[(_read, shared)] * READERS,
    ]
    processes = [context.Process(target=work, args=arguments) for work, arguments in works]
    for process in processes:
        process.start()
    ready.wait()
    tally_of_scoring = _score(place, registry, source, versions, seconds)
    stop.set()
    tallies = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    correct = True
    for name, tally in [*tallies, ("okl-score", tally_of_scoring)]:
        print(f"  {name}: {dict(tally)}")
        correct &= name == "moves" or set(tally) == {"whole"}
    return correct


def _digest(model: Any, source: Path) -> str:
    return hashlib.sha256(model.scores(_inputs(source)).tobytes()).hexdigest()


def _inputs(source: Path) -> FloatArray:
    table = pq.read_table(source)
    return np.column_stack([table[f"x{i}"].to_numpy() for i in range(4)]).astype(np.float32)


def _move(registry: str, ready: Barrier, stop: Event, results: Any) -> None:
    """Promote, roll back and prune as fast as possible."""
    ready.wait()
    random, tally, model = np.random.default_rng(5), Counter[str](), Registry(registry).model("m")
    while not stop.is_set():
        state = model.state()
        available = [version.number for version in model.versions() if not version.pruned][:LOOK_BACK]
        action = random.choice(["promote", "rollback", "prune"], p=[0.6, 0.3, 0.1])
        if action == "promote":
            model.promote(int(random.choice(available)))
        elif action == "rollback" and state.former:
            model.rollback()
        else:
            model.prune(keep=VERSIONS_KEPT)
        tally[str(action)] += 1
    results.put(("moves", tally))


def _read(registry: str, source: str, known: list[str], ready: Barrier, stop: Event, results: Any) -> None:
    """Load and predict as fast as possible."""
    ready.wait()
    tally = Counter[str]()
    while not stop.is_set():
        try:
            whole = _digest(okl.load("m@champion", registry), Path(source)) in known
            tally["whole" if whole else "half a model"] += 1
        except OklError as error:
            tally[str(error)] += 1
    results.put(("load and predict", tally))


def _score(place: Path, registry: str, source: Path, versions: dict[str, int], seconds: float) -> Counter[str]:
    """Score with the flow for some seconds, and count outcomes."""
    from flows.foreground import perform_run

    deadline, tally = time.monotonic() + seconds, Counter[str]()
    while time.monotonic() < deadline:
        out = place / f"scores-{sum(tally.values())}"
        settings = ScoreSettings(model="m@champion", registry=registry, source=str(source), out=str(out))
        try:
            result = perform_run(ScoringRun(settings), "flows.runs:okl_score", NullObserver())
        except OklError as error:
            tally[str(error)] += 1
            continue
        scores = np.concatenate([pq.read_table(file)["score"].to_numpy() for file in sorted(out.glob("part-*"))])
        number = versions.get(hashlib.sha256(scores.tobytes()).hexdigest())
        tally["whole" if result["model"] == f"m@{number}" else f"{result['model']} has the scores of {number}"] += 1
    return tally
