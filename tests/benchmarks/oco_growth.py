"""How regret and violation grow with the horizon and with the path length, beside what is published.

    python -m tests.benchmarks.oco_growth [signs|biased|long|paths|readings ...]

signs : random signs in a box with two constraints, where no learner beats sqrt(T); T = 500 .. 32000, means of 20
    repetitions, gamma_0 at the edge of its range, steps of one length: D / sqrt(2 t) over the losses' root mean square,
    as Sinha & Vaze take them, or with T in place of t. Violations in the form of Table 1: (3) for Yu & Neely, Jenatton
    and Mahdavi, where later slack makes good; (6), never less, beside it. Verdicts allow two standard errors.
biased : the same with losses that pull out of the constraints; a regret below 0 is paid for by violation.
long : Algorithm 1 and its newer rivals on biased signs up to T = 2,048,000, with exponents from horizon to horizon.
paths : signs with a bias that turns round, T = 20000; dynamic regret against the best of every segment.
readings : section 4.2 with other readings of Yuan & Lamperski, against Algorithm 1's loss.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from okl.papers.yi2021 import QUADRATIC, ROUNDS, draw_problem
from okl.solvers.oco.baselines import Jenatton, Mahdavi, Recoo, SinhaVaze, YuanLamperski, YuNeely
from okl.solvers.oco.methods import Algorithm1, Algorithm2, Method
from okl.solvers.oco.problem import Problem, QuadraticLosses
from okl.solvers.oco.runs import constraint_values, losses_at, path_length, run_many, static_regret, violation_of
from okl.solvers.oco.schedules import Anytime, Constants, KnownHorizon, bounds_of, constants_of, expert_bounds
from tests.solvers.oco.streams import cornered, flipping

REPEATS = 20
HORIZONS = (500, 2000, 8000, 32000)
LONG = (8000, 32000, 128000, 512000, 2048000)
SEGMENTS = (2, 6, 20, 60, 200, 900)
PATH_ROUNDS = 20000
NET = {"Yu & Neely", "Jenatton", "Mahdavi"}  # Table 1 gives these the form (3)
PUBLISHED = {  # growth of regret and of violation, of Table 1 with c = 1/2
    "Algorithm 1": (0.5, 0.25), "Algorithm 2": (0.5, 0.5), "Yu & Neely": (0.5, 0.25),
    "Yuan & Lamperski": (0.5, 0.75), "Jenatton": (0.5, 0.75), "Mahdavi": (0.5, 0.75),
    "RECOO": (0.5, 0.0), "Sinha & Vaze": (0.5, 0.5),
}  # fmt: skip
Doubles = np.ndarray[Any, np.dtype[np.float64]]


def methods(constants: Constants, losses: QuadraticLosses) -> dict[str, Method]:
    """All methods, with steps of one length."""
    length = constants.diameter / math.sqrt(2.0 * (losses.linear**2).sum(axis=1).mean())
    schedule = KnownHorizon(2.0 * length, 1.0 / (math.sqrt(2.0) * constants.subgradient_bound))
    found: list[Method] = [
        Algorithm1(schedule),
        Algorithm2(schedule),
        YuNeely(0.5 / length),
        YuanLamperski(length, 3.0),
        Jenatton(length, 6.0),
        Mahdavi(length, 1.0),
        Recoo(2.0 * length),
        SinhaVaze(constants.subgradient_bound),
    ]
    return {method.name: method for method in found}


def growth(sizes: Sequence[float], values: Doubles) -> tuple[float, Doubles]:
    """Return the slope of log mean values (n, R) against log sizes (n,), and what every repetition adds to it (R,)."""
    logs = np.log(np.asarray(sizes, dtype=np.float64))
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    means = values.mean(axis=1)
    return float(weights @ np.log(means)), weights @ (values / means[:, None] - 1.0)


def error(parts: Doubles) -> float:
    """Return the standard error of a mean."""
    return float(parts.std(ddof=1)) / math.sqrt(parts.size)


def say(sizes: Sequence[float], values: Doubles, most: float) -> str:
    """Say how values (n, R) grow, and whether that is at most what is published, within two standard errors."""
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
    found = violation_of(constraint_values(game[0].constraints, points))
    return static_regret(*game, points), found.net, found.cumulative


def measure(bias: float, horizons: Sequence[int], names: Sequence[str], repeats: int) -> tuple[dict[str, Doubles], str]:
    """Return regrets and both violations of every method (3, n, R), and the largest share of a bound."""
    found: dict[str, list[Doubles]] = {name: [] for name in names}
    largest = 0.0
    for horizon in horizons:
        games = [cornered(horizon, seed, bias) for seed in range(repeats)]
        constants = constants_of(*games[0])
        for name, method in methods(constants, games[0][1]).items():
            if name not in names:
                continue
            with ThreadPoolExecutor(2) as pool:
                found[name].append(np.array(list(pool.map(partial(play, method), games))).T)
            bound = None
            if isinstance(method, Algorithm1):
                bound = bounds_of(method.schedule, constants, horizon)
            elif isinstance(method, Algorithm2):
                numbers = method.experts_for(horizon), method.rate_for(horizon)
                bound = expert_bounds(method.schedule, constants, horizon, *numbers)
            if bound is not None:
                worst = found[name][-1].max(axis=1)
                largest = max(largest, worst[0] / bound.regret, worst[2] / bound.violation)
    said = f"largest measured / bound of Algorithms 1 and 2: {largest:.3f}"
    return {name: np.stack(each, axis=1) for name, each in found.items()}, said


def grow(bias: float) -> None:
    """Print exponents with standard errors and verdicts, and the figures at the last horizon."""
    found, said = measure(bias, HORIZONS, list(PUBLISHED), REPEATS)
    print(f"{'':17}{'regret, <=':>12}{'':13}{'violation, <=':>13}{'':13}{'in form (6)':>12}   at T = {HORIZONS[-1]}")
    for name, (regret, violation) in PUBLISHED.items():
        regrets, net, whole = found[name]
        told = net if name in NET else whole
        print(f"{name:17}{regret:.2f} {say(HORIZONS, regrets, regret + 0.1)}", end="  ")
        print(f"{'(3)' if name in NET else '(6)'} {violation:.2f} {say(HORIZONS, told, violation + 0.05)}", end="  ")
        print(f"{growth(HORIZONS, whole)[0]:6.2f}", end="  ")
        print(
            f"{regrets[-1].mean():9.1f} +- {error(regrets[-1]):<6.1f}{whole[-1].mean():9.2f} +- {error(whole[-1]):.2f}"
        )
    print(said)


def lengthen() -> None:
    """Print regrets, violations and local exponents of methods that can be told apart at long horizons."""
    names = ["Algorithm 1", "Yu & Neely", "RECOO", "Sinha & Vaze"]
    found, _ = measure(-1.0, LONG, names, 3)
    constants = constants_of(*cornered(50, 0, -1.0))
    scale = 2.0 * constants.subgradient_bound * constants.diameter  # 1 / beta
    ends = [scale * 2.0 * math.sqrt(T) * math.log(2.0 * math.sqrt(T)) for T in LONG]
    for name in names:
        regrets, _, whole = found[name].mean(axis=2)
        slopes = np.diff(np.log(whole)) / np.diff(np.log(LONG))
        print(f"{name:14} regret   ", *(f"{value:11.1f}" for value in regrets))
        print(f"{'':14} violation", *(f"{value:11.2f}" for value in whole), "  local", *(f"{s:.2f}" for s in slopes))
    slopes = np.diff(np.log(ends)) / np.diff(np.log(LONG))
    print(f"{'2 sqrt(T) log(2 sqrt(T)) / beta':24}", *(f"{value:11.0f}" for value in ends), end="   local ")
    print(*(f"{s:.2f}" for s in slopes), " where exp(lambda Q) lambda = 1: a violation counts as much as a loss")


def follow() -> None:
    """Print how the dynamic regret grows with the path length, and whether Algorithm 1's grows faster."""
    lengths: list[float] = []
    found: dict[str, list[Doubles]] = {"Algorithm 1": [], "Algorithm 2": []}
    for segments in SEGMENTS:
        games = [flipping(PATH_ROUNDS, segments, seed) for seed in range(REPEATS)]
        problems, losses = [game[0] for game in games], [game[1] for game in games]
        best = np.array([losses_at(game[1], game[2]).sum() for game in games])
        gamma = 1.0 / (2.0**0.5 * constants_of(problems[0], losses[0]).subgradient_bound)
        lengths.append(1.0 + path_length(games[0][2]))
        pair: tuple[Method, ...] = (Algorithm1(Anytime(1.0, gamma)), Algorithm2(Anytime(1.0, gamma)))
        for method in pair:
            traces = run_many(method, problems, losses, np.ones(2), n_threads=2)
            found[method.name].append(traces.losses.sum(axis=1) - best)
    print("1 + P_T    ", *(f"{length:8.0f}" for length in lengths), f"  T / 10 = {PATH_ROUNDS // 10}")
    slopes, parts = {}, {}
    for name, regrets in found.items():
        slopes[name], parts[name] = growth(lengths, np.array(regrets))
        print(f"{name:11}", *(f"{each.mean():8.0f}" for each in regrets), end="   ")
        print(f"exponent {slopes[name]:.3f} +- {error(parts[name]):.4f}, from one to the next", end=" ")
        local = np.diff(np.log([each.mean() for each in regrets])) / np.diff(np.log(lengths))
        print(*(f"{each:.2f}" for each in local))
    apart, by = slopes["Algorithm 1"] - slopes["Algorithm 2"], error(parts["Algorithm 1"] - parts["Algorithm 2"])
    print(f"Algorithm 2's within .5 +- .1: {abs(slopes['Algorithm 2'] - 0.5) <= 0.1};", end=" ")
    print(f"Algorithm 1's faster by {apart:.3f} +- {by:.4f}: {apart > 2.0 * by}")


