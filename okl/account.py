"""What a training run has come to, as the plain dict that `okl train --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from okl import extensions
from okl.certificates import Proof, excess_proof, regret_proof, tracking_proof
from okl.checkpoints.keeper import RunKeeper
from okl.configuration import TrainSettings
from okl.constraintresults import constraint_figures
from okl.curve import LearningCurve
from okl.evaluation import ConstantPredictor, predictor_tallies
from okl.execution.protocol import Execution, Traffic
from okl.learning import Learnt
from okl.online.constraints.grammar import parse_constraints
from okl.online.constraints.measuring import measure_constraints
from okl.online.solver import OnlineSolver
from okl.planning import mode_of
from okl.planning.memory import MemoryPlan
from okl.predictors import Predictor
from okl.progress import Observer
from okl.provenance import peak_memory_bytes, provenance
from okl.results import Tallies, describe_data, figures, how_it_went
from okl.runfolder import RunFolder
from okl.store.dataset import Dataset, Shard
from okl.store.model import Model
from okl.store.publishing import PublishedFolder

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
        if used := extensions.origins(settings.solver, settings.loss, settings.map):
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
