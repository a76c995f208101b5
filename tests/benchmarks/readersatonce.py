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

ROWS, KEPT, READERS, LOOK_BACK = 2_000, 3, 2, 8


def read_while_moved(place: Path, registry: str, seconds: float) -> bool:
    """Load, predict and score while another process promotes, rolls back and prunes; whether all was whole."""
    source, model = land(place / "rows", "rows.parquet", content(9_999, ROWS)), Registry(registry).model("m")
    latest = model.state().latest
    wanted = {_digest(okl.load(f"m@{number}", registry), source): number for number in range(1, latest + 1)}
    assert len(wanted) == latest, "each version scores in its own way"
    context = multiprocessing.get_context("spawn")
    over, told, ready = context.Event(), context.Queue(), context.Barrier(READERS + 2)
    reading = (registry, str(source), list(wanted), ready, over, told)
    works: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (_move, (registry, ready, over, told)),
        *[(_read, reading)] * READERS,
    ]
    processes = [context.Process(target=work, args=words) for work, words in works]
    for process in processes:
        process.start()
    ready.wait()
    scored = _score(place, registry, source, wanted, seconds)
    over.set()
    tallies = [told.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    right = True
    for name, tally in [*tallies, ("okl-score", scored)]:
        print(f"  {name}: {dict(tally)}")
        right &= name == "moves" or set(tally) == {"whole"}
    return right


def _digest(model: Any, source: Path) -> str:
    return hashlib.sha256(model.scores(_inputs(source)).tobytes()).hexdigest()


def _inputs(source: Path) -> FloatArray:
    table = pq.read_table(source)
    return np.column_stack([table[f"x{i}"].to_numpy() for i in range(4)]).astype(np.float32)


def _move(registry: str, ready: Barrier, over: Event, told: Any) -> None:
    """Promote, roll back and prune as fast as it goes."""
    ready.wait()
    random, tally, model = np.random.default_rng(5), Counter[str](), Registry(registry).model("m")
    while not over.is_set():
        state = model.state()
        there = [one.number for one in model.versions() if not one.pruned][:LOOK_BACK]
        what = random.choice(["promote", "rollback", "prune"], p=[0.6, 0.3, 0.1])
        if what == "promote":
            model.promote(int(random.choice(there)))
        elif what == "rollback" and state.former:
            model.rollback()
        else:
            model.prune(keep=KEPT)
        tally[str(what)] += 1
    told.put(("moves", tally))


def _read(registry: str, source: str, wanted: list[str], ready: Barrier, over: Event, told: Any) -> None:
    """Load and predict as fast as it goes."""
    ready.wait()
    tally = Counter[str]()
    while not over.is_set():
        try:
            whole = _digest(okl.load("m@champion", registry), Path(source)) in wanted
            tally["whole" if whole else "half a model"] += 1
        except OklError as error:
            tally[str(error)] += 1
    told.put(("load and predict", tally))


def _score(place: Path, registry: str, source: Path, wanted: dict[str, int], seconds: float) -> Counter[str]:
    """Score by the flow, for a while."""
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
        found = wanted.get(hashlib.sha256(scores.tobytes()).hexdigest())
        tally["whole" if result["model"] == f"m@{found}" else f"{result['model']} has the scores of {found}"] += 1
    return tally
