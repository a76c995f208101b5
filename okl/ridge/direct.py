"""Least squares for one penalty from the sums: one Cholesky factor where a whole path takes all eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from okl.compiled.door import one_blas_thread
from okl.ridge.basis import Turn
from okl.ridge.gram import Gram

_CLOSE = 1e-7  # relative gap: beyond it rounding has had a say, and eigenvalues do better


@dataclass(frozen=True)
class Proof:
    """Objective of weights, per unit of weight of the rows, and how far above the optimum it is at most.

    objective : penalty / 2 ||f||^2 + 1/2 mean of squared residuals, summed over outputs; gap : >= 0
    """

    objective: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """Gap over objective."""
        return self.gap / max(self.objective, np.finfo(float).tiny)


def proof_of(count: float, scale: float, left: float, norm: float, slope: float) -> Proof:
    """By strong convexity: P(w) - P* = 1/2 g' H^(-1) g <= ||g||^2 / (2 scale), g the gradient, H the Hessian.

    scale : count * penalty; left : sum of squared residuals; norm : ||f||^2; slope : ||g||^2, where the penalty is the
    squared length

    Source: Boyd & Vandenberghe, Convex Optimization, 2004, (9.9).
    """
    return Proof(0.5 * (scale * norm + left) / count, slope / (2.0 * scale) / count)


def residual(
    squares: NDArray[np.float64], cross: NDArray[np.float64], weights: NDArray[np.float64], moved: NDArray[np.float64]
) -> float:
    """Sum of squared residuals of weights (n, n_outputs). moved : products @ weights"""
    return max(0.0, float(np.sum(squares) - 2.0 * np.sum(weights * cross) + np.sum(weights * moved)))


@dataclass(frozen=True, eq=False)
class Direct:
    """Weights (n, n_outputs) of the columns, offsets (n_outputs,), and the proof that they are the optimum's."""

    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    proof: Proof


def solve_directly(turn: Turn, gram: Gram, penalty: float, fit_intercept: bool) -> Direct | None:
    """(products + count penalty P) w = cross, P the penalty's matrix, by a Cholesky factor.

    None where rounding is in the way: landmarks that are nearly alike under a small penalty. turn : of the basis
    """
    about, scale = gram if fit_intercept else gram.about_origin(), gram.count * penalty
    pull = scale * (np.eye(len(gram.mean)) if turn.matrix is None else turn.matrix)
    with one_blas_thread():
        try:
            factor = cho_factor(about.products + pull, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        weights = cho_solve(factor, about.cross, check_finite=False)
        # once more for what rounding has left: the matrix is as ill-conditioned as that of the landmarks
        weights += cho_solve(factor, about.cross - about.products @ weights - pull @ weights, check_finite=False)
        moved, pulled = about.products @ weights, pull @ weights
        gradient = moved + pulled - about.cross
        if turn.factor is not None:
            gradient = solve_triangular(turn.factor, gradient, lower=True, check_finite=False)
    norm, slope = float(np.sum(weights * pulled)) / scale, float(np.sum(gradient**2))
    proof = proof_of(gram.count, scale, residual(about.squares, about.cross, weights, moved), norm, slope)
    if not proof.relative_gap <= _CLOSE:
        return None
    return Direct(weights, about.value_mean - about.mean @ weights, proof)
