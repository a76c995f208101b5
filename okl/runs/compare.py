"""Model comparison: candidates, grids, folds, search, winner, and the stages of the run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from statistics import fmean, stdev, variance
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import stats

from okl.data.dataset import ROBUST, Dataset, Scaling, Schema
from okl.data.execution import Execution, Rows
from okl.data.ingest.run import ingest
from okl.data.manifest import group_of, is_dataset, peak_memory_bytes, provenance
from okl.data.reading import MANY_GROUPS, sample_rows, stored_row_bytes
from okl.data.squash import with_squashed
from okl.distributed.cluster_file import check_execution_options
from okl.distributed.in_process import LocalExecution
from okl.features.base import FeatureMap, transform_rows
from okl.features.linear import SparseInputs, StandardisedLinear
from okl.features.predictors import BasePredictor, CalibratedPredictor, LinearPredictor, Predictor
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.folders import check_published, output_folder
from okl.foundation.locations import COMPARED, Place, place_of
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import Observer
from okl.foundation.types import Criterion, Doubles, FloatArray, IntArray, Task
from okl.kernels import shift_invariant_kernels
from okl.metrics.calibration import fit_calibration
from okl.metrics.criterion import TESTS, criterion_error, criterion_of, mcnemar, paired_t, row_losses, scores_test
from okl.models.file import Model, save_model
from okl.models.inputs import class_indices
from okl.report.comparison import comparison_page
from okl.report.format import scalar_metrics
from okl.report.render import html, markdown
from okl.runs import compare_grids
from okl.runs.baselines import ConstantPredictor
from okl.runs.calibrate import LEAST_OF_CLASS as LEAST_CALIBRATED
from okl.runs.calibrate import calibrated
from okl.runs.compare_grids import LEAST_ROWS, Sample
from okl.runs.compare_settings import CompareSettings
from okl.runs.evaluate import predictor_tallies
from okl.runs.growing_models import train_growing_models
from okl.runs.loop import factory_of, learner_of, passes_over, run_loop
from okl.runs.results import assumptions, describe_data
from okl.runs.run import Run, check_data, open_run_data, run_folder
from okl.runs.select import choose_solver
from okl.runs.select_sparse import SPARSE_TOLERANCE, best_sparse_cost, best_sparse_passes, sparse_solutions
from okl.solvers.accelerated.choice import Chooser, MethodChoice, choose_method
from okl.solvers.accelerated.fitting import Fitted, PathPoint, path
from okl.solvers.accelerated.models import MODEL_NAMES, is_model, make_model, model_class
from okl.solvers.accelerated.operators import DenseRows, SparseRows, matrix_rows
from okl.solvers.accelerated.problem import ClassMoments, class_moments, error_minimising_bias
from okl.solvers.base import CHOSEN_AUTOMATICALLY, named_reasons, reasons_of
from okl.solvers.factory import SPARSE_SOLVERS, make_solver, training_columns
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.settings import OnlineSettings
from okl.solvers.online.solver import SAMPLE_ROWS
from okl.solvers.options import FourierOptions
from okl.solvers.ridge.gram import Outputs
from okl.solvers.ridge.penalty_path import SAMPLE_ROWS as PENALTY_ROWS
from okl.solvers.ridge.penalty_path import fit_rows
from okl.solvers.ridge.settings import RidgeSettings
from okl.solvers.ridge.solver import RidgeSolver
from okl.solvers.settings import SOLVER_NAMES, TrainSettings, solver_settings

# Candidates: models and solvers by name.

_ONLINE = {
    name: kind for name in SOLVER_NAMES if issubclass(kind := solver_settings(name), OnlineSettings) and kind.COMPARED
}
ONLINE_NAMES = tuple(_ONLINE)
IN_FOURIER_MAPS = tuple(name for name, kind in _ONLINE.items() if issubclass(kind, FourierOptions))
OF_FREQUENCIES = f"{', '.join(IN_FOURIER_MAPS)} and certified models use it"
OF_A_MAP = f"{', '.join(IN_FOURIER_MAPS)} and certified models with frequencies use it"
RIDGE, AUTO = "ridge", "auto"
LEAST_SQUARES = (AUTO, RIDGE)  # the automatic choice, and kernel least squares with the kernel of the settings
GROUPS = {"all": (*LEAST_SQUARES, *MODEL_NAMES), "online": ONLINE_NAMES}
OF_REGRESSION = {"all": (*LEAST_SQUARES, "fogd", "nogd"), "online": ("fogd", "nogd")}


OF_SPARSE = (AUTO, *filter(is_model, SPARSE_SOLVERS))


def model_names(settings: CompareSettings, task: Task = "binary", sparse: bool = False) -> tuple[str, ...]:
    """Return the names of the models to compare, without duplicates, in the order of the setting.

    sparse : whether rows are sparse: models of dense rows are left out
    Raises ConfigError : a name is unknown or not for the task or the rows, or there is no name
    """
    groups = OF_REGRESSION if task == "regression" else GROUPS
    names = [name for word in settings.models for name in groups.get(word, (word,))]
    if unknown := [name for name in names if name not in (*LEAST_SQUARES, *ONLINE_NAMES) and not is_model(name)]:
        raise ConfigError(
            f"models = {', '.join(unknown)}: not available in okl compare. Choose from all "
            f"({', '.join(GROUPS['all'])}) or online ({', '.join(ONLINE_NAMES)})."
        )
    if task == "regression" and (others := [name for name in names if name not in groups["all"]]):
        raise ConfigError(
            f"models = {', '.join(others)}: for classes only, but the target makes this a regression task. Choose from "
            f"{', '.join(groups['all'])}."
        )
    if not names:
        raise ConfigError("models is empty. Give at least one name, or all.")
    taken = (AUTO,) if task == "regression" else OF_SPARSE
    kept = dict.fromkeys(name for name in names if not sparse or name in taken)
    if not kept:
        raise ConfigError(
            f"models = {', '.join(settings.models)}: compared on dense rows only, but these are sparse. Rows of a "
            f"{'regression' if task == 'regression' else 'classification'} are taken by {', '.join(taken)}."
        )
    return tuple(kept)


def left_out(settings: CompareSettings, schema: Schema) -> str:
    """Return a sentence on the models that are left out because rows are sparse; "" if there are none."""
    names = model_names(settings, schema.task)
    out = [name for name in names if name not in model_names(settings, schema.task, schema.sparse is not None)]
    return f"rows are sparse, so these are left out: {', '.join(out)}" if out else ""


def train_settings(settings: CompareSettings, name: str) -> TrainSettings:
    """Return settings of `okl train --solver NAME`: those of the comparison, and defaults for the rest."""
    if name == AUTO:
        shared = {"data": settings.data, "seed": settings.seed, "optimise": settings.optimise}
        return TrainSettings(solver=name, **shared)
    values: dict[str, Any] = {"kernel": settings.kernel, "bandwidth": settings.bandwidth}
    if name == RIDGE:
        values["optimise"] = settings.optimise
    if name in IN_FOURIER_MAPS:
        values["map"] = settings.map
        if settings.frequencies is not None:
            values["frequencies"] = settings.frequencies
    values |= {"data": settings.data, "solver": name, "seed": settings.seed}
    return TrainSettings(**values | ({"precision": settings.precision} if name != RIDGE else {}))


def check_models(settings: CompareSettings, data: Dataset) -> None:
    """Raise ConfigError for settings that are unknown, of another task or unused, before a row is read."""
    schema = data.schema
    names = model_names(settings, schema.task, schema.sparse is not None)
    if schema.sparse is not None and settings.frequencies is not None:
        raise ConfigError("frequencies is set, but rows are sparse and models of them linear. Remove it.")
    criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    if settings.holdout == "test" and not data.rows("test"):
        raise ConfigError(
            f"holdout = test, but {data.folder} has no test rows. Set --holdout to a share such as 0.2, or use --folds."
        )
    smallest = min(schema.class_counts, default=data.rows("train"))
    if settings.holdout is None and smallest < settings.folds:
        kind = "the smallest class has" if schema.class_counts else "there are"
        raise ConfigError(
            f"folds = {settings.folds}, but {kind} {smallest} training rows; each "
            "fold needs one of every class. Use fewer folds, or --holdout."
        )
    _check_map(settings, names, schema)


def map_choice(settings: CompareSettings, names: tuple[str, ...]) -> FourierChoice | None:
    """Return the Fourier map of the certified models, None if these are linear or none; or raise ConfigError."""
    if settings.frequencies is None or not any(map(is_model, names)):
        return None
    if settings.kernel not in (able := shift_invariant_kernels()):
        raise ConfigError(
            f"kernel = {settings.kernel!r} has no Fourier map. Use {', '.join(able[:-1])} or {able[-1]}, or remove "
            "frequencies."
        )
    bandwidth = None if settings.bandwidth == "auto" else settings.bandwidth
    return FourierChoice(settings.kernel, bandwidth, settings.frequencies, settings.map)


def _check_map(settings: CompareSettings, names: tuple[str, ...], schema: Schema) -> None:
    online = [name for name in names if not is_model(name)]
    for name in online:
        if name not in LEAST_SQUARES:
            factory_of(train_settings(settings, name), schema)
    if map_choice(settings, names) is not None or set(names) & set(IN_FOURIER_MAPS):
        return
    changed = {
        name: f"{name} = {value!r} is set"
        for name, value in settings.model_dump().items()
        if value != CompareSettings.model_fields[name].default
    }
    for name, others in (("frequencies", OF_FREQUENCIES), ("map", OF_A_MAP)):
        if name in changed and len(online) == len(names):
            listed = f"{', '.join(names[:-1])} and {names[-1]} do"
            subject = f"the solver {names[0]} does" if len(names) == 1 else listed
            raise ConfigError(
                f"{changed[name]}, but {subject} not use {name}: {others}. Remove it, or add one of these to models."
            )
    for name in ("map",) if online else ("bandwidth", "kernel", "map"):
        if name in changed:
            raise ConfigError(
                f"{changed[name]}, but certified models are linear in the inputs without a map. Set frequencies too, "
                "or remove it."
            )


# Result of one parameter value in one part.

Bias = Literal["own", "none", "error-minimising"]


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
    """Train on sparse rows, with the C or the passes of least error on every fourth of them, what `okl train` does."""
    if schema.task == "regression":
        settings = settings.replaced(solver="fogd", kernel="linear")
        passes, _ = best_sparse_passes(settings, schema, rows)
        learner, _ = learner_of(settings, schema, rows)
        return next(passes_over(learner, rows, (passes,), settings.seed)).scores, f"{passes} passes"
    criterion = criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    classes, n_outputs = class_indices(schema, rows.targets), schema.n_outputs
    cost, *_ = best_sparse_cost(rows.inputs, classes, criterion, None, n_outputs)
    weights = np.zeros((n_outputs, schema.n_features), dtype=np.float32)
    offsets = np.full(n_outputs, -1e30, dtype=np.float32)
    for output, solution in sparse_solutions(cost, rows.inputs, classes, None, n_outputs, SPARSE_TOLERANCE):
        weights[output], offsets[output] = solution.weights, -solution.certificate.bias
    return LinearPredictor(SparseInputs(schema.n_features), weights, offsets).scores, f"C {cost:g}"


def train_online(settings: TrainSettings, schema: Schema, rows: Rows) -> tuple[Scores, str]:
    """Build a solver from the first rows, and train it on all rows in order, shuffled; return also its step size."""
    learner, chosen = learner_of(settings, schema, rows)
    step = f"step size {chosen['step_size']:.2g}" if "step_size" in chosen else ""
    return learner.predictor(learner.learn(learner.start(), rows)).scores, step


# Paired significance tests of two models, over folds or over the rows of a holdout.

CORRECTED = "corrected resampled t-test (Nadeau & Bengio, 2003)"


def corrected_resampled_t(differences: Sequence[float], test_share: float) -> float:
    """Return the two-sided p-value of a mean difference over folds whose training rows overlap.

    t = mean / sqrt((1 / k + test_share) variance), with k - 1 degrees of freedom, k folds.

    differences : of a metric, one for each fold, at least two
    test_share : test rows divided by training rows of a fold, 1 / (k - 1) for k folds

    Source: Nadeau & Bengio, Machine Learning 52, 2003, section 3, the corrected resampled t-test; the folds of one
    cross validation replace random splits, as in Bouckaert & Frank, PAKDD 2004.

    >>> round(corrected_resampled_t([0.02, 0.03, 0.01, 0.02, 0.02], 0.25), 4)
    0.0135
    """
    k, mean, spread = len(differences), fmean(differences), variance(differences)
    if spread <= 1e-30:  # equal differences: a spread of this size is rounding
        return 1.0 if abs(mean) <= 1e-15 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / math.sqrt((1.0 / k + test_share) * spread), k - 1))


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


# The table of a comparison: a row for each candidate with its spread, its certificate and a test against the best.

BIASES = ("own", "none", "error-minimising")


def constant_score(schema: Schema, criterion: Criterion) -> float:
    """Return the score of a constant prediction: the majority class, the shares of the classes, or the mean."""
    if criterion == "squared-error":
        return 0.0
    shares = np.array(schema.class_counts) / sum(schema.class_counts)
    if criterion == "accuracy":
        return float(shares.max())
    if criterion == "log-loss":
        return 1.0 + float(shares[shares > 0.0] @ np.log(shares[shares > 0.0]))
    return {"auc": 0.5, "average-precision": float(shares[-1])}.get(criterion, 1.0 / len(shares))


def winner_of(candidates: Sequence[CompareCandidate]) -> CompareCandidate | None:
    """Return the candidate with the best mean accuracy; ties give the first; None if all failed."""
    measured = [candidate for candidate in candidates if not candidate.failure]
    return max(measured, key=lambda candidate: candidate.mean(*candidate.choice()), default=None)


def table_of(candidates: Sequence[CompareCandidate], test_share: float, judge: Judge) -> list[dict[str, Any]]:
    """Return a row for each candidate, the best first, failed ones last; test_share : test rows by training rows."""
    best = winner_of(candidates)
    rows = [_row(candidate, best, test_share, judge) for candidate in candidates]
    return sorted(rows, key=lambda row: (row["mean"] is None, -(row["mean"] or 0.0)))


def _row(candidate: CompareCandidate, best: CompareCandidate | None, test_share: float, judge: Judge) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": candidate.name,
        "kind": "certified" if is_model(candidate.name) else "ridge" if candidate.name in LEAST_SQUARES else "online",
        "status": "failed" if candidate.failure else "measured",
        "note": candidate.failure,
        "parameter": candidate.grid.parameter if is_model(candidate.name) else None,
        "seconds": candidate.seconds,
        "best": candidate is best,
        "mean": None,
        "path": _path(candidate),
    }
    if candidate.failure or best is None:
        return row
    grid_point, bias = candidate.choice()
    trials = candidate.trials[grid_point]
    own = [trial.score(bias) for trial in trials]
    by_bias = {name: _of_bias(candidate, name) for name in BIASES if name in candidate.biases}
    row |= {
        "mean": candidate.mean(grid_point, bias),
        "spread": spread(own),
        "scores": own,
        "bias": bias,
        "biases": by_bias,
        "place": candidate.grid.points[grid_point] if is_model(candidate.name) else None,
        "value": mean_value(trials),
        "tried": len(candidate.grid.points),
        "chosen": [trial.chosen for trial in trials],
        "relative_gap": _largest_gap(trials),
        "iterations": max(trial.iterations for trial in trials),
        "difference": candidate.mean(grid_point, bias) - best.mean(*best.choice()),
        "p_value": 1.0 if candidate is best else _p_value(trials, bias, best, test_share, judge),
    }
    return row | _log_loss(trials, best.trials[best.choice()[0]], test_share)


def _log_loss(trials: Sequence[Trial], best: Sequence[Trial], test_share: float) -> dict[str, float]:
    """Return the log loss and the p-value that it equals that of the best; empty where it was not computed."""
    pairs = [
        (mine.log_losses, theirs.log_losses)
        for mine, theirs in zip(trials, best, strict=True)
        if mine.log_losses is not None and theirs.log_losses is not None
    ]
    if len(pairs) < len(trials):
        return {}
    apart = [mine - theirs for mine, theirs in pairs]
    p_value = (
        corrected_resampled_t([float(rows.mean()) for rows in apart], test_share)
        if len(apart) > 1
        else paired_t(len(apart[0]), float(apart[0].sum()), float(np.square(apart[0]).sum())).two_sided
    )
    return {"log_loss": fmean(float(mine.mean()) for mine, _ in pairs), "log_loss_p_value": p_value}


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation, with n - 1 in the denominator; None for one value."""
    return stdev(values) if len(values) > 1 else None


