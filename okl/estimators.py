"""The scikit-learn face: FOGD as a classifier and a regressor, the Fourier map as a transformer."""

from __future__ import annotations

from okl.classifier import FOGDClassifier
from okl.fourier_transformer import FourierMap
from okl.regressor import FOGDRegressor

__all__ = ["FOGDClassifier", "FOGDRegressor", "FourierMap"]
