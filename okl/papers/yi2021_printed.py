"""The algorithms that Yi et al. compare, in plain NumPy as printed: the compiled ones must play the same points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Sizes = Callable[[int], float]  # a number of round t = 1, 2, ...


@dataclass(frozen=True)
class Game:
    """Losses curvature ||x||^2 + <linear_t, x> of n rounds in a box with rows A x <= b.

    linear : (n, p);  matrix : (k, p) A;  bounds : (k,) b;  low, high, first : (p,) the box and x_1
    """

    curvature: float
    linear: Doubles
    matrix: Doubles
    bounds: Doubles
    low: Doubles
    high: Doubles
    first: Doubles

    def slope(self, t: int, point: Doubles) -> Doubles:
        """Return the gradient of the loss of round t = 1, 2, ..., (p,)."""
        slope: Doubles = 2.0 * self.curvature * point + self.linear[t - 1]
        return slope

    def first_rounds(self, number: int) -> Game:
        """Return the game of the first rounds alone."""
        return replace(self, linear=self.linear[:number])

    def excess(self, point: Doubles) -> Doubles:
        """Return g(x) = A x - b, (k,)."""
        excess: Doubles = self.matrix @ point - self.bounds
        return excess

    def descend(self, point: Doubles, slope: Doubles, multipliers: Doubles, step: float) -> Doubles:
        """Return the projection onto the box of a gradient step with the rows times their multipliers, (p,)."""
        moved: Doubles = np.clip(point - step * (slope + self.matrix.T @ multipliers), self.low, self.high)
        return moved


def proximal_step(centre: Doubles, limits: Doubles, game: Game) -> Doubles:
    """Return argmin over the box of ||x - centre||^2 / 2 + <limits, [g(x)]_+>, (2,), in the plane alone.

    All points that can be least are tried: of a smooth piece, on a line where a row or a side is 0, where lines cross.
    """
    normals = np.vstack([game.matrix, np.eye(2), np.eye(2)])
    bounds = np.concatenate([game.bounds, game.low, game.high])
    above = np.array(list(np.ndindex(*(2,) * limits.size)))
    targets = centre - (above * limits) @ game.matrix
    over = (targets @ normals.T - bounds) / (normals**2).sum(axis=1)
    on_lines = targets[:, None, :] - over[:, :, None] * normals
    pairs = [[i, j] for i, j in combinations(range(len(bounds)), 2) if abs(np.linalg.det(normals[[i, j]])) > 1e-12]
    crossings = np.linalg.solve(normals[pairs], bounds[pairs][:, :, None])[:, :, 0]
    inside = np.clip(np.vstack([targets, on_lines.reshape(-1, 2), crossings]), game.low, game.high)
    excess = np.maximum(inside @ game.matrix.T - game.bounds, 0.0)
    least: Doubles = inside[np.argmin(0.5 * ((inside - centre) ** 2).sum(axis=1) + excess @ limits)]
    return least


def queues(
    game: Game,
    alpha: Sizes,
    gamma: Sizes,
    scales: Sequence[float] = (1.0,),
    rate: float = 0.0,
    shared: bool = True,
) -> Doubles:
    """Return the points (n, 2) of Algorithm 2, whose experts scale alpha; with one expert, of Algorithm 1.

    shared : whether all experts have the same gamma, as Table 2 has it, or divide it by the root of their scale
    """
    number = len(scales)
    at = np.arange(1, number + 1)
    weights = (number + 1) / (at * (at + 1) * number)
    experts, sums = np.tile(game.first, (number, 1)), np.zeros((number, game.bounds.size))
    points = [weights @ experts]
    for t in range(1, len(game.linear)):
        slope, before = game.slope(t, points[-1]), experts.copy()
        weights = weights * np.exp(-rate * ((experts - points[-1]) @ slope))
        weights /= weights.sum()
        for i, scale in enumerate(scales):
            share = 1.0 if shared else scale**-0.5
            violation = share * gamma(t) * np.maximum(game.excess(before[i]), 0.0)
            sums[i] += violation
            half = 0.5 * scale * alpha(t)
            limits = half * share * gamma(t + 1) * (sums[i] + violation)
            experts[i] = proximal_step(before[i] - half * slope, limits, game)
        points.append(weights @ experts)
    return np.array(points)


def yu_neely(game: Game, alpha: float, gamma: float, first_queued: bool) -> Doubles:
    """Return the points (n, p); if the first round is not queued, the queue is 0 after it."""
    points, queue = [game.first], np.zeros(game.bounds.size)
    for t in range(1, len(game.linear)):
        excess = gamma * game.excess(points[-1])
        queue = np.maximum(-excess, queue + excess) if t > 1 or first_queued else queue
        multipliers = gamma * (queue + excess)
        points.append(game.descend(points[-1], game.slope(t, points[-1]), multipliers, 0.5 / alpha))
    return np.array(points)


def yuan_lamperski(game: Game, eta: Sizes, theta: Sizes) -> Doubles:
    """Return the points (n, p) with the multipliers [g(x_t)]_+ / theta_t."""
    points = [game.first]
    for t in range(1, len(game.linear)):
        multipliers = np.maximum(game.excess(points[-1]), 0.0) / theta(t)
        points.append(game.descend(points[-1], game.slope(t, points[-1]), multipliers, eta(t)))
    return np.array(points)


def ascent(game: Game, eta: Sizes, theta: Sizes, mu: Sizes) -> Doubles:
    """Return the points (n, p) of Mahdavi et al. and Jenatton et al.: ascent in the multipliers, damped by theta."""
    points, multipliers = [game.first], np.zeros(game.bounds.size)
    for t in range(1, len(game.linear)):
        excess = game.excess(points[-1])
        points.append(game.descend(points[-1], game.slope(t, points[-1]), multipliers, eta(t)))
        multipliers = np.maximum(multipliers + mu(t) * (excess - theta(t) * multipliers), 0.0)
    return np.array(points)


def constant(number: float) -> Sizes:
    """Return the same number in every round."""
    return lambda t: number


def doubled(horizon: int) -> list[float]:
    """Return the factors 2^(i-1) of N = ceil(log2(1 + T) / 2) + 1 experts."""
    return [2.0**i for i in range(math.ceil(0.5 * math.log2(1.0 + horizon)) + 1)]


Player = Callable[[Game], Doubles]


def linear_players(horizon: int) -> Mapping[str, Player]:
    """Return the algorithms of section 4.1 with the numbers of Table 2, by name; alpha_{i,t} with (36)'s 2^(i-1)."""
    root = math.sqrt(horizon)
    algorithm_1 = partial(queues, alpha=constant(2.0 / root), gamma=constant(root**0.5))
    return {
        "Algorithm 1": algorithm_1,
        "Algorithm 2": partial(algorithm_1, scales=doubled(horizon), rate=3.0 / root),
        "Yu & Neely": partial(yu_neely, alpha=root / 4.0, gamma=root**0.5, first_queued=False),
        "Yuan & Lamperski": partial(yuan_lamperski, eta=constant(1.5 / root), theta=constant(0.25 * 1.5 / root)),
        "Jenatton": partial(
            ascent, eta=lambda t: 0.7 / t**0.5, theta=lambda t: 0.01 / t**0.5, mu=lambda t: t**0.5 / (0.01 * (t + 1))
        ),
        "Mahdavi": partial(ascent, eta=constant(0.8 / root), theta=constant(0.4 / root), mu=constant(0.8 / root)),
    }


