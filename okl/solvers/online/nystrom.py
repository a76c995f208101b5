"""Nystrom online gradient descent (NOGD)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.compiled.kernels import kernel_block
from okl.compiled.products import panels_of
from okl.compiled.sgd import FillingSupports, UpdateRule, fill_budget
from okl.compiled.threads import MOST_ROWS
from okl.data.execution import Rows
from okl.features.base import FeatureMap, precision_of
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import NystromFeatures, fit_nystrom_map
from okl.features.predictors import LinearPredictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import Doubles, FloatArray, Mode, Precision, Task
from okl.foundation.validation import check_at_least
from okl.kernels import Kernel
from okl.losses import Loss
from okl.solvers.online import base as online
from okl.solvers.online.linear import LinearFactory, LinearLearner, Weights, longest_subgradient, step_in_ball
from okl.solvers.online.maps import ChosenMap, check_rank, refuse_bandwidth_with, suitable_kernel

# State: support vectors, then a Nystrom map with weights.

NOISE = 2.0**-40  # of a projection's entries, relative to the largest of their column


@stored("nogd-support-vectors")
@dataclass(frozen=True, eq=False)
class SupportSet:
    """The kernel expansion f = sum_i coefficients_i k(x_i, .).

    inputs : (n_supports, n_inputs), in order of addition; coefficients : (n_outputs, n_supports); one precision
    """

    inputs: FloatArray
    coefficients: FloatArray

    def expansion(self, kernel: Kernel) -> NystromFeatures:
        """Return the map z(x) = (k(x_1, x), ..., k(x_n, x)), in which the coefficients are weights."""
        return NystromFeatures(kernel, self.inputs, np.eye(len(self.inputs), dtype=self.inputs.dtype))


@stored("nogd-state")
@dataclass(frozen=True, eq=False)
class NOGDState:
    """The state of NOGD: a value that no method writes into.

    supports : the kernel expansion; the landmarks, once they are as many as the budget
    feature_map, weights : the Nystrom map and the weights in it; None until a further support would not fit
    filled : how the predictions did until then
    """

    supports: SupportSet
    feature_map: NystromFeatures | None
    weights: Weights | None
    filled: online.Progress

    @property
    def progress(self) -> online.Progress:
        return self.filled if self.weights is None else self.weights.progress


def fill(
    kernel: Kernel, budget: int, rule: UpdateRule, state: NOGDState, inputs: FloatArray, targets: Doubles
) -> tuple[NOGDState, int]:
    """Learn rows by kernel gradient descent until one more support would not fit: the state, and how many were learned.

    inputs : (rows, n_inputs), targets : (rows,); checked
    Raises DataError : a kernel value is not finite
    """
    counts, sums, class_counts = online.progress_arrays(state.filled)
    n_outputs, size = state.supports.coefficients.shape
    squared_norm = np.zeros(1)
    coefficients = np.zeros((n_outputs, budget), dtype=inputs.dtype)
    coefficients[:, :size] = state.supports.coefficients
    added = np.zeros(budget, dtype=np.int64)
    filling = FillingSupports(coefficients, np.array([size]), added, counts, sums, class_counts, squared_norm)
    supports, done = state.supports.inputs, 0
    for first in range(0, len(targets), MOST_ROWS):
        block, before = inputs[first : first + MOST_ROWS], len(supports)
        values = _kernel_values(kernel, block, np.concatenate([supports, block]))
        if rule.radius > 0.0:  # measured afresh, so that blocks are the same however rows are cut
            squared_norm[0] = _squared_norm(kernel, supports, coefficients[:, :before])
        trained = fill_budget(
            filling,
            np.ascontiguousarray(values[:, :before]),
            np.ascontiguousarray(values[:, before:]),
            targets[first : first + MOST_ROWS],
            rule,
        )
        supports = np.concatenate([supports, block[added[before : filling.size[0]]]])
        done += trained
        if trained < len(block):
            break
    support_set = SupportSet(supports, np.ascontiguousarray(coefficients[:, : len(supports)]))
    progress = online.progress_from(state.filled.task, counts, sums, class_counts)
    return replace(state, supports=support_set, filled=progress), done


def _squared_norm(kernel: Kernel, supports: FloatArray, coefficients: FloatArray) -> float:
    """Return ||f||^2 of the kernel expansions of all outputs together, in the space of the kernel."""
    values = _kernel_values(kernel, supports, supports).astype(np.float64)
    with one_blas_thread():
        return float(np.sum((coefficients @ values) * coefficients))


def nystrom_start(kernel: Kernel, rank: int, state: NOGDState) -> NOGDState:
    """Return the state whose supports have become landmarks.

    The map, and weights whose scores are nearest the expansion's.

    w = alpha pinv(M), with M the map's projection, so that w'z(x) is about sum_i alpha_i k(x_i, x).

    Raises DataError, ConfigError : the kernel is not positive definite on the supports

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 2 and section 3.3.
    """
    supports = state.supports
    with one_blas_thread():
        fitted = fit_nystrom_map(kernel, _used_columns(kernel, supports.inputs), rank, precision_of(supports.inputs))
        projection = _without_noise(fitted.projection)
        feature_map = NystromFeatures(kernel, supports.inputs, projection)
        inverse = np.linalg.pinv(feature_map.projection.astype(np.float64).T)
        last = supports.coefficients.astype(np.float64) @ inverse
    weights = Weights(np.ascontiguousarray(last, dtype=supports.inputs.dtype), None, 0, state.filled)
    return replace(state, feature_map=feature_map, weights=weights)


def _used_columns(kernel: Kernel, inputs: FloatArray) -> FloatArray:
    """Return inputs without columns of nothing but 0, which no known kernel sees.

    BLAS may add up a wider kernel matrix in another order: a column that appears later is to leave the map its bits.
    """
    used = inputs.any(axis=0)
    return inputs if kernel.rule is None or not used.any() else inputs[:, used]


def _without_noise(projection: FloatArray) -> FloatArray:
    """Return the projection with 0 for entries that are nothing but rounding of the eigenvectors.

    A support that is far from all others has no part in most eigenvectors. What rounding leaves there would decide the
    sign of the score of every row that is near this support only; on data of unlike scale that is one row in five.
    """
    sizes = np.abs(projection)
    return np.where(sizes < NOISE * sizes.max(axis=0), projection.dtype.type(0), projection)


def _kernel_values(kernel: Kernel, left: FloatArray, right: FloatArray) -> FloatArray:
    """Return values (m, n) of every row of left with every row of right, in their precision."""
    if kernel.rule is not None:
        values: FloatArray = np.empty((len(left), len(right)), dtype=left.dtype)
        kernel_block(values, np.ascontiguousarray(left), panels_of(right.T), kernel.rule)
    else:
        with one_blas_thread():
            values = kernel.matrix(left, right).astype(left.dtype)
    if not np.isfinite(values).all():
        raise DataError(
            f"The kernel {kernel.name!r} has values that are not finite in {left.dtype}. Scale "
            "the inputs, or use a kernel with smaller values."
        )
    return values


@stored("nogd-learner")
@dataclass(frozen=True, eq=False)
class NOGDLearner:
    """Settings of NOGD: the first `budget` rows that suffer a loss become landmarks of a Nystrom map of some rank.

    Until the budget is full, a row with a loss becomes a support vector: f <- f - step_size c loss'(f) k(x, .). At the
    next such row the kernel matrix K of the supports gives M = D^(-1/2) V' of its largest eigenpairs (D, V) and
    w = alpha pinv(M); training on that row and all after it is in z(x) = M (k(x_1, x), ..., k(x_budget, x)):
    w <- w - step_size c loss'(w'z) z. In a ball, every step ends at the nearest f with ||f|| <= radius in the space of
    the kernel, then at the nearest w with ||w|| <= radius; w = alpha pinv(M) is the orthogonal projection of f onto the
    functions w'z, whose norm is ||w||, so that it stays in the ball.

    kernel : any positive definite kernel, of the table or the user's own; n_inputs : columns of the inputs
    loss : of the table; step_size : > 0, for both kinds of steps
    budget : support vectors, the landmarks; rank : columns of the map, at most budget
    n_outputs : number of classes for several classes, otherwise 1
    class_weights : c, factor of the step of each class, in label order; None for 1
    average : whether weights are sampled for an average, once the map is there
    precision : of inputs, kernel values and weights; radius, decaying : as in LinearLearner
    Raises ConfigError : a size, the rank, the step size or the class weights do not fit
    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2, 4 and 6.
    """

    kernel: Kernel
    n_inputs: int
    loss: Loss
    step_size: float
    budget: int = 100
    rank: int = 20
    n_outputs: int = 1
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    precision: Precision = "float32"
    radius: float | None = None
    decaying: bool = False

    def __post_init__(self) -> None:
        check_at_least("n_inputs", self.n_inputs, 1)
        check_rank(self.rank, self.budget, "budget")
        self._silent  # noqa: B018  its constructor checks what the linear learner is made of

    def start(self) -> NOGDState:
        nothing = SupportSet(
            np.empty((0, self.n_inputs), dtype=self.precision), np.empty((self.n_outputs, 0), dtype=self.precision)
        )
        return NOGDState(nothing, None, None, online.start_progress(self.task, self.n_outputs))

    def learn(self, state: NOGDState, rows: Rows, n_threads: int = 1) -> NOGDState:
        inputs, targets = online.checked_rows(rows, self.task, self.n_inputs, self.n_outputs, self.precision)
        done = 0
        if state.weights is None:
            state, done = fill(self.kernel, self.budget, self._silent.rule, state, inputs, targets)
            if not np.isfinite(state.supports.coefficients).all():
                raise DivergedError(
                    f"Within {state.progress.rows:,} rows the coefficients of support vectors are no "
                    f"longer finite with step_size = {self.step_size:g}. Use a smaller value, such as "
                    f"{self.step_size / 10:g}."
                )
            if done < len(targets):
                state = nystrom_start(self.kernel, self.rank, state)
        # blocks start at multiples of a block from the first row, wherever the map begins: equal bits for any split
        border = min(-(-done // MOST_ROWS) * MOST_ROWS, len(targets))
        for part in (slice(done, border), slice(border, len(targets))):
            if part.start < part.stop and state.feature_map is not None and state.weights is not None:
                rows = Rows(inputs[part], targets[part])
                state = replace(state, weights=self.linear(state.feature_map).learn(state.weights, rows, n_threads))
        return state

    def predictor(self, state: NOGDState) -> LinearPredictor:
        """Return the Nystrom map with averaged or last weights; before it, the kernel expansion."""
        if state.feature_map is not None and state.weights is not None:
            return self.linear(state.feature_map).predictor(state.weights)
        if len(state.supports.inputs) == 0:
            return self._silent.predictor(self._silent.start())
        return LinearPredictor(state.supports.expansion(self.kernel), state.supports.coefficients)

    def chosen(self, state: NOGDState) -> dict[str, Any]:
        """Return the number of landmarks and their rank, with the reason, as text."""
        n_supports = len(state.supports.inputs)
        if state.feature_map is None:
            why = f"{n_supports} of {self.budget} support vectors so far: still in the phase of kernel gradient descent"
            return {"landmarks": n_supports, "rank": 0, "rank_reason": why}
        rank = state.feature_map.n_columns
        rank_text = f"all {rank} positive eigenvalues of the kernel matrix of {n_supports} support vectors"
        return {"landmarks": n_supports, "rank": rank, "rank_reason": "as given" if rank == self.rank else rank_text}

    def shard_start(self, state: NOGDState) -> NOGDState:
        """Return a shard's start: the same map and weights, a new average; ConfigError before the map."""
        self._check_mapped(state)
        assert state.weights is not None
        return replace(state, weights=state.weights.without_average())

    def average_shards(self, base: NOGDState, parts: list[NOGDState]) -> NOGDState:
        """Return the average, by rows, of shards that started from base in its map; ConfigError before it."""
        feature_map = self._check_mapped(base)
        before = base.weights
        weights = [part.weights for part in parts if part.weights is not None]
        assert before is not None
        return replace(base, weights=self.linear(feature_map).average_shards(before, weights))

    def linear(self, feature_map: FeatureMap) -> LinearLearner:
        """Return the learner of the second phase; with a map drawn beforehand, all there is to NOGD."""
        return LinearLearner(
            feature_map,
            self.loss,
            self.step_size,
            self.n_outputs,
            self.class_weights,
            self.average,
            self.radius,
            self.decaying,
        )

    @property
    def task(self) -> Task:
        return self.loss.task

    @cached_property
    def _silent(self) -> LinearLearner:
        """Return a linear learner that learns nothing; its zero weights predict before any support vector."""
        nothing: FloatArray = np.zeros(self.n_inputs, dtype=self.precision)
        return replace(self.linear(StandardisedLinear(nothing, nothing, 1.0)), average=False)

    def _check_mapped(self, state: NOGDState) -> NystromFeatures:
        if state.feature_map is None:
            raise ConfigError(
                f"NOGD has {len(state.supports.inputs)} of its {self.budget} support vectors and no "
                "map yet, so models of several shards cannot be averaged. Set the mode stream, or "
                "use landmarks drawn beforehand."
            )
        return state.feature_map


