"""The one loop of all methods, and Algorithms 1 and 2 of Yi et al."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, get_args

import numpy as np

from okl.compiled import oco
from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_at_least, check_nonnegative, check_positive
from okl.solvers.oco import schedules
from okl.solvers.oco.problem import Constraints, LinearConstraints, Losses, Matrix, Problem, solve_by_cuts
from okl.solvers.oco.rounds import Rounds, arrays_of
from okl.solvers.oco.sets import ConvexSet, Vector

# The loop: points of experts, moved by a compiled rule with three numbers a round, and mixed.


@dataclass(frozen=True, eq=False)
class MethodState:
    """State of a method before a round: an immutable value; each round returns a new one.

    problem, horizon : as given; round : t >= 1, the round that comes next
    point : (p,) x_t;  experts : (N, p) x_{i,t};  weights : (N,) w_{i,t}; one expert where a method mixes none
    duals : (N, k) of each expert, after round t - 1: its queue, its multipliers, or its sums
    gap : largest duality gap of a step so far;  rows : the linear constraints of the problem, compiled
    cuts : (n, p) and (n,) of linear constraints of all rounds so far, for methods that project onto them
    """

    problem: Problem
    horizon: int | None
    round: int
    point: Vector
    experts: Matrix
    duals: Matrix
    weights: Vector
    gap: float = 0.0
    rows: oco.ConstraintRows | None = field(repr=False, kw_only=True)
    cuts: tuple[Matrix, Vector] | None = field(default=None, repr=False, kw_only=True)


@dataclass(frozen=True)
class Method:
    """A frozen configuration that chooses points.

    In round t = 1, 2, ... the point `play(state)` is chosen; then the subgradient of the loss there is learned. `run`
    does the same, compiled, with the same bits, for losses and constraints that are arrays or compiled functions.

    A method is a name, the rule of its rounds (see `okl.compiled.oco.price_constraints`) and the numbers of the rule;
    and what its theorems cover: constraints that change, or are stochastic, and whether Slater's condition is assumed.
    """

    name: ClassVar[str]  # as reports print it
    rule: ClassVar[int]
    positive: ClassVar[tuple[str, ...]] = ()  # fields that must be above 0,
    nonnegative: ClassVar[tuple[str, ...]] = ()  # or at least 0
    needs_diameter: ClassVar[bool] = False
    takes_changing: ClassVar[bool] = False  # then comparators satisfy the constraints of all rounds
    takes_stochastic: ClassVar[bool] = False
    needs_slater: ClassVar[bool] = False
    compiles: ClassVar[bool] = True  # whether rounds may run compiled

    def __post_init__(self) -> None:
        for name in self.positive:
            check_positive(name, getattr(self, name))
        for name in self.nonnegative:
            check_nonnegative(name, getattr(self, name))

    @property
    def needs_horizon(self) -> bool:
        """Return whether the number of rounds must be known."""
        return False

    @property
    def assumes_strong_convexity(self) -> float:
        """Return the least mu of (19) that the step sizes are for; 0 if losses need none."""
        return 0.0

    @property
    def needs_above(self) -> tuple[str, float] | None:
        """Return a field and c: it must be above c ||A||^2, A the rows of constraints, or steps overshoot these."""
        return None

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> schedules.Numbers:
        """Return the numbers of the rule in rounds first .. last, (N, last - first + 1, 3); horizon : or 0."""
        raise NotImplementedError

    def experts_for(self, horizon: int) -> int:
        """Return N, the number of experts for a number of rounds."""
        return 1

    def weight_rate(self, problem: Problem, horizon: int) -> float:
        """Return how fast the experts' weights follow their losses."""
        return 0.0

    def check(self, problem: Problem, horizon: int | None) -> None:
        """Raise ConfigError if the method needs a horizon, a bounded set or linear constraints that there are not."""
        name = type(self).__name__
        if self.needs_horizon:
            if horizon is None:
                raise ConfigError(f"{name} needs the number of rounds. Set horizon.")
            check_at_least("horizon", horizon, 1)
        if self.needs_diameter and (not problem.region.bounded or problem.region.diameter == 0.0):
            raise ConfigError(f"{name} needs a bounded set of more than one point. Set finite bounds of the box.")
        if self.rule in (oco.QUEUE, oco.PROJECTED) and not isinstance(problem.constraints, LinearConstraints):
            raise ConfigError(f"{name} minimises over the constraints and needs linear ones. Use Recoo or Algorithm1.")

    def first_point(self, problem: Problem, first: Vector | None) -> Vector:
        """Return x_1, (p,)."""
        return problem.first_point(first)

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> MethodState:
        """Return the state before round 1, all experts at the first point.

        Raises ConfigError : no horizon or no bounded set where the method needs one; a first point outside the set
        """
        self.check(problem, horizon)
        number = 1 if horizon is None else self.experts_for(horizon)
        experts, weights = np.tile(self.first_point(problem, first), (number, 1)), oco.first_weights(number)
        sums = self.rule in (oco.SURROGATE, oco.SQUARED_SURROGATE)
        duals = np.zeros((number, 2 if sums else problem.n_constraints))
        point, rows = np.empty(problem.dimension), None
        oco.mix_experts(point, experts, weights)
        if isinstance(problem.constraints, LinearConstraints):
            rows = _compiled_rows(problem.constraints, problem.region)
        return MethodState(problem, horizon, 1, point, experts, duals, weights, rows=rows)

    def play(self, state: MethodState) -> Vector:
        """Return x_t, (p,)."""
        return state.point

    def learn(self, state: MethodState, subgradient: Vector, constraints: Constraints | None = None) -> MethodState:
        """Return the state after a round; its argument stays as it is.

        state : before
        subgradient : (p,) of the round's loss at play(state)
        constraints : of this round, where they change; None for the problem's. See `takes_changing`
        Raises ConfigError : a subgradient of another shape, or not finite; constraints for a method whose cannot change
        """
        if constraints is not None and self.rule == oco.PROJECTED:
            raise ConfigError(self._fixed_only)
        slope = check_slope(subgradient, state.point)
        limits, changing = state.problem.constraints if constraints is None else constraints, constraints is not None
        if self.rule < oco.PROJECTED and not isinstance(limits, LinearConstraints):
            return self._learn_by_cuts(state, slope, limits)
        rows = None if changing else state.rows
        if rows is None:
            limits = linearise(limits, state.point)
            rows = _compiled_rows(limits, state.problem.region)
        size = state.point.size
        matrices, bounds = np.zeros((0, rows.bounds.size, size)), np.zeros((0, rows.bounds.size))
        if changing and isinstance(limits, LinearConstraints):
            matrices, bounds = limits.matrix[None], limits.bounds[None]
        for array in (matrices, bounds):
            array.setflags(write=False)
        points = np.empty((2, size))
        after = self._played(state, points, rows, oco.RoundArrays(slope[None, :], 0.0, matrices, bounds, 0, 0))
        return replace(after, point=points[1])

    def can_run(self, problem: Problem, losses: Losses, constraints: Rounds | None = None) -> bool:
        """Return whether `run` takes the losses and constraints: arrays, or functions that are compiled."""
        return self.compiles and arrays_of(problem, losses, constraints, self.rule > oco.PROJECTED) is not None

    def run(
        self,
        problem: Problem,
        losses: Losses,
        first: Vector | None = None,
        constraints: Rounds | None = None,
        horizon: int | None = None,
    ) -> Matrix:
        """Return the points of all rounds, (n_rounds, p).

        Parameters
        ----------
        problem, first : as for `start`
        losses : quadratic, or by compiled functions
        constraints : of each round, where they change; linear, or by compiled functions for methods of gradient steps
        horizon : the number of losses if None

        Raises
        ------
        ConfigError : losses or constraints are functions that are not compiled, or return no finite numbers
        """
        rounds = arrays_of(problem, losses, constraints, self.rule > oco.PROJECTED)
        if rounds is None or not self.compiles:
            problem.linear  # noqa: B018  names constraints first
            raise ConfigError(f"a compiled run of {type(self).__name__} does not take these losses. Use play.")
        if constraints is not None and self.rule == oco.PROJECTED:
            raise ConfigError(self._fixed_only)
        points, limits = np.empty((losses.n_rounds, problem.dimension)), problem.constraints
        if constraints is not None or not isinstance(limits, LinearConstraints):  # rounds overwrite the rows
            size = problem.n_constraints
            limits = LinearConstraints(np.zeros((size, problem.dimension)), np.zeros(size))
        state = self.start(problem, losses.n_rounds if horizon is None else horizon, first)
        if rounds.loss:  # compiled code would broadcast a wrong shape
            losses.subgradient(0, state.point)
        if rounds.constraint:
            linearise(problem.constraints if constraints is None else constraints.at(0), state.point)
        self._played(state, points, _compiled_rows(limits, problem.region), rounds)
        return points

    @property
    def _fixed_only(self) -> str:
        return f"{type(self).__name__} projects onto the constraints of the problem, which cannot change."

    def _played(
        self, state: MethodState, points: Matrix, rows: oco.ConstraintRows, rounds: oco.RoundArrays
    ) -> MethodState:
        """Write x_t and the points after it (n, p) in place; return the state at the last one, its point apart."""
        problem, count = state.problem, len(points) - 1
        experts, duals, weights = state.experts.copy(), state.duals.copy(), state.weights.copy()
        schedule = self.numbers(problem, state.round, state.round + max(count, 1) - 1, state.horizon or 0)
        work = oco.make_work(rows.bounds.size, problem.dimension, weights.size)
        region, rate = problem.region.region, self.weight_rate(problem, state.horizon or 0)
        gap = oco.play_rounds(points, experts, duals, weights, work, rounds, rows, region, self.rule, schedule, rate)
        if gap <= -1.0:
            raise ConfigError(
                f"In round {int(-1 - gap)} a loss or constraint raised an error or returned no finite numbers. "
                "Check its functions at points of the set."
            )
        largest = max(gap, state.gap)
        return replace(state, round=state.round + count, experts=experts, duals=duals, weights=weights, gap=largest)

    def _learn_by_cuts(self, state: MethodState, slope: Vector, constraints: Constraints) -> MethodState:
        """Return the state after a proximal round with constraints that are not linear, by cutting planes."""
        problem, gap = state.problem, state.gap
        experts, duals, weights = state.experts.copy(), state.duals.copy(), state.weights.copy()
        rate, regrets = self.weight_rate(problem, state.horizon or 0), np.empty(state.weights.size)
        oco.weigh_experts(weights, regrets, experts, state.point, slope, rate)
        limits, point = np.empty(problem.n_constraints), np.empty(problem.dimension)
        for i, numbers in enumerate(self.numbers(problem, state.round, state.round, state.horizon or 0)[:, 0]):
            oco.price_constraints(limits, duals[i], constraints.values(experts[i]), self.rule, *numbers)
            target = experts[i] - 0.5 * numbers[0] * slope
            experts[i], own = solve_by_cuts(target, problem.region, constraints, limits)
            gap = max(gap, own)
        oco.mix_experts(point, experts, weights)
        return replace(
            state, round=state.round + 1, point=point, experts=experts, duals=duals, weights=weights, gap=gap
        )


