"""Learning without tuning: experts of several bandwidths and step sizes mixed by AdaHedge."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled import expert_weights as compiled
from okl.compiled.experts import AVERAGED, ExpertPredictions, Team, Teams, age_of, learn_team, learn_teams
from okl.compiled.jit import aligned_empty
from okl.compiled.sgd import THRESHOLDED_HALF_SQUARED
from okl.compiled.threads import ThreadPool, borrowed_block, give_up_turns, new_turns
from okl.data.execution import Rows
from okl.features.bandwidth import median_distance
from okl.features.base import FeatureMap
from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.features.predictors import LinearPredictor, block_of
from okl.foundation.class_tags import lasting_attributes, stored
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import Doubles, FloatArray, Mode, Precision, Task
from okl.foundation.validation import check_at_least, check_positive
from okl.kernels import ShiftInvariantKernel, kernel_from_description, kernel_parameters
from okl.losses import Loss
from okl.solvers.online import base as online
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.maps import ChosenMap

# The schedule: fewer and fewer maps take part.

MOST_RACED_ROWS = 50_000
FEW_ROWS, FEWEST_ROWS = 1600, 800
EVERYONE = 10**6
SLOT_ROWS = 32  # rounds end at multiples of it
LATE_SHARE = 0.3  # what losses of a round count for in the next: experts learn at different speeds


@stored("expert-round")
@dataclass(frozen=True)
class Round:
    """Round of a race: its last row (>= 1; None: no end), and the largest numbers of maps and step sizes of each."""

    last_row: int | None
    maps: int
    step_sizes: int


WHOLE_RACE = (Round(None, EVERYONE, EVERYONE),)
"Each expert trains on all rows."


def race_schedule(n_rows: int) -> tuple[Round, ...]:
    """Return rounds for a stream of about n_rows rows.

    All maps first, then ever fewer, one from a seventh of the rows on.

    Of at least 1600 rows: all maps learn for 1.5% of them, five with two step sizes until 5%, three with one step size
    until 15%; these shares are of at most 50,000 rows. Of fewer, for which rounds themselves take time: all maps learn
    64 rows (32 of less than 800), and four with one step size go on until a fifth.

    Raises ConfigError : n_rows is below 1
    """
    raced = min(check_at_least("n_rows", n_rows, 1), MOST_RACED_ROWS)
    first = max(1 if n_rows < FEWEST_ROWS else 2, round(0.015 * raced / SLOT_ROWS))
    if n_rows < FEW_ROWS:
        plan = [(first, EVERYONE, EVERYONE), (max(first + 1, round(0.19 * raced / SLOT_ROWS)), 4, 1)]
    else:
        second = max(first + 1, round(0.05 * raced / SLOT_ROWS))
        plan = [(first, EVERYONE, EVERYONE), (second, 5, 2), (max(second + 1, round(0.15 * raced / SLOT_ROWS)), 3, 1)]
    early = (Round(slots * SLOT_ROWS, maps, step_sizes) for slots, maps, step_sizes in plan)
    return (*early, Round(None, 1, 1))


# Candidate maps: shared frequencies at several bandwidths, and a linear map.

WIDEST_OCTAVE, N_OCTAVES = 1, 5
_ALIKE = 1.05


@stored("expert-candidates")
@dataclass(frozen=True, eq=False)
class Candidates:
    """Maps that take part in a race, all of the same inputs and precision.

    bases : Fourier maps of the widest bandwidth, one for each scaling of the inputs, of one shape; may be empty
    n_octaves : int >= 1: each base comes with its bandwidth divided by 1, 2, 4, ...
    linear : a linear map, or None
    """

    bases: tuple[FourierFeatures, ...]
    n_octaves: int = N_OCTAVES
    linear: StandardisedLinear | None = None

    __getstate__ = lasting_attributes

    @property
    def n_inputs(self) -> int:
        return self._any.n_inputs

    @property
    def precision(self) -> Precision:
        return self._any.precision

    def fourier(self, base: int, octave: int) -> FourierFeatures:
        """Return the base map with its bandwidth divided by 2^octave; what is packed for compiled code is kept."""
        return self._maps[base][octave]

    @cached_property
    def panels(self) -> FloatArray:
        """Return the packed frequencies of all bases, (bases, ...), as compiled code takes them."""
        return np.stack([self.fourier(base, 0).waves.panels for base in range(len(self.bases))])

    @cached_property
    def _maps(self) -> list[list[FourierFeatures]]:
        return [[narrowed(base, octave) for octave in range(self.n_octaves)] for base in self.bases]

    @property
    def _any(self) -> FeatureMap:
        if self.linear is not None:
            return self.linear
        return self.bases[0]


def narrowed(base: FourierFeatures, octave: int) -> FourierFeatures:
    """Return the map of a bandwidth 2^octave times narrower: frequencies times 2^octave, exactly."""
    factor = 2.0**octave
    bandwidth = float(vars(base.kernel)["bandwidth"]) / factor
    kernel = replace(base.kernel, bandwidth=bandwidth)  # type: ignore[type-var]
    return FourierFeatures(kernel, base.frequencies * base.frequencies.dtype.type(factor))


def draw_candidates(
    sample: FloatArray, n_frequencies: int, seed: int, precision: Precision = "float32", kernel: str = "gaussian"
) -> Candidates:
    """Draw maps with bandwidths around the median distance, for raw and for standardised inputs.

    Standardising is part of the frequencies: those of a column are divided by its standard deviation; a shift of the
    inputs changes no kernel of x - x'. Inputs of like spread get no map of their own for it.

    sample : (rows, n_inputs), at random from the data
    n_frequencies : of each map; seed : the maps share one draw of frequencies
    kernel : name of a shift-invariant kernel
    Raises ConfigError : the kernel has no spectral density, or a number is out of range
    Raises DataError : the sample is empty
    """
    if "bandwidth" not in kernel_parameters(kernel):
        raise ConfigError(f"kernel = {kernel!r} has no bandwidth to choose. Use a shift-invariant kernel.")
    if sample.ndim != 2 or len(sample) == 0:
        raise DataError(f"Bandwidths are chosen from sampled rows, but the sample has shape {sample.shape}.")
    deviations = sample.std(axis=0, dtype=np.float64)
    # rounding may leave a constant column a tiny deviation, whose inverse would swamp all other columns
    deviations[deviations <= 1e-7 * np.abs(sample).max(axis=0, initial=0.0)] = 0.0
    linear = StandardisedLinear.of_columns(sample.mean(axis=0, dtype=np.float64), deviations, precision)
    factors, varying = [np.ones(len(deviations))], deviations[deviations > 0]
    if len(varying) and varying.max() > _ALIKE * varying.min():
        factors.append(np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0))
    bases = (_scaled_map(kernel, sample, factor, n_frequencies, seed, precision) for factor in factors)
    return Candidates(tuple(bases), N_OCTAVES, linear)


def _scaled_map(
    name: str, sample: FloatArray, factor: FloatArray, n_frequencies: int, seed: int, precision: Precision
) -> FourierFeatures:
    widest = median_distance(sample * factor) * 2.0**WIDEST_OCTAVE
    kernel = kernel_from_description({"name": name, "bandwidth": widest})
    assert isinstance(kernel, ShiftInvariantKernel)
    feature_map = draw_fourier_map(kernel, len(factor), n_frequencies, seed, "float64")
    return FourierFeatures(feature_map.kernel, (feature_map.frequencies * factor[:, None]).astype(precision))


Kind = Literal["fourier", "linear", "linear-adagrad"]


CACHE_LINE_BYTES = 64


def aligned(array: FloatArray) -> FloatArray:
    """Return a copy whose rows, the last axis, begin at cache lines if they are whole lines long."""
    if array.size == 0:
        return array.copy()
    copied = aligned_empty((math.prod(array.shape[:-1]), array.shape[-1]), array.dtype).reshape(array.shape)
    copied[...] = array
    return copied


def padded_columns(n_columns: int, itemsize: int) -> int:
    """Return columns of a row of whole pairs of cache lines: vectors that straddle two take longer."""
    per_pair = 2 * CACHE_LINE_BYTES // itemsize
    return -(-n_columns // per_pair) * per_pair


@stored("expert-group")
@dataclass(frozen=True, eq=False)
class ExpertGroup:
    """Learners of one kind: M maps with T step sizes each.

    candidates : (base, octave) of each Fourier map; one pair of zeros for a linear map
    steps : (M, T); n_columns : of a half
    weights, pulls : (M, T, n_outputs, H, padded), H = 2 halves of a Fourier map, 1 of a linear one; zeros pad the
        columns of a half to whole cache lines; squares : the same, or (M, 0, 0, 0, 0) without AdaGrad
    """

    kind: Kind
    candidates: tuple[tuple[int, int], ...]
    n_columns: int
    steps: Doubles
    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray

    @classmethod
    def start(
        cls,
        kind: Kind,
        candidates: tuple[tuple[int, int], ...],
        n_columns: int,
        steps: Sequence[float],
        n_outputs: int,
        precision: Precision,
    ) -> ExpertGroup:
        """Return learners with weights of zero; steps : of each map; n_columns : of a half."""
        dtype, n_maps = np.dtype(precision), len(candidates)
        halves = 2 if kind == "fourier" else 1
        shape = (n_maps, len(steps), n_outputs, halves, padded_columns(n_columns, dtype.itemsize))
        squares = np.zeros(shape if kind == "linear-adagrad" else (n_maps, 0, 0, 0, 0), dtype)
        sizes = np.tile(np.array(steps, dtype=np.float64), (n_maps, 1))
        return cls(kind, candidates, n_columns, sizes, np.zeros(shape, dtype), np.zeros(shape, dtype), squares)

    @property
    def n_experts(self) -> int:
        return 2 * self.steps.size

    @property
    def team(self) -> Team:
        """Return the learners of the first map, whose arrays change in place."""
        return Team(self.weights[0], self.pulls[0], self.squares[0], self.steps[0])

    def copy(self) -> ExpertGroup:
        arrays = aligned(self.weights), aligned(self.pulls), aligned(self.squares)
        return ExpertGroup(self.kind, self.candidates, self.n_columns, self.steps.copy(), *arrays)

    def selected(self, maps: list[int], steps: list[list[int]]) -> ExpertGroup:
        """Return some maps, and of each as many of its step sizes."""
        rows, columns = np.array(maps)[:, None], np.array(steps)
        squares = aligned(self.squares[rows, columns]) if self.squares.size else self.squares[maps]
        return ExpertGroup(
            self.kind,
            tuple(self.candidates[m] for m in maps),
            self.n_columns,
            np.ascontiguousarray(self.steps[rows, columns]),
            aligned(self.weights[rows, columns]),
            aligned(self.pulls[rows, columns]),
            squares,
        )

    def expert_weights(self, m: int, t: int, which: int, n_before: int) -> FloatArray:
        """Return the last or averaged weights (n_outputs, n_columns) of a learner after `n_before` rows."""
        last = self._unpadded(self.weights[m, t])
        if which != AVERAGED or n_before == 0:
            return last
        averaged = last - self._unpadded(self.pulls[m, t]).astype(np.float64) / age_of(n_before)
        return averaged.astype(last.dtype)

    def _unpadded(self, halves: FloatArray) -> FloatArray:
        return np.ascontiguousarray(halves[:, :, : self.n_columns]).reshape(len(halves), -1)


@stored("experts-state")
@dataclass(frozen=True, eq=False)
class Experts:
    """The state of the expert learner: a value that no method writes into.

    round : number of the round of the schedule; groups : who still takes part
    losses, recent : (E,), what each expert has lost, groups one after the other: maps, step sizes, last and averaged
    numbers : (3,), as in okl.compiled.expert_weights; progress : how the mixture's predictions did
    """

    round: int
    groups: tuple[ExpertGroup, ...]
    losses: Doubles
    recent: Doubles
    numbers: Doubles
    progress: online.Progress

    @property
    def n_maps(self) -> int:
        """Return the number of active maps; the linear map counts once for each kind of step."""
        return sum(len(group.candidates) for group in self.groups)

    def copy(self) -> Experts:
        return replace(
            self,
            groups=tuple(group.copy() for group in self.groups),
            losses=self.losses.copy(),
            recent=self.recent.copy(),
            numbers=self.numbers.copy(),
        )

    def per_learner(self, values: Doubles) -> list[Doubles]:
        """Return values (E,) of all experts as (M, T, 2) for each group."""
        ends = np.cumsum([group.n_experts for group in self.groups])[:-1]
        parts = np.split(values, ends)
        return [part.reshape(*group.steps.shape, 2) for part, group in zip(parts, self.groups, strict=True)]


# Pruning: the maps with the smallest recent loss continue.


def after_round(experts: Experts, following: Round, number: int) -> Experts:
    """Return experts of the next round: best maps, and step sizes of each, by best expert, earlier on a tie."""
    recent = experts.per_learner(experts.recent)
    best = [values.min(axis=(1, 2)) for values in recent]
    places = [(group, m) for group, values in enumerate(best) for m in range(len(values))]
    ranked = sorted(places, key=lambda position: best[position[0]][position[1]])[: following.maps]
    groups: list[ExpertGroup] = []
    weights: list[np.ndarray] = []
    first = 0
    for index, group in enumerate(experts.groups):
        maps = sorted(m for which, m in ranked if which == index)
        if maps:
            n_steps = min(following.step_sizes, group.steps.shape[1])
            order = np.argsort(recent[index].min(axis=2), axis=1, kind="stable")[:, :n_steps]
            steps = [sorted(order[m].tolist()) for m in maps]
            groups.append(group.selected(maps, steps))
            numbers = np.arange(first, first + group.n_experts).reshape(*group.steps.shape, 2)
            weights.append(numbers[np.array(maps)[:, None], np.array(steps)].ravel())
        first += group.n_experts
    chosen = np.concatenate(weights)
    return replace(
        experts,
        round=number,
        groups=tuple(groups),
        losses=experts.losses[chosen],
        recent=LATE_SHARE * experts.recent[chosen],
    )


# Threads over blocks of rows.

LEAST_WORK = 2**20  # entries of features and weights that a thread is worth: below, starting it takes longer
LEAST_BLOCK_ROWS, MOST_BLOCK_ROWS = 32, 128  # learning goes through a block several times: it stays in the cache
BLOCKS_EACH = 4  # of a thread, at least: in a short round blocks are smaller

STRETCH_ROWS = 32768  # bounds the memory of predictions; a multiple of every block

Predicted = tuple[NDArray[np.float64], NDArray[np.uint8]]


class RowBatch(NamedTuple):
    """Rows that experts learn, and how.

    inputs (rows, n_inputs), targets (rows,) : checked; rule : of the loss; n_before : rows before these
    n_threads, crew : the threads; same bits for any number of them
    """

    inputs: FloatArray
    targets: Doubles
    rule: compiled.ExpertRule
    n_before: int
    n_threads: int
    crew: ThreadPool

    def cut(self, size: int) -> Iterator[RowBatch]:
        """Yield the rows in parts of a size."""
        for first in range(0, len(self.targets), size):
            part = slice(first, first + size)
            inputs, targets = self.inputs[part], self.targets[part]
            yield self._replace(inputs=inputs, targets=targets, n_before=self.n_before + first)


def learn_fourier(
    results: Predicted,
    group: ExpertGroup,
    candidates: Candidates,
    rows: RowBatch,
    mixture: compiled.Mixture | None = None,
    besides: Callable[[], None] = lambda: None,
) -> None:
    """Learn rows in Fourier maps; predictions (M, rows, T, 2), whether they stepped (M, rows), and the group change.

    Threads compute features ahead and learn them in turns; same bits for any number of them, and any size of blocks.

    mixture : as in okl.compiled.experts, None where predictions are mixed later; besides : what the first thread does
        before it takes blocks, while others do already
    """
    mixture = mixture or compiled.Mixture(
        compiled.MixtureCounters(np.zeros(5, np.int64), np.zeros(5), np.zeros(1, np.int64)),
        compiled.AdaHedgeState(np.zeros(1), np.zeros(1), np.zeros(3)),
        compiled.new_mixture_memory(1, 1),
        complete=False,
    )
    inputs, n_rows = rows.inputs, len(rows.inputs)
    work = n_rows * group.weights[0, 0, 0].size * (len(group.weights) + group.weights[..., 0, 0].size)
    n_threads = max(1, min(rows.n_threads, work // LEAST_WORK, -(-n_rows // LEAST_BLOCK_ROWS)))
    size = _rows_at_once(candidates.bases[0].rows_per_block, n_rows, n_threads)
    teams, widths = _teams(group, candidates), (group.weights.shape[-1],) * 2
    turns = np.stack([new_turns() for _ in range(len(group.weights) + 1)])

    def run(thread: int) -> None:
        if thread == 0:
            besides()
        with borrowed_block(size, widths, inputs.dtype) as block:
            learn_teams(*results, teams, turns, block, inputs, rows.targets, rows.rule, rows.n_before, mixture)

    def give_up() -> None:
        for turn in turns:
            give_up_turns(turn)

    rows.crew.run(n_threads, run, give_up)


def _teams(group: ExpertGroup, candidates: Candidates) -> Teams:
    arrays = (group.weights, group.pulls, group.squares, group.steps)
    if len(group.candidates) == 1:
        waves = candidates.fourier(*group.candidates[0]).waves
        none = np.zeros(1, dtype=np.int64)
        return Teams(*arrays, none, none, waves.panels[None], waves.n_frequencies, waves.amplitude)
    base, octave = np.array(group.candidates, dtype=np.int64).T.copy()
    waves = candidates.fourier(0, 0).waves
    return Teams(*arrays, base, octave, candidates.panels, waves.n_frequencies, waves.amplitude)


def _rows_at_once(most: int, n_rows: int, n_threads: int) -> int:
    size = min(most, MOST_BLOCK_ROWS)
    while n_threads > 1 and size > LEAST_BLOCK_ROWS and size * n_threads * BLOCKS_EACH > n_rows:
        size //= 2
    return size


# One round of all experts.


def learn_round(experts: Experts, counted: compiled.MixtureCounters, candidates: Candidates, rows: RowBatch) -> None:
    """Train experts on the rows of one round, with the same bits for any number of threads.

    The arrays of experts, and counted, change in place.

    Predictions of one map are mixed block by block, those of several after a chunk: a third thread that wants two
    cores cost more than it gained.
    """
    hedge = compiled.AdaHedgeState(experts.losses, experts.recent, experts.numbers)
    memo = compiled.new_mixture_memory(len(experts.losses), len(counted.class_counts))
    mixture = compiled.Mixture(counted, hedge, memo, experts.n_maps == 1 and experts.groups[0].kind == "fourier")
    for part in rows.cut(STRETCH_ROWS):
        scores, stepped = _score_groups(experts, candidates, part, mixture)
        if not mixture.complete:
            compiled.mix_rows(mixture, scores, stepped, part.targets, part.rule)


def _score_groups(experts: Experts, candidates: Candidates, rows: RowBatch, mixture: compiled.Mixture) -> Predicted:
    """Return the scores of all experts before learning, (rows, E), and whether one stepped, (rows,)."""
    n_rows, groups = len(rows.targets), experts.groups
    results = [
        (np.empty((n_maps, n_rows, n_steps, 2)), np.empty((n_maps, n_rows), dtype=np.uint8))
        for n_maps, n_steps in (group.steps.shape for group in groups)
    ]
    n_fourier = int(groups[0].kind == "fourier")  # the others are of the linear map
    learn_linear = partial(_learn_linear, groups[n_fourier:], results[n_fourier:], candidates, rows)
    if n_fourier:
        learn_fourier(results[0], groups[0], candidates, rows, mixture, learn_linear)
    else:
        learn_linear()
    of_groups = [scores.transpose(1, 0, 2, 3).reshape(n_rows, -1) for scores, _ in results]
    stepped = np.concatenate([steps for _, steps in results]).max(axis=0)
    return np.ascontiguousarray(np.concatenate(of_groups, axis=1) if len(of_groups) > 1 else of_groups[0]), stepped


def _learn_linear(
    groups: Sequence[ExpertGroup], results: Sequence[Predicted], candidates: Candidates, rows: RowBatch
) -> None:
    """Train the groups of the linear map, whose features are computed once; there may be none."""
    if not groups:
        return
    assert candidates.linear is not None
    block = block_of(candidates.linear.transform(rows.inputs))
    cautions = np.ones(len(rows.targets))
    if rows.rule.code == THRESHOLDED_HALF_SQUARED:
        # a step of at most 1 over the squared norm never overshoots a squared residual, however far out a row lies
        cautions /= np.maximum(1.0, np.einsum("ij,ij->i", block.left, block.left, dtype=np.float64))
    for group, (scores, stepped) in zip(groups, results, strict=True):
        predictions = ExpertPredictions(scores[0], stepped[0])
        learn_team(predictions, group.team, block, rows.targets, cautions, rows.rule, rows.n_before)


STEP_SIZES: dict[Task, tuple[float, ...]] = {"binary": (1.0, 4.0), "multiclass": (1.0, 4.0), "regression": (0.25, 1.0)}
ADAGRAD_STEP_SIZES: dict[Task, tuple[float, ...]] = {
    "binary": (0.0625, 0.25, 1.0),
    "multiclass": (0.25, 1.0),
    "regression": (0.0078125, 0.03125, 0.125),
}


@stored("expert-learner")
@dataclass(frozen=True, eq=False)
class ExpertLearner:
    """Settings of learning with experts: every map and step size is a learner, its last and averaged weights experts.

    The prediction of a row is that of the mixture: a vote weighted by AdaHedge, or in regression the mean of the
    experts' predictions. After each round of the schedule the maps with the least recent losses go on.

    candidates : the maps; loss : of the table, which every learner steps by
    n_outputs : number of classes for several classes, otherwise 1; rounds : the schedule, as of `race_schedule`
    step_sizes, adagrad_step_sizes : of each Fourier and linear map, and of the linear map with AdaGrad's steps; None
        for the defaults of the task
    class_weights : factor of the steps and of the mistakes of each class, in label order; None for 1
    Raises ConfigError : a size, a step size, the schedule or the class weights do not fit
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
        online.check_outputs(self.loss, self.n_outputs, self.class_weights)
        if not self._step_sizes:
            raise ConfigError("The grid of experts is empty: step_sizes = (). Give at least one step size.")
        for step in (*self._step_sizes, *self._adagrad_step_sizes):
            check_positive("a step size", step)

    @property
    def task(self) -> Task:
        return self.loss.task

    @property
    def precision(self) -> Precision:
        return self.candidates.precision

    def start(self) -> Experts:
        candidates, shape = self.candidates, (self.n_outputs, self.precision)
        groups: list[ExpertGroup] = []
        if bases := candidates.bases:
            pairs = tuple((b, o) for b in range(len(bases)) for o in range(candidates.n_octaves))
            groups.append(ExpertGroup.start("fourier", pairs, bases[0].n_frequencies, self._step_sizes, *shape))
        if candidates.linear is not None:
            pairs, n_columns = ((0, 0),), candidates.linear.n_columns
            groups.append(ExpertGroup.start("linear", pairs, n_columns, self._step_sizes, *shape))
            if steps := self._adagrad_step_sizes:
                groups.append(ExpertGroup.start("linear-adagrad", pairs, n_columns, steps, *shape))
        n_experts = sum(group.n_experts for group in groups)
        progress = online.start_progress(self.loss.task, self.n_outputs)
        return Experts(0, tuple(groups), np.zeros(n_experts), np.zeros(n_experts), np.zeros(3), progress)

    def learn(self, state: Experts, rows: Rows, n_threads: int = 1) -> Experts:
        candidates = self.candidates
        inputs, targets = online.checked_rows(
            rows, self.loss.task, candidates.n_inputs, self.n_outputs, candidates.precision
        )
        experts, done = state.copy(), 0
        with ThreadPool() as crew:
            while done < len(targets):
                seen = experts.progress.rows
                while (end := self.rounds[experts.round].last_row) is not None and seen >= end:
                    experts = after_round(experts, self.rounds[experts.round + 1], experts.round + 1)
                last = len(targets) if end is None else min(len(targets), done + end - seen)
                counted = compiled.MixtureCounters(*online.progress_arrays(experts.progress))
                part = RowBatch(inputs[done:last], targets[done:last], self._rule, seen, n_threads, crew)
                learn_round(experts, counted, candidates, part)
                if not np.isfinite(experts.losses).any():
                    raise DivergedError(
                        f"Rows {seen:,} to {seen + last - done - 1:,}: the weights of all "
                        "experts are no longer finite. Use smaller step_sizes, or scale inputs and target."
                    )
                experts, done = replace(experts, progress=online.progress_from(self.task, *counted)), last
        return experts

    def leader(self, state: Experts) -> tuple[FeatureMap, float, FloatArray]:
        """Return map, step size and weights (n_outputs, n_columns) of the expert with the least recent loss."""
        group, m, t, which = _leading(state)
        candidates = self.candidates
        feature_map = candidates.fourier(*group.candidates[m]) if group.kind == "fourier" else candidates.linear
        assert feature_map is not None
        return feature_map, float(group.steps[m, t]), group.expert_weights(m, t, which, state.progress.rows)

    def predictor(self, state: Experts) -> LinearPredictor:
        """Return the leading expert alone: one map with one set of weights."""
        feature_map, _, weights = self.leader(state)
        return LinearPredictor(feature_map, weights)

    def chosen(self, state: Experts) -> dict[str, Any]:
        """Return the leading expert: its bandwidth or that it is linear, and its step size."""
        group, m, t, _ = _leading(state)
        why = "of the leading expert"
        return self.map_chosen(state, why) | {"step_size": float(group.steps[m, t]), "step_size_reason": why}

    def map_chosen(self, state: Experts, why: str) -> dict[str, Any]:
        """Return the leading expert's map with a reason, as text."""
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
    def _rule(self) -> compiled.ExpertRule:
        return compiled.ExpertRule(*online.loss_numbers(self.loss, self.n_outputs, self.class_weights))


