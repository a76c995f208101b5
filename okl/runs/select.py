"""Automatic choice of solver, kernel, bandwidth and size."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Scale, Schema, scaling_of
from okl.data.executor import Rows
from okl.data.ingest.columns import share_of
from okl.data.manifest import read_manifest
from okl.data.reading import sample_rows
from okl.distributed.local import default_threads
from okl.features.bandwidth import fit_kernel
from okl.features.metric_learning import gradient_sums, input_groups, learnt_metric, metric_shares
from okl.foundation.errors import ConfigError
from okl.foundation.registry import KERNELS
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Criterion, FloatArray, IntArray
from okl.kernels import KnownKernel, kernel_class, shift_invariant_kernels
from okl.metrics.calibration import log_losses
from okl.metrics.criterion import OF_RANKING, criterion_error, criterion_of, standard_error
from okl.models.inputs import class_indices
from okl.report.format import CRITERION_NAMES, criterion_value
from okl.runs.baselines import COSTS, fit_logistic
from okl.solvers.accelerated.choice import solve
from okl.solvers.accelerated.fitting import relabelled
from okl.solvers.accelerated.models import make_model
from okl.solvers.accelerated.newton import Newton
from okl.solvers.accelerated.operators import SparseRows
from okl.solvers.ridge.gram import Basis, LandmarkBasis, MapBasis, Outputs
from okl.solvers.ridge.local import LocalSolver
from okl.solvers.ridge.path import (
    FOLDS,
    HUBER,
    HUBER_ROUNDS,
    LossComparison,
    apart,
    best_of,
    compare_logarithm,
    compare_losses,
    fit_rows,
    folds_of,
    leave_folds_out,
)
from okl.solvers.ridge.solver import SAMPLE_GROUPS, plain_inputs
from okl.solvers.settings import AutoSettings, TrainSettings

# Candidates: scalings, kernels and bandwidths of kernel least squares

FACTORS = {name: factors for name in KERNELS if (factors := kernel_class(name).factors)}
"""Bandwidths to try, as multiples of the median distance, by kernel."""

_NEXT = 2.0**0.5
LOGISTIC = "logistic regression"
"""Kernel of the candidate that is linear and trained with the logistic loss."""


@dataclass(frozen=True)
class Candidate:
    """Candidate of the automatic choice.

    Parameters
    ----------
    factor : bandwidth divided by the median distance of the sample
    metric : learnt weights of the scaled inputs, () for all 1; steps : in which they were learnt
    """

    scale: Scale
    kernel: str
    factor: float = 1.0
    metric: tuple[float, ...] = field(default=(), repr=False)
    steps: int = 0

    @property
    def name(self) -> str:
        """Return a description for reports."""
        scaling = {"none": "unscaled inputs", "standard": "standardised inputs", "minmax": "inputs scaled to 0 .. 1"}
        if self.kernel in ("linear", LOGISTIC):
            return f"{self.kernel}, {scaling[self.scale]}"
        learnt = f", metric learnt in {self.steps} step{'s' if self.steps > 1 else ''}" if self.metric else ""
        return f"{self.kernel} kernel, {self.factor:.3g} of the median distance, {scaling[self.scale]}{learnt}"

    def neighbours(self) -> tuple[Candidate, ...]:
        """Return the same candidate with bandwidths 2^(1/2) times smaller and larger."""
        if self.kernel in ("linear", LOGISTIC):
            return ()
        return replace(self, factor=self.factor / _NEXT), replace(self, factor=self.factor * _NEXT)


def initial_candidates(scales: tuple[Scale, ...]) -> list[Candidate]:
    """Return all candidates of the first round; linear ones come first, because the first of equals is kept."""
    linear = [Candidate(scale, "linear") for scale in scales]
    curved = [
        Candidate(scale, kernel, factor)
        for kernel, factors in FACTORS.items()
        for factor in factors
        for scale in scales
    ]
    return linear + curved


# Sizes of a model and their cost on a nominal machine: the choice depends on data and budget, never on the clock

SELECTION_SHARE = 0.35  # of the budget; the rest is for training
MOST_LANDMARKS, LEAST_LANDMARKS = 4096, 512
_ROWS_OF_LANDMARK = 4  # at least, for iterations
ENOUGH_LANDMARKS = 2048  # with fewer rows all are landmarks, and there are no cells
_PRODUCTS = 4e10  # multiply-adds of sums of products a second, float64, two cores of 2019
_CUBE = 5e-10  # seconds of eigenvalues and triangular solutions, times n_landmarks^3, one core
_VALUES = 2e10  # a second, of inputs that go into kernel values
_WAVES = 3e11  # the same of a Fourier map that is learned row by row; a sine and its update count as 30 inputs
_ONLINE = ((400, 1), (1600, 1), (3200, 3), (6400, 3), (6400, 7))  # frequencies and passes: many need several
_ITERATED = ((8192, 7), (16384, 9), (32768, 12))  # landmarks and iterations of falkon
_ITERATED_VALUES, _FACTORS = 3e10, 1.3e-11  # inputs a second that go into kernel values; seconds a landmark cubed
_NARROWER = 1 / 3  # power of the number of landmarks: more of them stand closer, and suit a narrower kernel
_LOCAL = ((500, 4), (1000, 8), (2000, 8), (4000, 8))  # rows of a cell and partitions of local
_CELL_SQUARE, _CELL_VALUE = 2e-11, 7e-11  # seconds of a row in a cell, times its rows squared, and of a kernel value
_TUNING, _LEAST_LOCAL = (
    (2.5, 3e-3),
    8192,
)  # seconds of a kernel in sampled cells, and an input; fewer rows have no cells
_NEAR = 1.25  # times the error of the best candidate: models in cells are trained, too, and compared
_MOST_SUPPORTS = 1.25e8  # numbers in the rows that a model in cells holds: a gigabyte
_LONG_SECONDS = 40.0  # for a direct solution with enough landmarks: more landmarks by iterations are better in less
_ROUNDS = ((2048, 384), (4096, 768), (8192, 1024))


@dataclass(frozen=True)
class Shape:
    """Numbers of training rows, inputs, and outputs (scores per row)."""

    rows: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Size:
    """Size of a model: its solver and options, the nominal seconds of its training, and whether none is larger."""

    solver: Literal["ridge", "falkon", "fogd", "local"]
    options: dict[str, int]
    seconds: float
    largest: bool = False

    @property
    def name(self) -> str:
        """Return a description for reports."""
        if self.solver == "local":
            return f"cells of {self.options['cell_rows']:,} rows in {self.options['partitions']} partitions"
        if self.solver != "fogd":
            iterated = f" by {self.options['iterations']} iterations" if self.solver == "falkon" else ""
            return f"{self.options['n_landmarks']:,} landmarks{iterated}"
        passes = self.options["passes"]
        return f"{self.options['frequencies']:,} random frequencies in {passes} pass{'es' if passes > 1 else ''}"


def selection_rounds(
    budget_seconds: float, shape: Shape, n_candidates: int, learns_metric: bool = False
) -> list[tuple[int, int]]:
    """Return sampled rows and landmarks of the rounds that a share of the budget allows, the first one in any case.

    A larger budget has the rounds of a smaller one, and perhaps more after them.

    learns_metric : whether steps of a learnt metric, each of which costs as much as a candidate, are added
    """
    sizes = dict.fromkeys((min(shape.rows, sample), min(shape.rows, landmarks)) for sample, landmarks in _ROUNDS)
    rounds = list(sizes)
    while len(rounds) > 1 and (
        rounds_seconds(rounds, shape, n_candidates, learns_metric) > SELECTION_SHARE * budget_seconds
    ):
        rounds.pop()
    return rounds


def rounds_seconds(
    rounds: list[tuple[int, int]], shape: Shape, n_candidates: int, learns_metric: bool = False
) -> float:
    """Return the nominal seconds of rounds of sampled rows and landmarks."""
    running = (n_candidates, *(number + 1 + learns_metric * (METRIC_STEPS + METRICS_KEPT) for number in SURVIVORS))
    return sum(
        number * ridge_seconds(replace(shape, rows=rows), landmarks)
        for number, (rows, landmarks) in zip(running, rounds, strict=False)
    )


def ridge_seconds(shape: Shape, landmarks: int) -> float:
    """Return the nominal seconds of kernel least squares with a number of landmarks."""
    sums = shape.rows * landmarks**2 / _PRODUCTS
    values = 2.0 * shape.rows * landmarks * (shape.inputs + shape.outputs + 8) / _VALUES  # learned, and then scored
    return sums + values + _CUBE * landmarks**3


def falkon_seconds(shape: Shape, landmarks: int, iterations: int) -> float:
    """Return the nominal seconds of kernel least squares by iterations, of which the first read few rows."""
    values = shape.rows * landmarks * (shape.inputs + 24 + 2 * shape.outputs)
    return (iterations + 2) * values / _ITERATED_VALUES + _FACTORS * landmarks**3


def fogd_seconds(shape: Shape, frequencies: int, passes: int) -> float:
    """Return the nominal seconds of online training with random frequencies."""
    return shape.rows * passes * frequencies * 2.0 * (shape.inputs + 30 * shape.outputs) / _WAVES


def local_seconds(shape: Shape, cell_rows: int, partitions: int) -> float:
    """Return the nominal seconds of kernel least squares in cells."""
    of_row = cell_rows * (_CELL_SQUARE * cell_rows + _CELL_VALUE * (shape.inputs + 8))
    return partitions * shape.rows * of_row


def local_sizes(shape: Shape) -> list[Size]:
    """Return the sizes of kernel least squares in cells."""
    return [
        Size("local", {"cell_rows": rows, "partitions": partitions}, local_seconds(shape, rows, partitions))
        for rows, partitions in _LOCAL
        if 2 * rows <= shape.rows
    ]


def sizes_of(shape: Shape, of_classes: bool) -> list[Size]:
    """Return the sizes of a model, each costlier than the one before; they depend on the data alone.

    Least squares of few rows take all rows as landmarks, and are solved directly. Classes of very many rows are trained
    online: on covtype, the accuracy of 1,600 landmarks was 79.4% on seven classes and 83.2% on two; with 6,400
    frequencies in 7 passes, which take as long, 83.2% and 84.7%. More time allows more landmarks, by iterations.
    """
    if shape.rows <= ENOUGH_LANDMARKS:
        numbers = [shape.rows]
    else:
        numbers = [LEAST_LANDMARKS * 2**k for k in range(4)]
        numbers = [number for number in numbers if number < min(shape.rows, MOST_LANDMARKS)]
        numbers.append(min(shape.rows, MOST_LANDMARKS))
    sizes = [Size("ridge", {"n_landmarks": number}, ridge_seconds(shape, number)) for number in numbers]
    if ridge_seconds(shape, ENOUGH_LANDMARKS if of_classes else LEAST_LANDMARKS) > _LONG_SECONDS:
        sizes = [
            Size("fogd", {"frequencies": frequencies, "passes": passes}, fogd_seconds(shape, frequencies, passes))
            for frequencies, passes in _ONLINE
        ]
    iterated = [
        Size("falkon", {"n_landmarks": number, "iterations": times}, falkon_seconds(shape, number, times))
        for number, times in _ITERATED
        if _ROWS_OF_LANDMARK * number <= shape.rows
    ]
    if iterated and sizes[0].solver == "ridge":  # in less time than the largest direct solutions
        sizes = [size for size in sizes if size.seconds < iterated[0].seconds]
    sizes += [size for size in iterated if size.seconds > sizes[-1].seconds]
    return [*sizes[:-1], replace(sizes[-1], largest=True)]


def largest(sizes: list[Size], seconds: float) -> list[Size]:
    """Return the largest size that can be trained in so many nominal seconds, otherwise the smallest."""
    return [size for size in sizes if size.seconds <= seconds][-1:] or sizes[:1]


def affordable(sizes: list[Size], seconds: float) -> list[Size]:
    """Return the first sizes, as many as can be trained one after the other in so many nominal seconds; at least one.

    More time allows the sizes of less time, and perhaps more after them.
    """
    spent = np.cumsum([size.seconds for size in sizes])
    return sizes[: max(1, int((spent <= seconds).sum()))]


# Successive halving: rounds on more and more sampled rows, with fewer and fewer candidates

Validation = Literal["rows", "blocks", "fifths"]
"""Validation: leave-one-out, five contiguous folds, or five shuffled folds."""

SURVIVORS = (8, 3)  # candidates kept after the first and second round; the best one's neighbours join the last round
_REPORT = Callable[[int, int, float], None]


@dataclass(frozen=True)
class CandidateResult:
    """Result of a candidate in its last round.

    Parameters
    ----------
    error : validated error by the criterion, such as the mistake rate, or the squared error divided by that of the mean
    squared_error : squared error divided by that of the mean, also for classes
    penalty : penalty with the smallest error; of logistic regression, C
    landmarks : landmarks of the round, or columns of a linear candidate
    bandwidth : in scaled units; None for a linear candidate
    in_last_round : whether the candidate was in the last round
    chance : difference of errors below which squared errors decide
    weights : (n_outputs, landmarks) of the landmarks; None if the rows were validated in folds
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
    weights: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)

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


