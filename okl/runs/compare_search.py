"""Search of a comparison: work items that run on workers, and successive halving over the grids of all models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.dataset import Schema
from okl.data.execution import Execution, Rows
from okl.data.ingest.run import ingest
from okl.distributed.in_process import LocalExecution
from okl.features.linear import SparseInputs
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import DivergedError
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Criterion, Doubles, FloatArray, IntArray
from okl.metrics.criterion import criterion_error, criterion_of, mcnemar, paired_t, row_losses, scores_test
from okl.models.file import Model
from okl.models.inputs import class_indices
from okl.runs import compare_grids
from okl.runs.compare_grids import LEAST_ROWS, Sample
from okl.runs.compare_models import AUTO, RIDGE, train_settings
from okl.runs.compare_settings import CompareSettings
from okl.runs.growing_models import train_growing_models
from okl.runs.loop import learner_of, passes_over
from okl.runs.select import choose_solver
from okl.runs.select_sparse import SPARSE_TOLERANCE, best_sparse_model, best_sparse_passes, sparse_solutions
from okl.solvers.accelerated.choice import Chooser, MethodChoice, choose_method
from okl.solvers.accelerated.fitting import PathPoint, path
from okl.solvers.accelerated.models import is_model, make_model, model_class
from okl.solvers.accelerated.operators import DenseRows, SparseRows, matrix_rows
from okl.solvers.accelerated.problem import ClassMoments, error_minimising_bias
from okl.solvers.factory import training_columns
from okl.solvers.ridge.gram import Outputs
from okl.solvers.ridge.penalty_path import SAMPLE_ROWS as PENALTY_ROWS
from okl.solvers.ridge.penalty_path import fit_rows
from okl.solvers.ridge.settings import RidgeSettings
from okl.solvers.ridge.solver import RidgeSolver
from okl.solvers.settings import TrainSettings

# Result of one parameter value in one part.


@dataclass(frozen=True)
class Trial:
    """Fit of one parameter value, validated on rows that were not used for training.

    right : for each bias rule, one bit for each validation row: whether it is classified correctly; no bits for a
        regression
    value : value of the parameter; None for online solvers, and for several classes with a value each
    relative_gap : certified relative duality gap; None for online solvers; failure : reason of a failure, or ""
    errors : for each bias rule, the error by another criterion than accuracy; empty for accuracy
    scores, targets : for each bias rule scores (rows,) or (rows, n_classes) and (rows,) class indices or targets, for
        a test on the rows of one part by another criterion than accuracy; else empty
    log_losses : of calibrated scores, (at most LOG_LOSS_ROWS,), beside the accuracy, which may hide a difference; the
        bias rule does not change them
    chosen : what a solver without a grid chose, as text
    held, held_classes : for each bias rule scores, and class indices, of at most LOG_LOSS_ROWS rows, to calibrate them;
        empty for a regression and for scores that cannot be calibrated
    """

    right: dict[str, bytes]
    n_rows: int
    value: float | None = None
    relative_gap: float | None = None
    iterations: int = 0
    seconds: float = 0.0
    failure: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    scores: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    targets: Doubles | IntArray | None = None
    log_losses: Doubles | None = field(default=None, compare=False)
    chosen: str = ""
    held: dict[str, NDArray[np.float32]] = field(default_factory=dict, compare=False)
    held_classes: IntArray | None = field(default=None, compare=False)

    def correct_rows(self, bias: str) -> NDArray[np.bool_]:
        """Return which rows are classified correctly, (n_rows,)."""
        packed = np.frombuffer(self.right[bias], dtype=np.uint8)
        return np.unpackbits(packed, count=self.n_rows).astype(bool)

    def score(self, bias: str) -> float:
        """Return 1 less the error by the criterion: the share of rows that are classified correctly, ..."""
        return 1.0 - self.errors[bias] if self.errors else float(self.correct_rows(bias).mean())


LOG_LOSS_ROWS = 2000
"""Validation rows of a part whose log losses are computed beside the accuracy, as calibration takes time."""
CALIBRATED = 1e30  # largest score of a calibration, within float32


@dataclass(frozen=True)
class Judge:
    """Criterion of a comparison. keeps_scores : whether trials keep scores, for a paired test on one part"""

    schema: Schema
    criterion: Criterion
    keeps_scores: bool = False

    def trial(self, scores: Mapping[str, NDArray[Any]], targets: Doubles, **values: Any) -> Trial:
        """Return the trial of scores by bias rule, (rows,) or (rows, n_classes), and targets of validation rows."""
        wide = {bias: np.asarray(some, dtype=np.float64) for bias, some in scores.items()}
        regression = self.criterion == "squared-error"
        right = {bias: b"" if regression else packed(some, targets) for bias, some in wide.items()}
        few = {bias: some[:LOG_LOSS_ROWS] for bias, some in wide.items()}
        if not regression and all(np.abs(some).max(initial=0.0) < CALIBRATED for some in few.values()):
            values["held"] = {bias: some.astype(np.float32) for bias, some in few.items()}
            values["held_classes"] = class_indices(self.schema, targets[:LOG_LOSS_ROWS])
        if self.criterion == "accuracy":
            losses = None
            if "held" in values:
                losses = row_losses("log-loss", next(iter(few.values())), values["held_classes"])
            return Trial(right, len(targets), log_losses=losses, **values)
        kept = {bias: some.astype(np.float32) for bias, some in wide.items()} if self.keeps_scores else {}
        wanted: Any = targets if regression else class_indices(self.schema, targets)
        if regression:
            spread = max(float(targets.var()), float(np.finfo(np.float64).tiny))
            errors = {bias: float(np.square(some - targets).mean()) / spread for bias, some in wide.items()}
        else:
            errors = {bias: criterion_error(self.criterion, some, wanted) for bias, some in wide.items()}
        return Trial(right, len(targets), errors=errors, scores=kept, targets=wanted if kept else None, **values)

    def p_value(self, trial: Trial, bias: str, best: Trial, best_bias: str) -> float:
        """Return the two-sided p-value of equal errors of two models on the same validation rows."""
        if self.criterion == "accuracy":
            first_right, right = best.correct_rows(best_bias), trial.correct_rows(bias)
            return mcnemar(int((right & ~first_right).sum()), int((first_right & ~right).sum())).two_sided
        mine, theirs, targets = trial.scores[bias], best.scores[best_bias], trial.targets
        assert targets is not None, "scores are kept with their targets"
        if self.criterion != "squared-error":
            first, second = (np.asarray(some, dtype=np.float64) for some in (theirs, mine))
            return scores_test(self.criterion, first, second, np.asarray(targets, dtype=np.int64)).two_sided
        apart = np.square(theirs - targets) - np.square(mine - targets)
        return paired_t(len(apart), float(apart.sum()), float(np.square(apart).sum())).two_sided


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Weights (n_columns,) of each class against the rest, and a bias by bias rule and class; score <w, x> - bias."""

    weights: list[FloatArray]
    biases: dict[str, list[float]]


