"""The simulations of section 4 of Yi et al.: orders of means, without a folder of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.papers import yi2021
from okl.papers.report import conclusions, headline
from okl.papers.run import check, reproduce
from okl.papers.settings import ReproduceSettings
from okl.papers.yi2021 import POINTS, draw_coefficients, draw_problem, recorded_rounds
from okl.solvers.oco.baselines import Jenatton

REPEATS = 24


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
    assert counts["reproduced"] + counts["worse"] == 12
    assert counts["reproduced"] >= 8
    assert len(result["cells"]) == 16
    cell = next(c for c in result["cells"] if c["algorithm"] == "Mahdavi" and c["metric"] == "cumulative_violation")
    assert cell["more"]["standard_error"] > 0.0
    assert cell["more"]["growth_exponent"] > 0.5
    assert (tmp_path / "run" / "report.html").read_text().count("cumulative violation") >= 6
    assert headline(result | {"settings": result["settings"] | {"data": "folder"}}).endswith(", with generated data.")
    told = conclusions(result)
    assert told[0].startswith("Reproduced ")
    assert told[1].startswith("Verdicts rest on 24 repeats, but the table takes 1,000, ")
    again = run("yi2021-olp", tmp_path / "run", datasets="x1=0")
    assert again["items_done_before"] == again["items"]


def test_quadratic_programming_separates_violations_and_shows_the_reading(tmp_path: Path) -> None:
    result = run("yi2021-oqp", tmp_path / "run", datasets="x1=1", algorithms="Algorithm 1,Yuan & Lamperski,Jenatton")
    loss, violation = means_of(result, "cumulative_loss"), means_of(result, "cumulative_violation")
    assert loss["Algorithm 1"] < loss["Jenatton"]
    assert 10.0 * violation["Algorithm 1"] < violation["Yuan & Lamperski"] < violation["Jenatton"]
    claims = result["datasets"][0]["claims"]
    assert {claim["lower"] for claim in claims} == {"Algorithm 1", "Yuan & Lamperski"}
    assert "theta_t = 2 eta_t" in " ".join(result["remarks"])


def test_growth_is_judged_by_its_interval_and_has_none_below_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yi2021, "GROWTH_ROUNDS", (250, 1000, 4000))
    names = "Jenatton,Yu & Neely"
    result = run("yi2021-table1", tmp_path / "run", datasets="outwards", algorithms=names, repeats=8)
    cells = {(cell["algorithm"], cell["metric"]): cell for cell in result["cells"]}
    right = cells["Jenatton", "violation"]
    assert (right["verdict"], right["no_information"], right["claim"]) == ("reproduced", False, "at most T^0.75")
    assert 0.4 < right["more"]["low"] < right["mean"] < right["more"]["high"] < 0.75
    assert cells["Jenatton", "regret"]["more"]["at_4000"] < 0.0
    assert cells["Jenatton", "regret"]["no_information"]
    assert cells["Yu & Neely", "regret"]["mean"] == pytest.approx(0.5, abs=0.1)
    # multipliers damped a hundred times as much leave a violation in every round
    methods = yi2021.growing_methods

    def damped(problem: Any, losses: Any) -> dict[str, Any]:
        return methods(problem, losses) | {"Jenatton": Jenatton(1.0, damping_scale=600.0)}

    monkeypatch.setattr(yi2021, "growing_methods", damped)
    result = run("yi2021-table1", tmp_path / "wrong", datasets="outwards", algorithms="Jenatton", repeats=8)
    (wrong,) = (cell for cell in result["cells"] if cell["metric"] == "violation")
    assert wrong["verdict"] == "worse"
    assert wrong["mean"] == pytest.approx(1.0, abs=0.05)


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


def test_a_table_that_reads_data_still_asks_for_the_folder() -> None:
    check(ReproduceSettings(table="yi2021-olp"))
    with pytest.raises(ConfigError, match="--data is missing"):
        check(ReproduceSettings(table="lu2016-table5"))
    with pytest.raises(ConfigError, match="x1=0, x1=1"):
        check(ReproduceSettings(table="yi2021-oqp", datasets="x1=2"))
