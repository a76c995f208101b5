"""The scikit-learn face: online kernel learners as classifiers and regressors, the Fourier map as a transformer."""

from __future__ import annotations

from okl.estimators.fogd import FOGDClassifier, FOGDRegressor
from okl.estimators.fourier_map import FourierMap

__all__ = ["FOGDClassifier", "FOGDRegressor", "FourierMap"]