def _compiled_rows(constraints: LinearConstraints, region: ConvexSet) -> oco.ConstraintRows:
    return oco.make_rows(constraints.matrix, constraints.bounds, region.region)


def check_slope(subgradient: Vector, point: Vector) -> Vector:
    """Return a read-only copy of a subgradient (p,), or raise ConfigError: another shape, or not finite."""
    slope = np.array(subgradient, dtype=np.float64)
    if slope.shape != point.shape or not np.isfinite(slope).all():
        raise ConfigError(f"a subgradient needs {point.size} finite numbers, but is {subgradient!r}.")
    slope.setflags(write=False)  # as rows of losses are: no second compilation
    return slope


def linearise(constraints: Constraints, point: Vector) -> LinearConstraints:
    """Return the constraints, or those of their subgradients at a point: all that gradient steps see of convex ones."""
    if isinstance(constraints, LinearConstraints):
        return constraints
    rows, values = np.ascontiguousarray(constraints.subgradients(point)), constraints.values(point)
    bounds = np.empty(values.size)
    oco.excesses(bounds, point, rows, values)  # the bits of compiled rounds
    return LinearConstraints(rows, bounds)


@dataclass(frozen=True)
class Algorithm1(Method):
    """Step against the loss and a queue of clipped violations.

        q_t = q_{t-1} + gamma_t [g(x_t)]_+,   q-hat_t = q_t + gamma_t [g(x_t)]_+
        x_{t+1} = argmin over X of  alpha_t <df_t(x_t), x> + alpha_t gamma_{t+1} <q-hat_t, [g(x)]_+> + ||x - x_t||^2

    Parameters
    ----------
    schedule : alpha_t and gamma_t: KnownHorizon (Theorem 1), Anytime (Theorem 2), StronglyConvex (Corollary 1),
        KnownPathLength (Corollary 2)

    Source: Yi et al., ICML 2021, Algorithm 1.
    """

    schedule: schedules.Schedule = field(default_factory=schedules.KnownHorizon)

    name = "Algorithm 1"
    rule = oco.CLIPPED
    takes: ClassVar[tuple[type, ...]] = get_args(schedules.Schedule)

    @property
    def assumes_strong_convexity(self) -> float:
        return self.schedule.strong_convexity if isinstance(self.schedule, schedules.StronglyConvex) else 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.schedule, self.takes):
            names = ", ".join(f"oco.{one.__name__}" for one in self.takes)
            raise ConfigError(f"schedule = {self.schedule!r}; expected one of {names}, such as oco.KnownHorizon(5.0).")

    def check(self, problem: Problem, horizon: int | None) -> None:
        """Raise ConfigError if the schedule takes a horizon or a bounded set that there is not."""
        schedules.check_schedule(self.schedule, problem, horizon)

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> schedules.Numbers:
        """Return alpha_t, gamma_t and gamma_{t+1} of rounds first .. last, (1, last - first + 1, 3)."""
        return self._scaled(first, last, horizon, (1.0,), False)

    def _scaled(
        self, first: int, last: int, horizon: int, scales: tuple[float, ...], shared_penalties: bool
    ) -> schedules.Numbers:
        rounds = schedules.round_numbers(first, last + 1)
        sizes, gammas = schedules.tables(self.schedule, rounds, horizon, scales, shared_penalties)
        return np.stack([sizes[:, :-1], gammas[:, :-1], gammas[:, 1:]], axis=2)