def with_biases(
    weights: list[FloatArray], own: list[float], has_own: bool, features: Any, signs: compare_grids.Signs
) -> ModelScores:
    """Return weights with two biases: the model's own (or none), and that of fewest errors on these training rows."""
    minimising = [
        error_minimising_bias(compare_grids.raw_scores(features, some), sign)
        for some, sign in zip(weights, signs, strict=True)
    ]
    return ModelScores(weights, {"own" if has_own else "none": own, "error-minimising": minimising})


def biased_scores(fitted: ModelScores, features: Any) -> dict[str, Doubles]:
    """Return scores for each bias rule: (rows,) of two classes, or (rows, n_classes)."""
    raw = [compare_grids.raw_scores(features, weights) for weights in fitted.weights]
    scores = {
        name: np.column_stack([some - bias for some, bias in zip(raw, biases, strict=True)])
        for name, biases in fitted.biases.items()
    }
    return {name: some[:, 0] if len(raw) == 1 else some for name, some in scores.items()}


def packed(scores: Doubles, targets: Doubles) -> bytes:
    """Return packed bits: whether scores (rows,), 0 being the second class, or (rows, n_classes) are right."""
    right = (scores >= 0.0) == (targets > 0.0) if scores.ndim == 1 else scores.argmax(axis=1) == targets
    return np.packbits(right).tobytes()


