from __future__ import annotations

import numpy as np
import pytest

from okl.errors import ConfigError
from okl.online.constraints.limits import LinearLimits
from tests.naive.constrained import step

NAMES = ("mean(a=1) >= 0.5", "mean(a=1) <= 0.2", "covariance(b) <= 0")


def limits(low: list[float], high: list[float], radius: float = 10.0, rows: int = 3) -> LinearLimits:
    matrix = np.random.default_rng(4).standard_normal((rows, 12))
    matrix[1] = matrix[0]
    return LinearLimits(matrix, np.array(low), np.array(high), NAMES[:rows], radius)


def test_nearest_weights_are_those_of_a_cone_solver() -> None:
    kept = limits([0.1, -np.inf, -np.inf], [np.inf, 0.3, 0.0], radius=2.0)
    point = np.random.default_rng(1).standard_normal(12)
    nearest = kept.nearest(point)
    free = np.full(3, 1e4)
    expected = step(point, kept.rows, kept.low + kept.margins, kept.high - kept.margins, free, free, 2.0)
    np.testing.assert_allclose(nearest, expected, atol=1e-4)
    assert not kept.excess(nearest).any()
    assert kept.excess(point).any()
    np.testing.assert_allclose(kept.nearest(nearest), nearest, atol=1e-9)


def test_limits_in_conflict_are_named_and_no_others() -> None:
    with pytest.raises(ConfigError) as error:
        limits([0.5, -np.inf, -np.inf], [np.inf, 0.2, 0.0])
    assert NAMES[0] in str(error.value)
    assert NAMES[1] in str(error.value)
    assert NAMES[2] not in str(error.value)


def test_a_limit_beyond_the_ball_is_named() -> None:
    with pytest.raises(ConfigError, match=r"norm 0\.01 at most"):
        limits([0.5, -np.inf, -np.inf], [np.inf, 2.0, 0.0], radius=0.01)


def test_equality_has_no_room_for_a_margin() -> None:
    matrix = np.random.default_rng(2).standard_normal((1, 6))
    kept = LinearLimits(matrix, np.zeros(1), np.zeros(1), NAMES[:1], 1.0, margin=0.1)
    assert kept.margins[0] == 0.0
    assert abs(kept.values(kept.nearest(np.ones(6)))[0]) < 1e-9
