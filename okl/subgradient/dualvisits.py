"""The course of a dual coordinate descent: visits in random orders, looks at the gap, rows left out between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.coordinates import Box

if TYPE_CHECKING:
    from okl.subgradient.dualdescent import DualDescent

Doubles = NDArray[np.float64]
_CHECK_EVERY = 4  # passes' worth of visits between two gaps, each of which costs about one


class Looked(NamedTuple):
    """What a look at the gap found: seconds so far, rows visited, primal and dual objective."""

    seconds: float
    visits: int
    primal: float
    dual: float


@dataclass(eq=False)
class Descent:
    """One descent while it goes on: coefficients change in place."""

    method: DualDescent
    box: Box
    coefficients: Doubles
    history: list[Looked] = field(default_factory=list)

    def run(self, visit: Callable[[Doubles, NDArray[np.int64]], None], measure: Callable[[Doubles], float]) -> Doubles:
        """Visit rows in random orders until the gap is reached; the scores (m,) of the rows.

        visit : gives rows their best coefficients and overwrites pulls by y - s; measure : overwrites scores, |w|^2
        """
        m, rng, begun = len(self.coefficients), np.random.default_rng(self.method.seed), time.perf_counter()
        pulls, scores, active = np.zeros(m), np.zeros(m), np.arange(m)
        visits, since, at_rest = 0, 0, False
        while True:
            rng.shuffle(active)
            before = self.coefficients[active]
            visit(pulls, active)
            visits, since = visits + len(active), since + len(active)
            if since >= (_CHECK_EVERY if self.history else 1) * m or at_rest:
                square = measure(scores)
                seconds = time.perf_counter() - begun
                self.history.append(Looked(seconds, visits, *self._objectives(scores, square)))
                if self._over(seconds, visits):
                    return scores
                since, pulls, active, before = 0, self.box.targets - scores, np.arange(m), self.coefficients.copy()
            active, largest = self._worth_visiting(active, pulls, before)
            # no row then adds more than this to the gap, unless it is not visited: time to look at all
            at_rest = bool(self.history) and largest <= 0.5 * self.method.relative_gap * abs(self.history[-1].primal)

    def _objectives(self, scores: Doubles, square: float) -> tuple[float, float]:
        box, half = self.box, 0.5 * self.method.lam * square
        if self.method.loss == "hinge":
            lost = np.maximum(0.0, 1.0 - box.targets * scores)
        else:
            lost = np.maximum(0.0, np.abs(box.targets - scores) - box.epsilon)
        dual = float(np.mean(box.targets * self.coefficients - box.epsilon * np.abs(self.coefficients)))
        return half + float(lost.mean()), dual - half

    def _over(self, seconds: float, visits: int) -> bool:
        last, method = self.history[-1], self.method
        reached = last.primal - last.dual <= method.relative_gap * abs(last.primal)
        return reached or seconds >= method.most_seconds or visits >= method.most_passes * len(self.coefficients)

    def _worth_visiting(
        self, active: NDArray[np.int64], pulls: Doubles, before: Doubles
    ) -> tuple[NDArray[np.int64], float]:
        """Active rows but for those held at a bound or a kink harder than any other one was moved; how hard that was.

        before : coefficients of these rows when the pulls were measured
        """
        pull, epsilon = pulls[active], self.box.epsilon
        up = np.where(before < self.box.upper[active], pull - np.where(before >= 0, epsilon, -epsilon), -np.inf)
        down = np.where(before > self.box.lower[active], np.where(before > 0, epsilon, -epsilon) - pull, -np.inf)
        rise = np.maximum(up, down)  # the slope of the dual where it rises most: below 0 at rest
        largest = max(float(rise.max(initial=0.0)), 0.0)
        if not self.method.shrink:
            return active, largest
        kept = active[rise >= -largest]
        return (kept if len(kept) else active), largest
