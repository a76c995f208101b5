"""What learning costs on a nominal machine, which decides how much of it a budget allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from okl.choosing.candidates import FACTORS, Candidate, field
from okl.choosing.costs import (
    LEAST_LANDMARKS,
    MOST_LANDMARKS,
    Shape,
    better_online,
    fogd_size,
    most_landmarks,
    ridge_seconds,
    rounds_of_race,
)

SHAPE = Shape(rows=50_000, inputs=30, outputs=3)
BUDGETS = (0.1, 5.0, 20.0, 60.0, 300.0)


@pytest.mark.parametrize("name", ["rows", "inputs", "outputs"])
def test_more_of_anything_costs_more(name: str) -> None:
    more = replace(SHAPE, **{name: 2 * getattr(SHAPE, name)})
    assert ridge_seconds(more, 1000) > ridge_seconds(SHAPE, 1000)
    assert ridge_seconds(SHAPE, 2000) > 2.0 * ridge_seconds(SHAPE, 1000)


def test_more_time_allows_more_landmarks_and_never_more_than_it_pays_for() -> None:
    allowed = [most_landmarks(SHAPE, seconds) for seconds in BUDGETS]
    assert allowed[0] is None
    sizes = [size for size in allowed if size is not None]
    assert sizes == sorted(sizes)
    assert LEAST_LANDMARKS <= sizes[0] < sizes[-1] == MOST_LANDMARKS
    assert all(
        ridge_seconds(SHAPE, size) <= seconds
        for size, seconds in zip(allowed, BUDGETS, strict=True)
        if size is not None
    )


def test_few_rows_are_all_landmarks() -> None:
    assert most_landmarks(replace(SHAPE, rows=300), 10.0) == 300
    assert most_landmarks(replace(SHAPE, rows=LEAST_LANDMARKS + 1), 60.0) == LEAST_LANDMARKS + 1


def test_millions_of_rows_are_too_many_for_landmarks_and_are_learnt_online() -> None:
    many = Shape(50_000_000, 54, 1)
    assert most_landmarks(many, 40.0) is None
    frequencies, passes = fogd_size(many, 40.0)
    assert frequencies >= 1
    assert passes == 1


def test_online_learning_takes_frequencies_first_and_passes_with_what_is_left() -> None:
    sizes = [fogd_size(Shape(2_000_000, 54, 1), seconds) for seconds in (0.1, 10.0, 40.0, 300.0, 3000.0)]
    assert sizes == sorted(sizes)
    assert sizes[0][0] < sizes[-1][0]
    assert sizes[0][1] == 1 < sizes[-1][1]


def test_online_learning_is_for_landmarks_that_are_few_for_want_of_time() -> None:
    by_rows = {}
    for rows in (300, 800, 5_000, 50_000, 150_000, 500_000, 1_000_000):
        shape = Shape(rows, 54, 1)
        landmarks = most_landmarks(shape, 39.0)
        assert landmarks is not None
        frequencies, passes = fogd_size(shape, 39.0)
        by_rows[rows] = better_online(shape, landmarks, frequencies)
        assert passes >= 3 or frequencies <= 1600
    assert list(by_rows.values()) == [False] * 5 + [True, True]
    assert not better_online(Shape(500_000, 54, 1), 1600, 1600)


@pytest.mark.parametrize("rows", [2, 300, 5000, 10**7])
def test_less_time_or_fewer_rows_make_rounds_smaller_and_fewer(rows: int) -> None:
    before: list[tuple[int, int]] = []
    for seconds in BUDGETS:
        rounds = rounds_of_race(seconds, rows)
        assert rounds == sorted(set(rounds))
        assert all(1 <= landmarks <= sample <= rows for sample, landmarks in rounds)
        assert not before or rounds[-1] >= before[-1]
        before = rounds
    assert rounds_of_race(1000.0, rows) == rounds_of_race(60.0, rows)
    assert (rounds_of_race(1.0, rows) < rounds_of_race(60.0, rows)) == (rows > 256)


def test_linear_models_start_first_and_nothing_starts_twice() -> None:
    starters = field(("standard", "minmax"))
    assert [one.kernel for one in starters[:2]] == ["linear", "linear"]
    assert {one.kernel for one in starters} == {"linear", *FACTORS}
    assert len(set(starters)) == len(starters) == len({one.name for one in starters})


def test_neighbours_are_half_a_step_to_either_side() -> None:
    below, above = Candidate("standard", "laplacian", 2.0).neighbours()
    assert below.factor < 2.0 < above.factor
    assert below.factor * above.factor == pytest.approx(4.0)
    assert (below.kernel, below.scale) == ("laplacian", "standard")
    assert Candidate("none", "linear").neighbours() == ()
