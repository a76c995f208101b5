"""A nu for rows of which nothing is known: half of the largest, unless its solution has no weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from okl.accelerated.fapg import Fapg
from okl.accelerated.fitting import Fitted, fit_one, solve_problem
from okl.accelerated.models.nusvm import NuSVM, nu_max
from okl.accelerated.stochastic import StochasticStart
from okl.accelerated.weighting import weights_of
from okl.types import FloatArray

_SHARES = (0.5, 0.75, 0.875, 0.9375, 1.0)  # of the largest nu
_PROBE_ITERATIONS = 200


def fit_some_nu(
    rows: Any, weights: FloatArray | None, fit_intercept: bool, method: Fapg, start: StochasticStart | None = None
) -> tuple[float, Fitted]:
    """Fit nu-SVM with the first nu of a few whose solution has weights; the least such nu takes a linear program.

    A primal objective below 0, that of no weights, proves that there are some.

    Returns
    -------
    nu, and its solution; where no nu of the few has weights, the largest and weights of 0, which are within the gap
    """
    largest = nu_max(rows.signs, weights_of(rows, weights)) if fit_intercept else 1.0
    probing = replace(method, max_iterations=min(_PROBE_ITERATIONS, method.max_iterations))
    for share in _SHARES:
        # rounding may not push it beyond the largest
        model = NuSVM(min(share * largest, largest), fit_intercept)
        probe = fit_one_unchecked(model, rows, probing, weights, start)
        if probe.certificate.primal < 0.0:
            done = probe.certificate.relative_gap <= method.tolerance
            return model.nu, probe if done else fit_one(model, rows, method, weights, probe.point)
    return model.nu, _without_weights(probe)


def fit_one_unchecked(
    model: NuSVM, rows: Any, method: Fapg, weights: FloatArray | None, start: StochasticStart | None = None
) -> Fitted:
    """The solution, even where the best weights are all 0."""
    problem = model.problem(rows, weights)
    return solve_problem(problem, method, None if start is None else start.point(problem))


def _without_weights(probe: Fitted) -> Fitted:
    """The solution w = 0, whose objective is 0."""
    certificate = replace(probe.certificate, primal=0.0, bias=0.0)
    note = "no nu was found that gives these rows weights other than 0: the larger class is predicted for all"
    return replace(probe, weights=np.zeros_like(probe.weights), bias=0.0, certificate=certificate, note=note)
