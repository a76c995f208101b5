"""Comparison of scalings, kernels, bandwidths and learnt metrics on sampled rows, by successive halving."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from okl.data.dataset import ROBUST, Scaling, Schema
from okl.data.execution import Rows
from okl.data.reading import scaled_inputs
from okl.features.bandwidth import kernel_of_bandwidth, median_distance
from okl.features.metric_learning import (
    gradient_sums,
    input_groups,
    interacting_inputs,
    learnt_metric,
    raised_metric,
)
from okl.foundation.catalogue import KERNELS
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.kernels import Linear, NamedKernel, kernel_class
from okl.metrics.calibration import ScoreCalibration, fit_calibration, log_losses
from okl.metrics.criterion import OF_RANKING, criterion_error, row_losses, standard_error
from okl.runs.baselines import COSTS, fit_logistic
from okl.solvers.ridge import penalty_path
from okl.solvers.ridge.gram import Basis, Clip, LandmarkBasis, MapBasis, Outputs
from okl.solvers.ridge.lasso import LEAST_WEIGHT as LEAST_OF_LASSO
from okl.solvers.ridge.lasso import held_out_scores, lasso_metric, lasso_weights
from okl.solvers.ridge.solver import plain_inputs

# Candidates: scalings, kernels and bandwidths of kernel least squares

FACTORS = {name: factors for name in KERNELS if (factors := kernel_class(name).factors)}
"""Bandwidths to try, as multiples of the median distance, by kernel."""

_NEXT = 2.0**0.5
_UNUSED = 2.0 * LEAST_OF_LASSO  # of the largest weight of a lasso's metric
LOGISTIC = "logistic regression"
"""Kernel of the candidate that is linear and trained with the logistic loss."""


@dataclass(frozen=True)
class Candidate:
    """Candidate of the automatic choice, its bandwidth a factor of the sample's median distance.

    metric : learnt weights of the scaled inputs, () for all 1; steps : in which they were learnt
    """

    scale: Scaling
    kernel: str
    factor: float = 1.0
    metric: tuple[float, ...] = field(default=(), repr=False)
    steps: int = 0

    @property
    def name(self) -> str:
        """Return a description for reports."""
        scaling = {"none": "unscaled inputs", "standard": "standardised inputs", "minmax": "inputs scaled to 0 .. 1"}
        scaling |= {name: f"{scaling[base]}, heavy tails squashed" for name, base in ROBUST.items()}
        if self.is_sparse:
            used = np.count_nonzero(np.array(self.metric) > _UNUSED * max(self.metric))
            return f"lasso with {used:,} of {len(self.metric):,} inputs, {scaling[self.scale]}"
        if self.kernel in ("linear", LOGISTIC):
            return f"{self.kernel}, {scaling[self.scale]}"
        learnt = f", metric learnt in {self.steps} step{'s' if self.steps > 1 else ''}" if self.metric else ""
        return f"{self.kernel} kernel, {self.factor:.3g} of the median distance, {scaling[self.scale]}{learnt}"

    @property
    def is_sparse(self) -> bool:
        """Return whether it is a lasso, whose metric gives no weight to most inputs."""
        return self.kernel == "linear" and bool(self.metric)

    def neighbours(self) -> tuple[Candidate, ...]:
        """Return the same candidate with bandwidths 2^(1/2) times smaller and larger."""
        if self.kernel in ("linear", LOGISTIC):
            return ()
        return replace(self, factor=self.factor / _NEXT), replace(self, factor=self.factor * _NEXT)


def initial_candidates(scales: tuple[Scaling, ...]) -> list[Candidate]:
    """Return all candidates of the first round; linear ones come first, because the first of equals is kept."""
    linear = [Candidate(scale, "linear") for scale in scales]
    curved = [
        Candidate(scale, kernel, factor)
        for kernel, factors in FACTORS.items()
        for factor in factors
        for scale in scales
    ]
    return linear + curved


# Successive halving: rounds on more and more sampled rows, with fewer and fewer candidates

Validation = Literal["rows", "blocks", "fifths"]
"""Validation: leave-one-out, five contiguous folds, or five shuffled folds."""

LOGISTIC_ROWS, LOGISTIC_NUMBERS = 8192, 400_000  # of the sample that logistic regression is validated on
LOGISTIC_RAREST = 100  # rows of the rarest class; with fewer, errors say little
HUBER_ROWS, _HUBER_LANDMARKS = 4096, 512  # of the sample that Huber's loss is validated on
_ALIKE = 0.1  # standard errors
SURVIVORS = (8, 3)  # candidates kept after the first and second round; the best one's neighbours join the last round


@dataclass(frozen=True)
class CandidateResult:
    """Result of a candidate in its last round.

    error : validated error by the criterion, such as the mistake rate, or the squared error divided by that of the mean
    squared_error : squared error divided by that of the mean, also for classes
    penalty : penalty with the smallest error; of logistic regression, C
    landmarks : landmarks of the round, or columns of a linear candidate
    bandwidth : in scaled units; None for a linear candidate
    in_last_round : whether the candidate was in the last round
    chance : difference of errors below which squared errors decide
    weights : (n_outputs, landmarks) of the landmarks; None if the rows were validated in folds
    offsets : (n_outputs,) of the scores, or None as the weights
    """

    candidate: Candidate
    error: float
    squared_error: float
    penalty: float
    rows: int
    landmarks: int
    bandwidth: float | None
    seconds: float
    in_last_round: bool
    chance: float = 0.0
    weights: Doubles | None = field(default=None, compare=False, repr=False)
    offsets: Doubles | None = field(default=None, compare=False, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; the score is 1 less the error: the accuracy, ROC AUC, share of explained variance, ..."""
        return {
            "name": self.candidate.name,
            "score": 1.0 - self.error,
            "rows": self.rows,
            "landmarks": self.landmarks,
            "seconds": self.seconds,
            "kept": self.in_last_round,
        }


