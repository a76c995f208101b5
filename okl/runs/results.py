"""Result of a training run as JSON: metrics, certificate, constraints, and the origin of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from okl.certificates.certify import Certification, excess_proof, gap_proof, regret_proof, tracking_proof
from okl.data.dataset import Dataset, Schema, Shard
from okl.data.executor import Execution, Traffic
from okl.data.manifest import peak_memory_bytes, provenance
from okl.features.predictors import Predictor
from okl.foundation import plugins
from okl.foundation.folders import PublishedFolder, RunFolder
from okl.foundation.locations import Place
from okl.foundation.telemetry import Observer
from okl.metrics.counts import Tally
from okl.models.file import Model
from okl.report.format import scalar_metrics
from okl.runs.checkpoint import RunCheckpoints
from okl.runs.evaluate import ConstantPredictor, in_scaled_unit, predictor_tallies
from okl.runs.loop import TrainedSolver, progressive_metric
from okl.solvers.base import CertifiedSolver, ConvergenceCurve, LearningCurve, SolverProgress
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.constraints import measure_constraints, parse_constraints
from okl.solvers.online.settings import FogdSettings, constraints_of
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.settings import TrainSettings
from okl.solvers.subgradient.settings import PegasosSettings

if TYPE_CHECKING:
    from okl.runs.plan import MemoryPlan

# Constraints

THEOREM = (
    "Rows were processed in sequence with fixed constraints: by Theorem 2 of Yi et al. (ICML 2021), the total "
    "violation grows at most as rows^(1/4), the regret as rows^(1/2)."
)
CONSTANT = (
    "Rows were processed in sequence with fixed constraints and a constant step: Lemma 1 of Yi et al. (ICML 2021) "
    "bounds the regret. Growth rates need a step size chosen by the number of rows (Theorem 1) or a decaying one."
)
BEYOND = (
    "The gain exceeds the largest value in the theorems of Yi et al. (ICML 2021): no bound is claimed for violation or "
    "regret."
)
NO_THEOREM = "No theorem applies: shards were trained separately, rows were repeated, or the constraints were updated."


def constraint_figures(
    trained: TrainedSolver, measured: Mapping[str, list[dict[str, Any]] | None], rows: int
) -> dict[str, Any]:
    """Return constraint values and violations of a run as JSON values; empty without constraints.

    measured : for each split, a dictionary for each constraint; rows : number of training rows
    """
    solver, state = trained.solver, trained.state
    if not isinstance(solver, OnlineSolver) or not isinstance(state.learner, ConstrainedLearner):
        return {}
    assert isinstance(trained.curve, LearningCurve)
    learner, exact = state.learner, solver.mode == "stream" and solver.passes == 1
    constraints, chosen = learner.kept, learner.chosen(state.learned)
    limits: list[dict[str, Any]] = [
        {
            "constraint": name,
            "low": float(low) if math.isfinite(low) else None,
            "high": float(high) if math.isfinite(high) else None,
            **{split: figures[index] for split, figures in measured.items() if figures is not None},
        }
        for index, (name, low, high) in enumerate(
            zip(constraints.names, constraints.low, constraints.high, strict=True)
        )
    ]
    return {
        "constraints": {
            "rows": rows,
            "radius": constraints.radius,
            "margin": float(constraints.margins.max()),
            "limits": limits,
            "met": all((limit["train"]["excess"] or 0.0) == 0.0 for limit in limits),
            "violation_a_row": chosen["violation_a_row"],
            "violation_as_learnt": chosen["violation_as_learnt"],
            "gain": learner.gain,
            "largest_gain": learner.largest_gain,
            "theorem": _theorem(learner, exact),
            "curve": trained.curve.violations(),
        }
    }


def _theorem(learner: ConstrainedLearner, exact: bool) -> str:
    """Return the sentence on the theorem that applies to a run."""
    if not learner.fixed or not exact:
        return NO_THEOREM
    if not learner.covered:
        return BEYOND
    return THEOREM if learner.decaying else CONSTANT


# Metrics of model and baselines, certificate, and origin of the data

Tallies = Mapping[str, Mapping[str, Tally] | None]
"""Tallies by split and name of the predictor; None for a split without rows."""


def split_metrics(schema: Schema, tallies: Tallies, split: str, name: str) -> dict[str, Any] | None:
    """Return the metrics of a predictor on a split; None if it was not evaluated there."""
    of_split = tallies[split]
    if of_split is None or name not in of_split:
        return None
    report = in_scaled_unit(schema, of_split[name].report())
    # matrices and histograms are drawn of the model only
    return report if name == "model" else scalar_metrics(report)


def predictor_metrics(
    schema: Schema, tallies: Tallies, name: str, trained: TrainedSolver, of_baseline: bool = False
) -> dict[str, dict[str, Any] | None]:
    """Return the metrics of a predictor during training, on training rows and on test rows.

    of_baseline : return those of the constant baseline during training, which `trained` also counts
    """
    progress, progressive = trained.progress, None
    if isinstance(progress, SolverProgress):
        error = progress.baseline_error if of_baseline else progress.error
        progressive = {progressive_metric(schema.task): error}
    measured = {split: split_metrics(schema, tallies, split, name) for split in ("train", "test")}
    return {"progressive": progressive, **measured}


def convergence_entries(trained: TrainedSolver, regret: Certification | None) -> dict[str, Any]:
    """Return learning curve and windows of an online run or convergence of another, and the certificate if any."""
    points = trained.curve.points()
    if isinstance(trained.curve, ConvergenceCurve):
        solver = trained.solver
        proof = gap_proof(solver, trained.state).as_json() if isinstance(solver, CertifiedSolver) else None
        return {"convergence": points} | ({} if proof is None else {"certificate": proof})
    watched = trained.watch.as_json() if trained.watch else {}
    return {"curve": points} | watched | ({"certificate": regret.as_json()} if regret else {})


def describe_data(data: Dataset, folder: Place) -> dict[str, Any]:
    """Return the description of a run's data set and its folder."""
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


