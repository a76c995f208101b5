from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Precision
from okl.solvers.accelerated.projections import (
    RIVALS,
    Rival,
    hyperplane_set,
    project_box_hyperplane_by,
    project_capped_simplex_pair,
    sampled_interval,
)
from tests.solvers.accelerated.projection_cases import (
    Case,
    Doubles,
    assert_optimal,
    project_box_hyperplane,
    random_case,
    solve_program,
)

SIZE = 60_000  # larger than problems that are projected without a sample
CASES = [random_case(seed) for seed in range(600)]


def projected(case: Case) -> Doubles:
    out = np.empty_like(case.point)
    project_box_hyperplane(out, case.point, case.signs, case.lower, case.upper, case.total)
    return out


def projected_pair(case: Case) -> Doubles:
    out = np.empty_like(case.point)
    project_capped_simplex_pair(out, case.point, case.signs, case.lower, case.upper, *case.pair)
    return out


def large_case(kind: str) -> Case:
    rng = np.random.default_rng(5)
    normal = rng.standard_normal(SIZE)
    signs = np.where(rng.random(SIZE) < 0.3, 1, -1).astype(np.int8)
    rare = np.where(np.arange(SIZE) < 20, 1, -1).astype(np.int8)
    ones = np.ones(SIZE, dtype=np.int8)
    shares, nu = np.full(SIZE, 0.7), 2.0 / (0.5 * SIZE)
    widths = np.exp(5 * rng.standard_normal(SIZE))
    outlier = np.where(np.arange(SIZE) == 77, 1e9, normal)
    kinds: dict[str, tuple[Doubles, NDArray[np.int8], float | Doubles, float | Doubles, float]] = {
        "c-svm": (normal, signs, 0.0, 1.0, 0.0),
        "l2-svm": (normal, signs, 0.0, math.inf, 0.0),
        "nu-svm": (1000 * rng.random(SIZE), ones, 0.0, nu, 0.5),
        "sorted": (np.sort(normal), np.sort(signs), 0.0, 1.0, 0.0),
        "ties": (np.round(normal, 1), signs, 0.0, 1.0, 0.0),
        "one value": (shares, signs, 0.0, 1.0, 0.0),
        "rare class": (normal, rare, 0.0, 1.0, 0.0),
        "full": (normal, ones, 0.0, 1.0, float(SIZE)),
        "nearly empty": (normal, ones, 0.0, 1.0, 2.5),
        "cauchy": (rng.standard_cauchy(SIZE), signs, 0.0, math.inf, 0.0),
        "outlier": (outlier, signs, 0.0, math.inf, 0.0),
        "many widths": (normal, signs, -np.round(rng.random(SIZE), 1), widths, 10.0),
    }
    point, y, lower, upper, total = kinds[kind]
    pair = (min(0.5, nu * 20), 0.5)
    return Case(point, y, lower, upper, total, pair, False)


LARGE = ["c-svm", "l2-svm", "nu-svm", "sorted", "ties", "one value", "rare class", "full", "nearly empty"]
LARGE += ["cauchy", "outlier", "many widths"]


def test_cases_are_of_every_kind() -> None:
    boxes = [case.bounds for case in CASES]
    assert sum(case.empty for case in CASES) > 10
    assert sum(bool(np.all(low == high)) for low, high in boxes) > 20
    assert sum(bool(np.any(np.isinf(high))) for _, high in boxes) > 100
    assert sum(len(np.unique(case.point)) < len(case.point) for case in CASES) > 100
    assert sum(0 < np.sum(case.signs < 0) < len(case.signs) for case in CASES) > 100


def test_projection_equals_quadratic_program() -> None:
    for case in CASES[:300]:
        solution = solve_program(case)
        if case.empty:
            assert solution is None
            with pytest.raises(ConfigError, match="cannot be reached"):
                projected(case)
        else:
            assert solution is not None
            # on sets without an interior the solver itself has six correct digits
            np.testing.assert_allclose(projected(case), solution, atol=1e-5 * (1 + np.abs(case.point).max()))


