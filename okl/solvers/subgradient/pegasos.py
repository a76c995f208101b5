"""Pegasos in memory, on streams and on shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from okl.compiled import sgd
from okl.compiled.jit import as_compiled
from okl.compiled.threads import MOST_ROWS
from okl.data.execution import Rows
from okl.features.base import FeatureMap, transform_rows
from okl.features.predictors import LinearPredictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.types import Doubles, FloatArray, Integers, Mode, Task
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.losses import Loss
from okl.solvers.base import SolverMap
from okl.solvers.online import base as online

Average = Literal["none", "uniform", "later"]
_CODES = {"none": sgd.NO_AVERAGE, "uniform": sgd.UNIFORM, "later": sgd.LATER_MORE}
_FIRST_ROWS, _MOST_ROWS = 64, 2**18  # of a chunk between two checks of the clock


@stored("pegasos-state")
@dataclass(frozen=True, eq=False)
class PegasosState:
    """State of Pegasos: an immutable value.

    points : (n_outputs, n_columns), x; behind : the same in float64, u; numbers : (5,), as in okl.compiled.sgd
    progress : how the rows were predicted before they were learned
    """

    points: FloatArray
    behind: Doubles
    numbers: Doubles
    progress: online.Progress

    def last(self, lam: float) -> Doubles:
        """Return weights after the last step, (n_outputs, n_columns) float64."""
        steps = self.numbers[sgd.STEPS]
        return self.points.astype(np.float64) * (self.numbers[sgd.SCALE] / (lam * steps) if steps else 0.0)

    def averaged(self, lam: float) -> Doubles:
        """Return the average, or the last weights where there is none."""
        if self.numbers[sgd.TOTAL] == 0.0:
            return self.last(lam)
        mean: Doubles = (self.numbers[sgd.FACTORS] * self.points.astype(np.float64) - self.behind) / self.numbers[
            sgd.TOTAL
        ]
        return mean

    def carried(self) -> sgd.CarriedWeights:
        counts, _, class_counts = online.progress_arrays(self.progress)
        return sgd.CarriedWeights(self.points.copy(), self.behind.copy(), self.numbers.copy(), counts, class_counts)


def state_from(carried: sgd.CarriedWeights, task: Task) -> PegasosState:
    """Return the arrays of a finished update as a state; they must not be changed afterwards."""
    progress = online.progress_from(task, carried.counts, np.zeros(5), carried.class_counts)
    return PegasosState(carried.points, carried.behind, carried.numbers, progress)


@stored("pegasos")
@dataclass(frozen=True)
class Pegasos:
    """min lam / 2 |w|^2 + mean hinge by steps of 1 / (lam t) on a few random rows; no bias.

    lam : > 0; batch : rows a step, >= 1
    project : whether every step ends in the ball |w| <= lam^(-1/2), which the optimum is in
    average : of the weights after each step: "none", "uniform", or "later", where step t counts t times
    in_turn : whether rows come one after the other, again and again, and not by draws with replacement
    Raises ConfigError : a parameter is out of range
    Source: Shalev-Shwartz, Singer, Srebro & Cotter, Mathematical Programming 127, 2011, Figures 1 to 3.
    """

    lam: float
    batch: int = 1
    project: bool = False
    average: Average = "later"
    in_turn: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_at_least("batch", self.batch, 1)
        check_choice("average", self.average, get_args(Average))

    @property
    def steps(self) -> sgd.PegasosSteps:
        return sgd.PegasosSteps(float(self.lam), int(self.batch), bool(self.project), _CODES[self.average])

    def start(self, n_columns: int, n_outputs: int = 1, precision: object = np.float64) -> PegasosState:
        """Return the initial state; n_outputs : 1 for two classes, otherwise the number of classes."""
        shape = (n_outputs, n_columns)
        numbers = np.zeros(5)
        numbers[sgd.SCALE] = 1.0
        progress = online.start_progress("binary" if n_outputs == 1 else "multiclass", n_outputs)
        return PegasosState(np.zeros(shape, dtype=precision), np.zeros(shape), numbers, progress)  # type: ignore[call-overload]

    def weights(self, state: PegasosState) -> Doubles:
        """Return the average or the last weights, (n_outputs, n_columns) float64; for a kernel, coefficients (1, m)."""
        return state.averaged(self.lam)

    def picks(self, n_drawn: int, count: int, n_rows: int) -> Integers:
        """Return the draws from index `n_drawn` on; the rows do not depend on the chunks."""
        if self.in_turn:
            return np.arange(n_drawn, n_drawn + count) % n_rows
        generator = np.random.PCG64(self.seed)
        generator.advance(n_drawn)
        return (np.random.Generator(generator).random(count) * n_rows).astype(np.int64)

    def run_rows(self, rows: FloatArray, targets: Doubles) -> Iterator[PegasosState]:
        """Yield states after more and more steps on rows (m, n_columns), without end; targets : (m,), -1 and +1."""
        rows, targets = as_compiled(rows, rows.dtype), as_compiled(targets, np.float64)
        scores, (changes, wrongs) = np.zeros(1, dtype=rows.dtype), self.buffers()
        state = self.start(rows.shape[1], precision=rows.dtype)

        def learn(carried: sgd.CarriedWeights, picks: Integers) -> None:
            sgd.step_rows(carried, scores, changes, wrongs, rows, targets, picks, self.steps)

        return self._run(state, learn, len(targets))

    def run_kernel(self, matrix: FloatArray, targets: Doubles, stretch: int | None = None) -> Iterator[PegasosState]:
        """Yield states for a kernel matrix (m, m), points as coefficients; stretch : rows a state, None: ever more."""
        matrix, targets = as_compiled(matrix, matrix.dtype), as_compiled(targets, np.float64)
        scores, (changes, _) = np.zeros(len(targets)), self.buffers()

        def learn(carried: sgd.CarriedWeights, picks: Integers) -> None:
            sgd.step_kernel(carried, scores, changes, matrix, targets, picks, self.steps)

        return self._run(self.start(len(targets)), learn, len(targets), stretch)

    def buffers(self) -> tuple[Doubles, Integers]:
        """Return arrays (batch,) that a step writes into."""
        return np.zeros(self.batch), np.zeros(self.batch, dtype=np.int64)

    def _run(
        self,
        state: PegasosState,
        learn: Callable[[sgd.CarriedWeights, Integers], None],
        n_rows: int,
        fixed: int | None = None,
    ) -> Iterator[PegasosState]:
        stretch = max(fixed or _FIRST_ROWS, self.batch)
        while True:
            carried = state.carried()
            count = stretch - stretch % self.batch
            learn(carried, self.picks(int(carried.counts[sgd.ROWS]), count, n_rows))
            state = state_from(carried, "binary")
            if fixed is None:
                stretch = min(stretch + stretch // 4, max(_MOST_ROWS, self.batch))
            yield state


# On streams and shards.

LOSSES = ("hinge", "multiclass-hinge")
_WINDOW = 16 * MOST_ROWS  # rows whose features are in memory at once


@stored("pegasos-learner")
@dataclass(frozen=True, eq=False)
class PegasosLearner(online.LossLearner):
    """Steps of 1 / (lam t) on the rows in their order, `batch` of them a step.

    feature_map : z; method : lam, batch, projection and average; its batch divides 256
    loss : "hinge" or "multiclass-hinge"; n_outputs : number of classes for several, otherwise 1
    Raises ConfigError : another loss, or a batch that does not divide 256, so that blocks of rows would change what is
        learned

    Source: as in okl.solvers.subgradient.pegasos; on shards, McDonald, Hall & Mann, NAACL 2010, Figure 3.
    """

    feature_map: FeatureMap
    method: Pegasos
    loss: Loss
    n_outputs: int = 1

    def __post_init__(self) -> None:
        check_at_least("n_outputs", self.n_outputs, 2 if self.loss.task == "multiclass" else 1)
        check_stream(self.loss, self.method.batch)

    def start(self) -> PegasosState:
        return self.method.start(self.feature_map.n_columns, self.n_outputs, self.precision)

    def learn(self, state: PegasosState, rows: Rows, n_threads: int = 1) -> PegasosState:
        """Train on rows in their order, of which the last step may have fewer. See `RowLearner`."""
        shape = (self.task, self.feature_map.n_inputs, self.n_outputs, self.precision)
        inputs, targets = online.checked_rows(rows, *shape)
        carried, (changes, wrongs) = state.carried(), self.method.buffers()
        scores = np.zeros(self.n_outputs, dtype=self.precision)
        for first in range(0, len(targets), _WINDOW):
            features = transform_rows(self.feature_map, inputs[first : first + _WINDOW], n_threads)
            picks = np.arange(len(features))
            some = targets[first : first + _WINDOW]
            sgd.step_rows(carried, scores, changes, wrongs, features, some, picks, self.method.steps)
        after = state_from(carried, self.task)
        if not np.isfinite(after.points).all():
            raise DivergedError(
                f"Rows {state.progress.rows:,} to {after.progress.rows - 1:,}: the weights are no longer finite "
                f"with lam = {self.method.lam:g}. Raise lam, or use precision float64."
            )
        return after

    def predictor(self, state: PegasosState) -> LinearPredictor:
        return LinearPredictor(self.feature_map, self.method.weights(state).astype(self.precision))

    def chosen(self, state: PegasosState) -> dict[str, Any]:
        """Return no choices: all parameters were given."""
        return {}

    def shard_start(self, state: PegasosState) -> PegasosState:
        numbers = state.numbers.copy()
        numbers[[sgd.FACTORS, sgd.TOTAL]] = 0.0
        return PegasosState(state.points, np.zeros_like(state.behind), numbers, state.progress)

    def average_shards(self, base: PegasosState, parts: list[PegasosState]) -> PegasosState:
        """Return the row-weighted average of the shards' states from shard_start(base); step counts are added."""
        shares, progress = online.shares_of_rows(base.progress, [part.progress for part in parts])
        if not shares:
            return base
        lam, numbers = self.method.lam, base.numbers.copy()
        numbers[sgd.STEPS] += sum(part.numbers[sgd.STEPS] - base.numbers[sgd.STEPS] for part in parts)
        numbers[sgd.SCALE] = 1.0
        last = np.zeros_like(base.behind)
        total = base.numbers[sgd.FACTORS] * base.points.astype(np.float64) - base.behind
        for part, share in zip(parts, shares, strict=True):
            last += share * part.last(lam)
            total += part.numbers[sgd.FACTORS] * part.points.astype(np.float64) - part.behind
            numbers[sgd.TOTAL] += part.numbers[sgd.TOTAL]
        # the sum of all weights so far is W x - u: with W = 0 it is -u
        numbers[sgd.FACTORS] = 0.0
        points = (lam * numbers[sgd.STEPS] * last).astype(base.points.dtype)
        return PegasosState(points, -total, numbers, progress)