@dataclass(frozen=True)
class Selection:
    """Results of all candidates, best first.

    Parameters
    ----------
    logistic : result of logistic regression, and of the winner on the same folds; None if these were not tried
    """

    ran: tuple[CandidateResult, ...]
    logistic: tuple[CandidateResult, CandidateResult] | None = None

    @property
    def winner(self) -> CandidateResult:
        """Return the best result of the last round."""
        return self.ran[0]

    @property
    def best_linear(self) -> CandidateResult:
        """Return the best linear result, on the same rows as the winner."""
        return next(result for result in self.ran if result.candidate.kernel == "linear")


class ValidationSample:
    """Shuffled sample of raw rows on which candidates are validated.

    Parameters
    ----------
    positions : (rows,), positions of the sampled rows in the data set
    n_threads : number of threads, which never changes the results
    """

    def __init__(
        self,
        schema: Schema,
        sample: Rows,
        positions: IntArray,
        outputs: Outputs,
        n_threads: int,
        by: Validation = "rows",
    ) -> None:
        self._schema, self._sample, self._positions, self._threads = schema, sample, positions, n_threads
        self.outputs, self.by = outputs, by

    def judging(self, by: Validation) -> ValidationSample:
        """Return the same sample with another validation."""
        return ValidationSample(self._schema, self._sample, self._positions, self.outputs, self._threads, by)

    def has_folds(self, rows: int) -> bool:
        """Return whether the first rows can be split into folds: some class must have more than one row."""
        targets = self._sample.targets[:rows]
        return len(np.unique(folds_of(targets, np.arange(len(targets)), self.outputs.task))) > 1

    def can_fit_logistic(self, rows: int) -> int:
        """Return the rows that logistic regression is validated on; 0 for many inputs, or a class of few rows."""
        n_inputs = self._sample.inputs.shape[1]
        some = min(rows, LOGISTIC_ROWS, LOGISTIC_NUMBERS // max(1, n_inputs))
        targets = self._sample.targets[:some]
        return some if min((targets > 0).sum(), (targets <= 0).sum()) >= FOLDS else 0

    def run_logistic(self, rows: int) -> CandidateResult:
        """Validate logistic regression of standardised inputs in five folds, with the cost of the least error."""
        started_at, candidate = time.perf_counter(), Candidate("standard", LOGISTIC)
        inputs = scaled(self._schema, self._sample.inputs[:rows], candidate)
        targets = self._sample.targets[:rows]
        places = self._positions[:rows] if self.by == "blocks" else np.arange(rows)
        folds = folds_of(targets, places, self.outputs.task)
        classes = (targets > 0).astype(np.int64)
        weights, length = self.outputs.weights(targets), float(inputs.shape[1] + 1)
        errors, spreads, criterion = {}, {}, self.outputs.criterion
        counts = np.bincount(classes, minlength=2).tolist()
        for cost in COSTS:
            scores = np.empty(rows)
            for fold in np.unique(folds):
                held = folds == fold
                own = None if weights is None else weights[~held]
                slopes, offsets = fit_logistic(inputs[~held], classes[~held], cost / length, own)
                scores[held] = inputs[held] @ slopes[0] + offsets[0]
            if criterion == "log-loss":  # of the scores as they are: they will be log-odds
                losses = log_losses(scores, classes)
                error, spread = float(losses.mean()), float(losses.std()) / rows**0.5
            else:
                error = criterion_error(criterion, scores, classes)
                spread = standard_error(criterion, error, counts)
            errors[cost / length], spreads[cost / length] = error, spread
        least = min(errors, key=lambda cost: errors[cost])
        # the smallest of those that are as good: its problem is the easiest to solve
        best = min(cost for cost, error in errors.items() if error <= errors[least] + _ALIKE * spreads[least])
        seconds = time.perf_counter() - started_at
        return CandidateResult(
            candidate, errors[best], np.inf, best, rows, inputs.shape[1], None, seconds, True, spreads[best]
        )

    def compare_losses(self, candidate: Candidate, rows: int) -> LossComparison | None:
        """Compare Huber's loss with least squares on held-out folds of a regression; None for light tails."""
        basis, sample, folds = self._folds(candidate, rows)
        return compare_losses(basis, sample, self.outputs, folds, self._threads)

    def compare_logarithm(self, candidate: Candidate, rows: int) -> tuple[float, float] | None:
        """Return held-out errors of models of log(target) and of the target, if the logarithm is clearly better."""
        basis, sample, folds = self._folds(candidate, rows)
        return compare_logarithm(basis, sample, self.outputs, folds, self._threads)

    def _folds(self, candidate: Candidate, rows: int) -> tuple[Basis, Rows, IntArray]:
        """Return the basis of a candidate, and rows of a regression with their folds."""
        some = min(rows, HUBER_ROWS)
        inputs = scaled(self._schema, self._sample.inputs[:some], candidate)
        sample = Rows(inputs, self._sample.targets[:some])
        positions = self._positions[:some] if self.by == "blocks" else np.arange(some)
        folds = folds_of(sample.targets, positions, self.outputs.task)
        basis, _ = basis_of(candidate, inputs, min(some, LEAST_LANDMARKS))
        return basis, sample, folds

    def run(self, candidate: Candidate, rows: int, landmarks: int, in_last_round: bool) -> CandidateResult:
        """Fit a candidate to the first rows with the penalty of the smallest validation error."""
        started_at = time.perf_counter()
        inputs = scaled(self._schema, self._sample.inputs[:rows], candidate)
        basis, bandwidth = basis_of(candidate, inputs, landmarks)
        sample, weights = Rows(inputs, self._sample.targets[:rows]), None
        if self.by == "rows":
            solution = fit_rows(basis, sample, self.outputs, n_threads=self._threads)
            best, weights = solution.best, solution.weights
            assert best is not None, "no penalty was given"
        else:
            positions = self._positions[:rows] if self.by == "blocks" else np.arange(rows)  # these are shuffled
            folds = folds_of(sample.targets, positions, self.outputs.task)
            best = best_of(leave_folds_out(basis, sample, self.outputs, folds, n_threads=self._threads), rows)
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
            best.chance if best.judged is not None or best.mistake_rate is None else apart(best.error, rows),
            weights,
        )

    def next_step(self, result: CandidateResult) -> Candidate:
        """Return the candidate with the metric of the gradients of its solution, for the next step of learning it."""
        candidate, weights = result.candidate, result.weights
        inputs = scaled(self._schema, self._sample.inputs[: result.rows], candidate)
        basis, _ = basis_of(candidate, inputs, result.landmarks)
        assert isinstance(basis, LandmarkBasis), "linear candidates have no metric"
        assert isinstance(basis.kernel, KnownKernel), "candidates name kernels"
        if weights is None:
            sample = Rows(inputs, self._sample.targets[: result.rows])
            weights = fit_rows(basis, sample, self.outputs, result.penalty, n_threads=self._threads).weights
        some = max(GRADIENT_ROWS, int(GRADIENT_PRODUCTS / max(1, weights.size * inputs.shape[1])))
        sums = gradient_sums(basis.kernel, basis.landmarks, weights, inputs[:some], self._threads)
        before = np.array(candidate.metric or (1.0,) * inputs.shape[1])
        metric = learnt_metric(sums, before, input_groups(self._schema))
        return replace(candidate, metric=metric, steps=candidate.steps + 1)


