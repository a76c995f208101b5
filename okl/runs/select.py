"""Automatic choice of solver, kernel, bandwidth and size."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from okl.data.dataset import BESIDE_WORDS, ROBUST, Dataset, Scale, Scaling, Schema
from okl.data.execution import Rows
from okl.data.ingest.columns import share_of
from okl.data.manifest import group_of, read_manifest
from okl.data.reading import MANY_GROUPS, sample_rows, sampled_groups
from okl.data.squash import with_squashed
from okl.distributed.in_process import default_threads
from okl.features.metric_learning import metric_shares
from okl.foundation.errors import ConfigError
from okl.foundation.settings import last_share_of
from okl.foundation.telemetry import NullObserver, Observer, memory_bytes
from okl.foundation.types import Criterion
from okl.kernels import shift_invariant_kernels
from okl.metrics.calibration import ScoreCalibration
from okl.metrics.criterion import OF_PROBABILITIES, criterion_of
from okl.report.format import CRITERION_NAMES, NEIGHBOURS, criterion_value, error_value, named_error
from okl.runs import model_sizes
from okl.runs.baselines import COSTS
from okl.runs.calibrate import MOST_ROWS
from okl.runs.candidates import (
    LARGE_SAMPLE,
    POWER,
    Candidate,
    CandidateResult,
    MetricCheck,
    Selection,
    Validation,
    ValidationSample,
    initial_candidates,
    kernel_has_gradient,
    larger_sample,
    successive_halving,
    with_checked_metric,
    with_larger_sample,
)
from okl.runs.memory import MIB, USABLE, check_choice_memory, choice_bytes, fits, workload_of
from okl.runs.model_sizes import (
    MANY_INPUTS,
    SELECTION_SHARE,
    Shape,
    Size,
    affordable_sizes,
    check_seconds,
    is_wide,
    large_sample_seconds,
    larger_budget,
    largest_affordable,
    local_sizes,
    rounds_seconds,
    selection_rounds,
    sizes_of,
    tuning_seconds,
)
from okl.runs.select_sparse import choose_sparse
from okl.solvers.ridge.cells import LocalSolver
from okl.solvers.ridge.gram import Clip, Outputs
from okl.solvers.ridge.penalty_path import FOLDS, HUBER, HUBER_ROUNDS
from okl.solvers.settings import AutoSettings, TrainSettings

_ROWS_OF_INPUT = 50  # at least, for a metric of the first round: of fewer rows, it fits these and not new ones
_MOST_CHECKED, _LEAST_CHECKED = (4096, 768), (256, 128)  # rows and landmarks of a check of a metric
_CHECK_SHARE = 0.15  # of the budget, at most, for a check of more rows, and for a lasso
_LASSO_NUMBER = 1e-6  # seconds of a lasso in folds, for each input of a row
_FOLDED = 2.4  # times the seconds of a candidate in five folds
_NARROWER = 1 / 3  # power of the number of landmarks: more of them stand closer, and suit a narrower kernel
_CLEARLY = 0.95  # times the error of the best candidate: models in cells are preferred to Huber's loss, which they lack
_NEAR = 1.25  # times the error of the best candidate: models in cells are trained, too, and compared
_MOST_SUPPORTS = 1.25e8  # numbers in the rows that a model in cells holds: a gigabyte
_PROBES = (("laplacian", 2.0), ("gaussian", 1.0))  # kernels and factors that decide whether heavy tails are squashed
_CLEARLY_LESS = 0.99  # times the error of the inputs as they are: of 17 sets, 7 within 0.3% of it gained nothing

# Similarity of neighbouring rows, which decides between shuffled and contiguous folds

LEAST_ROWS = 200
_MORE, _MUCH_MORE = 1.25, 3.0  # times the error of fifths that are drawn at random
_DEVIATIONS = 4.0


@dataclass(frozen=True)
class NeighbourSimilarity:
    """Errors of a candidate with contiguous and with shuffled folds, which show whether neighbouring rows are similar.

    together : 5-fold error with contiguous folds
    apart : 5-fold error with shuffled folds

    Source: Roberts et al., Ecography 40(8), 2017, on blocked cross validation; both thresholds are okl's own.
    """

    together: float
    apart: float
    rows: int
    criterion: Criterion

    @property
    def differs(self) -> bool:
        """Return whether the error with contiguous folds is significantly larger."""
        if self.rows < LEAST_ROWS or self.together <= _MORE * self.apart:
            return False
        variance = sum(rate * (1.0 - rate) for rate in (self.together, self.apart)) / self.rows
        return self.criterion != "accuracy" or self.together - self.apart > _DEVIATIONS * variance**0.5

    @property
    def decides(self) -> bool:
        """Return whether the error is so much larger that leave-one-out errors are misleading for new data.

        On satimage, ijcnn1 and w7a it is up to twice as large, and selection by contiguous folds costs 0.3 to 0.7
        points on their test rows; on occupancy_detection it is nine times as large, and gains 9 points.
        """
        return self.differs and self.together > _MUCH_MORE * self.apart

    def sentences(self, blocks: bool) -> str:
        """Return the sentences for the report; blocks : whether candidates were validated with contiguous folds."""
        measure, apart, together = "5-fold error is", f"{self.apart:.1%}", f"{self.together:.1%}"
        if self.criterion == "squared-error":
            measure = "5-fold share of unexplained variance is"
        elif self.criterion != "accuracy":
            measure = f"5-fold {CRITERION_NAMES[self.criterion]} is"
            apart, together = (criterion_value(self.criterion, error) for error in (self.apart, self.together))
        text = f"{NEIGHBOURS}: {measure} {apart} with shuffled folds, {together} with contiguous folds."
        if blocks:
            return f"{text} Candidates were validated with contiguous folds, because the test rows were given."
        expected = f"{self.together:.0%}" if self.criterion in ("accuracy", "squared-error") else together
        tests = "--holdout last tests on the last rows, --validation blocks selects for them"
        return f"{text} Expect at least {expected} on data from a new period: {tests}."


def are_test_rows_given(data: Dataset) -> bool:
    """Return whether the test rows were given, not drawn; given ones are often from another period or place."""
    return data.rows("test") > 0 and share_of(read_manifest(data.folder).settings.get("holdout")) is None


# Choice of solver, scaling, kernel, bandwidth and size within a budget of nominal seconds, with reasons

_LEFT_OUT: dict[Validation, str] = {"rows": "leave-one-out", "blocks": "5 contiguous folds"}
METRIC_SECONDS = 20.0  # nominal, for the metric of a given solver
_MOST_OF, _MOST_NAMED = 0.9, 6  # of the squared distance, and columns, that the sentence on a metric names
_NEAR_LINEAR = 2.0  # times the least error of several classes: logistic regression is tried where planes come that near
_SAME = 0.5  # standard errors: a linear model that close to the best is preferred, as it is simpler


@dataclass(frozen=True)
class Choice:
    """Models to train one after the other, and the record of their choice, stored in the result as "choice".

    models : complete settings and size of each model, the cheapest first; the size is None where there is only one
    metric : learnt weights of the inputs of all models, see `Dataset.with_metric`; () for none
    calibration : on held-out folds of sampled rows, contiguous or of groups, or in which the metric was checked, or on
        the held-out rows of a choice for sparse ones
    """

    models: tuple[tuple[TrainSettings, Size | None], ...]
    record: dict[str, Any]
    metric: tuple[float, ...] = ()
    calibration: ScoreCalibration | None = None

    @property
    def settings(self) -> TrainSettings:
        return self.models[-1][0]


@dataclass(frozen=True)
class _Task:
    """Settings, with those that follow from the data, the data set, and what models are compared by.

    group : a stored column whose groups no fold divides, or None
    """

    settings: TrainSettings
    data: Dataset
    outputs: Outputs
    group: str | None

    @property
    def options(self) -> AutoSettings:
        return _options_of(self.settings)

    @property
    def criterion(self) -> Criterion:
        return self.outputs.criterion

    @property
    def shape(self) -> Shape:
        schema = self.data.schema
        return Shape(self.data.rows("train"), schema.n_features, schema.n_outputs)


def _options_of(settings: TrainSettings) -> AutoSettings:
    assert isinstance(settings.options, AutoSettings), "the solver is auto"
    return settings.options


def _task_of(settings: TrainSettings, data: Dataset, group: str | None) -> _Task:
    schema, rows = data.schema, data.rows("train")
    if rows < 2:
        raise ConfigError(f"There are {rows} training rows, but --solver auto needs at least 2. Name a solver.")
    criterion = criterion_of(settings.judged_by(schema.task), schema.task, schema.class_counts, schema.target)
    if criterion == "balanced-accuracy" and _options_of(settings).class_weights == "none":
        settings = settings.replaced(class_weights="balanced")
    group = group or group_of(data)
    newest = bool(settings.ingest and last_share_of(settings.ingest.holdout))  # test rows of a later time
    if (group or newest) and _options_of(settings).validation == "auto":
        settings = settings.replaced(validation="blocks")
    if _is_scaling_open(settings, schema):
        data = with_squashed(data, settings.seed)
        if schema.sparse is not None:
            settings = settings.replaced(rescale=BESIDE_WORDS)
            data = replace(data, schema=data.schema.scaled_as(BESIDE_WORDS))
    weights = _options_of(settings).weights_of_classes(schema)
    return _Task(settings, data, Outputs(schema.task, schema.n_outputs, weights, criterion), group)


def choose_solver(
    settings: TrainSettings, data: Dataset, observer: Observer | None = None, group: str | None = None
) -> Choice:
    """Choose the best candidate on a sample of the training rows, and its size by the budget; settings.solver is auto.

    The same data, budget and seed give the same choice on any machine of one kind: time is counted in operations.

    group : a stored column, see `group_of`, whose value is the default
    Raises ConfigError : fewer than two training rows; validation is blocks, and no class has two rows
    Raises DataError : shards that cannot be read
    """
    started_at, task = time.perf_counter(), _task_of(settings, data, group)
    if data.schema.sparse is not None:
        chosen, record, calibration = choose_sparse(task.settings, task.data, task.outputs)
        record |= {"seconds": time.perf_counter() - started_at}
        return Choice(((chosen, None),), record, calibration=calibration)
    result, by, of_neighbours, track = _raced(task, _Progress(observer or NullObserver()))
    in_folds = track.judging("blocks" if by == "blocks" else "fifths")
    result = with_lasso(in_folds, task.settings, _with_logistic(task, result, track, in_folds), task.shape)
    update, why = _best_of(result, by, task.criterion, task.outputs.task == "multiclass")
    tails, tried, hint = _robust(task, result, update, track, by)
    update |= {"huber": HUBER} if tails else {}
    metric, on_metric = _metric_of(task, result, update)
    update |= {"metric": "diagonal"} if metric or result.sparse else {}
    why += tried + on_metric
    models, tuned_seconds = _models_of(task, result, by, update, why, track.clip is None)
    if "huber" in update:  # cells may have taken its place
        why[:1] = [tails, f"By least squares: {why[0].partition(' candidates: ')[2]}"]
    only = models[0][1] if len(models) == 1 else None
    if only is not None:
        sentence, advice = _limit(task, only)
        why.append(sentence)
        hint = hint or advice
    why = _in_words_of(task, why, by) + of_neighbours
    record = {
        "validation": by,
        "criterion": task.criterion,
        "rows": result.winner.rows,
        "budget_seconds": task.options.budget_seconds,
        "nominal_seconds": _nominal_seconds(task, result, by) + tuned_seconds + (only.seconds if only else 0.0),
        "seconds": time.perf_counter() - started_at,
        "candidates": [candidate.as_json() for candidate in (*result.ran, *(result.logistic or ())[:1])],
        "why": ordered_reasons(why, models[0][0]) if len(models) == 1 else why,
    }
    record |= ({"hint": hint} if hint else {}) | ({"far_targets": True} if track.clip else {})
    return Choice(tuple(models), record, metric, _calibration_of(task, result, models, update, track, by))


def _with_logistic(task: _Task, result: Selection, track: ValidationSample, in_folds: ValidationSample) -> Selection:
    """Return results with logistic regression in folds, if it may be the best model."""
    rival = result.winner if task.criterion in OF_PROBABILITIES else None
    if task.criterion == "accuracy" and task.outputs.class_weights is None and _is_linear_enough(result):
        rival = result.best_linear
    if task.outputs.task == "multiclass":
        rival = result.winner if result.best_linear.error <= _NEAR_LINEAR * result.winner.error else None
    if task.outputs.task == "regression" or rival is None or not (some := track.can_fit_logistic(result.winner.rows)):
        return result
    least_squares = in_folds.run(rival.candidate, some, min(some, rival.landmarks), in_last_round=False)
    scale: Scaling = "robust" if rival.candidate.scale in ROBUST else "standard"
    return replace(result, logistic=(in_folds.run_logistic(some, scale), least_squares))


def _robust(
    task: _Task, result: Selection, update: dict[str, Any], track: ValidationSample, by: Validation
) -> tuple[str, list[str], str]:
    """Return a sentence if Huber's loss suits a regression, otherwise "", sentences on its target, and a hint."""
    rows, schema = task.shape.rows, task.data.schema
    if (
        schema.task != "regression"
        or result.sparse
        or rows < LEAST_ROWS
        or sizes_of(task.shape, of_classes=False)[0].solver != "ridge"
    ):
        return "", [], ""
    taken = result.best_linear if update["kernel"] == "linear" else result.winner
    if track.clip is not None:
        tails = (
            f"{_capitalised(taken.candidate.name)}, of {len(result.ran)} candidates, with Huber's loss as a few "
            "targets are far from all others; candidates are compared with these clipped."
        )
        return tails, [], _far_targets(track.clip, schema)
    tails = _heavy_tails(track.judging(by), taken, result.winner.rows, len(result.ran))
    return tails, *_logarithm(track.judging(by), taken, result.winner.rows, schema.target)


