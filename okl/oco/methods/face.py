"""The face of a method of online convex optimisation: round by round, or a whole run of quadratic losses at once."""

from __future__ import annotations

from typing import Protocol, TypeVar

from okl.oco.constraints import Constraints, Matrix
from okl.oco.losses import QuadraticLosses
from okl.oco.problem import Problem
from okl.oco.sets import Vector


class State(Protocol):
    """What evolves: a value; learning makes a new one."""

    @property
    def round(self) -> int: ...  # t >= 1, the round that comes next

    @property
    def problem(self) -> Problem: ...


AnyState = TypeVar("AnyState", bound=State)


class Method(Protocol[AnyState]):
    """A frozen configuration that chooses points.

    In round t = 1, 2, ... the point `play(state)` is chosen; then the subgradient of the loss there is learnt. `run`
    does the same for losses that are known as arrays, compiled, with the same bits.
    """

    @property
    def name(self) -> str: ...  # as reports print it

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> AnyState: ...

    def play(self, state: AnyState) -> Vector: ...

    def learn(self, state: AnyState, subgradient: Vector, constraints: Constraints | None = None) -> AnyState:
        """Return the state after a round; its argument stays as it is.

        Parameters
        ----------
        state : before
        subgradient : (p,) of the round's loss at play(state)
        constraints : of this round, where they change; None for the problem's. No theorem holds for changing ones
        """
        ...

    def run(self, problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Matrix:
        """Return the points of all rounds, (n_rounds, p); the horizon is the number of losses."""
        ...
