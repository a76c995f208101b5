"""Optima of lam / 2 |w|^2 + mean hinge, by second-order methods that share no code with SCS."""

from __future__ import annotations

from typing import Any, NamedTuple

from okl.foundation.types import FloatArray
from okl.kernels import Kernel
from okl.solvers.accelerated.choice import MethodChoice
from okl.solvers.accelerated.fitting import solve_problem
from okl.solvers.accelerated.models.svm import CSVM
from okl.solvers.accelerated.operators import DenseRows, KernelTiles, TiledKernel


class HingeOptimum(NamedTuple):
    """Objective, lower bound, weights of columns, or coefficients of rows, and reads of the rows."""

    objective: float
    bound: float
    weights: FloatArray
    reads: int

    @property
    def gap(self) -> float:
        """Return the gap: the optimum is at most this much below the objective."""
        return self.objective - self.bound


def hinge_optimum(
    lam: float,
    inputs: FloatArray,
    targets: FloatArray,
    kernel: Kernel | None = None,
    gap: float = 1e-9,
    free_bias: bool = False,
) -> HingeOptimum:
    """Solve for rows, or with a kernel, to a relative gap."""
    rows: Any = DenseRows(inputs, targets) if kernel is None else TiledKernel(KernelTiles(kernel, inputs), targets)
    problem = CSVM(C=1.0 / (lam * len(targets)), fit_intercept=free_bias).problem(rows)
    solved = solve_problem(problem, MethodChoice("newton" if kernel is None else "working-sets", gap))
    assert solved.converged
    certificate = solved.certificate
    return HingeOptimum(lam * certificate.primal, lam * certificate.dual, solved.weights, solved.reads)
