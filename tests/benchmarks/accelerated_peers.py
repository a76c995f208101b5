"""LIBLINEAR and LIBSVM, run until their primal objective is that asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from tests.benchmarks.accelerated_data import Doubles


@dataclass(frozen=True)
class Peer:
    """A machine by its tolerance, and the loss that its objective sums up."""

    name: str
    machine: Callable[[float], Any]
    loss: Callable[[Doubles], Doubles]

    def fit(self, inputs: Doubles, labels: Doubles, tolerance: float) -> Any:
        """The machine, fitted."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.machine(tolerance).fit(inputs, labels)

    def objective(self, machine: Any, inputs: Doubles, labels: Doubles) -> float:
        """1/2 ||w||^2 + sum of losses."""
        weights = machine.coef_[0]
        return float(0.5 * weights @ weights + self.loss(labels * machine.decision_function(inputs)).sum())

    def loosest(self, inputs: Doubles, labels: Doubles, target: float) -> tuple[float, float]:
        """The loosest tolerance whose objective is at most the target, and that objective."""
        for tolerance in (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4):
            objective = self.objective(self.fit(inputs, labels, tolerance), inputs, labels)
            if objective <= target:
                break
        return tolerance, objective

    def once(self, inputs: Doubles, labels: Doubles, tolerance: float) -> tuple[float, float]:
        """Seconds and objective of one fit."""
        began = perf_counter()
        machine = self.fit(inputs, labels, tolerance)
        return perf_counter() - began, self.objective(machine, inputs, labels)


def _hinge(margins: Doubles) -> Doubles:
    return np.maximum(0.0, 1.0 - margins)


def _logistic(margins: Doubles) -> Doubles:
    values: Doubles = np.logaddexp(0.0, -margins)
    return values


LIBLINEAR_HINGE = Peer(
    "LIBLINEAR, hinge, dual",
    lambda tol: LinearSVC(loss="hinge", C=1.0, fit_intercept=False, tol=tol, max_iter=20_000, random_state=0),
    _hinge,
)
LIBLINEAR_LOGISTIC = Peer(
    "LIBLINEAR, logistic, dual",
    lambda tol: LogisticRegression(
        solver="liblinear", dual=True, C=1.0, fit_intercept=False, tol=tol, max_iter=20_000, random_state=0
    ),
    _logistic,
)
LIBSVM = Peer("LIBSVM, linear, with bias", lambda tol: SVC(kernel="linear", C=1.0, tol=tol, cache_size=1000), _hinge)
