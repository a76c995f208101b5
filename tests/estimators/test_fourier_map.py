from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from okl.estimators.fourier_map import FourierMap
from okl.kernels import Gaussian
from tests.estimators.cases import moons, waves


@pytest.mark.parametrize(("dtype", "kept"), [("float32", "float32"), ("float64", "float64"), ("int64", "float64")])
def test_map_keeps_the_precision_of_its_input(dtype: str, kept: str) -> None:
    inputs = (10 * waves()[0]).astype(dtype)
    fitted = FourierMap(n_frequencies=50, random_state=0).fit(inputs)
    assert fitted.transform(inputs).dtype == kept
    assert fitted.set_output(transform="default").fit_transform(inputs).dtype == kept
    for other in ("float32", "float64"):  # for any precision of the fitted rows
        assert fitted.transform(inputs.astype(other)).dtype == other
    np.testing.assert_allclose(
        fitted.transform(inputs.astype("float32")), fitted.transform(inputs.astype("float64")), atol=1e-5
    )


def test_map_approximates_the_kernel_and_names_its_columns() -> None:
    inputs = waves(200)[0]
    fitted = FourierMap(n_frequencies=5000, n_jobs=2, random_state=0)
    features = fitted.fit_transform(inputs)
    np.testing.assert_allclose(features @ features.T, Gaussian(fitted.bandwidth_).matrix(inputs, inputs), atol=0.06)
    names = fitted.get_feature_names_out()
    assert (len(names), names[0], names[-1]) == (10000, "fouriermap0", "fouriermap9999")


def test_map_in_a_pipeline_makes_a_linear_model_one_of_the_kernel() -> None:
    inputs, labels = moons()
    model = make_pipeline(StandardScaler(), FourierMap(100, bandwidth=0.5, random_state=0), LogisticRegression(C=100))
    assert cross_val_score(model, inputs, labels, cv=3).mean() > 0.97