# Work item of the search: a certified model along its grid on a part of the rows, each fit warm-started.


@dataclass(frozen=True)
class PathItem:
    """Fits of some grid points of a model and their validation.

    n_rows : number of training rows, the first of the part; chosen : indices of grid points, rising
    """

    part: int
    n_rows: int
    grid: compare_grids.ComparedGrid
    chosen: tuple[int, ...]
    method: MethodChoice
    n_classes: int
    judge: Judge

    @property
    def model(self) -> str:
        return self.grid.model

    @property
    def cost(self) -> int:
        return self.n_rows * len(self.chosen)

    def run(self, sample: Sample) -> list[Trial]:
        """Return a trial for each grid point."""
        part = sample.part(self.part)
        features, targets = part.features[: self.n_rows], part.targets[: self.n_rows]
        signs = compare_grids.signs_of_classes(targets, self.n_classes)
        points = [self.grid.points[index] for index in self.chosen]
        paths = [
            solve_path(
                self.grid, points, matrix_rows(features, sign), index, self.method,
                partial(compare_grids.merged_moments, sample, self.part, index, self.n_classes),
            )
            for index, sign in enumerate(signs)
        ]  # fmt: skip
        trials = []
        for solved in zip(*paths, strict=True):
            solutions = [point.solution for point in solved]
            weights, own = [fit.weights for fit in solutions], [fit.bias for fit in solutions]
            fitted = with_biases(weights, own, model_class(self.model).HAS_OWN_BIAS, features, signs)
            trials.append(
                self.judge.trial(
                    biased_scores(fitted, part.test_features),
                    part.test_targets,
                    value=solved[0].parameter if len(solved) == 1 else None,
                    relative_gap=max(fit.certificate.relative_gap for fit in solutions),
                    iterations=sum(point.iterations for point in solved),
                    seconds=sum(point.seconds for point in solved),
                )
            )
        return trials


def solve_path(
    grid: compare_grids.ComparedGrid,
    points: Sequence[float],
    rows: DenseRows | SparseRows,
    class_index: int,
    method: MethodChoice,
    moments: Callable[[], ClassMoments],
) -> list[PathPoint]:
    """Solve a model of a class against the rest at points of its grid; moments : of the rows, for minimax models."""
    if grid.parameter == "kappa":
        return compare_grids.path_of_moments(grid.model, moments(), points, method)
    high = grid.high(rows)
    values = [grid.value(point, class_index, rows.n_points, high) for point in points]
    chooser: Chooser = method
    if isinstance(rows, SparseRows):  # that of sparse shards
        parameter: Any = {grid.parameter: values[0]}
        chooser = choose_method(method, make_model(grid.model, **parameter).problem(rows), sparse=True)
    return path(grid.model, rows, values, chooser)


Scores: TypeAlias = Callable[[Any], FloatArray]
"""Scores of inputs (rows, n_inputs), dense or sparse: (rows,), or (rows, n_outputs) of several classes."""

# Work item of the search: an online solver makes one pass over the training rows of a part, as `okl train` does, or
# kernel least squares are solved.


