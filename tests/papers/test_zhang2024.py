"""Table 1 and the figures of the paper on conjugate subgradients: cells, verdicts and excesses."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.papers.base import DataFolder, Outcome, Request, TableCell, counts_of, judged_growth
from okl.papers.report import tables
from okl.papers.run import ReproductionRun, reproduce, table_named
from okl.papers.settings import ReproduceSettings
from okl.papers.zhang2024.tables import (
    ABLATION,
    ALGORITHMS,
    CONJUGATE,
    EQUAL_SAMPLES,
    EXACT,
    PEGASOS,
    PRINTED_GROWTH,
    SCS,
    SEEDS,
    WOLFE,
    race_item,
    run_cost,
    zhang_datasets,
)
from tests.papers.sets import write_set

SETS = "wdbc,skin-nonskin"  # one by its file, one as it is printed


def reproduce_table(folder: Path, table: str, **values: Any) -> dict[str, Any]:
    settings = ReproduceSettings(
        table=f"zhang2024-{table}", data=str(folder / "data"), out=str(folder / table), threads=1, **values
    )
    return reproduce(settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zhang")
    write_set(folder / "data", "wdbc", rows=580)
    return folder


@pytest.fixture(scope="module")
def table1(folder: Path) -> dict[str, Any]:
    return reproduce_table(folder, "table1", datasets=SETS, repeats=2)


def of_set(result: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    return {cell["algorithm"]: cell for cell in result["cells"] if cell["dataset"] == name and not cell["claim"]}


def test_cases_are_those_of_the_paper_and_never_change() -> None:
    datasets = zhang_datasets()
    assert list(datasets) == list(table_named("zhang2024-table1").datasets)
    assert len(datasets) == 10
    assert list(SEEDS) == list(range(20))
    fixed = {name: (case.file, case.n_rows, case.lam, case.bandwidth) for name, case in datasets.items()}
    assert fixed["breast cancer"] == ("wdbc", 500, 1e-4, 6.34)
    assert fixed["wine quality"] == ("wine_quality", 680, 1e-3, 2.08)
    assert fixed["avila Bible"] == ("avila", 2000, 1e-4, 0.814)
    assert fixed["magic telescope"] == ("magic", 5000, 1e-4, 3.59)
    assert fixed["room occupancy"] == ("room_occupancy", 7500, 1e-3, 1.61)


def test_a_split_has_disjoint_rows_and_is_scaled_by_training_rows(folder: Path) -> None:
    case = zhang_datasets()["breast cancer"]
    split = case.split(DataFolder(str(folder / "data")), 3)
    assert (len(split.inputs), len(split.test_inputs)) == (500, 80)
    np.testing.assert_allclose(split.inputs.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(split.inputs.std(axis=0), 1.0)
    assert not np.isin(split.test_inputs[:, 0], split.inputs[:, 0]).any()
    other = case.split(DataFolder(str(folder / "data")), 4)
    assert (other.targets != split.targets).any()


def test_cells_hold_the_printed_numbers_and_no_excess_is_negative(table1: dict[str, Any]) -> None:
    cells = of_set(table1, "breast cancer")
    assert list(cells) == list(ALGORITHMS)
    assert cells[SCS]["paper_mean"] == cells[PRINTED_GROWTH]["paper_mean"] == 0.97
    assert (cells[PEGASOS]["paper_mean"], cells[PEGASOS]["paper_seconds"]) == (0.95, 1.14)
    assert cells[EXACT]["paper_mean"] is None
    for cell in cells.values():
        assert (cell["status"], cell["repeats"]) == ("measured", 2)
        assert 0.5 < cell["mean"] <= 1.0
        assert cell["more"]["excess"] >= 0.0
        assert cell["more"]["drawn"] > 0
        assert cell["setting"] == {"lam": 1e-4, "bandwidth": 6.34}
    assert sum(table1["counts"]["all"].values()) == 4 + 2, "printed numbers and claims"
    claims = {cell["claim"]: cell["verdict"] for cell in table1["cells"] if cell["claim"] and cell["mean"] is not None}
    assert claims["the optimum"] == "reproduced"


def test_excesses_are_in_the_order_that_theory_has(table1: dict[str, Any]) -> None:
    excess = {name: cell["more"]["excess"] for name, cell in of_set(table1, "breast cancer").items()}
    assert excess[EXACT] <= 1e-6
    assert excess[SCS] <= 1e-4
    assert excess[WOLFE] < excess[ABLATION]
    assert excess[SCS] < excess[EQUAL_SAMPLES]


def test_missing_sets_are_reported(table1: dict[str, Any]) -> None:
    missing = of_set(table1, "skin-nonskin")
    assert {(cell["status"], cell["verdict"], cell["mean"]) for cell in missing.values()} == {("no data", None, None)}
    assert all("skin_nonskin.parquet" in cell["note"] for cell in missing.values())
    assert [row.get("rows") for row in table1["datasets"]] == [500, None]


def test_a_plan_names_the_sets_whose_files_are_missing(folder: Path, tmp_path: Path) -> None:
    settings = ReproduceSettings(
        table="zhang2024-table1", data=str(folder / "data"), out=str(tmp_path / "run"), threads=1, datasets=SETS
    )
    run = ReproductionRun(settings)
    try:
        assert run.plan()["missing_datasets"] == ["skin-nonskin"]
    finally:
        run.close()


@pytest.fixture(scope="module")
def recorded(folder: Path) -> dict[str, Outcome]:
    item = race_item(zhang_datasets()["breast cancer"], 0, record_curves=True)
    return {item.name: item.compute(DataFolder(str(folder / "data")), lambda: None)}


@pytest.mark.parametrize("figure", ["figure1", "figure2"])
def test_figures_show_fifty_iterations_of_each_method_above_the_optimum(
    folder: Path, recorded: dict[str, Outcome], figure: str
) -> None:
    table = table_named(f"zhang2024-{figure}")
    data = DataFolder(str(folder / "data"))
    request = Request(data, ("breast cancer", "heart failure"), ALGORITHMS, 1, outcomes=recorded)
    assert [item.name for item in table.items(request)] == list(recorded)
    curves = json.loads(json.dumps(table.curves(request)))
    assert list(curves) == ["breast cancer"]
    drawn = table.figures(curves)[0].draw()
    lines = curves["breast cancer"]
    optimum = lines.pop("optimum")[0][3]
    assert set(lines) == set(ALGORITHMS) - {EXACT}
    for name, points in lines.items():
        numbers = np.array([point[0] for point in points])
        assert len(points) <= 50
        assert all(point[3] >= optimum - 1e-9 for point in points)
        assert (np.diff([point[2] for point in points]) > 0).all(), "seconds"
        if name != PEGASOS:
            assert (np.diff(numbers) == 1).all()
            assert len(points) == min(50, numbers[-1])
            assert numbers[0] == 1 or figure == "figure2"
    cells = {cell.algorithm: cell for cell in table.cells(request) if cell.dataset == "breast cancer"}
    assert cells[SCS].mean == pytest.approx(lines[SCS][-1][3])
    assert {cell.verdict for cell in cells.values()} == {None}
    assert len(drawn) > 10_000


def test_an_unknown_algorithm_is_refused_with_the_names(folder: Path) -> None:
    with pytest.raises(ConfigError, match="Wolfe"):
        reproduce_table(folder, "table1", algorithms="SGD")
    assert table_named("zhang2024-figure1").repeats == 1


def test_a_set_without_tuned_settings_is_reported_with_the_stated_defaults(tmp_path: Path) -> None:
    write_set(tmp_path / "data", "heart_failure", rows=300)
    result = reproduce_table(tmp_path, "table1", datasets="heart failure", algorithms="SCS", repeats=1)
    cell = result["cells"][0]
    assert cell["setting"] == {"lam": 1e-3, "bandwidth": "half the median distance"}
    assert cell["blind"], "no setting was chosen on it"
    assert "bandwidth half the median distance" in (tmp_path / "table1" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("exponent", "published", "verdict"), [(0.5, 0.5, "reproduced"), (0.5, 0.3, "worse"), (0.0, 0.0, "reproduced")]
)
def test_an_exponent_is_judged_by_its_interval(exponent: float, published: float, verdict: str) -> None:
    sizes = {"at_10": 10.0, "at_100": 100.0, "at_1000": 1000.0}
    noise = np.random.default_rng(0).uniform(0.9, 1.1, (3, 20))
    values = np.array(list(sizes.values()))[:, None] ** exponent * noise
    cell = judged_growth(TableCell("rows", "SCS", "iterations", published), sizes, values)
    assert cell.mean == pytest.approx(exponent, abs=0.02)
    assert cell.more["low"] < cell.mean < cell.more["high"]  # type: ignore[operator]
    assert (cell.verdict, cell.no_information) == (verdict, False)
    constant = judged_growth(TableCell("rows", "SCS", "iterations", 0.0), sizes, np.full((3, 2), 476.1))
    assert (constant.verdict, str(constant.mean), constant.no_information) == ("reproduced", "0.0", False)
    assert judged_growth(cell, sizes, np.zeros((3, 20))).no_information


def test_an_interval_that_includes_growth_has_no_information_and_is_shown() -> None:
    values = np.array([[10.0, 20.0, 12.0], [15.0, 12.0, 24.0]])
    cell = judged_growth(TableCell("rows", "SCS", "iterations", 0.0), {"at_1": 1.0, "at_10": 10.0}, values)
    assert cell.more["low"] < 0.0 < 0.1 < cell.more["high"]  # type: ignore[operator]
    assert counts_of([cell])["no information"] == 1
    (table, *_) = tables({"cells": [asdict(cell)], "datasets": []})
    assert table.rows[0][-1] == "no information"
    assert f"[{cell.more['low']:.3g}, {cell.more['high']:.3g}]" in table.rows[0][3]


def test_costs_do_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple((n, 0.25) for n in (400, 20_000, 40_000))
    accuracy = tuple((10_000, gap) for gap in (0.25, 0.1))
    monkeypatch.setattr("okl.papers.zhang2024.tables.STUDIES", {"rows": (rows, 0.0), "accuracy": (accuracy, 2.0)})
    monkeypatch.setattr("okl.papers.zhang2024.tables.GROWTH_ITERATIONS", 60)
    result = reproduce_table(tmp_path, "growth", repeats=2)
    assert [cell["claim"] for cell in result["cells"]].count("at most (1 / gap)^2") == 3
    certified = [cell for cell in result["cells"] if cell["algorithm"] in (SCS, CONJUGATE)]
    assert {cell["verdict"] for cell in certified} == {"reproduced"}
    assert all(
        cell["more"]["at_400"] < cell["more"]["at_40000"] for cell in certified if cell["metric"] == "rows_drawn"
    )
    table = table_named("zhang2024-growth")
    request = Request(DataFolder(""), table.datasets, (PRINTED_GROWTH,), 1)
    (item, *_) = table.items(request)
    outcome = item.compute(DataFolder(""), lambda: None)
    assert outcome["reached"] == [True]
    assert not run_cost(PRINTED_GROWTH, 4000, 1e-6, 1, DataFolder(""), lambda: None)["reached"][0]
