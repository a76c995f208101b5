"""Rows that stand firmly at a bound rest between two checks: steps are taken in the others, and read only these.

At a check the gradient of all rows is known. A row at a bound has slack: what its gradient, less the multiplier of its
hyperplane, would have to change before it left. Where that is far more than it changed since the last check, the row
rests until the next one, which looks at all rows again: certificates are those of the whole problem.

Source: shrinking as in Joachims, Making large-scale SVM learning practical, 1999, section 11.4, for a gradient method.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from okl.accelerated.blockparts import AffineRows, part_of
from okl.accelerated.dual import DualProblem
from okl.accelerated.iterates import Checked, Iterate, MemoryIterates, StepOutcome
from okl.accelerated.operators import DenseRows, RowOperator
from okl.accelerated.standing import Standing
from okl.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PartRows(DenseRows):
    """Some rows in memory, which were checked with the others; offset (n_columns,) is what those add up to."""

    offset: FloatArray = field(default_factory=lambda: np.zeros(1))

    def __post_init__(self) -> None:
        pass

    def add_parts(self, out: FloatArray, parts: FloatArray) -> None:
        """The sum of the parts, and the offset."""
        super().add_parts(out, parts)
        out += self.offset


class PartIterates:
    """The vectors of a run whose other rows rest: those of the part, and all of them for a check."""

    def __init__(
        self,
        problem: DualProblem,
        current: Iterate,
        previous: Iterate,
        awake: IntArray,
        multipliers: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._whole, self._awake, self._current = problem, awake, current
        self._part = _threaded(part_of(problem, awake, current.point[awake], current.image), problem.rows)
        image = np.empty(problem.n_image)
        last = previous.point[awake]
        # the resting rows stand where they are now in both
        self._part.image(image, last)
        here = Iterate(current.point[awake], current.image)
        self._steps = MemoryIterates(self._part, here, Iterate(last, image), multipliers)
        self._rest = problem.smooth(current.point, current.image) - self._part.smooth(*_pair(here))
        self._all: MemoryIterates | None = None

    @property
    def reads(self) -> int:
        """Of the awake rows, and of all for a check."""
        return self._steps.reads + (1 + self._all.reads if self._all else 0)

    @property
    def multipliers(self) -> tuple[float, float]:
        """Those of the part: its hyperplanes are those of all rows."""
        return self._steps.multipliers

    def extrapolate(self, momentum: float) -> None:
        """As the part does."""
        self._steps.extrapolate(momentum)

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """As the part does; the objective is that of all rows."""
        outcome = self._steps.step(lipschitz, with_excess)
        return outcome._replace(objective=outcome.objective + self._rest)

    def accept(self) -> None:
        """Make the step the current point."""
        self._steps.accept()

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._steps.restart()

    def check(self, lipschitz: float) -> Checked:
        """F, the certificate and ||T(x) - x|| of all rows."""
        here, there = (self._with_resting(iterate) for iterate in self._steps.kept())
        # afresh: what rounding adds to an offset, check after check, would get into the certificate
        self._whole.image(here.image, here.point)
        self._all = MemoryIterates(self._whole, here, there)
        return self._all.check(lipschitz)

    def standing(self, lipschitz: float) -> Standing | None:
        """Of all rows, after a check."""
        return self._checked.standing(lipschitz)

    def kept(self) -> tuple[Iterate, Iterate]:
        """Current and previous of all rows, after a check."""
        return self._checked.kept()

    @property
    def _checked(self) -> MemoryIterates:
        if self._all is None:
            raise RuntimeError("The points of all rows are put together by a check: call it first.")
        return self._all

    def _with_resting(self, iterate: Iterate) -> Iterate:
        point = self._current.point.copy()
        point[self._awake] = iterate.point
        return Iterate(point, iterate.image)


def _pair(iterate: Iterate) -> tuple[FloatArray, FloatArray]:
    return iterate.point, iterate.image


def _threaded(part: DualProblem, whole: RowOperator) -> DualProblem:
    """The part, its rows summed in segments as those of the whole are."""
    found = part.rows
    if not (isinstance(found, AffineRows) and isinstance(whole, DenseRows)):
        return part
    return replace(part, rows=PartRows(found.rows, found.signs, whole.n_threads, found.offset))