@dataclass(frozen=True)
class SolverItem:
    """Training of a solver with its own settings, and its validation."""

    chosen = (0,)  # its single grid point

    settings: TrainSettings
    part: int
    n_rows: int
    judge: Judge

    @property
    def model(self) -> str:
        return self.settings.solver

    @property
    def cost(self) -> int:
        """Return the number of rows, times `RACE_COST` for an automatic choice."""
        return self.n_rows * (RACE_COST if self.model == AUTO else 1)

    def run(self, sample: Sample) -> list[Trial]:
        """Return one trial; it holds a failure if the solver diverged."""
        part, schema = sample.part(self.part), sample.data.schema
        rows = Rows(part.inputs[: self.n_rows], part.targets[: self.n_rows])
        started = time.perf_counter()
        try:
            train = {RIDGE: train_ridge, AUTO: train_chosen}.get(self.settings.solver, train_online)
            scored, chosen = train(self.settings, schema, rows)
        except DivergedError as error:
            return [Trial({}, len(part.test_targets), failure=str(error))]
        seconds = time.perf_counter() - started
        scores = {"own": scored(part.test_inputs)}
        return [self.judge.trial(scores, part.test_targets, seconds=seconds, chosen=chosen)]


def train_ridge(settings: TrainSettings, schema: Schema, rows: Rows) -> tuple[Scores, str]:
    """Solve kernel least squares of rows in memory, shuffled already; return also the penalty of least error."""
    assert isinstance(settings.options, RidgeSettings), "its solver is ridge"
    solver: RidgeSolver = settings.options.build(settings, schema, len(rows.targets))
    wide = Rows(np.asarray(rows.inputs, dtype=np.float64), rows.targets)
    basis, _ = solver.basis_of(wide.inputs[:PENALTY_ROWS], wide.inputs, schema)
    outputs = Outputs(schema.task, schema.n_outputs, solver.class_weights, solver.criterion)
    solution = fit_rows(basis, wide, outputs)
    if not solution.solved:
        raise DivergedError("The columns are so large that only rounding error is left. Scale them.")
    assert solution.best is not None, "no penalty was given"
    return solution.predictor(basis).scores, f"penalty {solution.best.penalty:.2g}"


RACE_SECONDS = 20.0  # budget of the automatic choice in each part
RACE_COST = 300
"""Measured seconds a row of the automatic choice, divided by those of a certified model: the progress counts rows."""


def train_chosen(settings: TrainSettings, schema: Schema, rows: Rows) -> tuple[Scores, str]:
    """Return scores and the reason of the choice of `okl train`, within `RACE_SECONDS`, on scaled, shuffled rows."""
    if schema.sparse is not None:
        return _train_sparse(settings, schema, rows)
    classes = None if schema.task == "regression" else class_indices(schema, rows.targets)
    targets = rows.targets if classes is None else classes
    settings = settings.replaced(budget_seconds=RACE_SECONDS, threads=1)
    ingest_settings = IngestSettings(target="y", task=schema.task, compression="none")
    with TemporaryDirectory(prefix="okl-rows-") as folder, LocalExecution(1) as execution:
        source = Path(folder) / "rows.parquet"
        pq.write_table(_table(rows.inputs).append_column("y", pa.array(targets)), source, compression="none")
        data = ingest(source, Path(folder) / "data", ingest_settings).dataset
        choice = choose_solver(settings, data)
        data = training_columns(choice.settings, data, metric=choice.metric)
        best = train_growing_models(choice, data, execution)
    model = Model(data.schema, best.trained.predictor)
    # a class without a row here is never the best one
    present = None if classes is None or schema.n_outputs == 1 else np.unique(classes)
    return partial(_scores_of_model, model, present, schema.n_outputs), best.record["why"][0].partition(": ")[0]


def _table(inputs: FloatArray) -> pa.Table:
    return pa.table({f"x{index}": column for index, column in enumerate(np.ascontiguousarray(inputs.T))})


def _scores_of_model(model: Model, present: IntArray | None, n_outputs: int, inputs: FloatArray) -> FloatArray:
    """Return scores of inputs (rows, n_inputs), of all outputs where the model was trained on the `present` classes."""
    scores = model.scores(_table(inputs))
    if present is None or len(present) == n_outputs:
        return scores
    filled = np.full((len(scores), n_outputs), -1e30, dtype=scores.dtype)
    filled[:, present] = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
    return filled


