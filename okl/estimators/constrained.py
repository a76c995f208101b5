"""Fourier online gradient descent under constraints on what scores have to do with columns that are not learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from okl.checks import check_choice
from okl.errors import ConfigError, DataError
from okl.estimators.classify import OnlineClassifier
from okl.estimators.parameters import Auto, number_or_auto, whole_number
from okl.losses import Loss
from okl.online.constrained import ConstrainedLearner
from okl.online.constrainedrecipe import RecipeInMemory
from okl.online.constraints.columns import Columns, values_of
from okl.online.constraints.grammar import parse_constraints
from okl.online.constraints.quantities import columns_of
from okl.online.constraints.rows import RowSums, rows_from, sums_of
from okl.online.constraints.weighings import Weighings
from okl.online.maps import FourierChoice
from okl.types import FloatArray


@dataclass(kw_only=True, eq=False, repr=False)
class ConstrainedFOGDClassifier(OnlineClassifier):
    """Two classes, learnt row after row in a ball within limits of what is linear in the scores.

    Limits hold, to the last, for the model and the rows of `fit`. With `partial_fit` their rows are refreshed before
    every batch, from all that came so far, and no theorem is claimed.

    Parameters
    ----------
    constraints : texts such as "abs(covariance(sex)) <= 0.01", "abs(difference(sex=1, sex=0)) <= 0.05" or
        "mean(sex=1) >= -0.2"; see okl.online.constraints.grammar
    radius : of the ball that weights stay in; constraint_margin : so much inside their limits scores are kept
    n_frequencies, kernel, map, bandwidth, class_weight, average : as in FOGDClassifier
    loss : "hinge" or "logistic"; with neither there are probabilities
    step_size : float > 0, or "auto" for radius / sqrt(2 t), the one that regret is proved for
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    claims_theorem_ : whether constraints stayed and rows came once
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Yi et al., ICML 2021, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> sensitive = {"right": (X[:, 0] > 0).astype(float)}
    >>> fair = ConstrainedFOGDClassifier(constraints=["abs(covariance(right)) <= 0.01"], random_state=0)
    >>> scores = fair.fit(X, y, sensitive).decision_function(X)
    >>> bool(abs(np.cov(scores, sensitive["right"], bias=True)[0, 1]) <= 0.01)
    True
    """

    constraints: Any = ()
    radius: float = 10.0
    constraint_margin: float = 0.0
    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"
    loss: Literal["hinge", "logistic"] = "hinge"
    step_size: float | Auto = "auto"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    average: bool = True

    def fit(self, X: ArrayLike, y: ArrayLike, sensitive: Mapping[str, ArrayLike] | None = None) -> Self:
        """Learn rows X (rows, n_features) with labels y (rows,); sensitive : columns (rows,) by name.

        Raises
        ------
        ConfigError, DataError : as in OnlineClassifier, a column or a group that is not there, limits in conflict
        """
        self._beside = self._columns(sensitive)
        super().fit(X, y)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sensitive: Mapping[str, ArrayLike] | None = None,
    ) -> Self:
        """Learn some more rows, once, after the rows of the constraints are refreshed by them."""
        self._beside = self._columns(sensitive)
        super().partial_fit(X, y, classes)
        return self

    @property
    def claims_theorem_(self) -> bool:
        """Whether constraints stayed and rows came once."""
        return self._learner.fixed and self.passes == 1

    @property
    def _learner(self) -> ConstrainedLearner:
        learner = self.learner_
        assert isinstance(learner, ConstrainedLearner)
        return learner

    def _begin(
        self,
        inputs: FloatArray,
        targets: NDArray[Any],
        loss: Loss,
        n_outputs: int,
        class_weights: tuple[float, ...] | None,
        n_rows: int | None,
    ) -> None:
        self._inputs = inputs
        super()._begin(inputs, targets, loss, n_outputs, class_weights, n_rows)
        self._sums = None if n_rows is None else self._summed(inputs)  # a stream's first rows come to `_learn`
        del self._inputs

    def _learn(self, inputs: FloatArray, targets: NDArray[Any], order: NDArray[np.int64] | None = None) -> None:
        """Learn rows once; those of a stream refresh the rows of the constraints before, unless they are refused."""
        if order is not None:
            super()._learn(inputs, targets, order)
            return
        before, sums = self._learner, self._summed(inputs)
        if self._sums is not None:
            sums = self._sums.plus(sums)
        rows = rows_from(Weighings(self._parsed()), sums)
        self.learner_ = before.refreshed(replace(before.kept, rows=rows))
        try:
            super()._learn(inputs, targets)
        except BaseException:  # an interrupt, too
            self.learner_ = before
            raise
        self._sums = sums

    def _summed(self, inputs: FloatArray) -> RowSums:
        features = self._learner.feature_map.transform(inputs)
        return sums_of(Weighings(self._parsed()), features, self._beside, "sensitive")

    def _parsed(self) -> Any:
        constraints, _ = parse_constraints(tuple(self.constraints))
        if not constraints:
            raise ConfigError("constraints are none. Give texts such as 'abs(covariance(sex)) <= 0.01'.")
        return constraints

    def _columns(self, sensitive: Mapping[str, ArrayLike] | None) -> Columns:
        found: dict[str, NDArray[Any]] = {}
        for name in columns_of(self._parsed()):
            if sensitive is None or name not in sensitive:
                there = ", ".join(map(str, sensitive or ())) or "nothing"
                raise DataError(f"sensitive has no column {name!r}, which a constraint looks at; it holds {there}.")
            found[name] = values_of(pa.chunked_array([pa.array(np.asarray(sensitive[name]))]), name)
        return found

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> RecipeInMemory:
        constraints, bound = parse_constraints(tuple(self.constraints))
        width = whole_number("n_frequencies", self.n_frequencies)
        if any(len(column) != len(self._inputs) for column in self._beside.values()):
            raise DataError(f"sensitive holds columns of other lengths than the {len(self._inputs)} rows of X.")
        return RecipeInMemory(
            FourierChoice(self.kernel, number_or_auto("bandwidth", self.bandwidth), width, self.map),
            loss,
            constraints,
            min(self.radius, bound) if bound else self.radius,
            number_or_auto("step_size", self.step_size),
            class_weights,
            bool(self.average),
            margin=self.constraint_margin,
            inputs=self._inputs,
            columns=self._beside,
        )

    @property
    def _weighting(self) -> Any:
        return self.class_weight

    def _binary_loss(self) -> str:
        return check_choice("loss", self.loss, ("hinge", "logistic"))
