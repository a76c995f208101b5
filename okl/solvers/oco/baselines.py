"""Published methods other than Yi et al.'s: gradient and proximal steps, feasibility steps, projections, queues."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np

from okl.compiled import oco
from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_positive
from okl.solvers.oco.methods import Method, MethodState, check_slope, linearise
from okl.solvers.oco.problem import (
    Constraints,
    LinearConstraints,
    Matrix,
    Problem,
    deepest_point,
    nearest_feasible,
    nearest_within,
)
from okl.solvers.oco.schedules import Numbers, round_numbers
from okl.solvers.oco.sets import ConvexSet, Vector

_ANY = sys.float_info.min  # of strong convexity: any that is above 0


def _stacked(first: int, last: int, *columns: float | Vector) -> Numbers:
    """Return the three numbers of rounds first .. last, each the same in all or one a round, (1, n, 3)."""
    rounds = last - first + 1
    return np.stack([np.broadcast_to(np.asarray(one, dtype=np.float64), rounds) for one in columns], axis=1)[None]


# Gradient steps x_{t+1} = Pi_X(x_t - eta_t (df_t(x_t) + sum_i w_i dg_i(x_t))), each with its weights w.


@dataclass(frozen=True)
class Mahdavi(Method):
    """Gradient descent in x and ascent in lambda on the damped Lagrangian, both with the same step.

    x_{t+1} = Pi_X(x_t - eta (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)))
    lambda_{t+1} = [lambda_t + eta (g(x_t) - delta eta lambda_t)]_+

    with eta = eta_0 / sqrt(T). Regret grows as T^(1/2), the violation (3) as T^(3/4).

    Parameters
    ----------
    step_scale : eta_0 > 0
    damping : delta > 0

    Source: Mahdavi, Jin & Yang, JMLR 13, 2012, Algorithm 1.
    """

    step_scale: float = 1.0
    damping: float = 1.0

    name = "Mahdavi"
    rule = oco.ASCENT
    positive = ("step_scale", "damping")
    needs_horizon = True

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return step, damping and dual step of rounds first .. last, (1, last - first + 1, 3)."""
        step = self.step_scale / float(horizon) ** 0.5
        return _stacked(first, last, step, self.damping * step, step)


@dataclass(frozen=True)
class Jenatton(Method):
    """Dual ascent on the damped Lagrangian with steps that shrink; the number of rounds need not be known.

    x_{t+1} = Pi_X(x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)))
    lambda_{t+1} = [lambda_t + mu_t (g(x_t) - theta_t lambda_t)]_+

    with eta_t = eta_0 / t^c, theta_t = theta_0 / t^d and mu_t = 1 / ((t + 1) theta_t). Regret grows as T^max(c, 1 - c),
    the violation (3) as T^(1 - c/2), for d = c.

    Parameters
    ----------
    step_scale : eta_0 > 0
    damping_scale : theta_0 > 0
    step_exponent : c in (0, 1]
    damping_exponent : d in [0, 1]

    Source: Jenatton, Huang & Archambeau, ICML 2016, section 3.
    """

    step_scale: float = 1.0
    damping_scale: float = 1.0
    step_exponent: float = 0.5
    damping_exponent: float = 0.5

    name = "Jenatton"
    rule = oco.ASCENT
    positive = ("step_scale", "damping_scale")

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return step, damping and dual step of rounds first .. last, (1, last - first + 1, 3)."""
        rounds = round_numbers(first, last)
        damping = self.damping_scale / rounds**self.damping_exponent
        steps = self.step_scale / rounds**self.step_exponent
        return _stacked(first, last, steps, damping, 1.0 / ((rounds + 1.0) * damping))


@dataclass(frozen=True)
class YuanLamperski(Method):
    """Multipliers that maximise the damped Lagrangian of clipped constraints in every round.

    lambda_t = [g(x_t)]_+ / theta_t,  x_{t+1} = Pi_X(x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} d[g_i(x_t)]_+))

    with theta_t = ratio eta_t, and eta_t = eta_0 / T^c, or eta_0 / (t + 1) for strongly convex losses. Regret grows as
    T^max(c, 1 - c), the violation (4) as T^(1 - c/2); as log T and (T log T)^(1/2) for strongly convex losses.

    Parameters
    ----------
    step_scale : eta_0 > 0
    ratio : > 0, sigma for convex losses; the bounds for constraints Ax <= b need more than ||A||^2 / 2, a step
        overshoots them below; the violation grows with ratio and step_scale
    exponent : c in (0, 1)
    strongly_convex : whether steps shrink as 1 / (t + 1)

    Source: Yuan & Lamperski, NeurIPS 2018, Algorithms 1 and 2.
    """

    step_scale: float = 1.0
    ratio: float = 1.0
    exponent: float = 0.5
    strongly_convex: bool = False

    name = "Yuan & Lamperski"
    rule = oco.PENALTY
    positive = ("step_scale", "ratio", "exponent")

    @property
    def needs_horizon(self) -> bool:
        return not self.strongly_convex

    @property
    def assumes_strong_convexity(self) -> float:
        return _ANY if self.strongly_convex else 0.0

    @property
    def needs_above(self) -> tuple[str, float]:
        return "ratio", 0.5

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return step and damping of rounds first .. last, and 0, (1, last - first + 1, 3)."""
        if self.strongly_convex:
            steps = self.step_scale / (round_numbers(first, last) + 1.0)
        else:
            steps = np.full(last - first + 1, self.step_scale / float(horizon) ** self.exponent)
        return _stacked(first, last, steps, self.ratio * steps, 0.0)


