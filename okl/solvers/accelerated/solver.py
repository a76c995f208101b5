"""The accelerated solver over shards, with warm starts."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.data.reading import sample_rows
from okl.distributed.cache import resident
from okl.features.predictors import LinearPredictor, Predictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.solvers.accelerated import shards
from okl.solvers.accelerated.base import Certificate, Classifier, CompositeProblem, Solution
from okl.solvers.accelerated.certified_steps import NO_WEIGHTS
from okl.solvers.accelerated.choice import Chooser, MethodChoice, MethodState, RowSample, choose_method, method_of_state
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.fitting import ModelTask, distance_of_classes
from okl.solvers.accelerated.l1_newton import L1Newton, L1Work
from okl.solvers.accelerated.models.normconstrained import NormConstrained
from okl.solvers.accelerated.newton import Newton
from okl.solvers.accelerated.newton_problem import NewtonWork
from okl.solvers.accelerated.operators import ClassGroups, matrix_rows
from okl.solvers.accelerated.partitions import OpenPartition, PartitionedProblem, RunMemory, partitioned
from okl.solvers.base import Convergence, Outcome, SolverMap, reasons_of
from okl.solvers.worker_rounds import CommandLog, Rounds, WorkerState

SAMPLE_ROWS = 4096

# One class against another, or against the rest, over shards: its problem, start, continuation and solution.


@stored("one-class-state", renamed={"fapg": "method_state"})
@dataclass(frozen=True, eq=False)
class ClassState:
    """State of the solution of one class; a value.

    method_state : with points on the shards; log, carried, work : of a run over shards; minimax : a problem of moments
    """

    method_state: MethodState
    value: float
    log: CommandLog = field(default_factory=CommandLog)
    carried: RunMemory | None = None
    work: WorkerState | NewtonWork | None = None
    minimax: MinimaxProblem | None = None


@dataclass(frozen=True)
class ClassProblem:
    """A problem of two classes.

    task : which model; classes : rows and weights of their groups, +1 first
    positive : class that is +1, None where targets are -1 and +1; scratch : folder of checkpoints, or None
    warm : a solution for other rows to start from; None: start at the first point of the problem
    """

    task: ModelTask
    classes: ClassGroups
    positive: int | None
    scratch: Path | None
    warm: shards.WarmStart | None = None

    def check(self) -> None:
        """Raise ConfigError for a parameter that cannot be valid for classes of these sizes."""
        if self.task.kind.OF_MOMENTS:
            self.task.model()
        else:
            partitioned(self._prototype)

    @np.errstate(over="ignore", invalid="ignore")  # an end that is not finite has a message
    def begin(self, rows: shards.MappedRows, chooser: Chooser, execution: Execution) -> ClassState:
        """Return the state at the first point, with a check; ConfigError or DataError for these rows."""
        if self.task.kind.OF_MOMENTS:
            return self._begin_minimax(rows, chooser, execution)
        prototype = self._prototype
        sampled = None if rows.is_sparse else partial(_row_sample, rows)
        method = choose_method(chooser, prototype, rows.n_columns, rows.is_sparse, sampled)
        if isinstance(method, Newton | L1Newton):
            return self._begin_newton(rows, method, prototype, execution)
        opening = OpenPartition(rows, prototype, self.positive, len(self.classes.rows))
        work = WorkerState(secrets.token_hex(8), opening, self.scratch)
        rounds = Rounds(execution, rows.data.split("train"), work, CommandLog())
        assert isinstance(method, Fapg), "working sets are for kernels in memory"
        first = method.start(partitioned(prototype)(prototype, rounds).begun(rows.n_columns, self.warm))
        return ClassState(first, self._model.parameter, rounds.log, rounds.carried, work)

    @np.errstate(over="ignore", invalid="ignore")
    def advance(self, at: ClassState, chooser: Chooser, execution: Execution) -> ClassState:
        problem = self._problem(at, execution)
        advanced = method_of_state(chooser, at.method_state).advance(at.method_state, problem)
        if not isinstance(problem, PartitionedProblem):
            return replace(at, method_state=advanced)
        return replace(at, method_state=advanced, log=problem.rounds.log, carried=problem.rounds.carried)

    def solution(self, at: ClassState, chooser: Chooser, execution: Execution) -> Solution:
        found: Solution = method_of_state(chooser, at.method_state).solution(
            at.method_state, self._problem(at, execution)
        )
        return found

    def _begin_newton(
        self, rows: shards.MappedRows, method: Newton | L1Newton, prototype: CompositeProblem, execution: Execution
    ) -> ClassState:
        begun: list[ClassState] = []
        kind = L1Work if isinstance(method, L1Newton) else NewtonWork
        for warm in (None, self.warm) if self.warm is not None else (None,):
            name = secrets.token_hex(8)
            work = kind(rows, prototype, self.positive, len(self.classes.rows), name, warm)
            state: MethodState = method.start(work.problem(execution))
            begun.append(ClassState(state, self._model.parameter, work=work))
        return min(begun, key=lambda one: one.method_state.best_record.certificate.primal)

    def _problem(self, at: ClassState, execution: Execution) -> Any:
        if at.minimax is not None:
            return at.minimax
        if isinstance(at.work, NewtonWork):
            return at.work.problem(execution)
        assert at.work is not None, "the vectors are on the shards"
        opening: Any = at.work.opened
        rounds = Rounds(execution, opening.rows.data.split("train"), at.work, at.log, at.carried)
        prototype = self._prototype
        return partitioned(prototype)(prototype, rounds)

    def chosen(self, rows: shards.MappedRows, seed: int) -> ClassProblem:
        """Return the same problem with a parameter that a sample of the rows decides, if it is one of these."""
        if self.task.value is not None or self.task.kind.OF_MOMENTS:
            return self
        total = float(self.classes.totals.sum())
        value = self.task.kind.default_value(self._highest, total, lambda: self._distance(rows, seed))
        return self if value is None else self.at(value)

    def _distance(self, rows: shards.MappedRows, seed: int) -> float:
        sample = sample_rows(rows.data, "train", SAMPLE_ROWS, seed, rows.feature_map.precision)
        signs = shards.signs_of_class(sample.targets, self.positive)
        if len(np.unique(signs)) < 2:  # a class so rare that the sample has none of it: its distance is not known
            return 0.0
        return distance_of_classes(matrix_rows(rows.feature_map.transform(sample.inputs), signs))

    def at(self, value: float) -> ClassProblem:
        """Return the same problem with the parameter of a running state."""
        return replace(self, task=replace(self.task, value=value))

    def larger(self, at: ClassState, over: bool) -> ClassProblem | None:
        """Return the problem with a larger nu, if nu is automatic and gave no weights; see `ModelTask.larger`."""
        if not self.task.kind.GROWS:
            return None
        reached = at.method_state
        first, best = reached.history[0].certificate, reached.best_record.certificate
        has_weights, iterations = best.primal < -NO_WEIGHTS * abs(first.dual), reached.history[-1].iteration
        task = self.task.larger(at.value, self._highest, iterations, over, has_weights)
        return None if task is None else replace(self, task=task)

    def check_weights(self, certificate: Certificate) -> None:
        """Raise ConfigError where w = 0 turned out to be best, as it is for nu-SVM at nu_min and below."""
        self._model.check_weights(certificate, self._highest)

    def _begin_minimax(self, rows: shards.MappedRows, chooser: Chooser, execution: Execution) -> ClassState:
        moments = shards.sharded_moments(execution, rows, self.positive, self.classes.weights)
        kind: Any = self.task.kind
        model: Any = self.task.model(lambda: kind.default_value(kind.kappa_max(moments), math.nan, lambda: math.nan))
        problem: MinimaxProblem = model.problem_of(moments)
        method: Any = choose_method(chooser, problem)
        return ClassState(method.start(problem), model.kappa, minimax=problem)

    @property
    def _model(self) -> Classifier | NormConstrained:
        # of a check before rows are read: what a sample decides is not known
        return self.task.model(lambda: 0.5 * self._highest if math.isfinite(self._highest) else None)

    @property
    def _prototype(self) -> CompositeProblem:
        return self._model.prototype(self.classes)

    @property
    def _highest(self) -> float:
        return self.task.highest(self.classes.signs, self.classes.totals)


def _row_sample(rows: shards.MappedRows) -> RowSample:
    def read() -> RowSample:
        sample = sample_rows(rows.data, "train", SAMPLE_ROWS, 0, rows.feature_map.precision)
        return RowSample(rows.feature_map.transform(sample.inputs), rows.data.rows("train"))

    return resident((rows.tag, "sample"), read)  # the same for every class


# Progress of a model over shards, class by class, as values.


@stored("solved-class", renamed={"fapg": "method_state"})
@dataclass(frozen=True, eq=False)
class ClassSolution:
    """One class against the rest: weights (n_columns,), chosen bias, certificate of the own bias, parameter."""

    weights: FloatArray
    bias: float
    certificate: Certificate
    outcome: Outcome
    value: float
    method_state: MethodState


@stored("accelerated-state")
@dataclass(frozen=True, eq=False)
class AcceleratedState:
    """Everything that evolves; never written into.

    rows : mapped, cheap; chosen : the map's choices
    solved : weights, bias and record of the classes that are done; current : state of the current class, None if
        there is none left
    warm : start of each class; () for the models' own points
    """

    rows: shards.MappedRows
    chosen: dict[str, Any]
    solved: tuple[ClassSolution, ...]
    current: ClassState | None
    warm: tuple[shards.WarmStart, ...] = ()

    @property
    def iterations(self) -> int:
        current = () if self.current is None else (self.current.method_state,)
        states = (*(solved.method_state for solved in self.solved), *current)
        return sum(state.history[-1].iteration for state in states)


# Every classification model as a solver over shards: out of core, in one process or on workers, with the same bits.

Bias = Literal["own", "errors"]


@dataclass(frozen=True)
class AcceleratedSolver:
    """Solve a model to a certified duality gap; several classes one after the other, each against the rest.

    task : which model, with which parameter; maps : which feature map
    class_weights : of each class, in the order of the labels, None for all 1; rows keep theirs among the rest, too
    bias : "own", or "errors" for the one whose training errors weigh least; method : which one, and when it stops
    seed, precision : of the map
    scratch : folder, visible to all workers, from which a dead worker's vectors are restored; None: recomputed
    """

    task: ModelTask
    maps: SolverMap
    class_weights: tuple[float, ...] | None = None
    bias: Bias = "own"
    method: Chooser = field(default_factory=MethodChoice)
    seed: int = 0
    precision: Precision = "float32"
    scratch: Path | None = None

    mode = "sum"

    def check(self, schema: Schema) -> None:
        """Raise ConfigError or DataError for what can be known without reading rows."""
        if schema.task == "regression":
            raise ConfigError(
                f"The solver {self.task.name} is a classifier, but the target {schema.target!r} makes this a "
                "regression. Choose another solver, such as fogd, or ingest with --task binary."
            )
        if not schema.class_counts:  # of a source that was not read yet
            self.task.model()
            return
        schema.refuse_empty_classes()
        for problem in self._classes(schema):
            problem.check()

    @one_blas_thread()  # bits depend on the number of threads
    def start(self, data: Dataset, execution: Execution, warm: LinearPredictor | None = None) -> AcceleratedState:
        """Draw the map, and bring the shards to the first point of the first class.

        warm : a solution of the same model for other rows, whose map is kept
        Raises ConfigError, DataError : what `check` raises, and a kappa above what the rows allow
        """
        self.check(data.schema)
        if warm is None:
            sample = sample_rows(data, "train", SAMPLE_ROWS, self.seed, self.precision)
            feature_map, chosen = self.maps.draw(data.schema, sample.inputs, self.seed, self.precision)
        else:
            feature_map, chosen = warm.feature_map, {"map": "kept", "map_reason": "the map of the initial solution"}
        rows = shards.MappedRows(data, feature_map, secrets.token_hex(8))
        state = AcceleratedState(rows, chosen, (), None, warm=_warm_classes(warm))
        return replace(state, current=self._begin(state, data, execution))

    def advance(self, state: AcceleratedState, data: Dataset, execution: Execution) -> AcceleratedState:
        """Continue to the next check or class; ConfigError for a nu so small that the best weights are all 0."""
        assert state.current is not None, "a class is being trained"
        any_value = self._classes(data.schema)[len(state.solved)]
        problem = any_value.at(state.current.value)
        current = problem.advance(state.current, self.method, execution)
        outcome = self._outcome(current)
        larger = any_value.larger(current, over=outcome is not None)
        if larger is not None:
            return replace(state, current=larger.begin(state.rows, self.method, execution))
        if outcome is None or outcome.kind == "diverged":
            return replace(state, current=current)
        state = replace(state, solved=(*state.solved, self._solved(state, problem, current, outcome, execution)))
        return replace(state, current=self._begin(state, data, execution))

    def finished(self, state: AcceleratedState) -> Outcome | None:
        """Done after the last class; diverged as soon as one is."""
        if state.current is not None:
            outcome = self._outcome(state.current)
            return outcome if outcome is not None and outcome.kind == "diverged" else None
        outcomes = [solved.outcome for solved in state.solved]
        worst = next((outcome for outcome in outcomes if outcome.kind != "done"), outcomes[-1])
        return Outcome(worst.kind, reasons_of(outcomes))

    def _outcome(self, current: ClassState) -> Outcome | None:
        outcome: Outcome | None = method_of_state(self.method, current.method_state).finished(current.method_state)
        return outcome

    def progress(self, state: AcceleratedState) -> Convergence:
        last = state.solved[-1].method_state if state.current is None else state.current.method_state
        record = last.history[-1]
        gap = record.certificate.relative_gap
        return Convergence(state.iterations, gap, record.certificate.primal, record.certificate.dual)

    def predictor(self, state: AcceleratedState) -> Predictor:
        weights = np.stack([solved.weights for solved in state.solved]).astype(self.precision)
        offsets = np.array([-solved.bias for solved in state.solved]).astype(self.precision)
        return LinearPredictor(state.rows.feature_map, weights, offsets)

    def chosen(self, state: AcceleratedState) -> dict[str, Any]:
        """Return the automatic choices: of the map, and of the parameter."""
        values = [solved.value for solved in state.solved] or ([] if state.current is None else [state.current.value])
        parameter = self.task.parameter
        choices: dict[str, Any] = {parameter: values[0] if len(values) == 1 else values}
        return state.chosen | choices | {f"{parameter}_reason": self.task.reason}

    def certificate(self, state: AcceleratedState) -> dict[str, Any]:
        """Return the certificate as JSON; of several classes, sums and the largest relative gap."""
        proofs = [solved.certificate for solved in state.solved]
        return {
            "kind": "duality gap",
            "gap": sum(solved.gap for solved in proofs),
            "relative_gap": max(solved.relative_gap for solved in proofs),
            "objective": sum(solved.primal for solved in proofs),
            "dual_objective": sum(solved.dual for solved in proofs),
            "floor": sum(solved.floor for solved in proofs),
            "iterations": state.iterations,
            "outcome": reasons_of([solved.outcome for solved in state.solved]),
            "converged": all(solved.outcome.converged for solved in state.solved),
        }

    def _classes(self, schema: Schema) -> list[ClassProblem]:
        """Return one problem for two classes, else one for each against the rest; rows keep their class's weight."""
        counts = schema.class_counts
        weights = self.class_weights or (1.0,) * len(counts)
        if schema.task == "binary":
            return [ClassProblem(self.task, _against_rest(1, counts, weights), None, self.scratch)]
        return [
            ClassProblem(self.task, _against_rest(index, counts, weights), index, self.scratch)
            for index in range(len(counts))
        ]

    def _begin(self, state: AcceleratedState, data: Dataset, execution: Execution) -> ClassState | None:
        classes = self._classes(data.schema)
        if len(state.solved) == len(classes):
            return None
        problem = classes[len(state.solved)]
        if state.warm:
            problem = replace(problem, warm=state.warm[len(state.solved)])
        return problem.chosen(state.rows, self.seed).begin(state.rows, self.method, execution)

    def _solved(
        self,
        state: AcceleratedState,
        problem: ClassProblem,
        current: ClassState,
        outcome: Outcome,
        execution: Execution,
    ) -> ClassSolution:
        found = problem.solution(current, self.method, execution)
        if outcome.kind == "done":
            problem.check_weights(found.certificate)
        bias = found.certificate.bias
        if self.bias == "errors":
            counted = problem.classes.weights
            bias = shards.error_minimising_threshold(execution, state.rows, found.weights, problem.positive, counted)
        return ClassSolution(found.weights, bias, found.certificate, outcome, current.value, current.method_state)


def _against_rest(index: int, counts: tuple[int, ...], weights: tuple[float, ...]) -> ClassGroups:
    """Return a class against all others, each row with the weight of its own class."""
    rest_counts, rest_weights = (tuple(np.delete(given, index).tolist()) for given in (counts, weights))
    if len(set(rest_weights)) == 1:
        return ClassGroups((counts[index], sum(rest_counts)), (weights[index], rest_weights[0]))
    return ClassGroups((counts[index], *rest_counts), (weights[index], *rest_weights))


def _warm_classes(warm: LinearPredictor | None) -> tuple[shards.WarmStart, ...]:
    if warm is None:
        return ()
    offsets = np.zeros(warm.n_outputs) if warm.offsets is None else warm.offsets
    pairs = zip(warm.weights, offsets, strict=True)
    return tuple(shards.WarmStart(weights.astype(np.float64), -float(offset)) for weights, offset in pairs)
