from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from okl.foundation.errors import ConfigError, DataError
from okl.solvers.accelerated.projections import (
    Lines,
    MultiplierSearch,
    merge_sums,
    multiplier_sums,
    project_box_hyperplane,
    project_truncated_simplex_pair,
    write_projection,
)
from tests.solvers.accelerated.projection_cases import Case, Doubles, random_case

SIZE = 20_000
CASES = [case for case in map(random_case, range(300)) if not case.empty]


def searched(case: Case, n_shards: int, search: MultiplierSearch) -> MultiplierSearch:
    """What the search ends with when the entries are cut into shards."""
    edges = np.linspace(0, len(case.point), n_shards + 1).astype(int)
    shards = [slice(*pair) for pair in np.stack([edges[:-1], edges[1:]], axis=1).tolist() if pair[0] < pair[1]]
    lower, upper = (np.asarray(bound) for bound in (case.lower, case.upper))
    while search.theta is None:
        assert search.rounds < 30
        parts = [
            multiplier_sums(
                case.point[part],
                case.signs[part],
                lower[part] if lower.ndim else lower,
                upper[part] if upper.ndim else upper,
                search.question,
            )
            for part in shards
        ]
        search = pickle.loads(pickle.dumps(search.answered(merge_sums(parts))))
    return search


def found(case: Case, n_shards: int, sign: int = 0) -> float:
    total = case.total if sign == 0 else case.pair[0 if sign > 0 else 1]
    theta = searched(case, n_shards, MultiplierSearch(len(case.point), total, sign)).theta
    assert theta is not None
    return theta


def written(case: Case, plus: float, minus: float) -> Doubles:
    out = np.empty_like(case.point)
    write_projection(out, case.point, case.signs, case.lower, case.upper, plus, minus)
    return out


def large_case(kind: str) -> Case:
    rng = np.random.default_rng(3)
    signs = np.where(rng.random(SIZE) < 0.3, 1, -1).astype(np.int8)
    point = rng.standard_cauchy(SIZE) if kind == "cauchy" else rng.standard_normal(SIZE)
    if kind == "ties":
        point = np.round(point, 1)
    if kind == "outlier":
        point[77] = 1e9
    return Case(point, signs, 0.0, math.inf if kind == "outlier" else 1.0, 0.0, (0.5, 0.5), False)


def test_search_over_shards_finds_the_projection() -> None:
    for case in CASES:
        expected = np.empty_like(case.point)
        project_box_hyperplane(expected, case.point, case.signs, case.lower, case.upper, case.total)
        theta = found(case, 2)
        np.testing.assert_allclose(written(case, theta, -theta), expected, atol=1e-12 * (1 + np.abs(case.point).sum()))


def test_two_searches_over_shards_find_the_pair() -> None:
    for case in CASES[:150]:
        expected = np.empty_like(case.point)
        project_truncated_simplex_pair(expected, case.point, case.signs, case.lower, case.upper, *case.pair)
        out = written(case, found(case, 3, 1), found(case, 3, -1))
        np.testing.assert_allclose(out, expected, atol=1e-12 * (1 + np.abs(case.point).sum()))


@pytest.mark.parametrize("kind", ["normal", "cauchy", "ties", "outlier"])
def test_number_of_shards_changes_no_bit_and_the_hyperplane_holds(kind: str) -> None:
    case = large_case(kind)
    first, *others = [searched(case, n, MultiplierSearch(SIZE)) for n in (1, 2, 7, 40)]
    assert first.theta is not None
    assert all(other.theta == first.theta and other.rounds == first.rounds for other in others)
    out = written(case, first.theta, -first.theta)
    assert abs(math.fsum(case.signs * out)) <= 1e-14 * np.abs(out).sum()
    assert first.rounds <= 8


@pytest.mark.parametrize("kind", ["normal", "cauchy"])
def test_last_multiplier_saves_rounds_and_changes_no_bit(kind: str) -> None:
    case = large_case(kind)
    cold = searched(case, 2, MultiplierSearch(SIZE))
    assert cold.theta is not None
    warm = searched(case, 2, MultiplierSearch(SIZE, guess=cold.theta * 1.001, magnitude=cold.magnitude))
    assert warm.theta == cold.theta
    assert warm.rounds < cold.rounds


def test_lines_are_the_sum_of_clipped_terms() -> None:
    case, question = large_case("normal"), MultiplierSearch(SIZE, magnitude=8.0, n_candidates=16).question
    lines = Lines(multiplier_sums(case.point, case.signs, case.lower, case.upper, question), question.candidates, 3.0)

    def sums(t: float) -> float:
        return float(case.signs @ np.clip(case.point - case.signs * t, case.lower, case.upper)) - 3.0

    for j, t in enumerate(question.candidates):
        assert lines.at(j) == pytest.approx(sums(t), abs=1e-9)
    inner = [cell for cell in range(2, len(question.candidates) * 2, 2) if lines.root(cell) is None]
    assert len(inner) > 10
    ends = {cell: lines.ends(cell) for cell in inner}
    assert all(sums(start) > sums(stop) for start, stop in ends.values())
    (crossed,) = (cell for cell, (start, stop) in ends.items() if sums(start) > 0.0 > sums(stop))
    start, stop = ends[crossed]
    assert lines.root_cell() == crossed
    assert lines.secant(crossed, 0.25) == pytest.approx(np.interp(0.0, [-sums(start), -sums(stop)], [start, stop]))
    assert lines.secant(0, 0.25) == 0.25


def test_a_round_is_counted_once_and_repeated_if_numbers_were_larger_than_thought() -> None:
    case = CASES[7]
    first = MultiplierSearch(len(case.point), case.total)
    sums = multiplier_sums(case.point, case.signs, case.lower, case.upper, first.question)
    second = first.answered(sums)
    assert (second.rounds, second.theta) == (1, None)
    assert second.magnitude > sums.magnitude > 0.0
    sums = multiplier_sums(case.point, case.signs, case.lower, case.upper, second.question)
    assert second.answered(sums).rounds == 2


def test_set_out_of_reach_and_points_that_are_not_finite_are_errors() -> None:
    case = large_case("normal")
    case = case._replace(point=case.point[:300], signs=case.signs[:300])
    for sign, whose in ((0, "the sum of signs"), (1, "entries sum")):
        with pytest.raises(ConfigError, match=f"total = 1e\\+06 is out of reach: {whose}.*at most"):
            searched(case, 2, MultiplierSearch(300, 1e6, sign))
        with pytest.raises(ConfigError, match=f"total = -1e\\+06 is out of reach: {whose}.*at least"):
            searched(case, 2, MultiplierSearch(300, -1e6, sign))
    for bad in (math.nan, math.inf):
        point = case.point.copy()
        point[7] = bad
        with pytest.raises(DataError, match="finite numbers"):
            searched(case._replace(point=point), 2, MultiplierSearch(300))