def scaled(schema: Schema, inputs: FloatArray, candidate: Candidate) -> FloatArray:
    """Return raw inputs (rows, n_inputs) scaled for a candidate by the statistics of the training rows, float64."""
    pairs = np.array([scaling_of(candidate.scale, column) for column in schema.feature_statistics]).reshape(-1, 2)
    factors = pairs[:, 1] * np.sqrt(candidate.metric) if candidate.metric else pairs[:, 1]
    return np.ascontiguousarray((inputs - pairs[:, 0]) * factors, dtype=np.float64)


def basis_of(candidate: Candidate, inputs: FloatArray, landmarks: int) -> tuple[Basis, float | None]:
    """Return the basis of a candidate, with the first rows as landmarks, and its bandwidth in scaled units."""
    if candidate.kernel == "linear":
        return MapBasis(plain_inputs(inputs.shape[1], "float64")), None
    _, chosen = fit_kernel(candidate.kernel, None, inputs)
    bandwidth = candidate.factor * float(chosen["bandwidth"])
    kernel, _ = fit_kernel(candidate.kernel, bandwidth, inputs)
    return LandmarkBasis(kernel, np.ascontiguousarray(inputs[:landmarks])), bandwidth


def successive_halving(
    track: ValidationSample,
    starters: list[Candidate],
    rounds: list[tuple[int, int]],
    report: _REPORT,
    learns_metric: bool = False,
) -> Selection:
    """Validate all candidates in the first round, the best of them in the next, and so on.

    Metrics are learnt in the round before the last one, and compete in the last one with the best candidates without
    one; the steps of the winner continue on the rows of the last round.

    Parameters
    ----------
    rounds : sampled rows and landmarks of each round
    report : called with the number of finished fits, their total, and the best score
    learns_metric : whether candidates with a learnt metric are added
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
            report(done, total, 1.0 - min(result.error for result in ran))
        ran = ranked(ran)
        learnt = learn_metrics(track, ran) if learns_metric and number == max(0, len(rounds) - 2) else []
        if last:
            ran = ranked([*ran, *learnt])
        else:
            best, ran = ran[0], ranked([*ran, *learnt])
            better = [result for result in ran[: ran.index(best)] if result.candidate.metric][:METRICS_KEPT]
            plain = [result for result in ran if not result.candidate.metric]
            going = [result.candidate for result in surviving(plain, SURVIVORS[min(number, len(SURVIVORS) - 1)])]
            going = [*(result.candidate for result in better), *going]
            # the best linear candidate always continues: it is cheap, and the baseline of the kernels
            going += [result.candidate for result in plain if result.candidate.kernel == "linear"][:1]
            going = list(dict.fromkeys(going))
            out += [result for result in ran if result.candidate not in going]
            running = going
    if learns_metric and len(rounds) > 1 and ran[0].candidate.metric:
        ran = ranked([*ran, *continued_metric(track, ran[0])])
    out.sort(key=lambda result: (-result.rows, result.error, result.squared_error))
    return Selection((*ran, *out))


def ranked(ran: list[CandidateResult]) -> list[CandidateResult]:
    """Sort results, best first; errors within chance of the best are sorted by squared error."""
    best = min(ran, key=lambda result: result.error)
    alike = best.error + best.chance
    return sorted(
        ran, key=lambda result: (result.error > alike, result.squared_error if result.error <= alike else result.error)
    )


def surviving(best_first: list[CandidateResult], number: int) -> list[CandidateResult]:
    """Return the kept results: half by rank, the others by squared error, which is more reliable on few rows."""
    first = best_first[: -(-number // 2)]
    others = sorted((result for result in best_first if result not in first), key=lambda result: result.squared_error)
    return first + others[: number - len(first)]


# Learnt metrics: recursive feature machines that start at good candidates

METRIC_STEPS = 4  # at most, from each of the two candidates that learning starts at, and on the rows of the last round
METRICS_KEPT = 2  # candidates with a learnt metric in the last round
GRADIENT_ROWS, GRADIENT_PRODUCTS = 512, 2e9  # rows whose gradients are averaged: at least, and by multiply-adds
_STEADY = 0.005  # relative reduction of the squared error; learning ends after a step with less


def learn_metrics(track: ValidationSample, best_first: list[CandidateResult]) -> list[CandidateResult]:
    """Return the steps of metrics that are learnt from the best candidate and from the best one of another kernel."""
    curved = [result for result in best_first if kernel_has_gradient(result.candidate.kernel)]
    others = [result for result in curved if result.candidate.kernel != curved[0].candidate.kernel]
    steps = [step for start in curved[:1] for step in continued_metric(track, start)]
    if len(steps) > 1:  # the first one reduced the error
        steps += [step for start in others[:1] for step in continued_metric(track, start)]
    return steps


def continued_metric(track: ValidationSample, start: CandidateResult) -> list[CandidateResult]:
    """Return the results of the next steps of a candidate's metric, on its rows and landmarks.

    Source: Radhakrishnan, Beaglehole, Pandit & Belkin, Science 383, 2024, Algorithm 1; steps are compared by the
    validation of all candidates.
    """
    steps, last = list[CandidateResult](), start
    while len(steps) < METRIC_STEPS:
        step = track.run(track.next_step(last), start.rows, start.landmarks, start.in_last_round)
        steps.append(step)
        if step.squared_error > (1.0 - _STEADY) * last.squared_error:
            break
        last = step
    return steps


def kernel_has_gradient(kernel: str) -> bool:
    """Return whether a metric can be learnt from solutions of a candidate's kernel."""
    return kernel in FACTORS and kernel_class(kernel).slopes is not KnownKernel.slopes


