"""When a cell matches the paper."""

from __future__ import annotations

import pytest

from okl.reproduction.cells import Cell, Tolerance, relative_to

CLASSES = Tolerance(deviations=2.0, absolute=0.005)


def cell(metric: str = "mistake_rate", paper: float | None = 0.30, sd: float | None = 0.01) -> Cell:
    return Cell("german", "FOGD", metric, paper, sd)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.319, 0.319], "within"), ([0.321, 0.321], "worse"), ([0.28, 0.28], "within"), ([0.27, 0.27], "better")],
)
def test_a_mistake_rate_is_worse_only_above_the_tolerance(values: list[float], verdict: str) -> None:
    measured = cell().measured(values, [1.0, 3.0], CLASSES)
    assert measured.verdict == verdict
    assert (measured.repeats, measured.seconds, measured.sd) == (2, 2.0, 0.0)
    assert measured.difference == pytest.approx(values[0] - 0.30)


def test_an_accuracy_is_worse_only_below_the_tolerance() -> None:
    points = Tolerance(absolute=0.003)
    verdicts = [cell("accuracy", 0.85, None).measured([mean], [1.0], points).verdict for mean in (0.8, 0.848, 0.9)]
    assert verdicts == ["worse", "within", "better"]


def test_the_tolerance_is_the_largest_of_its_parts() -> None:
    assert CLASSES.of(0.3, 0.003, 0.004) == pytest.approx(0.01)
    assert CLASSES.of(0.3, 0.0003, None) == 0.005
    assert Tolerance(relative=0.05).of(0.04, 0.1, 0.1) == pytest.approx(0.002)
    assert CLASSES.describe() == "the larger of 2 sqrt(sd_paper^2 + sd_okl^2) and 0.5 points"


def test_deviations_count_both_spreads_and_one_order_has_none() -> None:
    measured = cell(sd=0.03).measured([0.30, 0.40], [1.0, 1.0], CLASSES)
    assert measured.sd is not None
    assert measured.deviations == pytest.approx(0.05 / (0.03**2 + measured.sd**2) ** 0.5)
    alone = cell(sd=None).measured([0.35], [1.0], CLASSES)
    assert (alone.sd, alone.deviations, alone.verdict) == (None, None, "worse")


def test_without_a_printed_number_there_is_no_verdict() -> None:
    assert cell(paper=None).measured([0.3], [1.0], CLASSES).verdict is None


@pytest.mark.parametrize(
    ("metric", "mean", "constant", "like"),
    [
        ("mistake_rate", 0.300, 0.302, True),
        ("mistake_rate", 0.270, 0.302, False),
        ("accuracy", 0.9702, 0.97, True),
        ("accuracy", 0.98, 0.97, False),
        ("mistake_rate", 0.3, None, False),
    ],
)
def test_a_cell_won_by_the_constant_predictor_is_marked(
    metric: str, mean: float, constant: float | None, like: bool
) -> None:
    assert cell(metric).measured([mean], [1.0], CLASSES).beside(constant, 0.1).like_constant is like


def test_seconds_are_in_units_of_the_reference_on_the_same_set_and_point() -> None:
    cells = [
        Cell("german", "FOGD", "mistake_rate", seconds=2.0),
        Cell("german", "NOGD", "mistake_rate", seconds=3.0),
        Cell("w7a", "NOGD", "mistake_rate", seconds=3.0),
        Cell("german", "NOGD", "mistake_rate", seconds=3.0, point={"budget": 50.0}),
        Cell("german", "RBP", "mistake_rate"),
    ]
    assert [c.relative_seconds for c in relative_to("FOGD", cells)] == [1.0, 1.5, None, None, None]
