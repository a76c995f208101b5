"""Training with constraints on a9a, whose columns f71 and f72 are the sex: violations, cost and speed.

    python -m tests.benchmarks.constrained [kept|rates|speed ...]

OKL_DATA names the folder that holds a9a.parquet. D = 400 frequencies, a ball of radius 30, one pass.

kept : |covariance| <= .01 with both columns. Limits: on ALL training rows, on test rows up to two standard errors more;
    test accuracy within 1 point of the certified best weights under the same limits; regret exponent at most .6
rates : |difference of positive rates| <= .02 on training rows, by a limit of the difference of mean scores found by
    bisection; prints the cost in accuracy, and that the limit of the covariance does not achieve it
speed : rows per second with 2, 10 and 20 constraints and of the learner in a ball. Limit: at most 2x slower at 2
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from okl.certificates.hindsight import HindsightProgress, read_all_rows, solve_within
from okl.data.dataset import Dataset
from okl.data.execution import Rows
from okl.data.ingest.run import ingest
from okl.data.reading import sample_rows
from okl.distributed.in_process import LocalExecution
from okl.features.fourier import draw_fourier_map
from okl.features.predictors import LinearPredictor
from okl.foundation.settings import IngestSettings, settings_from
from okl.kernels import Gaussian
from okl.losses import Hinge
from okl.runs.loop import TrainedSolver, run_loop
from okl.solvers.factory import training_columns
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.constraints import LinearLimits
from okl.solvers.online.linear import LinearLearner
from okl.solvers.settings import TrainSettings
from tests.rows import train
from tests.solver_cases import make_online_solver

RADIUS, BOUND, RATE = 30.0, 0.01, 0.02
COVARIANCES = (f"abs(covariance(f71)) <= {BOUND}", f"abs(covariance(f72)) <= {BOUND}")
DIFFERENCE = "difference(f71=1, f71=0)"
MOST_POINTS, MOST_GROWTH, MOST_SLOWER = 0.01, 0.6, 2.0
HALVINGS = 7


def settings_of(data: Path, scratch: Path, constraints: tuple[str, ...], **values: Any) -> TrainSettings:
    """Return the settings of a run on a9a."""
    name = str(len(list(scratch.iterdir())))
    options = {"data": str(data), "out": str(scratch / name), "radius": RADIUS, "constraints": constraints}
    return settings_from(TrainSettings, options | values, "benchmark")


def summary(result: dict[str, Any]) -> str:
    """Return the accuracies of a run and the values of its constraints as text."""
    lines = [f"accuracy train {result['train']['accuracy']:.4f} test {result['test']['accuracy']:.4f}"]
    for constraint in (result.get("constraints") or {}).get("limits", []):
        for split in ("train", "test"):
            measured = constraint[split]
            lines.append(
                f"  {constraint['constraint']}, {split}: {measured['value']:+.5f} +- {measured['standard_error']:.5f}; "
                f"positive rates differ by {measured['positive_rate_difference']:+.4f}"
            )
    return "\n".join(lines)


def kept(data: Path, scratch: Path) -> bool:
    """Check the constraints on both covariances, with the certificate."""
    settings = settings_of(data, scratch, COVARIANCES, certify=True)
    result = train(settings)
    print(summary(result))
    limits = result["constraints"]["limits"]
    on_all = all(abs(limit["train"]["value"]) <= BOUND for limit in limits)
    on_test = all(abs(limit["test"]["value"]) <= BOUND + 2 * limit["test"]["standard_error"] for limit in limits)
    proof = result["certificate"]
    comparator = proof["comparator"]
    for limit in proof["horizons"]:
        print(f"  {limit['rows']:6d} rows: regret {limit['regret']:8.1f}, bound {limit['bound']:8.1f}")
    print(f"regret grows as rows^{proof['growth_exponent']:.3f}; comparator within {comparator['relative_gap']:.2%}")
    print(f"violation a row {result['constraints']['violation_a_row']:.2e}, as learnt "
          f"{result['constraints']['violation_as_learnt']:.2e}")  # fmt: skip
    best = optimum(settings)
    print(f"certified optimum under the same limits: accuracy train {best[0]:.4f} test {best[1]:.4f}")
    is_near_optimum = (
        result["test"]["accuracy"] >= best[1] - MOST_POINTS and result["train"]["accuracy"] >= best[0] - MOST_POINTS
    )
    unconstrained = train(settings_of(data, scratch, ("norm <= 30",)))
    print("without constraints:", summary(unconstrained))
    return report("kept", on_all and on_test and is_near_optimum and proof["growth_exponent"] <= MOST_GROWTH)


def optimum(settings: TrainSettings) -> tuple[float, float]:
    """Return accuracies on training and test rows of the certified best weights that satisfy the constraints."""
    trained, data, execution = run(settings)
    with execution:
        learner = trained.state.learner
        rows = read_all_rows(learner, trained.state, data, execution, HindsightProgress())
        assert rows is not None
        solution = solve_within(rows.between(0, data.rows("train")), "hinge", learner.kept)
        print(f"optimum: relative gap {solution.certificate.relative_gap:.2%}, {solution.iterations} iterations")
        predictor = LinearPredictor(learner.feature_map, solution.weights[None, :].astype(np.float32))
        return accuracy(predictor, data, "train"), accuracy(predictor, data, "test")


def run(settings: TrainSettings) -> tuple[TrainedSolver, Dataset, LocalExecution]:
    """Train without the other stages of a run."""
    from okl.data.manifest import open_dataset

    data = training_columns(settings, open_dataset(settings.data))
    solver, execution = make_online_solver(settings, data), LocalExecution(2)
    return run_loop(solver, solver.start(data, execution), data, execution), data, execution


def accuracy(predictor: LinearPredictor, data: Dataset, split: Any) -> float:
    """Return the share of rows classified correctly."""
    rows = sample_rows(data, split, data.rows(split), 0, "float32")
    return float(np.mean((predictor.scores(rows.inputs, 2) >= 0) == (rows.targets > 0)))


def rates(data: Path, scratch: Path) -> bool:
    """Bisect the bound on the difference of mean scores until the difference of positive rates is small."""
    before = train(settings_of(data, scratch, COVARIANCES[:1]))
    rate = before["constraints"]["limits"][0]["train"]["positive_rate_difference"]
    print(f"by the covariance alone positive rates differ by {rate:+.4f}:\n{summary(before)}")
    low, high, result = -0.5, 2.0, before
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        result = train(settings_of(data, scratch, (f"{middle - 0.005} <= {DIFFERENCE} <= {middle + 0.005}",)))
        rate = result["constraints"]["limits"][0]["train"]["positive_rate_difference"]
        print(f"  mean scores {middle:+.4f} apart: positive rates {rate:+.4f}, test {result['test']['accuracy']:.4f}")
        if abs(rate) <= RATE:
            break
        low, high = (middle, high) if rate < 0 else (low, middle)
    print(f"{summary(result)}\nprice: {100 * (before['test']['accuracy'] - result['test']['accuracy']):.2f} points")
    return report("rates", abs(rate) <= RATE)


def speed(data: Path, scratch: Path) -> bool:
    """Print medians over turns; rows are in memory, so reading is not timed."""
    from okl.data.manifest import open_dataset

    rows = sample_rows(open_dataset(data), "train", 32768, 0, "float32")
    feature_map = draw_fourier_map(Gaussian(3.7), rows.inputs.shape[1], 400, 0)
    plain = LinearLearner(feature_map, Hinge(), RADIUS / np.sqrt(2), radius=RADIUS, decaying=True)
    features = feature_map.transform(rows.inputs[:4096]).astype(np.float64)
    learners: dict[int, LinearLearner] = {0: plain}
    for count in (2, 10, 20):
        weights = rows.inputs[:4096, 60 : 60 + count].astype(np.float64)
        matrix = (weights - weights.mean(axis=0)).T @ features / len(features)
        bounds = np.full(count, BOUND)
        names = tuple(map(str, range(count)))
        learners[count] = ConstrainedLearner(
            feature_map,
            Hinge(),
            RADIUS / np.sqrt(2),
            decaying=True,
            limits=LinearLimits(matrix, -bounds, bounds, names, RADIUS),
        )
    seconds: dict[int, list[float]] = {count: [] for count in learners}
    for turn in range(6):
        for count, learner in learners.items():
            start = time.perf_counter()
            learner.learn(learner.start(), Rows(rows.inputs, rows.targets), 2)
            if turn:
                seconds[count].append(time.perf_counter() - start)
    medians = {count: float(np.median(values)) for count, values in seconds.items()}
    for count, median in medians.items():
        print(
            f"{count:3d} constraints: {len(rows.targets) / median:10,.0f} rows/s, "
            f"{median / medians[0]:.2f} times as long"
        )
    return report("speed", medians[2] <= MOST_SLOWER * medians[0])


def report(name: str, passed: bool) -> bool:
    """Print whether a part has passed."""
    print(f"{name}: {'every limit is kept' if passed else 'A LIMIT IS BROKEN'}\n", flush=True)
    return passed


def main(parts: list[str]) -> None:
    """Run the named parts, or all."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "runs"
        scratch.mkdir()
        data = ingest(
            Path(os.environ["OKL_DATA"]) / "a9a.parquet", Path(folder) / "a9a", IngestSettings(keys=("f71", "f72"))
        ).dataset.folder
        for name in parts or ["kept", "rates", "speed"]:
            {"kept": kept, "rates": rates, "speed": speed}[name](Path(data), scratch)


if __name__ == "__main__":
    main(sys.argv[1:])