def _metric_of(task: _Task, result: Selection, update: dict[str, Any]) -> tuple[tuple[float, ...], list[str]]:
    """Return the metric of the chosen model, or (), and sentences on it."""
    if result.sparse:
        return result.winner.candidate.metric, []
    metric = () if update.get("kernel") == "linear" else result.winner.candidate.metric
    if metric:
        return metric, [metric_sentence(result, task.data.schema, task.criterion)]
    if result.check and not result.check.helps:
        return (), [f"No metric was learnt, {_no_help(result.check, task.criterion)}."]
    return (), []


def _models_of(
    task: _Task, result: Selection, by: Validation, update: dict[str, Any], why: list[str], cells: bool
) -> tuple[list[tuple[TrainSettings, Size | None]], float]:
    """Return the models to train, the cheapest first, and the nominal seconds of what was tuned for them.

    update, why, cells : see `_sizes_with_cells`; cells know squares only
    """
    if "solver" in update:
        return [(_complete(task.settings, update, result, by), None)], 0.0
    models = list[tuple[TrainSettings, Size | None]]()
    sizes, local, tuned_seconds = _sizes_with_cells(task, update, result, by, why, cells)
    for size in sizes:
        sized = update | size.options | {"solver": size.solver}
        if size.solver == "falkon" and "bandwidth" in update:
            fewer = result.winner.landmarks / size.options["n_landmarks"]
            sized["bandwidth"] = update["bandwidth"] * fewer**_NARROWER
        if size.solver == "fogd" and task.outputs.task == "binary" and task.criterion in OF_PROBABILITIES:
            sized["loss"] = "logistic"
        if size.solver == "local":
            sized |= {"kernel": local["kernel"], "bandwidth": local["bandwidth"]}
            sized["penalty"] = local["ridge"] / size.options["cell_rows"]
        models.append((_complete(task.settings, sized, result, by), size))
    return models, tuned_seconds