def check_budget(budget: int, n_rows: int) -> None:
    """Raise ConfigError unless a budget of support vectors or landmarks can be filled by the training rows."""
    if budget > n_rows:
        raise ConfigError(
            f"budget = {budget:,}, but there are only {n_rows:,} training rows to take support "
            f"vectors from. Set a budget of at most {n_rows:,}."
        )


@dataclass(frozen=True)
class NOGDFactory:
    """NOGD whose landmarks are the first support vectors: of the stream, or of the sample in the modes mix and sum.

    Shards could not average what each learns with supports of its own: there the map is made beforehand.

    loss : of the table; kernel : a name, or a kernel itself
    bandwidth : of a named kernel, None for the median distance of the sample; none for a kernel that is given itself
    budget : landmarks; rank : columns of the map, at most budget
    step_size : None for a choice by a small race on the sample
    class_weights, average, radius, decaying : as in LinearFactory
    adaptive : whether the caller of the mode sum steps by AdaGrad; degree, offset : of the polynomial kernel by name
    Raises ConfigError : a bandwidth in addition to a kernel object
    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2, 4 and 6.
    """

    loss: Loss
    kernel: str | Kernel = "gaussian"
    bandwidth: float | None = None
    budget: int = 100
    rank: int = 20
    step_size: float | None = None
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    adaptive: bool = True
    degree: int = 3
    offset: float = 1.0
    name: str = "nogd"
    radius: float | None = None
    decaying: bool = False

    def __post_init__(self) -> None:
        refuse_bandwidth_with(self.kernel, self.bandwidth)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes in which it can train."""
        return ("stream", "mix", "sum") if self.radius is None else ("stream",)

    def build(self, context: online.BuildContext) -> online.BuiltLearner:
        """Choose bandwidth, step size and, with shards, landmarks on the sample; ConfigError if they do not fit."""
        schema, sample = context.schema, context.sample
        online.check_loss(self.loss, schema)
        if context.rows is not None:
            check_budget(self.budget, context.rows)
        kernel, chosen = suitable_kernel(self.kernel, self.bandwidth, sample.inputs, self.degree, self.offset)
        learner = NOGDLearner(
            kernel,
            schema.n_features,
            self.loss,
            1.0 if self.step_size is None else self.step_size,
            self.budget,
            self.rank,
            schema.n_outputs,
            self.class_weights,
            self.average,
            context.precision,
            self.radius,
            self.decaying,
        )
        why, length = "as given", longest_subgradient(self.loss)
        if self.radius is not None and (self.step_size is not None or math.isfinite(length)):
            step_size, decaying, why = step_in_ball(self.radius, self.step_size, self.decaying, length)
            learner = replace(learner, step_size=step_size, decaying=decaying)
        elif self.step_size is None:
            errors = [online.progressive_error(replace(learner, step_size=step), sample) for step in online.PLAIN_STEPS]
            step_size, why = online.least_error(online.PLAIN_STEPS, errors, sample)
            learner = replace(learner, step_size=step_size)
        if context.mode != "stream":
            maps = _first_supports(learner, sample, chosen)
            factory = LinearFactory(
                maps, self.loss, self.step_size, self.class_weights, self.average, self.adaptive, self.name
            )
            return factory.build(context)
        sizes = {"landmarks": self.budget, "rank": self.rank, "rank_reason": "as given"}
        chosen |= sizes | {"step_size": learner.step_size, "step_size_reason": why}
        return online.BuiltLearner(learner, chosen if self.radius is None else chosen | {"radius": self.radius})


def _first_supports(learner: NOGDLearner, sample: Rows, chosen: dict[str, Any]) -> ChosenMap:
    """Return the Nystrom map of the first support vectors of a sample, at most the budget."""
    state = learner.learn(learner.start(), sample)
    if state.feature_map is None:
        n_landmarks = len(state.supports.inputs)
        if n_landmarks == 0:
            raise ConfigError(
                f"No row of a sample of {len(sample.targets):,} has a positive loss, so NOGD finds no "
                "landmarks for the shards. Set the mode stream, or a smaller epsilon."
            )
        state = nystrom_start(learner.kernel, min(learner.rank, n_landmarks), state)
    assert state.feature_map is not None
    rank = state.feature_map.n_columns
    chosen = chosen | {
        "landmarks": state.feature_map.n_landmarks,
        "landmarks_reason": f"the first support vectors among {state.filled.rows:,} sampled rows",
        "rank": rank,
        "rank_reason": "as given" if rank == learner.rank else "the rank of the landmarks' kernel matrix",
    }
    return ChosenMap(state.feature_map, chosen)
