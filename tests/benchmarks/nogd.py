"""How fast NOGD learns on one core: against scikit-learn's Nystroem with SGDClassifier.

    python -m tests.benchmarks.nogd [--data FOLDER] [--repeats 5] [--growth]

Both learn the same rows in order and count mistakes before they learn; scikit-learn's landmarks are drawn beforehand
and not timed, okl's are found and decomposed while it learns. scikit-learn's map keeps the full rank of its landmarks:
okl is timed with that rank, too. Step sizes are tuned on the first rows.

With --growth: time and memory of the second phase against budget, rank and inputs, which are O(rank * budget) by
Table 1 of Lu et al., JMLR 17(47), 2016, beside the kernel's O(inputs * budget).
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from okl.execution.protocol import Rows
from okl.kernels import Gaussian
from okl.losses import Hinge
from okl.online.nogd import NOGDLearner
from okl.types import Precision
from tests.benchmarks.fogd_data import Problem, in_precision, read_problem
from tests.benchmarks.fogd_peers import BATCH_ROWS, Peer, Run, tuned_step_size
from tests.benchmarks.steadiness import verdict, wait_for_idle_cores

PROBLEM = Problem("covtype_binary", 54, 0, 131_072, 6.0)
BUDGET, RANK = 100, 20
PRECISIONS: tuple[Precision, ...] = ("float32", "float64")
Measurement = dict[str, Any]


def nogd_peer(bandwidth: float, budget: int, rank: int, n_threads: int = 1) -> Peer:
    """okl, exact row by row, from the first support vector on."""

    def run(rows: Rows, step_size: float) -> Run:
        precision: Precision = "float32" if rows.inputs.dtype == np.float32 else "float64"
        n_inputs = rows.inputs.shape[1]
        learner = NOGDLearner(Gaussian(bandwidth), n_inputs, Hinge(), step_size, budget, rank, precision=precision)
        start = perf_counter()
        progress = learner.learn(learner.start(), rows, n_threads).progress
        return Run(perf_counter() - start, progress.error, progress.updates / progress.rows)

    return run


def nystroem_peer(bandwidth: float, n_landmarks: int) -> Peer:
    """scikit-learn in batches of 256 rows on one thread of BLAS; predicting each batch first is not timed."""

    def run(rows: Rows, step_size: float) -> Run:
        nystroem = Nystroem(gamma=0.5 / bandwidth**2, n_components=n_landmarks, random_state=0)
        nystroem.fit(rows.inputs[:4096])
        model = SGDClassifier(
            loss="hinge", penalty=None, learning_rate="constant", eta0=step_size, fit_intercept=False, shuffle=False
        )
        seconds, mistakes = 0.0, 0
        with threadpool_limits(1):
            for first in range(0, len(rows.targets), BATCH_ROWS):
                part = slice(first, first + BATCH_ROWS)
                start = perf_counter()
                features = nystroem.transform(rows.inputs[part])
                seconds += perf_counter() - start
                guesses = model.predict(features) if first else np.ones(len(features))
                mistakes += int(np.sum(guesses != rows.targets[part]))
                start = perf_counter()
                model.partial_fit(features, rows.targets[part], classes=(-1.0, 1.0))
                seconds += perf_counter() - start
        return Run(seconds, mistakes / len(rows.targets), float("nan"))

    return run


def measure(folder: Path, repeats: int, patience: float) -> list[Measurement]:
    """One flat row a peer and precision, interleaved, each on cores that have become idle."""
    rows, bandwidth = read_problem(folder, PROBLEM)
    peers = {
        f"okl, rank {RANK}": nogd_peer(bandwidth, BUDGET, RANK),
        f"okl, rank {BUDGET}": nogd_peer(bandwidth, BUDGET, BUDGET),
        "scikit-learn": nystroem_peer(bandwidth, BUDGET),
    }
    runs: dict[tuple[str, Precision], Callable[[], Run]] = {}
    steps: dict[tuple[str, Precision], float] = {}
    for precision in PRECISIONS:
        typed = in_precision(rows, precision)
        for name, peer in peers.items():
            steps[name, precision] = tuned_step_size(peer, typed)
            runs[name, precision] = partial(peer, typed, steps[name, precision])
    results: dict[tuple[str, Precision], list[Run]] = defaultdict(list)
    busy = 0.0
    for _ in range(repeats):
        for key, run in runs.items():
            busy = max(busy, wait_for_idle_cores(patience))
            results[key].append(run())
    return [
        {
            "part": "nogd",
            "problem": f"{PROBLEM.data} (d={PROBLEM.n_inputs}, B={BUDGET})",
            "peer": name,
            "precision": precision,
            "ns_per_row": median(run.seconds for run in taken) / PROBLEM.n_rows * 1e9,
            "least_ns_per_row": min(run.seconds for run in taken) / PROBLEM.n_rows * 1e9,
            "step_size": steps[name, precision],
            "accuracy": 1.0 - taken[0].error,
            "busy_percent": busy,
        }
        for (name, precision), taken in results.items()
    ]


def show(measurements: list[Measurement]) -> None:
    """Print the measurements of `measure`, and whether they meet the speed-up asked for."""
    of = {(row["peer"], row["precision"]): row for row in measurements}
    print(f"\n{measurements[0]['problem']}, {PROBLEM.n_rows:,} rows in memory, one thread")
    for (name, precision), row in of.items():
        line = f"  {name:14}{precision}  {row['ns_per_row']:8.0f} ns a row (least {row['least_ns_per_row']:.0f})"
        print(f"{line}, accuracy {row['accuracy']:.4f}, step size {row['step_size']:g}")
    for (name, precision), row in of.items():
        if name != "scikit-learn":
            peer = of["scikit-learn", precision]
            spreads = [each["ns_per_row"] / each["least_ns_per_row"] for each in (row, peer)]
            speedup = peer["ns_per_row"] / row["ns_per_row"]
            told = verdict(speedup, spreads, row["busy_percent"], at_least=PROBLEM.target_speedup)
            print(f"  {name}, {precision}: {speedup:.1f} times as fast as scikit-learn a core{told}")


def measure_growth(folder: Path) -> list[Measurement]:
    """One flat row a size: nanoseconds a row once the map is there (least of 3), and bytes of the state."""
    rows = in_precision(read_problem(folder, PROBLEM)[0], "float32")
    sizes = [(budget, RANK, PROBLEM.n_inputs) for budget in (25, 50, 100, 200, 400, 800)]
    sizes += [(200, rank, PROBLEM.n_inputs) for rank in (5, 50, 100)]
    sizes += [(BUDGET, RANK, n_inputs) for n_inputs in (5, 10, 27)]
    measurements = []
    for budget, rank, n_inputs in sizes:
        narrow = Rows(np.ascontiguousarray(rows.inputs[:, :n_inputs]), rows.targets)
        learner = NOGDLearner(Gaussian(0.7 * n_inputs**0.5), n_inputs, Hinge(), 0.1, budget, rank)
        state = learner.learn(learner.start(), Rows(narrow.inputs[:8192], narrow.targets[:8192]))
        if state.feature_map is None or state.feature_map.n_columns != rank:
            raise SystemExit(f"A budget of {budget} with rank {rank} was not filled by 8192 rows.")
        seconds = []
        for _ in range(3):
            start = perf_counter()
            learner.learn(state, narrow)
            seconds.append(perf_counter() - start)
        ns = min(seconds) / PROBLEM.n_rows * 1e9
        size = {"budget": budget, "rank": rank, "n_inputs": n_inputs}
        measurements.append({"part": "growth", **size, "ns_per_row": ns, "state_bytes": len(pickle.dumps(state))})
    return measurements


def show_growth(measurements: list[Measurement]) -> None:
    """Print the measurements of `measure_growth`."""
    print("\n budget   rank inputs  ns a row  state bytes")
    for row in measurements:
        print(f"{row['budget']:7}{row['rank']:7}{row['n_inputs']:7}{row['ns_per_row']:10.0f}{row['state_bytes']:13,}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of NAME.parquet")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for idle cores")
    parser.add_argument("--json", type=Path, help="file for the measurements")
    parser.add_argument("--growth", action="store_true", help="also time against budget, rank and inputs")
    options = parser.parse_args()
    measurements = measure(options.data, options.repeats, options.patience)
    show(measurements)
    if options.growth:
        grown = measure_growth(options.data)
        show_growth(grown)
        measurements += grown
    if options.json is not None:
        options.json.write_text(json.dumps(measurements, indent=1))


if __name__ == "__main__":
    main()
