"""What stays the same from round to round: the set and its long-term constraints."""

from __future__ import annotations

from dataclasses import dataclass, field

from okl.errors import ConfigError
from okl.oco.constraints import Constraints, LinearConstraints
from okl.oco.feasibility import find_feasible
from okl.oco.sets import ConvexSet, Vector, as_vector


@dataclass(frozen=True, eq=False)
class Problem:
    """Online convex optimisation over a set, with constraints that are to hold in the long run.

    Parameters
    ----------
    region : Box, Ball or Simplex, in R^p
    constraints : LinearConstraints, or ConvexConstraints by their values and subgradients

    Attributes
    ----------
    feasible_point : (p,) a point of the set that satisfies the constraints; None if none was found for convex ones

    Raises
    ------
    ConfigError : no point of the set satisfies the constraints (the ones in conflict are named), or lengths differ

    Source: Yi et al., ICML 2021, section 2.2.
    """

    region: ConvexSet
    constraints: Constraints
    feasible_point: Vector | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = self.constraints
        if isinstance(rows, LinearConstraints) and rows.dimension != self.region.dimension:
            raise ConfigError(
                f"the constraints have {rows.dimension} columns, but points of the set have {self.region.dimension}."
            )
        found = find_feasible(self.region, rows)
        if found.conflict:
            names = ", ".join(rows.names[at] for at in found.conflict)
            raise ConfigError(
                f"no point of the set satisfies the constraints {names} together: loosen or leave out one of them."
            )
        object.__setattr__(self, "feasible_point", found.point)

    @property
    def dimension(self) -> int:
        """Length of a point, p."""
        return self.region.dimension

    @property
    def n_constraints(self) -> int:
        """Number of constraints, m."""
        return self.constraints.n_constraints

    @property
    def linear(self) -> LinearConstraints:
        """The constraints as linear ones, for what is compiled.

        Raises
        ------
        ConfigError : they are not linear
        """
        if not isinstance(self.constraints, LinearConstraints):
            raise ConfigError("a compiled run takes linear constraints: play convex ones round by round.")
        return self.constraints

    def first_point(self, first: Vector | None) -> Vector:
        """Return x_1: a copy of what was given, or the point of the set nearest to 0.

        Raises
        ------
        ConfigError : a point of another length, or outside the set
        """
        if first is None:
            nearest = self.region.project(as_vector("first", [0.0] * self.dimension))
            nearest.setflags(write=False)
            return nearest
        point = as_vector("first", first)
        if point.size != self.dimension or not self.region.contains(point):
            raise ConfigError(f"first = {point!r}, but the first point is one of the set, in R^{self.dimension}.")
        return point