def _train_sparse(settings: TrainSettings, schema: Schema, rows: Rows) -> tuple[Scores, str]:
    """Train on sparse rows, with the model or passes of least error on every fourth of them, as `okl train` does."""
    if schema.task == "regression":
        settings = settings.replaced(solver="fogd", kernel="linear")
        passes, _ = best_sparse_passes(settings, schema, rows)
        learner, _ = learner_of(settings, schema, rows)
        return next(passes_over(learner, rows, (passes,), settings.seed)).scores, f"{passes} passes"
    criterion = criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    classes, n_outputs = class_indices(schema, rows.targets), schema.n_outputs
    (solver, cost), *_ = best_sparse_model(rows.inputs, classes, criterion, None, n_outputs)
    weights = np.zeros((n_outputs, schema.n_features), dtype=np.float32)
    offsets = np.full(n_outputs, -1e30, dtype=np.float32)
    for output, solution in sparse_solutions(solver, cost, rows.inputs, classes, None, n_outputs, SPARSE_TOLERANCE):
        weights[output], offsets[output] = solution.weights, -solution.certificate.bias
    return LinearPredictor(SparseInputs(schema.n_features), weights, offsets).scores, f"{solver}, C {cost:g}"


def train_online(settings: TrainSettings, schema: Schema, rows: Rows) -> tuple[Scores, str]:
    """Build a solver from the first rows, and train it on all rows in order, shuffled; return also its step size."""
    learner, chosen = learner_of(settings, schema, rows)
    step = f"step size {chosen['step_size']:.2g}" if "step_size" in chosen else ""
    return learner.predictor(learner.learn(learner.start(), rows)).scores, step


# The search by successive halving: all values on few rows, the better half on twice as many, up to all rows.

ROUGH = 10.0  # times the tolerance, before the last round: enough to rank values
SINGLE = compare_grids.ComparedGrid("", (0.0,), "value")
ComparedItem = PathItem | SolverItem