def mean_value(trials: Sequence[Trial]) -> float | None:
    """Return the parameter, averaged over the parts, whose valid ranges differ a little."""
    values = [trial.value for trial in trials if trial.value is not None]
    return fmean(values) if values else None


def _of_bias(candidate: CompareCandidate, bias: str) -> dict[str, float | None]:
    grid_point = max(candidate.alive, key=lambda some: candidate.mean(some, bias))
    values = [trial.score(bias) for trial in candidate.trials[grid_point]]
    return {"mean": fmean(values), "spread": spread(values), "value": mean_value(candidate.trials[grid_point])}


def _path(candidate: CompareCandidate) -> list[dict[str, Any]]:
    """Return the score of the better bias rule at each grid point, on the largest number of rows used."""
    rows = []
    for grid_point, trials in sorted(candidate.trials.items()):
        if any(trial.failure for trial in trials) or not is_model(candidate.name):
            continue
        bias = max(candidate.biases, key=lambda name: candidate.mean(grid_point, name))
        rows.append(
            {
                "place": candidate.grid.points[grid_point],
                "value": mean_value(trials),
                "rows": candidate.tried_rows[grid_point],
                "mean": candidate.mean(grid_point, bias),
                "relative_gap": _largest_gap(trials),
            }
        )
    return rows


