"""The learner without tuning: experts of several bandwidths and step sizes, mixed by AdaHedge, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least, check_positive
from okl.compiled.crew import Crew
from okl.compiled.experts import AVERAGED, ExpertRule
from okl.compiled.mixing import Counted
from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Rows
from okl.features.protocol import FeatureMap
from okl.losses import Loss, ThresholdedHalfSquared
from okl.online.checked import check_class_weights, checked_rows
from okl.online.experts.candidates import Candidates
from okl.online.experts.pruning import after_round
from okl.online.experts.roundwise import learn_round
from okl.online.experts.schedule import Round, check_schedule, race_schedule
from okl.online.experts.state import Experts, Group, Kind, padded_columns
from okl.online.progress import progress_arrays, progress_from, start_progress
from okl.predictors import LinearPredictor
from okl.types import FloatArray, Precision, Task

STEP_SIZES: dict[Task, tuple[float, ...]] = {
    "binary": (1.0, 4.0),
    "multiclass": (1.0, 4.0),
    "regression": (0.25, 1.0),
}
ADAGRAD_STEP_SIZES: dict[Task, tuple[float, ...]] = {
    "binary": (0.0625, 0.25, 1.0),
    "multiclass": (0.25, 1.0),
    "regression": (0.0078125, 0.03125, 0.125),
}


@dataclass(frozen=True, eq=False)
class ExpertLearner:
    """Settings of learning with experts: every map and step size is a learner, its last and averaged weights experts.

    The prediction of a row is that of the mixture: a vote weighed by AdaHedge, or the mean of what the experts say in
    regression. After each round of the schedule the maps that lost least of late go on.

    Parameters
    ----------
    candidates : the maps; loss : of the table, which every learner steps by
    n_outputs : number of classes for several classes, otherwise 1
    rounds : the schedule, as of `race_schedule`
    step_sizes, adagrad_step_sizes : of each Fourier and linear map, and of the linear map with AdaGrad's steps; None
        for the defaults of the task
    class_weights : factor of the steps and of the mistakes of each class, in label order; None for 1

    Raises
    ------
    ConfigError : a size, a step size, the schedule or the class weights do not fit

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5; de Rooij et al., JMLR 15, 2014, section 2 (AdaHedge).
    """

    candidates: Candidates
    loss: Loss
    n_outputs: int = 1
    rounds: tuple[Round, ...] = race_schedule(50_000)
    step_sizes: tuple[float, ...] | None = None
    adagrad_step_sizes: tuple[float, ...] | None = None
    class_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_at_least("n_outputs", self.n_outputs, 2 if self.loss.task == "multiclass" else 1)
        if self.loss.task != "multiclass" and self.n_outputs != 1:
            raise ConfigError(f"n_outputs = {self.n_outputs}, but the loss {self.loss.name!r} takes one output.")
        check_schedule(self.rounds)
        if not self._step_sizes:
            raise ConfigError("The grid of experts is empty: step_sizes = (). Give it at least one.")
        for step in (*self._step_sizes, *self._adagrad_step_sizes):
            check_positive("a step size", step)
        check_class_weights(self.class_weights, self.loss.task, self._n_classes)

    @property
    def task(self) -> Task:
        """That of the loss."""
        return self.loss.task

    @property
    def precision(self) -> Precision:
        """That of the maps."""
        return self.candidates.precision

    def start(self) -> Experts:
        """Everyone takes part, with weights of zero."""
        candidates, groups = self.candidates, []
        if candidates.bases:
            pairs = [(b, o) for b in range(len(candidates.bases)) for o in range(candidates.n_octaves)]
            groups.append(
                self._group("fourier", tuple(pairs), self._step_sizes, (2, candidates.bases[0].n_frequencies))
            )
        if candidates.linear is not None:
            halves = (1, candidates.linear.n_columns)
            groups.append(self._group("linear", ((0, 0),), self._step_sizes, halves))
            if self._adagrad_step_sizes:
                groups.append(self._group("linear-adagrad", ((0, 0),), self._adagrad_step_sizes, halves))
        n_experts = sum(group.n_experts for group in groups)
        progress = start_progress(self.loss.task, self.n_outputs)
        return Experts(0, tuple(groups), np.zeros(n_experts), np.zeros(n_experts), np.zeros(3), progress)

    def learn(self, state: Experts, rows: Rows, n_threads: int = 1) -> Experts:
        """Learn rows in their order; the state that came stays as it is.

        Splitting rows into several calls at multiples of 256 rows gives the same bits; so does any number of threads.

        Raises
        ------
        DataError : inputs or targets do not fit; DivergedError : no expert is left whose weights are finite
        """
        candidates = self.candidates
        inputs, targets = checked_rows(rows, self.loss.task, candidates.n_inputs, self.n_outputs, candidates.precision)
        experts, done = state.copy(), 0
        with Crew() as crew:
            while done < len(targets):
                experts = self._next_round(experts)
                last = self._end_of_round(experts, done, len(targets))
                experts = self._within_round(experts, inputs[done:last], targets[done:last], n_threads, crew)
                done = last
        return experts

    def leader(self, state: Experts) -> tuple[FeatureMap, float, FloatArray]:
        """Map, step size and weights (n_outputs, n_columns) of the expert that lost least of late."""
        group, m, t, which = _leading(state)
        return self._map(group, m), float(group.steps[m, t]), group.expert_weights(m, t, which, state.progress.rows)

    def predictor(self, state: Experts) -> LinearPredictor:
        """The leading expert alone: one map with one set of weights."""
        feature_map, _, weights = self.leader(state)
        return LinearPredictor(feature_map, weights)

    def chosen(self, state: Experts) -> dict[str, Any]:
        """What the leading expert is: its bandwidth or that it is linear, and its step size."""
        group, m, t, _ = _leading(state)
        why = "of the expert that leads"
        return self.map_chosen(state, why) | {"step_size": float(group.steps[m, t]), "step_size_reason": why}

    def map_chosen(self, state: Experts, why: str) -> dict[str, Any]:
        """What the leading expert's map is, with a reason: for people."""
        group, m, _, _ = _leading(state)
        if group.kind != "fourier":
            return {"map": "linear", "map_reason": why}
        base, octave = group.candidates[m]
        bandwidth = float(vars(self.candidates.fourier(base, octave).kernel)["bandwidth"])
        inputs = "standardised" if base > 0 else "as they come"
        return {"bandwidth": bandwidth, "bandwidth_reason": why, "inputs": inputs, "inputs_reason": why}

    @property
    def _step_sizes(self) -> tuple[float, ...]:
        return STEP_SIZES[self.task] if self.step_sizes is None else self.step_sizes

    @property
    def _adagrad_step_sizes(self) -> tuple[float, ...]:
        return ADAGRAD_STEP_SIZES[self.task] if self.adagrad_step_sizes is None else self.adagrad_step_sizes

    @property
    def _n_classes(self) -> int:
        return {"binary": 2, "multiclass": self.n_outputs, "regression": 1}[self.loss.task]

    @property
    def _rule(self) -> ExpertRule:
        class_weights = np.array(self.class_weights or (1.0,) * self._n_classes, dtype=np.float64)
        epsilon = self.loss.epsilon if isinstance(self.loss, ThresholdedHalfSquared) else 0.0
        return ExpertRule(self.loss.code, float(epsilon), class_weights)

    def _group(
        self, kind: Kind, candidates: tuple[tuple[int, int], ...], steps: tuple[float, ...], halves: tuple[int, int]
    ) -> Group:
        dtype = np.dtype(self.candidates.precision)
        n_columns = halves[1]
        padded = padded_columns(n_columns, dtype.itemsize)
        shape = (len(candidates), len(steps), self.n_outputs, halves[0], padded)
        squares = np.zeros(shape if kind == "linear-adagrad" else (len(candidates), 0, 0, 0, 0), dtype)
        sizes = np.tile(np.array(steps, dtype=np.float64), (len(candidates), 1))
        return Group(kind, candidates, n_columns, sizes, np.zeros(shape, dtype), np.zeros(shape, dtype), squares)

    def _map(self, group: Group, m: int) -> FeatureMap:
        if group.kind == "fourier":
            return self.candidates.fourier(*group.candidates[m])
        assert self.candidates.linear is not None
        return self.candidates.linear

    def _next_round(self, experts: Experts) -> Experts:
        """The round that the next row belongs to."""
        while (last := self.rounds[experts.round].last_row) is not None and experts.progress.rows >= last:
            experts = after_round(experts, self.rounds[experts.round + 1], experts.round + 1)
        return experts

    def _end_of_round(self, experts: Experts, done: int, n_rows: int) -> int:
        last = self.rounds[experts.round].last_row
        return n_rows if last is None else min(n_rows, done + last - experts.progress.rows)

    def _within_round(
        self, experts: Experts, inputs: FloatArray, targets: NDArray[np.float64], n_threads: int, crew: Crew
    ) -> Experts:
        progress = experts.progress
        counted = Counted(*progress_arrays(progress))
        learn_round(experts, counted, self.candidates, inputs, targets, self._rule, progress.rows, n_threads, crew)
        if not np.isfinite(experts.losses).any():
            raise DivergedError(
                f"Rows {progress.rows:,} to {progress.rows + len(targets) - 1:,}: no expert's weights are finite any "
                "more. Use smaller step_sizes, or scale inputs and target."
            )
        return replace(experts, progress=progress_from(self.task, *counted))


def _leading(state: Experts) -> tuple[Group, int, int, int]:
    """Group, map, step size and kind of weights of the expert with averaged weights that lost least of late.

    Last weights may lose less on the way, where rows beside each other are alike; on other rows averages are better.
    """
    recent = [losses[..., AVERAGED] for losses in state.per_learner(state.recent)]
    number = min(range(len(recent)), key=lambda index: float(recent[index].min()))
    m, t = np.unravel_index(int(recent[number].argmin()), recent[number].shape)
    return state.groups[number], int(m), int(t), AVERAGED
