"""Speed of FOGD compared with scikit-learn and with the sum of its phases.

    python -m tests.benchmarks.fogd [--data FOLDER] [--threads 2] [--repeats 5]

Everything is interleaved in one run, each measurement on cores that have become idle, and medians are shown. A busy
machine does not slow all alike (scikit-learn's BLAS threads suffer far more), so a verdict is given only where cores
were idle and the medians repeat. Both step sizes are tuned on the first rows; both progressive accuracies are shown.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from okl.foundation.types import Precision
from tests.benchmarks.fogd_data import PROBLEMS, Problem, in_precision, read_problem
from tests.benchmarks.fogd_parquet import from_parquet, show_parquet
from tests.benchmarks.fogd_peers import draw_map, okl_peer, sklearn_peer, tuned_step_size
from tests.benchmarks.fogd_phases import Phases, measure_phases
from tests.benchmarks.steadiness import verdict, wait_for_idle_cores

# okl's precision, scikit-learn's, and the required speed-up; None: that of the problem
COMPARISONS: tuple[tuple[Precision, Precision, float | None], ...] = (
    ("float32", "float32", None),
    ("float32", "float64", 15.0),
    ("float64", "float64", 15.0),
)
PRECISIONS: tuple[Precision, ...] = ("float32", "float64")
Measurement = dict[str, Any]


def in_memory(problem: Problem, arguments: argparse.Namespace) -> list[Measurement]:
    """One flat row a measurement: okl, scikit-learn and the phases on rows in memory, in both precisions."""
    rows, bandwidth = read_problem(arguments.data, problem)
    runs: dict[tuple[str, Precision], Callable[[], Any]] = {}
    steps: dict[tuple[str, Precision], float] = {}
    for precision in PRECISIONS:
        typed = in_precision(rows, precision)
        drawn = draw_map(typed, bandwidth, problem.n_frequencies)
        peers = {
            "okl": okl_peer(drawn, arguments.threads),
            "scikit-learn": sklearn_peer(bandwidth, problem.n_frequencies),
        }
        for name, peer in peers.items():
            step = steps[name, precision] = tuned_step_size(peer, typed)
            runs[name, precision] = partial(peer, typed, step)
        runs["phases", precision] = partial(measure_phases, drawn, typed.inputs, arguments.threads)
        runs["phases", precision]()  # compiles
    results: dict[tuple[str, Precision], list[Any]] = defaultdict(list)
    busy = 0.0
    for _ in range(arguments.repeats):
        for key, run in runs.items():
            busy = max(busy, wait_for_idle_cores(arguments.patience))
            results[key].append(run())
    measurements = []
    for name, precision in steps:
        results_of_peer = results[name, precision]
        ns = [run.seconds / problem.n_rows * 1e9 for run in results_of_peer]
        row = {
            "part": "memory",
            "problem": problem.name,
            "peer": name,
            "precision": precision,
            "ns_per_row": median(ns),
            "least_ns_per_row": min(ns),
            "step_size": steps[name, precision],
            "accuracy": 1.0 - results_of_peer[0].error,
            "busy_percent": busy,
        }
        if name == "okl":
            row |= _phases_of(results["phases", precision], arguments.threads, results_of_peer[0].updates)
        measurements.append(row)
    return measurements


def _phases_of(phases: list[Phases], n_threads: int, updates: float) -> Measurement:
    fields = {f"phase_{name}": median(getattr(phase, name) for phase in phases) for name in Phases._fields}
    limits = [phase.limit(n_threads, updates) for phase in phases]
    return {**fields, "updates": updates, "limit_ns_per_row": median(limits), "least_limit_ns_per_row": min(limits)}


def show_memory(problem: Problem, measurements: list[Measurement]) -> None:
    """Print the measurements of `in_memory` on one problem, and whether they meet their targets."""
    by_peer = {(row["peer"], row["precision"]): row for row in measurements}
    print(f"\n{problem.name}, {problem.n_rows:,} rows in memory")
    for (name, precision), row in by_peer.items():
        line = f"  {name:13}{precision}  {row['ns_per_row']:8.0f} ns a row (least {row['least_ns_per_row']:.0f})"
        print(f"{line}, accuracy {row['accuracy']:.4f}, step size {row['step_size']:g}")
        if name == "okl":
            phase_text = ", ".join(f"{key} {row[f'phase_{key}']:.0f}" for key in Phases._fields)
            limit, least = row["limit_ns_per_row"], row["least_limit_ns_per_row"]
            print(f"      phases: {phase_text}; limit {limit:.0f} (least {least:.0f})")
            ratio, spreads = row["ns_per_row"] / limit, [_spread(row), limit / least]
            assessment = verdict(ratio, spreads, row["busy_percent"], at_most=1.3)
            if ratio < 1.0:
                assessment = "  (INCONCLUSIVE: the phases took longer alone than together, so they are no limit)"
            print(f"      over the sum of phases: {ratio:.2f}{assessment}")
    for own, other, target in COMPARISONS:
        okl, peer = by_peer["okl", own], by_peer["scikit-learn", other]
        ratio = peer["ns_per_row"] / okl["ns_per_row"]
        target = problem.target_speedup if target is None else target
        assessment = verdict(ratio, [_spread(okl), _spread(peer)], okl["busy_percent"], at_least=target)
        least = peer["least_ns_per_row"] / okl["least_ns_per_row"]
        print(f"      okl {own} over scikit-learn {other}: {ratio:.1f} times (of the least {least:.1f}){assessment}")
        points = 100 * (okl["accuracy"] - peer["accuracy"])
        print(f"        accuracy {points:+.2f} points{verdict(points, [1.0], 0.0, at_least=-0.2)}")


def _spread(row: Measurement) -> float:
    return float(row["ns_per_row"] / row["least_ns_per_row"])


# every part measures one problem and prints its measurements
PARTS: dict[str, tuple[Callable[[Problem, argparse.Namespace], list[Measurement]], Callable[..., None]]] = {
    "memory": (in_memory, show_memory),
    "parquet": (from_parquet, show_parquet),
}


def main() -> None:
    """Measure every part on every problem, print tables, and one JSON line a measurement if asked."""
    parser = argparse.ArgumentParser(description="Speed of FOGD.")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2].parent / "shared" / "data")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for idle cores, each time")
    parser.add_argument("--parts", nargs="*", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--json", action="store_true", help="also print each measurement as a line of JSON")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the first measurement")
    for problem in PROBLEMS:
        for part in arguments.parts:
            measure, show = PARTS[part]
            measurements = measure(problem, arguments)
            show(problem, measurements)
            if arguments.json:
                print("\n".join(json.dumps(row) for row in measurements))


if __name__ == "__main__":
    main()
