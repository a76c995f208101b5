"""The verbs of the accelerated method for a dual problem whose vectors lie beside their shards."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from okl.accelerated.dual import DualProblem
from okl.accelerated.iterates import Checked, Iterate, StepOutcome
from okl.accelerated.outer import Outer
from okl.accelerated.protocol import Certificate
from okl.accelerated.sharded.dualbegin import Carried
from okl.accelerated.sharded.dualcommands import Aim, Dropped, Extrapolation, Seek, StepPart, Stepped, Take
from okl.accelerated.sharded.duallooks import Look, LookPart, Slopes, Value
from okl.accelerated.sharded.multipliers import candidates_a_round, candidates_of, found_multipliers
from okl.accelerated.sharded.regions import normals_of
from okl.accelerated.sharded.risks import thresholds_of
from okl.accelerated.sharded.rounds import Rounds, added
from okl.accelerated.sharded.searches import RootSearch, find_roots
from okl.compiled.steps import inner, squared_distance
from okl.types import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
_BIAS_CANDIDATES = 16
_NOTHING = np.empty(0)
Vector = FloatArray


class ShardedDual:
    """Vectors of a run beside their shards; images, which are short, here.

    Parameters
    ----------
    prototype : the model on one row of either class, see okl.accelerated.sharded.prototype
    outer : of the whole data, at the level in force
    rounds : asks the shards; current, previous : whose images are those of the vectors there, and which hold no points
    carried : from the check before
    """

    def __init__(
        self,
        prototype: DualProblem,
        outer: Outer,
        rounds: Rounds,
        current: Iterate,
        previous: Iterate,
        carried: Carried,
    ) -> None:
        self._prototype, self._outer, self._rounds = prototype, outer, rounds
        self._current, self._previous = current.image, previous.image
        self._totals = normals_of(prototype.region)[1]
        self._kept = carried
        self._extrapolated, self._new = current.image, current.image
        self._extrapolation: Extrapolation | None = None
        self._untold, self._new_penalty, self._new_separable = False, carried.penalty, 0.0
        self._last: tuple[float, Vector] = (math.nan, _NOTHING)
        self.reads = 0

    @property
    def carried(self) -> Carried:
        """For the next one to begin with."""
        return self._kept

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous); shards follow with the next step, which reads twice."""
        there = self._current + momentum * (self._current - self._previous)
        self._extrapolated = there
        self._extrapolation = Extrapolation(momentum, there, self._outer.slope(_square(there)))
        self._untold = True
        self.reads += 1

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz) and its image."""
        told = self._extrapolation if self._untold else None
        self._untold = False
        searches = self._searches()
        aim = Aim(told, lipschitz, candidates_of(searches), with_excess)
        if searches:
            multipliers = self._multipliers(searches, lipschitz, self._rounds.ask(aim))
            parts: list[StepPart] = self._rounds.ask(Take(lipschitz, multipliers, with_excess))
        else:
            multipliers, parts = _NOTHING, self._rounds.ask(aim)
        self._last = (lipschitz, multipliers)
        self.reads += 1
        return self._outcome(parts)

    def accept(self) -> None:
        """Make the step the current point."""
        assert self._extrapolation is not None, "a step was taken"
        self._rounds.settle("keep", Stepped(self._extrapolation, *self._last))
        self._previous, self._current = self._current, self._new
        self._kept = replace(self._kept, penalty=self._new_penalty)

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._rounds.settle("drop", Dropped())
        self._previous = self._current

    def check(self, lipschitz: float) -> Checked:
        """F, the certificate and ||T(x) - x|| of the current point; the step is lost."""
        here = self._current
        squared_norm = _square(here)
        slope = self._outer.slope(squared_norm)
        searches = self._searches()
        parts: list[LookPart] = self._rounds.ask(Look(here, slope, lipschitz, candidates_of(searches)))
        multipliers = self._multipliers(searches, lipschitz, [part.sums for part in parts], remember=False)
        thresholds = self._thresholds(max(part.margin for part in parts))
        values: list[tuple[float, float]] = self._rounds.ask(Value(thresholds, lipschitz, multipliers))
        self._rounds.forget_pending()
        self.reads += 1
        separable, penalty = sum(part.separable for part in parts), sum(part.penalty for part in parts)
        meaning = thresholds_of(self._prototype.risk, self._prototype.intercept)
        risk = meaning.risk(sum(value[0] for value in values), thresholds)
        certificate = self._certificate(squared_norm, risk, separable + penalty, meaning.bias(thresholds))
        objective = self._outer.value(squared_norm) + separable + penalty
        return Checked(objective, certificate, math.sqrt(sum(value[1] for value in values)))

    def kept(self) -> tuple[Iterate, Iterate]:
        """Images of current and previous; their points stay where they are."""
        return Iterate(_NOTHING, self._current), Iterate(_NOTHING, self._previous)

    def _outcome(self, parts: list[StepPart]) -> StepOutcome:
        outer, new, there = self._outer, added([part.image for part in parts]), self._extrapolated
        self._new = new
        penalty = sum(part.penalty for part in parts)
        excess = outer.excess(_square(new), _square(there), float(squared_distance(new, there)))
        self._new_penalty = penalty
        return StepOutcome(
            excess=excess + sum(part.excess for part in parts),
            squared_step=sum(part.squared_step for part in parts),
            uphill=sum(part.turn for part in parts) + penalty - self._kept.penalty,
            objective=outer.value(_square(new)) + sum(part.separable for part in parts) + penalty,
        )

    def _searches(self) -> list[RootSearch]:
        kept = zip(self._kept.multipliers, self._kept.reaches, strict=True)
        n_candidates = candidates_a_round(self._prototype)
        return [RootSearch(float(guess), float(reach), n_candidates) for guess, reach in kept]

    def _multipliers(
        self, searches: list[RootSearch], lipschitz: float, answers: list[Vector], remember: bool = True
    ) -> Vector:
        found = found_multipliers(
            searches, self._totals, answers, lambda tried: self._rounds.ask(Seek(lipschitz, tried))
        )
        if remember and len(found):
            moved = np.abs(found - self._kept.multipliers)
            reaches = np.maximum(moved, 1e-3 * self._kept.reaches)
            self._kept = replace(self._kept, multipliers=found, reaches=np.maximum(reaches, 1e-14 * np.abs(found)))
        return found

    def _thresholds(self, largest_margin: float) -> Vector:
        kept, scale = self._kept, 1.0 + largest_margin
        meaning = thresholds_of(self._prototype.risk, self._prototype.intercept)
        totals = np.asarray(meaning.totals)
        searches = [
            RootSearch(float(guess), float(min(reach, scale)), _BIAS_CANDIDATES, 1e-14 * scale)
            for guess, reach in zip(kept.thresholds, kept.threshold_reaches, strict=True)
        ]

        def ask(candidates: Vector) -> Vector:
            slopes = added(self._rounds.ask(Slopes(candidates)))
            slopes[:, :, 0] += totals[:, np.newaxis]
            return slopes

        found = find_roots(searches, ask)
        moved = np.maximum(np.abs(found - kept.thresholds), 1e-12 * scale)
        self._kept = replace(kept, thresholds=found, threshold_reaches=moved)
        return found

    def _certificate(self, squared_norm: float, risk: float, rest: float, bias: float) -> Certificate:
        outer = self._outer
        slope, exact = outer.slope(squared_norm), outer.exact(squared_norm)
        regulariser = outer.regulariser(slope * slope * squared_norm)
        return Certificate(
            primal=risk + regulariser,
            dual=-(exact + rest),
            floor=outer.floor(squared_norm),
            bias=bias,
            rounding=8.0 * _EPSILON * (abs(risk) + regulariser + exact + abs(rest)),
        )


def _square(vector: Vector) -> float:
    return float(inner(vector, vector))