def test_pair_projection_equals_quadratic_program() -> None:
    for case in CASES[450:]:
        solution = solve_program(case, pair=True)
        if solution is None:
            with pytest.raises(ConfigError, match=r"sign .1 sum to"):
                projected_pair(case)
        else:
            scale = 1 + np.abs(case.point).max()
            np.testing.assert_allclose(projected_pair(case), solution, atol=1e-5 * scale)


def test_projection_meets_optimality_conditions() -> None:
    for case in CASES:
        if not case.empty:
            assert_optimal(projected(case), case, np.ones(len(case.point), dtype=bool), case.signs * 1.0, case.total)


def test_pair_projection_meets_optimality_conditions() -> None:
    for case in CASES:
        if not case.empty:
            for sign, total in zip((1, -1), case.pair, strict=True):
                assert_optimal(projected_pair(case), case, case.signs == sign, np.ones(len(case.point)), total)


@pytest.mark.parametrize("rival", RIVALS)
def test_alternative_algorithms_find_the_same_point(rival: Rival) -> None:
    compared = 0
    for case in CASES:
        lower, upper = case.lower, case.upper
        if case.empty or isinstance(lower, np.ndarray) or isinstance(upper, np.ndarray):
            continue
        if math.isinf(upper) and (case.signs < 0).any():
            continue
        out = np.empty_like(case.point)
        project_box_hyperplane_by(rival, out, case.point, case.signs, lower, upper, case.total)
        np.testing.assert_allclose(out, projected(case), atol=1e-12 * (1 + np.abs(case.point).sum()))
        compared += 1
    assert compared > 100


@pytest.mark.parametrize("kind", LARGE)
def test_large_projection_is_optimal_within_six_passes(kind: str) -> None:
    case = large_case(kind)
    out = np.empty_like(case.point)
    result = project_box_hyperplane(out, case.point, case.signs, case.lower, case.upper, case.total)
    assert_optimal(out, case, np.ones(SIZE, dtype=bool), case.signs * 1.0, case.total)
    assert result.passes <= 6
    assert np.unique(out).size > 1 or kind in ("full", "one value")


@pytest.mark.parametrize("kind", [*LARGE[:9], "many widths", "one lower bound"])  # the others mislead a sample
def test_a_window_holds_the_multiplier_and_few_bends(kind: str) -> None:
    case = large_case("many widths")._replace(lower=0.0) if kind == "one lower bound" else large_case(kind)
    prepared = hyperplane_set(case.signs, case.lower, case.upper, case.total)
    window, _, read = sampled_interval(prepared.entries._replace(point=case.point), prepared.groups[0])
    found = prepared.project(np.empty_like(case.point), case.point, (0.0, 0.0), 1)
    assert window.start < found.plus_theta < window.stop
    lower, upper = (np.broadcast_to(bound, SIZE) for bound in (case.lower, case.upper))
    low, high = np.where(case.signs > 0, lower, -upper), np.where(case.signs > 0, upper, -lower)
    bends = np.concatenate([case.signs * case.point - low, case.signs * case.point - high])
    inside = np.count_nonzero((bends > window.start) & (bends < window.stop)) / SIZE
    assert read < SIZE / 2
    assert inside < (1.01 if kind == "one value" else 0.2)


def test_a_window_that_misses_requires_another_pass() -> None:
    usual, missed = (
        project_box_hyperplane(np.empty(SIZE), case.point, case.signs, case.lower, case.upper, case.total)
        for case in (large_case("l2-svm"), large_case("outlier"))
    )
    assert missed.passes > usual.passes + 1