@dataclass(frozen=True)
class YuNeely(Method):
    """Queues that slack reduces: later rounds may compensate for a violation.

    q_t = max(-gamma g(x_t), q_{t-1} + gamma g(x_t))
    x_{t+1} = argmin over X of <df_t(x_t), x> + <q_t + gamma g(x_t), gamma g(x)> + alpha ||x - x_t||^2

    with alpha = alpha_0 sqrt(T) and gamma = gamma_0 T^(1/4). Regret grows as T^(1/2), the violation (3) as T^(1/4), and
    not at all where a point satisfies all constraints strictly.

    Parameters
    ----------
    proximal_scale : alpha_0 > 0; the bounds for constraints Ax <= b need more than gamma_0^2 ||A||^2 / 2: the default
        is for ||A|| < 1. Far below it, points may jump from one side of the set to the other in every round
    penalty_scale : gamma_0 > 0
    first_queued : whether the first round enters the queue, as published; if not q_1 = 0, and slack of the first point
        pulls the second one out of the constraints: with this the reference figures of section 4.1 come out

    Source: Yu & Neely, JMLR 21(1), 2020, Algorithm 1.
    """

    proximal_scale: float = 0.5
    penalty_scale: float = 1.0
    first_queued: bool = True

    name = "Yu & Neely"
    rule = oco.QUEUE
    positive = ("proximal_scale", "penalty_scale")
    needs_horizon = True

    @property
    def needs_above(self) -> tuple[str, float]:
        return "proximal_scale", 0.5 * self.penalty_scale**2

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return step, whether the round is queued, and dual step of rounds first .. last, (1, last - first + 1, 3)."""
        step = 0.5 / (self.proximal_scale * float(horizon) ** 0.5)
        queued = np.where(round_numbers(first, last) > 1.0, 1.0, float(self.first_queued))
        return _stacked(first, last, step, queued, self.penalty_scale * float(horizon) ** 0.25)


@dataclass(frozen=True)
class YuNeelyWei(Method):
    """Gradient steps and queues for constraints that are drawn in each round.

    d_t = V df_t(x_t) + sum_i Q_{t,i} dg_{t,i}(x_t),   x_{t+1} = Pi_X(x_t - d_t / (2 alpha))
    Q_{t+1} = [Q_t + g_t(x_t) + <dg_t(x_t), x_{t+1} - x_t>]_+

    with V = V_0 sqrt(T) and alpha = alpha_0 T. Where g_t are independent draws and a point satisfies E g < 0, expected
    regret against points with E g <= 0 grows as T^(1/2), and so does the expected sum of g_t(x_t).

    Parameters
    ----------
    loss_scale : V_0 > 0; the larger, the less the regret and the longer the queues
    proximal_scale : alpha_0 > 0

    Source: Yu, Neely & Wei, NIPS 2017, Algorithm 1 with V = sqrt(T), alpha = T of its corollaries. The abstract was
    checked; the update is from memory, and constants of its bounds are not given here.
    """

    loss_scale: float = 1.0
    proximal_scale: float = 1.0

    name = "Yu, Neely & Wei"
    rule = oco.DRIFT
    positive = ("loss_scale", "proximal_scale")
    needs_horizon = True
    needs_diameter = True
    takes_stochastic = True
    needs_slater = True

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return V / (2 alpha), V and 0 of rounds first .. last, (1, last - first + 1, 3)."""
        weight = self.loss_scale * math.sqrt(horizon)
        return _stacked(first, last, 0.5 * weight / (self.proximal_scale * horizon), weight, 0.0)


