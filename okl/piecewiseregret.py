"""What a tracker lost beside models that change k times: the best weights of a ball in each of a few runs of windows.

The rows are cut into windows. For every run of them, one window after the other, the best fixed weights of the ball are
found with a proof: a loss, and a number that no weights of the ball fall below. Dynamic programming over the borders
then gives the best k changes,

    best_k(j) = min over i < j of best_(k-1)(i) + loss(i, j),

of losses for the comparator that was found, of lower bounds for what none that changes at k borders falls below. A
change at any other row lies inside a window: with the losses of k windows left out, which are not negative, the same
recursion bounds comparators that change at any k rows.

Source: Herbster & Warmuth, Machine Learning 32, 1998, section 1 (the best partition of the trials into k + 1 parts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.hindsight import TOLERANCE, Hindsight, solve_in_ball
from okl.accelerated.protocol import Certificate
from okl.comparators import HeldRows, Told
from okl.solvers import Standing

PIECES = 10  # windows, whose runs number 55
ENOUGH = 0.01  # of the tracker's loss in a run, for the gap of the run's optimum


@dataclass(frozen=True, eq=False)
class Runs:
    """The best weights of a ball in every run of windows i, ..., j - 1, at [i, j] for i < j <= n.

    borders : (n + 1,) rows at which windows begin, and their number in all
    losses, floors : (n + 1, n + 1), of the weights found, and what no weights of the ball fall below
    played : (n,), the tracker's loss in each window
    """

    borders: NDArray[np.int64]
    losses: NDArray[np.float64]
    floors: NDArray[np.float64]
    played: NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """The tracker beside models with at most k changes.

    changes : k; loss, floor : of the best found, and what none falls below that changes at k borders of windows
    floor_anywhere : what none falls below that changes at any k rows; rows : where the best found changes
    """

    changes: int
    loss: float
    floor: float
    floor_anywhere: float
    rows: tuple[int, ...]

    def as_json(self, played: float) -> dict[str, Any]:
        """Beside the tracker's loss."""
        return {
            "changes": self.changes,
            "comparator_loss": self.loss,
            "regret": played - self.loss,
            "regret_at_most": played - self.floor,
            "regret_at_most_anywhere": played - self.floor_anywhere,
            "rows": list(self.rows),
        }


def chosen_borders(standings: Sequence[Standing], labels: NDArray[np.float64], pieces: int = PIECES) -> list[Standing]:
    """The standings next to the ends of so many windows of alike lengths, the last one at the end.

    Without rows of both classes, labels (rows,) of -1 and +1, a window is one with the next, the last with the one
    before it; empty if there is only one class.
    """
    total = standings[-1].done_rows
    ends = [total * (piece + 1) / pieces for piece in range(pieces)]
    near = [min(standings, key=lambda one: abs(one.done_rows - end)) for end in ends]
    chosen: list[Standing] = []
    first = 0
    for one in dict.fromkeys([*near[:-1], standings[-1]]):
        if np.ptp(labels[first : one.done_rows]) > 0.0:
            chosen.append(one)
            first = one.done_rows
    return [*chosen[:-1], standings[-1]] if chosen else []


def solve_runs(held: HeldRows, standings: Sequence[Standing], radius: float, told: Told | None = None) -> Runs:
    """Solve every run, each from where the one that is a window shorter ended.

    held : rows in the order they were learnt; standings : at the ends of the windows, the last row's the last
    """
    told = told or Told()
    borders = np.array([0, *(one.done_rows for one in standings)], dtype=np.int64)
    sums = np.array([0.0, *(one.surrogate for one in standings)])
    n = len(standings)
    losses, floors = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    name: Literal["hinge", "logistic"] = "hinge" if held.learner.loss.name == "hinge" else "logistic"
    for i in range(n):
        near: Hindsight | None = None
        for j in range(i + 1, n + 1):
            first, last = int(borders[i]), int(borders[j])
            enough = _Enough(float(sums[j] - sums[i]))
            near = solve_in_ball(
                held.between(first, last), name, radius, held.weights_between(first, last), near, enough
            )
            losses[i, j], floors[i, j] = near.certificate.primal, max(0.0, near.certificate.dual)
            told.read(last - first)
    return Runs(borders, losses, floors, np.diff(sums))


def compare(runs: Runs) -> list[Comparison]:
    """Comparators of at most 0, 1, 2, 4, ... changes, as many as there are borders between windows."""
    n = len(runs.played)
    best, places = _best_partitions(runs.losses, n)
    floors, _ = _best_partitions(runs.floors, n)
    anywhere = _floors_anywhere(runs.floors, n)
    counts = sorted(
        {0, n - 1} | {2**power for power in range(math.ceil(math.log2(n))) if 2**power < n} if n > 1 else {0}
    )
    return [
        Comparison(
            k, float(best[k]), float(floors[k]), float(anywhere[k]), tuple(int(runs.borders[i]) for i in places[k])
        )
        for k in counts
    ]


def _best_partitions(losses: NDArray[np.float64], n: int) -> tuple[NDArray[np.float64], list[list[int]]]:
    """Least sums over at most k + 1 runs that follow one another, k = 0 .. n - 1, and the windows where runs begin."""
    best = np.full((n, n + 1), math.inf)
    begin = np.zeros((n, n + 1), dtype=np.int64)
    best[0, 1:] = losses[0, 1:]
    for k in range(1, n):
        best[k] = best[k - 1]  # at most k changes: a change may stay unused
        begin[k] = -1
        for j in range(2, n + 1):
            sums = best[k - 1, 1:j] + losses[1:j, j]
            i = int(sums.argmin())
            if sums[i] < best[k, j]:
                best[k, j], begin[k, j] = sums[i], i + 1
    return best[:, n], [_places(begin, k, n) for k in range(n)]


def _places(begin: NDArray[np.int64], k: int, n: int) -> list[int]:
    places: list[int] = []
    while k > 0:
        if begin[k, n] > 0:
            n = int(begin[k, n])
            places.append(n)
        k -= 1
    return places[::-1]


def _floors_anywhere(floors: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """What no weights that change at any k rows fall below, k = 0 .. n - 1: a window with a change counts for nothing.

    best(k, j) bounds the loss in the windows before j, with k changes within them.
    """
    best = np.full((n, n + 1), math.inf)
    best[0] = floors[0]
    for k in range(1, n):
        best[k] = best[k - 1]
        for j in range(1, n + 1):
            # the last change lies in window c, and a run of whole windows follows it; others may lie in c too
            after = [best[k - 1, c] + floors[c + 1, j] for c in range(j)]
            best[k, j] = min(best[k, j], *after)
    return best[:, n]


@dataclass(frozen=True)
class _Enough:
    """A gap of 1%, or of a hundredth of what it is compared with."""

    played: float

    def __call__(self, certificate: Certificate, iterations: int) -> bool:
        return certificate.relative_gap <= TOLERANCE or certificate.gap <= ENOUGH * self.played
