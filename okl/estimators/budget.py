"""Kernel learners with at most a budget of support vectors, one for each strategy."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from okl.checks import check_choice
from okl.errors import ConfigError
from okl.estimators.classify import OnlineClassifier
from okl.estimators.parameters import Auto, number_or_auto, whole_number
from okl.estimators.regress import OnlineRegressor
from okl.losses import Loss
from okl.online.budget.recipe import BudgetRecipe
from okl.online.budget.strategies import STRATEGIES


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetKernelClassifier(OnlineClassifier):
    """Online learning with support vectors for two classes or several.

    Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    strategy : "bsgd-merging", "bsgd-removal", "projectron", "projectron++", "forgetron", "rbp", "bpa-s", "bpa-nn",
        "bpa-p", "bogd", "bogd++", "norma", "budget-perceptron", "tvm" (two classes); "perceptron" and "ogd" keep
        every support vector
    budget : int >= 1, support vectors at most
    kernel, degree, offset : as in NOGDClassifier, but named kernels only
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    step_size, regularisation, aggressiveness : float > 0 where the strategy has it, or "auto": a race on the sample
        for the step size, the strategy's own value for the others
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: each strategy of okl.online.budget names its own paper; Lu et al., JMLR 17(47), 2016, section 5.3.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> learner = BudgetKernelClassifier(strategy="bsgd-merging", budget=30, random_state=0)
    >>> bool(learner.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    strategy: str = "bsgd-merging"
    budget: int = 100
    kernel: str = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    step_size: float | Auto = "auto"
    regularisation: float | Auto = "auto"
    aggressiveness: float | Auto = "auto"

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> BudgetRecipe:
        return _budget_recipe(self, loss, n_rows)


@dataclass(kw_only=True, eq=False, repr=False)
class BudgetKernelRegressor(OnlineRegressor):
    """Online regression with support vectors.

    Inputs should be of like scale: put a StandardScaler before it. Targets may be of any scale.

    Parameters
    ----------
    strategy : "projectron", "rbp", "forgetron", "bogd", "bogd++", "norma"; "perceptron" and "ogd" keep every support
    budget, kernel, degree, offset, bandwidth, step_size, regularisation : as in BudgetKernelClassifier
    epsilon, scale_target : as in OnlineRegressor
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: each strategy of okl.online.budget names its own paper; Lu et al., JMLR 17(47), 2016, section 7.4.
    """

    strategy: str = "projectron"
    budget: int = 100
    kernel: str = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    step_size: float | Auto = "auto"
    regularisation: float | Auto = "auto"

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> BudgetRecipe:
        return _budget_recipe(self, loss, n_rows)


def _budget_recipe(
    estimator: BudgetKernelClassifier | BudgetKernelRegressor, loss: Loss, n_rows: int | None
) -> BudgetRecipe:
    strategy: Any = STRATEGIES[check_choice("strategy", estimator.strategy, STRATEGIES)]()
    has = {field.name for field in fields(strategy)}
    numbers = [name for name in ("step_size", "regularisation", "aggressiveness") if hasattr(estimator, name)]
    given = {name: number_or_auto(name, getattr(estimator, name)) for name in numbers}
    if strange := [name for name, value in given.items() if value is not None and name not in has]:
        raise ConfigError(f"{strange[0]} was given, but the strategy {estimator.strategy} has none. Leave it out.")
    strategy = replace(strategy, **{name: value for name, value in given.items() if value is not None})
    budget = whole_number("budget", estimator.budget)
    return BudgetRecipe(
        strategy,
        loss,
        estimator.kernel,
        number_or_auto("bandwidth", estimator.bandwidth),
        budget if n_rows is None else min(budget, max(n_rows, strategy_least(strategy))),
        race="step_size" in has and given["step_size"] is None,
        degree=estimator.degree,
        offset=estimator.offset,
    )


def strategy_least(strategy: Any) -> int:
    """The smallest budget that a strategy takes."""
    return int(getattr(strategy, "least_budget", 1))
