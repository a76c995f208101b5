"""Timeline of a run: written as Parquet, summarised for the report, and in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okl.foundation.telemetry import DRIVER, LEARNING, PHASES, Timeline, TimelineCell
from okl.report.format import duration
from okl.report.results import RunResult

TIMELINE_FILE = "timeline.parquet"
MOST_DRAWN_BUCKETS = 64
MOST_DRAWN_LANES = 8


def write_timeline(timeline: Timeline, path: Path) -> None:
    """Write begin_seconds, width_seconds, seconds by stage, bucket, lane (driver, worker or thread) and phase."""
    cells = timeline.cells()
    columns: dict[str, Any] = {name: [getattr(cell, name) for cell in cells] for name in TimelineCell._fields}
    table = pa.table(columns | {"width_seconds": [timeline.width] * len(cells)})
    pq.write_table(table, path, compression="zstd")


def describe_timeline(timeline: Timeline) -> dict[str, Any]:
    """Return the summary of a timeline for the report, as JSON values.

    Returns
    -------
    shares : shares of the phases in the stage learn, of the driver, and of all workers (or threads) if there are any
    workers : number of lanes except the driver's
    bucket_seconds : width of a bucket
    stages : each [name, start, end], in seconds since the start of the run
    lanes : at most eight lanes: name, and seconds in each bucket by phase; with more workers, also their mean
    """
    cells, times = timeline.cells(), 1
    last = max((cell.begin_seconds for cell in cells), default=0.0)
    while last >= MOST_DRAWN_BUCKETS * times * timeline.width:
        times *= 2
    width = times * timeline.width
    lanes: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        lane = lanes.setdefault(cell.lane, {phase: [0.0] * (int(last / width) + 1) for phase in PHASES})
        lane[cell.phase][int(cell.begin_seconds / width)] += cell.seconds
    workers = [lane for lane in timeline.lanes() if lane in lanes and lane != DRIVER]
    shares = {DRIVER: _phase_shares(cells, [DRIVER])} | ({"workers": _phase_shares(cells, workers)} if workers else {})
    started = timeline.begun
    return {
        "shares": shares,
        "workers": len(workers),
        "bucket_seconds": width,
        "stages": [[stage.name, round(stage.begun - started, 4), round(stage.ended - started, 4)]
                   for stage in timeline.stages],
        "lanes": [{"name": name, **{phase: [round(second, 5) for second in seconds]
                                    for phase, seconds in lane.items() if any(seconds)}}
                  for name, lane in _drawn_lanes(lanes, workers)],
    }  # fmt: skip


def _phase_shares(cells: Sequence[TimelineCell], lanes: Sequence[str]) -> dict[str, float]:
    """Return the share of each phase in the training time of some lanes; empty without training time."""
    spent: defaultdict[str, float] = defaultdict(float)
    for cell in cells:
        if cell.stage == LEARNING and cell.lane in lanes:
            spent[cell.phase] += cell.seconds
    total = sum(spent.values())
    return {phase: round(spent[phase] / total, 5) for phase in PHASES if spent[phase] > 0.0} if total > 0.0 else {}


def _drawn_lanes(
    lanes: Mapping[str, Mapping[str, list[float]]], workers: Sequence[str]
) -> list[tuple[str, Mapping[str, list[float]]]]:
    drawn = [(DRIVER, lanes[DRIVER])] if DRIVER in lanes else []
    shown = list(workers)
    if len(workers) > MOST_DRAWN_LANES - 1:
        of_all = {phase: zip(*(lanes[lane][phase] for lane in workers), strict=True) for phase in PHASES}
        mean = {phase: [sum(seconds) / len(workers) for seconds in buckets] for phase, buckets in of_all.items()}
        drawn.append((f"mean of {len(workers)}", mean))
        shown = shown[: MOST_DRAWN_LANES - 2]
    return [
        *drawn,
        *((f"worker {number}" if "://" in lane else lane, lanes[lane]) for number, lane in enumerate(shown, 1)),
    ]


LEAST_SHARE = 0.005
LEAST_SECONDS = 1.0
"""Shorter parts of a run are not named."""
STAGE_NAMES = {
    "ingest": "reading rows",
    "encode": "trial of encodings",
    "plan": "choice of the model",
    "learn": "training",
    "evaluate": "baselines, evaluation and importance",
}
"""Names of the stages that may take long; the others are the rest."""


def time_sentence(result: RunResult) -> str:
    """Return the seconds of the long stages of a run; "" if only training is long.

    >>> stages = [["ingest", 0.0, 2.5], ["plan", 2.5, 62.5], ["learn", 62.5, 70.0], ["evaluate", 70.0, 70.1]]
    >>> time_sentence(RunResult({"timeline": {"stages": stages}, "choice": {"why": []}, "total_seconds": 71.0}))
    '2.5 s reading rows, 60.0 s choice of the model, 7.5 s training, 1.0 s the rest'
    """
    names = STAGE_NAMES if result.choice else STAGE_NAMES | {"plan": "preparation"}
    spent = [(names[name], end - begin) for name, begin, end in result.timeline.get("stages") or [] if name in names]
    named = [(name, seconds) for name, seconds in spent if seconds >= LEAST_SECONDS]
    rest = (result.total_seconds or 0.0) - sum(seconds for _, seconds in named)
    if {name for name, _ in named} <= {STAGE_NAMES["learn"]}:
        return ""
    named += [("the rest", rest)] if rest >= LEAST_SECONDS else []
    return ", ".join(f"{duration(seconds)} {name}" for name, seconds in named)


def timeline_sentence(result: RunResult) -> str:
    """Return the sentence on shares of training time by phase; "" without a timeline."""
    shares, owner = phases(result), timeline_owner(result)
    if not shares:
        return ""
    count = result.timeline.get("workers") or 0
    named = "this process" if owner == "Time" else f"{count} {owner.lower() if count != 1 else owner.lower()[:-1]}"
    note = "If one compiled loop maps and trains, the time of the map counts as learn."
    return f"Training time of {named}: {shares}. {note}"


def timeline_owner(result: RunResult) -> str:
    """Return whose time was shared: "Workers", "Threads" or, of one process, "Time"."""
    if not (result.timeline.get("shares") or {}).get("workers"):
        return "Time"
    return "Workers" if result.workers else "Threads"


def phases(result: RunResult) -> str:
    """Return the shares of training time by phase as text, the largest first; "" without a timeline.

    >>> shares = {"driver": {"wait": 1.0}, "workers": {"read": 0.196, "learn": 0.8, "wait": 0.004}}
    >>> phases(RunResult({"timeline": {"shares": shares, "workers": 2}, "workers": 2}))
    '80% learn, 20% read'
    """
    shares = result.timeline.get("shares") or {}
    shares = shares.get("workers") or shares.get("driver") or {}
    named = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{100 * share:.0f}% {phase}" for phase, share in named if share >= LEAST_SHARE)
