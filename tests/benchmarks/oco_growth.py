"""Growth of regret and violation with the horizon and with the path length, compared with published rates.

    python -m tests.benchmarks.oco_growth [signs|biased|kinds|worked|long|paths|readings ...]

signs : random signs in a box with two constraints, where no learner beats sqrt(T); T = 500 .. 32000, means of 20
    repetitions, gamma_0 at the edge of its range, steps of one length: D / sqrt(2 t) over the losses' root mean square,
    as Sinha & Vaze take them, or with T in place of t. Violations in the form of Table 1: (3) for Yu & Neely, Jenatton
    and Mahdavi, where later slack compensates; also (6), never less. Verdicts allow two standard errors.
biased : the same with losses that pull out of the constraints; a regret below 0 comes at the cost of violation.
kinds : every method, on fixed, changing and stochastic constraints and with values at two points, T = 500 .. 8000:
    exponents of mean regret and violation with 95% intervals, 12 repetitions, and microseconds a round. Losses are
    random signs, "outwards" with a bias that pulls out of the constraints.
worked : five problems against offline optima, which scipy's SLSQP finds, too: a budget, budgets that change, a
    portfolio, a schedule with random demand, and a ball where values at two points are all that is seen.
long : Algorithm 1 and its newer rivals on biased signs up to T = 2,048,000, with exponents from horizon to horizon.
paths : signs with a bias that turns round, T = 20000; dynamic regret against the best of every segment.
readings : section 4.2 with other readings of Yuan & Lamperski, against Algorithm 1's loss.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from okl import oco
from okl.foundation.errors import AssumptionWarning
from okl.papers import yi2021
from okl.papers.yi2021 import QUADRATIC, ROUNDS, draw_problem, draw_signs, growing_methods
from okl.solvers.oco.baselines import Jenatton, Mahdavi, Recoo, SinhaVaze, YuanLamperski, YuNeely
from okl.solvers.oco.methods import Algorithm1, Algorithm2, Method
from okl.solvers.oco.problem import LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.runs import constraint_values, losses_at, path_length, run_many, static_regret, violation_of
from okl.solvers.oco.schedules import Anytime, KnownHorizon, bounds_of, constants_of, expert_bounds
from tests.solvers.oco.streams import flipping

REPEATS = 20
HORIZONS = (500, 2000, 8000, 32000)
LONG = (8000, 32000, 128000, 512000, 2048000)
SEGMENTS = (2, 6, 20, 60, 200, 900)
PATH_ROUNDS = 20000
NET = {*yi2021.NET, "Yu, Neely & Wei"}  # their theorems have the form (3)
PUBLISHED = yi2021.GROWTH | {"RECOO": (0.5, 0.0), "Sinha & Vaze": (0.5, 0.5)}  # growth of regret and of violation
Doubles = np.ndarray[Any, np.dtype[np.float64]]


def methods(problem: Problem, losses: QuadraticLosses) -> dict[str, Method]:
    """All methods, with steps of one length."""
    by_name, steep = growing_methods(problem, losses), constants_of(problem, losses).subgradient_bound
    length = by_name["Mahdavi"].step_scale  # type: ignore[attr-defined]
    return by_name | {"RECOO": Recoo(2.0 * length), "Sinha & Vaze": SinhaVaze(steep)}


def growth(sizes: Sequence[float], values: Doubles) -> tuple[float, Doubles]:
    """Return the slope of log mean values (n, R) against log sizes (n,), and what every repetition adds to it (R,)."""
    logs = np.log(np.asarray(sizes, dtype=np.float64))
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    means = values.mean(axis=1)
    return float(weights @ np.log(means)), weights @ (values / means[:, None] - 1.0)


def error(parts: Doubles) -> float:
    """Return the standard error of a mean."""
    return float(parts.std(ddof=1)) / math.sqrt(parts.size)


def growth_text(sizes: Sequence[float], values: Doubles, most: float) -> str:
    """Return the growth of values (n, R) as text, and whether it is within the published rate (two standard errors)."""
    means = values.mean(axis=1)
    above = means > 1e-9
    if above.sum() < 2:
        return f"{'below 0' if means.min() < -1e-9 else '0':>13} within "
    slope, parts = growth(np.asarray(sizes)[above], values[above])
    verdict = "within" if slope - 2.0 * error(parts) <= most else "BEYOND"
    return f"{slope:5.2f} +- {error(parts):.2f} {verdict}{'' if above.all() else f', {(~above).sum()} below 0':1}"


def play(method: Method, game: tuple[Problem, QuadraticLosses]) -> tuple[float, float, float]:
    """Return the regret against the best fixed point, and the violation in the forms (3) and (6)."""
    points = method.run(*game, np.ones(2))
    violation = violation_of(constraint_values(game[0].constraints, points))
    return static_regret(*game, points), violation.net, violation.cumulative


def measure(bias: float, horizons: Sequence[int], names: Sequence[str], repeats: int) -> tuple[dict[str, Doubles], str]:
    """Return regrets and both violations of every method (3, n, R), and the largest share of a bound."""
    values_by_name: dict[str, list[Doubles]] = {name: [] for name in names}
    largest = 0.0
    for horizon in horizons:
        games = [draw_signs(horizon, seed, bias) for seed in range(repeats)]
        constants = constants_of(*games[0])
        for name, method in methods(*games[0]).items():
            if name not in names:
                continue
            with ThreadPoolExecutor(2) as pool:
                values_by_name[name].append(np.array(list(pool.map(partial(play, method), games))).T)
            bound = None
            if isinstance(method, Algorithm1):
                bound = bounds_of(method.schedule, constants, horizon)
            elif isinstance(method, Algorithm2):
                numbers = method.experts_for(horizon), method.rate_for(horizon)
                bound = expert_bounds(method.schedule, constants, horizon, *numbers)
            if bound is not None:
                worst = values_by_name[name][-1].max(axis=1)
                largest = max(largest, worst[0] / bound.regret, worst[2] / bound.violation)
    bound_text = f"largest measured / bound of Algorithms 1 and 2: {largest:.3f}"
    return {name: np.stack(each, axis=1) for name, each in values_by_name.items()}, bound_text


def grow(bias: float) -> None:
    """Print exponents with standard errors and verdicts, and the figures at the last horizon."""
    values_by_name, bound_text = measure(bias, HORIZONS, list(PUBLISHED), REPEATS)
    print(f"{'':17}{'regret, <=':>12}{'':13}{'violation, <=':>13}{'':13}{'in form (6)':>12}   at T = {HORIZONS[-1]}")
    for name, (regret, violation) in PUBLISHED.items():
        regrets, net, total = values_by_name[name]
        violations = net if name in NET else total
        print(f"{name:17}{regret:.2f} {growth_text(HORIZONS, regrets, regret + 0.1)}", end="  ")
        print(
            f"{'(3)' if name in NET else '(6)'} {violation:.2f} {growth_text(HORIZONS, violations, violation + 0.05)}",
            end="  ",
        )
        print(f"{growth(HORIZONS, total)[0]:6.2f}", end="  ")
        print(
            f"{regrets[-1].mean():9.1f} +- {error(regrets[-1]):<6.1f}{total[-1].mean():9.2f} +- {error(total[-1]):.2f}"
        )
    print(bound_text)


Game = tuple[Problem, oco.QuadraticLosses, oco.LinearRounds | None]


def changing(n_rounds: int, seed: int, bias: float, stochastic: bool) -> Game:
    """Draw signs, as `draw_signs`, with rows about its rows that leave a common point, or hold on average."""
    problem, losses = draw_signs(n_rounds, seed, bias)
    rng, rows = np.random.default_rng([seed, n_rounds, 1]), problem.linear
    matrices = rows.matrix + rng.uniform(-0.3, 0.3, (n_rounds, 2, 2))
    bounds = rows.bounds + (rng.normal(0.0, 0.3, (n_rounds, 2)) if stochastic else rng.uniform(0.0, 0.3, (n_rounds, 2)))
    rounds = oco.LinearRounds(matrices, bounds, stochastic=stochastic)
    return Problem(problem.region, rounds.overall()), losses, rounds


def fixed(n_rounds: int, seed: int, bias: float) -> Game:
    """Draw signs, as `draw_signs`."""
    return *draw_signs(n_rounds, seed, bias), None


def interval(sizes: Sequence[int], values: Doubles) -> str:
    """Return the exponent of mean values (n, R) with its interval, or what keeps it from having one."""
    means = values.mean(axis=1)
    if means.max() <= 1e-9:
        return f"{'0' if means.min() > -1e-9 else 'below 0':>20}"
    if means.min() <= 1e-9:
        return f"{'not above 0 always':>20}"
    fitted = oco.growth_interval(sizes, values)
    return f"{fitted.exponent:6.2f} [{fitted.low:5.2f}, {fitted.high:5.2f}]"


def compare_kinds() -> None:
    """Print exponents and times of every method on the kinds of rounds that it takes."""
    horizons, repeats, first = (500, 2000, 8000), 12, np.ones(2)
    constants = constants_of(*draw_signs(50, 0, -1.0))
    steep = max(constants.subgradient_bound, math.sqrt(2.3**2 + 1.3**2))
    length = constants.diameter / 2.0
    schedule = KnownHorizon(2.0 * length, 1.0 / (math.sqrt(2.0) * steep))
    all_of: list[Method] = [
        Algorithm1(schedule), Algorithm2(schedule), YuNeely(0.5 / length), YuanLamperski(length, 3.0),
        Jenatton(length, 6.0), Mahdavi(length, 1.0), Recoo(2.0 * length), oco.ImprovedAder(steep), SinhaVaze(steep),
        oco.VazeSinha(steep), oco.Polyak(length, 2.0), oco.YuNeelyWei(1.0, 0.5),
    ]  # fmt: skip
    on_changing = [method for method in all_of if method.takes_changing]
    kinds: dict[str, tuple[Callable[[int, int], Game], list[Method]]] = {
        "fixed": (partial(fixed, bias=0.0), all_of),
        "fixed, outwards": (partial(fixed, bias=-1.0), all_of),
        "changing": (partial(changing, bias=0.0, stochastic=False), on_changing),
        "changing, outwards": (partial(changing, bias=-1.0, stochastic=False), on_changing),
        "stochastic": (partial(changing, bias=0.0, stochastic=True), all_of[-1:]),
        "stochastic, outwards": (partial(changing, bias=-1.0, stochastic=True), all_of[-1:]),
        "two-point": (partial(fixed, bias=0.0), [all_of[index] for index in (0, 3, 6, 8, 10)]),
    }
    print(f"{'':39}{'regret':>18}{'violation':>25}{'largest at the end':>22}{'us a round':>12}")
    for kind, (draw, chosen) in kinds.items():
        for method in chosen:
            numbers, least_seconds = np.empty((3, len(horizons), repeats)), math.inf
            for index, horizon in enumerate(horizons):
                for seed in range(repeats):
                    problem, losses, rounds = draw(horizon, seed)
                    start = None if isinstance(method, oco.Polyak) else first
                    round_start = time.perf_counter()
                    if kind != "two-point" and method.can_run(problem, losses, rounds):
                        points = method.run(problem, losses, start, rounds)
                    else:
                        feedback = oco.TwoPoint(seed) if kind == "two-point" else None
                        start = start if feedback is None else None
                        points = oco.play_rounds(method, problem, losses, start, None, rounds, feedback)
                    least_seconds = min(least_seconds, (time.perf_counter() - round_start) / horizon)
                    values = constraint_values(problem.constraints if rounds is None else rounds, points)
                    violation = violation_of(values)
                    total_violation = violation.net if method.name in NET else violation.cumulative
                    numbers[:, index, seed] = static_regret(problem, losses, points), total_violation, violation.largest
            print(f"{kind:21}{method.name:18}{interval(horizons, numbers[0])}", end="  ")
            print("(3)" if method.name in NET else "(6)", end="")
            print(f"{interval(horizons, numbers[1])}{numbers[2, -1].mean():20.4f}{1e6 * least_seconds:14.2f}")


def work() -> None:
    """Print regret, certificate and violation of five problems, and the difference of both offline optima."""
    print(
        f"{'':22}{'regret':>10}{'certificate':>13}{'violation':>11}{'largest':>9}{'optima apart':>14}{'us a round':>12}"
    )
    for name, (method, problem, losses, rounds, feedback, first) in worked().items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", AssumptionWarning)
            played = oco.play(method, problem, losses, rounds, feedback, first)  # compiles
            start = time.perf_counter()
            played = oco.play(method, problem, losses, rounds, feedback, first)
        microseconds = 1e6 * (time.perf_counter() - start) / losses.n_rounds
        best = oco.static_optimum(problem, losses)
        other_optimum = by_slsqp(problem, losses)
        regret = played.losses.sum() - losses_at(losses, best[None]).sum()
        difference = (
            abs(losses_at(losses, other_optimum[None]).sum() - losses_at(losses, best[None]).sum()) / losses.n_rounds
        )
        violation = played.violation.net if rounds is not None and rounds.stochastic else played.violation.cumulative
        print(f"{name:22}{regret:10.2f}{oco.regret_certificate(problem, losses, played.points):13.2f}", end="")
        print(f"{violation:11.3f}{played.violation.largest:9.4f}{difference:14.1e}{microseconds:12.2f}")


def by_slsqp(problem: Problem, losses: oco.QuadraticLosses | oco.ConvexLosses) -> Doubles:
    """Return the point of least mean loss by scipy."""
    region, count = problem.region, losses.n_rounds
    constraints: list[dict[str, Any]] = [{"type": "ineq", "fun": lambda x: -problem.constraints.values(x)}]
    if isinstance(region, oco.Simplex):
        constraints.append({"type": "eq", "fun": lambda x: x.sum() - region.total})
    elif isinstance(region, oco.Ball):
        constraints.append({"type": "ineq", "fun": lambda x: region.radius**2 - ((x - region.centre) ** 2).sum()})
    low, high = (region.low, region.high) if isinstance(region, oco.Box) else (np.zeros(problem.dimension), None)
    sides = None if isinstance(region, oco.Ball) else [*zip(low, np.inf + low if high is None else high, strict=True)]
    solution = minimize(
        lambda x: losses_at(losses, x[None]).sum() / count, problem.first_point(None), method="SLSQP", bounds=sides,
        constraints=constraints, options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    return np.asarray(solution.x)


def worked() -> dict[str, Any]:
    """Return five games: method, problem, losses, rounds, feedback and first point."""
    count, rng = 4000, np.random.default_rng(0)
    costs = rng.uniform(-1, 1, (count, 2)) + np.array([-0.5, -0.3])
    square, linear = oco.Box(np.zeros(2), np.ones(2)), oco.QuadraticLosses(0.0, costs)
    budget = Problem(square, LinearConstraints(np.array([[1.0, 2.0]]), np.array([1.5])))
    budgets = oco.LinearRounds(np.array([[1.0, 2.0]]), 1.0 + 0.5 * np.sin(np.arange(count) / 100)[:, None])
    speed, jobs = np.array([1.0, 1.3, 1.1]), rng.gamma(20.0, 0.5, count)
    prices = np.array([3.0, 4.0, 3.5]) + rng.normal(0.0, 0.4, (count, 3))
    demand = oco.LinearRounds(np.tile(-speed, (count, 1, 1)), -jobs[:, None], stochastic=True)
    schedule = Problem(oco.Box(np.zeros(3), np.full(3, 6.0)), demand.overall())
    ball = Problem(oco.Ball(np.zeros(3), 1.0), LinearConstraints(np.array([[1.0, 1.0, 0.0]]), np.array([0.3])))
    targets = oco.QuadraticLosses(0.5, rng.normal(size=(count, 3)) - 0.6)
    return {
        "budget": (Recoo(2.0), budget, linear, None, None, None),
        "budgets that change": (oco.VazeSinha(2.3), Problem(square, budgets.overall()), linear, budgets, None, None),
        "portfolio": (oco.Polyak(20.0, 0.5), *portfolio(count), None, None, np.full(4, 0.25)),
        "schedule": (oco.YuNeelyWei(2.0, 0.2), schedule, oco.QuadraticLosses(0.05, prices), demand, None, None),
        "values at two points": (YuanLamperski(1.0, 3.0), ball, targets, None, oco.TwoPoint(), None),
    }


def portfolio(count: int) -> tuple[Problem, oco.ConvexLosses]:
    """Return shares of four assets with limits on two of them and on the variance, and minus the log of the growth."""
    rng = np.random.default_rng(0)
    means, spreads = np.array([1e-3, 4e-3, 3e-3, 5e-4]), np.array([0.015, 0.03, 0.025, 0.004])
    common, individual = rng.standard_normal((count, 1)), rng.standard_normal((count, 4))
    returns = 1.0 + means + spreads * (0.6 * common + 0.8 * individual)
    covariance = np.outer(spreads, spreads) * (0.36 + 0.64 * np.eye(4))

    def limits(x: Doubles) -> Doubles:
        return np.array([x[1] + x[2] - 0.5, 1e4 * np.sum(x * (covariance @ x)) - 2.0])

    def slopes(x: Doubles) -> Doubles:
        rows = np.zeros((2, 4))
        rows[0, 1:3] = 1.0
        rows[1] = 2e4 * (covariance @ x)
        return rows

    losses = oco.ConvexLosses(
        lambda t, x: -np.log(np.sum(returns[t] * x)),
        lambda t, x: 1.0 - returns[t] / np.sum(returns[t] * x),  # of shares, which add up to 1
        count,
        compiled=True,
    )
    return Problem(oco.Simplex(4), oco.ConvexConstraints(limits, slopes, 2, compiled=True)), losses


def lengthen() -> None:
    """Print regrets, violations and local exponents of methods that differ at long horizons."""
    names = ["Algorithm 1", "Yu & Neely", "RECOO", "Sinha & Vaze"]
    values_by_name, _ = measure(-1.0, LONG, names, 3)
    constants = constants_of(*draw_signs(50, 0, -1.0))
    scale = 2.0 * constants.subgradient_bound * constants.diameter  # 1 / beta
    ends = [scale * 2.0 * math.sqrt(T) * math.log(2.0 * math.sqrt(T)) for T in LONG]
    for name in names:
        regrets, _, cumulative = values_by_name[name].mean(axis=2)
        slopes = np.diff(np.log(cumulative)) / np.diff(np.log(LONG))
        print(f"{name:14} regret   ", *(f"{value:11.1f}" for value in regrets))
        print(
            f"{'':14} violation", *(f"{value:11.2f}" for value in cumulative), "  local", *(f"{s:.2f}" for s in slopes)
        )
    slopes = np.diff(np.log(ends)) / np.diff(np.log(LONG))
    print(f"{'2 sqrt(T) log(2 sqrt(T)) / beta':24}", *(f"{value:11.0f}" for value in ends), end="   local ")
    print(*(f"{s:.2f}" for s in slopes), " where exp(lambda Q) lambda = 1: a violation counts as much as a loss")


def follow() -> None:
    """Print how the dynamic regret grows with the path length, and whether Algorithm 1's grows faster."""
    lengths: list[float] = []
    regrets_by_name: dict[str, list[Doubles]] = {"Algorithm 1": [], "Algorithm 2": []}
    for segments in SEGMENTS:
        games = [flipping(PATH_ROUNDS, segments, seed) for seed in range(REPEATS)]
        problems, losses = [game[0] for game in games], [game[1] for game in games]
        best = np.array([losses_at(game[1], game[2]).sum() for game in games])
        gamma = 1.0 / (2.0**0.5 * constants_of(problems[0], losses[0]).subgradient_bound)
        lengths.append(1.0 + path_length(games[0][2]))
        pair: tuple[Method, ...] = (Algorithm1(Anytime(1.0, gamma)), Algorithm2(Anytime(1.0, gamma)))
        for method in pair:
            traces = run_many(method, problems, losses, np.ones(2), n_threads=2)
            regrets_by_name[method.name].append(traces.losses.sum(axis=1) - best)
    print("1 + P_T    ", *(f"{length:8.0f}" for length in lengths), f"  T / 10 = {PATH_ROUNDS // 10}")
    slopes, parts = {}, {}
    for name, regrets in regrets_by_name.items():
        slopes[name], parts[name] = growth(lengths, np.array(regrets))
        print(f"{name:11}", *(f"{each.mean():8.0f}" for each in regrets), end="   ")
        print(f"exponent {slopes[name]:.3f} +- {error(parts[name]):.4f}, from one to the next", end=" ")
        local = np.diff(np.log([each.mean() for each in regrets])) / np.diff(np.log(lengths))
        print(*(f"{each:.2f}" for each in local))
    difference, uncertainty = (
        slopes["Algorithm 1"] - slopes["Algorithm 2"],
        error(parts["Algorithm 1"] - parts["Algorithm 2"]),
    )
    print(f"Algorithm 2's within .5 +- .1: {abs(slopes['Algorithm 2'] - 0.5) <= 0.1};", end=" ")
    print(f"Algorithm 1's faster by {difference:.3f} +- {uncertainty:.4f}: {difference > 2.0 * uncertainty}")


