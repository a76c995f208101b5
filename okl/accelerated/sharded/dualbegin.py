"""How a run over shards begins for a dual problem, and what it remembers from check to check."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from okl.accelerated.barriers import RootsBarrier
from okl.accelerated.dual import DualProblem
from okl.accelerated.iterates import Iterate
from okl.accelerated.sharded.dualcommands import Begin, Begun, Measure, Seek, StepPart, Take
from okl.accelerated.sharded.multipliers import candidates_a_round, candidates_of, found_multipliers
from okl.accelerated.sharded.prototype import outer_at
from okl.accelerated.sharded.regions import normals_of, upper_of
from okl.accelerated.sharded.risks import thresholds_of
from okl.accelerated.sharded.rounds import Rounds, added
from okl.accelerated.sharded.searches import RootSearch
from okl.compiled.steps import inner
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class Carried:
    """What a run remembers from check to check, besides points and pace.

    penalty : of the current point; first_length, longest_first : of the first point, which smoothing goes by
    multipliers, reaches : of the last step, and how far they moved; thresholds, bias_reaches : of the last check
    """

    penalty: float
    first_length: float
    longest_first: float
    multipliers: FloatArray
    reaches: FloatArray
    thresholds: FloatArray
    threshold_reaches: FloatArray


def begin_dual(prototype: DualProblem, rounds: Rounds) -> tuple[float, Iterate, Carried]:
    """Bring the shards to the model's first point.

    Returns
    -------
    the first guess at the Lipschitz constant, the image of the first point, and what to carry on
    """
    upper = upper_of(prototype.region)
    widest = float(upper.max()) if np.isfinite(upper).all() else 1.0
    totals = normals_of(prototype.region)[1]
    # the roots of DWD have no finite slope at 0: its first point is the prox at the other end, as in memory
    aim = upper if isinstance(prototype.region, RootsBarrier) else np.zeros(1)
    n_candidates = candidates_a_round(prototype)
    searches = [RootSearch(0.0, widest, n_candidates) for _ in totals]
    begin = Begin(aim, 1.0 / widest, candidates_of(searches))
    multipliers = found_multipliers(
        searches, totals, rounds.ask(begin), lambda tried: rounds.ask(Seek(1.0 / widest, tried))
    )
    parts: list[StepPart] = rounds.ask(Take(1.0 / widest, multipliers, False))
    rounds.settle("begin", Begun(aim, 1.0 / widest, multipliers))
    measured: list[tuple[float, float]] = rounds.ask(Measure())
    rounds.forget_pending()
    longest, largest = (max(found) for found in zip(*measured, strict=True))
    image = added([part.image for part in parts])
    n_thresholds = len(thresholds_of(prototype.risk, prototype.intercept).totals)
    carried = Carried(
        penalty=sum(part.penalty for part in parts),
        first_length=math.sqrt(inner(image, image)),
        longest_first=math.sqrt(longest) * largest,
        multipliers=multipliers,
        reaches=np.full(len(totals), widest),
        thresholds=np.zeros(n_thresholds),
        threshold_reaches=np.full(n_thresholds, np.inf),
    )
    outer = outer_at(prototype, 0, carried.first_length, carried.longest_first)
    lipschitz = max(longest * max(1e-3, outer.slope(longest)), float(np.finfo(np.float32).tiny)) + prototype.curvature
    return lipschitz, Iterate(np.empty(0), image), carried
