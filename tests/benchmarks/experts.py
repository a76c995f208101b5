"""Learning without tuning against the tables of Lu et al.: `python -m tests.benchmarks.experts --data FOLDER`.

For each data set, as it comes and standardised, in one pass over each of five seeded orders, at the paper's number of
frequencies: the progressive error of the expert learner; the best row of Tables 5, 7 and 9; the best of 6 bandwidths x
8 step sizes of FOGD in hindsight, by the mean over the same orders and draws; and the time of the expert learner in
passes of FOGD at the paper's setting, measured in turns, on one thread and on two.

Source: Lu et al., JMLR 17(47), 2016, Tables 5, 7 and 9.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from okl.data.execution import Rows
from okl.features.bandwidth import median_distance
from okl.features.fourier import draw_fourier_map
from okl.foundation.errors import DivergedError
from okl.foundation.types import FloatArray, Task
from okl.kernels import Gaussian
from okl.losses import DEFAULT_LOSS, Loss, make_loss
from okl.papers.base import DataFolder, read_printed
from okl.papers.lu2016.tables import PACKAGE, LuDataset, Sizes, datasets_of
from okl.solvers.online.linear import LinearLearner, Weights
from okl.solvers.online.step_size_experts import ExpertLearner, Experts, draw_candidates, race_schedule

TABLES = {"binary": 5, "multiclass": 7, "regression": 9}
BANDWIDTH, EPSILON = 8.0, 0.1
PAPER_STEPS: dict[Task, float] = {"binary": 0.002, "multiclass": 0.005, "regression": 0.0006}  # of FOGD's own map
DATASETS = {
    "binary": ("german", "spambase", "w7a", "a9a", "ijcnn1"),
    "multiclass": ("dna", "mnist", "satimage", "letter", "covtype"),
    "regression": ("housing", "mg", "abalone", "parkinsons", "cadata"),
}
BUDGETS = {"binary": Sizes.of(100), "multiclass": Sizes.of(100), "regression": Sizes.of(30, rho_f=15.0)}
LARGE_BUDGETS = dict.fromkeys(("dna", "mnist", "satimage"), Sizes.of(200))
GRID_BANDWIDTHS = tuple(2.0**k for k in range(-3, 3))  # times the median distance
GRID_STEPS: dict[Task, tuple[float, ...]] = {
    "binary": tuple(4.0**k for k in range(-2, 6)),
    "multiclass": tuple(4.0**k for k in range(-2, 6)),
    "regression": tuple(2.0**k for k in range(-7, 1)),
}
SAMPLE_ROWS = 4096
REPEATS, SECONDS = 9, 1.5  # of a timing: at most and at least
MOST_COST = {True: 2.5, False: 4.0}  # from 20,000 rows on, below


def best_row(name: str, task: Task) -> tuple[float, str]:
    """Return the least error that the paper prints for a data set, with or without a budget, and its algorithm."""
    printed = read_printed(PACKAGE, f"table{TABLES[task]}.csv")
    errors = {
        algorithm: quantity.paper_mean
        for (dataset, algorithm, metric), quantity in printed.items()
        if dataset == name and metric != "time_seconds" and quantity.paper_mean is not None
    }
    best = min(errors, key=lambda algorithm: errors[algorithm])
    return errors[best], best


class Bench:
    """Rows of a case with one scaling, and the two learners."""

    def __init__(self, case: LuDataset, rows: Rows, n_threads: int) -> None:
        self.case, self.rows, self.n_threads = case, rows, n_threads
        self.n_frequencies = LARGE_BUDGETS.get(case.printed, BUDGETS[case.task]).n_frequencies
        self.n_rows, self.n_inputs = rows.inputs.shape
        self.n_outputs = int(rows.targets.max()) + 1 if case.task == "multiclass" else 1
        self.loss: Loss = make_loss(DEFAULT_LOSS[case.task], EPSILON)

    def ordered(self, seed: int) -> Rows:
        """Return the rows in a seeded order."""
        order = np.random.default_rng(seed).permutation(self.n_rows)
        return Rows(self.rows.inputs[order], self.rows.targets[order])

    def sample(self, seed: int) -> FloatArray:
        """Return inputs of random rows, drawn as in `okl train` before training."""
        chosen = np.random.default_rng((seed, 1)).permutation(self.n_rows)[:SAMPLE_ROWS]
        return self.rows.inputs[chosen]

    def experts(self, seed: int) -> ExpertLearner:
        """Return the learner without tuned settings."""
        candidates = draw_candidates(self.sample(seed), self.n_frequencies, seed)
        return ExpertLearner(candidates, self.loss, self.n_outputs, race_schedule(self.n_rows))

    def fogd(self, seed: int, bandwidth: float, step_size: float) -> LinearLearner:
        """Return the learner of one pair of the grid."""
        drawn = draw_fourier_map(Gaussian(bandwidth), self.n_inputs, self.n_frequencies, seed)
        return LinearLearner(drawn, self.loss, step_size, self.n_outputs, average=False)

    def expert_error(self, seed: int) -> float:
        """Return the progressive error of one pass."""
        learner = self.experts(seed)
        return learner.learn(learner.start(), self.ordered(seed), self.n_threads).progress.error

    def grid_errors(self, seed: int) -> NDArray[np.float64]:
        """Return progressive errors (bandwidths, step sizes) of one pass each; infinite if the pass diverges."""
        rows, median = self.ordered(seed), median_distance(self.sample(seed))
        steps = GRID_STEPS[self.case.task]
        errors = np.full((len(GRID_BANDWIDTHS), len(steps)), np.inf)
        for b, factor in enumerate(GRID_BANDWIDTHS):
            learner = self.fogd(seed, factor * median, 1.0)
            for s, step in enumerate(steps):
                try:
                    stepper = replace(learner, step_size=step)
                    errors[b, s] = stepper.learn(stepper.start(), rows, self.n_threads).progress.error
                except DivergedError:
                    continue
        return errors

    def cost(self, n_threads: int) -> float:
        """Return seconds of the expert learner over those of FOGD at the paper's setting, least of several turns."""
        rows, experts = self.ordered(0), self.experts(0)
        fogd = self.fogd(0, BANDWIDTH, PAPER_STEPS[self.case.task] * self.n_frequencies)

        def learn_experts() -> Experts:
            return experts.learn(experts.start(), rows, n_threads)

        def learn_fogd() -> Weights:
            return fogd.learn(fogd.start(), rows, n_threads)

        learn_experts(), learn_fogd()
        start = time.perf_counter()
        times: list[tuple[float, float]] = []
        while len(times) < 3 or (len(times) < REPEATS and time.perf_counter() - start < SECONDS):
            times.append((_seconds(learn_experts), _seconds(learn_fogd)))
        return min(first for first, _ in times) / min(second for _, second in times)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def standardised(rows: Rows) -> Rows:
    """Return columns of mean 0 and deviation 1; constant columns become 0."""
    inputs = rows.inputs.astype(np.float64)
    deviations = inputs.std(axis=0)
    scaled = (inputs - inputs.mean(axis=0)) / np.where(deviations > 0, deviations, np.inf)
    return Rows(scaled.astype(rows.inputs.dtype), rows.targets)