# Similarity of neighbouring rows, which decides between shuffled and contiguous folds

LEAST_ROWS = 200
_MORE, _MUCH_MORE = 1.25, 3.0  # times the error of fifths that are drawn at random
_DEVIATIONS = 4.0


@dataclass(frozen=True)
class NeighbourSimilarity:
    """Errors of a candidate with contiguous and with shuffled folds, which show whether neighbouring rows are similar.

    Parameters
    ----------
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

    def words(self, blocks: bool) -> str:
        """Return the sentences for the report; blocks : whether candidates were validated with contiguous folds."""
        measure, apart, together = "5-fold error is", f"{self.apart:.1%}", f"{self.together:.1%}"
        if self.criterion == "squared-error":
            measure = "5-fold share of unexplained variance is"
        elif self.criterion != "accuracy":
            measure = f"5-fold {CRITERION_NAMES[self.criterion]} is"
            apart, together = (criterion_value(self.criterion, error) for error in (self.apart, self.together))
        text = (
            f"Neighbouring rows are similar: {measure} {apart} with shuffled folds, {together} with contiguous folds."
        )
        if blocks:
            return f"{text} Candidates were validated with contiguous folds, because the test rows were given."
        expected = f"{self.together:.0%}" if self.criterion in ("accuracy", "squared-error") else together
        return f"{text} Expect about {expected} on data from a new period; --validation blocks selects for it."


def measure_similarity(
    track: ValidationSample, candidate: CandidateResult, size: tuple[int, int]
) -> NeighbourSimilarity:
    """Return the errors of the best candidate with contiguous and shuffled folds, for the size of a round."""
    together = track.judging("blocks").run(candidate.candidate, *size, in_last_round=False)
    apart = track.judging("fifths").run(candidate.candidate, *size, in_last_round=False)
    return NeighbourSimilarity(together.error, apart.error, size[0], track.outputs.criterion)


def are_test_rows_given(data: Dataset) -> bool:
    """Return whether the test rows were given, not drawn; given ones are often from another period or place."""
    return data.rows("test") > 0 and share_of(read_manifest(data.folder).settings.get("holdout")) is None


# Choice of solver, scaling, kernel, bandwidth and size within a budget of nominal seconds, with reasons

_LEFT_OUT: dict[Validation, str] = {
    "rows": "leave-one-out",
    "blocks": "5 contiguous folds",
}
OF_PROBABILITIES = ("log-loss", *OF_RANKING)  # criteria that the logistic loss suits better than the hinge loss
LOGISTIC_ROWS, LOGISTIC_NUMBERS = 8192, 400_000  # of the sample that logistic regression is validated on
HUBER_ROWS = 4096  # of the sample that Huber's loss is validated on
_ALIKE = 0.1  # standard errors
METRIC_SECONDS = 20.0  # nominal, for the metric of a given solver
_MOST_OF, _MOST_NAMED = 0.9, 6  # of the squared distance, and columns, that the sentence on a metric names
_SAME = 0.5  # standard errors: a linear model that close to the best is preferred, as it is simpler


@dataclass(frozen=True)
class Choice:
    """Models to train one after the other, and the record of their choice, stored in the result as "choice".

    Parameters
    ----------
    models : complete settings and size of each model, the cheapest first; the size is None where there is only one
    metric : learnt weights of the inputs of all models, see `Dataset.with_metric`; () for none
    """

    models: tuple[tuple[TrainSettings, Size | None], ...]
    record: dict[str, Any]
    metric: tuple[float, ...] = ()

    @property
    def settings(self) -> TrainSettings:
        return self.models[-1][0]


def choose_solver(settings: TrainSettings, data: Dataset, observer: Observer | None = None) -> Choice:
    """Choose the best candidate on a sample of the training rows, and its size by the budget; settings.solver is auto.

    The same data, budget and seed give the same choice on any machine of one kind: time is counted in operations.

    Raises
    ------
    ConfigError : fewer than two training rows; validation is blocks, and no class has two rows
    DataError : shards that cannot be read
    """
    assert settings.solver == "auto", "there is something to choose"
    rows = data.rows("train")
    if rows < 2:
        raise ConfigError(f"{data.folder} has {rows} training rows, but --solver auto needs at least 2. Name a solver.")
    options = settings.options
    assert isinstance(options, AutoSettings), "the solver is auto"
    started_at, observer, schema = time.perf_counter(), observer or NullObserver(), data.schema
    shape = Shape(rows, schema.n_features, schema.n_outputs)
    criterion = criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    if criterion == "balanced-accuracy" and options.class_weights == "none":
        settings = settings.replaced(class_weights="balanced")
        options = settings.options
        assert isinstance(options, AutoSettings), "another option leaves the solver as it is"
    weights = options.weights_of_classes(schema)
    if schema.sparse is not None:
        chosen, record = _choose_sparse(settings, data, criterion, weights)
        record |= {"criterion": criterion, "budget_seconds": options.budget_seconds}
        return Choice(((chosen, None),), record | {"seconds": time.perf_counter() - started_at})
    outputs = Outputs(schema.task, schema.n_outputs, weights, criterion)
    result, by, sentences, track = _raced(settings, options, data, outputs, observer)
    if (
        schema.task == "binary"
        and criterion in OF_PROBABILITIES
        and (some := track.can_fit_logistic(result.winner.rows))
    ):
        folds = track.judging("blocks" if by == "blocks" else "fifths")
        kernel = folds.run(result.winner.candidate, some, min(some, result.winner.landmarks), in_last_round=False)
        result = replace(result, logistic=(folds.run_logistic(some), kernel))
    update, why = _best_of(result, by, schema, criterion)
    hint = ""
    if schema.task == "regression" and rows >= LEAST_ROWS and sizes_of(shape, of_classes=False)[0].solver == "ridge":
        tails = _heavy_tails(track.judging(by), result, update["kernel"])
        update, why = update | ({"huber": HUBER} if tails else {}), why + tails
        hint = _logarithm(track.judging(by), result, update["kernel"], schema.target)
    metric = result.winner.candidate.metric if update.get("kernel") != "linear" else ()
    if metric:
        update["metric"] = "diagonal"
        why.append(metric_sentence(result, schema, criterion))
    models: list[tuple[TrainSettings, Size | None]] = []
    tuned_seconds = 0.0
    if "solver" in update:
        models.append((_complete(settings, update, result, by), None))
    else:
        sizes, local, tuned_seconds = _sizes_with_cells(settings, update, data, result, by, outputs, why)
        for size in sizes:
            sized = update | size.options | {"solver": size.solver}
            if size.solver == "falkon" and "bandwidth" in update:
                fewer = result.winner.landmarks / size.options["n_landmarks"]
                sized["bandwidth"] = update["bandwidth"] * fewer**_NARROWER
            if size.solver == "fogd" and schema.task == "binary" and criterion in OF_PROBABILITIES:
                sized["loss"] = "logistic"
            if size.solver == "local":
                sized |= {"kernel": local["kernel"], "bandwidth": local["bandwidth"]}
                sized["penalty"] = local["ridge"] / size.options["cell_rows"]
            models.append((_complete(settings, sized, result, by), size))
    if len(models) == 1 and (only := models[0][1]) is not None:
        exact = only.options.get("n_landmarks") == rows
        name = only.name[0].upper() + only.name[1:]
        limit = f"{name}, as many as {options.budget_seconds:g} s allow on a machine with two cores."
        why.append(f"All {rows:,} training rows are landmarks, so the solution is exact." if exact else limit)
    record = {
        "validation": by,
        "criterion": criterion,
        "rows": result.winner.rows,
        "budget_seconds": options.budget_seconds,
        "nominal_seconds": _nominal_seconds(settings, options, schema, shape)
        + tuned_seconds
        + (models[0][1].seconds if len(models) == 1 and models[0][1] is not None else 0.0),
        "seconds": time.perf_counter() - started_at,
        "candidates": [candidate.as_json() for candidate in (*result.ran, *(result.logistic or ())[:1])],
        "why": ordered_reasons(why + sentences, models[0][0]) if len(models) == 1 else why + sentences,
    } | ({"hint": hint} if hint else {})
    return Choice(tuple(models), record, metric)


def _sizes_with_cells(
    settings: TrainSettings,
    update: dict[str, Any],
    data: Dataset,
    result: Selection,
    by: Validation,
    outputs: Outputs,
    why: list[str],
) -> tuple[list[Size], dict[str, Any], float]:
    """Return the sizes that the budget allows, what was tuned in cells, and the nominal seconds of that.

    why : gets a sentence if cells were tried
    """
    options, rows, schema = settings.options, data.rows("train"), data.schema
    assert isinstance(options, AutoSettings), "the solver is auto"
    shape, local, tuned_seconds = Shape(rows, schema.n_features, schema.n_outputs), dict[str, Any](), 0.0
    seconds = (1.0 - SELECTION_SHARE) * options.budget_seconds
    sizes = sizes_of(shape, schema.task != "regression")
    if "huber" in update:
        sizes = [size for size in sizes if size.solver == "ridge"]
        seconds /= 1 + HUBER_ROUNDS
    elif by == "rows" and rows > ENOUGH_LANDMARKS and rows * shape.inputs <= _MOST_SUPPORTS:
        smallest = local_sizes(shape)[:1]
        needed = (_TUNING[0] + _TUNING[1] * shape.inputs) * len(_local_kernels(update))
        if smallest and smallest[0].seconds + needed <= seconds:
            tuned_seconds = needed
            # where both are trained, a sample need not decide; online models cannot be compared with these
            most = 1.0 if sizes[0].solver == "fogd" else _NEAR
            local, sentence = _local(settings, update, data, result, outputs, most)
            why.append(sentence)
    if local:
        offline = [size for size in sizes if size.solver != "fogd"]
        sizes = sorted([*offline, *local_sizes(shape)], key=lambda size: size.seconds)
        sizes = [replace(size, largest=size is sizes[-1]) for size in sizes]
    # errors by rows flatter under "blocks", and no rows are left to compare online models on: one size
    one = by == "blocks" or sizes[0].solver == "fogd"
    return largest(sizes, seconds) if one else affordable(sizes, seconds - tuned_seconds), local, tuned_seconds


IN_CELLS = "Expansions in cells of neighbouring rows"
"""Beginning of the sentence on models in cells."""


def ordered_reasons(why: list[str], settings: TrainSettings) -> list[str]:
    """Return the sentences, that on the chosen solver first: summaries show one."""
    return sorted(why, key=lambda sentence: not sentence.startswith(IN_CELLS)) if settings.solver == "local" else why


def _local_kernels(update: dict[str, Any]) -> tuple[str, ...]:
    """Return the kernels that are tried in cells: rough functions are learned best from close neighbours."""
    able = shift_invariant_kernels()  # an added kernel may be none
    return tuple(dict.fromkeys(name for name in ("laplacian", update["kernel"]) if name in able))


def _local(
    settings: TrainSettings,
    update: dict[str, Any],
    data: Dataset,
    result: Selection,
    outputs: Outputs,
    most: float,
) -> tuple[dict[str, Any], str]:
    """Return the kernel, bandwidth and ridge of models in cells, with a sentence; {} if they are not good enough.

    In cells there are all rows, of which the other candidates have seen a sample.

    most : their error over that of the best candidate
    """
    candidate, criterion, tried = result.winner.candidate, outputs.criterion, {}
    rescaled = replace(data, schema=replace(data.schema, scale=candidate.scale)).with_metric(candidate.metric)
    for kernel in _local_kernels(update):
        solver = LocalSolver(
            kernel, class_weights=outputs.class_weights, seed=settings.seed, precision="float64", criterion=criterion
        )
        tried[kernel] = solver.tuned(rescaled, _threads(settings), compared=True)
    kernel = min(tried, key=lambda name: tried[name].error)
    best = tried[kernel]
    sentence = (
        f"{IN_CELLS}, {kernel} kernel, all {data.rows('train'):,} training rows: "
        f"{named_error(criterion, best.error)} in sampled cells (leave-one-out)"
    )
    if best.error >= most * result.winner.error:
        return {}, f"{sentence}, not better."
    return {"kernel": kernel, "bandwidth": best.bandwidth, "ridge": best.ridge}, f"{sentence}."


def _nominal_seconds(settings: TrainSettings, options: AutoSettings, schema: Schema, shape: Shape) -> float:
    """Return the nominal seconds of the rounds, without another pass for similar neighbouring rows."""
    cost = shape, len(initial_candidates(_scales(settings, schema))), settings.metric != "none"
    return rounds_seconds(selection_rounds(options.budget_seconds, *cost), *cost)


def metric_sentence(result: Selection, schema: Schema, criterion: Criterion) -> str:
    """Return the sentence on the metric of the winner: the columns that matter, and the error without it."""
    winner = result.winner
    learnt = replace(schema, scale=winner.candidate.scale, metric=winner.candidate.metric)
    shares, total, named = metric_shares(learnt), 0.0, list[str]()
    for column, share in shares.items():
        if total >= _MOST_OF or len(named) == _MOST_NAMED:
            break
        named.append(repr(column))
        total += share
    plain = next(each for each in result.ran if not each.candidate.metric and each.candidate.kernel != "linear")
    of = f"{len(named)} of {len(shares)} columns" if len(shares) > 1 else "the column"
    return (
        f"The metric gives {total:.0%} of the squared distance to {of}: {', '.join(named)}. "
        f"Best kernel without a learnt metric: {_value(criterion, plain.error)}."
    )


def learn_metric(
    settings: TrainSettings, data: Dataset, observer: Observer | None = None
) -> tuple[tuple[float, ...], str]:
    """Return the metric for a given solver, learnt on a sample of the training rows, and a sentence on it.

    It is () if leave-one-out errors of kernel least squares are not smaller with a metric. The kernel is that of the
    settings, or all that the automatic choice tries.

    Raises
    ------
    ConfigError : fewer than two training rows; DataError : shards that cannot be read
    """
    schema, observer = data.schema, observer or NullObserver()
    if data.rows("train") < 2:
        raise ConfigError(f"{data.folder} has {data.rows('train')} training rows, but a metric needs at least 2.")
    criterion = criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    given = settings.options.model_dump().get("kernel")
    starters = [each for each in initial_candidates((schema.scale,)) if each.kernel != "linear"]
    if kernel_has_gradient(str(given)):
        starters = [each for each in starters if each.kernel == given]
    shape = Shape(data.rows("train"), schema.n_features, schema.n_outputs)
    rounds = selection_rounds(METRIC_SECONDS / SELECTION_SHARE, shape, len(starters), learns_metric=True)
    sample, positions = _sample(data, _ROUNDS[-1][0], settings.seed)
    outputs = Outputs(schema.task, schema.n_outputs, None, criterion)
    track = ValidationSample(schema, sample, positions, outputs, _threads(settings))

    result = successive_halving(track, starters, rounds, _teller(observer), learns_metric=True)
    if not result.winner.candidate.metric:
        error = named_error(criterion, result.winner.error)
        return (), f"No metric was used: leave-one-out errors on sampled rows are not smaller with one ({error})."
    sentence = metric_sentence(result, schema, criterion)
    return result.winner.candidate.metric, f"{sentence} With it: {named_error(criterion, result.winner.error)}."


def _heavy_tails(track: ValidationSample, result: Selection, kernel: str) -> list[str]:
    """Return a sentence if Huber's loss is better than squares for the chosen candidate, otherwise nothing."""
    taken = result.best_linear if kernel == "linear" else result.winner
    losses = track.compare_losses(taken.candidate, result.winner.rows)
    if losses is None or not losses.is_better:
        return []
    return [
        f"The errors have heavy tails: on held-out folds, Huber's loss leaves {losses.huber:.2%} of the variance "
        f"unexplained, least squares {losses.squared:.2%}."
    ]