def quadratic_players(horizon: int) -> Mapping[str, Player]:
    """Return the algorithms of section 4.2 with the numbers of Table 3, by name."""
    return {
        "Algorithm 1": partial(queues, alpha=lambda t: 6.0 / t, gamma=math.sqrt),
        "Yuan & Lamperski": partial(yuan_lamperski, eta=lambda t: 3.0 / (t + 1), theta=lambda t: 4.5 / (t + 1)),
        "Jenatton": partial(
            ascent, eta=lambda t: 2.5 / t, theta=lambda t: 0.001 / t**0.01, mu=lambda t: t**0.01 / (0.001 * (t + 1))
        ),
    }


def growing_players(game: Game) -> Mapping[str, Player]:
    """Return the algorithms of Table 1 with c = 1/2, steps of one length and gamma_0 = 1 / (sqrt(2) G), by name."""
    root, largest = math.sqrt(len(game.linear)), np.linalg.norm(game.linear, axis=1)
    length = float(np.linalg.norm(game.high - game.low)) / math.sqrt(2.0 * float((largest**2).mean()))
    steepest = max(float(largest.max()), float(np.linalg.norm(game.matrix, 2)))
    step, alpha = constant(length / root), 2.0 * length / root
    gamma = 1.0 / (steepest * math.sqrt(2.0 * alpha))
    algorithm_1 = partial(queues, alpha=constant(alpha), gamma=constant(gamma))
    return {
        "Mahdavi": partial(ascent, eta=step, theta=step, mu=step),
        "Jenatton": partial(
            ascent, eta=lambda t: length / t**0.5, theta=lambda t: 6.0 / t**0.5, mu=lambda t: t**0.5 / (6.0 * (t + 1))
        ),
        "Yuan & Lamperski": partial(yuan_lamperski, eta=step, theta=constant(3.0 * length / root)),
        "Yu & Neely": partial(yu_neely, alpha=0.5 * root / length, gamma=root**0.5, first_queued=True),
        "Algorithm 1": algorithm_1,
        "Algorithm 2": partial(algorithm_1, scales=doubled(len(game.linear)), rate=1.0 / root, shared=False),
    }