def _largest_gap(trials: Sequence[Trial]) -> float | None:
    return max((trial.relative_gap for trial in trials if trial.relative_gap is not None), default=None)


def _p_value(trials: Sequence[Trial], bias: str, best: CompareCandidate, test_share: float, judge: Judge) -> float:
    grid_point, best_bias = best.choice()
    theirs = best.trials[grid_point]
    if len(trials) == 1:
        return judge.p_value(trials[0], bias, theirs[0], best_bias)
    pairs = zip(theirs, trials, strict=True)
    return corrected_resampled_t([first.score(best_bias) - mine.score(bias) for first, mine in pairs], test_share)


# Refit of the winner on all training rows, or on as many as fit the memory limit.

MORE_ITERATIONS, TOLERANCE_FACTOR = 4, 0.1
PATH_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the grid, up to the chosen point
DUAL_BYTES = 128  # for each row: the vectors of the method, float64


@dataclass(frozen=True, eq=False)
class Winner:
    """Refitted winner; its schema has the scaling and metric of its inputs.

    values : of the parameter, for each class against the rest; chosen : by an online solver or ridge
    certificate : as JSON; None for online solvers and ridge
    """

    predictor: Predictor
    schema: Schema
    rows: int
    values: tuple[float, ...] = ()
    certificate: dict[str, Any] | None = None
    chosen: dict[str, Any] | None = None