def read() -> None:
    """Print the loss of each reading less Algorithm 1's, paired, and its violation."""
    games = [draw_problem(seed, ROUNDS, quadratic=True) for seed in range(400)]
    problems, losses = [game[0] for game in games], [game[1] for game in games]
    reference = run_many(QUADRATIC["Algorithm 1"], problems, losses, n_threads=2).losses.sum(axis=1)
    print(f"Algorithm 1: {reference.mean():.0f} +- {error(reference):.0f}")
    for ratio in (1.0, 1.5, 2.0, 3.0):
        method = YuanLamperski(3.0, ratio, strongly_convex=True)
        traces = run_many(method, problems, losses, n_threads=2)
        differences, violation = traces.losses.sum(axis=1) - reference, traces.violations.sum(axis=1).mean()
        print(
            f"theta_t = {3 * ratio:g}/(t + 1): {differences.mean():+.0f} +- {error(differences):.0f} "
            f"({100 * differences.mean() / abs(reference.mean()):+.1f}%), violation {violation:.0f}, "
            f"within 2% in {100 * (abs(differences) <= 0.02 * abs(reference)).mean():.0f}% of the draws of A and b"
        )


if __name__ == "__main__":
    parts: dict[str, Callable[[], None]] = {"signs": partial(grow, 0.0), "biased": partial(grow, -1.0)}
    parts |= {"kinds": compare_kinds, "worked": work, "long": lengthen, "paths": follow, "readings": read}
    for part in sys.argv[1:] or parts:
        print(f"-- {part}")
        parts[part]()
