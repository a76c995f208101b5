"""Any margin model with a bound on a p-norm of its weights in place of a penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_positive
from okl.solvers.accelerated.base import Certificate, Classifier
from okl.solvers.accelerated.dual import DualProblem, NormBallProblem, PrimalBallProblem, norm_of
from okl.solvers.accelerated.operators import ClassGroups, DenseRows, SparseRows


@dataclass(frozen=True)
class NormConstrained:
    """Minimise the loss part of a model over ||w||_p <= radius.

    Dual: minimise radius ||A a||_q + the terms of the model's dual other than 1/2 ||A a||^2, 1 / p + 1 / q = 1. For
    p = 1 and p = infinity that norm is not smooth, and the losses are minimised over w.

    model : "c-svm", "l2-svm", "logistic", "nu-svm" or "dwd", whose C then is a mere factor of the objective; a dwd of
        p = 2 and radius 1 is the model itself
    power : p, in [1, infinity]; 1 and infinity take smooth losses: l2-svm, logistic or dwd
    radius : lambda > 0
    Raises ConfigError : a number outside its range, or a model that is no sum of losses of margins
    Source: Ito et al., 2017, (8) and (10).

    Examples
    --------
    >>> from okl.solvers.accelerated.fapg import Fapg
    >>> from okl.solvers.accelerated.fitting import fit_binary
    >>> from okl.solvers.accelerated.models.logistic import LogisticRegression
    >>> random = np.random.default_rng(0)
    >>> inputs = random.normal(size=(200, 5))
    >>> rows = DenseRows(inputs, np.where(inputs[:, 0] + 0.5 * random.normal(size=200) > 0.0, 1.0, -1.0))
    >>> model = NormConstrained(LogisticRegression(C=1.0), power=1.5, radius=2.0)
    >>> found = fit_binary(model, rows, Fapg(tolerance=1e-4))
    >>> bool(np.sum(np.abs(found.weights) ** 1.5) ** (1 / 1.5) <= 2.0 + 1e-9)
    True
    >>> bool(found.certificate.relative_gap <= 1e-4)
    True
    """

    model: Classifier
    power: float = 2.0
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_positive("radius", self.radius)
        if not self.power >= 1.0:
            raise ConfigError(f"power = {self.power!r}; expected a number from 1 to infinity.")
        if not (self.model.TAKES_KERNEL and self.model.HAS_OWN_BIAS):
            raise ConfigError(
                f"The model {self.model.NAME!r} cannot be combined with a bound on a norm. Use c-svm, l2-svm, "
                "logistic, nu-svm or dwd."
            )
        if self.power in (1.0, math.inf) and not self.model.SMOOTH:
            raise ConfigError(
                f"power = {self.power:g} requires a smooth loss, but the model is {self.model.NAME!r}. Use l2-svm, "
                "logistic or dwd, or a power between 1 and infinity."
            )

    @property
    def parameter(self) -> float:
        return self.model.parameter

    def check_weights(self, certificate: Certificate, highest: float) -> None:
        self.model.check_weights(certificate, highest)

    def prototype(self, groups: ClassGroups) -> PrimalBallProblem:
        """Return the problem of one row of each group, for p = 1 or infinity."""
        return self._primal(self.model.prototype(groups))

    def _primal(self, own: Any) -> PrimalBallProblem:
        bound = {"power": self.power, "radius": self.radius, "intercept": own.intercept}
        return PrimalBallProblem(own.rows, own.risk.loss, own.risk.weights, 1.0, **bound)

    def problem(
        self, rows: DenseRows | SparseRows, sample_weight: FloatArray | None = None
    ) -> NormBallProblem | PrimalBallProblem:
        if not isinstance(rows, (DenseRows, SparseRows)):
            raise ConfigError(
                "A bound on a norm of the weights requires explicit rows. Use a feature map, or the linear kernel."
            )
        own = self.model.problem(rows, sample_weight)
        assert isinstance(own, DualProblem)
        if self.power in (1.0, math.inf):
            return self._primal(own)
        parts = {field.name: getattr(own, field.name) for field in fields(DualProblem)}
        return NormBallProblem(**parts, power=self.power, radius=self.radius, width=self._first_width(own, rows))

    def _first_width(self, own: DualProblem, rows: DenseRows | SparseRows) -> float:
        """Return a tenth of the least width at which w of the first point and of each row is in the ball."""
        image = np.empty(rows.n_image)
        rows.apply(image, own.first)
        longest = math.sqrt(float(rows.squared_lengths().max()))
        size = max(norm_of(image, self.power), longest * float(np.abs(own.first).max()), 1e-3 * longest)
        return max(0.1 * size / self.radius, float(np.finfo(np.float32).tiny))