@pytest.mark.parametrize("kind", ["nu-svm", "rare class", "ties"])
def test_large_pair_projection_is_optimal_within_six_passes(kind: str) -> None:
    case = large_case(kind)
    if kind == "nu-svm":
        case = case._replace(signs=large_case("c-svm").signs)
    out = np.empty_like(case.point)
    result = project_capped_simplex_pair(out, case.point, case.signs, case.lower, case.upper, *case.pair)
    for sign, total in zip((1, -1), case.pair, strict=True):
        assert_optimal(out, case, case.signs == sign, np.ones(SIZE), total)
    assert result.passes <= 6


@pytest.mark.parametrize("kind", ["c-svm", "l2-svm", "nu-svm", "many widths"])
def test_warm_start_changes_rounding_only(kind: str) -> None:
    case = large_case(kind)
    cold, warm = np.empty_like(case.point), np.empty_like(case.point)
    first = project_box_hyperplane(cold, case.point, case.signs, case.lower, case.upper, case.total)
    again = project_box_hyperplane(warm, case.point, case.signs, case.lower, case.upper, case.total, first.plus_theta)
    np.testing.assert_allclose(warm, cold, atol=1e-12 * np.abs(case.point).max())
    assert again.plus_theta == pytest.approx(first.plus_theta, rel=1e-12)
    # boxes of nu-svm are narrower than the precision of Newton's steps
    assert 1.0 < again.passes < first.passes or kind == "nu-svm"


@pytest.mark.parametrize("guess", [-1e6, 1e6])
def test_a_guess_far_from_all_bends_gives_the_same_projection(guess: float) -> None:
    for case in CASES[:150]:
        if not case.empty:
            out = np.empty_like(case.point)
            project_box_hyperplane(out, case.point, case.signs, case.lower, case.upper, case.total, guess)
            assert_optimal(out, case, np.ones(len(case.point), dtype=bool), case.signs * 1.0, case.total)


def test_projection_is_idempotent_and_nonexpansive() -> None:
    for first, second in pairwise(CASES[:200]):
        if not first.empty:
            other = first._replace(point=np.resize(second.point, first.point.shape))
            a, b = projected(first), projected(other)
            scale = 1 + np.abs(first.point).sum()
            np.testing.assert_allclose(projected(first._replace(point=a)), a, atol=1e-12 * scale)
            assert np.linalg.norm(a - b) <= np.linalg.norm(first.point - other.point) + 1e-12 * scale


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_projection_in_place_equals_projection_into_another_array(precision: Precision) -> None:
    case = large_case("c-svm")
    point = case.point.astype(precision)
    other_array, in_place = np.empty_like(point), point.copy()
    project_box_hyperplane(other_array, point, case.signs, 0.0, 1.0)
    upper = np.ones(SIZE) if precision == "float64" else 1.0
    project_box_hyperplane(in_place, in_place, case.signs.astype(np.float64), 0.0, upper)
    np.testing.assert_allclose(in_place, other_array, atol=1e-12)
    assert abs(float(case.signs @ other_array.astype(np.float64))) < 1e-12 * SIZE if precision == "float64" else 0.1
    assert other_array.dtype == precision


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(6)
    point = rng.standard_normal(1_300_000).astype(np.float32)
    signs = np.where(rng.random(len(point)) < 0.4, 1, -1).astype(np.int8)
    outs = [np.empty_like(point) for _ in range(3)]
    results = [
        project_box_hyperplane(out, point, signs, 0.0, 1.0, n_threads=n) for out, n in zip(outs, (1, 2, 3), strict=True)
    ]
    assert results[0] == results[1] == results[2]
    assert outs[0].tobytes() == outs[1].tobytes() == outs[2].tobytes()


def test_a_total_at_an_end_up_to_rounding_is_accepted() -> None:
    for size in range(3, 200):
        upper = 1.0 / (0.5 * size + 0.5 * size)
        out = np.empty(size)
        project_box_hyperplane(out, np.linspace(-1.0, 1.0, size), np.ones(size, dtype=np.int8), 0.0, upper, 1.0)
        np.testing.assert_allclose(out, upper, rtol=1e-12)