def _leading(state: Experts) -> tuple[ExpertGroup, int, int, int]:
    """Return group, map, step size and kind of weights of the averaged expert with the least recent loss.

    Last weights may lose less on the way, where rows beside each other are alike; on other rows averages are better.
    """
    recent = [losses[..., AVERAGED] for losses in state.per_learner(state.recent)]
    number = min(range(len(recent)), key=lambda index: float(recent[index].min()))
    m, t = np.unravel_index(int(recent[number].argmin()), recent[number].shape)
    return state.groups[number], int(m), int(t), AVERAGED


@dataclass(frozen=True)
class ExpertFactory:
    """Bandwidths and step sizes tracked side by side, and with them a linear model: nothing is left to choose.

    Shards could not average what experts of their own chose: in the modes mix and sum, experts learn a sample, and the
    map of the one that leads is what the shards learn in. A sample is short, so nobody leaves before its end: maps that
    predict the majority class are ahead in the first rows, where another one stands out later.

    loss : of the table; kernel : name of a shift-invariant one; n_frequencies : of each map
    class_weights : weight of each class's steps, None for 1; average, adaptive : as in LinearFactory, for mix and sum

    Source: see ExpertLearner.
    """

    loss: Loss
    kernel: str = "gaussian"
    n_frequencies: int = 400
    class_weights: tuple[float, ...] | None = None
    average: bool = True
    adaptive: bool = True
    name: str = "fogd"
    modes: tuple[Mode, ...] = ("stream", "mix", "sum")

    def build(self, context: online.BuildContext) -> online.BuiltLearner:
        """Draw the maps for the sample; for mix and sum, let experts choose one of them."""
        schema, sample = context.schema, context.sample
        online.check_loss(self.loss, schema)
        candidates = draw_candidates(sample.inputs, self.n_frequencies, context.seed, context.precision, self.kernel)
        # of a stream nobody knows the length of, the race is as long as in the longest
        schedule = race_schedule(context.rows or MOST_RACED_ROWS) if context.mode == "stream" else WHOLE_RACE
        learner = ExpertLearner(candidates, self.loss, schema.n_outputs, schedule, class_weights=self.class_weights)
        if context.mode == "stream":
            n_maps = len(candidates.bases) * candidates.n_octaves + 1
            return online.BuiltLearner(
                learner, {"maps": n_maps, "maps_reason": "raced while they learnt; one of them is linear"}
            )
        trained = learner.learn(learner.start(), sample)
        why = f"least loss of experts on {len(sample.targets):,} sampled rows"
        factory = LinearFactory(
            ChosenMap(learner.leader(trained)[0], learner.map_chosen(trained, why)),
            self.loss,
            None,
            self.class_weights,
            self.average,
            self.adaptive,
            self.name,
        )
        return factory.build(context)