Report = Callable[[int, int, CandidateResult], None]
"""Called with candidates done, candidates in all, and the best result of the round so far."""


@dataclass(frozen=True)
class MetricCheck:
    """Errors of rows in held-out folds, without a metric and with one learnt anew from all other folds.

    plain, learnt : results whose errors are of these rows; folds : how many
    gain : mean of squared errors, plain less learnt; chance : its standard error over the rows
    calibration : of the scores with a metric; None for a regression
    """

    plain: CandidateResult
    learnt: CandidateResult
    folds: int
    gain: float
    chance: float
    calibration: ScoreCalibration | None = None

    @property
    def helps(self) -> bool:
        """Return whether the metric reduces the squared error beyond a standard error."""
        return self.gain > self.chance


@dataclass(frozen=True)
class Selection:
    """Results of all candidates, best first.

    logistic : results of logistic regression, and of the winner on the same folds; None if these were not tried
    sparse : of a winner that is a lasso: the best other candidate, on held-out folds, too, and the lasso's calibration
    enlarged : whether the winner's metric was learnt again on a larger sample
    check : of the winner's metric; None if there were enough rows to do without
    """

    ran: tuple[CandidateResult, ...]
    logistic: tuple[CandidateResult, CandidateResult] | None = None
    sparse: tuple[CandidateResult, ScoreCalibration | None] | None = None
    enlarged: bool = False
    check: MetricCheck | None = None

    @property
    def winner(self) -> CandidateResult:
        """Return the best result of the last round."""
        return self.ran[0]

    @property
    def best_linear(self) -> CandidateResult:
        """Return the best linear result, on the same rows as the winner."""
        return next(one for one in self.ran if one.candidate.kernel == "linear" and not one.candidate.metric)

    @property
    def few_columns_matter(self) -> bool:
        """Return whether the winner's metric reduces the squared error much."""
        others = [result for result in self.ran if result.rows == self.winner.rows and not result.candidate.metric]
        plain = min((result.squared_error for result in others), default=0.0)
        return bool(self.winner.candidate.metric) and self.winner.squared_error < _MUCH_LESS * plain


