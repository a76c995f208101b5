"""The dual of a minimax model: the point of least norm in a sum of ellipsoids.

Minimise 1/2 ||d + S u||^2 over u = (u_1, ..., u_k), ||u_j|| <= kappa, with S = [S_1, ..., S_k] and d the difference of
the means; w = d + S u. Primal: -<w, d> + kappa sum_j ||S_j' w|| + 1/2 ||w||^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.accelerated.projections import project_ball
from okl.accelerated.protocol import Certificate, Solution, SweepArguments, Swept
from okl.compiled.rowpasses import add_rows, multiply_rows
from okl.compiled.steps import inner, squared_distance
from okl.types import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class MinimaxProblem:
    """Balls mapped to ellipsoids.

    Parameters
    ----------
    difference : d (n,)
    roots : S (n, k n), C-contiguous
    n_balls : k
    kappa : radius of the balls, > 0
    centre : (n,), where w is to give 0 but for the spreads; own bias = <w, centre> + kappa / 2 (last - first spread)
        for two balls, <w, centre> for one
    intercept : whether there is a bias
    note : what the user should know of the covariances

    Source: Ito et al., 2017, sections 3.2.6 and 3.2.7, (16) and (17), times 1/2 as in (9) with C = 1.
    """

    difference: FloatArray
    roots: FloatArray
    n_balls: int
    kappa: float
    centre: FloatArray
    intercept: bool = True
    note: str = ""

    @property
    def n_points(self) -> int:
        """Entries of u."""
        return int(self.roots.shape[1])

    @property
    def n_image(self) -> int:
        """Entries of w."""
        return len(self.difference)

    @property
    def first_lipschitz(self) -> float:
        """The largest diagonal element of S'S. Source: Ito et al., 2017, section 5.4."""
        return max(float(np.einsum("ij,ij->j", self.roots, self.roots).max()), float(np.finfo(np.float32).tiny))

    def start(self) -> FloatArray:
        """0, the means."""
        return np.zeros(self.n_points)

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out by d + S u."""
        multiply_rows(out, self.roots, np.ones(self.n_image), point)
        out += self.difference

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out by S'w."""
        out[:] = 0.0
        add_rows(out, self.roots, np.ones(self.n_image), image)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """1/2 ||w||^2."""
        return 0.5 * float(inner(image, image))

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """S'w, which is what was pulled."""
        out[:] = pulled

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        """1/2 ||w - w_b||^2."""
        return 0.5 * float(squared_distance(image, at_image))

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """The nearest point of every ball."""
        for ball in self._balls():
            project_ball(out[ball], point[ball], self.kappa)

    def penalty(self, point: FloatArray) -> float:
        """0."""
        return 0.0

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Gap between u and w = d + S u."""
        spreads = [float(np.linalg.norm(pulled[ball])) for ball in self._balls()]
        risk = self.kappa * sum(spreads) - float(inner(image, self.difference))
        half_square = 0.5 * float(inner(image, image))
        tilt = 0.5 * self.kappa * (spreads[-1] - spreads[0])
        return Certificate(
            primal=risk + half_square,
            dual=-half_square,
            floor=0.0,
            bias=float(inner(image, self.centre)) + tilt if self.intercept else 0.0,
            rounding=8.0 * _EPSILON * (abs(risk) + 2.0 * half_square),
        )

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        """The w of the certificate."""
        return Solution(image.copy(), certificate.bias, certificate)

    def sweep(self, given: SweepArguments) -> Swept | None:
        """None: two reads."""
        return None

    def at_level(self, level: int) -> MinimaxProblem:
        """Itself."""
        return self

    def _balls(self) -> list[slice]:
        return [slice(ball * self.n_image, (ball + 1) * self.n_image) for ball in range(self.n_balls)]
