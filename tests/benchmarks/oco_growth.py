"""How regret and violation grow with the horizon and with the path length, and how far they stay below the bounds.

    python -m tests.benchmarks.oco_growth [horizons|paths|readings ...]

horizons : random signs in a box with two constraints, where no learner beats sqrt(T); T = 500 .. 50000, gamma_0 at the
    edge of its range; means of 20 repetitions; the rivals with the steps of Table 1's bounds, which theirs stay below.
paths : signs with a bias that turns round, T = 20000; dynamic regret against the best of every segment.
readings : section 4.2 with other readings of Yuan & Lamperski, against Algorithm 1's loss.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from okl.oco import Anytime, KnownHorizon, run_many
from okl.oco.bounds import bounds_of, constants_of, expert_bounds
from okl.oco.methods.algorithm1 import Algorithm1
from okl.oco.methods.algorithm2 import Algorithm2
from okl.oco.methods.face import Method
from okl.oco.methods.jenatton import Jenatton
from okl.oco.methods.mahdavi import Mahdavi
from okl.oco.methods.recoo import Recoo
from okl.oco.methods.sinhavaze import SinhaVaze
from okl.oco.methods.yuanlamperski import YuanLamperski
from okl.oco.methods.yuneely import YuNeely
from okl.oco.metrics import growth_exponent, losses_at, path_length
from okl.oco.optima import static_optimum
from okl.reproduction.yi2021.algorithms import QUADRATIC
from okl.reproduction.yi2021.problems import ROUNDS, draw_problem
from tests.oco.streams import cornered, flipping

REPEATS = 20
HORIZONS = (500, 2000, 8000, 50000)
SEGMENTS = (2, 6, 20, 60, 200, 900)
PATH_ROUNDS = 20000
PUBLISHED = {  # growth of regret and of violation, of Table 1 with c = 1/2
    "Algorithm 1": (0.5, 0.25), "Algorithm 2": (0.5, 0.5), "Yu & Neely": (0.5, 0.25),
    "Yuan & Lamperski": (0.5, 0.75), "Jenatton": (0.5, 0.75), "Mahdavi": (0.5, 0.75),
    "RECOO": (0.5, 0.0), "Sinha & Vaze": (0.5, 0.5),
}  # fmt: skip


def methods(gamma: float, steepest: float) -> dict[str, Method[Any]]:
    """All methods with steps of one length where that can be said."""
    found: list[Method[Any]] = [
        Algorithm1(KnownHorizon(1.0, gamma)),
        Algorithm2(KnownHorizon(1.0, gamma)),
        YuNeely(1.0),
        YuanLamperski(0.5, 3.0),
        Jenatton(0.5, 6.0),
        Mahdavi(0.5, 1.0),
        Recoo(1.0),
        SinhaVaze(steepest),
    ]
    return {method.name: method for method in found}


def grow() -> None:
    """Print exponents over the horizons, and the largest ratio of measured to bound of Algorithms 1 and 2."""
    regrets: dict[str, list[float]] = {name: [] for name in PUBLISHED}
    violations: dict[str, list[float]] = {name: [] for name in PUBLISHED}
    ratio = 0.0
    for horizon in HORIZONS:
        games = [cornered(horizon, seed) for seed in range(REPEATS)]
        problems, losses = [game[0] for game in games], [game[1] for game in games]
        best = np.array([losses_at(loss, static_optimum(problem, loss)[None, :]).sum() for problem, loss in games])
        constants = constants_of(problems[0], losses[0])
        gamma = 1.0 / (2.0**0.5 * constants.subgradient_bound)
        for name, method in methods(gamma, constants.subgradient_bound).items():
            traces = run_many(method, problems, losses, np.ones(2), n_threads=2)
            regrets[name].append(float((traces.losses.sum(axis=1) - best).mean()))
            violations[name].append(float(traces.violations.sum(axis=1).mean()))
            worst = (traces.losses.sum(axis=1) - best).max(), traces.violations.sum(axis=1).max()
            if isinstance(method, Algorithm1):
                bound = bounds_of(method.schedule, constants, horizon)
                ratio = max(ratio, worst[0] / bound.regret, worst[1] / bound.violation)
            elif isinstance(method, Algorithm2):
                numbers = method.experts_for(horizon), method.rate_for(horizon)
                bound = expert_bounds(method.schedule, constants, horizon, *numbers)
                ratio = max(ratio, worst[0] / bound.regret, worst[1] / bound.violation)
    print(f"{'':18}{'regret':>9}{'<=':>6}{'violation':>11}{'<=':>6}   regret, violation at T = {HORIZONS[-1]}")
    for name, (regret, violation) in PUBLISHED.items():
        slopes = growth_exponent(HORIZONS, regrets[name]), growth_exponent(HORIZONS, violations[name])
        print(f"{name:18}{slopes[0]:9.2f}{regret:6.2f}{slopes[1]:11.2f}{violation:6.2f}", end="   ")
        print(f"{regrets[name][-1]:.4g}, {violations[name][-1]:.4g}")
    print(f"largest measured / bound of Algorithms 1 and 2: {ratio:.3f}")


def follow() -> None:
    """Print how the dynamic regret grows with the path length."""
    lengths: list[float] = []
    found: dict[str, list[float]] = {"Algorithm 1": [], "Algorithm 2": []}
    for segments in SEGMENTS:
        games = [flipping(PATH_ROUNDS, segments, seed) for seed in range(REPEATS)]
        problems, losses = [game[0] for game in games], [game[1] for game in games]
        best = [losses_at(game[1], game[2]).sum() for game in games]
        gamma = 1.0 / (2.0**0.5 * constants_of(problems[0], losses[0]).subgradient_bound)
        lengths.append(1.0 + path_length(games[0][2]))
        pair: tuple[Method[Any], ...] = (Algorithm1(Anytime(1.0, gamma)), Algorithm2(Anytime(1.0, gamma)))
        for method in pair:
            traces = run_many(method, problems, losses, np.ones(2), n_threads=2)
            found[method.name].append(float((traces.losses.sum(axis=1) - best).mean()))
    print("1 + P_T       ", *(f"{length:9.0f}" for length in lengths))
    for name, values in found.items():
        print(f"{name:14}", *(f"{value:9.0f}" for value in values), f"  slope {growth_exponent(lengths, values):.2f}")


def read() -> None:
    """Print the loss of each reading less Algorithm 1's, paired, and its violation."""
    drawn = [draw_problem(at, ROUNDS, quadratic=True) for at in range(400)]
    problems, losses = [each[0] for each in drawn], [each[1] for each in drawn]
    reference = run_many(QUADRATIC["Algorithm 1"], problems, losses, n_threads=2).losses.sum(axis=1)
    print(f"Algorithm 1: {reference.mean():.0f} +- {reference.std(ddof=1) / 20:.0f}")
    for ratio in (1.0, 1.5, 2.0, 3.0):
        method = YuanLamperski(3.0, ratio, strongly_convex=True)
        traces = run_many(method, problems, losses, n_threads=2)
        apart, violation = traces.losses.sum(axis=1) - reference, traces.violations.sum(axis=1).mean()
        print(
            f"theta_t = {3 * ratio:g}/(t + 1): {apart.mean():+.0f} +- {apart.std(ddof=1) / 20:.0f} "
            f"({100 * apart.mean() / abs(reference.mean()):+.1f}%), violation {violation:.0f}, "
            f"within 2% in {100 * (abs(apart) <= 0.02 * abs(reference)).mean():.0f}% of the draws of A and b"
        )


if __name__ == "__main__":
    parts = {"horizons": grow, "paths": follow, "readings": read}
    for part in sys.argv[1:] or parts:
        parts[part]()
