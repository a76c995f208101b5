"""The simulations of section 4 of Yi et al.: the order of means, without a data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.papers import yi2021
from okl.papers.base import frozen_settings
from okl.papers.report import conclusions, headline
from okl.papers.run import check, reproduce
from okl.papers.settings import ReproduceSettings
from okl.papers.yi2021 import (
    LINEAR,
    LINEAR_CLAIMS,
    METRICS,
    POINTS,
    QUADRATIC,
    QUADRATIC_CLAIMS,
    Doubles,
    draw_coefficients,
    draw_problem,
    recorded_rounds,
)
from okl.solvers.oco.baselines import Jenatton, Mahdavi
from okl.solvers.oco.problem import LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.runs import constraint_values, losses_at, violation_of

REPEATS = 24
# Table 2 gives Yu & Neely, and Yuan & Lamperski, steps for which their theorems promise nothing
pytestmark = pytest.mark.filterwarnings("ignore::okl.foundation.errors.AssumptionWarning")


def run(table: str, out: Path, **values: Any) -> dict[str, Any]:
    chosen = {"repeats": REPEATS, "threads": 2} | values
    return reproduce(ReproduceSettings(table=table, out=str(out), **chosen))


def means_of(result: dict[str, Any], metric: str) -> dict[str, float]:
    return {cell["algorithm"]: cell["mean"] for cell in result["cells"] if cell["metric"] == metric}


def test_linear_programming_has_the_paper_s_orders(tmp_path: Path) -> None:
    result = run("yi2021-olp", tmp_path / "run", datasets="x1=0")
    loss, violation = means_of(result, "cumulative_loss"), means_of(result, "cumulative_violation")
    named = ["Algorithm 1", "Algorithm 2", "Yu & Neely", "Yuan & Lamperski", "Jenatton", "Mahdavi"]
    assert list(loss) == [*named, "RECOO", "Sinha & Vaze"]
    assert loss["Algorithm 2"] < loss["Algorithm 1"] < min(loss[name] for name in named[2:])
    assert violation["Algorithm 1"] < 0.2 < violation["Yu & Neely"] < violation["Yuan & Lamperski"]
    assert violation["Yuan & Lamperski"] < violation["Jenatton"] < violation["Mahdavi"]
    assert violation["RECOO"] < 0.2
    counts = result["counts"]["all"]  # few experiments leave some statements within their errors
    assert counts["reproduced"] + counts["worse"] + counts["not told apart"] == 6
    assert counts["worse"] <= 3
    assert len(result["cells"]) == 22
    cell = next(c for c in result["cells"] if c["algorithm"] == "Mahdavi" and c["metric"] == "cumulative_violation")
    assert cell["more"]["standard_error"] > 0.0
    assert (tmp_path / "run" / "report.html").read_text().count("cumulative violation") >= 6
    assert headline(result | {"settings": result["settings"] | {"data": "folder"}}).endswith(", with generated data.")
    sentences = conclusions(result)
    assert sentences[0].startswith("Reproduced ")
    assert sentences[1].startswith("Verdicts rest on 24 repeats, but the table takes 1,000, ")
    again = run("yi2021-olp", tmp_path / "run", datasets="x1=0")
    assert again["items_done_before"] == again["items"]


def test_quadratic_programming_separates_violations_and_excludes_cells_that_a_bug_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(frozen_settings(), "not_told_apart", {})
    result = run("yi2021-oqp", tmp_path / "run", datasets="x1=1", algorithms="Algorithm 1,Yuan & Lamperski,Jenatton")
    loss, violation = means_of(result, "cumulative_loss"), means_of(result, "cumulative_violation")
    assert loss["Algorithm 1"] < loss["Jenatton"]
    assert 10.0 * violation["Algorithm 1"] < violation["Yuan & Lamperski"] < violation["Jenatton"]
    claims = result["datasets"][0]["claims"]
    assert {claim["lower"] for claim in claims} == {"Algorithm 1", "Yuan & Lamperski"}
    assert "theta_t = 2 eta_t" in " ".join(result["remarks"])
    good = next(c for c in result["cells"] if c["verdict"] == "reproduced")
    passed = {"yi2021-oqp": [f"{good['dataset']}, {good['algorithm']}, {good['metric']}"]}
    monkeypatch.setitem(frozen_settings(), "not_told_apart", passed)
    again = run("yi2021-oqp", tmp_path / "run", datasets="x1=1", algorithms="Algorithm 1,Yuan & Lamperski,Jenatton")
    before, after = result["counts"]["all"], again["counts"]["all"]
    assert (after["reproduced"], after["not told apart"]) == (before["reproduced"] - 1, before["not told apart"] + 1)
    assert after["worse"] == before["worse"]
    assert "not told apart from a planted bug" in (tmp_path / "run" / "report.md").read_text()


def final_values(points: Doubles, problem: Problem, losses: QuadraticLosses) -> tuple[float, float]:
    violation = violation_of(constraint_values(problem.constraints, points))
    return float(losses_at(losses, points).sum()), violation.cumulative


@pytest.mark.parametrize("quadratic", [False, True])
def test_no_player_that_ignores_losses_or_constraints_meets_all_statements_on_a_method(quadratic: bool) -> None:
    methods, claims = (QUADRATIC, QUADRATIC_CLAIMS) if quadratic else (LINEAR, LINEAR_CLAIMS)
    names, first = {name for claim in claims for name in claim.names}, np.zeros(2)
    free = LinearConstraints(np.zeros((1, 2)), np.ones(1))
    played: dict[str, list[tuple[float, float]]] = {}
    for repetition in range(REPEATS):
        problem, losses = draw_problem(repetition, 5000, quadratic)
        points = {name: methods[name].run(problem, losses, first) for name in names}
        points |= {at: np.full((5000, 2), float(at)) for at in ("0", "1", "-1")}
        points["free"] = methods["Algorithm 1"].run(Problem(problem.region, free), losses, first)
        for name, of_player in points.items():
            played.setdefault(name, []).append(final_values(of_player, problem, losses))
    finals = {m: {name: np.array(v)[:, i] for name, v in played.items()} for i, m in enumerate(METRICS)}
    for name in names:
        stated = [claim for claim in claims if name in claim.names]
        for player in ("0", "1", "-1", "free"):
            instead = {m: {**values, name: values[player]} for m, values in finals.items()}
            assert not all(claim.holds(instead) for claim in stated), (name, player)


def test_an_algorithm_whose_rounds_differ_from_the_printed_ones_is_not_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(frozen_settings(), "not_told_apart", {})
    monkeypatch.setitem(LINEAR, "Mahdavi", Mahdavi(step_scale=0.8, damping=0.55))
    cells = run("yi2021-olp", tmp_path / "run", datasets="x1=0")["cells"]
    joint = {cell["algorithm"]: cell for cell in cells if cell["metric"] == "failed_statements"}
    assert joint["Mahdavi"]["more"]["departure"] > 1e-5
    assert (joint["Mahdavi"]["mean"], joint["Mahdavi"]["verdict"]) == (1.0, "worse")  # its statements hold
    assert max(cell["more"]["departure"] for name, cell in joint.items() if name != "Mahdavi") < 1e-9


def test_growth_is_judged_by_both_intervals_and_holds_below_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yi2021, "GROWTH_ROUNDS", (250, 1000, 4000))
    names = "Jenatton,Yu & Neely"
    result = run("yi2021-table1", tmp_path / "run", algorithms=names, repeats=8)
    cells = {(cell["algorithm"], cell["metric"]): cell for cell in result["cells"]}
    right = cells["Jenatton", "violation"]
    assert (right["verdict"], right["no_information"], right["claim"]) == (None, False, "at most T^0.75")
    assert cells["Jenatton", "failed_statements"]["verdict"] == "reproduced"
    assert 0.4 < right["more"]["low"] < right["mean"] < right["more"]["high"] < 0.75
    assert cells["Jenatton", "regret"]["more"]["at_4000"] < 0.0
    assert cells["Yu & Neely", "regret"]["mean"] == pytest.approx(0.5, abs=0.1)
    assert cells["Yu & Neely", "failed_statements"]["no_information"] is False
    with monkeypatch.context() as narrow:
        narrow.setattr("okl.papers.base.GROWTH_MARGIN", 0.0)  # its regret has an interval around the published .5
        unclear = run("yi2021-table1", tmp_path / "run", algorithms="Yu & Neely", repeats=8)
    assert unclear["counts"]["all"] == {**dict.fromkeys(result["counts"]["all"], 0), "no information": 1}
    # multipliers damped a hundred times as much leave a violation in every round
    methods = yi2021.growing_methods

    def damped(problem: Any, losses: Any) -> dict[str, Any]:
        return methods(problem, losses) | {"Jenatton": Jenatton(1.0, damping_scale=600.0)}

    monkeypatch.setattr(yi2021, "growing_methods", damped)
    result = run("yi2021-table1", tmp_path / "wrong", algorithms="Jenatton", repeats=8)
    wrong = {cell["metric"]: cell for cell in result["cells"]}
    joint = wrong["failed_statements"]
    assert (joint["verdict"], joint["mean"]) == ("worse", 2.0)  # its violation, and its printed rounds
    assert wrong["violation"]["mean"] == pytest.approx(1.0, abs=0.05)


def test_experiments_depend_on_their_number_alone() -> None:
    problem, losses = draw_problem(3, 200, quadratic=True)
    again, same = draw_problem(3, 200, quadratic=True)
    other, _ = draw_problem(4, 200, quadratic=True)
    assert np.array_equal(problem.linear.matrix, again.linear.matrix)
    assert np.array_equal(losses.linear, same.linear)
    assert not np.array_equal(problem.linear.matrix, other.linear.matrix)
    theta = losses.linear / 18.0
    point = np.array([0.3, -0.7])
    assert losses.value(7, point) == pytest.approx(((point - theta[7]) ** 2).sum() + 20.0 * theta[7] @ point)
    assert recorded_rounds(5000)[0] == 1
    assert len(recorded_rounds(5000)) == POINTS


def test_coefficients_drift_as_the_paper_says() -> None:
    theta = np.mean([draw_coefficients(np.random.default_rng(seed), 5000) for seed in range(400)], axis=0)
    for first, last, mean in ((1, 1500, -0.5), (1501, 1999, 0.5), (2000, 3500, -0.5), (3501, 3999, 0.5)):
        assert theta[first - 1 : last].mean() == pytest.approx(mean, abs=0.02)


def test_a_table_that_reads_data_still_requires_the_folder() -> None:
    check(ReproduceSettings(table="yi2021-olp"))
    with pytest.raises(ConfigError, match="--data is missing"):
        check(ReproduceSettings(table="lu2016-table5"))
    with pytest.raises(ConfigError, match="x1=0, x1=1"):
        check(ReproduceSettings(table="yi2021-oqp", datasets="x1=2"))
