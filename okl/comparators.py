"""The rows of an online run once more, in the order they were learnt, and the best weights of a ball for the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.hindsight import TOLERANCE, Hindsight, solve_in_ball
from okl.accelerated.operators import DenseRows, RowOperator
from okl.accelerated.operators.mapped import MappedInputs
from okl.accelerated.protocol import Certificate
from okl.constrainedhindsight import solve_within
from okl.execution.protocol import Execution
from okl.features.scoring import transform_rows
from okl.online.constrained import ConstrainedLearner
from okl.online.learner import LinearLearner
from okl.online.solver import OnlineState
from okl.progress import NullObserver, Observer
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
        return self.between(0, number)

    def between(self, first: int, last: int) -> RowOperator:
        """The rows from first to last, without it, as the operator of a margin model."""
        rows, labels = self.rows[first:last], self.labels[first:last]
        if self.mapped:
            return DenseRows(rows, labels, self.n_threads)
        return MappedInputs(rows, labels, self.learner.feature_map, self.n_threads)

    def weights(self, number: int) -> NDArray[np.float64] | None:
        """The class weights of the first rows, None for 1."""
        return self.weights_between(0, number)

    def weights_between(self, first: int, last: int) -> NDArray[np.float64] | None:
        """The class weights of rows, None for 1."""
        if self.learner.class_weights is None:
            return None
        low, high = self.learner.class_weights
        return np.where(self.labels[first:last] > 0.0, high, low)


@dataclass
class Told:
    """What whoever watches has been told: rows that were read once more, then the rows of each horizon as it is solved.

    observer : who watches; total : rows to read and rows of all horizons together; done : of these
    """

    observer: Observer = field(default_factory=NullObserver)
    total: int = 0
    done: int = 0

    @classmethod
    def of(cls, observer: Observer, standings: Sequence[Standing]) -> Told:
        """Before anything is read."""
        rows = standings[-1].done_rows
        return cls(observer, rows + sum(one.done_rows for one in _nearest(standings)))

    def read(self, rows: int) -> None:
        """So many more rows are read, or certified."""
        self.done += rows
        self.observer.advance(min(self.done, self.total), self.total, {})

    def solving(self, rows: int, share: float, certificate: Certificate) -> None:
        """A share of the way to the certificate of a horizon of so many rows is gone."""
        done = min(self.done + int(share * rows), self.total)
        self.observer.advance(done, self.total, {"relative_gap": certificate.relative_gap})


def hold_rows(
    learner: LinearLearner, state: OnlineState, data: Dataset, execution: Execution, told: Told | None = None
) -> HeldRows | None:
    """Read all rows once more, in the order they were learnt; None if even their inputs are more than MOST_BYTES."""
    told = told or Told()
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
        told.read(len(rows.targets))
    return HeldRows(held, labels, learner, mapped, execution.n_threads)


def hindsights(
    learner: LinearLearner, held: HeldRows, standings: Sequence[Standing], told: Told | None = None
) -> list[tuple[Standing, Hindsight]]:
    """The best weights at each horizon, within the learner's limits if it has any, each from where the last ended."""
    assert learner.radius is not None
    told, near = told or Told(), None
    loss: Literal["hinge", "logistic"] = "hinge" if learner.loss.name == "hinge" else "logistic"
    found: list[tuple[Standing, Hindsight]] = []
    for standing in _horizons(standings, held.labels):
        rows, weights = held.first(standing.done_rows), held.weights(standing.done_rows)
        enough = _Enough(standing, told)
        if isinstance(learner, ConstrainedLearner):
            near = solve_within(rows, loss, learner.kept, weights, near, enough)
        else:
            near = solve_in_ball(rows, loss, learner.radius, weights, near, enough)
        told.read(standing.done_rows)
        found.append((standing, near))
    return found


@dataclass
class _Enough:
    """A gap of 1%, and of a fifth of the regret, which is a small difference of two losses, where that is not too far.

    Where hardly any loss is left in hindsight, a gap of 1% of the regret will do. Called at every check, it tells how
    far the gap has come, on a logarithmic scale.
    """

    standing: Standing
    told: Told
    first: float | None = None
    share: float = 0.0

    def __call__(self, certificate: Certificate, iterations: int) -> bool:
        regret = abs(self.standing.surrogate - certificate.primal)
        gap = certificate.gap
        certified = certificate.relative_gap <= TOLERANCE or gap <= TOLERANCE * regret
        enough = certified and (gap <= SHARPNESS * regret or iterations >= MOST_SHARPENING)
        loss = max(abs(certificate.primal), abs(certificate.dual))
        due = max(TOLERANCE * regret, min(TOLERANCE * loss, SHARPNESS * regret))
        self._tell(certificate, gap, due)
        return enough

    def _tell(self, certificate: Certificate, gap: float, due: float) -> None:
        self.first = gap if self.first is None else self.first
        if self.first > due > 0.0 and gap > 0.0:
            share = math.log(self.first / gap) / math.log(self.first / due)
            self.share = min(max(self.share, share), 1.0)  # gaps do not fall at every check
        self.told.solving(self.standing.done_rows, self.share, certificate)


def _nearest(standings: Sequence[Standing]) -> list[Standing]:
    """The standings next to a sixteenth of the rows, an eighth, ..., all."""
    total = standings[-1].done_rows
    chosen = [min(standings, key=lambda one: abs(one.done_rows - total / part)) for part in HORIZONS]
    return list(dict.fromkeys(chosen))


def _horizons(standings: Sequence[Standing], labels: NDArray[np.float64]) -> list[Standing]:
    """Of the nearest only those that saw both classes."""
    both = int(np.argmax(labels != labels[0]))
    return [one for one in _nearest(standings) if one.done_rows > both]