def fit_winner(
    settings: CompareSettings,
    data: Dataset,
    best: CompareCandidate,
    feature_map: FeatureMap | None,
    execution: Execution,
    observer: Observer,
) -> Winner:
    """Train the best candidate again with its parameter and bias rule.

    feature_map : map of certified models; None: the inputs; observer : of rows done, the total, and metrics
    """
    name = best.name
    if not is_model(name):
        return _train_solver(settings, data, name, execution, observer)
    chosen, bias = best.choice()
    columns = data.schema.n_features + (0 if feature_map is None else feature_map.n_columns)
    sparse = data.schema.sparse is not None
    item_bytes = np.dtype(settings.precision).itemsize
    row_bytes = DUAL_BYTES + (stored_row_bytes(data, data.split("train")[0]) if sparse else columns * item_bytes)
    n_rows = max(2, min(data.rows("train"), int(settings.memory * 2**30 / row_bytes)))
    rows = sample_rows(data, "train", n_rows, settings.seed, settings.precision, MANY_GROUPS)
    features = rows.inputs if feature_map is None else transform_rows(feature_map, rows.inputs, execution.n_threads)
    signs = compare_grids.signs_of_classes(rows.targets, max(2, len(data.schema.labels)))
    grid = compare_grids.on_rows(best.grid, features, signs)
    method = MethodChoice(
        tolerance=TOLERANCE_FACTOR * settings.tolerance, max_iterations=MORE_ITERATIONS * settings.iterations
    )
    # warm-started from more regularised values: a cold start takes several times the iterations
    steps = sorted({round(share * chosen) for share in PATH_SHARES}) if grid.parameter != "kappa" else [chosen]
    points = [grid.points[step] for step in steps]
    values, fits = list[float](), list[Fitted]()
    for index, sign in enumerate(signs):
        observer.advance(index * len(sign), len(signs) * len(sign), {})
        some_rows: Any = matrix_rows(features, sign, execution.n_threads)  # minimax models take no sparse ones
        solved = solve_path(grid, points, some_rows, index, method, partial(class_moments, some_rows))[-1]
        values.append(solved.parameter)
        fits.append(solved.solution)
    weights, own = [fit.weights for fit in fits], [fit.bias for fit in fits]
    biases = with_biases(weights, own, model_class(name).HAS_OWN_BIAS, features, signs).biases[bias]
    shared = SparseInputs(columns, settings.precision) if sparse else feature_map
    predictor = affine_predictor(shared, np.array(weights), np.array(biases), settings)
    return Winner(predictor, data.schema, len(rows.targets), tuple(values), _certificate(fits))


