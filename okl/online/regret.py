"""Regret of projected gradient descent, and the bounds that theory puts on it: numbers in, numbers out.

Legend: T rows played, w_t the weights that row t was predicted with, g_t the subgradient of its loss there, u
weights of the ball to compare with, eta_t the step at row t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CERTAINTY = 0.95
_LARGEST_ERROR = 2.0  # of inner products of rows of length 1 as a kernel's values in [0, 1]: 2 holds for certain


@dataclass(frozen=True)
class Steps:
    """eta_t = size, or size / sqrt(t)."""

    size: float
    decaying: bool

    def at(self, row: int) -> float:
        """eta_t; row : t, from 1."""
        return self.size / math.sqrt(row) if self.decaying else self.size


@dataclass(frozen=True)
class Played:
    """What a learner did on its first rows.

    rows : T >= 1; loss : sum of the losses; squared_gradients, stepped_gradients : sums of ||g_t||^2, eta_t ||g_t||^2
    """

    rows: int
    loss: float
    squared_gradients: float
    stepped_gradients: float


def map_space_bound(played: Played, steps: Steps, radius: float, comparator_norm: float) -> float:
    """What the regret against weights u of the ball cannot exceed.

    Constant steps:  ||u||^2 / (2 eta) + eta / 2 sum ||g_t||^2
    decaying steps:  ||u||^2 / (2 eta_1) + (radius + ||u||)^2 / 2 (1 / eta_T - 1 / eta_1) + 1/2 sum eta_t ||g_t||^2

    as <g_t, w_t - u> <= (||w_t - u||^2 - ||w_(t+1) - u||^2) / (2 eta_t) + eta_t / 2 ||g_t||^2, where projecting onto a
    ball that holds u brings w no further from it. Summed, ||w_1 - u|| = ||u|| and every other ||w_t - u|| is at most
    radius + ||u||, in place of the diameter.

    Parameters
    ----------
    radius : of the ball; comparator_norm : ||u|| <= radius

    Source: Zinkevich, ICML 2003, Theorem 1 and its proof; Lu et al., JMLR 17(47), 2016, (5).
    """
    first, last = steps.at(1), steps.at(played.rows)
    start = comparator_norm**2 / (2.0 * first)
    shrinking = 0.5 * (radius + comparator_norm) ** 2 * (1.0 / last - 1.0 / first)
    return start + shrinking + 0.5 * played.stepped_gradients


def constrained_bound(played: Played, steps: Steps, radius: float, comparator_norm: float) -> float:
    """The same of Algorithm 1 of Yi et al. against weights within its limits, with alpha_t = 2 eta_t.

    Its regret is at most the sum of (||u - w_t||^2 - ||u - w_(t+1)||^2) / alpha_t and of alpha_t / 2 ||g_t||^2, which
    stands here for (1 / 2) G^2 alpha_t, as (41) needs no more of G than that: half of the way of a step belongs to its
    constraints. The first sum is that of map_space_bound, with 2 eta_t for alpha_t.

    Source: Yi et al., ICML 2021, Lemma 1, (13), and Lemma 4 in its proof; stated for gamma_0 <= 1 / (sqrt(2) G) and
    constraints that stay, which it is claimed for. Weights u keep to the limits less their margins, as g has them.
    """
    return map_space_bound(played, steps, radius, comparator_norm) + 0.5 * played.stepped_gradients


def growth_exponent(rows: NDArray[np.float64], regrets: NDArray[np.float64]) -> float | None:
    """Slope of log(regret) against log(rows) by least squares; None with fewer than two horizons or a regret <= 0."""
    if len(rows) < 2 or (regrets <= 0.0).any():
        return None
    slope, _ = np.polyfit(np.log(rows), np.log(regrets), 1)
    return float(slope)


@dataclass(frozen=True)
class KernelSetting:
    """What the bound in the space of the kernel depends on, beside the steps.

    n_inputs : d; n_frequencies : D; diameter : of a ball that holds the data, in units of the inputs
    second_moment : sigma_p^2 = E ||u||^2 of the spectral density, infinite where it has none
    lipschitz : L of the loss by the score; l1_norm : sum of |alpha_t|, f = sum_t alpha_t k(x_t, .) to compare with
    """

    n_inputs: int
    n_frequencies: int
    diameter: float
    second_moment: float
    lipschitz: float
    l1_norm: float


@dataclass(frozen=True)
class KernelBound:
    """Theorem 1 at T rows: the bound holds with at least this probability if kernel values are off by epsilon at most.

    vacuous : whether it says nothing: regret is below the learner's own loss anyway, as no loss is negative
    """

    bound: float
    epsilon: float
    probability: float
    vacuous: bool


def kernel_space_bound(played: Played, step: float, setting: KernelSetting) -> KernelBound:
    """(1 + epsilon) ||f||_1^2 / (2 eta) + eta / 2 L^2 T + epsilon L T ||f||_1, of the least epsilon 95% certain.

    The map is scaled to ||z|| = 1 here. The theorem's probability is 1 - 2^8 (sigma_p diameter / epsilon)^2
    exp(-D epsilon^2 / (4 (d + 2))). An epsilon of 2 holds for certain, whatever the map.

    Parameters
    ----------
    step : eta; where steps decay the last one, the longest for which no step was smaller

    Source: Lu et al., JMLR 17(47), 2016, Theorem 1 (Theorem 3 for several classes); Rahimi & Recht, NIPS 2007, Claim 1.
    """
    epsilon = _least_error(setting)
    rows, norm, lipschitz = played.rows, setting.l1_norm, setting.lipschitz
    bound = (
        (1.0 + epsilon) * norm**2 / (2.0 * step) + 0.5 * step * lipschitz**2 * rows + epsilon * lipschitz * rows * norm
    )
    certain = epsilon >= _LARGEST_ERROR
    return KernelBound(bound, epsilon, 1.0 if certain else CERTAINTY, not bound < played.loss)


def _least_error(setting: KernelSetting) -> float:
    """The smallest epsilon of probability CERTAINTY, by bisection: the probability grows with it; at most 2."""
    low, high = 0.0, _LARGEST_ERROR
    if _log_failure(high, setting) > math.log(1.0 - CERTAINTY):
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_failure(middle, setting) > math.log(1.0 - CERTAINTY) else (low, middle)
    return high


def _log_failure(epsilon: float, setting: KernelSetting) -> float:
    spread = math.sqrt(setting.second_moment) * setting.diameter
    if epsilon <= 0.0 or math.isinf(spread):
        return math.inf
    if spread == 0.0:
        return -math.inf
    decay = setting.n_frequencies * epsilon**2 / (4.0 * (setting.n_inputs + 2))
    return 8.0 * math.log(2.0) + 2.0 * math.log(spread / epsilon) - decay