def flat_metrics(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each metric of a result: predictor, split, metric, value."""
    sources = {"model": result, **result["baselines"]}
    return [
        {"predictor": name, "split": split, "metric": metric, "value": value}
        for name, source in sources.items()
        for split in ("progressive", "train", "test")
        for metric, value in ((source or {}).get(split) or {}).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]


# The result, as printed by `okl train --json`

GIVEN, CHOSEN_AUTOMATICALLY = "as given", "by the automatic choice"


@dataclass(eq=False)
class RunRecord:
    """Results of a run, filled in stage by stage.

    Parameters
    ----------
    place : folder of the run, during and after it
    choice : record of the automatic choice; empty without one
    proof : certificate of an online run, if requested
    linear : linear baseline; None if the model is linear
    tallies : tallies of model and baselines, by split
    kept_to : values of the constraints, by split
    traffic : network traffic of training
    weights_sha256 : digest of the saved weights
    """

    place: RunFolder | PublishedFolder
    choice: dict[str, Any] = field(default_factory=dict)
    proof: Certification | None = None
    data: Dataset = field(init=False)
    memory: MemoryPlan = field(init=False)
    learnt: TrainedSolver = field(init=False)
    linear: TrainedSolver | None = field(init=False)
    tallies: Tallies = field(init=False)
    kept_to: Mapping[str, list[dict[str, Any]] | None] = field(init=False)
    traffic: Traffic = field(init=False)
    weights_sha256: str = field(init=False)

    @property
    def chosen(self) -> dict[str, Any]:
        """Return the values that the solver used, with reasons; values of the automatic choice are not "as given"."""
        used = self.learnt.solver.chosen(self.learnt.state)
        return (
            used
            if not self.choice
            else {name: CHOSEN_AUTOMATICALLY if why == GIVEN else why for name, why in used.items()}
        )

    @property
    def constant(self) -> str:
        """Return the name of the constant baseline."""
        return "mean" if self.data.schema.task == "regression" else "majority"

    def measure(self, settings: TrainSettings, execution: Execution) -> None:
        """Evaluate model, constant and linear baseline on both splits, then the constraints."""
        model, linear, data = self.learnt.predictor, self.linear, self.data
        predictors: dict[str, Predictor] = {"model": model, self.constant: ConstantPredictor(data.schema)}
        if linear is not None:
            predictors["linear"] = linear.predictor
        splits: dict[str, tuple[Shard, ...]] = {"train": data.split("train"), "test": data.split("test")}
        self.tallies = {
            split: predictor_tallies(data, shards, predictors, settings.precision, execution) if shards else None
            for split, shards in splits.items()
        }
        constraints, _ = parse_constraints(constraints_of(settings.options))
        parts = (constraints, model, settings.precision, execution)
        self.kept_to = {
            split: measure_constraints(data, shards, *parts) if constraints and shards else None
            for split, shards in splits.items()
        }

    def prove(self, settings: TrainSettings, execution: Execution, observer: Observer) -> Certification:
        """Compute the certificate: regret of an online run, or the gap of Pegasos."""
        trained, data = self.learnt, self.data
        assert isinstance(trained.solver, OnlineSolver), (
            "check refuses to certify other solvers, which certify themselves"
        )
        assert isinstance(trained.curve, LearningCurve)
        standings = trained.curve.recorded()
        options = settings.options
        if isinstance(options, PegasosSettings):
            self.proof = excess_proof(trained.solver, trained.state, data, options.confidence, execution)
        elif isinstance(options, FogdSettings) and options.track:
            self.proof = tracking_proof(trained.solver, trained.state, standings, data, execution, observer)
        else:
            self.proof = regret_proof(trained.solver, trained.state, standings, data, execution, observer)
        return self.proof

    def model(self, settings: TrainSettings, processors: Sequence[str]) -> Model:
        """Return the model to save, with its provenance; processors : processor models that trained it."""
        origin = provenance(self.data, settings.seed) | {"processors": list(processors), "chosen": self.chosen}
        if used := plugins.origins(*settings.names):
            origin["extensions"] = used
        return Model(self.data.schema, self.learnt.predictor, settings.model_dump(mode="json"), origin)

    def as_json(self, settings: TrainSettings, keeper: RunCheckpoints, execution: Execution) -> dict[str, Any]:
        """Return the result; settings : settings of the run after the automatic choice."""
        trained, linear, schema, folder = self.learnt, self.linear, self.data.schema, self.place.folder
        rows = self.data.rows("train")
        baselines: dict[str, Any] = {
            self.constant: predictor_metrics(schema, self.tallies, self.constant, trained, True)
        }
        baselines["linear"] = linear and predictor_metrics(schema, self.tallies, "linear", linear)
        data_in_run = self.data.folder.parent == self.place.staging  # and moves with it
        return {
            "model": str(folder / "model"),
            "run": str(folder),
            "name": settings.name or folder.name,
            "rows": rows,
            "seconds": trained.seconds,
            "total_seconds": keeper.total_seconds(),
            "rows_per_second": self.rows_per_second(settings),
            "peak_memory_bytes": peak_memory_bytes(),
            "memory_plan": self.memory.as_json(),
            **predictor_metrics(schema, self.tallies, "model", trained),
            "baselines": baselines,
            "weights_sha256": self.weights_sha256,
            "mode": settings.training_mode,
            "workers": execution.n_workers,
            "resumed": keeper.resumed,
            "rounds": self.traffic.rounds,
            "bytes_sent": self.traffic.bytes_sent,
            "bytes_received": self.traffic.bytes_received,
            "chosen": self.chosen,
            **convergence_entries(trained, self.proof),
            **constraint_figures(trained, self.kept_to, rows),
            **({"choice": self.choice} if self.choice else {}),
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, folder / "data" if data_in_run else self.data.folder),
        }

    def rows_per_second(self, settings: TrainSettings) -> float:
        """Return the training rows of all passes divided by the seconds of training."""
        return self.data.rows("train") * settings.options.n_passes / max(self.learnt.seconds, 1e-9)
