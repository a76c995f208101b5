"""Properties of every feature map, and maps other than Fourier maps."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from okl.features.bandwidth import kernel_of_bandwidth, median_distance
from okl.features.base import FeatureMap
from okl.features.fourier import draw_fourier_map, draw_orthogonal_map, draw_quasi_map, draw_structured_map
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import fit_nystrom_map
from okl.features.predictors import map_from_stored, score_rows
from okl.foundation.errors import ConfigError, DataError, ModelError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian, Laplacian, Matern32, Matern52

N_INPUTS = 4


def inputs() -> FloatArray:
    return np.random.default_rng(0).standard_normal((700, N_INPUTS)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, -1.0, 100.0]


def maps() -> list[FeatureMap]:
    x = inputs()
    made: list[FeatureMap] = []
    precisions: tuple[Precision, ...] = ("float32", "float64")
    for precision in precisions:
        made.append(draw_fourier_map(Gaussian(5.0), N_INPUTS, 11, 3, precision))
        made.append(draw_orthogonal_map(Matern32(5.0), N_INPUTS, 11, 3, precision))
        made.append(draw_quasi_map(Laplacian(50.0), N_INPUTS, 11, 3, precision))
        made.append(draw_structured_map(Matern52(5.0), N_INPUTS, 11, 3, precision))
        made.append(fit_nystrom_map(Gaussian(30.0), x[:40], 12, precision))
        made.append(fit_nystrom_map(Matern32(200.0), x[:40], 40, precision))
        made.append(StandardisedLinear.of_columns(x.mean(axis=0), x.std(axis=0), precision))
    return made


@pytest.fixture(params=maps(), ids=lambda m: f"{m.describe()}-{m.precision}")
def feature_map(request: pytest.FixtureRequest) -> FeatureMap:
    made: FeatureMap = request.param
    return made


def test_features_have_the_promised_shape_and_precision(feature_map: FeatureMap) -> None:
    features = feature_map.transform(inputs())
    assert features.shape == (700, feature_map.n_columns)
    assert features.dtype == feature_map.precision
    assert features.std() > 0.01


def test_transform_leaves_its_input_unchanged(feature_map: FeatureMap) -> None:
    x = inputs().astype(feature_map.precision)
    before = x.copy()
    feature_map.transform(x)
    np.testing.assert_array_equal(x, before)


def test_mean_squared_norm_is_about_one(feature_map: FeatureMap) -> None:
    features = feature_map.transform(inputs())
    assert np.mean(np.sum(features**2, axis=1)) == pytest.approx(1.0, abs=0.01)


def test_stored_map_is_the_same_map(feature_map: FeatureMap) -> None:
    description = json.loads(json.dumps(feature_map.describe()))
    again = map_from_stored(description, {name: array.copy() for name, array in feature_map.arrays().items()})
    np.testing.assert_array_equal(again.transform(inputs()), feature_map.transform(inputs()))
    assert again.describe() == feature_map.describe()


def test_pickled_map_is_the_same_map_and_no_larger_for_having_been_used(feature_map: FeatureMap) -> None:
    features = feature_map.transform(inputs())
    stored = pickle.dumps(feature_map)
    np.testing.assert_array_equal(pickle.loads(stored).transform(inputs()), features)
    assert len(stored) < sum(array.nbytes for array in feature_map.arrays().values()) + 1000


def test_scores_have_the_same_bits_for_any_number_of_threads(feature_map: FeatureMap) -> None:
    weights = np.random.default_rng(1).standard_normal((2, feature_map.n_columns))
    one = score_rows(feature_map, weights, inputs(), 1)
    np.testing.assert_array_equal(score_rows(feature_map, weights, inputs(), 3), one)
    np.testing.assert_allclose(one, feature_map.transform(inputs()) @ weights.T, atol=1e-4)


def test_wrong_columns_are_named(feature_map: FeatureMap) -> None:
    with pytest.raises(DataError, match=r"\(rows, 4\), but got \(2, 3\)"):
        feature_map.transform(np.zeros((2, 3)))


def test_constant_columns_are_ignored_by_the_linear_map() -> None:
    x = inputs()
    x[:, 2] = 7.0
    linear = StandardisedLinear.of_columns(x.mean(axis=0), x.std(axis=0) * [1, 1, 0, 1], "float64")
    features = linear.transform(x)
    np.testing.assert_array_equal(features[:, 2], 0.0)
    np.testing.assert_allclose(features[:, -1], 0.5)
    np.testing.assert_allclose(np.mean(features[:, [0, 1, 3]] ** 2, axis=0), 0.25)


def test_stored_maps_that_cannot_be_rebuilt_are_errors() -> None:
    with pytest.raises(ModelError, match="kind of feature map: 'wavelet'"):
        map_from_stored({"kind": "wavelet"}, {})
    with pytest.raises(ModelError, match="fourier map cannot be rebuilt"):
        map_from_stored({"kind": "fourier", "kernel": {"name": "gaussian", "bandwidth": 1.0}}, {})
    with pytest.raises(ModelError, match="fourier map cannot be rebuilt"):
        map_from_stored({"kind": "fourier", "kernel": {"name": "gaussian", "bandwidth": -1.0}}, {})
    with pytest.raises(ModelError, match="fourier map cannot be rebuilt"):
        map_from_stored({"kind": "fourier", "kernel": {"name": "sinc"}}, {"frequencies": np.ones((2, 2))})


def test_median_distance_is_that_of_all_pairs() -> None:
    x = inputs()[:300]
    distances = np.linalg.norm(x[:, None, :] - x[None, :, :], axis=2)[np.triu_indices(300, 1)]
    assert median_distance(x) == pytest.approx(np.median(distances), rel=0.03)
    assert median_distance(x) == median_distance(x.copy())
    assert median_distance(3.0 * x) == pytest.approx(3.0 * median_distance(x))


def test_equal_rows_give_a_default_bandwidth() -> None:
    assert median_distance(np.ones((50, 3))) == 1.0
    assert median_distance(np.ones((1, 3))) == 1.0
    two = np.repeat([[0.0, 0.0], [3.0, 4.0]], [45, 5], axis=0)
    assert median_distance(two) == pytest.approx(5.0)
    with pytest.raises(DataError, match=r"\(0, 3\)"):
        median_distance(np.empty((0, 3)))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "polynomial"])
@pytest.mark.parametrize("bandwidth", [1e-160, 1e160])
def test_a_bandwidth_whose_square_overflows_is_refused(kernel: str, bandwidth: float) -> None:
    with pytest.raises(ConfigError, match=r"is outside \[1e-100, 1e\+100\]"):
        kernel_of_bandwidth(kernel, bandwidth)
