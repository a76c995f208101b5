from __future__ import annotations

import math

import numpy as np
import pytest

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Precision
from okl.solvers.accelerated.projections import project_ball, soft_threshold
from tests.compiled.cases import PRECISIONS, TOLERANCE


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_point_outside_a_ball_lands_on_its_ray(precision: Precision, scale: float) -> None:
    point = (np.random.default_rng(0).standard_normal(30) * scale).astype(precision)
    out = np.empty_like(point)
    factor = project_ball(out, point, 0.5 * scale)
    assert 0 < factor < 1
    np.testing.assert_allclose(np.linalg.norm(out.astype(np.float64)), 0.5 * scale, rtol=TOLERANCE[precision])
    np.testing.assert_allclose(out, factor * point, rtol=TOLERANCE[precision])
    assert project_ball(out, point, 1e3 * scale) == 1
    np.testing.assert_array_equal(out, point)


def test_a_ball_ends_at_its_radius() -> None:
    point, out = np.array([3.0, -4.0]), np.empty(2)
    for radius in (4.1, 4.9, 4.999):
        assert project_ball(out, point, radius) == pytest.approx(radius / 5.0, rel=1e-15)
    for radius in (5.0, 5.001, 6.0):
        assert project_ball(out, point, radius) == 1
        np.testing.assert_array_equal(out, point)


def test_largest_numbers_do_not_overflow_a_ball() -> None:
    out = np.full(4, 1e308)
    project_ball(out, out, 1.0)
    np.testing.assert_allclose(out, 0.5)


def test_centre_of_a_ball_stays() -> None:
    out = np.zeros(3)
    assert project_ball(out, out, 1.0) == 1
    assert not out.any()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_soft_threshold_is_the_prox_of_the_norm(precision: Precision) -> None:
    rng = np.random.default_rng(2)
    point = rng.standard_normal(50).astype(precision)
    for threshold in (0.4, rng.random(50)):
        out = np.empty_like(point)
        soft_threshold(out, point, threshold)
        a, p = out.astype(np.float64), point.astype(np.float64)
        slopes = (p - a) / threshold  # a subgradient of |a|
        np.testing.assert_allclose(slopes[a != 0], np.sign(a[a != 0]), atol=50 * TOLERANCE[precision])
        assert np.all(np.abs(slopes) <= 1 + 50 * TOLERANCE[precision])
        assert 5 < np.sum(a == 0) < 45
    inside = point.copy()
    soft_threshold(inside, inside, threshold)
    np.testing.assert_array_equal(inside, out)


def test_threshold_of_zero_changes_nothing() -> None:
    out = np.array([1.0, -2.0, 0.0])
    soft_threshold(out, out, 0.0)
    np.testing.assert_array_equal(out, [1.0, -2.0, 0.0])


def test_bad_numbers_are_errors() -> None:
    out, point = np.empty(2), np.array([1.0, math.nan])
    with pytest.raises(ConfigError, match="radius = 0"):
        project_ball(out, point, 0)
    with pytest.raises(DataError, match="entry 1 is nan"):
        project_ball(out, point, 1.0)
    with pytest.raises(ConfigError, match="threshold = -1"):
        soft_threshold(out, np.ones(2), -1.0)
    with pytest.raises(DataError, match="threshold has shape"):
        soft_threshold(out, np.ones(2), np.ones(3))