def with_probabilities(winner: Winner, best: CompareCandidate) -> Winner:
    """Return the winner, calibrated on the scores of the folds where these are of enough rows of two classes.

    It predicts the classes that it did before.
    """
    grid_point, bias = best.choice()
    held = [(trial.held[bias], trial.held_classes) for trial in best.trials[grid_point] if trial.held]
    predictor = winner.predictor
    if len(held) < len(best.trials[grid_point]) or not isinstance(predictor, BasePredictor):
        return winner
    scores, classes = (np.concatenate(parts) for parts in zip(*held, strict=True))
    if np.sort(np.bincount(classes, minlength=2))[-2] < LEAST_CALIBRATED:
        return winner
    calibration = fit_calibration(scores, classes)
    return replace(winner, predictor=CalibratedPredictor(predictor, calibration, calibration.offsets))


def _certificate(fits: list[Fitted]) -> dict[str, Any]:
    """Return the certificate as JSON; over classes, gaps and objectives are summed, the relative gap is the largest."""
    certificates = [fit.certificate for fit in fits]
    return {
        "kind": "duality gap",
        "gap": sum(some.gap for some in certificates),
        "relative_gap": max(some.relative_gap for some in certificates),
        "objective": sum(some.primal for some in certificates),
        "dual_objective": sum(some.dual for some in certificates),
        "iterations": sum(fit.iterations for fit in fits),
        "outcome": reasons_of([fit.outcome for fit in fits]),
    }


