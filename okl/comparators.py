"""The rows of an online run once more, in the order they were learnt, and the best weights of a ball for the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.hindsight import TOLERANCE, Hindsight, solve_in_ball
from okl.accelerated.operators import DenseRows, RowOperator
from okl.accelerated.operators.mapped import MappedInputs
from okl.accelerated.protocol import Certificate
from okl.execution.protocol import Execution
from okl.features.scoring import transform_rows
from okl.online.learner import LinearLearner
from okl.online.solver import OnlineState
from okl.solvers import Standing
from okl.store.dataset import Dataset
from okl.types import FloatArray

HORIZONS = (16, 8, 4, 2, 1)  # parts of the rows at whose end regret is told
SHARPNESS, MOST_SHARPENING = 0.2, 500  # gap over regret; iterations after which a gap of 1% is enough
MOST_BYTES = 4 * 2**30  # of what is held of the rows: their features, or else their inputs


@dataclass(frozen=True, eq=False)
class HeldRows:
    """The rows of a run in the order they were learnt, in memory.

    rows : features (rows, n_columns) if mapped, otherwise inputs (rows, n_inputs); labels : (rows,), -1 or +1
    learner : whose map it is, and whose class weights
    """

    rows: FloatArray
    labels: NDArray[np.float64]
    learner: LinearLearner
    mapped: bool
    n_threads: int

    def first(self, number: int) -> RowOperator:
        """The first rows as the operator of a margin model."""
        rows, labels = self.rows[:number], self.labels[:number]
        if self.mapped:
            return DenseRows(rows, labels, self.n_threads)
        return MappedInputs(rows, labels, self.learner.feature_map, self.n_threads)

    def weights(self, number: int) -> NDArray[np.float64] | None:
        """The class weights of the first rows, None for 1."""
        if self.learner.class_weights is None:
            return None
        low, high = self.learner.class_weights
        return np.where(self.labels[:number] > 0.0, high, low)


def hold_rows(learner: LinearLearner, state: OnlineState, data: Dataset, execution: Execution) -> HeldRows | None:
    """Read all rows once more, in the order they were learnt; None if even their inputs are more than MOST_BYTES."""
    feature_map, count = learner.feature_map, state.total_rows
    itemsize = np.dtype(learner.precision).itemsize
    mapped = count * feature_map.n_columns * itemsize <= MOST_BYTES
    if not mapped and count * feature_map.n_inputs * itemsize > MOST_BYTES:
        return None
    held = np.empty((count, feature_map.n_columns if mapped else feature_map.n_inputs), dtype=learner.precision)
    labels, done = np.empty(count), 0
    for rows in execution.stream(data, state.windows, 0, len(state.windows), learner.precision):
        part = slice(done, done + len(rows.targets))
        held[part] = transform_rows(feature_map, rows.inputs, execution.n_threads) if mapped else rows.inputs
        labels[part] = rows.targets
        done = part.stop
    return HeldRows(held, labels, learner, mapped, execution.n_threads)


def hindsights(
    learner: LinearLearner, held: HeldRows, standings: Sequence[Standing]
) -> list[tuple[Standing, Hindsight]]:
    """The best weights at each horizon, each solved from where the one before it ended."""
    assert learner.radius is not None
    near: Hindsight | None = None
    found = []
    for standing in _horizons(standings, held.labels):
        rows = held.first(standing.done_rows)
        loss: Literal["hinge", "logistic"] = "hinge" if learner.loss.name == "hinge" else "logistic"
        weights = held.weights(standing.done_rows)
        near = solve_in_ball(rows, loss, learner.radius, weights, near, partial(_enough, standing.surrogate))
        found.append((standing, near))
    return found


def _enough(loss: float, certificate: Certificate, iterations: int) -> bool:
    """A gap of 1%, and of a fifth of the regret, which is a small difference of two losses, where that is not too far.

    Where hardly any loss is left in hindsight, a gap of 1% of the regret will do.
    """
    regret = abs(loss - certificate.primal)
    certified = certificate.relative_gap <= TOLERANCE or certificate.gap <= TOLERANCE * regret
    return certified and (certificate.gap <= SHARPNESS * regret or iterations >= MOST_SHARPENING)


def _horizons(standings: Sequence[Standing], labels: NDArray[np.float64]) -> list[Standing]:
    """The standings next to a sixteenth of the rows, an eighth, ..., all; only those that saw both classes."""
    total, both = standings[-1].done_rows, int(np.argmax(labels != labels[0]))
    chosen = [min(standings, key=lambda one: abs(one.done_rows - total / part)) for part in HORIZONS]
    return [one for one in dict.fromkeys(chosen) if one.done_rows > both]