@dataclass(frozen=True)
class Polyak(Method):
    """Gradient steps, each followed by a Polyak step onto the most violated constraint, tightened.

    y_t = x_t - eta df_t(x_t),   x_{t+1} = Pi_X(y_t - [g(x_t) + <s_t, y_t - x_t> + rho]_+ / ||s_t||^2 s_t)

    with s_t a subgradient at x_t of g, the largest constraint, eta = eta_0 / sqrt(T) and rho = rho_0 eta. If g is at
    most -epsilon somewhere, regret grows as T^(1/2), and for rho_0 large enough every x_t satisfies the constraints:
    `tightening_for` is proved to be.

    Parameters
    ----------
    step_scale : eta_0 > 0; D / G balances the regret
    tightening : rho_0 >= 0, by how much constraints are tightened for a step of length 1; 0 for not at all

    Source: Hutchinson & Alizadeh, ICML 2025, Algorithm 1. The abstract was checked; the constants of its theorem were
    not at hand, those of `tightening_for` are derived there.
    """

    step_scale: float = 1.0
    tightening: float = 1.0

    name = "Polyak"
    rule = oco.FEASIBILITY
    positive = ("step_scale",)
    nonnegative = ("tightening",)
    needs_horizon = True
    needs_diameter = True
    needs_slater = True

    @staticmethod
    def tightening_for(loss_bound: float, constraint_bound: float, diameter: float, margin: float) -> float:
        """Return rho_0 with which no x_t violates a constraint, once rho = rho_0 eta <= margin / 2.

        Let d_t be the distance of x_t from {x in X : g(x) <= -rho}. By convexity [g(x_t) + rho]_+ >= d_t (margin - rho)
        / D, and the half-space of the step contains that set: d_{t+1} <= (1 - kappa^2)^(1/2) d_t + eta G_f with kappa =
        margin / (2 D G_g). So d_t <= eta G_f / (1 - (1 - kappa^2)^(1/2)) in all rounds if d_1 is, as from the deepest
        point, and g(x_t) <= -rho + G_g d_t.

        Parameters
        ----------
        loss_bound, constraint_bound : G_f and G_g > 0, of the lengths of subgradients
        diameter : D > 0;  margin : epsilon > 0, by which a point of the set satisfies all constraints
        """
        kappa = check_positive("margin", margin) / (2.0 * diameter * constraint_bound)
        return constraint_bound * loss_bound / (1.0 - math.sqrt(max(1.0 - kappa**2, 0.0)))

    def first_point(self, problem: Problem, first: Vector | None) -> Vector:
        """Return x_1, (p,): what is given, or the point that satisfies the constraints by the largest margin."""
        return deepest_point(problem)[0] if first is None else problem.first_point(first)

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return eta, rho and 0 of rounds first .. last, (1, last - first + 1, 3)."""
        step = self.step_scale / math.sqrt(horizon)
        return _stacked(first, last, step, self.tightening * step, 0.0)


@dataclass(frozen=True)
class SinhaVaze(Method):
    """Adaptive gradient descent on surrogates that price the violation exponentially.

    Q_t = Q_{t-1} + beta [max_i g_i(x_t)]_+
    d_t = beta df_t(x_t) + beta lambda exp(lambda Q_t) d[max_i g_i(x_t)]_+
    x_{t+1} = Pi_X(x_t - D / sqrt(2 sum_{s <= t} ||d_s||^2) d_t)

    with beta = 1 / (2 G D) and lambda = 1 / (2 sqrt(T)), D the diameter of the set. Regret grows as T^(1/2) and the
    violation (6) as T^(1/2) log T, for constraints that an adversary chooses anew in every round.

    For strongly convex losses the price is linear in the queue, and regret is at most G^2 (1 + log T) / (2 mu):

    Q_t = Q_{t-1} + [max_i g_i(x_t)]_+
    x_{t+1} = Pi_X(x_t - (df_t(x_t) + 2 Q_t / V d[max_i g_i(x_t)]_+) / (2 mu t)),   V = 4 G^2 (1 + log T) / mu

    The violation then grows as (T log T)^(1/2).

    Parameters
    ----------
    subgradient_bound : G > 0, of losses and constraints over the set
    strong_convexity : mu of (19), 0 if the losses have none

    Source: Sinha & Vaze, NeurIPS 2024, Algorithm 1 with the parameters of Theorem 1. Those for strongly convex losses
    follow from its argument with Phi(Q) = Q^2; the paper's own constants were not at hand.
    """

    subgradient_bound: float
    strong_convexity: float = 0.0

    name = "Sinha & Vaze"
    positive = ("subgradient_bound",)
    nonnegative = ("strong_convexity",)
    needs_horizon = True
    needs_diameter = True
    takes_changing = True

    @property
    def rule(self) -> int:  # type: ignore[override]
        """Return the surrogate, by whether losses are strongly convex."""
        return oco.SQUARED_SURROGATE if self.strong_convexity else oco.SURROGATE

    @property
    def assumes_strong_convexity(self) -> float:
        return self.strong_convexity

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return beta, lambda and the step before the root, or the step, 2 / V and 0, (1, last - first + 1, 3)."""
        if self.strong_convexity:
            weight = 4.0 * self.subgradient_bound**2 * (1.0 + math.log(horizon)) / self.strong_convexity
            return _stacked(first, last, 0.5 / (self.strong_convexity * round_numbers(first, last)), 2.0 / weight, 0.0)
        diameter = problem.region.diameter
        scale = 0.5 / (self.subgradient_bound * diameter)
        return _stacked(first, last, scale, 0.5 / math.sqrt(horizon), diameter / math.sqrt(2.0))