def line(bench: Bench, scaling: str, n_orders: int, grid: bool, timed: bool) -> str:
    """Return a row of the table."""
    case = bench.case
    best, best_algorithm = best_row(case.printed, case.task)
    error = fmean(bench.expert_error(seed) for seed in range(n_orders))
    text = f"{case.printed:<11}{scaling:<13}{bench.n_rows:>8,}{best:>9.5f} {best_algorithm:<13}{error:>9.5f} "
    text += f"{'yes' if error < best else 'NO':<6}"
    if grid:
        errors = np.mean([bench.grid_errors(seed) for seed in range(n_orders)], axis=0)
        b, s = np.unravel_index(int(errors.argmin()), errors.shape)
        pair = f"{GRID_BANDWIDTHS[b]:g} x {GRID_STEPS[case.task][s]:g}"
        text += f"{errors.min():>9.5f} {pair:<14}{error / errors.min():>6.3f}"
    if timed:
        costs = [bench.cost(n_threads) for n_threads in (1, 2)]
        limit = MOST_COST[bench.n_rows >= 20_000]
        text += f"{costs[0]:>8.2f}{costs[1]:>8.2f}{limit:>6.1f}"
    return text


def main() -> None:
    """Print the table, each line as soon as it is measured."""
    all_names = [name for names in DATASETS.values() for name in names]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of NAME.parquet")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--datasets", nargs="+", choices=all_names, default=all_names)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-grid", action="store_true", help="leave out the best pair in hindsight")
    parser.add_argument("--no-cost", action="store_true", help="leave out the timings")
    options = parser.parse_args()
    folder = DataFolder(str(options.data))
    print("Mistake rate, or squared loss of the scaled target; cost in passes of FOGD, on 1 and 2 threads.")
    head = f"{'data set':<11}{'inputs':<13}{'rows':>8}{'paper':>9} {'best row':<13}{'auto':>9} {'below':<6}"
    head += "" if options.no_grid else f"{'hindsight':>9} {'median x step':<14}{'ratio':>6}"
    print(head + ("" if options.no_cost else f"{'cost':>8}{'cost':>8}{'limit':>6}"))
    for task, names in DATASETS.items():
        cases = datasets_of(f"{task}_online")
        for case in (cases[name] for name in names if name in options.datasets):
            selection = case.selection(folder)
            if selection is None:
                print(f"{case.printed:<11}not in {options.data}")
                continue
            rows = folder.rows(selection, "float32")
            for scaling, scaled in (("raw", rows), ("standardised", standardised(rows))):
                bench = Bench(case, scaled, options.threads)
                print(line(bench, scaling, options.orders, not options.no_grid, not options.no_cost), flush=True)


if __name__ == "__main__":
    main()