def _limit(task: _Task, size: Size) -> tuple[str, str]:
    """Return a sentence on what limits the size of the only model, and an advice or ""."""
    if size.options.get("n_landmarks") == task.shape.rows:
        return f"All {task.shape.rows:,} training rows are landmarks, so the solution is exact.", ""
    name, seconds = _capitalised(size.name), task.options.budget_seconds
    if not size.next_budget:
        return f"{name}, the largest size that is tried.", ""
    return f"{name}, as many as {seconds:g} s allow on a machine with two cores.", larger_budget(size)


def _in_words_of(task: _Task, why: list[str], by: Validation) -> list[str]:
    """Return sentences that name the folds of groups, and weighted mistakes."""
    if task.group and by == "blocks":
        why = [sentence.replace(_LEFT_OUT[by], f"5 folds of whole groups of {task.group!r}") for sentence in why]
    if task.outputs.class_weights is not None:  # by which the sampled rows count
        why = [sentence.replace("% mistakes", "% weighted mistakes") for sentence in why]
    return why


def _calibration_of(
    task: _Task,
    result: Selection,
    models: list[tuple[TrainSettings, Size | None]],
    update: dict[str, Any],
    track: ValidationSample,
    by: Validation,
) -> ScoreCalibration | None:
    """Return the calibration of the chosen model's scores on held-out folds; None where rows are left out singly."""
    if result.logistic and models[0][0].solver == "logistic":
        if task.outputs.task == "binary":
            return None  # scores are log-odds
        logistic = result.logistic[0]
        n = min(MOST_ROWS, len(COSTS) * logistic.rows)  # of one cost, not of all
        folds: Validation = "blocks" if by == "blocks" else "fifths"
        larger = _sample(task.settings, task.data, n, task.outputs, folds, task.group, track.fitted)
        return larger.calibrate_logistic(logistic)
    if result.sparse:
        return result.sparse[1]
    if result.check and update.get("metric") and result.check.calibration is not None:
        return result.check.calibration
    if by == "blocks" and task.outputs.task != "regression":  # rows left out singly are too like others
        return track.calibration(result.best_linear if update["kernel"] == "linear" else result.winner)
    return None


