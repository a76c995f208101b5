"""A reproduction from a folder of data to cells, continued after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.features.bandwidth import median_distance
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.telemetry import NullObserver
from okl.foundation.types import Task
from okl.papers.base import TableCell, counts_of, frozen_digest, frozen_settings
from okl.papers.lu2016.tables import ALGORITHMS, LINEAR
from okl.papers.report import conclusions, tables
from okl.papers.run import CATALOGUE, ReproductionRun, check, reproduce, table_named
from okl.papers.settings import ReproduceSettings
from tests.papers.sets import write_orders, write_set

EXPECTED_KEYS = {"dataset", "algorithm", "metric", "paper_mean", "paper_sd", "mean", "sd", "repeats", "seconds",
            "setting", "difference", "verdict", "constant", "linear", "status"}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_set(tmp_path / "data", "german")
    write_orders(tmp_path / "data", "german", 320, 3)
    return tmp_path / "data"


def settings(data: Path, out: Path, table: str = "lu2016-table5", **values: Any) -> ReproduceSettings:
    small = {"datasets": "german,w7a", "algorithms": "FOGD,NOGD", "repeats": 3, "threads": 2} | values
    return ReproduceSettings(table=table, data=str(data), out=str(out), **small)


class Impatient(NullObserver):
    """An observer that interrupts after some items."""

    def __init__(self, items: int) -> None:
        self.left = items

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


def errors_of(result: dict[str, Any]) -> list[Any]:
    return [(c["dataset"], c["algorithm"], c["mean"], c["sd"], c["constant"], c["linear"]) for c in result["cells"]]


def test_cells_compare_with_the_paper_and_a_missing_set_is_reported(data: Path, tmp_path: Path) -> None:
    result = reproduce(settings(data, tmp_path / "run"))
    german, missing = result["cells"][:2], result["cells"][2:]
    assert [(c["dataset"], c["algorithm"]) for c in german] == [("german", "FOGD"), ("german", "NOGD")]
    for cell in result["cells"]:
        assert cell.keys() >= EXPECTED_KEYS
    assert [(c["paper_mean"], c["paper_sd"], c["repeats"], c["status"]) for c in german] == [
        (0.299, 0.007, 3, "measured"), (0.304, 0.008, 3, "measured"),
    ]  # fmt: skip
    assert all(0 < c["mean"] < 0.6 and c["sd"] > 0 and c["seconds"] > 0 for c in german)
    assert german[0]["relative_seconds"] == 1.0
    assert german[0]["setting"]["step_size"] == 0.002
    assert result["frozen"] == frozen_digest()
    assert result["counts"]["blind"] == result["counts"]["all"]
    assert [c["status"] for c in missing] == ["no data", "no data"]
    assert missing[0]["note"] == "w7a.parquet is not in --data"
    assert missing[0]["mean"] is None
    (row, absent) = result["datasets"]
    assert (row["rows"], row["paper_rows"], row["orders"]) == (320, 1000, "authors")
    assert 0.3 < row["constant"] < 0.7
    assert "rows" not in absent
    assert json.loads((tmp_path / "run" / "result.json").read_text())["cells"] == result["cells"]


def test_finished_items_are_not_computed_again_and_give_the_same_cells(data: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        reproduce(settings(data, tmp_path / "run"), Impatient(4))
    finished = set((tmp_path / "run" / "items").iterdir())
    assert len(finished) >= 3
    assert all(path.suffix == ".json" for path in finished)
    resumed = reproduce(settings(data, tmp_path / "run"))
    assert 0 < resumed["items_done_before"] < resumed["items"]
    again = reproduce(settings(data, tmp_path / "run"))
    assert again["items_done_before"] == again["items"] == resumed["items"]
    whole = reproduce(settings(data, tmp_path / "whole", threads=1))
    assert whole["items_done_before"] == 0
    assert errors_of(again) == errors_of(resumed) == errors_of(whole)
    seeded = reproduce(settings(data, tmp_path / "run", orders="seeded"))
    assert errors_of(seeded) != errors_of(again)
    assert seeded["items_done_before"] == 5, "only the trials of the linear model on the extra order"


def test_a_run_without_work_leaves_nothing(data: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        reproduce(settings(data, tmp_path / "deep" / "run"), Impatient(0))
    assert not (tmp_path / "deep").exists()


def test_a_searched_setting_is_chosen_on_the_extra_order_and_reported(data: Path, tmp_path: Path) -> None:
    result = reproduce(settings(data, tmp_path / "run", datasets="german", algorithms="FOGD", choice="searched"))
    setting = result["cells"][0]["setting"]
    tried = setting["tried"]
    assert list(tried) == [f"step_size {step:g}" for step in (2, 0.2, 0.02, 0.002, 0.0002)]
    assert tried[f"step_size {setting['step_size']:g}"] == min(tried.values())
    items = pq.read_table(tmp_path / "run" / "items.parquet").to_pylist()
    assert sum("FOGD--extra" in item["item"] for item in items) == 5
    assert len(pq.read_table(tmp_path / "run" / "cells.parquet")) == 1


def test_the_report_is_one_page_without_outside_reference(data: Path, tmp_path: Path) -> None:
    reproduce(settings(data, tmp_path / "run", repeats=1))
    page = (tmp_path / "run" / "report.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert "http://" not in page
    assert "https://" not in page
    assert "w7a.parquet is not in --data" in page
    assert "| german | FOGD | 29.90 ± 0.70 % |" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.parametrize(
    ("table", "name", "task", "more"),
    [
        ("lu2016-table7", "dna", "multiclass", {}),
        ("lu2016-table9", "housing", "regression", {}),
        ("lu2016-table3", "w7a", "binary", {"split": True}),
        ("lu2016-figure3", "dna", "multiclass", {}),
        ("lu2016-figure4", "KDDCUP08", "binary", {}),
    ],
)
def test_every_table_runs_on_its_kind_of_data(
    table: str, name: str, task: Task, more: dict[str, Any], tmp_path: Path
) -> None:
    write_set(tmp_path / "data", name if name != "KDDCUP08" else "w7a", task, **more)
    options = {"datasets": name, "algorithms": "LIBSVM,LLSVM,FOGD" if table == "lu2016-table3" else "FOGD,NOGD"}
    result = reproduce(settings(tmp_path / "data", tmp_path / "run", table, repeats=1, **options))
    assert {cell["status"] for cell in result["cells"]} == {"measured"}
    assert all(cell["mean"] is not None for cell in result["cells"])
    printed = [cell["paper_mean"] for cell in result["cells"]]
    assert all(value is None for value in printed) if "figure" in table else None not in printed
    if name == "KDDCUP08":
        assert result["cells"][0]["note"] == "w7a stands in for it"
        assert list(json.loads((tmp_path / "run" / "curves.json").read_text())) == ["w7a for KDDCUP08, budget"]
    if table == "lu2016-table3":
        assert result["cells"][0]["metric"] == "accuracy"
        assert result["cells"][1]["mean"] > result["cells"][1]["constant"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_table_of_the_catalogue_can_be_named(name: str) -> None:
    table = table_named(name)
    assert table.name == name
    assert len(set(table.datasets)) == len(table.datasets) > 0
    assert len(set(table.algorithms)) == len(table.algorithms) > 0
    if name.startswith("lu2016"):
        assert {"FOGD", "NOGD"} <= set(table.algorithms)


def test_the_printed_numbers_are_all_there() -> None:
    counts = [len(table_named(f"lu2016-table{k}").cases) for k in (5, 7, 9)]
    assert counts == [90, 84, 72]
    counts = [len(table_named(f"ito2017-table{k}").cases) for k in (2, 4, 5, 6, 8, 10)]
    assert counts == [16, 62, 62, 20, 31, 31]


def test_the_rival_of_a_cell_is_the_printed_perceptron_or_rbp_of_its_data_set() -> None:
    printed = {(c.dataset, c.algorithm): c.quantities[0] for c in table_named("lu2016-table5").cases}
    rivals = {name: printed["a9a", name].rival for name in ("Perceptron", "OGD", "RBP", "BPA-S", "FOGD")}
    assert rivals == {"Perceptron": None, "OGD": 0.209, "RBP": None, "BPA-S": 0.271, "FOGD": 0.271}


def test_frozen_settings_name_existing_cells_and_only_these_sets_are_not_blind() -> None:
    chosen = frozen_settings()
    assert set(chosen["lu2016"]["settings"]) == set(ALGORITHMS) - {LINEAR}
    tables = {name for name in chosen["margins"] if not name.endswith("-excess")}
    assert tables | set(chosen["causes"]) <= set(CATALOGUE)
    judged = {name for name in CATALOGUE for case in table_named(name).cases for q in case.quantities if q.margin}
    assert tables <= judged
    seen = {(case.dataset, case.algorithm) for case in table_named("lu2016-table5").cases if not case.blind}
    assert seen == {
        ("ijcnn1", "Forgetron"),
        ("w7a", "Forgetron"),
        *((name, "BOGD") for name in ("ijcnn1", "w7a", "a9a")),
    }


def test_the_help_names_every_family() -> None:
    description = ReproduceSettings.model_fields["table"].description or ""
    for name in CATALOGUE:
        family, _, part = name.partition("-")
        assert family in description
        assert f"-{part}" in description or family == "ito2017"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"table": "lu2016-tabel5"}, r"table = 'lu2016-tabel5'; did you mean lu2016-table5\?"),
        ({"table": "svm"}, "expected one of ito2017-figure10, .*lu2016-figure3"),
        ({"datasets": "german,nowhere"}, "--datasets nowhere: lu2016-table5 has german, .* --data no nowhere.parquet"),
        (
            {"datasets": "w7a,a9a"},
            "w7a.parquet is not in --data, like 1 other set of lu2016-table5: nothing to run",
        ),
        ({"table": "lu2016-figure4", "datasets": "german"}, "--datasets german: lu2016-figure4 has KDDCUP08"),
        ({"table": "lu2016-table3", "datasets": "german"}, "german.parquet has no column split with train and test"),
        ({"table": "lu2016-table7", "datasets": "german"}, "y holds -1 and .1, .*Use lu2016-table5, or recode y"),
        ({"table": "lu2016-table9", "datasets": "german"}, "y holds -1 and .1, .*Use lu2016-table5, or recode y"),
        ({"algorithms": "fgd"}, "--algorithms fgd: lu2016-table5 has Perceptron, OGD"),
        ({"data": "/nowhere"}, "--data /nowhere is not a folder"),
    ],
)
def test_invalid_settings_are_refused_at_once(
    values: dict[str, Any], sentence: str, data: Path, tmp_path: Path
) -> None:
    whole = settings(data, tmp_path / "run").model_copy(update={})
    changed = ReproduceSettings(**(whole.model_dump() | values))
    with pytest.raises((ConfigError, DataError), match=sentence):
        reproduce(changed)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("task", "right"), [("multiclass", 7), ("regression", 9)])
def test_an_own_set_of_another_task_is_refused_at_once(task: Task, right: int, tmp_path: Path) -> None:
    write_set(tmp_path / "data", "mine", task)
    with pytest.raises(DataError, match=f"lu2016-table5 takes .* Use lu2016-table{right}"):
        reproduce(settings(tmp_path / "data", tmp_path / "run", datasets="mine"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (["a", "b"] * 5, "column y is string, not numbers. Encode it"),
        ([1.0, None] * 5, "missing or infinite values"),
        ([-1, 1] * 5, ""),
    ],
)
def test_an_own_set_that_cannot_be_used_is_refused_at_once(y: list[Any], sentence: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [float(row) for row in range(10)], "y": y}), tmp_path / "mine.parquet")
    own_settings = settings(tmp_path, tmp_path / "run", datasets="mine", repeats=1)
    if not sentence:
        check(own_settings)
        return
    with pytest.raises(DataError, match=sentence):
        check(own_settings)


@pytest.mark.parametrize(
    ("table", "task", "frequencies"),
    [("lu2016-table5", "binary", 400), ("lu2016-table7", "multiclass", 400), ("lu2016-table9", "regression", 450)],
)
def test_an_own_set_has_the_mean_over_seeded_orders_and_stated_settings(
    table: str, task: Task, frequencies: int, tmp_path: Path
) -> None:
    path = write_set(tmp_path / "data", "mine", task)
    result = reproduce(settings(tmp_path / "data", tmp_path / "run", table, datasets="mine"))
    fogd, nogd = result["cells"]
    inputs = pq.read_table(path).drop(["y"]).to_pandas().to_numpy()
    if task == "regression":
        inputs = (inputs - inputs.min(axis=0)) / np.ptp(inputs, axis=0)
    for cell in (fogd, nogd):
        assert (cell["paper_mean"], cell["verdict"], cell["repeats"]) == (None, None, 3)
        assert 0 < cell["mean"] < cell["constant"]
        assert cell["sd"] > 0 < cell["seconds"]
        assert cell["setting"]["orders"] == "seeded"
        assert cell["setting"]["bandwidth"] == pytest.approx(0.5 * median_distance(inputs), rel=0.05)
    assert fogd["setting"]["frequencies"] == frequencies
    report = (tmp_path / "run" / "report.md").read_text()
    assert "| Data set | Algorithm | okl | Seconds | Seconds / FOGD's | Setting |" in report
    assert "mine: not in the paper. The bandwidth is half the median distance" in report
    assert "Reproduced means" not in report


def test_own_and_printed_sets_are_two_tables_and_only_the_latter_is_judged(data: Path, tmp_path: Path) -> None:
    write_set(data, "mine")
    alone = reproduce(settings(data, tmp_path / "alone", datasets="german"))
    both = reproduce(settings(data, tmp_path / "run", datasets="mine,german"))
    assert both["counts"] == alone["counts"]
    assert errors_of(both)[:2] == errors_of(alone)
    judged, own = tables(both)[:2]
    assert ("Verdict" in judged.header, "Verdict" in own.header) == (True, False)
    assert [row[0] for row in own.rows] == ["mine", "mine"]


def test_the_bandwidth_of_an_own_set_is_searched(data: Path, tmp_path: Path) -> None:
    write_set(data, "mine")
    options: dict[str, Any] = {"datasets": "mine", "algorithms": "RBP", "repeats": 1}
    stated, searched = (
        reproduce(settings(data, tmp_path / choice, choice=choice, **options))["cells"][0]["setting"]
        for choice in ("stated", "searched")
    )
    tried = searched["tried"]
    assert list(tried) == [f"bandwidth {factor * stated['bandwidth']:g}" for factor in (0.25, 0.5, 1.0, 2.0)]
    assert tried[f"bandwidth {searched['bandwidth']:g}"] == min(tried.values())


def test_an_own_set_without_test_rows_is_refused_before_any_work(tmp_path: Path) -> None:
    table = pq.read_table(write_set(tmp_path / "data", "mine", split=True))
    only = table.set_column(table.column_names.index("split"), "split", pa.array(["train"] * len(table)))
    pq.write_table(only, tmp_path / "data" / "mine.parquet")
    with pytest.raises(ConfigError, match="no column split with train and test rows"):
        check(settings(tmp_path / "data", tmp_path / "run", "lu2016-table3", datasets="mine"))


def test_an_own_set_with_test_rows_takes_part_in_table_3(tmp_path: Path) -> None:
    write_set(tmp_path / "data", "mine", split=True)
    options = {"datasets": "mine", "algorithms": "FOGD,LIBSVM", "repeats": 1}
    cells = reproduce(settings(tmp_path / "data", tmp_path / "run", "lu2016-table3", **options))["cells"]
    assert all(cell["mean"] > cell["constant"] for cell in cells)


def test_a_missing_set_is_named_before_any_work_and_has_no_rows(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = ReproductionRun(settings(data, tmp_path / "run", datasets="german,w7a,a9a", repeats=1))
    try:
        run.perform_stage("plan")
        assert "Without data, left out: w7a.parquet is not in --data; a9a.parquet is not in --data." in caplog.text
    finally:
        run.close()
    result = reproduce(settings(data, tmp_path / "run", datasets="german,w7a,a9a", repeats=1))
    assert {row[0] for table in tables(result) for row in table.rows} == {"german"}


def test_the_order_of_seconds_is_stated_where_it_differs_from_print(data: Path, tmp_path: Path) -> None:
    result = reproduce(settings(data, tmp_path / "run", datasets="german", algorithms="RBP,FOGD", repeats=1))
    rbp, fogd = result["cells"]
    printed = rbp["paper_seconds"] / fogd["paper_seconds"]
    for here, stated in ((1.0 / printed, True), (printed, False)):
        rbp["relative_seconds"] = here
        expected = f"(printed in brackets): german: RBP {here:.2f} ({printed:.2f})."
        assert any(expected in sentence for sentence in conclusions(result)) == stated


def test_the_reason_of_no_information_is_one_that_the_table_has(data: Path, tmp_path: Path) -> None:
    result = reproduce(settings(data, tmp_path / "run", datasets="german", algorithms="RBP,FOGD", repeats=1))
    fogd = result["cells"][1] | {"verdict": "reproduced", "no_information": True}
    shown = " ".join(conclusions(result | {"cells": [fogd], "counts": {"all": counts_of([TableCell(**fogd)])}}))
    assert "the constant predictor or the simplest rival's printed number passes, too." in shown
    assert "exponent" not in shown


def test_names_are_accepted_in_any_case(data: Path, tmp_path: Path) -> None:
    result = reproduce(settings(data, tmp_path / "run", datasets="German", algorithms="fogd,bpa-s", repeats=1))
    assert [(c["dataset"], c["algorithm"]) for c in result["cells"]] == [("german", "BPA-S"), ("german", "FOGD")]


def test_a_folder_with_other_content_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no reproduction"):
        reproduce(settings(data, data))
    reproduce(settings(data, tmp_path / "run", repeats=1, algorithms="FOGD"))
    with pytest.raises(ConfigError, match="holds a reproduction of lu2016-table5, not of lu2016-table7"):
        reproduce(settings(data, tmp_path / "run", "lu2016-table7", datasets="dna"))
