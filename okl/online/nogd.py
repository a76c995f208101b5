"""NOGD: kernel gradient descent until a budget of support vectors is full, then linear in their Nystrom features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from okl.checks import check_at_least
from okl.compiled.blocks import MOST_ROWS
from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Rows
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import NystromFeatures
from okl.kernels import Kernel
from okl.losses import Loss
from okl.online.checked import checked_rows
from okl.online.learner import LinearLearner
from okl.online.nogdstate import NOGDState, SupportSet, fill, nystrom_start
from okl.online.progress import start_progress
from okl.predictors import LinearPredictor
from okl.types import FloatArray, Precision, Task

__all__ = ["NOGDLearner", "NOGDState", "check_budget"]


@dataclass(frozen=True, eq=False)
class NOGDLearner:
    """Settings of NOGD: the first `budget` rows that suffer a loss become landmarks of a Nystrom map of some rank.

    Until the budget is full, a row with a loss becomes a support vector: f <- f - step_size c loss'(f) k(x, .). At the
    next such row the kernel matrix K of the supports gives M = D^(-1/2) V' of its largest eigenpairs (D, V) and
    w = alpha pinv(M); that row and all after it are learnt in z(x) = M (k(x_1, x), ..., k(x_budget, x)):
    w <- w - step_size c loss'(w'z) z.

    Parameters
    ----------
    kernel : any positive definite kernel, of the table or the user's own
    n_inputs : columns of the inputs
    loss : of the table; step_size : > 0, for both kinds of steps
    budget : support vectors, the landmarks; rank : columns of the map, at most budget
    n_outputs : number of classes for several classes, otherwise 1
    class_weights : c, factor of the step of each class, in label order; None for 1
    average : whether weights are sampled for an average, once the map is there
    precision : of inputs, kernel values and weights

    Raises
    ------
    ConfigError : a size, the rank, the step size or the class weights do not fit

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

    def __post_init__(self) -> None:
        check_at_least("n_inputs", self.n_inputs, 1)
        check_at_least("budget", self.budget, 1)
        check_at_least("rank", self.rank, 1)
        if self.rank > self.budget:
            raise ConfigError(
                f"rank = {self.rank}, but {self.budget} landmarks give a Nystrom map of at most that rank. "
                f"Set the rank to {self.budget} or less, or raise the budget."
            )
        self._silent  # noqa: B018  its constructor checks what the linear learner is made of

    def start(self) -> NOGDState:
        """No support vector yet."""
        nothing = SupportSet(
            np.empty((0, self.n_inputs), dtype=self.precision), np.empty((self.n_outputs, 0), dtype=self.precision)
        )
        return NOGDState(nothing, None, None, start_progress(self.task, self.n_outputs))

    def learn(self, state: NOGDState, rows: Rows, n_threads: int = 1) -> NOGDState:
        """Learn rows in their order; the state that came stays as it is.

        Splitting rows into several calls at multiples of 256 rows gives the same bits; so does any number of threads.

        Raises
        ------
        DataError : inputs, targets or kernel values do not fit, or the kernel is not positive definite on the supports
        DivergedError : coefficients or weights are no longer finite
        """
        inputs, targets = checked_rows(rows, self.task, self.n_inputs, self.n_outputs, self.precision)
        done = 0
        if state.weights is None:
            state, done = fill(self.kernel, self.budget, self._silent.rule, state, inputs, targets)
            self._check_finite(state)
            if done < len(targets):
                state = nystrom_start(self.kernel, self.rank, state)
        # blocks begin at multiples of a block from the first row, wherever the map came: the same bits for any split
        border = min(-(-done // MOST_ROWS) * MOST_ROWS, len(targets))
        for part in (slice(done, border), slice(border, len(targets))):
            if part.start < part.stop:
                state = self._learn_mapped(state, Rows(inputs[part], targets[part]), n_threads)
        return state

    def predictor(self, state: NOGDState) -> LinearPredictor:
        """The Nystrom map with the averaged weights, or the last ones; before it, the supports' kernel expansion."""
        if state.feature_map is not None and state.weights is not None:
            return self.linear(state.feature_map).predictor(state.weights)
        if len(state.supports.inputs) == 0:
            return self._silent.predictor(self._silent.start())
        return LinearPredictor(state.supports.expansion(self.kernel), state.supports.coefficients)

    def chosen(self, state: NOGDState) -> dict[str, Any]:
        """How many landmarks there are, and what rank they keep, with the reason: for people."""
        n_supports = len(state.supports.inputs)
        if state.feature_map is None:
            why = f"{n_supports} of {self.budget} support vectors so far: still kernel gradient descent"
            return {"landmarks": n_supports, "rank": 0, "rank_reason": why}
        rank = state.feature_map.n_columns
        kept = f"{rank} positive eigenvalues of the kernel matrix of {n_supports} support vectors: no more can be kept"
        return {"landmarks": n_supports, "rank": rank, "rank_reason": "as asked for" if rank == self.rank else kept}

    def fork(self, state: NOGDState) -> NOGDState:
        """What a shard starts from: the same map and weights, whose average begins afresh.

        Raises
        ------
        ConfigError : there is no map yet
        """
        self._check_mapped(state)
        assert state.weights is not None
        return replace(state, weights=state.weights.without_average())

    def join(self, base: NOGDState, parts: list[NOGDState]) -> NOGDState:
        """The average, by rows, of what shards learnt from fork(base) in its map.

        Raises
        ------
        ConfigError : there is no map yet
        """
        feature_map = self._check_mapped(base)
        before = base.weights
        weights = [part.weights for part in parts if part.weights is not None]
        assert before is not None
        return replace(base, weights=self.linear(feature_map).join(before, weights))

    def linear(self, feature_map: NystromFeatures) -> LinearLearner:
        """The learner of the second phase; with a map drawn beforehand, all there is to NOGD."""
        return LinearLearner(feature_map, self.loss, self.step_size, self.n_outputs, self.class_weights, self.average)

    @property
    def task(self) -> Task:
        """That of the loss."""
        return self.loss.task

    @cached_property
    def _silent(self) -> LinearLearner:
        """A linear learner whose weights of zero predict before there is a support vector; nothing is learnt in it."""
        nothing: FloatArray = np.zeros(self.n_inputs, dtype=self.precision)
        return LinearLearner(
            StandardisedLinear(nothing, nothing, 1.0),
            self.loss,
            self.step_size,
            self.n_outputs,
            self.class_weights,
            average=False,
        )

    def _learn_mapped(self, state: NOGDState, rows: Rows, n_threads: int) -> NOGDState:
        assert state.feature_map is not None
        assert state.weights is not None
        return replace(state, weights=self.linear(state.feature_map).learn(state.weights, rows, n_threads))

    def _check_finite(self, state: NOGDState) -> None:
        if not np.isfinite(state.supports.coefficients).all():
            raise DivergedError(
                f"Within {state.progress.rows:,} rows the coefficients of support vectors are no longer finite with "
                f"step_size = {self.step_size:g}. Use a smaller one, such as {self.step_size / 10:g}."
            )

    def _check_mapped(self, state: NOGDState) -> NystromFeatures:
        if state.feature_map is None:
            raise ConfigError(
                f"NOGD has {len(state.supports.inputs)} of its {self.budget} support vectors and no map yet, and what "
                "shards learn with supports of their own cannot be averaged. Learn in the mode stream, or use "
                "landmarks that are drawn beforehand."
            )
        return state.feature_map


def check_budget(budget: int, n_rows: int) -> None:
    """Raise ConfigError unless a budget of support vectors or landmarks can be filled by the training rows."""
    if budget > n_rows:
        raise ConfigError(
            f"budget = {budget:,}, but there are only {n_rows:,} training rows to take support vectors from. "
            f"Set a budget of at most {n_rows:,}."
        )
