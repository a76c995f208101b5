"""The learner for rows that change: experts of several step sizes in one map, mixed by Fixed Share, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least, check_positive
from okl.compiled.crew import Crew
from okl.compiled.experts import AVERAGED, ExpertRule
from okl.compiled.fixedshare import ShareRule, Shares, share_rows
from okl.compiled.mixing import Counted
from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Rows
from okl.features.protocol import FeatureMap
from okl.losses import Loss, ThresholdedHalfSquared
from okl.online.checked import check_class_weights, checked_rows
from okl.online.experts.state import Group, Kind, padded_columns
from okl.online.progress import progress_arrays, progress_from, start_progress
from okl.online.tracking.kept import nothing_kept
from okl.online.tracking.state import Tracked
from okl.online.tracking.words import Speakers
from okl.predictors import LinearPredictor
from okl.types import Precision, Task

STEP_SIZES: dict[Task, tuple[float, ...]] = {
    "binary": (0.00390625, 0.015625, 0.0625, 0.25, 1.0, 4.0, 16.0),
    "multiclass": (0.00390625, 0.015625, 0.0625, 0.25, 1.0, 4.0, 16.0),
    "regression": (0.0078125, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0),
}
RATES: dict[Task, float] = {"binary": 0.5, "multiclass": 0.5, "regression": 2.0}
SHARE = 0.001
STRETCH_ROWS = 32768  # bounds the memory of what is said; a multiple of every block


@dataclass(frozen=True, eq=False)
class TrackingLearner:
    """Settings of learning from rows that change: of every step size the last and the averaged weights are experts.

    Large steps forget soon, small ones and averages are precise while nothing changes; Fixed Share hears whoever has
    been right of late. For two classes the mean of the experts' scores is predicted with: that of the mean of their
    weights, which is what is saved. Several classes are voted for, and in regression each score is clipped to the range
    of the targets so far before the mean is taken.

    Parameters
    ----------
    feature_map : z; its precision is that of the weights
    loss : of the table, which every learner steps by; experts are charged for mistakes, or for squared errors over the
        squared range of the targets
    n_outputs : number of classes for several classes, otherwise 1
    step_sizes : on the map's scale, None for the defaults of the task
    share : alpha, of the weight that goes to other experts after every row; in (0, 1)
    rate : eta, None for the default of the task
    class_weights : factor of the steps and of the mistakes of each class, in label order; None for 1

    Raises
    ------
    ConfigError : a size, a step size, the share, the rate or the class weights do not fit

    Source: Herbster & Warmuth, Machine Learning 32, 1998, section 5; Lu et al., JMLR 17(47), 2016, Algorithms 1, 3, 5.
    """

    feature_map: FeatureMap
    loss: Loss
    n_outputs: int = 1
    step_sizes: tuple[float, ...] | None = None
    share: float = SHARE
    rate: float | None = None
    class_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_at_least("n_outputs", self.n_outputs, 2 if self.loss.task == "multiclass" else 1)
        if self.loss.task != "multiclass" and self.n_outputs != 1:
            raise ConfigError(f"n_outputs = {self.n_outputs}, but the loss {self.loss.name!r} takes one output.")
        if not self._step_sizes:
            raise ConfigError("There is nothing to track: step_sizes = (). Give it at least one.")
        for step in self._step_sizes:
            check_positive("a step size", step)
        if not 0.0 < self.share < 1.0:
            raise ConfigError(f"share = {self.share:g}, but the share of the weight lies above 0 and below 1.")
        check_positive("rate", self._rate)
        check_class_weights(self.class_weights, self.loss.task, self._n_classes)

    @property
    def task(self) -> Task:
        """That of the loss."""
        return self.loss.task

    @property
    def precision(self) -> Precision:
        """That of the map."""
        return self.feature_map.precision

    def start(self) -> Tracked:
        """Weights of zero, and every expert heard alike."""
        steps, dtype = np.array([self._step_sizes]), np.dtype(self.precision)
        halves, n_columns = self._speakers.halves
        shape = (1, steps.size, self.n_outputs, halves, padded_columns(n_columns, dtype.itemsize))
        none = np.zeros((1, 0, 0, 0, 0), dtype)
        kind: Kind = "fourier" if halves > 1 else "linear"
        group = Group(kind, ((0, 0),), n_columns, steps, np.zeros(shape, dtype), np.zeros(shape, dtype), none)
        n_experts, progress = group.n_experts, start_progress(self.task, self.n_outputs)
        kept = nothing_kept(self.n_outputs, halves * n_columns, dtype, progress)
        return Tracked(group, np.full(n_experts, 1.0 / n_experts), np.zeros(n_experts), np.zeros(2), progress, kept)

    def learn(self, state: Tracked, rows: Rows, n_threads: int = 1) -> Tracked:
        """Learn rows in their order; the state that came stays as it is.

        Splitting rows into several calls at multiples of 256 rows gives the same bits; so does any number of threads.

        Raises
        ------
        DataError : inputs or targets do not fit; DivergedError : no expert is left whose weights are finite
        """
        feature_map, tracked, seen, kept = self.feature_map, state.copy(), state.progress.rows, state.kept
        inputs, targets = checked_rows(rows, self.task, feature_map.n_inputs, self.n_outputs, feature_map.precision)
        counted = Counted(*progress_arrays(state.progress))
        shares = Shares(
            tracked.p, tracked.mistakes, tracked.numbers, np.zeros(len(tracked.p)), np.zeros(self._n_classes)
        )
        with Crew() as crew:
            for first in range(0, len(targets), STRETCH_ROWS):
                part = slice(first, first + STRETCH_ROWS)
                words, stepped = self._speakers.learn(
                    tracked.group, inputs[part], targets[part], self._rule, seen + first, n_threads, crew
                )
                share_rows(counted, shares, words, stepped, targets[part], self._share_rule)
                kept = kept.heard(feature_map, inputs[part], targets[part], n_threads)
        if not np.isfinite(tracked.mistakes).any():
            raise DivergedError(
                f"Rows {seen:,} to {seen + len(targets) - 1:,}: no expert's weights are finite any more. Use smaller "
                "step_sizes, or scale inputs and target."
            )
        return replace(tracked, progress=progress_from(self.task, *counted), kept=kept)

    def keep(self, state: Tracked) -> Tracked:
        """A window of a stream ends: from here on, tell how the model of now would do on what follows."""
        return replace(state, kept=state.kept.with_latest(state.weights(), state.progress))

    def predictor(self, state: Tracked) -> LinearPredictor:
        """The map with the mean of the experts' weights, each as much as it is heard after the last row."""
        return LinearPredictor(self.feature_map, state.weights())

    def chosen(self, state: Tracked) -> dict[str, Any]:
        """Step size and kind of weights of the expert that is heard most."""
        t, which = np.unravel_index(int(state.p.argmax()), (state.group.steps.size, 2))
        heard = f"of the expert heard most, {100.0 * state.p.max():.0f}% of {len(state.p)}"
        averaged = "averaged" if which == AVERAGED else "last"
        return {
            "step_size": float(state.group.steps[0, t]),
            "step_size_reason": heard,
            "weights": averaged,
            "weights_reason": f"{heard}; the mean of all experts' weights is saved",
        }

    @property
    def _step_sizes(self) -> tuple[float, ...]:
        return STEP_SIZES[self.task] if self.step_sizes is None else self.step_sizes

    @property
    def _rate(self) -> float:
        return RATES[self.task] if self.rate is None else self.rate

    @property
    def _n_classes(self) -> int:
        return {"binary": 2, "multiclass": self.n_outputs, "regression": 1}[self.task]

    @property
    def _class_weights(self) -> NDArray[np.float64]:
        return np.array(self.class_weights or (1.0,) * self._n_classes, dtype=np.float64)

    @property
    def _epsilon(self) -> float:
        return float(self.loss.epsilon) if isinstance(self.loss, ThresholdedHalfSquared) else 0.0

    @property
    def _rule(self) -> ExpertRule:
        return ExpertRule(self.loss.code, self._epsilon, self._class_weights)

    @property
    def _share_rule(self) -> ShareRule:
        return ShareRule(float(self._rate), float(self.share), self.loss.code, self._epsilon, self._class_weights)

    @cached_property
    def _speakers(self) -> Speakers:
        return Speakers(self.feature_map)