@dataclass(frozen=True)
class VazeSinha(Method):
    """Gradient steps projected onto the constraints of all rounds seen, for constraints that change.

    y_t = Pi_{S_{t-1}}(x_t - D / (G sqrt(t)) df_t(x_t)),   x_{t+1} = Pi_{S_t}(y_t)

    with S_0 = X and S_t the points of S_{t-1} with g_t(x) <= 0. Regret against points of all S_t is at most 3/2 G D
    sqrt(T). The violation (6) depends on how the sets shrink: it is bounded where constraints stay. Once it is above
    sqrt(T) log T, or the sets have no common point, the steps are those of `SinhaVaze`, with a violation of O(sqrt(T)
    log T). Constraints that are not linear enter S_t linearised at x_t: for larger sets the bound of regret holds, too.

    Parameters
    ----------
    subgradient_bound : G > 0, of losses and constraints over the set
    switch : whether steps change to those of `SinhaVaze`

    Source: Vaze & Sinha, NeurIPS 2025, its first algorithm and Switch. Summaries were checked; the step size is that of
    the standard proof of projected gradient descent.
    """

    subgradient_bound: float
    switch: bool = True

    name = "Vaze & Sinha"
    rule = oco.SURROGATE
    compiles = False  # cuts grow
    positive = ("subgradient_bound",)
    needs_horizon = True
    needs_diameter = True
    takes_changing = True

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return those of `SinhaVaze`."""
        return SinhaVaze(self.subgradient_bound).numbers(problem, first, last, horizon)

    def start(self, problem: Problem, horizon: int | None = None, first: Vector | None = None) -> MethodState:
        """Return the state before round 1: duals are the queue and sum of `SinhaVaze`, and the violation."""
        state = super().start(problem, horizon, first)
        none = np.zeros((0, problem.dimension)), np.zeros(0)
        return replace(state, duals=np.zeros((1, 3)), cuts=none)

    def learn(self, state: MethodState, subgradient: Vector, constraints: Constraints | None = None) -> MethodState:
        """Return the state after a round, as `Method.learn` does.

        Raises
        ------
        ConfigError : no point of the set satisfies the constraints of all rounds, and switch is False
        """
        assert state.cuts is not None  # of start
        slope, horizon, region = check_slope(subgradient, state.point), state.horizon or 1, state.problem.region
        limits = state.problem.constraints if constraints is None else constraints
        duals = state.duals.copy()
        if not duals[0, 2] > math.sqrt(horizon) * math.log(horizon) or not self.switch:
            duals[0, 2] += max(float(limits.values(state.point).max()), 0.0)
            step = region.diameter / (self.subgradient_bound * math.sqrt(state.round))
            seen = _add_cuts(state.cuts, linearise(limits, state.point))
            point = _project_onto_cuts(region, *state.cuts, state.point - step * slope)
            point = None if point is None else _project_onto_cuts(region, *seen, point)
            if point is not None:
                return replace(
                    state, round=state.round + 1, point=point, experts=point[None].copy(), duals=duals, cuts=seen
                )
            if not self.switch:
                raise ConfigError(
                    f"No point of the set satisfies the constraints of rounds 1 to {state.round} together. "
                    "Set switch=True."
                )
            duals[0, 2] = math.inf
        after = super().learn(replace(state, duals=duals[:, :2]), slope, constraints)
        return replace(after, duals=np.append(after.duals, duals[:, 2:], axis=1))


def _add_cuts(cuts: tuple[Matrix, Vector], rows: LinearConstraints) -> tuple[Matrix, Vector]:
    """Return cuts with rows, scaled to length 1, added: of rows in one direction, the tighter bound stays."""
    matrix, bounds = cuts
    lengths = np.linalg.norm(rows.matrix, axis=1)
    for row, bound, length in zip(rows.matrix, rows.bounds, lengths, strict=True):
        if length > 0.0:
            same = np.flatnonzero((matrix == row / length).all(axis=1))
            if same.size:
                bounds = bounds.copy()
                bounds[same[0]] = min(bounds[same[0]], bound / length)
            else:
                matrix, bounds = np.vstack([matrix, row / length]), np.append(bounds, bound / length)
    return matrix, bounds


def _project_onto_cuts(region: ConvexSet, matrix: Matrix, bounds: Vector, point: Vector) -> Vector | None:
    """Return the nearest point of the set with matrix x <= bounds, (p,), row by row as violated; or None."""
    nearest: Vector | None = region.project(point)
    chosen = np.zeros(bounds.size, dtype=bool)
    while nearest is not None and bounds.size:
        excess = matrix @ nearest - bounds
        worst = int(excess.argmax())
        if excess[worst] <= 1e-12 * (1.0 + abs(bounds[worst])) or chosen[worst]:  # or rounding
            break
        chosen[worst] = True
        nearest = nearest_within(region, matrix[chosen], bounds[chosen], point)
    return nearest


@dataclass(frozen=True)
class ImprovedAder(Method):
    """Gradient descent with many step sizes on linearised losses, each projected onto set and constraints, mixed.

    x_{i,t+1} = Pi(x_{i,t} - eta_i df_t(x_t)),  w_{i,t+1} ~ w_{i,t} exp(-alpha <df_t(x_t), x_{i,t} - x_t>)

    with eta_i = 2^(i-1) D / G sqrt(7 / (2 T)), N = ceil(log2(1 + 4 T / 7) / 2) + 1, alpha = sqrt(2 / T) / (G D). Regret
    against any comparators grows as sqrt(T (1 + P_T)); what it costs is a projection onto all constraints a round.

    Parameters
    ----------
    subgradient_bound : G > 0, of the losses

    Source: Zhang, Lu & Zhou, NeurIPS 2018, Algorithms 3 and 4 (Improved Ader), Theorem 4.
    """

    subgradient_bound: float

    name = "Improved Ader"
    rule = oco.PROJECTED
    positive = ("subgradient_bound",)
    needs_horizon = True
    needs_diameter = True

    def experts_for(self, horizon: int) -> int:
        return math.ceil(0.5 * math.log2(1.0 + 4.0 * horizon / 7.0)) + 1

    def first_point(self, problem: Problem, first: Vector | None) -> Vector:
        """Return the feasible point nearest to the first one, (p,)."""
        return nearest_feasible(problem, problem.first_point(first))

    def weight_rate(self, problem: Problem, horizon: int) -> float:
        return math.sqrt(2.0 / horizon) / (self.subgradient_bound * problem.region.diameter)

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return eta_i of every expert in rounds first .. last, and zeros, (N, last - first + 1, 3)."""
        least = problem.region.diameter / self.subgradient_bound * math.sqrt(3.5 / horizon)
        return np.concatenate(
            [_stacked(first, last, 2.0**i * least, 0.0, 0.0) for i in range(self.experts_for(horizon))]
        )


