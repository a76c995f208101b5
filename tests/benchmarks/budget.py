"""How fast learners with support vectors learn on one core: against their kernel row alone, and against tight numpy.

    python -m tests.benchmarks.budget [--data FOLDER] [--repeats 5] [--growth]

The kernel row alone is computed for every row against a full budget, in the same run and interleaved. With --growth:
time and memory against budget and inputs; Table 1 of Lu et al., JMLR 17(47), 2016, has O(B) for RBP, Forgetron and
BOGD, O(B^2) time and O(B) memory for the Budget Perceptron, all beside the kernel's O(inputs * B).
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

from okl.compiled.budget import COUNT, Kept, used_width
from okl.compiled.door import compiled, one_blas_thread
from okl.compiled.kernelrows import kernel_row
from okl.compiled.kernelrule import KernelRule
from okl.execution.protocol import Rows
from okl.kernels import Gaussian
from okl.online.budget import (
    BoundedGradientDescent,
    BudgetLearner,
    BudgetPerceptron,
    BudgetStrategy,
    Forgetron,
    GrowingLearner,
    GrowingStrategy,
    Norma,
    OnlineGradientDescent,
    Perceptron,
    RandomizedBudgetPerceptron,
    SampledGradientDescent,
)
from okl.online.budget.state import kept_from
from okl.types import FloatArray
from tests.benchmarks.budget_numpy import run as run_numpy
from tests.benchmarks.fogd_data import Problem, in_precision, read_problem
from tests.benchmarks.steadiness import verdict, wait_for_idle_cores

PROBLEM = Problem("covtype_binary", 54, 0, 131_072, 0.0)
BUDGET, GROWING_ROWS, NUMPY_ROWS = 100, 16_384, 16_384
STRATEGIES: dict[str, BudgetStrategy] = {
    "rbp": RandomizedBudgetPerceptron(),
    "bogd": BoundedGradientDescent(),
    "bogd++": SampledGradientDescent(),
    "norma": Norma(nu=None),
    "forgetron": Forgetron(),
    "budget-perceptron": BudgetPerceptron(),
}
WITHOUT_BUDGET: dict[str, GrowingStrategy] = {"perceptron": Perceptron(), "ogd": OnlineGradientDescent(0.4)}
Measurement = dict[str, Any]


@compiled
def rows_alone(kept: Kept, inputs: FloatArray, kernel: KernelRule) -> float:
    """Kernel rows of all inputs against the supports; returns something that depends on all of them."""
    row, supports = kept.row[: used_width(kept.integers[COUNT])], kept.supports
    total = 0.0
    for index in range(inputs.shape[0]):
        kernel_row(row, supports, inputs[index], kernel)
        total += row[index % row.shape[0]]
    return total


def contestants(rows: Rows, bandwidth: float) -> dict[tuple[str, str], tuple[Callable[[], object], int]]:
    """What is timed, by name and by whom, and over how many rows."""
    kernel, n_inputs = Gaussian(bandwidth), rows.inputs.shape[1]
    few = Rows(rows.inputs[:GROWING_ROWS], rows.targets[:GROWING_ROWS])
    timed: dict[tuple[str, str], tuple[Callable[[], object], int]] = {}
    for name, strategy in STRATEGIES.items():
        learner = BudgetLearner(kernel, strategy, "binary", n_inputs, BUDGET)
        timed[name, "okl"] = partial(learner.learn, learner.start(), rows), len(rows.targets)
        timed[name, "numpy"] = partial(run_numpy, name, *few, BUDGET, bandwidth), GROWING_ROWS
        if name == "rbp":
            full = kept_from(learner.learn(learner.start(), few))
            assert full.integers[COUNT] == BUDGET
            timed["kernel row", "okl"] = partial(rows_alone, full, rows.inputs, kernel.rule), len(rows.targets)
    for name, growing in WITHOUT_BUDGET.items():
        grown = GrowingLearner(kernel, growing, "binary", n_inputs)
        timed[name, "okl"] = partial(grown.learn, grown.start(), few), GROWING_ROWS
        timed[name, "numpy"] = partial(run_numpy, name, *few, GROWING_ROWS, bandwidth), GROWING_ROWS
    return timed


def measure(folder: Path, repeats: int, patience: float) -> list[Measurement]:
    """One flat row a contestant, interleaved, each on cores that have become idle; numpy is timed twice only."""
    rows, bandwidth = read_problem(folder, PROBLEM)
    timed = contestants(in_precision(rows, "float32"), bandwidth)
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    busy = 0.0
    for repeat in range(repeats + 1):  # the first compiles
        for key, (work, _) in timed.items():
            if key[1] == "numpy" and repeat > 2:
                continue
            busy = max(busy, wait_for_idle_cores(patience) if repeat else 0.0)
            with one_blas_thread():
                start = perf_counter()
                work()
            if repeat:
                seconds[key].append(perf_counter() - start)
    return [
        {
            "part": "budget",
            "problem": f"{PROBLEM.data} (d={PROBLEM.n_inputs}, B={BUDGET})",
            "name": name,
            "by": by,
            "ns_per_row": median(taken) / timed[name, by][1] * 1e9,
            "least_ns_per_row": min(taken) / timed[name, by][1] * 1e9,
            "busy_percent": busy,
        }
        for (name, by), taken in seconds.items()
    ]


def show(measurements: list[Measurement]) -> None:
    """Print the measurements, and whether they meet what is asked for."""
    of = {(row["name"], row["by"]): row for row in measurements}
    alone = of["kernel row", "okl"]
    print(f"\n{measurements[0]['problem']}, one thread; without a budget {GROWING_ROWS:,} rows")
    print(
        f"  {'kernel row alone':20}{alone['ns_per_row']:8.0f} ns, {1e3 / alone['ns_per_row']:.2f} million rows a second"
    )
    for name in [*STRATEGIES, *WITHOUT_BUDGET]:
        mine, numpy = of[name, "okl"], of[name, "numpy"]
        spreads = [each["ns_per_row"] / each["least_ns_per_row"] for each in (mine, alone, numpy)]
        line = f"  {name:20}{mine['ns_per_row']:8.0f} ns"
        if name in ("rbp", "bogd"):
            ratio = mine["ns_per_row"] / alone["ns_per_row"]
            line += f", {ratio:.2f} kernel rows" + verdict(ratio, spreads[:2], mine["busy_percent"], at_most=1.5)
        speedup = numpy["ns_per_row"] / mine["ns_per_row"]
        line += f", numpy {numpy['ns_per_row']:.0f} ns: {speedup:.1f} times as fast"
        print(line + verdict(speedup, spreads, mine["busy_percent"], at_least=5.0))


def measure_growth(folder: Path) -> list[Measurement]:
    """One flat row a strategy and size: nanoseconds a row with a full budget (least of 3), and bytes of the state."""
    rows = in_precision(read_problem(folder, PROBLEM)[0], "float32")
    sizes = [(budget, PROBLEM.n_inputs) for budget in (50, 100, 200, 400, 800, 1600)] + [(100, 6), (100, 24)]
    measurements = []
    for name, strategy in STRATEGIES.items():
        for budget, n_inputs in sizes:
            narrow = Rows(np.ascontiguousarray(rows.inputs[:, :n_inputs]), rows.targets)
            learner = BudgetLearner(Gaussian(0.7 * n_inputs**0.5), strategy, "binary", n_inputs, budget)
            state = learner.learn(learner.start(), Rows(narrow.inputs[:16384], narrow.targets[:16384]))
            assert state.n_supports == budget
            seconds = []
            for _ in range(3):
                start = perf_counter()
                after = learner.learn(state, Rows(narrow.inputs[:65536], narrow.targets[:65536]))
                seconds.append(perf_counter() - start)
            share = (after.progress.updates - state.progress.updates) / 65536
            row = {"part": "growth", "name": name, "budget": budget, "n_inputs": n_inputs, "updates_per_row": share}
            row |= {"ns_per_row": min(seconds) / 65536 * 1e9, "state_bytes": len(pickle.dumps(state))}
            measurements.append(row)
    return measurements


def show_growth(measurements: list[Measurement]) -> None:
    """Print the measurements of `measure_growth`."""
    print(f"\n{'':20} budget inputs  ns a row  updates  state bytes")
    for row in measurements:
        sizes = f"{row['name']:20}{row['budget']:7}{row['n_inputs']:7}"
        print(f"{sizes}{row['ns_per_row']:10.0f}{row['updates_per_row']:9.2f}{row['state_bytes']:13,}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of NAME.parquet")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for idle cores")
    parser.add_argument("--json", type=Path, help="file for the measurements")
    parser.add_argument("--growth", action="store_true", help="also time against budget and inputs")
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
