"""The caller's side of a sample that lies in shards: a point, cuts, and two rounds an iteration.

One round goes down with a direction and some steps, and comes up with the losses and their slopes at these steps; the
other goes down with the step that is taken, and comes up with a cut. The square of the norm is known here.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.accelerated.sharded.beside import Beside
from okl.accelerated.sharded.rounds import Log, Rounds
from okl.execution.protocol import Execution
from okl.store.dataset import Shard
from okl.subgradient.directions import Directions, Point
from okl.subgradient.explicit import ExplicitRows
from okl.subgradient.scs import Scs
from okl.subgradient.sharded.beside import OpenSample
from okl.subgradient.sharded.commands import Cut, Drawn, Moved, Place, Slopes
from okl.subgradient.sharded.search import Quadratic, Search
from okl.subgradient.vectors import Vector
from okl.types import FloatArray

LONGEST = 1.5  # step, of the way to the minimum of a bundle's model
MOST_LOOKS = 4  # between trial steps along a direction that says nothing of its length
MOST_STEPS = 32  # taken one after the other; then scores are computed anew, and a lost shard begins there
_EPSILON = float(np.finfo(np.float64).eps)
_STALLED = 10  # iterations without a fall or a rise, at the end of what float64 can tell apart


@dataclass(frozen=True, eq=False)
class Descent:
    """Where the solution of a sample stands; a value. Losses are means over the rows of the sample.

    shares : through which the sample grew; n_rows : in it
    weights : the best point, (n_columns,) or (n_outputs, n_columns) float64; losses : there
    lower_bound : of the sampled objective, -inf before the first cut
    directions : cuts of this sample, and where to search next; search : how far
    direction : that the shards hold last; steps : taken since scores were computed
    iterations : of all samples; idle : in which nothing changed, up to now
    """

    lam: float
    shares: tuple[float, ...]
    n_rows: int
    weights: FloatArray
    losses: float
    lower_bound: float
    directions: Directions
    search: Search
    direction: FloatArray
    steps: int
    iterations: int
    idle: int
    log: Log
    work: Beside

    @property
    def objective(self) -> float:
        """At the best point, on the sample."""
        return self.losses + 0.5 * self.lam * squared(self.weights)

    @property
    def gap(self) -> float:
        """Of the sampled problem, >= 0."""
        return max(0.0, self.objective - self.lower_bound)

    @property
    def exhausted(self) -> bool:
        """Whether objective and bound are as close as float64 can tell, or nothing changes any more."""
        floor = 16.0 * _EPSILON * (abs(self.objective) + abs(self.lower_bound))
        return self.idle >= _STALLED or self.gap <= floor

    def rounds(self, execution: Execution) -> Rounds:
        """Asks the shards from here on."""
        return Rounds(execution, shards_of(self.work), self.work, self.log)


def shards_of(work: Beside) -> tuple[Shard, ...]:
    """The shards whose rows are drawn."""
    opening: Any = work.opened
    assert isinstance(opening, OpenSample)
    return opening.rows.data.split("train")


def squared(weights: FloatArray) -> float:
    """Its length, squared."""
    return float(np.vdot(weights, weights))


def place(
    work: Beside, log: Log, shares: tuple[float, ...], weights: FloatArray, execution: Execution
) -> tuple[Drawn, Log]:
    """Have all shards draw the sample, and compute the scores of a point there: one read."""
    rounds = Rounds(execution, shards_of(work), work, log)
    command = Place(shares, weights)
    parts: list[Drawn] = rounds.ask(command)
    rounds.settle("keep", command, last_only=True)
    return added(parts), rounds.log


def added(parts: list[Drawn]) -> Drawn:
    """The sum over shards, in their order."""
    least = min(part.targets[0] for part in parts)
    return Drawn(
        sum(part.old_rows for part in parts),
        sum(part.old_losses for part in parts),
        sum(part.new_rows for part in parts),
        sum(part.new_losses for part in parts),
        sum(part.bytes_read for part in parts),
        (least, max(part.targets[1] for part in parts)),
    )


def begin(
    method: Scs,
    shares: tuple[float, ...],
    weights: FloatArray,
    drawn: Drawn,
    iterations: int,
    placed: tuple[Beside, Log],
    execution: Execution,
) -> Descent:
    """The first cut of a sample, at a point that was placed there."""
    n_rows, lam = drawn.old_rows + drawn.new_rows, method.lam
    losses, nothing = (drawn.old_losses + drawn.new_losses) / n_rows, np.zeros_like(weights)
    longest = LONGEST if method.directions == "bundle" else 1.0 / lam
    search = Search(longest, 0 if method.directions == "bundle" else MOST_LOOKS)
    work, log = placed
    directions = method.new_directions()
    at = Descent(
        lam, shares, n_rows, weights, losses, -np.inf, directions, search, nothing, 0, iterations, 0, log, work
    )
    return _cut(at, 0.0, 0.0, execution)


def iterate(at: Descent, execution: Execution) -> Descent:
    """One direction, one step, one cut: two rounds, two reads of the rows."""
    at = replace(at, directions=deepcopy(at.directions))  # a descent is a value
    if at.steps >= MOST_STEPS:
        _, log = place(at.work, at.log, at.shares, at.weights, execution)
        at = replace(at, log=log, steps=0)
    direction = at.directions.propose(_point(at), _no_rows(at.weights)).vector.coefficients
    rounds = at.rounds(execution)
    cross, curvature = at.lam * float(np.vdot(at.weights, direction)), at.lam * squared(direction)
    step = at.search.step(direction, Quadratic(at.losses, cross, curvature, at.n_rows), rounds)
    before = at.objective, at.lower_bound
    further = at.directions.ahead * (1.0 - step) if step < 1.0 else 0.0
    moved = replace(
        at,
        weights=at.weights + step * direction,
        direction=direction,
        steps=at.steps + 1,
        iterations=at.iterations + 1,
        log=rounds.log,
    )
    after = _cut(moved, step, further, execution)
    same = (after.objective, after.lower_bound) == before
    return replace(after, idle=at.idle + 1 if same else 0)


def _cut(at: Descent, step: float, further: float, execution: Execution) -> Descent:
    """Take a step that `at` has taken already, and a cut further on; writes into the directions."""
    rounds = at.rounds(execution)
    parts: list[Slopes] = rounds.ask(Cut(step, further))
    if at.direction.any():
        rounds.settle("keep", Moved(at.direction, step))
    else:
        rounds.forget_pending()
    gathered = parts[0].gathered.copy()
    for part in parts[1:]:
        gathered += part.gathered
    gathered /= at.n_rows
    intercept = sum(part.intercepts for part in parts) / at.n_rows
    bound = at.directions.add(Vector(gathered, gathered), intercept, _point(at))
    losses = sum(part.losses for part in parts) / at.n_rows
    return replace(at, losses=losses, lower_bound=max(at.lower_bound, bound), log=rounds.log)


def _point(at: Descent) -> Point:
    """The best point as directions take it; its scores are with the shards."""
    scores = np.zeros(1) if at.weights.ndim == 1 else np.zeros((1, len(at.weights)))
    return Point(Vector(at.weights, at.weights), scores, squared(at.weights))


def _no_rows(weights: FloatArray) -> ExplicitRows:
    """A row of zeros in place of those that are elsewhere: no score of it says anything."""
    return ExplicitRows(np.zeros((1, weights.shape[-1])), 1 if weights.ndim == 1 else len(weights))
