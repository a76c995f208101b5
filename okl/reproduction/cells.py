"""A cell of a reproduced table: the printed number, ours, how far apart they are, and whether that is near enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, stdev
from typing import Any

HIGHER_IS_BETTER = frozenset({"accuracy"})
EXACT = frozenset({"kappa_max", "lipschitz"})  # quantities of the data: another value is wrong on either side
MEASURED, NO_DATA, NO_LEARNER, DIVERGED = "measured", "no data", "no learner", "diverged"
HAIR = 0.02


@dataclass(frozen=True)
class Tolerance:
    """How much worse than the printed mean is still a match: the largest of what is given.

    deviations : in units of the root of both variances; absolute : in the metric's unit; relative : of the printed mean
    """

    deviations: float = 0.0
    absolute: float = 0.0
    relative: float = 0.0

    def of(self, paper_mean: float, paper_sd: float | None, sd: float | None) -> float:
        """The tolerance, in the metric's unit."""
        spread = math.hypot(paper_sd or 0.0, sd or 0.0)
        return max(self.deviations * spread, self.absolute, self.relative * abs(paper_mean))

    def describe(self) -> str:
        """In words."""
        said = []
        if self.deviations:
            said.append(f"{self.deviations:g} sqrt(sd_paper^2 + sd_okl^2)")
        if self.absolute:
            said.append(f"{100 * self.absolute:g} points")
        if self.relative:
            said.append(f"{100 * self.relative:g}% of the paper's mean")
        return said[0] if len(said) == 1 else f"the larger of {' and '.join(said)}"


@dataclass(frozen=True)
class Cell:
    """What was printed and what was measured for one algorithm on one data set (at one point of a study).

    mean, sd : over repeats orders; sd with repeats - 1 in the denominator, None for one order; None if not measured
    seconds : mean seconds of learning alone, an order; relative_seconds : of FOGD's on the same set, in the same run
    difference : okl minus paper, in the metric's unit; deviations : the same in units of the root of both variances
    verdict : "within", "better" (by more than the tolerance), "worse", None where there is nothing to compare; a
        quantity of the data is never better
    constant, linear : the metric of the majority class or mean, and of a linear model; None if not known
    like_constant : the mean is a hair from that of the constant predictor: nothing was learnt, whatever the verdict
    setting : all that was set, and how it was chosen; point : where in a study, such as {"budget": 100}
    more : other figures, by name; status : "measured", or why not; note : what else a reader must know
    """

    dataset: str
    algorithm: str
    metric: str
    paper_mean: float | None = None
    paper_sd: float | None = None
    paper_seconds: float | None = None
    mean: float | None = None
    sd: float | None = None
    repeats: int = 0
    seconds: float | None = None
    relative_seconds: float | None = None
    difference: float | None = None
    deviations: float | None = None
    tolerance: float | None = None
    verdict: str | None = None
    constant: float | None = None
    linear: float | None = None
    like_constant: bool = False
    setting: dict[str, Any] = field(default_factory=dict)
    point: dict[str, float] = field(default_factory=dict)
    more: dict[str, float | None] = field(default_factory=dict)
    status: str = MEASURED
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """All fields, by name."""
        return asdict(self)

    def measured(self, values: Sequence[float], seconds: Sequence[float], tolerance: Tolerance) -> Cell:
        """The cell with the metric and the seconds of each order, and its verdict if the paper prints a number."""
        mean, sd = fmean(values), stdev(values) if len(values) > 1 else None
        cell = replace(self, mean=mean, sd=sd, repeats=len(values), seconds=fmean(seconds))
        if self.paper_mean is None:
            return cell
        difference, allowed = mean - self.paper_mean, tolerance.of(self.paper_mean, self.paper_sd, sd)
        spread = math.hypot(self.paper_sd or 0.0, sd or 0.0)
        worse = -difference if self.metric in HIGHER_IS_BETTER else difference
        if self.metric in EXACT:
            worse = abs(difference)
        return replace(
            cell,
            difference=difference,
            deviations=difference / spread if spread > 0 else None,
            tolerance=allowed,
            verdict="worse" if worse > allowed else "better" if -worse > allowed else "within",
        )

    def beside(self, constant: float | None, linear: float | None) -> Cell:
        """The cell with the predictors that use no kernel, and whether it is a hair from the constant one."""
        mean = self.mean
        hair = mean is not None and constant is not None and _is_hair(self.metric, mean, constant)
        return replace(self, constant=constant, linear=linear, like_constant=hair)


def relative_to(algorithm: str, cells: Sequence[Cell]) -> list[Cell]:
    """The cells, each with its seconds in units of those of an algorithm on the same data set and point, if known."""
    reference = {(c.dataset, tuple(c.point.items())): c.seconds for c in cells if c.algorithm == algorithm}
    found = []
    for cell in cells:
        unit = reference.get((cell.dataset, tuple(cell.point.items())))
        known = cell.seconds is not None and unit
        found.append(replace(cell, relative_seconds=cell.seconds / unit) if known else cell)  # type: ignore[operator]
    return found


def _is_hair(metric: str, mean: float, constant: float) -> bool:
    """Whether an error is within 2% of that of the predictor that ignores the inputs."""
    if metric in HIGHER_IS_BETTER:
        mean, constant = 1.0 - mean, 1.0 - constant
    return abs(mean - constant) <= HAIR * constant
