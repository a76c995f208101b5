"""Which model is asked for, and what its parameter is where none is given."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from okl.accelerated.catalogue import make_model, parameter_of
from okl.accelerated.classifier import Classifier
from okl.accelerated.models.nusvm import NuSVM

_SHARES = (0.5, 0.75, 0.875, 0.9375, 1.0)  # of the largest valid parameter; all but the first are nu-SVM's
_PROBE_ITERATIONS = 200
_NEXT = 1.0 + 1e-9


@dataclass(frozen=True)
class Task:
    """A model by name. value : of its one parameter, None to choose it; fit_intercept : whether there is a bias."""

    name: str
    value: float | None = None
    fit_intercept: bool = True

    @property
    def parameter(self) -> str:
        """C, nu or kappa."""
        return parameter_of(self.name)

    @property
    def reason(self) -> str:
        """Why the parameter is what it is."""
        if self.value is not None:
            return "as given"
        if self.name == NuSVM.NAME:
            return "half of the largest valid one, or more where that has no weights"
        return "half of the largest valid one" if self.parameter != "C" and self.name != "dwd" else "the usual one"

    def model(self, highest: float) -> Classifier:
        """The model; where no parameter is given, with half of the highest valid one, or its default.

        Raises
        ------
        ConfigError : a parameter that no data could make valid
        """
        value = self.value
        if value is None and np.isfinite(highest):
            value = _SHARES[0] * highest
        return make_model(self.name, **{self.parameter: value}, fit_intercept=self.fit_intercept)

    def larger(self, value: float, highest: float, iterations: int, over: bool, has_weights: bool) -> Task | None:
        """nu-SVM with a larger nu, where none was given and one has shown no weights; None: this one is gone on with.

        The least nu that has weights takes a linear program over all rows; a few are tried instead.

        Parameters
        ----------
        value, highest : nu so far, and the largest valid one
        iterations, over : done so far, and whether the method has ended
        has_weights : whether a primal objective below 0 has proved that there are some
        """
        if self.value is not None or has_weights:
            return None
        larger = [share * highest for share in _SHARES if share * highest > _NEXT * value]
        if not larger or not (over or iterations >= _PROBE_ITERATIONS):
            return None
        # rounding may not push it beyond the largest
        return replace(self, value=min(larger[0], highest))