@dataclass(frozen=True)
class PegasosFactory:
    """Pegasos in a feature map that is drawn for the data.

    maps : the feature map to draw; loss : "hinge" or "multiclass-hinge"
    lam, batch, project, average : as in okl.solvers.subgradient.pegasos.Pegasos; batch divides 256
    Raises ConfigError : a parameter is out of range, or another loss
    """

    maps: SolverMap
    loss: Loss
    lam: float = 1e-3
    batch: int = 1
    project: bool = False
    average: Average = "later"
    name: str = "pegasos"
    modes: tuple[Mode, ...] = ("stream", "mix")

    def __post_init__(self) -> None:
        check_stream(self.loss, self._method(0).batch)

    def build(self, context: online.BuildContext) -> online.BuiltLearner:
        schema = context.schema
        online.check_loss(self.loss, schema)
        sample = context.sample.inputs
        feature_map, chosen = self.maps.draw(schema, sample, context.seed, context.precision)
        learner = PegasosLearner(feature_map, self._method(context.seed), self.loss, schema.n_outputs)
        return online.BuiltLearner(learner, chosen | {"lam": self.lam, "lam_reason": "as given", "bias": "none"})

    def _method(self, seed: int) -> Pegasos:
        return Pegasos(self.lam, self.batch, self.project, self.average, seed=seed)


def check_stream(loss: Loss, batch: int) -> None:
    """Raise ConfigError unless Pegasos can learn this loss from a stream in steps of `batch` rows."""
    if loss.task == "regression":
        raise ConfigError(
            f"pegasos is for classes, but loss {loss.name!r} makes this a regression. Use --solver scs or wolfe."
        )
    if loss.name not in LOSSES:
        raise ConfigError(
            f"loss = {loss.name!r} is not available for pegasos. Use {' or '.join(LOSSES)}, or leave it out."
        )
    if MOST_ROWS % batch:
        raise ConfigError(
            f"batch = {batch}, but it must divide {MOST_ROWS} in a stream. Use 1, 2, 4, .. or {MOST_ROWS}."
        )
