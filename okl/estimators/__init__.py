"""The scikit-learn face: online kernel learners as classifiers and regressors, the Fourier map as a transformer."""

from __future__ import annotations

from okl.estimators.budget import BudgetKernelClassifier, BudgetKernelRegressor
from okl.estimators.experts import ExpertKernelClassifier, ExpertKernelRegressor
from okl.estimators.fogd import FOGDClassifier, FOGDRegressor
from okl.estimators.fourier_map import FourierMap
from okl.estimators.nogd import NOGDClassifier, NOGDRegressor

__all__ = [
    "BudgetKernelClassifier",
    "BudgetKernelRegressor",
    "ExpertKernelClassifier",
    "ExpertKernelRegressor",
    "FOGDClassifier",
    "FOGDRegressor",
    "FourierMap",
    "NOGDClassifier",
    "NOGDRegressor",
]