class ValidationSample:
    """Shuffled sample of raw rows on which candidates are validated.

    positions : (rows,), positions of the sampled rows in the data set
    n_threads : number of threads, which never changes the results
    groups : (rows,), folds of the sampled rows that divide no group; None where rows have none
    clip : with which targets that are far from all others were clipped; None where there are none
    fitted : called after each fit
    """

    def __init__(
        self,
        schema: Schema,
        sample: Rows,
        positions: IntArray,
        outputs: Outputs,
        n_threads: int,
        by: Validation = "rows",
        clip: Clip | None = None,
        groups: IntArray | None = None,
        fitted: Callable[[], None] = lambda: None,
    ) -> None:
        self._schema, self._sample, self._positions, self._threads = schema, sample, positions, n_threads
        self._groups = groups
        self.outputs, self.by, self.clip, self.fitted = outputs, by, clip, fitted
        # by scaling, metric, rows and power of the norm: candidates that differ in the bandwidth alone share it
        self._medians: dict[tuple[Scaling, tuple[float, ...], int, int], float] = {}

    def judging(self, by: Validation) -> ValidationSample:
        """Return the same sample with another validation."""
        fixed = self._positions, self.outputs, self._threads
        return ValidationSample(self._schema, self._sample, *fixed, by, self.clip, self._groups, self.fitted)

    def has_folds(self, rows: int) -> bool:
        """Return whether the first rows can be split into folds: some class must have more than one row."""
        targets = self._sample.targets[:rows]
        return len(np.unique(penalty_path.folds_of(targets, np.arange(len(targets)), self.outputs.task))) > 1

    def can_fit_logistic(self, rows: int) -> int:
        """Return the rows that logistic regression is validated on; 0 for many inputs, or a class of few rows.

        Where the rarest class has few rows among them, there are up to four times as many.
        """
        numbers = self._sample.inputs.shape[1] * max(1, self.outputs.n_outputs - 1)
        targets, most = self._sample.targets[: min(rows, LOGISTIC_ROWS)], LOGISTIC_NUMBERS // max(1, numbers)
        for some in (most, 4 * most):
            rarest = min(np.bincount(self._classes(targets[:some]), minlength=max(2, self.outputs.n_outputs)))
            if rarest >= LOGISTIC_RAREST:
                break
        return min(some, len(targets)) if rarest >= penalty_path.FOLDS else 0

    def _classes(self, targets: Doubles) -> IntArray:
        return np.asarray(targets if self.outputs.task == "multiclass" else targets > 0).astype(np.int64)

    def run_logistic(self, rows: int, scale: Scaling) -> CandidateResult:
        """Validate logistic regression in five folds, with the cost of the least error, each class against the rest."""
        started_at, candidate = time.perf_counter(), Candidate(scale, LOGISTIC)
        targets, n_inputs = self._sample.targets[:rows], self._sample.inputs.shape[1]
        classes, criterion, costs = self._classes(targets), self.outputs.criterion, np.array(COSTS) / (n_inputs + 1)
        weights = self.outputs.weights(targets) if criterion == "accuracy" else None  # as mistakes of least squares
        counted = 1.0 if weights is None else weights / weights.mean()
        two, of_classes = self.outputs.task == "binary", self.outputs.class_weights or (1.0, 1.0)
        prior = np.log(of_classes[0] / of_classes[1])  # scores are log-odds of weighted classes
        each = [one[:, 0] if two else one for one in self._logistic_scores(candidate, rows, costs)]
        if criterion in OF_RANKING:
            errors = [criterion_error(criterion, one, classes) for one in each]
            spreads = [standard_error(criterion, error, np.bincount(classes, minlength=2).tolist()) for error in errors]
            apart_by = spreads
        else:  # of the scores of two classes as they are: they will be log-odds
            plain = two and criterion == "log-loss"
            losses = [
                counted * (log_losses(one + prior, classes) if plain else row_losses(criterion, one, classes))
                for one in each
            ]
            errors, spreads = [float(one.mean()) for one in losses], [float(one.std()) / rows**0.5 for one in losses]
            apart_by = [float((one - losses[int(np.argmin(errors))]).std()) / rows**0.5 for one in losses]
        good = [k for k, error in enumerate(errors) if error <= min(errors) + _ALIKE * apart_by[k]]
        if two and criterion != "log-loss":  # costs that predict alike may differ much in their probabilities
            of_odds = [log_losses(one + prior, classes) for one in each]
            least = of_odds[min(good, key=lambda k: float(of_odds[k].mean()))]
            good = [k for k in good if (of_odds[k] - least).mean() <= _ALIKE * (of_odds[k] - least).std() / rows**0.5]
        best = good[0]  # the smallest: its problem is the easiest to solve
        return CandidateResult(
            candidate, errors[best], np.inf, float(costs[best]), rows, n_inputs, None,
            time.perf_counter() - started_at, True, spreads[best],
        )  # fmt: skip

    def calibrate_logistic(self, result: CandidateResult) -> ScoreCalibration:
        """Return the calibration of logistic regression of several classes, of all sampled rows in five folds.

        A model overfits few rows of a class, and its scores of others rank them badly: calibrated for such scores, the
        final model, of all rows, would hardly predict the class. Rows have the weights of their classes, by which
        classes are predicted, and the offsets are then those without weights.
        """
        targets = self._sample.targets
        scores = self._logistic_scores(result.candidate, len(targets), np.array([result.penalty]))[0]
        found = fit_calibration(scores, self._classes(targets), self.outputs.weights(targets), mixes=True)
        logarithms = np.log(self.outputs.class_weights or (1.0,) * self.outputs.n_outputs)
        return replace(found, offsets=tuple((np.array(found.offsets) - logarithms).tolist()))

    def _logistic_scores(self, candidate: Candidate, rows: int, costs: Doubles) -> Doubles:
        """Return scores (n_costs, rows, n_outputs) of the first rows by logistic regression of all other folds."""
        inputs = scaled(self._schema, self._sample.inputs[:rows], candidate)
        targets = self._sample.targets[:rows]
        folds, classes, weights = self._folds_of(targets), self._classes(targets), self.outputs.weights(targets)
        positives = range(self.outputs.n_outputs) if self.outputs.task == "multiclass" else (1,)
        scores = np.empty((len(costs), rows, len(positives)))
        for fold in np.unique(folds):
            held = folds == fold
            own = None if weights is None else weights[~held]
            for output, label in enumerate(positives):
                hits, start = (classes[~held] == label).astype(np.int64), None
                for number, cost in enumerate(costs):
                    start = slopes, offsets = fit_logistic(inputs[~held], hits, cost, own, start)
                    self.fitted()
                    scores[number, held, output] = inputs[held] @ slopes[0] + offsets[0]
        return scores

    def run_lasso(self, scale: Scaling) -> tuple[CandidateResult, ScoreCalibration | None] | None:
        """Validate a lasso in folds, with the penalty of the least error; None if it is constant.

        Returns its result, whose metric and penalty make a ridge regression equal to it, and its calibration.
        """
        started_at, targets = time.perf_counter(), self._sample.targets
        inputs = scaled(self._schema, self._sample.inputs, Candidate(scale, "linear"))
        rows, values, weights = len(targets), self.outputs.of(targets), self.outputs.weights(targets)
        held = held_out_scores(inputs, values, weights, self._folds_of(targets), self._threads)
        errors = [
            penalty_path.errors_of_scores(scores, targets, self.outputs, float(penalty))
            for penalty, scores in zip(held.penalties, held.scores, strict=True)
        ]
        if not errors:
            return None
        best = penalty_path.best_of(errors, rows)
        own = lasso_weights(inputs, values, weights, best.penalty)
        if not own.any():
            return None
        metric, penalty = lasso_metric(own, best.penalty)
        result = CandidateResult(
            Candidate(scale, "linear", metric=metric), best.error, best.squared_error, penalty, rows, inputs.shape[1],
            None, time.perf_counter() - started_at, True, _chance(best, rows),
        )  # fmt: skip
        return result, penalty_path.ScoresLeftOut(targets, held.scores[errors.index(best)], best).calibration()

    def calibration(self, result: CandidateResult) -> ScoreCalibration | None:
        """Return the calibration of a result's scores of held-out folds; None for rows of one class."""
        inputs = scaled(self._schema, self._sample.inputs[: result.rows], result.candidate)
        sample = Rows(inputs, self._sample.targets[: result.rows])
        basis, _ = self._basis(result.candidate, inputs, result.landmarks)
        folds = self._folds_of(sample.targets)
        return penalty_path.calibration_of_folds(basis, sample, self.outputs, folds, result.penalty, self._threads)

    def compare_losses(self, candidate: Candidate, rows: int) -> penalty_path.LossComparison | None:
        """Compare Huber's loss with least squares on held-out folds of a regression; None for light tails."""
        basis, sample, folds = self._folds(candidate, rows)
        return penalty_path.compare_losses(basis, sample, self.outputs, folds, self._threads)

    def compare_logarithm(self, candidate: Candidate, rows: int) -> penalty_path.LogarithmComparison | None:
        """Compare models of log(target) with those of the target on held-out folds; None unless it is skewed."""
        basis, sample, folds = self._folds(candidate, rows)
        return penalty_path.compare_logarithm(basis, sample, self.outputs, folds, self._threads)

    def _folds(self, candidate: Candidate, rows: int) -> tuple[Basis, Rows, IntArray]:
        """Return the basis of a candidate, and rows of a regression with their folds."""
        some = min(rows, HUBER_ROWS)
        inputs = scaled(self._schema, self._sample.inputs[:some], candidate)
        sample = Rows(inputs, self._sample.targets[:some])
        folds = self._folds_of(sample.targets)
        basis, _ = self._basis(candidate, inputs, min(some, _HUBER_LANDMARKS))
        return basis, sample, folds

    def _folds_of(self, targets: Doubles) -> IntArray:
        """Return the fold (rows,) of each of the first rows, whose targets are given.

        Contiguous folds of a regression are fifths of the file: by tenths of a target that changes slowly, each would
        have rows next to all others. Only a file in the order of its target is cut by tenths.
        """
        if self.by == "blocks" and self._groups is not None:
            return self._groups[: len(targets)]
        if self.by != "blocks":
            return penalty_path.folds_of(targets, np.arange(len(targets)), self.outputs.task)  # the rows are shuffled
        places = self._positions[: len(targets)]
        steps = np.diff(targets[np.argsort(places)])
        if self.outputs.task == "regression" and steps.min() < 0.0 < steps.max():
            return penalty_path.folds_of(np.zeros(len(targets)), places, "binary")
        return penalty_path.folds_of(targets, places, self.outputs.task)

    def run(self, candidate: Candidate, rows: int, landmarks: int, in_last_round: bool) -> CandidateResult:
        """Fit a candidate to the first rows with the penalty of the smallest validation error."""
        started_at = time.perf_counter()
        inputs = scaled(self._schema, self._sample.inputs[:rows], candidate)
        basis, bandwidth = self._basis(candidate, inputs, landmarks)
        sample, weights, offsets = Rows(inputs, self._sample.targets[:rows]), None, None
        if self.by == "rows":
            solution = penalty_path.fit_rows(basis, sample, self.outputs, n_threads=self._threads)
            best, weights, offsets = solution.best, solution.weights, solution.offsets
            assert best is not None, "no penalty was given"
        else:
            folds = self._folds_of(sample.targets)
            best = penalty_path.best_of(
                penalty_path.leave_folds_out(basis, sample, self.outputs, folds, n_threads=self._threads), rows
            )
        self.fitted()
        return CandidateResult(
            candidate,
            best.error,
            best.squared_error,
            best.penalty,
            rows,
            basis.n_columns,
            bandwidth,
            time.perf_counter() - started_at,
            in_last_round,
            _chance(best, rows),
            weights,
            offsets,
        )

    def _basis(self, candidate: Candidate, inputs: FloatArray, landmarks: int) -> tuple[Basis, float | None]:
        """Return the basis of a candidate, with the first rows as landmarks, and its bandwidth in scaled units."""
        if candidate.kernel == "linear":
            if inputs.shape[1] > len(inputs) and inputs.any():  # the same model has a column a row, not one an input
                return LandmarkBasis(Linear(), inputs), None
            return MapBasis(plain_inputs(inputs.shape[1], "float64")), None
        power = kernel_class(candidate.kernel).power
        key = candidate.scale, candidate.metric, len(inputs), power
        if key not in self._medians:
            self._medians[key] = median_distance(inputs, power)
        bandwidth = candidate.factor * self._medians[key]
        kernel = kernel_of_bandwidth(candidate.kernel, bandwidth)
        return LandmarkBasis(kernel, np.ascontiguousarray(inputs[:landmarks])), bandwidth

    def check_metric(self, result: CandidateResult, rows: int, landmarks: int, power: float) -> MetricCheck:
        """Return errors of rows whose fold had no part in learning a metric, and of the same rows without a metric.

        Leave-one-out errors flatter a metric of few rows for the inputs: it was learnt from the row that is left out,
        too. On 450 rows of 1,500 inputs that all matter they were 6% with a metric, and mistakes on new rows 41%.

        result : with a metric, of which scaling, kernel and factor are taken; rows : the first ones, which are divided
        landmarks : of each model, at most; power : of the weights of a metric, see `learnt_metric`
        """
        started_at, targets = time.perf_counter(), self._sample.targets[:rows]
        folds = penalty_path.folds_of(targets, np.arange(rows), self.outputs.task, folds_of_check(rows))
        if self.by == "blocks":
            folds = self._folds_of(targets)
        start = replace(result.candidate, metric=(), steps=0)
        scores = np.zeros((2, rows, self.outputs.n_outputs))
        for fold in np.unique(folds):
            held, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            sample = Rows(self._sample.inputs[others], targets[others])
            fixed = self._positions[others], self.outputs, self._threads
            track = ValidationSample(self._schema, sample, *fixed, fitted=self.fitted)
            plain = track.run(start, len(others), min(landmarks, len(others)), in_last_round=False)
            steps = continued_metric(track, plain, power=power)
            learnt = min(steps, key=lambda step: step.squared_error)
            for k, one in enumerate((plain, learnt)):
                scores[k, held] = track.scores(one, self._sample.inputs[held])
        seconds = time.perf_counter() - started_at

        errors = [penalty_path.errors_of_scores(each, targets, self.outputs, result.penalty) for each in scores]
        plain, learnt = (
            replace(
                result, candidate=candidate, error=found.error, squared_error=found.squared_error, rows=rows,
                landmarks=landmarks, seconds=seconds, chance=_chance(found, rows),
            )
            for candidate, found in zip((start, result.candidate), errors, strict=True)
        )  # fmt: skip
        squares, weights = np.square(self.outputs.of(targets) - scores).sum(axis=2), self.outputs.weights(targets)
        gains = (squares[0] - squares[1]) * (1.0 if weights is None else weights)
        return MetricCheck(
            plain, learnt, len(np.unique(folds)), float(gains.mean()), float(gains.std() / rows**0.5),
            penalty_path.ScoresLeftOut(targets, scores[1], errors[1]).calibration(),
        )  # fmt: skip

    def scores(self, result: CandidateResult, inputs: FloatArray) -> Doubles:
        """Return scores (n, n_outputs) of raw inputs (n, n_inputs) by the model of a result of this sample."""
        own = scaled(self._schema, self._sample.inputs[: result.rows], result.candidate)
        basis, _ = self._basis(result.candidate, own, result.landmarks)
        assert result.weights is not None, "folds leave no model"
        assert result.offsets is not None, "they come with the weights"
        predictor = basis.predictor(result.weights, result.offsets)
        others = scaled(self._schema, inputs, result.candidate)
        return np.asarray(predictor.scores(others, self._threads), np.float64).reshape(len(inputs), -1)

    def next_step(self, result: CandidateResult, power: float) -> Candidate:
        """Return the candidate with the metric of the gradients of its solution, for the next step of learning it."""
        candidate, weights = result.candidate, self._with_weights(result).weights
        assert weights is not None, "they were computed"
        inputs = scaled(self._schema, self._sample.inputs[: result.rows], candidate)
        basis, _ = self._basis(candidate, inputs, result.landmarks)
        assert isinstance(basis, LandmarkBasis), "linear candidates have no metric"
        assert isinstance(basis.kernel, NamedKernel), "candidates name kernels"
        some = max(GRADIENT_ROWS, int(GRADIENT_PRODUCTS / max(1, weights.size * inputs.shape[1])))
        sums = gradient_sums(basis.kernel, basis.landmarks, weights, inputs[:some], self._threads)
        before = np.array(candidate.metric or (1.0,) * inputs.shape[1])
        metric = learnt_metric(sums, before, input_groups(self._schema), power if candidate.metric else 1.0)
        return replace(candidate, metric=metric, steps=candidate.steps + 1)

    def with_interactions(self, result: CandidateResult) -> Candidate | None:
        """Return the candidate with more weight for inputs whose products its residuals depend on; None without any."""
        inputs, n_outputs = self._sample.inputs, self.outputs.n_outputs
        rows = max(GRADIENT_ROWS, int(GRADIENT_PRODUCTS / (n_outputs * inputs.shape[1] ** 2)))
        if rows * n_outputs * inputs.shape[1] ** 2 > MOST_PRODUCTS * GRADIENT_PRODUCTS:
            return None
        rows, result = min(rows, result.rows), self._with_weights(result)
        residuals = self.outputs.of(self._sample.targets[:rows]) - self.scores(result, inputs[:rows])
        groups = input_groups(self._schema)
        raised = interacting_inputs(inputs[:rows], residuals, groups)
        if not raised.any():
            return None
        before = np.array(result.candidate.metric or (1.0,) * inputs.shape[1])
        return replace(result.candidate, metric=raised_metric(before, raised, groups), steps=result.candidate.steps + 1)

    def _with_weights(self, result: CandidateResult) -> CandidateResult:
        """Return a result with weights, which are computed where folds leave none."""
        if result.weights is not None:
            return result
        inputs = scaled(self._schema, self._sample.inputs[: result.rows], result.candidate)
        basis, _ = self._basis(result.candidate, inputs, result.landmarks)
        sample = Rows(inputs, self._sample.targets[: result.rows])
        solution = penalty_path.fit_rows(basis, sample, self.outputs, result.penalty, n_threads=self._threads)
        return replace(result, weights=solution.weights, offsets=solution.offsets)