def lasso_seconds(shape: Shape) -> float:
    """Return the nominal seconds of a lasso in folds."""
    return _LASSO_NUMBER * shape.rows * shape.inputs * shape.outputs


def with_lasso(track: ValidationSample, settings: TrainSettings, result: Selection, shape: Shape) -> Selection:
    """Return results with a lasso as the winner, if inputs are many for the rows and it is better than all others.

    Of 300 rows of 3,000 inputs, 10 of which matter, least squares explain .06 of the variance and a lasso .74.

    track : the sample, in folds, which has all rows
    """
    is_few = shape.rows < min(model_sizes.ROUNDS[-1][0], MANY_INPUTS * shape.inputs) and track.has_folds(shape.rows)
    affordable = lasso_seconds(shape) <= _CHECK_SHARE * _options_of(settings).budget_seconds
    if settings.metric == "none" or not is_few or not affordable or track.clip is not None:
        return result
    winner = result.winner
    found = track.run_lasso(winner.candidate.scale)
    if found is None:
        return result
    lasso, calibration = found
    if result.check and result.check.helps:
        other = result.check.learnt
    else:
        other = track.run(winner.candidate, winner.rows, winner.landmarks, in_last_round=False)
    if result.logistic and result.logistic[0].error < other.error:
        logistic = result.logistic[0]
        other = replace(logistic, squared_error=other.squared_error)
    if lasso.error >= other.error or lasso.squared_error >= other.squared_error:
        return result
    return replace(result, ran=(lasso, *result.ran), logistic=None, sparse=(other, calibration))


def _sizes_with_cells(
    task: _Task, update: dict[str, Any], result: Selection, by: Validation, why: list[str], cells: bool
) -> tuple[list[Size], dict[str, Any], float]:
    """Return the sizes that the budget allows, what was tuned in cells, and the nominal seconds of that.

    update : loses Huber's loss where cells are clearly better; why : gets a sentence if cells were tried
    cells : whether they may be tried
    """
    options, shape, local, tuned_seconds = task.options, task.shape, dict[str, Any](), 0.0
    seconds = (1.0 - SELECTION_SHARE) * options.budget_seconds
    if by == "blocks" and options.validation != "blocks":  # there were rounds before those in folds
        seconds -= SELECTION_SHARE * options.budget_seconds
    if result.enlarged:
        seconds -= large_sample_seconds(options.budget_seconds, shape, list(model_sizes.ROUNDS))
    seconds -= _seconds_of_check(result, shape)
    sizes = sizes_of(shape, task.outputs.task != "regression")
    if (
        cells
        and by == "rows"
        and shape.rows > model_sizes.ENOUGH_LANDMARKS
        and shape.rows * shape.inputs <= _MOST_SUPPORTS
    ):
        needed = tuning_seconds(shape) * len(_local_kernels(update))
        cells_of = local_sizes(shape, seconds - needed if sizes[0].solver == "fogd" else math.inf)
        smallest = cells_of[:1]
        if smallest and not _fitting(task, update, smallest):
            why.append(_too_large(smallest[0]))
        elif smallest and smallest[0].seconds + needed <= seconds:
            tuned_seconds = needed
            # where both are trained, a sample need not decide; online models cannot be compared with these
            most = 1.0 if sizes[0].solver == "fogd" else _NEAR
            most = _CLEARLY if "huber" in update else most
            local, sentence = _local(task, update, result, most)
            why.append(sentence)
    if local and update.pop("huber", None):
        why.append("Least squares in cells are clearly better, so Huber's loss is not used.")
    left = seconds - tuned_seconds
    if "huber" in update:
        sizes, left = [size for size in sizes if size.solver == "ridge"], left / (1 + HUBER_ROUNDS)
    if local:
        offline = [size for size in sizes if size.solver != "fogd"]
        sizes = sorted([*offline, *cells_of], key=lambda size: size.seconds)
    fitting = _fitting(task, update, sizes)
    if len(fitting) < len(sizes):
        why.append(_too_large(next(size for size in sizes if size not in fitting)))
        sizes = fitting or sizes[:1]  # training refuses the smallest, and says what it needs
    # errors by rows flatter under "blocks", and no rows are left to compare online models on: one size
    one = by == "blocks" or sizes[0].solver == "fogd"
    taken = largest_affordable(sizes, seconds) if one else affordable_sizes(sizes, left)
    if larger := sizes[sizes.index(taken[-1]) + 1 :]:
        missing = larger[0].seconds - seconds if one else sum(size.seconds for size in [*taken, larger[0]]) - left
        missing *= 1 + HUBER_ROUNDS * ("huber" in update)
        folds = by == "blocks" and options.validation != "blocks"
        needed = options.budget_seconds + missing / (1.0 - (1 + folds) * SELECTION_SHARE)
        taken[-1] = replace(taken[-1], next_budget=needed)
    return taken, local, tuned_seconds