@dataclass(eq=False)
class CompareCandidate:
    """Candidate of the search; alive : indices of grid points that remain; trials, tried_rows : by grid point.

    grid : grid of its parameter; one point for an online solver
    """

    name: str
    grid: compare_grids.ComparedGrid
    alive: tuple[int, ...]
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    tried_rows: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def biases(self) -> tuple[str, ...]:
        """Return the bias rules that are tested."""
        return next((tuple(t.right) for trials in self.trials.values() for t in trials if t.right), ())

    @property
    def failure(self) -> str:
        return next((trial.failure for index in self.alive for trial in self.trials[index] if trial.failure), "")

    def mean(self, grid_point: int, bias: str) -> float:
        """Return the mean score over the parts; minus infinity if a part failed."""
        trials = self.trials[grid_point]
        if any(trial.failure for trial in trials):
            return -math.inf
        # rounded, so that equal counts in another order are equal
        return round(fmean(trial.score(bias) for trial in trials), 12)

    def best_mean(self, grid_point: int) -> float:
        """Return the mean accuracy with the better bias rule."""
        return max((self.mean(grid_point, bias) for bias in self.biases), default=-math.inf)

    def record(self, item: ComparedItem, trials: Sequence[Trial]) -> None:
        """Add the trials of a work item."""
        for grid_point, trial in zip(item.chosen, trials, strict=True):
            if item.part == 0:
                self.trials[grid_point] = []
                self.tried_rows[grid_point] = item.n_rows
            self.trials[grid_point].append(trial)
            self.seconds += trial.seconds

    def halve(self) -> None:
        """Keep the better half of the grid points; ties keep the first, which has more regularisation."""
        ranked = sorted(self.alive, key=lambda grid_point: (-self.best_mean(grid_point), grid_point))
        self.alive = tuple(sorted(ranked[: -(-len(ranked) // 2)]))

    def choice(self) -> tuple[int, str]:
        """Return the grid point and bias rule of the best mean; ties give the first point and the model's own bias."""
        pairs = [(grid_point, bias) for grid_point in self.alive for bias in self.biases]
        return max(pairs, key=lambda pair: self.mean(*pair))


def round_rows(train_rows: int, grid: int, halving: bool) -> tuple[int, ...]:
    """Return the training rows of each round; the last round uses all. There is one round if rows or values are few.

    >>> round_rows(8000, 10, True), round_rows(8000, 10, False), round_rows(900, 10, True)
    ((1000, 2000, 4000, 8000), (8000,), (900,))
    """
    doublings = int(math.log2(max(1.0, train_rows / LEAST_ROWS))) if halving else 0
    doublings = min(doublings, math.ceil(math.log2(grid)))
    return tuple(-(-train_rows // 2**k) for k in range(doublings, -1, -1))


@dataclass(frozen=True)
class ModelSearch:
    """Search over all candidates, by their names in order, and the grids of the certified models."""

    settings: CompareSettings
    sample: Sample
    names: tuple[str, ...]
    grids: dict[str, compare_grids.ComparedGrid]
    n_classes: int

    @property
    def judge(self) -> Judge:
        schema = self.sample.data.schema
        criterion = criterion_of(self.settings.optimise, schema.task, schema.class_counts, schema.target)
        return Judge(schema, criterion, self.sample.n_parts == 1)

    def candidates(self) -> list[CompareCandidate]:
        """Return all candidates before the first round."""
        grids = {name: self.grids.get(name, SINGLE) for name in self.names}
        return [CompareCandidate(name, grid, tuple(range(len(grid.points)))) for name, grid in grids.items()]

    def steps(self) -> tuple[int, ...]:
        return round_rows(self.sample.train_rows(), self.settings.grid, self.settings.halving)

    def run(self, execution: Execution, report: Callable[[int, int, dict[str, float]], None]) -> list[CompareCandidate]:
        """Run all rounds and return the candidates, whatever fit finishes first; report : of rows, total, metrics."""
        candidates = self.candidates()
        by_name = {candidate.name: candidate for candidate in candidates}
        total, done, steps = self.total(), 0, self.steps()
        report(done, total, {})
        for step in range(len(steps)):
            items = self._items(candidates, step)
            for item, trials in zip(items, execution.map(methodcaller("run", self.sample), items), strict=True):
                by_name[item.model].record(item, trials)
                done += item.cost
                report(done, total, {})
            for candidate in candidates:
                if candidate.trials and step < len(steps) - 1:
                    candidate.halve()
            scored = [each.best_mean(grid_point) for each in candidates for grid_point in each.trials]
            best = max((value for value in scored if math.isfinite(value)), default=0.0)
            report(done, total, {"best_score": best})
        return candidates

    def total(self) -> int:
        """Return the number of training rows, summed over all fits."""
        total, candidates = 0, self.candidates()
        for step in range(len(self.steps())):
            total += sum(item.cost for item in self._items(candidates, step))
            for candidate in candidates:
                if self._starts_small(candidate.name):
                    candidate.alive = candidate.alive[: -(-len(candidate.alive) // 2)]
        return total

    def _starts_small(self, name: str) -> bool:
        """Return whether a model starts on few rows: no online solver, no minimax model (its fits cost the same)."""
        return name in self.grids and self.grids[name].parameter != "kappa"

    def _items(self, candidates: Sequence[CompareCandidate], step: int) -> list[ComparedItem]:
        settings, steps, judge = self.settings, self.steps(), self.judge
        last = step == len(steps) - 1
        tolerance = settings.tolerance if last else min(ROUGH * settings.tolerance, 0.1)
        method = MethodChoice(tolerance=tolerance, max_iterations=settings.iterations)
        items: list[ComparedItem] = []
        for candidate in candidates:
            if not last and not self._starts_small(candidate.name):
                continue
            for part in range(self.sample.n_parts):
                if is_model(candidate.name):
                    tried = candidate.grid, candidate.alive, method
                    items.append(PathItem(part, steps[step], *tried, self.n_classes, judge))
                else:
                    items.append(SolverItem(train_settings(settings, candidate.name), part, steps[step], judge))
        return items
