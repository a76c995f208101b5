"""l1 problems over shards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.dual_steps import descend, extrapolate, inner, step_sums
from okl.data.dataset import Shard
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import Certificate
from okl.solvers.accelerated.dual import SparseProblem
from okl.solvers.accelerated.method import Checked, Iterate, StepOutcome
from okl.solvers.accelerated.projections import soft_threshold
from okl.solvers.accelerated.shards import MappedRows, groups_of_class, signs_of_class, spread
from okl.solvers.rounds import Rounds, Verdict, added

# Margins of a shard, and the commands that move them.


@stored("primal-opening")
@dataclass(frozen=True, eq=False)
class OpenPrimal:
    """Makes the vectors of a shard.

    rows : of all shards; prototype : of the model; positive : class, None for +1; n_groups : of rows of one weight
    """

    rows: MappedRows
    prototype: SparseProblem
    positive: int | None
    n_groups: int = 2

    def __call__(self, shard: Shard) -> PrimalVectors:
        """Return the margins of w = 0."""
        return PrimalVectors(self, shard)


class PrimalVectors:
    """Margins of a shard's rows, (m,) float64 each, in private buffers."""

    def __init__(self, opening: OpenPrimal, shard: Shard) -> None:
        self.shard, self.rows = shard, opening.rows
        targets, self.longest = self.rows.targets(shard)
        self.loss = opening.prototype.loss
        self.signs = signs_of_class(targets, opening.positive)
        self.weights = spread(opening.prototype.weights, groups_of_class(targets, opening.positive, opening.n_groups))
        self.current, self.previous, self.there, self.new = (np.zeros(shard.rows) for _ in range(4))

    def finish_step(self, verdict: Verdict) -> None:
        """Turn the buffers round, or forget the momentum."""
        if verdict != "drop":
            self.previous, self.current, self.new = self.current, self.new, self.previous
        if verdict != "keep":
            self.previous[:] = self.current

    def saved(self) -> NDArray[np.float64]:
        """Return (2, m)."""
        return np.stack([self.current, self.previous])

    def restore(self, saved: NDArray[np.float64]) -> None:
        """Restore the saved vectors."""
        self.current[:], self.previous[:] = saved

    def slopes_summed(self, margins: FloatArray) -> FloatArray:
        """Return the gradient of the losses over w, (n_columns,)."""
        return self.rows.image(self.shard, self.signs, self.weights * self.loss.derivative(margins))


class Costs(NamedTuple):
    """Sums of losses, and of their excesses (NaN unless requested)."""

    losses: float
    excess: float


@stored("primal-lengths-command")
@dataclass(frozen=True, eq=False)
class Lengths:
    """The largest weight times squared length of a row."""

    def run(self, vectors: PrimalVectors) -> float:
        """Return an upper bound, from the longest and the heaviest row."""
        return vectors.longest * float(vectors.weights.max())

    def redo(self, vectors: PrimalVectors) -> None:
        """Change nothing."""


@stored("primal-gradient-command")
@dataclass(frozen=True, eq=False)
class GradientCommand:
    """Go to the extrapolated margins."""

    momentum: float

    def run(self, vectors: PrimalVectors) -> FloatArray:
        """Return the gradient at the extrapolated point."""
        self.redo(vectors)
        return vectors.slopes_summed(vectors.there)

    def redo(self, vectors: PrimalVectors) -> None:
        """Go there."""
        extrapolate(vectors.there, vectors.current, vectors.previous, self.momentum)


@stored("primal-try-command")
@dataclass(frozen=True, eq=False)
class TryCommand:
    """The margins of another w."""

    weights: FloatArray
    with_excess: bool

    def run(self, vectors: PrimalVectors) -> Costs:
        """Return what they cost."""
        self.redo(vectors)
        losses = float(inner(vectors.weights, vectors.loss.value(vectors.new)))
        if not self.with_excess:
            return Costs(losses, math.nan)
        return Costs(losses, float(inner(vectors.weights, vectors.loss.excess(vectors.new, vectors.there))))

    def redo(self, vectors: PrimalVectors) -> None:
        """Compute them."""
        vectors.rows.pull(vectors.new, vectors.shard, vectors.signs, self.weights)


@stored("primal-inspect-command")
@dataclass(frozen=True, eq=False)
class InspectCommand:
    """The current margins."""

    def run(self, vectors: PrimalVectors) -> tuple[FloatArray, float]:
        """Their gradient and losses."""
        losses = float(inner(vectors.weights, vectors.loss.value(vectors.current)))
        return vectors.slopes_summed(vectors.current), losses

    def redo(self, vectors: PrimalVectors) -> None:
        """Change nothing."""


