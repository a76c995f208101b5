"""The verbs of the accelerated method for an l1 problem over shards: w here, the margins of w beside the rows.

Vectors of a shard follow from w alone, so the log of a run is one entry long and needs no checkpoint.
"""

from __future__ import annotations

import numpy as np

from okl.accelerated.iterates import Checked, Iterate, StepOutcome
from okl.accelerated.projections import soft_threshold
from okl.accelerated.protocol import Certificate
from okl.accelerated.sharded.primalvectors import Conjugate, Costs, Gradient, Inspect, Lengths, Placed, Try
from okl.accelerated.sharded.rounds import Rounds, added
from okl.accelerated.sparsity import SparseProblem
from okl.compiled.steps import descend, step_sums
from okl.types import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
_NOTHING = np.empty(0)


class ShardedPrimal:
    """w and its gradient here, margins beside the shards. rounds : asks them; current, previous : hold points only."""

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
        self._gradient = added(self._rounds.ask(Gradient(momentum)))
        self.reads += 1

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz), and its margins: one read."""
        self._new = self._proxed(self._there, lipschitz)
        parts: list[Costs] = self._rounds.ask(Try(self._new, with_excess))
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
        self._rounds.settle("keep", Placed(self._new, self._current), last_only=True)
        self._previous, self._current, self._penalty = self._current, self._new, self._new_penalty

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._rounds.settle("drop", Placed(self._current, self._current), last_only=True)
        self._previous = self._current

    def check(self, lipschitz: float) -> Checked:
        """F, the certificate and ||T(x) - x|| of the current point: one read; the step is lost."""
        parts: list[tuple[FloatArray, float]] = self._rounds.ask(Inspect())
        self.reads += 1
        self._gradient = added([part[0] for part in parts])
        risk, norm = sum(part[1] for part in parts), self._penalty
        factor = 1.0 / max(1.0, float(np.abs(self._gradient).max()))
        dual = sum(self._rounds.ask(Conjugate(factor)))
        self._rounds.forget_pending()
        rounding = 8.0 * _EPSILON * (risk + norm + abs(dual))
        certificate = Certificate(primal=risk + norm, dual=-dual, floor=0.0, bias=0.0, rounding=rounding)
        moved = self._proxed(self._current, lipschitz) - self._current
        return Checked(risk + norm, certificate, float(np.linalg.norm(moved)))

    def kept(self) -> tuple[Iterate, Iterate]:
        """Current and previous w; their margins stay where they are."""
        return Iterate(self._current, _NOTHING), Iterate(self._previous, _NOTHING)

    def _proxed(self, point: FloatArray, lipschitz: float) -> FloatArray:
        target, out = np.empty(len(point)), np.empty(len(point))
        descend(target, point, self._gradient, 1.0 / lipschitz)
        soft_threshold(out, target, 1.0 / lipschitz)
        return out


def begin_primal(prototype: SparseProblem, rounds: Rounds, n_columns: int) -> tuple[float, Iterate]:
    """The first guess at the Lipschitz constant, below it, and w = 0."""
    longest = prototype.curvature * max(rounds.ask(Lengths()))
    rounds.forget_pending()
    return max(longest, float(np.finfo(np.float32).tiny)), Iterate(np.zeros(n_columns), _NOTHING)
