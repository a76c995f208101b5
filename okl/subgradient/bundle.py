"""A bundle of cuts: the lower model of the objective, its best bound, and the point that attains it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from okl.checks import check_at_least, check_positive
from okl.compiled.cutpasses import add_sloped_rows, score_rows
from okl.compiled.master import solve_master
from okl.compiled.steps import inner
from okl.subgradient.vectors import Vector
from okl.types import FloatArray

_CHANGES_OF_CUT = 20


class Master(NamedTuple):
    """weights : (n_cuts,), of the simplex; bound : no point has an objective below it."""

    weights: FloatArray
    bound: float


@dataclass(eq=False)
class Bundle:
    """Cuts <G_k, v> + b_k <= mean loss(v), and the best bound that their convex combinations give.

        maximise  sum gamma_k b_k - ||sum gamma_k G_k||^2 / (2 lam)   over the simplex

    The point w = -(1 / lam) sum gamma_k G_k is where the model, the largest cut plus lam/2 ||.||^2, is least. When the
    bundle is full, the cut that has gone unused for longest makes room; if all are in use, the weighted ones are first
    replaced by their sum, which is a cut and keeps the bound.

    Parameters
    ----------
    lam : float > 0
    size : int >= 2, the most cuts kept

    Source: the averaged dual of the paper's pair is the aggregate of two cuts; the bundle of several is Kiwiel, Methods
    of Descent for Nondifferentiable Optimization, 1985, chapter 2.
    """

    lam: float
    size: int = 100
    n_cuts: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_at_least("bundle_size", self.size, 2)
        self._weights, self._intercepts = np.zeros(self.size), np.zeros(self.size)
        self._products = np.zeros((self.size, self.size))
        self._unused = np.zeros(self.size, dtype=np.int64)
        self._factor, self._solved = np.zeros((self.size, self.size)), np.zeros((2, self.size))
        self._support = np.zeros(self.size, dtype=np.int64)
        self._coefficients: FloatArray | None = None
        self._duals: FloatArray | None = None

    @property
    def weights(self) -> FloatArray:
        """gamma of the cuts, (n_cuts,)."""
        return self._weights[: self.n_cuts]

    def add(self, cut: Vector, intercept: float) -> None:
        """Take in a cut; the weights of the others stay, so that the bound can only rise."""
        if self._coefficients is None or self._duals is None:
            self._shape = cut.coefficients.shape
            self._coefficients = np.zeros((self.size, cut.coefficients.size))
            self._duals = self._coefficients
            if cut.dual is not cut.coefficients:
                self._duals = np.zeros((self.size, cut.dual.size))
        place = self._place()
        self._coefficients[place], self._duals[place] = cut.coefficients.ravel(), cut.dual.ravel()
        self._set(place, intercept, 1.0 if self.n_cuts == 1 else 0.0)

    def master(self) -> Master:
        """Weights of the best bound, and it."""
        n, most = self.n_cuts, _CHANGES_OF_CUT * self.n_cuts
        bound = solve_master(
            self.weights,
            self._factor,
            self._solved,
            self._support,
            self._products,
            self._intercepts[:n],
            self.lam,
            most,
        )
        used = self.weights > 0.0
        self._unused[:n] = np.where(used, 0, self._unused[:n] + 1)
        return Master(self.weights.copy(), float(bound))

    def point(self) -> Vector:
        """w = -(1 / lam) sum gamma_k G_k."""
        return self.aggregate()[0].scaled(-1.0 / self.lam)

    def aggregate(self) -> tuple[Vector, float]:
        """sum gamma_k G_k and sum gamma_k b_k: a cut."""
        if self._coefficients is None or self._duals is None:
            raise ValueError("A bundle without cuts has no aggregate.")
        coefficients = self._combined(self._coefficients)
        dual = coefficients if self._duals is self._coefficients else self._combined(self._duals)
        return Vector(coefficients, dual), float(inner(self.weights, self._intercepts[: self.n_cuts]))

    def carried(self, share: float, cut: Vector, intercept: float) -> Bundle:
        """These cuts as cuts of more rows, of which those here are a share: each takes in one of the new rows.

        cut, intercept : of the new rows, already times one less the share; vectors whose dual they are themselves
        """
        other = Bundle(self.lam, self.size)
        if self._coefficients is None:
            return other
        other.n_cuts, other._shape, n = self.n_cuts, self._shape, self.n_cuts
        other._coefficients = share * self._coefficients + cut.coefficients.ravel()
        other._duals = other._coefficients
        other._intercepts = share * self._intercepts + intercept
        other._weights, other._unused = self._weights.copy(), self._unused.copy()
        for place in range(n):
            score_rows(other._products[place, :n], other._coefficients[:n], other._coefficients[place])
        return other

    def _combined(self, rows: FloatArray) -> FloatArray:
        total = np.zeros(rows.shape[1])
        add_sloped_rows(total, rows[: self.n_cuts], self.weights)  # a BLAS's bits depend on its threads
        return total.reshape(self._shape)

    def _place(self) -> int:
        if self.n_cuts < self.size:
            self.n_cuts += 1
            return self.n_cuts - 1
        if not (self.weights == 0.0).any():
            self._merge()
        return int(np.argmax(np.where(self.weights > 0.0, -1, self._unused)))

    def _merge(self) -> None:
        """Replace the cut of least weight by the aggregate of all, which alone is as good as they are."""
        cut, intercept = self.aggregate()
        place = int(np.argmin(self.weights))
        assert self._coefficients is not None
        assert self._duals is not None
        self._coefficients[place], self._duals[place] = cut.coefficients.ravel(), cut.dual.ravel()
        self._weights[:] = 0.0
        self._set(place, intercept, 1.0)

    def _set(self, place: int, intercept: float, weight: float) -> None:
        assert self._coefficients is not None
        assert self._duals is not None
        n = self.n_cuts
        products = np.empty(n)
        score_rows(products, self._coefficients[:n], self._duals[place])
        self._products[place, :n], self._products[:n, place] = products, products
        self._intercepts[place], self._weights[place], self._unused[place] = intercept, weight, 0