def _chance(errors: penalty_path.PenaltyErrors, rows: int) -> float:
    return (
        errors.chance
        if errors.judged is not None or errors.mistake_rate is None
        else penalty_path.apart(errors.error, rows)
    )


def scaled(schema: Schema, inputs: FloatArray, candidate: Candidate) -> FloatArray:
    """Return raw inputs (rows, n_inputs) scaled for a candidate by the statistics of the training rows, float64."""
    return scaled_inputs(replace(schema.scaled_as(candidate.scale), metric=candidate.metric), inputs, "float64")


def successive_halving(
    track: ValidationSample,
    starters: list[Candidate],
    rounds: list[tuple[int, int]],
    report: Report,
    learns_metric: bool = False,
    patience: int = 1,
    early: bool = False,
    wide: bool = False,
) -> Selection:
    """Validate all candidates in the first round, the best of them in the next, and so on.

    Metrics are learnt in the round before the last one and, if early, in the first of three. They compete in the next
    round with the best candidates without one; the steps of the winner continue on the rows of the last round.

    rounds : sampled rows and landmarks of each round
    report : called with the number of finished fits, their total, and the best result of the round
    learns_metric : whether candidates with a learnt metric are added; patience : see `continued_metric`
    early : whether metrics are learnt in the first of three rounds, too
    wide : whether inputs are many for the rows: the best candidate of each kernel goes on to where metrics are learnt
    """
    running, out = list(starters), list[CandidateResult]()
    total = (
        len(starters) + sum(number + 1 for number in SURVIVORS[: len(rounds) - 1]) + 2 + METRICS_KEPT * learns_metric
    )
    done = 0
    ran: list[CandidateResult] = []
    for number, (rows, landmarks) in enumerate(rounds):
        last = number == len(rounds) - 1
        if last and ran:
            running += [neighbour for neighbour in ran[0].candidate.neighbours() if neighbour not in running]
        if last:
            total = done + len(running)
        ran = []
        for candidate in running:
            ran.append(track.run(candidate, rows, landmarks, last))
            done += 1
            report(done, total, min(ran, key=lambda result: result.error))
        ran = ranked(ran)
        first, best = number == 0 and len(rounds) > 2, ran[0]
        if learns_metric and (early or not first) and (not last or len(rounds) == 1):
            ran = ranked([*ran, *learn_metrics(track, ran, first, patience, wide)])
        if not last:
            running = _going_on(ran, best, SURVIVORS[min(number, len(SURVIVORS) - 1)])
            if wide and first and learns_metric:
                running = list(dict.fromkeys([*running, *(result.candidate for result in best_of_kernels(ran))]))
            out += [result for result in ran if result.candidate not in running]
    if learns_metric and len(rounds) > 1 and ran[0].candidate.metric:
        ran = ranked([*ran, *continued_metric(track, ran[0], patience=patience, power=POWER if wide else 1.0)])
    out.sort(key=lambda result: (-result.rows, result.error, result.squared_error))
    return Selection((*ran, *out))


