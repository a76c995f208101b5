"""The vectors of the accelerated method in memory, behind the verbs that shards can answer, too.

The method itself (okl.accelerated.fapg) sees scalars only: whoever holds the vectors answers these verbs. Every vector
as long as the data is touched row by row, but for the prox; images, which are short, are what shards add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from okl.accelerated.protocol import Certificate, Problem, SweepArguments
from okl.accelerated.standing import Standing, standing_of
from okl.compiled.steps import descend, extrapolate, step_sums
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class Iterate:
    """A point (n_points,) and its image (n_image,), never written into."""

    point: FloatArray
    image: FloatArray


class StepOutcome(NamedTuple):
    """Scalars of a step from the extrapolated point b to a; c is the point before.

    excess : f(a) - f(b) - <g, a - b>; NaN unless asked for
    squared_step : ||a - b||^2
    uphill : <g, a - c> + penalty(a) - penalty(c)
    objective : F(a)
    """

    excess: float
    squared_step: float
    uphill: float
    objective: float


class Checked(NamedTuple):
    """The point at a check: F, the gap, and ||T(x) - x||."""

    objective: float
    certificate: Certificate
    movement: float


class Iterates(Protocol):
    """The verbs: whoever holds the vectors of a run, in memory or beside their shards."""

    @property
    def reads(self) -> int:
        """Of the data so far."""
        ...

    def extrapolate(self, momentum: float) -> None: ...

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome: ...

    def accept(self) -> None: ...

    def restart(self) -> None: ...

    def check(self, lipschitz: float) -> Checked: ...

    def kept(self) -> tuple[Iterate, Iterate]: ...


class MemoryIterates:
    """Vectors of a run in private buffers: current, previous, the extrapolated one and the step from it."""

    def __init__(
        self, problem: Problem, current: Iterate, previous: Iterate, multipliers: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        self._problem = problem
        self._current = Iterate(current.point.copy(), current.image.copy())
        self._previous = Iterate(previous.point.copy(), previous.image.copy())
        self._extrapolated, self._new = self._empty(), self._empty()
        self._gradient, self._target = np.empty(problem.n_points), np.empty(problem.n_points)
        self._penalty = problem.penalty(self._current.point)
        self._new_penalty = self._penalty
        self._has_gradient = False
        self.multipliers = multipliers  # of the last step
        self._reads = 0.0

    @property
    def reads(self) -> int:
        """Of the data so far; rows that were read again count as the share that they are of all."""
        return math.ceil(self._reads)

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous): no read."""
        current, previous, there = self._current, self._previous, self._extrapolated
        extrapolate(there.point, current.point, previous.point, momentum)
        # images are affine: that of the extrapolated point needs no read
        extrapolate(there.image, current.image, previous.image, momentum)
        self._has_gradient = False

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz) and its image: one read, or two for the first step from b."""
        there, new, problem = self._extrapolated, self._new, self._problem
        if self._has_gradient or not self._sweep(lipschitz):
            self._step_apart(lipschitz)
        squared, turn = step_sums(new.point, there.point, self._gradient, self._current.point)
        excess = problem.excess(new.point, new.image, there.point, there.image) if with_excess else math.nan
        self._new_penalty = problem.penalty(new.point)
        uphill = turn + self._new_penalty - self._penalty
        objective = problem.smooth(new.point, new.image) + self._new_penalty
        return StepOutcome(excess, float(squared), float(uphill), objective)

    def _sweep(self, lipschitz: float) -> bool:
        """The step and the gradient in one read, if the problem can."""
        there, new = self._extrapolated, self._new
        into = (new.point, new.image, self._gradient)
        swept = self._problem.sweep(SweepArguments(*into, there.point, there.image, lipschitz, self.multipliers))
        if swept is None:
            return False
        self.multipliers, self._has_gradient = swept.multipliers, True
        self._reads += swept.reads
        return True

    def _step_apart(self, lipschitz: float) -> None:
        """The step, after the gradient where there is none yet: a read each."""
        there, new, problem = self._extrapolated, self._new, self._problem
        if not self._has_gradient:
            problem.pull(self._gradient, there.image)
            problem.gradient(self._gradient, there.point, there.image, self._gradient)
            self._has_gradient = True
            self._reads += 1
        descend(self._target, there.point, self._gradient, 1.0 / lipschitz)
        problem.prox(new.point, self._target, lipschitz)
        problem.image(new.image, new.point)
        self._reads += 1

    def accept(self) -> None:
        """Make the step the current point."""
        self._previous, self._current, self._new = self._current, self._new, self._previous
        self._penalty = self._new_penalty

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._previous.point[:] = self._current.point
        self._previous.image[:] = self._current.image

    def check(self, lipschitz: float) -> Checked:
        """F, the certificate and ||T(x) - x|| of the current point: one read; the step is lost."""
        here, problem = self._current, self._problem
        pulled, stepped = self._gradient, self._new.point
        problem.pull(pulled, here.image)
        self._reads += 1
        certificate = problem.certificate(here.point, here.image, pulled)
        problem.gradient(pulled, here.point, here.image, pulled)
        descend(self._target, here.point, pulled, 1.0 / lipschitz)
        problem.prox(stepped, self._target, lipschitz)
        movement, _ = step_sums(stepped, here.point, pulled, here.point)
        objective = problem.smooth(here.point, here.image) + self._penalty
        return Checked(objective, certificate, math.sqrt(movement))

    def standing(self, lipschitz: float) -> Standing | None:
        """How firmly rows stand, right after a check with this lipschitz."""
        return standing_of(self._problem, self._current.point, self._target, self._new.point, lipschitz)

    def kept(self) -> tuple[Iterate, Iterate]:
        """Current and previous, as values: this object must not be used any more."""
        return self._current, self._previous

    def _empty(self) -> Iterate:
        return Iterate(np.empty(self._problem.n_points), np.empty(self._problem.n_image))
