"""Tables of the paper on accelerated classification: cells, verdicts and folds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.papers.base import DataFolder, Margin, PaperTable, Request, TableCell, WorkItem, frozen_settings, printed_unit
from okl.papers.ito2017 import tables, work
from okl.papers.ito2017.work import (
    GRIDS,
    SEARCHES,
    artificial_rows,
    dataset_item,
    ito_datasets,
    project,
    solve_by,
    synthetic_item,
    time_parts,
)
from okl.papers.run import reproduce
from okl.papers.settings import ReproduceSettings
from tests.papers.sets import write_set

BIASES = frozen_settings()["ito2017"]["bias"]


def settings(data: Path, out: Path, table: str, **values: Any) -> ReproduceSettings:
    return ReproduceSettings(table=f"ito2017-{table}", data=str(data), out=str(out), threads=1, **values)


def test_the_grids_are_fixed_and_of_at_least_16_values() -> None:
    for grid in GRIDS.values():
        assert len(set(grid.values)) == len(grid.values) >= 16
        assert all(0 < value < 1 for value in grid.values) or not grid.of_largest


def test_a_set_is_read_as_the_paper_scaled_it(tmp_path: Path) -> None:
    table = pq.read_table(write_set(tmp_path, "german"))
    case, folder = ito_datasets()["german.numer"], DataFolder(str(tmp_path))
    rows = case.rows(folder, "float64")
    assert (rows.inputs.min(axis=0) == -1.0).all()
    assert (rows.inputs.max(axis=0) == 1.0).all()
    assert (rows.targets == table["y"].to_numpy()).all()
    assert case.n_rows(folder) == 320
    coded = ito_datasets()["breast-cancer"].coded(np.array([1.0, -1.0]))
    assert coded.tolist() == [4.0, 2.0]


@pytest.fixture(scope="module")
def table11(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ito")
    write_set(folder / "data", "heart", rows=60)
    return reproduce(settings(folder / "data", folder / "run", "table11", repeats=1, datasets="heart,a8a"))


def test_a_model_is_compared_with_the_frozen_bias_and_both_are_reported(table11: dict[str, Any]) -> None:
    heart = [cell for cell in table11["cells"] if cell["dataset"] == "heart"]
    assert [cell["algorithm"] for cell in heart] == list(GRIDS)
    for cell in heart:
        assert "accuracy_own" in cell["more"]
        assert cell["mean"] == cell["more"][f"accuracy_{BIASES[cell['algorithm']]}"]
        assert cell["mean"] > cell["constant"], "something was learnt"
        assert (cell["repeats"], cell["status"]) == (1, "measured")
        assert cell["margin"] <= 0.005
        allowed = cell["margin"] + 2 * cell["standard_error"]
        assert (cell["verdict"] == "worse") == (cell["difference"] < -allowed)
        assert cell["more"]["largest_gap"] < 0.05
    missing = [cell for cell in table11["cells"] if cell["dataset"] == "a8a"]
    assert {(cell["status"], cell["verdict"]) for cell in missing} == {("no data", None)}
    assert sum(table11["counts"]["all"].values()) == len(GRIDS)


def test_doubtful_numbers_are_reported_without_a_verdict(tmp_path: Path) -> None:
    write_set(tmp_path / "data", "ijcnn1", rows=60)
    table_settings = settings(
        tmp_path / "data", tmp_path / "run", "table11", repeats=2, datasets="ijcnn1", algorithms="mm_mpm,mm_fda"
    )
    first, again = reproduce(table_settings), reproduce(table_settings)
    assert all(cell["paper_mean"] is not None and cell["mean"] is not None for cell in first["cells"])
    assert {cell["verdict"] for cell in first["cells"]} == {None}
    assert sum(first["counts"]["all"].values()) == 0
    for cell in first["cells"]:  # each seed has its own best value, and a common value is not better
        assert cell["more"]["accuracy_of_one_value"] <= cell["mean"] + 1e-12
        assert cell["mean"] == cell["more"][f"accuracy_{BIASES[cell['algorithm']]}"]
    assert again["items_done_before"] == again["items"] == 4
    assert [cell["mean"] for cell in again["cells"]] == [cell["mean"] for cell in first["cells"]]


def test_seeds_of_folds_in_which_no_value_gives_a_plane_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = [None] * (len(GRIDS["nu_svm"].values) - 2)
    facts = {"largest_gap": 1e-3, "seconds": 1.0, "constant": 0.6}
    one = {"parameters": [0.2, 0.1, *grid], "own": [0.7, 0.9, *grid], "least_errors": [0.8, 0.75, *grid]} | facts
    none = {name: [None, None, *grid] for name in ("parameters", "own", "least_errors")} | facts
    table = next(table for table in tables.TABLES if table.name == "ito2017-table11")
    case = next(case for case in table.cases if (case.dataset, case.algorithm) == ("heart", "nu_svm"))
    request, cells = Request(DataFolder(""), table.datasets, table.algorithms, 2), []
    for outcomes in ([one, none], [none, none]):
        monkeypatch.setattr(tables.AccuracyExperiment, "outcomes", lambda *_, given=outcomes: given)
        cells.append(table.experiment.measure(request, case, case.quantities[0]))
    best = {"own": 0.9, "least_errors": 0.8}[BIASES["nu_svm"]]
    assert (cells[0].mean, cells[0].repeats) == (best, 1)
    assert cells[0].setting["left_out"] == "1 of 2 seeds, without any value"
    assert (cells[1].mean, cells[1].note) == (None, "no value of the grid gives a plane")


@pytest.mark.parametrize(
    ("printed", "computed", "same"),
    [
        ("1.23", 1.2349, True),
        ("1.23", 1.2359, False),
        ("2.05E+05", 2.0549e5, True),
        ("0.0861", 0.08616, False),
        ("9.60", 9.604, True),
    ],
)
def test_a_property_of_the_data_is_compared_in_the_digits_printed(printed: str, computed: float, same: bool) -> None:
    cell = TableCell("heart", "mm_mpm", "kappa_max", float(printed), paper_unit=printed_unit(printed))
    for value in (computed, 2 * float(printed) - computed):
        assert cell.measured([value], [1.0]).judged(Margin()).verdict == ("reproduced" if same else "worse")


def test_constants_are_those_of_linear_algebra(tmp_path: Path) -> None:
    write_set(tmp_path / "data", "liver_disorders", rows=60)
    result = reproduce(settings(tmp_path / "data", tmp_path / "run", "table5", datasets="liver-disorders,url"))
    found = {(c["dataset"], c["algorithm"], c["metric"]): c for c in result["cells"]}
    rows = ito_datasets()["liver-disorders"].rows(DataFolder(str(tmp_path / "data")), "float64")
    coded = rows.inputs * np.where(rows.targets > 0, 1.0, 2.0)[:, np.newaxis]
    largest = np.linalg.norm(coded, 2) ** 2
    linear = found["liver-disorders", "linear", "lipschitz"]
    assert linear["mean"] == pytest.approx(largest, rel=1e-4)
    assert linear["verdict"] == "worse", "made-up rows are not the paper's"
    assert found["liver-disorders", "rbf", "largest_estimate"]["verdict"] is None
    assert found["liver-disorders", "rbf", "lipschitz"]["mean"] > 1.0
    assert found["url", "linear", "lipschitz"]["status"] == "no data"
    assert sum(result["counts"]["all"].values()) == 2


@pytest.mark.parametrize("model", ["l1-logistic", "l1-l2-svm"])
def test_both_solvers_of_a_penalised_model_reach_one_objective(model: str) -> None:
    objectives = [
        solve_by(artificial_rows(200, 6, 3), model, solver, 1.0, check=lambda: None)["objective"]
        for solver in ("FAPG", "LIBLINEAR")
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-5)


def test_liblinear_gives_the_same_bits_where_its_limit_of_passes_ends_it() -> None:
    weights = [work.fit_liblinear("l1-l2-svm", artificial_rows(300, 60, 3), 100.0)[0] for _ in range(2)]
    assert (weights[0] == weights[1]).all()


@pytest.mark.parametrize(("model", "parameter"), [("nu_svm", 0.5), ("mm_mpm", 0.3)])
def test_an_interior_point_solver_finds_the_objective_of_the_method(model: str, parameter: float) -> None:
    objectives = [
        solve_by(artificial_rows(200, 6, 3), model, solver, parameter, check=lambda: None)["objective"]
        for solver in ("FAPG", "Clarabel")
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)
    assert objectives[0] < 0.0


def test_a_missing_solver_is_named_and_its_claims_have_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    table = small_figure(lambda of: [tables.Claim("FAPG", "faster", "seconds", (of("FAPG", 80, 3, 0.5),),
                                                  (of("Clarabel", 80, 3, 0.5),))])  # fmt: skip
    cells = cells_of(table)
    assert [cell.note.partition(":")[0] for cell in cells if cell.mean is None] == ["Clarabel is not installed"] * 2
    assert [cell.verdict for cell in cells] == [None] * 3


def small_figure(claims: Any) -> PaperTable:
    sizes = {"nu": [(80, 3, 0.5)]}
    return tables._scaling_table(5, "nu_svm", "nu-SVM", sizes, ("FAPG", "Clarabel"), claims, "")


def cells_of(table: PaperTable, repeats: int = 1) -> list[TableCell]:
    request = Request(DataFolder(""), table.datasets, table.algorithms, repeats)
    request.outcomes.update({item.name: item.compute(request.data, lambda: None) for item in table.items(request)})
    return table.cells(request)


def test_a_claim_compares_runs_or_how_much_they_differ() -> None:
    def claims(of: Any) -> list[tables.Claim]:
        few, many = of("FAPG", 80, 3, 0.9), of("FAPG", 80, 3, 0.4)
        spread = tables.Claim("FAPG", "hardly differ", "iterations", (few, many), factor=1.001)
        return [
            tables.Claim("FAPG", "fewer", "iterations", (few,), (many,)),
            tables.Claim("FAPG", "fewer", "iterations", (many,), (few,)),
            spread,
            replace(spread, factor=1e3),
        ]

    cells = [cell for cell in cells_of(small_figure(claims)) if cell.claim]
    left, right = cells[0].more["left"], cells[0].more["right"]
    assert left is not None
    assert right is not None
    assert left < right, "the runs differ"
    assert [cell.verdict for cell in cells] == ["reproduced", "worse", "worse", "reproduced"]
    assert cells[2].more["left"] == right / left


def test_a_claim_compares_means_over_repeats_not_their_spread() -> None:
    def claims(of: Any) -> list[tables.Claim]:
        return [tables.Claim("FAPG", "above 1", "iterations", (of("FAPG", 80, 3, 0.5),))]

    cells = cells_of(small_figure(claims), repeats=2)
    of_runs = [item.compute(DataFolder(""), lambda: None)["iterations"] for item in _items_of_fapg()]
    assert len(set(of_runs)) == 2, "the repeats differ"
    assert cells[-1].more["left"] == sum(of_runs) / 2


def _items_of_fapg() -> list[WorkItem]:
    sized = {"n_rows": 80, "n_columns": 3, "parameter": 0.5}
    return [synthetic_item("ScalingItem", model="nu_svm", solver="FAPG", **sized, seed=seed) for seed in range(2)]


def test_a_looser_end_fails_the_statement_on_objectives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PENALISED_SIZES", {"C": [(200, 6, cost) for cost in (0.1, 1.0)]})

    def verdicts() -> list[str | None]:
        table = tables._scaling_table(
            12, "l1-l2-svm", "hinge", tables.PENALISED_SIZES, ("FAPG", "LIBLINEAR"), tables._penalised_claims, ""
        )
        cells = [cell for cell in cells_of(table) if cell.claim]
        assert [cell.metric for cell in cells] == ["objective_over_claim"] * 2 + ["seconds_over_claim"]
        return [cell.verdict for cell in cells[:2]]

    assert verdicts() == ["reproduced"] * 2
    monkeypatch.setattr(work, "RESIDUAL", 0.3)
    assert "worse" in verdicts()


def test_a_run_evaluates_its_residual_every_100_iterations_as_algorithm_4() -> None:
    outcome = time_parts("logistic", 300, 8, seed=0, check=lambda: None)
    steps = outcome["projection_evaluations"]
    checks = -(-outcome["iterations"] // 100) + 1  # the first before any iteration
    assert outcome["iterations"] > 100
    assert outcome["gradient_evaluations"] == outcome["iterations"] + checks <= steps + checks


def test_strategies_are_switched_and_leave_a_history() -> None:
    rows = artificial_rows(300, 8, 1)
    runs = {name: solve_by(rows, "nu_svm", name, 0.5, lambda: None) for name in work.STRATEGIES}
    assert {run["residual"] <= work.RESIDUAL for run in runs.values()} == {True}
    assert runs["bt"]["iterations"] > runs["bt+re"]["iterations"] > runs["bt+re+dec"]["iterations"]
    estimates = np.array(runs["bt+re"]["history"])[:, 2]
    assert (np.diff(estimates) >= 0.0).all(), "nothing lets the estimate fall"


def test_files_of_outcomes_do_not_depend_on_names_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    def items() -> list[WorkItem]:
        case, setting = ito_datasets()["german.numer"], {"model": "nu_svm", "parameter": 0.5, "kernel": "linear"}
        return [
            synthetic_item("ProjectionItem", size=64, reach=10.0, search="newton", trial=0),
            dataset_item("MarginItem", case, 1000, "float64", **setting),
        ]

    before = items()
    monkeypatch.setitem(work.SYNTHETIC, "ProjectionItem", lambda **_: {"renamed": 1})
    monkeypatch.setitem(work.BENCHMARKS, "MarginItem", lambda *_, **__: {"renamed": 1})
    assert before[0].compute(DataFolder(""), lambda: None) == {"renamed": 1}
    assert [item.name for item in items()] == [item.name for item in before]
    assert [item.name for item in before] == [
        "ProjectionItem--64--10.0--newton--0",
        "german.numer--MarginItem--nu_svm--0.5--linear",
    ]
    assert [item.description for item in items()] == [item.description for item in before]
    assert before[1].description["work"] == "MarginItem"


def test_all_searches_project_to_one_point() -> None:
    point = 10.0 * np.random.default_rng(1).random(64)
    signs = np.where(np.arange(64) % 2 == 0, 1, -1).astype(np.int8)
    found = np.empty((len(SEARCHES), 64))
    for out, search in zip(found, SEARCHES, strict=True):
        project(out, point, signs, search)
    assert np.ptp(found, axis=0).max() < 1e-12
    assert found[0].sum() == pytest.approx(1.0)


def test_a_stopwatch_changes_no_result() -> None:
    outcome = time_parts("nu_svm", 120, 5, seed=0, check=lambda: None)
    assert outcome["projection_evaluations"] >= outcome["iterations"] > 10
    parts = sum(outcome[f"{part}_share"] for part in ("gradient", "function", "projection"))
    assert 0.0 < parts < 1.0
    assert outcome["residual"] <= 1e-6
