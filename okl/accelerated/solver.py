"""Every classification model as a solver over shards: out of core, in one process or on workers, with the same bits."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from okl.accelerated.fapg import Fapg
from okl.accelerated.sharded.problems import OneClass, Standpoint
from okl.accelerated.sharded.prototype import Classes
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.task import Task
from okl.accelerated.sharded.thresholds import error_minimising_threshold
from okl.accelerated.sharded.warm import Warm
from okl.accelerated.solverstate import AcceleratedState, Solved
from okl.accelerated.stochastic import StochasticStart
from okl.compiled.door import one_blas_thread
from okl.errors import ConfigError
from okl.execution.protocol import Execution
from okl.features.protocol import FeatureMap
from okl.predictors import LinearPredictor, Predictor
from okl.solvers import Convergence, Outcome
from okl.store.dataset import Dataset, Schema
from okl.store.reading import sample_rows
from okl.types import FloatArray, Precision

SAMPLE_ROWS = 4096
Bias = Literal["own", "errors"]


class MapChoice(Protocol):
    """What becomes a feature map once a sample of the data has been seen."""

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]: ...


@dataclass(frozen=True)
class AcceleratedSolver:
    """Solve a model to a certified duality gap; several classes one after the other, each against the rest.

    Parameters
    ----------
    task : which model, with which parameter
    maps : which feature map
    class_weights : of each class, in the order of the labels, None for all 1; rows keep theirs among the rest, too
    bias : "own", or "errors" for the one whose training errors weigh least
    method : the accelerated method, and when it stops
    seed, precision : of the map
    scratch : folder for what brings back a dead worker's vectors, which all workers see; None: it is computed again
    stochastic : where every class begins; None: at the model's own point
    """

    task: Task
    maps: MapChoice
    class_weights: tuple[float, ...] | None = None
    bias: Bias = "own"
    method: Fapg = field(default_factory=Fapg)
    seed: int = 0
    precision: Precision = "float32"
    scratch: Path | None = None
    stochastic: StochasticStart | None = None

    mode = "sum"

    def check(self, schema: Schema) -> None:
        """Refuse what can be known without reading rows.

        Raises
        ------
        ConfigError : not a classification, or a parameter outside its valid range for these classes
        DataError : a class without rows
        """
        if schema.task == "regression":
            raise ConfigError(
                f"The solver {self.task.name} tells classes apart, but {schema.target!r} makes this a regression. "
                "Choose another solver, such as fogd, or ingest with --task binary."
            )
        if not schema.class_counts:  # of a source that was not read yet
            self.task.model(np.inf)
            return
        schema.refuse_empty_classes()
        for one in self._classes(schema):
            one.check()

    @one_blas_thread()  # bits depend on the number of threads
    def start(self, data: Dataset, execution: Execution, warm: LinearPredictor | None = None) -> AcceleratedState:
        """Draw the map, and bring the shards to the first point of the first class.

        warm : a solution of the same model for other rows, whose map is kept; see okl.accelerated.sharded.warm

        Raises
        ------
        ConfigError, DataError : what `check` raises, and a kappa above what the rows allow
        """
        self.check(data.schema)
        if warm is None:
            sample = sample_rows(data, "train", SAMPLE_ROWS, self.seed, self.precision)
            feature_map, chosen = self.maps.draw(data.schema, sample.inputs, self.seed, self.precision)
        else:
            feature_map, chosen = warm.feature_map, {"map": "kept", "map_reason": "that of the solution begun from"}
        rows = MappedRows(data, feature_map, secrets.token_hex(8))
        state = AcceleratedState(rows, chosen, (), None, warm=_warm_classes(warm))
        return replace(state, current=self._begin(state, data, execution))

    def advance(self, state: AcceleratedState, data: Dataset, execution: Execution) -> AcceleratedState:
        """Go on to the next check of the class in work, or to the next class.

        Raises
        ------
        ConfigError : a nu so small that the best weights are all 0
        """
        assert state.current is not None, "there is a class in work"
        any_value = self._classes(data.schema)[len(state.solved)]
        one = any_value.at(state.current.value)
        current = one.advance(state.current, self.method, execution)
        outcome = self.method.finished(current.fapg)
        larger = any_value.larger(current, over=outcome is not None)
        if larger is not None:
            return replace(state, current=larger.begin(state.rows, self.method, execution))
        if outcome is None or outcome.kind == "diverged":
            return replace(state, current=current)
        state = replace(state, solved=(*state.solved, self._solved(state, one, current, outcome, execution)))
        return replace(state, current=self._begin(state, data, execution))

    def finished(self, state: AcceleratedState) -> Outcome | None:
        """Done after the last class; diverged as soon as one is."""
        if state.current is not None:
            outcome = self.method.finished(state.current.fapg)
            return outcome if outcome is not None and outcome.kind == "diverged" else None
        outcomes = [one.outcome for one in state.solved]
        worst = next((outcome for outcome in outcomes if outcome.kind != "done"), outcomes[-1])
        return Outcome(worst.kind, "; ".join(dict.fromkeys(outcome.reason for outcome in outcomes)))

    def standing(self, state: AcceleratedState) -> Convergence:
        """Iterations, the gap and the objectives of the class that was worked on last."""
        last = state.solved[-1].fapg if state.current is None else state.current.fapg
        record = last.history[-1]
        gap = record.certificate.relative_gap
        return Convergence(state.iterations, gap, record.certificate.primal, record.certificate.dual)

    def predictor(self, state: AcceleratedState) -> Predictor:
        """The map with the weights and biases of all classes."""
        weights = np.stack([one.weights for one in state.solved]).astype(self.precision)
        offsets = np.array([-one.bias for one in state.solved]).astype(self.precision)
        return LinearPredictor(state.rows.feature_map, weights, offsets)

    def chosen(self, state: AcceleratedState) -> dict[str, Any]:
        """The map's choices, the parameter, and what the method made of it."""
        values = [one.value for one in state.solved] or ([] if state.current is None else [state.current.value])
        parameter = self.task.parameter
        told: dict[str, Any] = {parameter: values[0] if len(values) == 1 else values}
        return state.chosen | told | {f"{parameter}_reason": self.task.reason}

    def certificate(self, state: AcceleratedState) -> dict[str, Any]:
        """The proof as JSON: of several classes gaps and objectives are added up, the relative gap is the largest."""
        proofs = [one.certificate for one in state.solved]
        return {
            "kind": "duality gap",
            "gap": sum(one.gap for one in proofs),
            "relative_gap": max(one.relative_gap for one in proofs),
            "objective": sum(one.primal for one in proofs),
            "dual_objective": sum(one.dual for one in proofs),
            "floor": sum(one.floor for one in proofs),
            "iterations": state.iterations,
            "outcome": "; ".join(dict.fromkeys(one.outcome.reason for one in state.solved)),
        }

    def _classes(self, schema: Schema) -> list[OneClass]:
        """One problem for two classes, otherwise one for each against the rest; rows keep their class's weight."""
        counts = schema.class_counts
        weights = self.class_weights or (1.0,) * len(counts)
        if schema.task == "binary":
            classes = Classes((counts[1], counts[0]), (weights[1], weights[0]))
            return [OneClass(self.task, classes, None, self.scratch, self.stochastic)]
        return [
            OneClass(self.task, _against_rest(index, counts, weights), index, self.scratch, self.stochastic)
            for index in range(len(counts))
        ]

    def _begin(self, state: AcceleratedState, data: Dataset, execution: Execution) -> Standpoint | None:
        classes = self._classes(data.schema)
        if len(state.solved) == len(classes):
            return None
        one = classes[len(state.solved)]
        if state.warm:
            one = replace(one, warm=state.warm[len(state.solved)])
        return one.begin(state.rows, self.method, execution)

    def _solved(
        self, state: AcceleratedState, one: OneClass, current: Standpoint, outcome: Outcome, execution: Execution
    ) -> Solved:
        weights, certificate = one.solution(current)
        if outcome.kind == "done":
            one.refuse_no_weights(certificate)
        bias = certificate.bias
        if self.bias == "errors":
            bias = error_minimising_threshold(execution, state.rows, weights, one.positive, one.classes.weights)
        return Solved(weights, bias, certificate, outcome, current.value, current.fapg)


def _against_rest(index: int, counts: tuple[int, ...], weights: tuple[float, ...]) -> Classes:
    """A class against all others, each row with the weight of its own class."""
    rest_counts, rest_weights = (tuple(np.delete(given, index).tolist()) for given in (counts, weights))
    if len(set(rest_weights)) == 1:
        return Classes((counts[index], sum(rest_counts)), (weights[index], rest_weights[0]))
    return Classes((counts[index], *rest_counts), (weights[index], *rest_weights))


def _warm_classes(warm: LinearPredictor | None) -> tuple[Warm, ...]:
    if warm is None:
        return ()
    offsets = np.zeros(warm.n_outputs) if warm.offsets is None else warm.offsets
    pairs = zip(warm.weights, offsets, strict=True)
    return tuple(Warm(weights.astype(np.float64), -float(offset)) for weights, offset in pairs)