def _logarithm(track: ValidationSample, result: Selection, kernel: str, target: str) -> str:
    """Return a sentence if a model of the target's logarithm would be clearly better, otherwise nothing."""
    taken = result.best_linear if kernel == "linear" else result.winner
    errors = track.compare_logarithm(taken.candidate, result.winner.rows)
    if errors is None:
        return ""
    return (
        f"{target!r} is positive and skewed: models of its logarithm leave {errors[0]:.2%} of its variance unexplained "
        f"on held-out folds, models of itself {errors[1]:.2%}. Train on a column with the logarithm."
    )


def _complete(settings: TrainSettings, update: dict[str, Any], result: Selection, by: Validation) -> TrainSettings:
    """Return settings with a chosen model."""
    if update["solver"] in ("ridge", "local"):
        update["precision"] = "float64"  # as if they were given
    if update["solver"] == "ridge" and by == "blocks":  # its own would be that of least leave-one-out error
        update["penalty"] = result.winner.penalty if update["kernel"] != "linear" else result.best_linear.penalty
    return settings.replaced(**update)


def _raced(
    settings: TrainSettings, options: AutoSettings, data: Dataset, outputs: Outputs, observer: Observer
) -> tuple[Selection, Validation, list[str], ValidationSample]:
    """Return the results that decide, their validation, sentences on similar neighbouring rows, and the sample."""
    starters = initial_candidates(_scales(settings, data.schema))
    shape = Shape(data.rows("train"), data.schema.n_features, data.schema.n_outputs)
    learns_metric = settings.metric != "none"
    rounds = selection_rounds(options.budget_seconds, shape, len(starters), learns_metric)
    sample, positions = _sample(data, _ROUNDS[-1][0], settings.seed)  # the same for any budget
    by: Validation = "blocks" if options.validation == "blocks" else "rows"
    track = ValidationSample(data.schema, sample, positions, outputs, _threads(settings), by)

    tell = _teller(observer)
    result = successive_halving(track, starters, rounds, tell, learns_metric)
    size = rounds[min(1, len(rounds) - 1)]
    if options.validation != "auto" or rounds[-1][0] < LEAST_ROWS or not track.has_folds(size[0]):
        return result, by, [], track
    similarity = measure_similarity(track, result.winner, size)
    if not similarity.differs:
        return result, by, [], track
    if not (similarity.decides and are_test_rows_given(data)):
        return result, by, [similarity.words(blocks=False)], track
    starters += [each.candidate for each in result.ran if each.candidate.metric]
    return (
        successive_halving(track.judging("blocks"), starters, rounds, tell),
        "blocks",
        [similarity.words(blocks=True)],
        track,
    )