def _fitting(task: _Task, update: dict[str, Any], sizes: list[Size]) -> list[Size]:
    """Return the sizes that can be trained in the memory of this machine."""
    workload, of_cells = workload_of(task.data), {"precision": "float64", "kernel": "gaussian"}
    more = {"ridge": {"precision": "float64"}, "local": of_cells}

    def fitted(size: Size) -> bool:
        values = update | size.options | {"solver": size.solver} | more.get(size.solver, {})
        if size.solver == "local":
            values.pop("huber", None)
        return fits(task.settings.replaced(**values), workload)

    return [size for size in sizes if fitted(size)]


def _too_large(size: Size) -> str:
    return (
        f"Not tried, because {USABLE:.0%} of the memory of {memory_bytes() / MIB:,.0f} MiB are too little: {size.name}."
    )


IN_CELLS = "Expansions in cells of neighbouring rows"
"""Beginning of the sentence on models in cells."""


def ordered_reasons(why: list[str], settings: TrainSettings) -> list[str]:
    """Return the sentences, that on the chosen solver first: summaries show one."""
    return sorted(why, key=lambda sentence: not sentence.startswith(IN_CELLS)) if settings.solver == "local" else why


def _local_kernels(update: dict[str, Any]) -> tuple[str, ...]:
    """Return the kernels that are tried in cells: rough functions are learned best from close neighbours."""
    able = shift_invariant_kernels()  # an added kernel may be none
    return tuple(dict.fromkeys(name for name in ("laplacian", update["kernel"]) if name in able))


def _local(task: _Task, update: dict[str, Any], result: Selection, most: float) -> tuple[dict[str, Any], str]:
    """Return the kernel, bandwidth and ridge of models in cells, with a sentence; {} if they are not good enough.

    In cells there are all rows, of which the other candidates have seen a sample.

    most : their error over that of the best candidate
    """
    candidate, data, tried = result.winner.candidate, task.data, {}
    rescaled = replace(data, schema=data.schema.scaled_as(candidate.scale)).with_metric(candidate.metric)
    for kernel in _local_kernels(update):
        solver = LocalSolver(
            kernel=kernel,
            class_weights=task.outputs.class_weights,
            seed=task.settings.seed,
            precision="float64",
            criterion=task.criterion,
        )
        tried[kernel] = solver.tuned(rescaled, _threads(task.settings), compared=True)
    kernel = min(tried, key=lambda name: tried[name].error)
    best = tried[kernel]
    sentence = (
        f"{IN_CELLS}, {kernel} kernel, all {data.rows('train'):,} training rows: "
        f"{named_error(task.criterion, best.error)} in sampled cells (leave-one-out)"
    )
    if best.error >= most * result.winner.error:
        return {}, f"{sentence}, not better."
    return {"kernel": kernel, "bandwidth": best.bandwidth, "ridge": best.ridge}, f"{sentence}."


def _nominal_seconds(task: _Task, result: Selection, by: Validation) -> float:
    """Return the nominal seconds of the choice, but for what is tuned in cells.

    These are the rounds, those in folds that follow them or stand in their place, a larger sample, a check of the
    metric, and a lasso.
    """
    options, shape = task.options, task.shape

    def of_rounds(cost: float, learns_metric: bool) -> float:
        rounds = selection_rounds(options.budget_seconds / cost, shape, n_candidates, learns_metric)
        return cost * rounds_seconds(rounds, shape, n_candidates, learns_metric)

    scales, learns_metric = _scales(task.settings, task.data.schema), task.settings.metric != "none"
    n_candidates = _n_candidates(scales)
    if options.validation == "blocks":
        seconds = of_rounds(_FOLDED, learns_metric)
    else:
        seconds = of_rounds(1.0, learns_metric) + (of_rounds(_FOLDED, False) if by == "blocks" else 0.0)
    if result.enlarged:
        seconds += large_sample_seconds(options.budget_seconds, shape, list(model_sizes.ROUNDS))
    return seconds + _seconds_of_check(result, shape) + (lasso_seconds(shape) if result.sparse else 0.0)


