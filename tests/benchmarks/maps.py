"""Benefit of maps and landmarks: `python -m tests.benchmarks.maps --data FOLDER`, in kernel error and in mistakes.

Three tables. Draws: rows from N(0, I_16), 128 frequencies, 50 seeds; the root mean square error of z(x)'z(x') off the
diagonal, at sigma = the RMS distance of pairs and at half of it. Landmarks: rank 100, sigma = the median distance, 10
seeds; the part of the kernel matrix's trace that the Nystrom map leaves out, on at most 2,000 standardised rows of real
sets. Mistakes: one pass, sigma = half the median distance, the progressive mistake rate of the linear learner in each
map, mean of some orders, at the best of a few step sizes on one more order that is not reported.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from okl.data.execution import Rows
from okl.features.bandwidth import median_distance
from okl.features.base import FeatureMap
from okl.features.fourier import DRAWS
from okl.features.landmarks import Landmarks, choose_landmarks
from okl.features.nystrom import fit_nystrom_map
from okl.foundation.types import FloatArray, Task
from okl.kernels import Gaussian
from okl.losses import make_loss
from okl.solvers.online.linear import LinearLearner

N_INPUTS, N_FREQUENCIES, N_ROWS, DRAW_SEEDS = 16, 128, 200, 50
TARGETS = {
    ("orthogonal", 1.0): 0.5,
    ("quasi", 1.0): 0.4,
    ("structured", 1.0): 0.5,
    ("orthogonal", 0.5): 0.15,
    ("quasi", 0.5): 0.1,
}
METHODS: tuple[Landmarks, ...] = ("uniform", "kmeans", "rpcholesky")
TARGET_SETS: dict[Landmarks, int] = {"kmeans": 9, "rpcholesky": 8}
RANK, LANDMARK_SEEDS, TRACE_ROWS = 100, 10, 2000
SETS = ("german", "spambase", "a9a", "ijcnn1", "magic", "electricity", "dna", "satimage", "letter", "cadata", "abalone")
TRAINED_SETS: tuple[tuple[str, Task], ...] = (
    ("magic", "binary"),
    ("spambase", "binary"),
    ("ijcnn1", "binary"),
    ("satimage", "multiclass"),
    ("mnist", "multiclass"),
)
STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)
MOST_TRAINING_ROWS = 20_000
FREQUENCIES = (100, 400)
EXTRA_ORDER = 1000


def read_standardised(folder: Path, name: str, most: int) -> Rows:
    """Return at most `most` standardised rows, chosen with seed 0; two classes as -1 and +1, otherwise as stored."""
    table = pq.read_table(folder / f"{name}.parquet")
    names = [column for column in table.column_names if column not in ("y", "split")]
    inputs = np.column_stack([table[column].to_numpy() for column in names]).astype(np.float64)
    targets = table["y"].to_numpy().astype(np.float64)
    chosen = np.random.default_rng(0).permutation(len(targets))[:most]
    inputs, targets = inputs[chosen], targets[chosen]
    deviation = inputs.std(axis=0)
    inputs = np.ascontiguousarray((inputs - inputs.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))
    labels, classes = np.unique(targets, return_inverse=True)
    if len(labels) == 2:
        return Rows(inputs, np.where(classes == 1, 1.0, -1.0))
    return Rows(inputs, classes.astype(np.float64))


def draw_errors() -> Iterator[str]:
    """Yield the kernel error of each draw, and how far it is below that of independent frequencies."""
    rows = np.random.default_rng(7).standard_normal((N_ROWS, N_INPUTS))
    others = ~np.eye(N_ROWS, dtype=bool)
    squares = -2.0 * np.log(Gaussian(1.0).matrix(rows, rows))
    rms = float(np.sqrt(squares[others].mean()))
    yield f"{'sigma':<16}{'draw':<13}{'rms error':>10}{'below':>8}{'wanted':>8}  met"
    for share in (1.0, 0.5):
        kernel = Gaussian(share * rms)
        exact, base = kernel.matrix(rows, rows)[others], 0.0
        for name, draw in DRAWS.items():
            errors = []
            for seed in range(DRAW_SEEDS):
                features = draw(kernel, N_INPUTS, N_FREQUENCIES, seed, "float64").transform(rows)
                errors.append(float(np.mean(((features @ features.T)[others] - exact) ** 2)))
            error = float(np.sqrt(np.mean(errors)))
            base = base or error
            target = TARGETS.get((name, share))
            is_met = "" if target is None else "yes" if 1 - error / base >= target else "NO"
            bound = "" if target is None else f"{target:.0%}"
            yield f"{f'{share:g} x {rms:.3f}':<16}{name:<13}{error:>10.5f}{1 - error / base:>8.1%}{bound:>8}  {is_met}"


def trace_error(kernel: Gaussian, rows: FloatArray, landmarks: FloatArray) -> float:
    """Return the part of the trace of the kernel matrix that the map of these landmarks misses."""
    features = fit_nystrom_map(kernel, landmarks, len(landmarks), "float64").transform(rows)
    return 1.0 - float(np.sum(features**2)) / len(rows)


def landmark_errors(folder: Path) -> Iterator[str]:
    """Yield the trace error of each choice of landmarks on each set."""
    yield f"{'data set':<13}{'rows':>6}{'inputs':>7}{'sigma':>8}" + "".join(f"{method:>12}" for method in METHODS)
    below = dict.fromkeys(TARGET_SETS, 0)
    for name in SETS:
        rows = read_standardised(folder, name, TRACE_ROWS).inputs
        kernel = Gaussian(median_distance(rows))
        errors = {
            method: float(
                np.mean(
                    [
                        trace_error(kernel, rows, choose_landmarks(kernel, rows, RANK, method, seed))
                        for seed in range(LANDMARK_SEEDS)
                    ]
                )
            )
            for method in METHODS
        }
        for method in below:
            below[method] += errors[method] < errors["uniform"]
        line = f"{name:<13}{len(rows):>6}{rows.shape[1]:>7}{kernel.bandwidth:>8.3g}"
        yield line + "".join(f"{errors[method]:>12.5f}" for method in METHODS)
    for method, number in below.items():
        is_met = "yes" if number * 10 >= TARGET_SETS[method] * len(SETS) else "NO"
        yield f"{method} below uniform on {number} of {len(SETS)}; wanted {TARGET_SETS[method]} of 10: {is_met}"


Make = Callable[[Gaussian, FloatArray, int], FeatureMap]


def all_maps() -> dict[str, Make]:
    """Return functions that make each map of a kernel from rows and a seed."""

    def fourier(name: str, n_frequencies: int) -> Make:
        return lambda kernel, rows, seed: DRAWS[name](kernel, rows.shape[1], n_frequencies, seed)

    def nystrom(method: Landmarks) -> Make:
        return lambda kernel, rows, seed: fit_nystrom_map(
            kernel, choose_landmarks(kernel, rows, RANK, method, seed), RANK
        )

    fourier_maps = {f"{name} {number}": fourier(name, number) for number in FREQUENCIES for name in DRAWS}
    return fourier_maps | {f"nystrom {method}": nystrom(method) for method in METHODS}


def mistakes(rows: Rows, task: Task, feature_map: FeatureMap, step: float, seed: int) -> tuple[float, float]:
    """Return the progressive mistake rate of one pass in a seeded order, and its seconds."""
    order = np.random.default_rng(seed).permutation(len(rows.targets))
    n_outputs = int(rows.targets.max()) + 1 if task == "multiclass" else 1
    loss = make_loss("multiclass-hinge" if task == "multiclass" else "hinge")
    learner = LinearLearner(feature_map, loss, step, n_outputs, average=False)
    ordered = Rows(rows.inputs[order].astype(np.float32), rows.targets[order])
    start = time.perf_counter()
    error = learner.learn(learner.start(), ordered, 1).progress.error
    return error, time.perf_counter() - start


def mistake_rates(folder: Path, n_orders: int) -> Iterator[str]:
    """Yield mistakes in each map: Fourier maps of two sizes, Nystrom maps of 100 landmarks and rank 100."""
    yield f"{'data set':<10}{'rows':>7}{'map':>20}{'columns':>9}{'step':>6}{'mistakes':>10}{'sd':>8}{'rows/s':>11}"
    for name, task in TRAINED_SETS:
        rows = read_standardised(folder, name, MOST_TRAINING_ROWS)
        kernel = Gaussian(0.5 * median_distance(rows.inputs[:4096]))
        sample = rows.inputs[:4096].astype(np.float32)
        for label, make in all_maps().items():
            trial = make(kernel, sample, EXTRA_ORDER)
            step = min(STEPS, key=lambda step: mistakes(rows, task, trial, step, EXTRA_ORDER)[0])
            results = [mistakes(rows, task, make(kernel, sample, seed), step, seed) for seed in range(n_orders)]
            errors = [error for error, _ in results]
            speed = len(rows.targets) / min(seconds for _, seconds in results)
            yield (
                f"{name:<10}{len(rows.targets):>7}{label:>20}{trial.n_columns:>9}{step:>6g}{np.mean(errors):>10.4f}"
                f"{np.std(errors, ddof=1):>8.4f}{speed:>11,.0f}"
            )


def main() -> None:
    """Print the tables, each line as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of NAME.parquet")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=["draws", "landmarks", "mistakes"])
    options = parser.parse_args()
    tables = {
        "draws": draw_errors(),
        "landmarks": landmark_errors(options.data),
        "mistakes": mistake_rates(options.data, options.orders),
    }
    for name, lines in tables.items():
        if options.only is None or name in options.only:
            print(f"\n{name}")
            for line in lines:
                print(line, flush=True)


if __name__ == "__main__":
    main()
