"""The line search is exact, and no method stalls on a kink."""

from __future__ import annotations

import numpy as np
import pytest

from okl.losses import EpsilonInsensitive, Hinge
from okl.solvers.subgradient.scs import ExactLineSearch, Scs, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows
from tests.solvers.subgradient.searches import LOSSES, least_by_programme, least_on_grid, random_ray, value_at


def test_exact_search_is_below_a_dense_grid_on_thousands_of_rays() -> None:
    rng, search, inside = np.random.default_rng(0), ExactLineSearch(), 0
    for index in range(2_000):
        loss = LOSSES[index % 4]
        ray, longest = random_ray(rng, loss), float(rng.choice([0.1, 1.0, 10.0]))
        step = search.step(ray, loss, longest)
        assert 0.0 <= step <= longest
        value, derivative = value_at(ray, loss, step)
        assert value <= least_on_grid(ray, loss, longest, 40) + 1e-12 * (1.0 + abs(value))
        # the right-hand derivative is not negative before the end of the ray
        assert derivative >= -1e-9 * (1.0 + abs(ray.slope)) or step == longest
        inside += 0.0 < step < longest
    assert 400 < inside < 1_800


def test_exact_search_finds_the_minimum_of_a_quadratic_programme() -> None:
    rng, search = np.random.default_rng(1), ExactLineSearch()
    for index in range(200):
        loss = LOSSES[index % 4]
        ray, longest = random_ray(rng, loss), float(rng.choice([0.1, 1.0, 10.0]))
        value = value_at(ray, loss, search.step(ray, loss, longest))[0]
        assert value == pytest.approx(least_by_programme(ray, loss, longest), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("directions", ["bundle", "conjugate"])
@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.0)])
def test_no_stall_where_every_step_lands_on_kinks(directions: str, loss: Hinge | EpsilonInsensitive) -> None:
    """Integer rows with equal targets have many equal margins, so minima along lines are kinks."""
    rng = np.random.default_rng(3)
    rows = rng.integers(-1, 2, (60, 3)).astype(np.float64)
    targets = rng.choice([-1.0, 1.0], 60)
    method = Scs(lam=0.05, loss=loss, gap=1e-3, directions=directions, max_iterations=3000)  # type: ignore[arg-type]
    solved = solve_sample(ExplicitRows(rows), targets, method)
    assert solved.reason == "gap"
    margins = np.abs(1.0 - targets * solved.point.scores) if isinstance(loss, Hinge) else solved.point.scores
    assert (np.abs(margins - np.round(margins)) < 1e-3).any()