@dataclass(frozen=True)
class Recoo(Method):
    """A queue of clipped violations that never falls below a price that grows.

    Q_t = max(Q_{t-1} + gamma_t [g(x_t)]_+, eta_t)
    x_{t+1} = argmin over X of <df_t(x_t), x> + gamma_t <Q_t, [g(x)]_+> + alpha_t ||x - x_t||^2

    with alpha_t = sqrt(t) / alpha_0, or mu t where losses are strongly convex, gamma_t = gamma_0 t^(1/2 + epsilon) and
    eta_t = sqrt(t). The number of rounds need not be known. Regret grows as T^(1/2), or as log T; the violation (6) of
    fixed constraints stays bounded, as the sum of 1 / (gamma_t eta_t) is finite, and that of changing ones grows as
    T^(3/4).

    Parameters
    ----------
    step_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    excess_exponent : epsilon > 0
    strong_convexity : mu of (19), 0 if the losses have none

    Source: Guo, Liu, Wei & Ying, NeurIPS 2022, Algorithm 1 (RECOO) and Theorems 1 and 2.
    """

    step_scale: float = 1.0
    penalty_scale: float = 1.0
    excess_exponent: float = 0.05
    strong_convexity: float = 0.0

    name = "RECOO"
    rule = oco.RECTIFIED
    positive = ("step_scale", "penalty_scale", "excess_exponent")
    nonnegative = ("strong_convexity",)
    takes_changing = True

    @property
    def assumes_strong_convexity(self) -> float:
        return self.strong_convexity

    def numbers(self, problem: Problem, first: int, last: int, horizon: int) -> Numbers:
        """Return 1 / alpha_t, gamma_t and eta_t of rounds first .. last, (1, last - first + 1, 3)."""
        rounds = round_numbers(first, last)
        roots = np.sqrt(rounds)
        steps = 1.0 / (self.strong_convexity * rounds) if self.strong_convexity else self.step_scale / roots
        return _stacked(first, last, steps, self.penalty_scale * roots * rounds**self.excess_exponent, roots)


