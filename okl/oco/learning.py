"""One round of a point and its queue, for constraints of either kind."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from okl.compiled.ocorows import Rows, make_rows, make_work
from okl.compiled.ocosteps import learn_round
from okl.errors import ConfigError
from okl.oco.constraints import Constraints, LinearConstraints
from okl.oco.cuts import solve_by_cuts
from okl.oco.sets import ConvexSet, Vector


@dataclass(frozen=True, eq=False)
class Stepper:
    """Learns rounds over a set with constraints: compiled if they are linear, by cuts if not.

    Parameters
    ----------
    region, constraints : of the problem, or of the round
    """

    region: ConvexSet
    constraints: Constraints
    rows: Rows | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = None
        if isinstance(self.constraints, LinearConstraints):
            rows = make_rows(self.constraints.matrix, self.constraints.bounds, self.region.region)
        object.__setattr__(self, "rows", rows)

    def learn(
        self, point: Vector, queue: Vector, subgradient: Vector, step_size: float, penalty: float, next_penalty: float
    ) -> tuple[Vector, Vector, float]:
        """Return the next point (p,), its queue (m,) and the duality gap of the step; nothing changes in place.

        Raises
        ------
        ConfigError : a subgradient of another shape, or not finite
        """
        subgradient = np.ascontiguousarray(subgradient, dtype=np.float64)
        if subgradient.shape != point.shape or not np.isfinite(subgradient).all():
            raise ConfigError(f"a subgradient takes {point.size} finite numbers, but got {subgradient!r}.")
        point, queue = point.copy(), queue.copy()
        if self.rows is not None:
            work, limits = make_work(queue.size, point.size), np.empty(queue.size)
            gap = learn_round(
                point, queue, limits, work, subgradient, self.rows, self.region.region, step_size, penalty, next_penalty
            )
            return point, queue, gap
        clipped = penalty * np.maximum(self.constraints.values(point), 0.0)
        queue += clipped
        limits = 0.5 * step_size * next_penalty * (queue + clipped)
        point, gap = solve_by_cuts(point - 0.5 * step_size * subgradient, self.region, self.constraints, limits)
        return point, queue, gap