def test_a_total_at_an_end_is_accepted_where_the_sums_of_the_signs_nearly_cancel() -> None:
    case = random_case(4154)
    assert abs(case.total) < 1e-4 * abs(case.pair[0])  # rounding is relative to the terms, not to their sum
    out = np.empty_like(case.point)
    project_box_hyperplane(out, case.point, case.signs, case.lower, case.upper, case.total)
    np.testing.assert_allclose(out, np.where(case.signs > 0, case.upper, case.lower), rtol=1e-14)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"total": 2.5}, "total = 2.5 cannot be reached: .* at most 2, from upper bounds"),
        ({"total": -1.5}, "total = -1.5 cannot be reached: .* at least -1, from lower bounds"),
        (
            {"total": -1.5, "upper": np.array([1e20, 1e20, 1.0])},
            "at least -1, from lower",
        ),  # rounding is relative to the nearer end
        ({"total": math.nan}, "total = nan"),
        ({"lower": 2.0}, "lower = 2 and upper = 1 enclose no number"),
        ({"lower": np.array([0.0, 3.0, 0.0])}, "lower = 3 and upper = 1 of entry 1"),
        ({"upper": -math.inf, "lower": -math.inf}, "enclose no number.*only lower may be -inf and only upper inf"),
        ({"upper": np.array([1.0, math.nan, 1.0])}, "of entry 1"),
    ],
)
def test_an_empty_set_raises_an_error_that_names_the_conflicting_bound(
    changed: dict[str, object], message: str
) -> None:
    options: dict[str, object] = {"lower": 0.0, "upper": 1.0, "total": 0.5} | changed
    with pytest.raises(ConfigError, match=message):
        project_box_hyperplane(np.empty(3), np.zeros(3), np.array([1, 1, -1]), **options)  # type: ignore[arg-type]


def test_nu_beyond_its_range_names_the_class() -> None:
    signs = np.array([1, -1, -1, -1])
    with pytest.raises(
        ConfigError, match=r"plus_total = 0.5 cannot be reached: entries with sign \+1 sum to at most 0.3"
    ):
        project_capped_simplex_pair(np.empty(4), np.zeros(4), signs, 0.0, 0.3)


@pytest.mark.parametrize("size", [5, SIZE])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_point_that_is_not_finite_is_an_error(size: int, bad: float) -> None:
    point = np.linspace(-1.0, 1.0, size)
    point[3] = bad
    with pytest.raises(DataError, match=f"entry 3 is {bad}"):
        project_box_hyperplane(np.empty(size), point, np.ones(size), 0.0, math.inf, 1.0)


def test_arrays_that_do_not_fit_are_errors() -> None:
    point, signs = np.zeros(3), np.array([1, -1, 1])
    for out in (np.empty(2), np.empty(3, dtype=np.float32), np.empty(6)[::2]):
        with pytest.raises(DataError, match="must be contiguous and writable"):
            project_box_hyperplane(out, point, signs, 0.0, 1.0)
    with pytest.raises(DataError, match="one sign for each"):
        project_box_hyperplane(np.empty(3), point, signs[:2], 0.0, 1.0)
    with pytest.raises(DataError, match="the sign of entry 1 is 0"):
        project_box_hyperplane(np.empty(3), point, [-1, 0, 1], 0.0, 1.0)
    with pytest.raises(DataError, match="upper has shape"):
        project_box_hyperplane(np.empty(3), point, signs, 0.0, np.ones(2))
    with pytest.raises(DataError, match="float32 or float64"):
        project_box_hyperplane(np.empty(3, dtype=int), np.zeros(3, dtype=int), signs, 0.0, 1.0)
    with pytest.raises(ConfigError, match="requires finite bounds"):
        project_box_hyperplane_by("bisection", np.empty(3), point, signs, 0.0, math.inf)