def _teller(observer: Observer) -> _REPORT:
    def tell(done: int, total: int, best: float) -> None:
        observer.advance(done, total, {"score": best})

    return tell


def _sample(data: Dataset, n: int, seed: int) -> tuple[Rows, IntArray]:
    """Return shuffled raw rows and their positions in the data set."""
    raw = replace(data, schema=replace(data.schema, scale="none", metric=()))
    rows = sample_rows(raw, "train", n, seed, "float64", SAMPLE_GROUPS)
    order = np.random.default_rng((seed, 0x2ACE)).permutation(len(rows.targets))[:n]
    return Rows(rows.inputs[order], rows.targets[order]), order


def _scales(settings: TrainSettings, schema: Schema) -> tuple[Scale, ...]:
    """Return the scalings to try: the given one, otherwise those for columns of any unit."""
    if settings.rescale != "stored" or schema.scale != "none" or not schema.feature_statistics:
        return (schema.scale,)
    return tuple(scale for scale in get_args(Scale) if scale != "none")


def _threads(settings: TrainSettings) -> int:
    return default_threads() if settings.threads == "auto" else settings.threads


def _best_of(
    result: Selection, by: Validation, schema: Schema, criterion: Criterion
) -> tuple[dict[str, Any], list[str]]:
    """Return the chosen model, without a solver if its size is open, and sentences with the reasons."""
    winner, linear = result.winner, result.best_linear
    if result.logistic is not None:
        logistic, least_squares = result.logistic
        if logistic.error <= least_squares.error + _SAME * logistic.chance:
            value = _value(criterion, least_squares.error)
            why = [
                _how_good(logistic, 1 + len(result.ran), by, criterion, "5 folds"),
                f"The best model of least squares, {winner.candidate.name}, has {value} on the same folds.",
            ]
            options = {"solver": "logistic", "kernel": "linear", "rescale": "standard", "C": logistic.penalty}
            return options | {"precision": "float64"}, why
    taken = linear if _as_good(result) else winner
    why = [_how_good(taken, len(result.ran), by, criterion)]
    if taken is linear:
        curved = next(candidate for candidate in result.ran if candidate.candidate.kernel != "linear")
        value = _value(criterion, curved.error)
        why.append(f"The best kernel, {curved.candidate.name} ({value}), is not significantly better.")
        return {"solver": "ridge", "kernel": "linear", "rescale": linear.candidate.scale}, why
    why.append(f"Best linear model: {_value(criterion, linear.error)}.")
    least = min(candidate.error for candidate in result.ran if candidate.rows == winner.rows)
    if least < winner.error:
        why.append(
            f"Another candidate had {_value(criterion, least)}, a difference within chance, but a larger squared "
            "error, which decides."
        )
    assert winner.bandwidth is not None
    return {"kernel": winner.candidate.kernel, "bandwidth": winner.bandwidth, "rescale": winner.candidate.scale}, why


