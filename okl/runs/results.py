"""The result of a training run as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from okl.certificates.certify import Proof, excess_proof, gap_proof, regret_proof, tracking_proof
from okl.data.dataset import Dataset, Schema, Shard
from okl.data.executor import Execution, Traffic
from okl.data.manifest import peak_memory_bytes, provenance
from okl.features.predictors import Predictor
from okl.foundation import plugins
from okl.foundation.folders import PublishedFolder, RunFolder
from okl.foundation.locations import Place
from okl.foundation.settings import TrainSettings
from okl.foundation.telemetry import Observer
from okl.metrics.counts import Tally
from okl.models.file import Model
from okl.report.format import scalars
from okl.runs.checkpoint import RunKeeper
from okl.runs.evaluate import ConstantPredictor, learnt_unit, predictor_tallies
from okl.runs.loop import Learnt, progressive_metric
from okl.runs.plan import MemoryPlan, mode_of
from okl.solvers.base import LearningCurve, Standing
from okl.solvers.factory import Certified
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.constraints import measure_constraints, parse_constraints
from okl.solvers.online.solver import OnlineSolver

# What a run under constraints is remembered by, as JSON.

THEOREM = (
    "Rows came one after the other and the constraints stayed: Theorem 2 of Yi et al. (ICML 2021) bounds their sum by "
    "the rows to the power of 1/4, and the regret by their square root."
)
CONSTANT = (
    "Rows came one after the other, the constraints stayed and so did the step: Lemma 1 of Yi et al. (ICML 2021) "
    "bounds the regret; rates in the rows it gives to steps alone that are chosen by their number (Theorem 1) or decay."
)
BEYOND = (
    "The gain is above what the theorems of Yi et al. (ICML 2021) allow: no bound is claimed of violation or regret."
)
NO_THEOREM = (
    "Shards learnt apart, rows came again, or the constraints were refreshed: no theorem is claimed for their sum."
)


def constraint_figures(
    learnt: Learnt, measured: Mapping[str, list[dict[str, Any]] | None], rows: int
) -> dict[str, Any]:
    """What a run under constraints keeps to and was outside of on its way, as JSON; nothing for others.

    measured : of each split, a dict for each constraint; rows : training rows, all of which its rows come from
    """
    solver, state = learnt.solver, learnt.state
    if not isinstance(solver, OnlineSolver) or not isinstance(state.learner, ConstrainedLearner):
        return {}
    assert isinstance(learnt.curve, LearningCurve)
    learner, exact = state.learner, solver.mode == "stream" and solver.passes == 1
    kept, chosen = learner.kept, learner.chosen(state.learned)
    limits: list[dict[str, Any]] = [
        {
            "constraint": name,
            "low": float(low) if math.isfinite(low) else None,
            "high": float(high) if math.isfinite(high) else None,
            **{split: found[index] for split, found in measured.items() if found is not None},
        }
        for index, (name, low, high) in enumerate(zip(kept.names, kept.low, kept.high, strict=True))
    ]
    return {
        "constraints": {
            "rows": rows,
            "radius": kept.radius,
            "margin": float(kept.margins.max()),
            "limits": limits,
            "met": all((one["train"]["excess"] or 0.0) == 0.0 for one in limits),
            "violation_a_row": chosen["violation_a_row"],
            "violation_as_learnt": chosen["violation_as_learnt"],
            "gain": learner.gain,
            "largest_gain": learner.largest_gain,
            "theorem": _theorem(learner, exact),
            "curve": learnt.curve.violations(),
        }
    }


def _theorem(learner: ConstrainedLearner, exact: bool) -> str:
    """What is claimed of a run, in a sentence."""
    if not learner.fixed or not exact:
        return NO_THEOREM
    if not learner.covered:
        return BEYOND
    return THEOREM if learner.decaying else CONSTANT


# What a training run is remembered by: figures of each predictor, the proof, and where the data came from, as JSON.

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


# What a training run has come to, as the plain dict that `okl train --json` prints.

GIVEN, RACED = "as given", "by the race"


@dataclass(eq=False)
class Account:
    """Filled in stage by stage.

    place : where the run is made, and kept once it is complete
    choice : what a race chose and why, empty if there was none; proof : of an online run, if one was asked for
    linear : the linear model beside it, None for a model that is linear itself
    tallies : of each split the tallies of the model and of what it must beat; kept_to : of each split the constraints
    traffic : of learning the model; weights_sha256 : of the saved one
    """

    place: RunFolder | PublishedFolder
    choice: dict[str, Any] = field(default_factory=dict)
    proof: Proof | None = None
    data: Dataset = field(init=False)
    memory: MemoryPlan = field(init=False)
    learnt: Learnt = field(init=False)
    linear: Learnt | None = field(init=False)
    tallies: Tallies = field(init=False)
    kept_to: Mapping[str, list[dict[str, Any]] | None] = field(init=False)
    traffic: Traffic = field(init=False)
    weights_sha256: str = field(init=False)

    @property
    def chosen(self) -> dict[str, Any]:
        """What the solver used, each with its reason; what a race settled was given to the solver, but by nobody."""
        told = self.learnt.solver.chosen(self.learnt.state)
        return told if not self.choice else {name: RACED if why == GIVEN else why for name, why in told.items()}

    @property
    def constant(self) -> str:
        """Name of the predictor that knows the training targets only."""
        return "mean" if self.data.schema.task == "regression" else "majority"

    def measure(self, settings: TrainSettings, execution: Execution) -> None:
        """Go over both splits: the model, the majority or mean predictor, a linear model; then the constraints."""
        model, linear, data = self.learnt.predictor, self.linear, self.data
        predictors: dict[str, Predictor] = {"model": model, self.constant: ConstantPredictor(data.schema)}
        if linear is not None:
            predictors["linear"] = linear.predictor
        splits: dict[str, tuple[Shard, ...]] = {"train": data.split("train"), "test": data.split("test")}
        self.tallies = {
            split: predictor_tallies(data, shards, predictors, settings.precision, execution) if shards else None
            for split, shards in splits.items()
        }
        constraints, _ = parse_constraints(settings.constraints)
        parts = (constraints, model, settings.precision, execution)
        self.kept_to = {
            split: measure_constraints(data, shards, *parts) if constraints and shards else None
            for split, shards in splits.items()
        }

    def prove(self, settings: TrainSettings, execution: Execution, observer: Observer) -> Proof:
        """Prove what an online run lost to the best weights in hindsight, or how far Pegasos is from the optimum."""
        learnt, data = self.learnt, self.data
        assert isinstance(learnt.solver, OnlineSolver), "check refuses to certify others, which certify themselves"
        assert isinstance(learnt.curve, LearningCurve)
        standings = learnt.curve.known()
        if settings.solver == "pegasos":
            self.proof = excess_proof(learnt.solver, learnt.state, data, settings.confidence, execution)
        elif settings.track:
            self.proof = tracking_proof(learnt.solver, learnt.state, standings, data, execution, observer)
        else:
            self.proof = regret_proof(learnt.solver, learnt.state, standings, data, execution, observer)
        return self.proof

    def model(self, settings: TrainSettings, processors: Sequence[str]) -> Model:
        """What is saved: what scores rows, and how it came about. processors : kinds of them that learnt"""
        origin = provenance(self.data, settings.seed) | {"processors": list(processors), "chosen": self.chosen}
        if used := plugins.origins(settings.solver, settings.loss, settings.map):
            origin["extensions"] = used
        return Model(self.data.schema, self.learnt.predictor, settings.model_dump(mode="json"), origin)

    def as_json(self, settings: TrainSettings, keeper: RunKeeper, execution: Execution) -> dict[str, Any]:
        """The result.

        settings : of the run, once nothing is left open in them
        """
        learnt, linear, schema, folder = self.learnt, self.linear, self.data.schema, self.place.folder
        rows = self.data.rows("train")
        baselines: dict[str, Any] = {self.constant: figures(schema, self.tallies, self.constant, learnt, True)}
        baselines["linear"] = linear and figures(schema, self.tallies, "linear", linear)
        here = self.data.folder.parent == self.place.beside  # and moves with it
        return {
            "model": str(folder / "model"),
            "run": str(folder),
            "name": settings.name or folder.name,
            "rows": rows,
            "seconds": learnt.seconds,
            "total_seconds": keeper.total_seconds(),
            "rows_per_second": self.rows_per_second(settings),
            "peak_memory_bytes": peak_memory_bytes(),
            "memory_plan": self.memory.as_json(),
            **figures(schema, self.tallies, "model", learnt),
            "baselines": baselines,
            "weights_sha256": self.weights_sha256,
            "mode": mode_of(settings),
            "workers": execution.n_workers,
            "resumed": keeper.resumed,
            "rounds": self.traffic.rounds,
            "bytes_sent": self.traffic.bytes_sent,
            "bytes_received": self.traffic.bytes_received,
            "chosen": self.chosen,
            **how_it_went(learnt, self.proof),
            **constraint_figures(learnt, self.kept_to, rows),
            **({"choice": self.choice} if self.choice else {}),
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, folder / "data" if here else self.data.folder),
        }

    def rows_per_second(self, settings: TrainSettings) -> float:
        """Training rows of all passes by the seconds of learning."""
        return self.data.rows("train") * settings.passes / max(self.learnt.seconds, 1e-9)
