"""Whole runs: points, losses and violations of one problem, or of many at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from okl.checks import check_at_least
from okl.compiled.ocolosses import violations
from okl.errors import ConfigError
from okl.oco.constraints import Matrix
from okl.oco.losses import Losses, QuadraticLosses
from okl.oco.methods.face import Method
from okl.oco.problem import Problem
from okl.oco.sets import Vector


@dataclass(frozen=True, eq=False)
class Traces:
    """Losses and violations of R runs, by round.

    losses : (R, T), f_t(x_t)
    violations : (R, T), ||[g(x_t)]_+||
    """

    losses: Matrix
    violations: Matrix

    @property
    def cumulative_losses(self) -> Matrix:
        """Sums up to every round, (R, T)."""
        return np.cumsum(self.losses, axis=1)

    @property
    def cumulative_violations(self) -> Matrix:
        """Sums up to every round, (R, T): equation (6)."""
        return np.cumsum(self.violations, axis=1)


def play_rounds(
    method: Method[Any], problem: Problem, losses: Losses, first: Vector | None = None, horizon: int | None = None
) -> Matrix:
    """Play all rounds one by one, for losses and constraints of any kind.

    Parameters
    ----------
    method, problem, losses : who plays, where, against what
    first : (p,) x_1, the point of the set nearest to 0 if None
    horizon : what the method is told; None for the number of losses

    Returns
    -------
    points (n_rounds, p)
    """
    points = np.empty((losses.n_rounds, problem.dimension))
    state = method.start(problem, losses.n_rounds if horizon is None else horizon, first)
    for at in range(losses.n_rounds):
        points[at] = method.play(state)
        state = method.learn(state, losses.subgradient(at, points[at]))
    return points


def trace(method: Method[Any], problem: Problem, losses: QuadraticLosses, first: Vector | None = None) -> Traces:
    """Run once and keep only losses and violations, (1, T) each."""
    return run_many(method, [problem], [losses], first, n_threads=1)


def run_many(
    method: Method[Any],
    problems: Sequence[Problem],
    losses: Sequence[QuadraticLosses],
    first: Vector | None = None,
    n_threads: int = 1,
) -> Traces:
    """Run a method on many problems of as many rounds; the same bits for every number of threads.

    Parameters
    ----------
    method : the same for all
    problems, losses : R of each, of T rounds
    first : (p,) x_1 of all
    n_threads : int >= 1

    Returns
    -------
    Traces, (R, T) each

    Raises
    ------
    ConfigError : not as many problems as losses, or losses of different lengths
    """
    check_at_least("n_threads", n_threads, 1)
    lengths = {each.n_rounds for each in losses}
    if len(problems) != len(losses) or len(lengths) != 1:
        raise ConfigError(
            f"{len(problems)} problems, {len(losses)} losses with {sorted(lengths)} rounds: "
            "give one problem a loss, and losses of one length."
        )
    out = np.empty((2, len(problems), lengths.pop()))

    def one(at: int) -> None:
        points = method.run(problems[at], losses[at], first)
        rows = problems[at].linear
        out[0, at] = losses[at].values(points)
        violations(out[1, at], points, rows.matrix, rows.bounds)

    if n_threads == 1:
        for at in range(len(problems)):
            one(at)
    else:
        with ThreadPoolExecutor(n_threads) as pool:  # compiled runs hold no GIL
            list(pool.map(one, range(len(problems))))
    return Traces(out[0], out[1])
