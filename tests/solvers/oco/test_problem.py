from __future__ import annotations

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.solvers.oco.baselines import ImprovedAder, YuNeely
from okl.solvers.oco.methods import Algorithm1, Algorithm2
from okl.solvers.oco.problem import ConvexConstraints, ConvexLosses, LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.runs import play, run_many
from okl.solvers.oco.schedules import Anytime, KnownHorizon, KnownPathLength, StronglyConvex, constants_of, covered
from okl.solvers.oco.sets import Ball, Box, ConvexSet, Simplex
from tests.solvers.oco.cases import online_programme, random_set, square

STRIP = Box(np.array([-np.inf, -1.0]), np.array([np.inf, 1.0]))
SETS: list[ConvexSet] = [square(), Ball(np.zeros(2), 1.0), Simplex(2), STRIP]
MATRIX = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize("region", SETS)
def test_conflicting_rows_are_named_and_no_others(region: ConvexSet) -> None:
    names = ("upper", "lower", "harmless")
    assert Problem(region, LinearConstraints(MATRIX, np.array([1.1, -0.9, 3.0]))).feasible_point is not None
    # x1 + x2 <= .5 and >= .8 exclude each other; on the simplex, where the sum is 1, the first one does so alone
    with pytest.raises(ConfigError, match=r"satisfies 'upper'( and 'lower')?\. Loosen") as caught:
        Problem(region, LinearConstraints(MATRIX, np.array([0.5, -0.8, 3.0]), names))
    assert "harmless" not in str(caught.value)


@pytest.mark.parametrize("region", SETS)
def test_conflicting_convex_constraints_are_named(region: ConvexSet) -> None:
    def constraints(radius: float) -> ConvexConstraints:
        return ConvexConstraints(
            lambda x: np.array([x @ x - radius, 0.8 - x.sum(), x[0] - 5.0]),
            lambda x: np.array([2.0 * x, [-1.0, -1.0], [1.0, 0.0]]),
            3,
            ("short", "far", "harmless"),
        )

    point = Problem(region, constraints(0.6)).feasible_point
    assert point is not None
    assert region.contains(point, 1e-8)
    assert constraints(0.6).values(point).max() < 1e-8
    with pytest.raises(ConfigError, match=r"satisfies .*'short'") as caught:
        Problem(region, constraints(0.3))
    assert "harmless" not in str(caught.value)


def test_support_is_the_largest_product_over_the_set() -> None:
    rng = np.random.default_rng(0)
    for kind in range(3):
        region = random_set(rng, kind, 4)
        direction = rng.normal(size=4)
        points = np.array([region.project(3.0 * rng.normal(size=4)) for _ in range(200)])
        assert (points @ direction).max() <= region.support(direction) + 1e-12
        far = region.project(1e6 * direction)
        assert far @ direction == pytest.approx(region.support(direction), rel=1e-4)
        assert np.linalg.norm(points[:, None] - points[None, :], axis=2).max() <= region.diameter + 1e-12


def test_an_unbounded_set_is_refused_where_the_theorem_requires_a_bounded_one() -> None:
    problem = Problem(STRIP, LinearConstraints(MATRIX, np.ones(3)))
    for method in (Algorithm1(Anytime()), Algorithm1(KnownPathLength(3.0)), Algorithm2(KnownHorizon())):
        with pytest.raises(ConfigError, match=r"(Theorem|Corollary) .* needs a bounded set"):
            method.start(problem, 100)
    for free in (Algorithm1(KnownHorizon()), Algorithm1(StronglyConvex(1.0))):
        assert free.start(problem, 100).round == 1


def test_a_schedule_for_a_known_horizon_requires_the_horizon() -> None:
    problem, _ = online_programme(0, 10)
    with pytest.raises(ConfigError, match=r"needs the number of rounds.*Set horizon"):
        Algorithm1(KnownHorizon()).start(problem)
    with pytest.raises(ConfigError, match=r"needs the number of rounds.*Set horizon"):
        Algorithm2(Anytime()).start(problem)


def test_a_penalty_beyond_its_range_runs_but_is_not_covered() -> None:
    problem, losses = online_programme(0, 50)
    assert covered(KnownHorizon(penalty_scale=0.1), 7.0)
    beyond = KnownHorizon(penalty_scale=0.11)
    assert not covered(beyond, 7.0)
    assert Algorithm1(beyond).run(problem, losses).shape == (50, 2)


def test_invalid_records_raise_errors_that_name_the_problem() -> None:
    problem, losses = online_programme(0, 5)
    with pytest.raises(ConfigError, match="which contain no number"):
        Box(np.array([0.0, 2.0]), np.ones(2))
    with pytest.raises(ConfigError, match="expected one bound for each row"):
        LinearConstraints(MATRIX, np.array([1.0, 2.0]))
    with pytest.raises(ConfigError, match="points of the set have 3"):
        Problem(Simplex(3), LinearConstraints(MATRIX, np.ones(3)))
    with pytest.raises(ConfigError, match="expected a point of the set"):
        Algorithm1().start(problem, 5, np.array([3.0, 0.0]))
    with pytest.raises(ConfigError, match="expected one for each round"):
        QuadraticLosses(1.0, np.ones((3, 2)), np.ones(2))
    for method in (Algorithm1, Algorithm2):
        with pytest.raises(
            ConfigError, match=r"schedule = 5; expected .*KnownHorizon.*, such as oco\.KnownHorizon\(5\.0"
        ):
            method(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs 2 finite numbers"):
        Algorithm1().learn(Algorithm1().start(problem, 5), np.ones(3))
    with pytest.raises(ConfigError, match="expected one loss for each problem"):
        run_many(Algorithm1(), [problem], [losses, losses])
    convex = ConvexConstraints(lambda x: np.array([x @ x - 1.0]), lambda x: 2.0 * x[None, :], 1)
    curved = Problem(square(), convex)
    with pytest.raises(ConfigError, match=r"expected LinearConstraints, .*`constants_of`, do not"):
        constants_of(curved, losses)
    with pytest.raises(ConfigError, match=r"constants_of takes QuadraticLosses"):
        constants_of(problem, ConvexLosses(lambda t, x: float(x @ x), lambda t, x: 2.0 * x, 5))
    for other in (YuNeely(), ImprovedAder(1.0)):
        with pytest.raises(ConfigError, match=r"needs linear ones\. Use Recoo or Algorithm1"):
            play(other, curved, losses)
    with pytest.raises(ConfigError, match=r"expected LinearConstraints, .*`play` takes them, round by round"):
        Algorithm1().run(curved, losses)
