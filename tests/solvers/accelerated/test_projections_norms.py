from __future__ import annotations

import math

import numpy as np
import pytest

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Precision
from okl.solvers.accelerated.projections import align_with, dual_norm, project_ball, project_ball_pair, soft_threshold
from tests.compiled.cases import PRECISIONS, TOLERANCE

NORMS = (1.0, 1.001, 1.5, 2.0, 3.0, 50.0, math.inf)


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


def test_ball_pair_is_two_balls() -> None:
    plus, minus = np.array([3.0, 4.0]), np.array([0.3, 0.4])
    outs = np.empty(2), np.empty(2)
    assert project_ball_pair(*outs, plus, minus, 1.0) == (0.2, 1.0)
    np.testing.assert_allclose(outs[0], [0.6, 0.8])
    np.testing.assert_array_equal(outs[1], minus)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("radius", [1.0, 7.0])
def test_aligned_vector_reaches_the_dual_norm_within_its_ball(p: float, radius: float) -> None:
    rng = np.random.default_rng(1)
    z = rng.standard_normal(20)
    z[4] = 0.0
    w = align_with(z, p, radius)
    assert np.linalg.norm(w, p) == pytest.approx(radius)
    assert w @ z == pytest.approx(radius * dual_norm(z, p))
    others = rng.standard_normal((500, 20))
    others *= radius / np.linalg.norm(others, p, axis=1, keepdims=True)
    assert np.all(others @ z < w @ z)


@pytest.mark.parametrize("p", NORMS)
def test_aligned_vector_is_the_gradient_of_the_dual_norm(p: float) -> None:
    z = np.array([0.3, -1.2, 0.8, 2.0])
    step = 1e-6
    for i, direction in enumerate(np.eye(4)):
        difference = (dual_norm(z + step * direction, p) - dual_norm(z - step * direction, p)) / (2 * step)
        assert difference == pytest.approx(align_with(z, p)[i], abs=1e-5)


@pytest.mark.parametrize("p", NORMS)
def test_dual_norm_scales_without_overflow(p: float) -> None:
    z = np.array([3.0, -1.0, 2.0])
    for scale in (1e-300, 1e300):
        assert dual_norm(scale * z, p) / scale == pytest.approx(dual_norm(z, p))
        np.testing.assert_allclose(align_with(scale * z, p), align_with(z, p), rtol=1e-12)
    assert dual_norm(0 * z, p) == 0
    assert not align_with(0 * z, p).any()


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
    with pytest.raises(ConfigError, match=r"p = 0\.5"):
        align_with(np.ones(2), 0.5)
    with pytest.raises(ConfigError, match=r"p = 0\.5"):
        dual_norm(np.ones(2), 0.5)
    with pytest.raises(ConfigError, match="threshold = -1"):
        soft_threshold(out, np.ones(2), -1.0)
    with pytest.raises(DataError, match="threshold has shape"):
        soft_threshold(out, np.ones(2), np.ones(3))
