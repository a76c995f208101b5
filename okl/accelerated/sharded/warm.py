"""Where a model over shards begins that was solved before on other rows: from its weights, in the same feature map.

At an optimum the dual entry of a row is its weight times minus the slope of its loss at its margin, so that weights
alone tell dual points, also of rows that they were not learnt from. A hinge has no slope at its kink, where a few rows
stand whose entries may be anything: it is taken to fall evenly over a small stretch of margins. The point is brought
into the model's set, and begun from only if its objective is lower than that of the model's own first point: the
optimum is the same, and its certificate knows nothing of where it began.

Warm are sums of losses over rows: C-SVM, l2-SVM, logistic and the l1 models. nu-SVM, DWD and minimax models begin at
their own points, which are near already or take one read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from okl.accelerated.dual import DualProblem
from okl.accelerated.iterates import Iterate
from okl.accelerated.outer import EuclideanNorm, Outer
from okl.accelerated.risks import SumOfLosses
from okl.accelerated.sharded.dualbegin import Carried
from okl.accelerated.sharded.dualcommands import Dropped, Seek, Take
from okl.accelerated.sharded.dualvectors import DualVectors
from okl.accelerated.sharded.multipliers import candidates_a_round, candidates_of, found_multipliers
from okl.accelerated.sharded.primalvectors import Placed, Try
from okl.accelerated.sharded.regions import Sums, normals_of, upper_of
from okl.accelerated.sharded.risks import LossPart
from okl.accelerated.sharded.rounds import Rounds, added
from okl.accelerated.sharded.searches import RootSearch
from okl.compiled.steps import inner
from okl.types import FloatArray

_KINK = 0.05  # of margins, to either side of a kink
_FIRM = 1e6  # so that a prox only brings a point into the set, where a barrier would move it on


@dataclass(frozen=True, eq=False)
class Warm:
    """Weights (n_columns,) and bias of a solution: a row's margin is s_i (<w, z_i> - bias)."""

    weights: FloatArray
    bias: float


class WarmPart(NamedTuple):
    """A shard's part of a warm point: image (n_columns,), penalty; all but the outer value, of the last one and it."""

    image: FloatArray
    penalty: float
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class AimWarm:
    """Aim at the dual entries that the weights' margins tell."""

    warm: Warm
    lipschitz: float
    candidates: FloatArray

    def run(self, vectors: DualVectors) -> Sums:
        """Sums of the set at the candidates."""
        self.redo(vectors)
        return vectors.region.sums(vectors.target, self.lipschitz, self.candidates)

    def redo(self, vectors: DualVectors) -> None:
        """Aim: one read."""
        assert isinstance(vectors.risk, LossPart), "begin_warm asks for no other"
        losses, target = vectors.risk.sum, vectors.target
        vectors.rows.pull(target, vectors.shard, vectors.signs, self.warm.weights)
        margins = target - self.warm.bias * vectors.signs
        slopes = 0.5 * (losses.loss.derivative(margins - _KINK) + losses.loss.derivative(margins + _KINK))
        target[:] = -losses.weights * slopes


@dataclass(frozen=True, eq=False)
class TakeWarm:
    """Bring what was aimed at into the set."""

    lipschitz: float
    multipliers: FloatArray

    def run(self, vectors: DualVectors) -> WarmPart:
        """Its image and sums, beside those of the point that stands."""
        self.redo(vectors)
        region, separable, new = vectors.region, vectors.separable, vectors.new
        penalty, current = region.value(new), vectors.current
        return WarmPart(
            vectors.rows.image(vectors.shard, vectors.signs, new),
            penalty,
            region.value(current) + separable.value(current),
            penalty + separable.value(new),
        )

    def redo(self, vectors: DualVectors) -> None:
        """Bring it there."""
        Take(self.lipschitz, self.multipliers, False).redo(vectors)


@dataclass(frozen=True, eq=False)
class Warmed:
    """A warm point that was kept, with all it takes to find it again."""

    warm: Warm
    lipschitz: float
    multipliers: FloatArray

    def redo(self, vectors: DualVectors) -> None:
        """Go there."""
        AimWarm(self.warm, self.lipschitz, np.empty((1, 0))).redo(vectors)
        TakeWarm(self.lipschitz, self.multipliers).redo(vectors)
        vectors.settle("begin")


def begin_warm(
    warm: Warm, prototype: DualProblem, outer: Outer, rounds: Rounds, here: Iterate, carried: Carried
) -> tuple[Iterate, Carried]:
    """Go to the warm point where that is lower; two reads.

    Returns
    -------
    the image where the shards stand then, and what to carry on
    """
    if not isinstance(prototype.risk, SumOfLosses) or isinstance(outer, EuclideanNorm):
        return here, carried
    upper = upper_of(prototype.region)
    widest = float(upper.max()) if np.isfinite(upper).all() else 1.0
    totals, lipschitz = normals_of(prototype.region)[1], _FIRM / widest
    searches = [RootSearch(0.0, widest, candidates_a_round(prototype)) for _ in totals]
    answers: list[FloatArray] = rounds.ask(AimWarm(warm, lipschitz, candidates_of(searches)))
    found = found_multipliers(searches, totals, answers, lambda tried: rounds.ask(Seek(lipschitz, tried)))
    parts: list[WarmPart] = rounds.ask(TakeWarm(lipschitz, found))
    image = added([part.image for part in parts])
    before = outer.value(_square(here.image)) + sum(part.before for part in parts)
    if not outer.value(_square(image)) + sum(part.after for part in parts) < before:
        rounds.settle("drop", Dropped())
        return here, carried
    rounds.settle("begin", Warmed(warm, lipschitz, found))
    return Iterate(here.point, image), replace(carried, penalty=sum(part.penalty for part in parts))


def begin_warm_primal(warm: Warm, rounds: Rounds, n_columns: int) -> Iterate:
    """The weights of an l1 model, or 0 where that is lower: two reads; the shards' margins are those of it."""
    values = []
    for tried in (np.zeros(n_columns), warm.weights):
        losses = sum(part.losses for part in rounds.ask(Try(tried, False)))
        values.append(losses + float(np.abs(tried).sum()))
    if not values[1] < values[0]:
        rounds.forget_pending()
        return Iterate(np.zeros(n_columns), np.empty(0))
    rounds.settle("begin", Placed(warm.weights, warm.weights), last_only=True)
    return Iterate(warm.weights, np.empty(0))


def _square(vector: FloatArray) -> float:
    return float(inner(vector, vector))
