"""What a training run is remembered by: figures of each predictor, the proof, and where the data came from, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.certificates import Proof, gap_proof
from okl.evaluation import learnt_unit
from okl.learning import Learnt, progressive_metric
from okl.metrics import Tally
from okl.recipes import Certified
from okl.solvers import Standing
from okl.store.dataset import Dataset, Schema
from okl.store.places import Place
from okl.store.wording import scalars

Tallies = Mapping[str, Mapping[str, Tally] | None]
"""Of each split the tallies by the predictors' names; None for a split without rows."""


def split_metrics(schema: Schema, tallies: Tallies, split: str, name: str) -> dict[str, Any] | None:
    """Metrics of a predictor on a split; None if it was not measured there."""
    of_split = tallies[split]
    if of_split is None or name not in of_split:
        return None
    report = learnt_unit(schema, of_split[name].report())
    # matrices and histograms are drawn of the model only
    return report if name == "model" else scalars(report)


def figures(
    schema: Schema, tallies: Tallies, name: str, learnt: Learnt, of_baseline: bool = False
) -> dict[str, dict[str, Any] | None]:
    """Metrics of a predictor while it was learnt, on the train rows and on the test rows.

    of_baseline : of the majority class or the mean, whose errors are counted beside those of learnt
    """
    standing, progressive = learnt.standing, None
    if isinstance(standing, Standing):
        error = standing.baseline_error if of_baseline else standing.error
        progressive = {progressive_metric(schema.task): error}
    measured = {split: split_metrics(schema, tallies, split, name) for split in ("train", "test")}
    return {"progressive": progressive, **measured}


def how_it_went(learnt: Learnt, regret: Proof | None) -> dict[str, Any]:
    """The curve of an online run and its windows; how another one converged; and the certificate, if there is one."""
    points = learnt.curve.points()
    if isinstance(learnt.solver, Certified):
        return {"convergence": points, "certificate": gap_proof(learnt.solver, learnt.state).as_json()}
    watched = learnt.watch.as_json() if learnt.watch else {}
    return {"curve": points} | watched | ({"certificate": regret.as_json()} if regret else {})


def describe_data(data: Dataset, folder: Place) -> dict[str, Any]:
    """The data set of a run, and the folder where it is to be found."""
    schema = data.schema
    return {
        "folder": str(folder),
        "sha256": data.sha256,
        "task": schema.task,
        "target": schema.target,
        "labels": list(schema.labels),
        "class_counts": list(schema.class_counts),
        "features": schema.n_features,
        "train_rows": data.rows("train"),
        "test_rows": data.rows("test"),
        "scale": schema.scale,
        "warnings": list(data.warnings),
    }


def flat_figures(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One flat row a figure of a run's result: predictor, split, metric, value."""
    sources = {"model": result, **result["baselines"]}
    return [
        {"predictor": name, "split": split, "metric": metric, "value": value}
        for name, source in sources.items()
        for split in ("progressive", "train", "test")
        for metric, value in ((source or {}).get(split) or {}).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