def checked(track: ValidationSample, result: Selection, budget_seconds: float, shape: Shape) -> Selection:
    """Return results whose winner's metric was checked, if it has one and rows are few for the inputs."""
    winner = result.winner
    rows, landmarks = min(winner.rows, _MOST_CHECKED[0]), min(winner.landmarks, _MOST_CHECKED[1])
    enough = shape.rows >= _ROWS_OF_INPUT * shape.inputs
    if not winner.candidate.metric or enough or not track.has_folds(rows):
        return result
    # fewer landmarks first: of fewer rows, errors are larger, and the calibration is not that of the model
    while rows > _LEAST_CHECKED[0] and check_seconds(shape, rows, landmarks) > _CHECK_SHARE * budget_seconds:
        rows, landmarks = (rows, landmarks // 2) if landmarks > _LEAST_CHECKED[1] else (rows // 2, landmarks)
    separates = is_wide(shape) or (result.enlarged and shape.rows < LARGE_SAMPLE[0])
    return with_checked_metric(track, result, rows, landmarks, POWER if separates else 1.0)


def _seconds_of_check(result: Selection, shape: Shape) -> float:
    if result.check is None:
        return 0.0
    return check_seconds(shape, result.check.learnt.rows, result.check.learnt.landmarks)


def metric_sentence(result: Selection, schema: Schema, criterion: Criterion) -> str:
    """Return the sentence on the metric of the winner: the columns that matter, and the error without it."""
    winner = result.winner
    learnt = replace(schema.scaled_as(winner.candidate.scale), metric=winner.candidate.metric)
    shares, total, named = metric_shares(learnt), 0.0, list[str]()
    for column, share in shares.items():
        if total >= _MOST_OF or len(named) == _MOST_NAMED:
            break
        named.append(repr(column))
        total += share
    of = f"{len(named)} of {len(shares)} columns" if len(shares) > 1 else "the column"
    text = f"The metric gives {total:.0%} of the squared distance to {of}: {', '.join(named)}."
    if result.check:
        return f"{text} It was checked: {_check_words(result.check, criterion)}."
    plain = next(each for each in result.ran if not each.candidate.metric and each.candidate.kernel != "linear")
    return f"{text} Best kernel without a learnt metric: {error_value(criterion, plain.error)}."


def _check_words(check: MetricCheck, criterion: Criterion) -> str:
    learnt, plain = named_error(criterion, check.learnt.error), error_value(criterion, check.plain.error)
    return f"on {check.folds} held-out folds, {learnt} with a metric of the other folds, {plain} without one"


def _no_help(check: MetricCheck, criterion: Criterion) -> str:
    return f"as it does not reduce the squared error beyond chance: {_check_words(check, criterion)}"


def learn_metric(
    settings: TrainSettings, data: Dataset, observer: Observer | None = None
) -> tuple[tuple[float, ...], str]:
    """Return the metric for a given solver, learnt on a sample of the training rows, and a sentence on it.

    It is () if errors of kernel least squares are not smaller with a metric. The kernel is that of the
    settings, or all that the automatic choice tries.
    Raises ConfigError : fewer than two training rows; DataError : shards that cannot be read
    """
    schema, observer = data.schema, observer or NullObserver()
    if data.rows("train") < 2:
        raise ConfigError(f"{data.folder} has {data.rows('train')} training rows, but a metric needs at least 2.")
    criterion = criterion_of(settings.judged_by(schema.task), schema.task, schema.class_counts, schema.target)
    given = settings.options.model_dump().get("kernel")
    starters = [each for each in initial_candidates((schema.scaling,)) if each.kernel != "linear"]
    if kernel_has_gradient(str(given)):
        starters = [each for each in starters if each.kernel == given]
    shape = Shape(data.rows("train"), schema.n_features, schema.n_outputs)
    rounds = selection_rounds(METRIC_SECONDS / SELECTION_SHARE, shape, len(starters), learns_metric=True)
    progress, outputs = _Progress(observer), Outputs(schema.task, schema.n_outputs, None, criterion)
    track = _sample(settings, data, model_sizes.ROUNDS[-1][0], outputs, fitted=progress.fitted)
    result = successive_halving(track, starters, rounds, progress.tell, learns_metric=True, wide=is_wide(shape))
    progress.confirm()
    result = checked(track, result, METRIC_SECONDS / SELECTION_SHARE, shape)
    if result.check and not result.check.helps:
        return (), f"No metric was used, {_no_help(result.check, criterion)}."
    if not result.winner.candidate.metric:
        error = named_error(criterion, result.winner.error)
        return (), f"No metric was used: leave-one-out errors on sampled rows are not smaller with one ({error})."
    sentence = metric_sentence(result, schema, criterion)
    return result.winner.candidate.metric, f"{sentence} With it: {named_error(criterion, result.winner.error)}."


def _far_targets(clip: Clip, schema: Schema) -> str:
    """Return the warning of targets that are far from all others."""
    known = schema.target_statistics
    assert known is not None, "a regression has them"
    low, high = np.clip(clip.offsets[0] + clip.threshold * np.array([-1.0, 1.0]), known.minimum, known.maximum)
    return (
        f"A few values of {schema.target!r} are far from all others, which are within {low:.3g} to {high:.3g}; the "
        f"least is {known.minimum:.6g}, the largest {known.maximum:.6g}. They matter little to the model and much to "
        "its mean squared error. Correct wrong values."
    )


def _heavy_tails(track: ValidationSample, taken: CandidateResult, rows: int, of: int) -> str:
    """Return a sentence if Huber's loss is better than squares for the chosen candidate, otherwise ""."""
    losses = track.compare_losses(taken.candidate, rows)
    if losses is None or not losses.is_better:
        return ""
    return (
        f"{_capitalised(taken.candidate.name)}, of {of} candidates, with Huber's loss as the errors have heavy tails: "
        f"{losses.huber:.2%} of the variance unexplained on held-out folds, with least squares {losses.squared:.2%}."
    )


def _logarithm(track: ValidationSample, taken: CandidateResult, rows: int, target: str) -> tuple[list[str], str]:
    """Return a sentence on models of a skewed target's logarithm, as reason or, if they are much better, as hint."""
    errors = track.compare_logarithm(taken.candidate, rows)
    if errors is None:
        return [], ""
    log = "log(1 + target)" if errors.added else "log(target)"
    skewed = f"{target!r} is {'a skewed count' if errors.added else 'positive and skewed'}: models of {log}"
    sentence = (
        f"{skewed} leave {errors.log:.2%} of its variance unexplained on held-out folds, models of itself "
        f"{errors.plain:.2%}"
    )
    means = "Transformed back, its predictions are medians: too low on average."
    if errors.is_better:
        return [], f"{sentence}. Train on a column with {log}. {means}"
    if errors.is_closer:
        return [], (
            f"{skewed} explain {1.0 - errors.relative:.0%} of the variance of {log} on held-out folds, models of "
            f"the target {max(0.0, 1.0 - errors.plain_relative):.0%}. If relative errors matter, train on a column "
            f"with {log}. {means}"
        )
    verdict = "not clearly better" if errors.log < errors.plain else "no better"
    return [f"{sentence}; {verdict}, so the model is of the target itself."], ""


def _complete(settings: TrainSettings, update: dict[str, Any], result: Selection, by: Validation) -> TrainSettings:
    """Return settings with a chosen model."""
    if update["solver"] in ("ridge", "local"):
        update["precision"] = "float64"  # as if they were given
    if update["solver"] == "ridge" and by == "blocks":  # its own would be that of least leave-one-out error
        is_winner = update["kernel"] != "linear" or result.sparse
        update["penalty"] = result.winner.penalty if is_winner else result.best_linear.penalty
    return settings.replaced(**update)


def _raced(task: _Task, progress: _Progress) -> tuple[Selection, Validation, list[str], ValidationSample]:
    """Return the results that decide, their validation, sentences on similar neighbouring rows, and the sample."""
    settings, options, data, outputs, shape = task.settings, task.options, task.data, task.outputs, task.shape
    scales = _scales(settings, data.schema)
    learns_metric = settings.metric != "none"
    by: Validation = "blocks" if options.validation == "blocks" else "rows"
    in_folds = options.budget_seconds / _FOLDED
    budget = in_folds if by == "blocks" else options.budget_seconds
    rounds = selection_rounds(budget, shape, _n_candidates(scales), learns_metric)
    check_choice_memory(choice_bytes(*rounds[-1], shape.inputs), memory_bytes())
    track = _sample(
        settings, data, model_sizes.ROUNDS[-1][0], outputs, by, task.group, progress.fitted
    )  # the same for any budget
    starters = _starters(track, scales, *rounds[0])
    # many more rows than the sample: steps that only fit the sample cost little there, and columns missed cost much
    patience = 2 if shape.rows >= LARGE_SAMPLE[0] else 1
    early = shape.rows >= _ROWS_OF_INPUT * shape.inputs
    result = successive_halving(track, starters, rounds, progress.tell, learns_metric, patience, early, is_wide(shape))
    progress.confirm()
    larger = larger_sample(shape.rows)
    fitting = choice_bytes(*larger, shape.inputs) <= USABLE * memory_bytes()
    affordable = fitting and large_sample_seconds(options.budget_seconds, shape, rounds)
    if affordable and by == "rows" and result.few_columns_matter:
        is_more = larger[0] > model_sizes.ROUNDS[-1][0]
        more = _sample(settings, data, larger[0], outputs, fitted=progress.fitted) if is_more else track
        result = with_larger_sample(more, result, *larger)
    result = checked(track, result, options.budget_seconds, shape)
    size = rounds[min(1, len(rounds) - 1)]
    if options.validation != "auto" or rounds[-1][0] < LEAST_ROWS or not track.has_folds(size[0]):
        return result, by, [], track
    in_blocks, in_fifths = (
        track.judging(folds).run(result.winner.candidate, *size, in_last_round=False).error
        for folds in ("blocks", "fifths")
    )
    similarity = NeighbourSimilarity(in_blocks, in_fifths, size[0], outputs.criterion)
    if not similarity.differs:
        return result, by, [], track
    if not (similarity.decides and are_test_rows_given(data)):
        return result, by, [similarity.sentences(blocks=False)], track
    starters += [each.candidate for each in result.ran if each.candidate.metric]
    rounds = selection_rounds(in_folds, shape, len(starters))
    result = successive_halving(track.judging("blocks"), starters, rounds, progress.tell)
    return result, "blocks", [similarity.sentences(blocks=True)], track


class _Progress:
    """Progress of the choice: of all candidates, then in a stage "confirm" of the fits that depend on their results."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.done, self.total, self.metrics = 0, 0, dict[str, float]()

    def tell(self, done: int, total: int, best: CandidateResult) -> None:
        self.done, self.total = done, total
        self.metrics = {"error_of_the_best_candidate": best.error, "rows": best.rows}
        self.observer.advance(done, total, self.metrics)

    def confirm(self) -> None:
        """Begin the second stage, in which the number of fits is unknown."""
        self.observer.stage("confirm")
        self.done = self.total = 0

    def fitted(self) -> None:
        """Report a fit; those of metrics, between the candidates, do not count."""
        self.done += self.total == 0
        self.observer.advance(self.done, self.total, self.metrics)


def _sample(
    settings: TrainSettings,
    data: Dataset,
    n: int,
    outputs: Outputs,
    by: Validation = "rows",
    group: str | None = None,
    fitted: Callable[[], None] = lambda: None,
) -> ValidationSample:
    """Return at most n raw rows, shuffled; targets that are far from all others are clipped."""
    raw = replace(data, schema=replace(data.schema.scaled_as("none"), metric=()))
    rows = sample_rows(raw, "train", n, settings.seed, "float64", MANY_GROUPS)
    order = np.random.default_rng((settings.seed, 0x2ACE)).permutation(len(rows.targets))[:n]
    targets = rows.targets[order]
    clip = Clip.of_far_targets(raw.schema, targets) if outputs.task == "regression" else None
    if clip is not None:
        targets = np.clip(targets, clip.offsets[0] - clip.threshold, clip.offsets[0] + clip.threshold)
    groups = None
    if group is not None:
        codes = sampled_groups(raw, group, n, settings.seed)
        groups = (codes * FOLDS // (codes.max() + 1))[order] if codes.any() else None
    return ValidationSample(
        data.schema, Rows(rows.inputs[order], targets), order, outputs, _threads(settings), by, clip, groups, fitted
    )


def _is_scaling_open(settings: TrainSettings, schema: Schema) -> bool:
    return settings.rescale == "stored" and schema.scale == "none" and bool(schema.feature_statistics)


def _scales(settings: TrainSettings, schema: Schema) -> tuple[Scaling, ...]:
    """Return the scalings to try: the given one, otherwise those for columns of any unit."""
    if not _is_scaling_open(settings, schema):
        return (schema.scaling,)
    open_ones: tuple[Scaling, ...] = get_args(Scaling) if schema.squashed else get_args(Scale)
    return tuple(scale for scale in open_ones if scale != "none")


def _n_candidates(scales: tuple[Scaling, ...]) -> int:
    """Return the fits of the first round, with those that decide whether heavy tails are squashed."""
    plain = tuple(scale for scale in scales if scale not in ROBUST)
    decided = len(scales) - len(plain) if plain else 0
    return len(initial_candidates(plain or scales)) + decided * (1 + 2 * len(_PROBES))


def _starters(track: ValidationSample, scales: tuple[Scaling, ...], rows: int, landmarks: int) -> list[Candidate]:
    """Return the candidates of the first round: those of kernels with heavy tails squashed or not, by a few fits."""

    def error(scale: Scaling) -> float:
        probes = (Candidate(scale, kernel, factor) for kernel, factor in _PROBES)
        return min(track.run(probe, rows, landmarks, in_last_round=False).squared_error for probe in probes)

    taken = set(scales)
    for robust, plain in ROBUST.items():
        if {robust, plain} <= taken:
            taken.remove(plain if error(robust) < _CLEARLY_LESS * error(plain) else robust)
    curved = initial_candidates(tuple(scale for scale in scales if scale in taken))
    return [
        *(each for each in initial_candidates(scales) if each.kernel == "linear"),
        *(each for each in curved if each.kernel != "linear"),
    ]


def _threads(settings: TrainSettings) -> int:
    return default_threads() if settings.threads == "auto" else settings.threads


def _best_of(
    result: Selection, by: Validation, criterion: Criterion, of_several: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return the chosen model, without a solver if its size is open, and sentences with the reasons."""
    winner, linear = result.winner, result.best_linear
    if result.sparse is not None:
        other = result.sparse[0]
        value = error_value(criterion, other.error)
        why = [
            _how_good(winner, len(result.ran), by, criterion, "held-out folds"),
            f"The best other candidate, {other.candidate.name}, has {value} on held-out folds.",
        ]
        options = {"solver": "ridge", "kernel": "linear", "rescale": winner.candidate.scale}
        return options | {"penalty": winner.penalty}, why
    if result.logistic is not None:
        logistic, least_squares = result.logistic
        # by accuracy it has to be better: least squares are solved exactly
        same = _SAME if criterion in OF_PROBABILITIES else -_SAME
        if of_several and (criterion in OF_PROBABILITIES or least_squares.candidate.kernel != "linear"):
            same = 0.0  # several classes: both are calibrated, and kernels lose ties
        allowance = same * logistic.chance
        if logistic.error <= least_squares.error + allowance:
            value, is_worse = error_value(criterion, least_squares.error), least_squares.error < logistic.error
            within = ", a difference within chance: the linear model is preferred" if is_worse else ""
            why = [
                _how_good(logistic, 1 + len(result.ran), by, criterion, "5 folds"),
                f"The best model of least squares, {least_squares.candidate.name}, has {value} on the same folds"
                f"{within}.",
            ]
            options = {"solver": "logistic", "kernel": "linear", "rescale": logistic.candidate.scale}
            return options | {"C": logistic.penalty, "precision": "float64"}, why
    taken = linear if _is_linear_enough(result) else winner
    if result.check and taken.candidate.metric:
        why = [_how_good(result.check.learnt, len(result.ran), by, criterion, f"{result.check.folds} folds")]
    else:
        why = [_how_good(taken, len(result.ran), by, criterion)]
    if taken is linear:
        curved = next(candidate for candidate in result.ran if candidate.candidate.kernel != "linear")
        value = error_value(criterion, curved.error)
        why.append(f"The best kernel, {curved.candidate.name} ({value}), is not significantly better.")
        return {"solver": "ridge", "kernel": "linear", "rescale": linear.candidate.scale}, why
    why.append(f"Best linear model: {error_value(criterion, linear.error)}.")
    # others may be better by both where the winner's metric was checked, or learnt again with more landmarks
    others = [each for each in result.ran if each.rows == winner.rows and each.squared_error > winner.squared_error]
    least = min((each.error for each in others), default=winner.error)
    if winner.error - winner.chance <= least < winner.error:
        why.append(
            f"Another candidate had {error_value(criterion, least)}, a difference within chance, but a larger squared "
            "error, which decides."
        )
    assert winner.bandwidth is not None
    return {"kernel": winner.candidate.kernel, "bandwidth": winner.bandwidth, "rescale": winner.candidate.scale}, why


def _is_linear_enough(result: Selection) -> bool:
    """Return whether a linear model is the best, or not significantly worse."""
    winner, linear = result.winner, result.best_linear
    return winner is linear or (winner.chance > 0.0 and linear.error <= winner.error + _SAME * winner.chance)


def _how_good(taken: CandidateResult, of: int, by: Validation, criterion: Criterion, folds: str | None = None) -> str:
    return (
        f"{_capitalised(taken.candidate.name)}, of {of} candidates: "
        f"{named_error(criterion, taken.error)} on {taken.rows:,} sampled rows ({folds or _LEFT_OUT[by]})."
    )


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