def _how_good(taken: CandidateResult, of: int, by: Validation, criterion: Criterion, folds: str | None = None) -> str:
    return (
        f"{taken.candidate.name[0].upper()}{taken.candidate.name[1:]}, of {of} candidates: "
        f"{named_error(criterion, taken.error)} on {taken.rows:,} sampled rows ({folds or _LEFT_OUT[by]})."
    )


def named_error(criterion: Criterion, error: float) -> str:
    """Return an error with the name of its criterion."""
    names = {"accuracy": "mistakes", "squared-error": "of the variance unexplained"}
    return f"{_value(criterion, error)} {names.get(criterion, CRITERION_NAMES[criterion])}"


def _value(criterion: Criterion, error: float) -> str:
    return f"{error:.2%}" if criterion in ("accuracy", "squared-error") else criterion_value(criterion, error)


def _as_good(result: Selection) -> bool:
    """Return whether a linear candidate is the best, or not significantly worse."""
    winner, linear = result.winner, result.best_linear
    return winner is linear or (winner.chance > 0.0 and linear.error <= winner.error + _SAME * winner.chance)


# Sparse rows: a linear l2-svm, whose C has the least error on held-out rows

SPARSE_COSTS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Weights of the losses, in ascending order; the search ends with the first that is worse than one before."""
MOST_SPARSE, LEAST_SPARSE, HELD_OUT = 131_072, 16_384, 4  # of the sample, by scores a row; every fourth is held out
SPARSE_TOLERANCE = 1e-3  # relative gap of the model


def _choose_sparse(
    settings: TrainSettings, data: Dataset, criterion: Criterion, weights: tuple[float, ...] | None
) -> tuple[TrainSettings, dict[str, Any]]:
    """Return settings of a linear l2-svm and what its record adds; raise ConfigError for a regression."""
    schema = data.schema
    if schema.task == "regression":
        raise ConfigError(
            f"Target {schema.target!r} makes this a regression, but sparse rows have models of classes only. Drop text "
            "columns, or ingest svmlight text with --storage dense or --hash-columns 1024."
        )
    # the best C falls with the rows: many, where they are cheap
    n_rows = max(LEAST_SPARSE, MOST_SPARSE // schema.n_outputs)
    sample = sample_rows(data, "train", n_rows, settings.seed, "float32", n_rows)
    order = np.random.default_rng((settings.seed, 0x5CA1)).permutation(len(sample.targets))
    inputs, classes = sample.inputs[order], class_indices(schema, sample.targets)[order]
    held = np.arange(len(order)) % HELD_OUT == 0
    errors: dict[float, float] = {}
    for cost in SPARSE_COSTS:
        own = None if weights is None else np.array(weights)[classes[~held]]
        scores = _sparse_scores(cost, inputs[~held], classes[~held], inputs[held], own, schema.n_outputs)
        errors[cost] = criterion_error(criterion, scores, classes[held])
        if errors[cost] > min(errors.values()):
            break
    best = min(errors, key=lambda cost: (errors[cost], cost))
    candidates = [
        {"name": f"linear l2-svm, C = {cost:g}", "score": 1.0 - error, "rows": len(order), "landmarks": 0,
         "seconds": 0.0, "kept": cost == best}
        for cost, error in errors.items()
    ]  # fmt: skip
    why = (
        f"Rows are sparse, {schema.n_features:,} columns: a linear l2-svm. C = {best:g} has the least error of "
        f"{len(errors)} values, {errors[best]:.2%} on {int(held.sum()):,} held-out rows."
    )
    record = {"validation": "rows", "rows": len(order), "candidates": candidates, "why": [why]}
    return settings.replaced(solver="l2-svm", kernel="linear", C=best, tol=SPARSE_TOLERANCE), record


@one_blas_thread()  # bits depend on the number of threads
def _sparse_scores(
    cost: float, inputs: Any, classes: NDArray[np.int64], held: Any, weights: FloatArray | None, n_outputs: int
) -> NDArray[np.float64]:
    """Return scores of held-out rows, (rows,) or (rows, n_outputs), of models of a cost trained on the others."""
    scores = np.full((held.shape[0], n_outputs), -np.inf)
    rows: SparseRows | None = None
    for output in range(n_outputs):
        signs = np.where(classes == (1 if n_outputs == 1 else output), 1.0, -1.0)
        if len(np.unique(signs)) < 2:  # a class so rare that no row of it is in the sample
            continue
        rows = SparseRows(inputs, signs) if rows is None else relabelled(rows, signs)
        state, _, method = solve(make_model("l2-svm", C=cost).problem(rows, weights), Newton(1e-2, 100))
        solution = method.solution(state, None)
        scores[:, output] = held @ solution.weights - solution.certificate.bias
    scores[~np.isfinite(scores)] = -1e30
    return scores[:, 0] if n_outputs == 1 else scores