def _going_on(best_first: list[CandidateResult], best: CandidateResult, number: int) -> list[Candidate]:
    """Return the candidates of the next round: the best results, and a number of candidates without a metric."""
    better = [result for result in best_first[: best_first.index(best)] if result.candidate.metric][:METRICS_KEPT]
    plain = [result for result in best_first if not result.candidate.metric]
    # half by rank, the others by squared error, which is more reliable on few rows
    half = -(-number // 2)
    others = sorted(plain[half:], key=lambda result: result.squared_error)[: number - half]
    # the best linear candidate always continues: it is cheap, and the baseline of the kernels; and the best kernel
    linear = [result for result in plain if result.candidate.kernel == "linear"][:1]
    curved = [result for result in plain if result.candidate.kernel != "linear"][:1]
    return list(dict.fromkeys(result.candidate for result in (*better, *plain[:half], *others, *linear, *curved)))


def ranked(ran: list[CandidateResult]) -> list[CandidateResult]:
    """Sort results, best first; errors within chance of the best are sorted by squared error."""
    best = min(ran, key=lambda result: result.error)
    alike = best.error + best.chance
    return sorted(
        ran, key=lambda result: (result.error > alike, result.squared_error if result.error <= alike else result.error)
    )


# Learnt metrics: recursive feature machines that start at good candidates

METRIC_STEPS = 4  # at most, from each of the two candidates that learning starts at, and on the rows of the last round
METRICS_KEPT = 2  # candidates with a learnt metric in the last round
LARGE_SAMPLE, SMALL_SAMPLE = (32768, 1024), (8192, 1536)  # rows and landmarks on which a metric is learnt again
LARGE_STEPS, SMOOTH = 6, "gaussian"  # there: the most steps, and the kernel
_MUCH_LESS = 0.9  # times the squared error without a metric: a metric on more rows may find more
GRADIENT_ROWS, GRADIENT_PRODUCTS = 512, 2e9  # rows whose gradients are averaged: at least, and by multiply-adds
POWER = 1.5  # of the weights from the second step on, where rows are few: on all rows it misses columns
_CHECK_FOLDS = ((512, 10), (1024, 5))  # rows, and the folds in which a metric of at most so many is checked
_FEWEST_FOLDS = 3  # of more rows
MOST_PRODUCTS = 5.0  # times GRADIENT_PRODUCTS for products of columns; of more columns none are tried
_INTERACTION_STEPS = 3  # each for the products that residuals depend on most
_STEADY = 0.005  # a step that reduces the squared error by less than that share hardly does


def learn_metrics(
    track: ValidationSample, best_first: list[CandidateResult], thorough: bool, patience: int = 1, wide: bool = False
) -> list[CandidateResult]:
    """Return the steps of metrics that are learnt from the best candidate and from another one.

    That is the best without a metric, as more rows may lead elsewhere; or, if both are the same, the best one of
    another kernel, if the first has reduced the error.

    thorough : on the few rows of a first round: start from the other kernel in any case, as rough kernels learn a
        metric slowly, and return only what helps much, as a metric fits few rows whether it helps or not
    wide : start from the best candidate of each kernel: of 400 columns, 5 of which matter, kernels are alike without a
        metric, but the Laplacian kernel, which adds up columns, finds all of them in 800 rows and others two or three
    """
    if wide:
        starts = best_of_kernels(best_first)
        return [step for start in starts for step in continued_metric(track, start, patience=patience, power=POWER)]
    curved = [result for result in best_first if kernel_has_gradient(result.candidate.kernel)]
    best = curved[0].candidate if curved else None
    others = [
        result
        for result in curved
        if best is not None and not result.candidate.metric and (best.metric or result.candidate.kernel != best.kernel)
    ]
    steps = [step for start in curved[:1] for step in continued_metric(track, start, patience=patience)]
    if thorough or len(steps) > 1 or (best is not None and best.metric):
        steps += [step for start in others[:1] for step in continued_metric(track, start, patience=patience)]
    least = min(result.squared_error for result in best_first)
    return [step for step in steps if not thorough or step.squared_error < _MUCH_LESS * least]


def best_of_kernels(best_first: list[CandidateResult]) -> list[CandidateResult]:
    """Return the best result without a metric of each kernel from which one can be learnt."""
    plain = [result for result in best_first if not result.candidate.metric]
    best = {
        result.candidate.kernel: result for result in reversed(plain) if kernel_has_gradient(result.candidate.kernel)
    }
    return list(best.values())


def continued_metric(
    track: ValidationSample, start: CandidateResult, most: int = METRIC_STEPS, patience: int = 1, power: float = 1.0
) -> list[CandidateResult]:
    """Return the results of the next steps of a candidate's metric, on its rows and landmarks.

    Gradients do not show products of columns without an effect of their own: these have more weight in further steps.

    patience : steps one after the other that hardly reduce the squared error, after which learning ends
    power : of the weights from the second step on, see `learnt_metric`

    Source: Radhakrishnan, Beaglehole, Pandit & Belkin, Science 383, 2024, Algorithm 1; steps are compared by the
    validation of all candidates.
    """
    steps = [start, *_gradient_steps(track, start, most, patience, power)]
    for _ in range(_INTERACTION_STEPS):
        best = min(steps, key=lambda step: step.squared_error)
        raised = track.with_interactions(best)
        if raised is None:
            break
        steps.append(track.run(raised, start.rows, start.landmarks, start.in_last_round))
        if steps[-1].squared_error > (1.0 - _STEADY) * best.squared_error:
            break
        steps += _gradient_steps(track, steps[-1], most, 1, power)
    return steps[1:]


def _gradient_steps(
    track: ValidationSample, start: CandidateResult, most: int, patience: int, power: float
) -> list[CandidateResult]:
    steps, least, in_vain = [start], start.squared_error, 0
    while len(steps) <= most and in_vain < patience:
        steps.append(track.run(track.next_step(steps[-1], power), start.rows, start.landmarks, start.in_last_round))
        in_vain = in_vain + 1 if steps[-1].squared_error > (1.0 - _STEADY) * least else 0
        least = min(least, steps[-1].squared_error)
    return steps[1:]


def folds_of_check(rows: int) -> int:
    """Return the number of folds in which a metric of this number of rows is checked."""
    return next((folds for most, folds in _CHECK_FOLDS if rows <= most), _FEWEST_FOLDS)


def with_checked_metric(
    track: ValidationSample, result: Selection, rows: int, landmarks: int, power: float
) -> Selection:
    """Return results with the winner's metric checked in held-out folds and no other, or none if it is no help."""
    check = track.check_metric(result.winner, rows, landmarks, power)
    plain = tuple(one for one in result.ran if not one.candidate.metric)
    if not check.helps:
        return replace(result, ran=plain, check=check)
    winner, learnt = result.winner, check.learnt
    checked = replace(winner, error=learnt.error, squared_error=learnt.squared_error, chance=learnt.chance)
    return replace(result, ran=(checked, *plain), check=check)


def larger_sample(n_rows: int) -> tuple[int, int]:
    """Return the rows and landmarks on which a metric is learnt again: more rows or, of a few, more landmarks."""
    if n_rows >= LARGE_SAMPLE[0]:
        return LARGE_SAMPLE
    return min(n_rows, SMALL_SAMPLE[0]), min(n_rows, SMALL_SAMPLE[1])


def with_larger_sample(track: ValidationSample, result: Selection, rows: int, landmarks: int) -> Selection:
    """Learn a metric from the beginning on more rows or landmarks, and take it if it is better there.

    Columns that a metric of few rows has missed do not come back, however many rows follow: of 200 columns, 5 of which
    matter, 8,192 rows found 4 (21% mistakes), 32,768 rows all (9%). Of madelon's 500 columns 20 matter: 2,080 rows and
    1,536 landmarks make 16% mistakes, 1,024 landmarks 19 to 24%. A smooth kernel learns it, as that takes the fewest
    steps; the winner's kernel is tried in it, too.

    track : of as many rows; rows, landmarks : see `larger_sample`
    """
    winner = result.winner.candidate
    plain = [one for one in result.ran if one.candidate.kernel == SMOOTH and not one.candidate.metric]
    start = min(plain, key=lambda one: (-one.rows, one.squared_error)).candidate if plain else None
    start = start or Candidate(winner.scale, SMOOTH)
    missed, first = (track.run(one, rows, landmarks, in_last_round=True) for one in (winner, start))
    power = POWER if rows < LARGE_SAMPLE[0] else 1.0
    steps = continued_metric(track, first, LARGE_STEPS, patience=2, power=power)
    if winner.kernel != SMOOTH:
        learnt = min(steps, key=lambda step: step.squared_error).candidate
        same = replace(learnt, kernel=winner.kernel, factor=winner.factor)
        steps.append(track.run(same, rows, landmarks, in_last_round=True))
    return replace(result, ran=(ranked([missed, *steps])[0], *result.ran), enlarged=True)


def kernel_has_gradient(kernel: str) -> bool:
    """Return whether a metric can be learnt from solutions of a candidate's kernel."""
    return kernel in FACTORS and kernel_class(kernel).slopes is not NamedKernel.slopes
