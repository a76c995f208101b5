"""Line searches: the exact one is exact, the paper's ends in both of its sets, and neither stalls on a kink."""

from __future__ import annotations

import math

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.losses import EpsilonInsensitive, Hinge
from okl.solvers.subgradient.bundle import BracketingSearch, ExactSearch, Ray
from okl.solvers.subgradient.method import Scs, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows
from tests.solvers.subgradient.searches import LOSSES, least_by_programme, least_on_grid, random_ray


def test_exact_search_is_below_a_dense_grid_on_ten_thousand_rays() -> None:
    rng, search, inside = np.random.default_rng(0), ExactSearch(), 0
    for index in range(10_000):
        loss = LOSSES[index % 4]
        ray, longest = random_ray(rng, loss), float(rng.choice([0.1, 1.0, 10.0]))
        step = search.step(ray, loss, longest)
        assert 0.0 <= step <= longest
        value, derivative = ray.at(step, loss)
        assert value <= least_on_grid(ray, loss, longest, 40) + 1e-12 * (1.0 + abs(value))
        # the right-hand derivative does not fall below 0 before the end of the ray
        assert derivative >= -1e-9 * (1.0 + abs(ray.slope)) or step == longest
        inside += 0.0 < step < longest
    assert 2_000 < inside < 9_000


def test_exact_search_finds_the_minimum_of_a_quadratic_programme() -> None:
    rng, search = np.random.default_rng(1), ExactSearch()
    for index in range(400):
        loss = LOSSES[index % 4]
        ray, longest = random_ray(rng, loss), float(rng.choice([0.1, 1.0, 10.0]))
        value = ray.at(search.step(ray, loss, longest), loss)[0]
        assert value == pytest.approx(least_by_programme(ray, loss, longest), rel=1e-8, abs=1e-8)


def test_bracketing_ends_in_both_sets_or_at_an_end() -> None:
    rng, search, found = np.random.default_rng(2), BracketingSearch(), 0
    for index in range(2000):
        loss = LOSSES[index % 4]
        ray = random_ray(rng, loss)
        start, slope = ray.at(0.0, loss)
        # as for the paper's directions: g'd <= -||d||^2 at 0
        ray = Ray(ray.scores, ray.along, ray.targets, ray.slope, ray.curvature, max(1e-12, -slope))
        step = search.step(ray, loss, 5.0)
        if step == 0.0:
            continue
        value, derivative = ray.at(step, loss)
        assert value - start <= -search.decrease * step * ray.squared_length * (1.0 - 1e-12)
        longest = min(5.0, -slope / ray.curvature)
        flat = derivative >= -search.flatness * ray.squared_length
        assert flat or step > 0.5 * longest - 1e-12
        found += flat
    assert found > 300


@pytest.mark.parametrize("directions", ["bundle", "conjugate"])
@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.0)])
def test_no_stall_where_every_step_lands_on_kinks(directions: str, loss: Hinge | EpsilonInsensitive) -> None:
    """Rows of integers and targets of one: margins are equal in heaps, and minima along lines are kinks."""
    rng = np.random.default_rng(3)
    rows = rng.integers(-1, 2, (60, 3)).astype(np.float64)
    targets = rng.choice([-1.0, 1.0], 60)
    method = Scs(lam=0.05, loss=loss, gap=1e-3, directions=directions, max_iterations=3000)  # type: ignore[arg-type]
    solved = solve_sample(ExplicitRows(rows), targets, method)
    assert solved.reason == "gap"
    margins = np.abs(1.0 - targets * solved.point.scores) if isinstance(loss, Hinge) else solved.point.scores
    assert (np.abs(margins - np.round(margins)) < 1e-3).any()


def test_search_refuses_sets_that_may_be_disjoint() -> None:
    with pytest.raises(ConfigError, match="decrease < flatness"):
        BracketingSearch(decrease=0.3, flatness=0.25)
    assert BracketingSearch().step(random_ray(np.random.default_rng(5), Hinge()), Hinge(), math.inf) >= 0.0