def read() -> None:
    """Print the loss of each reading less Algorithm 1's, paired, and its violation."""
    drawn = [draw_problem(at, ROUNDS, quadratic=True) for at in range(400)]
    problems, losses = [each[0] for each in drawn], [each[1] for each in drawn]
    reference = run_many(QUADRATIC["Algorithm 1"], problems, losses, n_threads=2).losses.sum(axis=1)
    print(f"Algorithm 1: {reference.mean():.0f} +- {error(reference):.0f}")
    for ratio in (1.0, 1.5, 2.0, 3.0):
        method = YuanLamperski(3.0, ratio, strongly_convex=True)
        traces = run_many(method, problems, losses, n_threads=2)
        apart, violation = traces.losses.sum(axis=1) - reference, traces.violations.sum(axis=1).mean()
        print(
            f"theta_t = {3 * ratio:g}/(t + 1): {apart.mean():+.0f} +- {error(apart):.0f} "
            f"({100 * apart.mean() / abs(reference.mean()):+.1f}%), violation {violation:.0f}, "
            f"within 2% in {100 * (abs(apart) <= 0.02 * abs(reference)).mean():.0f}% of the draws of A and b"
        )


if __name__ == "__main__":
    parts: dict[str, Callable[[], None]] = {"signs": partial(grow, 0.0), "biased": partial(grow, -1.0)}
    parts |= {"long": lengthen, "paths": follow, "readings": read}
    for part in sys.argv[1:] or parts:
        print(f"-- {part}")
        parts[part]()
