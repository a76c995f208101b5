"""Slow, obvious twins of okl.compiled.experts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.expert_weights import ExpertRule
from okl.compiled.experts import ExpertPredictions, Team, Teams
from okl.compiled.threads import Block
from okl.foundation.types import FloatArray
from tests.naive.fourier import unpacked
from tests.naive.sgd import loss_of

# Maps of several bandwidths: each sine separately.


def mapped(inputs: FloatArray, teams: Teams, m: int, n_frequencies: int) -> Block:
    """Return the features of a multiple of a base map, each sine separately."""
    half_turns = unpacked(teams.panels[teams.base[m]], n_frequencies).astype(np.float64) * 2.0 ** teams.octave[m]
    angles = np.pi * (inputs.astype(np.float64) @ half_turns)
    return Block(teams.amplitude * np.sin(angles), teams.amplitude * np.cos(angles))


def double_angles(sines: FloatArray, cosines: FloatArray, amplitude: float) -> None:
    angles = 2 * np.arctan2(sines.astype(np.float64), cosines.astype(np.float64))
    sines[...], cosines[...] = amplitude * np.sin(angles), amplitude * np.cos(angles)


# Learners: averages are sums of all weights so far.

LEAST_SQUARE = 1e-30


class History:
    """The weights of one learner after each row, and their average with the weights i^4 - (i - 1)^4."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.total, self.last, self.rows = np.zeros_like(weights), weights, 0

    @property
    def averaged(self) -> NDArray[np.float64]:
        return self.total / self.rows**4 if self.rows else self.last

    def add(self, weights: NDArray[np.float64]) -> None:
        self.rows += 1
        self.last = weights
        self.total = self.total + (self.rows**4 - (self.rows - 1) ** 4) * weights


def prediction_of(scores: NDArray[np.float64], multiclass: bool) -> float:
    return float(np.argmax(scores)) if multiclass else float(scores[0])


def learn_team(
    results: ExpertPredictions,
    team: Team,
    block: Block,
    targets: NDArray[np.float64],
    cautions: FloatArray,
    rule: ExpertRule,
) -> NDArray[np.float64]:
    """Learn from weights of zero; returns the averages (T, K, columns), which the compiled one never forms."""
    features = np.concatenate([block.left, block.right], axis=1).astype(np.float64)
    loss = loss_of(rule.code, rule.epsilon)
    multiclass = loss.task == "multiclass"
    n_steps, n_outputs = team.weights.shape[:2]
    results.stepped[:] = 0
    averages = []
    for t in range(n_steps):
        history = History(np.zeros((n_outputs, features.shape[1])))
        squares = np.zeros_like(history.last)
        for row, (z, y) in enumerate(zip(features, targets, strict=True)):
            scores = history.last @ z
            results.predictions[row, t] = (
                prediction_of(scores, multiclass),
                prediction_of(history.averaged @ z, multiclass),
            )
            slopes = loss.derivative(scores[None] if multiclass else scores, np.array([y])).ravel()
            label = int(y) if multiclass else int(y > 0 and loss.task == "binary")
            gradient = rule.class_weights[label] * np.outer(slopes, z)
            if gradient.any():
                results.stepped[row] = 1
            if team.squares.size:
                squares += gradient**2
                change = -team.steps[t] * cautions[row] * gradient / np.sqrt(squares + LEAST_SQUARE)
            else:
                change = -team.steps[t] * cautions[row] * gradient
            history.add(history.last + change)
        halves = np.split(history.last, [block.left.shape[1]], axis=1)[: team.weights.shape[2]]
        for half, part in enumerate(halves):
            team.weights[t, :, half, : part.shape[1]] = part
        averages.append(history.averaged)
    return np.array(averages)
