"""Losses under a bound on a p-norm of the weights, for p in (1, infinity): the dual of (8).

Minimise radius ||A a||_q + separable(a) + region(a), 1 / p + 1 / q = 1. The norm has no derivative at 0, and for q < 2
an unbounded second one wherever an entry of A a is 0. It is smoothed as the largest <A a, w> - width / 2 ||w||^2 over
||w||_p <= radius, whose gradient is that w, a projection; `width` falls level by level as the gap takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators import DenseRows, SparseRows
from okl.accelerated.protocol import Certificate, Solution, SweepArguments, Swept
from okl.accelerated.regions import Region
from okl.accelerated.risks import Risk
from okl.accelerated.separable import Separable
from okl.types import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
_MOST_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class NormBallProblem:
    """The smoothed dual of a margin model under a norm's bound.

    Parameters
    ----------
    rows : explicit; the image of a point is A a (n_columns,)
    separable, region, risk, first, intercept : as of the model's own dual
    power : p; radius : lambda > 0
    width : > 0, of the smoothing, in units of A a over those of w

    Source: Ito et al., 2017, (8), (10) and (25), which gives the w of radius 1; smoothing as in Nesterov, Mathematical
    Programming 103, 2005, section 2.
    """

    rows: DenseRows | SparseRows
    separable: Separable
    region: Region
    risk: Risk
    first: FloatArray
    intercept: bool
    power: float
    radius: float
    width: float

    @property
    def n_points(self) -> int:
        """Rows."""
        return self.rows.n_points

    @property
    def n_image(self) -> int:
        """Columns."""
        return self.rows.n_image

    @property
    def first_lipschitz(self) -> float:
        """The longest row's, were the ball far away: most probably too large, and let fall."""
        return max(float(self.rows.squared_lengths().max()) / self.width * 1e-3, float(np.finfo(np.float32).tiny))

    def start(self) -> FloatArray:
        """The first point, (m,)."""
        return self.first.copy()

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out by A a."""
        self.rows.image(out, point)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m,) by the margins A'w of the image's w."""
        self.rows.pull(out, self.weights_of(image))

    def weights_of(self, image: FloatArray) -> NDArray[np.float64]:
        """The w that the smoothed norm is attained at: the gradient by A a."""
        return project_norm_ball(image / self.width, self.power, self.radius)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """The smoothed norm and the separable part."""
        weights = self.weights_of(image)
        return float(image @ weights) - 0.5 * self.width * float(weights @ weights) + self.separable.value(point)

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """Overwrite out (m,), which may be `pulled`."""
        out[:] = pulled
        self.separable.add_slopes(out, point)

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        """<v - width (w + w_b) / 2, w - w_b>, and what the separable part adds."""
        weights, at_weights = self.weights_of(image), self.weights_of(at_image)
        middle = image - 0.5 * self.width * (weights + at_weights)
        return max(0.0, float(middle @ (weights - at_weights))) + self.separable.excess(point, at)

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """The prox of the region."""
        self.region.prox(out, point, lipschitz)

    def penalty(self, point: FloatArray) -> float:
        """What the region adds to a feasible point, 0 for a set."""
        return self.region.value(point)

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Gap between the point and its w, with the model's own bias, by the norm without smoothing."""
        bias = self.risk.best_bias(pulled) if self.intercept else 0.0
        risk = self.risk.value(pulled, bias)
        norm = self.radius * norm_of(image, self.power / (self.power - 1.0))
        separable = self.separable.value(point) + self.region.value(point)
        return Certificate(
            primal=risk,
            dual=-(norm + separable),
            floor=max(0.0, norm - float(image @ self.weights_of(image))),
            bias=bias,
            rounding=8.0 * _EPSILON * (abs(risk) + norm + abs(separable)),
        )

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        """The w of the certificate."""
        return Solution(self.weights_of(image), certificate.bias, certificate)

    def sweep(self, given: SweepArguments) -> Swept | None:
        """None: w depends on all rows."""
        return None

    def at_level(self, level: int) -> NormBallProblem:
        """Smoothed ten times less a level."""
        return replace(self, width=self.width * 0.1**level)


def norm_of(vector: FloatArray, power: float) -> float:
    """||v||_power, without overflow."""
    largest = float(np.abs(vector).max())
    return largest * float(np.sum((np.abs(vector) / largest) ** power)) ** (1.0 / power) if largest > 0.0 else 0.0


def project_norm_ball(vector: FloatArray, power: float, radius: float) -> NDArray[np.float64]:
    """The nearest point w of ||w||_p <= radius, for p in (1, infinity).

    Where the vector z is outside, |w_j| + theta |w_j|^(p - 1) = |z_j|, with the one theta that gives w the radius; with
    the radius as unit it lies between ||z||_q - max(1, n^(1/q - 1/p)) and ||z||_q.

    Parameters
    ----------
    vector : (n,); power : p; radius : > 0
    """
    sizes = np.abs(np.asarray(vector, dtype=np.float64)) / radius
    if norm_of(sizes, power) <= 1.0:
        return np.array(vector, dtype=np.float64)
    dual = power / (power - 1.0)
    high = norm_of(sizes, dual)
    low = max(0.0, high - max(1.0, len(sizes) ** (1.0 / dual - 1.0 / power)))
    theta = high
    found = _shrunk(sizes, power, theta)
    for _ in range(_MOST_ROUNDS):
        powers = found ** (power - 1.0)
        value = float(powers @ found) - 1.0
        low, high = (theta, high) if value > 0.0 else (low, theta)
        # of each w_j by theta: -w^(p - 1) / (1 + theta (p - 1) w^(p - 2)), times w to be finite at 0
        falls = power * powers * (powers * found) / np.maximum(found + theta * (power - 1.0) * powers, _TINY)
        fall = float(falls.sum())
        following = theta + value / fall if fall > 0.0 else low
        following = following if low < following < high else 0.5 * (low + high)
        if abs(following - theta) <= 2.0 * _EPSILON * theta or abs(value) <= 4.0 * _EPSILON:
            break
        theta = following
        found = _shrunk(sizes, power, theta)
    # onto the ball: what is left is rounding
    found /= max(norm_of(found, power), 1.0)
    weights: NDArray[np.float64] = radius * np.copysign(found, vector)
    return weights


_TINY = float(np.finfo(np.float64).tiny)


def _shrunk(sizes: FloatArray, power: float, theta: float) -> NDArray[np.float64]:
    """Roots w of w + theta w^(p - 1) = size, entry by entry.

    With x = w for p >= 2 and x = w^(p - 1) below, both terms are convex in x; Newton's method falls onto the root from
    where one term alone is the size, at most twice too far.
    """
    steep = power - 1.0 if power >= 2.0 else 1.0 / (power - 1.0)
    one, other = (1.0, theta) if power >= 2.0 else (theta, 1.0)  # one x + other x^steep = size
    roots = np.minimum(sizes / max(one, _TINY), (sizes / max(other, _TINY)) ** (1.0 / steep))
    for _ in range(_MOST_ROUNDS):
        powers = other * roots ** (steep - 1.0)
        steps = (one * roots + powers * roots - sizes) / np.maximum(one + steep * powers, _TINY)
        roots = np.maximum(roots - steps, 0.0)
        if np.all(np.abs(steps) <= 4.0 * _EPSILON * roots + _TINY):
            break
    found: NDArray[np.float64] = roots if power >= 2.0 else roots**steep
    return found