def default_method(step_scale: float = 1.0, strong_convexity: float = 0.0) -> Recoo:
    """Return the method to take for constraints that stay: the rectified queue, RECOO.

    With steps of one length, from (1, 1), its regret is that of Algorithms 1 and 2 within two standard errors, and its
    violation (6) does not grow and is the least, or as small as that; it need not know the number of rounds, nor a
    bound of the subgradients.

    ==================  ================  ================  ==================  ================
    T = 32000, mean     random signs      random signs      pulling outwards    pulling outwards
    of 20 repetitions   regret            violation         regret              violation
    ==================  ================  ================  ==================  ================
    RECOO               252 +- 25         1.52 +- .01       114 +- 15           1.88 +- .15
    Algorithm 1         230 +- 17         4.08 +- .01       97 +- 10            5.32 +- .01
    Algorithm 2         235 +- 21         4.22 +- .05       98 +- 12            8.03 +- .03
    Yu & Neely          249 +- 21         1.51 +- .00       876 +- 9            31.8 +- .1
    Sinha & Vaze        252 +- 27         5006 +- 586       below 0             34653 +- 26
    ==================  ================  ================  ==================  ================

    On signs that pull outwards up to T = 2,048,000 its violation is 2.0, Algorithm 1's 5.1, and that of Sinha & Vaze
    375542, growing as T^.57: as 2 sqrt(T) log(2 sqrt(T)) / beta, where their price of a violation reaches 1. On section
    4.1 of Yi et al. (200 repetitions, T = 5000), where Algorithm 1's gamma_0 is beyond what its theorem allows, RECOO's
    loss is 162 +- 6 lower, and its violation .084 +- .018 against .051 +- .003 from x_1 = 0, 1.20 against 1.08 from
    (1, 1): a round's worth.

    The others are for what RECOO does not promise: Algorithm 2 follows comparators that move, and Algorithms 1 and 2
    have bounds with explicit constants (`bounds_of`).
    For constraints that an adversary chooses anew in every round, `VazeSinha` violates less, at a cost of 40 to 400
    microseconds a round; the violation of `SinhaVaze` in 3,000 rounds was 9,296, against 191 of RECOO.

    Parameters
    ----------
    step_scale : alpha_0 > 0; twice the diameter over sqrt(2) times the subgradients' root mean square is a good one
    strong_convexity : mu of (19), 0 if the losses have none

    Source of the figures: tests/benchmarks/oco_growth.py, signs, biased and long.
    """
    return Recoo(step_scale, strong_convexity=strong_convexity)