def affine_predictor(
    feature_map: FeatureMap | None, weights: FloatArray, biases: FloatArray, settings: CompareSettings
) -> LinearPredictor:
    """Return a predictor with scores <w, x> - bias, of weights (n_outputs, n_columns) and biases (n_outputs,)."""
    precision = settings.precision
    if feature_map is not None:
        return LinearPredictor(feature_map, weights.astype(precision), (-biases).astype(precision))
    n_inputs = weights.shape[1]
    inputs = StandardisedLinear(np.zeros(n_inputs, dtype=precision), np.ones(n_inputs, dtype=precision), 1.0)
    return LinearPredictor(inputs, np.column_stack([weights, -biases]).astype(precision))


def _train_solver(
    settings: CompareSettings, data: Dataset, name: str, execution: Execution, observer: Observer
) -> Winner:
    """Train as `okl train` does, online solvers in one pass over all rows; the memory limit does not apply."""
    if name == AUTO:
        choice = choose_solver(train_settings(settings, name), data)
        columns = training_columns(choice.settings, data, metric=choice.metric)
        best = train_growing_models(choice, columns, execution)
        trained, used = best.trained, best.settings.options.model_dump(exclude_unset=True)
        of_solver = named_reasons(trained.solver.chosen(trained.state), None, CHOSEN_AUTOMATICALLY)
        chosen = {"solver": best.settings.solver} | used | of_solver
        parts = (best.settings, trained.state, trained.predictor, columns)
        predictor, _ = calibrated(*parts, execution.n_threads, choice.calibration)
        return Winner(predictor, columns.schema, data.rows("train"), chosen=chosen)
    of_winner = train_settings(settings, name)
    solver = make_solver(of_winner, data)
    made = run_loop(solver, solver.start(data, execution), data, execution, observer)
    chosen = named_reasons(solver.chosen(made.state), of_winner.options)
    return Winner(made.predictor, data.schema, data.rows("train"), chosen=chosen)


# Stages of a comparison.

LEAST_OF_CLASS = 2


