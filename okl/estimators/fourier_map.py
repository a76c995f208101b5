"""The Fourier map as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from okl.data.dataset import Schema
from okl.estimators.base import SAMPLE_ROWS, Auto, RandomState, draw_seed, options_of, threads_of
from okl.features.base import transform_rows
from okl.features.fourier import FourierFeatures
from okl.foundation.types import FloatArray
from okl.solvers.online.settings import random_map


@dataclass(eq=False, repr=False)
class FourierMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Random Fourier features of the Gaussian kernel: z(x)'z(x') approximates k(x, x'), and z(x) has norm 1.

    float32 inputs give float32 features, any other inputs float64 ones, of the same frequencies. The features of a row
    do not depend on the other rows, to the last bit.

    Parameters
    ----------
    n_frequencies : int >= 1; there are 2 n_frequencies columns, sines first
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 4096 rows
    n_jobs : threads, None for 1, -1 for all cores; the features do not depend on it
    random_state : int, RandomState or None

    Attributes
    ----------
    bandwidth_ : as used; map_ : as drawn, in float64
    n_features_in_, feature_names_in_ : of the inputs

    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; Lu et al., JMLR 17(47), 2016, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from okl.kernels import Gaussian
    >>> inputs = np.random.default_rng(0).standard_normal((100, 3)).astype("float32")
    >>> features = FourierMap(n_frequencies=2000, bandwidth=2.0, random_state=0).fit_transform(inputs)
    >>> features.shape, features.dtype.name
    ((100, 4000), 'float32')
    >>> bool(np.abs(features @ features.T - Gaussian(2.0).matrix(inputs, inputs)).max() < 0.1)
    True
    """

    n_frequencies: int = 400
    bandwidth: float | Auto = "auto"
    n_jobs: int | None = None
    random_state: RandomState = None

    solver_name: ClassVar[str] = "fogd"

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw frequencies for inputs X (rows, n_features); y is not used.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        """
        inputs = validate_data(self, X, dtype=[np.float64, np.float32])
        rng = check_random_state(self.random_state)
        seed = draw_seed(rng)
        sample = inputs[rng.permutation(len(inputs))[:SAMPLE_ROWS]]
        schema = Schema(tuple(f"x{index}" for index in range(inputs.shape[1])), "y", "regression")
        feature_map, chosen = random_map(options_of(self)).draw(schema, sample, seed, "float64")
        assert isinstance(feature_map, FourierFeatures), "the map is independent"
        self.map_, self.bandwidth_ = feature_map, chosen["bandwidth"]
        self._n_features_out = self.map_.n_columns
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return features (rows, 2 n_frequencies) of inputs (rows, n_features), in the precision of X."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        own = replace(self.map_, frequencies=self.map_.frequencies.astype(inputs.dtype, copy=False))
        return transform_rows(own, inputs, threads_of(self.n_jobs))
