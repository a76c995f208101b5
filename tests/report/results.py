"""Made-up results of runs with every key of a real result, as data for the tests of reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from okl.data.dataset import ColumnStatistics, Schema
from okl.foundation.types import Task
from okl.metrics.definitions import measure
from okl.report.blocks import Figure
from okl.report.format import scalar_metrics
from okl.report.training import training_page
from okl.runs.baselines import constant_scores

ROWS = 3000


def made_result(task: Task, labels: tuple[str, ...] = (), skill: float = 1.5, target: str = "y") -> dict[str, Any]:
    """Return a result as `okl train --json` prints it; with skill 0 the scores do not depend on the target."""
    rng = np.random.default_rng(0)
    n_classes = len(labels)
    if task == "regression":
        targets = 100.0 * rng.beta(2, 4, ROWS)
        scores = 33 + min(skill / 1.5, 1.0) * (targets - 33) + 5 * rng.normal(size=ROWS)
        linear = 0.5 * targets + 20 * rng.normal(size=ROWS)
    else:
        shares = 1.0 / np.arange(1, n_classes + 1)
        classes = rng.choice(n_classes, ROWS, p=shares / shares.sum())
        targets = np.asarray(2.0 * classes - 1.0 if task == "binary" else classes, dtype=np.float64)
        signal = targets if task == "binary" else 1.5 * np.eye(n_classes)[classes]
        shape = ROWS if task == "binary" else (ROWS, n_classes)
        scores, linear = (rng.normal(size=shape) + factor * signal for factor in (skill, 0.5))
    counts = tuple(int(count) for count in np.bincount(classes)) if n_classes else ()
    statistics = ColumnStatistics(ROWS, float(targets.mean()), 1.0, float(targets.min()), float(targets.max()))
    schema = Schema(("a",), target, task, labels=labels, class_counts=counts, target_statistics=statistics)
    bounds = (statistics.minimum, statistics.maximum)
    error = "squared_loss" if task == "regression" else "mistake_rate"
    constant = "mean" if task == "regression" else "majority"

    def figures_of(values: Any) -> dict[str, Any]:
        test = measure(task, values[:1000], targets[:1000], n_classes, bounds).report()
        train = measure(task, values[1000:], targets[1000:], n_classes, bounds).report()
        return {"progressive": {error: test[error] * 1.1}, "train": train, "test": test}

    model = figures_of(scores)
    return {
        "model": "/runs/first_run/model",
        "run": "/runs/first_run",
        "name": "first_run",
        "rows": 2000,
        "seconds": 1.2345,
        "total_seconds": 7.77,
        "rows_per_second": 2000 / 1.2345,
        "peak_memory_bytes": 345678901,
        **model,
        "baselines": {constant: figures_of(constant_scores(schema, ROWS)), "linear": figures_of(linear)},
        "weights_sha256": "0123456789abcdef" * 4,
        "mode": "stream",
        "chosen": {
            "bandwidth": 1.4567,
            "bandwidth_reason": "median distance of 1,000 sampled rows",
            "step_size": 0.8,
            "step_size_reason": "as given",
        },
        "curve": [
            [20 * i, 0.25 + 0.5 / i, 0.25 + 0.05 * np.sin(i).item() + 0.4 / i**2, 0.45 + 0.1 / i] for i in range(1, 101)
        ],
        "settings": {
            "kernel": "gaussian",
            "frequencies": 400,
            "passes": 1,
            "ingest": {"scale": "standard"},
            "out": None,
        },
        "dataset": {
            "folder": "/data/<set>",
            "sha256": "fedcba9876543210" * 4,
            "task": task,
            "target": target,
            "labels": list(labels),
            "class_counts": list(counts),
            "features": 54,
            "train_rows": 2000,
            "test_rows": 1000,
            "warnings": ["column 'a' is constant"],
        },
    }


def without_pictures(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without the data of its pictures: a report on it takes a thousandth of the time."""
    scalar_parts = {split: result[split] and scalar_metrics(result[split]) for split in ("train", "test")}
    return {name: value for name, value in result.items() if name != "curve"} | scalar_parts


def figures_of(result: dict[str, Any]) -> list[Figure]:
    """Return all figures of a report."""
    blocks = (block for section in training_page(result).sections for block in section.blocks)
    return [block for block in blocks if isinstance(block, Figure)]


def made_regret(sign: float = 1.0, vacuous: bool = True) -> dict[str, Any]:
    """Return a made-up certificate of regret: 7 T^.4 with a bound of 30 T^.5; sign : of the regret."""

    def horizon(rows: int) -> dict[str, Any]:
        loss, regret = 0.3 * rows, sign * 7.0 * rows**0.4
        comparator = {
            "objective": loss - regret,
            "dual_objective": 0.992 * (loss - regret),
            "relative_gap": 0.008,
            "radius": 12.5,
            "norm": 12.5,
            "iterations": 70,
            "reason": "relative duality gap 0.008",
        }
        return {
            "rows": rows,
            "loss": loss,
            "regret": regret,
            "regret_at_most": regret + 0.008 * (loss - regret),
            "average_regret": regret / rows,
            "bound": 30.0 * rows**0.5,
            "comparator": comparator,
        }

    horizons = [horizon(rows) for rows in (6_250, 12_500, 25_000, 50_000, 100_000)]
    kernel = {
        "theorem": "Lu et al., JMLR 17(47), 2016, Theorem 1",
        "bound": 4.5e7 if vacuous else 25_000.0,
        "epsilon": 1.5 if vacuous else 1e-3,
        "probability": 0.95,
        "l1_norm": 587.8,
        "vacuous": vacuous,
    }
    exponent = 0.4 if sign > 0 else None
    figures = {**horizons[-1], "horizons": horizons, "growth_exponent": exponent, "kernel_bound": kernel}
    return {"kind": "regret", "shown": True, "reason": "", **figures}