@dataclass(eq=False)
class ComparisonRun(Run[CompareSettings]):
    """Comparison run."""

    STAGES = ("plan", "search", "refit", "evaluate", "save", "report")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.output = output_folder(_folder(self.settings))

    @property
    def name(self) -> str:
        return self.folder.name

    def check_settings(self) -> None:
        check(self.settings)

    def plan(self) -> dict[str, Any]:
        """Read the sample, draw the map, make the grids and start workers."""
        settings = self.settings
        assert self.output is not None
        self.output.open()
        self._opened = open_run_data(self, settings)
        self.data = scaled_data(settings, self._opened)
        self._standardises = settings.rescale == "auto" and self.data.schema.scale != self._opened.schema.scale
        if not is_dataset(settings.data):
            named = replace(self.data, folder=place_of(settings.data))  # errors name the source
            check_models(settings, named)
        self.names = model_names(settings, self.data.schema.task, self.data.schema.sparse is not None)
        n_classes = max(2, len(self.data.schema.labels))
        shared = (self.data, settings.rows, settings.seed, settings.precision, settings.folds, settings.holdout)
        sample, self.feature_map, self.chosen = Sample(*shared), None, dict[str, Any]()
        if (choice := map_choice(settings, self.names)) is not None:
            few = sample.all().inputs[:SAMPLE_ROWS]
            self.feature_map, self.chosen = choice.draw(self.data.schema, few, settings.seed, settings.precision)
        self.sample = Sample(*shared, self.feature_map)
        rows = self.sample.all()
        if self.data.schema.task != "regression":
            self._check_classes(np.bincount(class_indices(self.data.schema, rows.targets), minlength=n_classes))
        self._check_groups(self.sample.kinds(rows.targets))
        features, signs = self.sample.mapped(rows.inputs), compare_grids.signs_of_classes(rows.targets, n_classes)
        grids = {
            name: compare_grids.make_grid(name, features, signs, settings.grid) for name in self.names if is_model(name)
        }
        self._search = ModelSearch(settings, self.sample, self.names, grids, n_classes)
        return {"rows": len(rows.targets), "rungs": list(self._search.steps()), "models": list(self.names)}

    def _check_classes(self, counts: NDArray[np.int64]) -> None:
        """Raise DataError if a class of the data has too few sampled rows to be in the training rows of every fold."""
        rarest = int(np.argmin(counts))
        if counts[rarest] < LEAST_OF_CLASS and counts.sum() < self.data.rows("train"):
            raise DataError(
                f"Class {self.data.schema.labels[rarest]} has {counts[rarest]} of the {counts.sum():,} sampled rows; "
                f"each fold needs one to train on. Raise --rows, up to {self.data.rows('train'):,}."
            )

    def _check_groups(self, classes: Doubles) -> None:
        """Raise DataError if folds of whole groups, which classes may leave out, have too few rows."""
        tested, name = self.sample.tested(), group_of(self.data)
        n_parts = self.sample.n_parts if name is not None and self.settings.holdout != "test" else 0
        for part in range(n_parts):
            held = tested == part
            if not held.any() or len(np.unique(classes[~held])) < len(np.unique(classes)):
                raise DataError(
                    f"Folds are whole groups of {name!r}, and fold {part + 1} of {n_parts} would have "
                    f"{'no rows' if not held.any() else 'all rows of a class'}. Use fewer folds, or more groups."
                )

    def search(self) -> dict[str, Any]:
        """Fit and validate all values of all models."""
        started = time.perf_counter()
        candidates = self._search.run(self.execution, self.observer.advance)
        self._search_seconds = time.perf_counter() - started
        best = winner_of(candidates)
        if best is None:
            raise DivergedError(f"Every model failed. The first error: {candidates[0].failure}")
        self.best: CompareCandidate = best
        share = self.sample.test_rows(0) / self.sample.train_rows()
        self.table = table_of(candidates, share, self._search.judge)
        return {"winner": best.name, "mean": self.table[0]["mean"]}

    def refit(self) -> dict[str, Any]:
        """Train the winner again, and calibrate its scores."""
        data = self._opened if self.best.name == AUTO and self._standardises else self.data
        winner = fit_winner(self.settings, data, self.best, self.feature_map, self.execution, self.observer)
        self.winner: Winner = with_probabilities(winner, self.best)
        return {"rows": self.winner.rows, "certificate": self.winner.certificate}

    def evaluate(self) -> dict[str, Any]:
        """Compute metrics of the winner and the majority class on both splits."""
        data = replace(self.data, schema=self.winner.schema)
        constant = ConstantPredictor(self.data.schema)
        predictors = {"winner": self.winner.predictor, constant.name: constant}
        self.metrics: dict[str, dict[str, Any]] = {"train": {}, "test": {}}
        for split, figures in self.metrics.items():
            if shards := self.data.split(split):  # type: ignore[arg-type]  # one of both
                tallies = predictor_tallies(data, shards, predictors, self.settings.precision, self.execution)
                figures |= {name: scalar_metrics(tally.report()) for name, tally in tallies.items()}
        return {split: figures["winner"] for split, figures in self.metrics.items() if figures}

    def save(self) -> dict[str, Any]:
        """Write the winner's model folder."""
        row = self.table[0]
        chosen = {name: row[name] for name in ("model", "parameter", "value", "bias")} | self._chosen()
        origin = provenance(self.data, self.settings.seed) | {"chosen": chosen}
        settings = self.settings.model_dump(mode="json")
        model = Model(self.winner.schema, self.winner.predictor, settings, origin)
        self.weights_sha256 = save_model(model, self.staging / "model")
        return {"weights_sha256": self.weights_sha256}

    def report(self) -> dict[str, Any]:
        """Write result.json and report.html, and publish the run's folder."""
        self._result = self._collect()
        (self.staging / "report.html").write_text(html(comparison_page(self._result)), encoding="utf-8")
        self.complete()
        return {"run": str(self.folder)}

    def report_markdown(self) -> str:
        return markdown(comparison_page(self._result))

    def metrics_table(self) -> list[dict[str, Any]]:
        return [scalar_metrics(row) for row in self._result["models"]]

    def _chosen(self) -> dict[str, Any]:
        """Return the chosen values of the winner, with those of the shared map if it was trained on it."""
        return (self.chosen if is_model(self.best.name) else {}) | (self.winner.chosen or {})

    def _collect(self) -> dict[str, Any]:
        settings, schema, sample, winner = self.settings, self.data.schema, self.sample, self.winner
        data_folder = place_of(settings.data).absolute() if is_dataset(settings.data) else self.folder / "data"
        constant = ConstantPredictor(schema).name
        baselines = {split: figures.get(constant) for split, figures in self.metrics.items()}
        criterion = self._search.judge.criterion
        return {
            "model": str(self.folder / "model"),
            "run": str(self.folder),
            "name": settings.name or self.name,
            "winner": {
                "model": self.best.name,
                "parameter": self.table[0]["parameter"],
                "value": winner.values[0] if len(winner.values) == 1 else None,
                "values": list(winner.values),
                "bias": self.best.choice()[1],
                "rows": winner.rows,
                "chosen": self._chosen(),
            },
            "certificate": winner.certificate,
            "models": self.table,
            "criterion": criterion,
            "assumptions": self._assumptions(),
            "constant": constant_score(schema, criterion),
            "test_name": CORRECTED if sample.n_parts > 1 else TESTS[criterion],
            "parts": sample.n_parts,
            "search_rows": len(sample.all().targets),
            "rungs": list(self._search.steps()),
            "judged_rows": sum(sample.test_rows(number) for number in range(sample.n_parts)),
            **{split: figures.get("winner") for split, figures in self.metrics.items()},
            "baselines": {constant: baselines},
            "weights_sha256": self.weights_sha256,
            "search_seconds": self._search_seconds,
            "total_seconds": time.perf_counter() - self.timeline.begun,
            "peak_memory_bytes": peak_memory_bytes(),
            "workers": self.execution.n_workers,
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, data_folder),
        }

    def _assumptions(self) -> list[str]:
        """Return a sentence for each default that decided how rows were read and models compared."""
        given = is_dataset(self.settings.data)
        sentences = [] if given else assumptions(self.data, self.settings.ingest)
        if self._standardises:
            sentences.append("inputs are standardised (--rescale)")
        return [*sentences, *filter(None, [left_out(self.settings, self.data.schema)])]


def scaled_data(settings: CompareSettings, data: Dataset) -> Dataset:
    """Return a data set with the scaling of a comparison: as given, or standard if the data set has none."""
    wanted: Scaling = data.schema.scaling if settings.rescale == "auto" else settings.rescale
    if settings.rescale == "auto" and wanted == "none" and data.schema.feature_statistics:
        wanted = "standard"
    if wanted in ROBUST and not data.schema.squashed:
        data = with_squashed(data, settings.seed)
    return replace(data, schema=data.schema.scaled_as(wanted))


def check(settings: CompareSettings) -> None:
    """Raise an error for wrong settings or data without reading rows or starting a server or workers."""
    check_execution_options(settings)
    model_names(settings)
    check_data(settings, lambda data: check_models(settings, data), lambda ingest_settings: None)
    check_published(_folder(settings))


def _folder(settings: CompareSettings) -> Place:
    return run_folder(settings, COMPARED)