@stored("primal-conjugate-command")
@dataclass(frozen=True, eq=False)
class Conjugate:
    """The dual objective of the slopes at the current margins, made feasible by a factor in (0, 1]."""

    factor: float

    def run(self, vectors: PrimalVectors) -> float:
        """Return minus the dual objective."""
        slopes = -self.factor * vectors.loss.derivative(vectors.current)
        return float(inner(vectors.weights, vectors.loss.conjugate(slopes)))

    def redo(self, vectors: PrimalVectors) -> None:
        """Change nothing."""


@stored("primal-placed")
@dataclass(frozen=True, eq=False)
class PlacedMargins:
    """Current and previous w: the margins follow."""

    current: FloatArray
    previous: FloatArray

    def redo(self, vectors: PrimalVectors) -> None:
        """Compute both."""
        vectors.rows.pull(vectors.current, vectors.shard, vectors.signs, self.current)
        vectors.rows.pull(vectors.previous, vectors.shard, vectors.signs, self.previous)


# The iterates of an l1 problem over shards.
#
# Vectors of a shard follow from w alone, so the log of a run is one entry long and needs no checkpoint.

_EPSILON = float(np.finfo(np.float64).eps)
_NOTHING = np.empty(0)


class ShardedPrimal:
    """w and its gradient in this process, margins with the shards. current, previous : hold points only."""

    def __init__(self, rounds: Rounds, current: Iterate, previous: Iterate) -> None:
        self._rounds = rounds
        self._current, self._previous = current.point, previous.point
        self._there, self._gradient, self._new = current.point, current.point, current.point
        self._penalty = float(np.abs(self._current).sum())
        self._new_penalty = self._penalty
        self.reads = 0

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous), and compute the gradient there: one read."""
        self._there = self._current + momentum * (self._current - self._previous)
        self._gradient = added(self._rounds.request(GradientCommand(momentum)))
        self.reads += 1

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz), and its margins: one read."""
        self._new = self._proxed(self._there, lipschitz)
        parts: list[Costs] = self._rounds.request(TryCommand(self._new, with_excess))
        self.reads += 1
        squared, turn = step_sums(self._new, self._there, self._gradient, self._current)
        self._new_penalty = float(np.abs(self._new).sum())
        return StepOutcome(
            excess=sum(part.excess for part in parts),
            squared_step=float(squared),
            uphill=float(turn) + self._new_penalty - self._penalty,
            objective=sum(part.losses for part in parts) + self._new_penalty,
        )

    def accept(self) -> None:
        """Make the step the current point."""
        self._rounds.finish_step("keep", PlacedMargins(self._new, self._current), last_only=True)
        self._previous, self._current, self._penalty = self._current, self._new, self._new_penalty

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._rounds.finish_step("drop", PlacedMargins(self._current, self._current), last_only=True)
        self._previous = self._current

    def check(self, lipschitz: float) -> Checked:
        """Return F, the certificate and ||T(x) - x|| of the current point: one read; the step is lost."""
        parts: list[tuple[FloatArray, float]] = self._rounds.request(InspectCommand())
        self.reads += 1
        self._gradient = added([part[0] for part in parts])
        risk, norm = sum(part[1] for part in parts), self._penalty
        factor = 1.0 / max(1.0, float(np.abs(self._gradient).max()))
        dual = sum(self._rounds.request(Conjugate(factor)))
        self._rounds.forget_pending()
        rounding = 8.0 * _EPSILON * (risk + norm + abs(dual))
        certificate = Certificate(primal=risk + norm, dual=-dual, floor=0.0, bias=0.0, rounding=rounding)
        moved = self._proxed(self._current, lipschitz) - self._current
        return Checked(risk + norm, certificate, float(np.linalg.norm(moved)))

    def recent(self) -> tuple[Iterate, Iterate]:
        """Current and previous w; their margins stay where they are."""
        return Iterate(self._current, _NOTHING), Iterate(self._previous, _NOTHING)

    def _proxed(self, point: FloatArray, lipschitz: float) -> FloatArray:
        target, out = np.empty(len(point)), np.empty(len(point))
        descend(target, point, self._gradient, 1.0 / lipschitz)
        soft_threshold(out, target, 1.0 / lipschitz)
        return out


def begin_primal(prototype: SparseProblem, rounds: Rounds, n_columns: int) -> tuple[float, Iterate]:
    """Return a lower bound of the Lipschitz constant as the first estimate, and w = 0."""
    longest = prototype.curvature * max(rounds.request(Lengths()))
    rounds.forget_pending()
    return max(longest, float(np.finfo(np.float32).tiny)), Iterate(np.zeros(n_columns), _NOTHING)
