"""Slow, obvious twins of okl.compiled.constrained: a cone solver computes each step."""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.constrained import LimitCounters, Limits
from okl.compiled.fourier import Waves
from okl.compiled.sgd import LearnerArrays, SummedGradients, UpdateRule
from okl.compiled.threads import Block
from okl.foundation.types import FloatArray
from tests.naive.fourier import map_block, score_block
from tests.naive.sgd import count, learn_block, loss_of, slopes_of, sum_block, value_of

# Steps, by a cone solver.

Vector = NDArray[np.float64]


def step(point: Vector, rows: Vector, low: Vector, high: Vector, below: Vector, above: Vector, radius: float) -> Vector:
    """Minimise over ||x|| <= radius ||x - point||^2 + above'[rows x - high]_+ + below'[low - rows x]_+, (p,)."""
    sides = [(rows[i], high[i], above[i]) for i in range(len(rows)) if above[i] > 0 and np.isfinite(high[i])]
    sides += [(-rows[i], -low[i], below[i]) for i in range(len(rows)) if below[i] > 0 and np.isfinite(low[i])]
    size, count = len(point), len(sides)
    cost = np.concatenate([-2 * point, [price for _, _, price in sides]])
    curvature = sparse.diags_array(np.concatenate([np.full(size, 2.0), np.zeros(count)]), format="csc")
    matrix = np.zeros((2 * count + size + 1, size + count))
    bounds = np.zeros(2 * count + size + 1)
    for k, (row, limit, _) in enumerate(sides):
        matrix[k, :size], matrix[k, size + k], bounds[k] = row, -1.0, limit  # row x - excess <= limit
        matrix[count + k, size + k] = -1.0
    bounds[2 * count] = radius
    matrix[2 * count + 1 :, :size] = -np.eye(size)
    cones: list[Any] = [clarabel.NonnegativeConeT(2 * count)] if count else []
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones.append(clarabel.SecondOrderConeT(size + 1))
    solver = clarabel.DefaultSolver(curvature, cost, sparse.csc_matrix(matrix), bounds, cones, settings)
    found: Vector = np.array(solver.solve().x[:size])
    return found


def learn_constrained_block(
    learnt: LearnerArrays, watched: LimitCounters, block: Block, targets: Vector, rule: UpdateRule, limits: Limits
) -> None:
    """Concatenate the weights of all outputs; every output has its own constraint rows, with zeros for the others.

    Each expert has one weight vector, queues and values.
    """
    count_of, shares = len(watched.shares), watched.shares
    loss, size = loss_of(rule.code, rule.epsilon), learnt.weights.size // count_of
    shape = (len(learnt.weights) // count_of, learnt.weights.shape[1])
    rows = np.kron(np.eye(shape[0]), limits.rows.astype(np.float64))
    sides, high = limits.signs[:, None] * rows[limits.owners], limits.sides.bounds
    low, free = np.full(len(high), -np.inf), np.zeros(len(high))
    queues, experts = watched.queues.reshape(count_of, -1), learnt.weights.reshape(count_of, size)  # views
    for z, y in zip(np.concatenate([block.left, block.right], axis=1).astype(np.float64), targets, strict=True):
        before = experts.astype(np.float64)
        w = shares @ before
        f = w.reshape(shape) @ z
        weight, t = rule.class_weights[count(learnt, loss, f, y)], int(learnt.counts[0])
        steps = [rule.step_size / np.sqrt(s) if rule.decaying else rule.step_size for s in (t, t + 1)]
        outside = np.maximum(sides @ w - high, 0.0) * limits.units[limits.owners]
        watched.violation[0] += np.linalg.norm(outside.reshape(len(f), -1), axis=1).max()
        gradient = weight * np.outer(slopes_of(loss, f, y), z).reshape(size)
        learnt.sums[3] += weight * value_of(loss, f, y)
        learnt.sums[4] += steps[0] * (gradient @ gradient)
        learnt.counts[3] += bool(np.any(gradient != 0))
        for i, v in enumerate(before):
            alpha, next_alpha = (2.0**i * 2 * step for step in steps)
            gamma, following = limits.gain / np.sqrt(alpha), limits.gain / np.sqrt(next_alpha)
            gamma = limits.gain * t**0.55 if limits.rectified else gamma
            clipped = gamma * np.maximum(sides @ v - high, 0.0)
            queues[i] += clipped
            if limits.rectified:
                queues[i] = np.maximum(queues[i], np.sqrt(t))
            caps = alpha * gamma * queues[i] if limits.rectified else alpha * following * (queues[i] + clipped)
            experts[i] = step(v - alpha * gradient / 2, sides, low, high, free, caps, rule.radius)
        shares[...] = shares * np.exp(-limits.rate * (before - w) @ gradient)
        shares /= shares.sum()
        if rule.sample_every and t % rule.sample_every == 0:
            learnt.total[...] += t // rule.sample_every * learnt.weights.astype(np.float64)
            learnt.counts[4] += t // rule.sample_every
    watched.values[...] = (experts @ rows.T).ravel()


# Loops over rows: all rows in one block, by one thread.


def mapped(inputs: FloatArray, waves: Waves) -> Block:
    shape = (len(inputs), waves.n_frequencies)
    block = Block(np.empty(shape, dtype=inputs.dtype), np.empty(shape, dtype=inputs.dtype))
    map_block(block, inputs, waves)
    return block


def learn_fourier(
    learnt: LearnerArrays, inputs: FloatArray, targets: NDArray[np.float64], waves: Waves, rule: UpdateRule
) -> None:
    learn_block(learnt, mapped(inputs, waves), targets, rule)


def sum_fourier(
    summed: SummedGradients,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    weights: FloatArray,
    rule: UpdateRule,
) -> None:
    block = mapped(inputs, waves)
    scores = np.empty((len(inputs), len(weights)), dtype=inputs.dtype)
    score_block(scores, block, weights)
    sum_block(summed, block, scores, targets, rule)