@dataclass(frozen=True)
class Algorithm2(Algorithm1):
    """Run Algorithm 1 with step sizes alpha_{i,t} = ratio^(i-1) alpha_t, i = 1 .. N, on linearised losses, and mix.

        w_{i,1} = (N + 1) / (i (i + 1) N),   w_{i,t+1} ~ w_{i,t} exp(-beta <df_t(x_t), x_{i,t} - x_t>)
        x_t = sum_i w_{i,t} x_{i,t},   N = ceil(kappa log2(1 + T)) + 1,   beta = beta_0 / T^c

    Every expert's penalty is gamma_{i,t} = gamma_0 / sqrt(alpha_{i,t}). With one expert it is Algorithm 1.

    Parameters
    ----------
    schedule : of the first expert, KnownHorizon or Anytime; also gives c
    weight_scale : beta_0 > 0
    path_exponent : kappa in [0, c]; regret grows as T^c (1 + P_T)^(1 - kappa) + T^(1 - c) (1 + P_T)^kappa
    n_experts : N >= 1, in place of the formula; None for it
    ratio : > 0 of following experts' step sizes; 2, as equation (36) has it. Table 2 leaves it out: every expert is
        then the same (ratio = 1)
    shared_penalties : whether every expert's penalty is gamma_0 / sqrt(alpha_{1,t}), as Table 2 has it; no bound is
        claimed then

    Source: Yi et al., ICML 2021, Algorithm 2 and Theorem 3, equation (36).
    """

    schedule: schedules.KnownHorizon | schedules.Anytime = field(default_factory=schedules.Anytime)
    weight_scale: float = 1.0
    path_exponent: float = 0.5
    n_experts: int | None = None
    ratio: float = 2.0
    shared_penalties: bool = False

    name = "Algorithm 2"
    takes = (schedules.KnownHorizon, schedules.Anytime)
    claim: ClassVar[str] = "Theorem 3"
    positive = ("weight_scale", "ratio")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.path_exponent <= self.schedule.exponent:
            raise ConfigError(
                f"path_exponent = {self.path_exponent!r}; expected a number between 0 and the exponent of the schedule."
            )
        if self.n_experts is not None:
            check_at_least("n_experts", self.n_experts, 1)

    def experts_for(self, horizon: int) -> int:
        return self.n_experts or math.ceil(self.path_exponent * math.log2(1.0 + horizon)) + 1

    def rate_for(self, horizon: int) -> float:
        """Return beta, how fast the experts' weights follow their losses."""
        return float(self.weight_scale / float(horizon) ** self.schedule.exponent)

    def weight_rate(self, problem: Problem, horizon: int) -> float:
        return self.rate_for(horizon)

    def check(self, problem: Problem, horizon: int | None) -> None:
        """Raise ConfigError without a horizon or a bounded set."""
        super().check(problem, horizon)
        if horizon is None:
            raise ConfigError(f"{self.claim} needs the number of rounds to choose the number of experts. Set horizon.")
        if not problem.region.bounded:
            raise ConfigError(
                f"{self.claim} needs a bounded set, but coordinates of the box are unbounded. Set "
                "finite bounds, or use Algorithm1(KnownHorizon(...))."
            )
        check_at_least("horizon", horizon, 1)

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> schedules.Numbers:
        """Return alpha_{i,t}, gamma_{i,t} and gamma_{i,t+1} of rounds first .. last, (N, last - first + 1, 3)."""
        scales = tuple(self.ratio**i for i in range(self.experts_for(horizon)))
        return self._scaled(first, last, horizon, scales, self.shared_penalties)
