"""Verdicts, rows, orders and files of a reproduction."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.foundation.errors import ConfigError, DataError
from okl.papers.base import (
    BETTER,
    REPRODUCED,
    WORSE,
    Archive,
    DataFolder,
    Margin,
    RowSelection,
    Stop,
    Stopped,
    TableCell,
    code_digest,
    counts_of,
    relative_to,
)
from okl.papers.lu2016.tables import CODE, Sizes, Training
from tests.papers.sets import write_orders, write_set

# When a cell is reproduced.

CLASSES = Margin(relative=0.05)


def cell(metric: str = "mistake_rate", paper: float | None = 0.30, sd: float | None = 0.0, **more: Any) -> TableCell:
    return TableCell("german", "FOGD", metric, paper, sd, paper_repeats=20, **more)


@pytest.mark.parametrize(
    ("mean", "verdict"), [(0.314, REPRODUCED), (0.316, WORSE), (0.286, REPRODUCED), (0.284, BETTER)]
)
def test_the_verdict_is_two_sided(mean: float, verdict: str) -> None:
    measured = cell().measured([mean, mean], [1.0, 3.0]).judged(CLASSES)
    assert (measured.verdict, measured.repeats, measured.seconds, measured.sd) == (verdict, 2, 2.0, 0.0)
    assert measured.difference == pytest.approx(mean - 0.30)
    assert measured.margin == pytest.approx(0.015)


def test_accuracies_can_be_better_and_properties_of_the_data_cannot() -> None:
    points = Margin(points=0.005)
    accuracies = [cell("accuracy", 0.85).measured([mean], [1.0]).judged(points) for mean in (0.8, 0.848, 0.9)]
    assert [each.verdict for each in accuracies] == [WORSE, REPRODUCED, BETTER]
    assert cell("kappa_max", 1.0, paper_unit=0.01).measured([0.98], [1.0]).judged(Margin()).verdict == WORSE


def test_only_standard_errors_and_rounding_widen_the_margin() -> None:
    values = [0.28, 0.36]
    measured = cell(sd=0.02, paper_unit=0.001).measured(values, [1.0, 1.0])
    error = (0.02**2 / 20 + 0.0205**2 / 2 + 0.001**2 / 12) ** 0.5
    assert measured.standard_error == pytest.approx(error), "a spread beyond the printed one adds nothing"
    closer = cell(sd=0.02, paper_unit=0.001).measured([0.30, 0.31], [1.0, 1.0])
    error = (0.02**2 / 20 + 0.5 * 0.01**2 / 2 + 0.001**2 / 12) ** 0.5
    assert closer.standard_error == pytest.approx(error)
    # this mean would pass with two standard errors of its own spread
    varied = cell(sd=0.02).measured([0.30, 0.38] * 5, [1.0] * 10).judged(CLASSES)
    assert varied.difference is not None
    assert varied.difference < 0.015 + 2 * (0.02**2 / 20 + 0.042**2 / 10) ** 0.5
    assert varied.verdict == WORSE
    # many orders with a large spread have a small standard error: the spread itself does not widen the margin
    wide = cell().measured([0.2, 0.5] * 5000, [1.0] * 10000).judged(CLASSES)
    assert wide.verdict == WORSE
    # a single order has the printed spread
    assert cell(sd=0.02).measured([0.3], [1.0]).standard_error == pytest.approx(0.02 * (1 + 1 / 20) ** 0.5)


@pytest.mark.parametrize(("spread", "verdict"), [(0.031, REPRODUCED), (0.032, WORSE)])
def test_a_spread_beyond_three_times_the_printed_one_is_worse(spread: float, verdict: str) -> None:
    values = [0.3 - spread / 2**0.5, 0.3 + spread / 2**0.5]
    measured = cell(sd=0.01, paper_unit=0.001).measured(values, [1.0, 1.0])
    assert measured.sd == pytest.approx(spread)
    assert measured.judged(CLASSES).verdict == verdict


def test_a_margin_is_at_least_the_rounding_and_at_most_a_tenth_of_the_constant_s_error() -> None:
    assert Margin(relative=0.05).of(0.03, 0.01, None) == 0.005
    assert Margin(points=0.005).of(0.98, 0.001, 0.97) == pytest.approx(0.001)
    assert Margin(points=0.005).of(0.98, 0.001, None) == 0.005
    assert Margin().of(0.98, 0.001, None) == 0.0


@pytest.mark.parametrize(("constant", "nothing"), [(0.302, True), (0.35, False), (None, False)])
def test_a_cell_that_a_constant_passes_has_no_information(constant: float | None, nothing: bool) -> None:
    measured = cell(constant=constant).measured([0.9, 0.9], [1.0, 1.0]).judged(CLASSES)
    assert (measured.verdict, measured.no_information) == (WORSE, nothing)
    counts = counts_of([measured, cell()])
    assert counts == {REPRODUCED: 0, BETTER: 0, WORSE: 1 - nothing, "no information": int(nothing), "not told apart": 0}


@pytest.mark.parametrize(("rival", "nothing"), [(0.286, True), (0.284, False), (None, False)])
def test_a_cell_that_the_printed_rival_passes_has_no_information(rival: float | None, nothing: bool) -> None:
    measured = cell(rival=rival).measured([0.3, 0.3], [1.0, 1.0]).judged(CLASSES)
    assert (measured.verdict, measured.no_information) == (REPRODUCED, nothing)


def test_without_a_printed_number_or_a_margin_there_is_no_verdict() -> None:
    assert cell(paper=None).measured([0.3], [1.0]).judged(CLASSES).verdict is None
    assert cell().measured([0.3], [1.0]).judged(None).verdict is None


def test_seconds_are_in_units_of_the_reference_on_the_same_set_and_point() -> None:
    cells = [
        TableCell("german", "FOGD", "mistake_rate", seconds=2.0),
        TableCell("german", "NOGD", "mistake_rate", seconds=3.0),
        TableCell("w7a", "NOGD", "mistake_rate", seconds=3.0),
        TableCell("german", "NOGD", "mistake_rate", seconds=3.0, point={"budget": 50.0}),
        TableCell("german", "RBP", "mistake_rate"),
    ]
    assert [c.relative_seconds for c in relative_to("FOGD", cells)] == [1.0, 1.5, None, None, None]


# Rows of a data set in a table, their scaling and their order.


def test_a_selection_takes_its_split_in_stored_order(tmp_path: Path) -> None:
    table = pq.read_table(write_set(tmp_path, "w7a", split=True))
    folder, train = DataFolder(str(tmp_path)), RowSelection("w7a", "binary", "train")
    chosen = table["split"].to_numpy(zero_copy_only=False) == "train"
    rows = folder.rows(train, "float32")
    assert folder.count(train) == len(rows.targets) == chosen.sum() == 240
    assert (rows.targets == table["y"].to_numpy()[chosen]).all()
    assert (rows.inputs[:, 1] == table["f1"].to_numpy()[chosen]).all()
    assert folder.count(RowSelection("w7a", "binary", "all")) == 320
    assert folder.has_split("w7a")


def test_minmax_brings_inputs_and_a_regression_target_to_the_unit_interval(tmp_path: Path) -> None:
    write_set(tmp_path, "abalone", "regression")
    rows = DataFolder(str(tmp_path)).rows(RowSelection("abalone", "regression", "all", minmax=True), "float64")
    for values in (rows.inputs, rows.targets):
        assert (values.min(axis=0) == 0.0).all()
        assert (values.max(axis=0) == 1.0).all()


def test_orders_of_the_authors_are_used_if_requested_and_present(tmp_path: Path) -> None:
    write_set(tmp_path, "german")
    write_orders(tmp_path, "german", 320, 2)
    folder = DataFolder(str(tmp_path))
    authors_order = pq.read_table(tmp_path / "perms" / "german_perms.parquet")["run1"].to_numpy()
    assert (folder.order("german", 320, 1, "authors") == authors_order).all()
    seeded = folder.order("german", 320, 1, "seeded")
    assert (seeded == np.random.default_rng(1).permutation(320)).all()
    assert (folder.order("w7a", 320, 1, "authors") == seeded).all()
    assert not (authors_order == seeded).all()
    with pytest.raises(DataError, match=r"holds 2 orders.*fewer --repeats"):
        folder.order("german", 320, 2, "authors")
    with pytest.raises(DataError, match="not an order of the 300 rows"):
        folder.order("german", 300, 1, "authors")


@pytest.mark.parametrize(
    ("columns", "task", "sentence"),
    [
        ({"f0": [1.0, 2.0]}, "binary", "Expected inputs and a column y"),
        ({"f0": [1.0, 2.0], "y": [0, 1]}, "binary", r"two classes must be -1 and \+1"),
        ({"f0": [1.0, 2.0], "y": [0.5, 1]}, "multiclass", "classes must be 0, 1, 2"),
        ({"f0": [1.0, None], "y": [-1, 1]}, "binary", "missing or infinite"),
        ({"f0": ["a", "b"], "y": [-1, 1]}, "binary", "cannot be read as a data set"),
        ({"f0": [1.0], "y": [1], "split": ["test"]}, "binary", "no rows of the split 'train'"),
    ],
)
def test_a_bad_file_raises_one_sentence(
    columns: dict[str, list[object]], task: str, sentence: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "german.parquet")
    with pytest.raises(DataError, match=sentence):
        DataFolder(str(tmp_path)).rows(RowSelection("german", task, "train"), "float32")  # type: ignore[arg-type]


def test_a_broken_file_raises_one_sentence(tmp_path: Path) -> None:
    path = write_set(tmp_path, "german")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"german\.parquet cannot be read"):
        DataFolder(str(tmp_path)).count(RowSelection("german", "binary", "train"))


def test_the_digest_is_that_of_data_and_orders(tmp_path: Path) -> None:
    write_set(tmp_path, "german")
    before = DataFolder(str(tmp_path)).digest("german")
    assert DataFolder(str(tmp_path)).digest("german") == before
    write_orders(tmp_path, "german", 320, 1)
    with_orders = DataFolder(str(tmp_path)).digest("german")
    write_set(tmp_path, "german", rows=321)
    assert len({before, with_orders, DataFolder(str(tmp_path)).digest("german")}) == 3


# Outcomes are files: complete or absent, and never confused with outcomes of other settings.

TRAINING = Training(RowSelection("german", "binary"), "FOGD", {"step_size": 0.002}, Sizes(10, 40, 2), 0, 320)
ITEM = TRAINING.item("german")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    write_set(tmp_path / "data", "german")
    (tmp_path / "items").mkdir()
    return Archive(str(tmp_path / "items"), DataFolder(str(tmp_path / "data")), "code")


def test_an_outcome_is_read_as_it_was_written(archive: Archive) -> None:
    assert archive.read(ITEM) is None
    outcome = archive.compute(ITEM)
    assert outcome["curve"][-1][0] == 320
    assert archive.read(ITEM) == outcome
    assert [path.name for path in Path(archive.folder).iterdir()] == [archive.path(ITEM).name]


def test_another_setting_size_order_precision_data_or_code_is_another_file(archive: Archive, tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"setting": {"step_size": 0.02}},
        {"sizes": Sizes(10, 50, 2)},
        {"order": 1},
        {"n_rows": 300},
        {"source": "authors"},
        {"precision": "float64"},
        {"algorithm": "NOGD"},
        {"selection": RowSelection("german", "binary", minmax=True)},
    ]
    others = [replace(TRAINING, **change).item("german") for change in changes]
    write_set(tmp_path / "more", "german", rows=400)
    paths = {archive.path(item).name for item in [ITEM, *others]}
    paths |= {replace(archive, code="new").path(ITEM).name}
    paths |= {replace(archive, data=DataFolder(str(tmp_path / "more"))).path(ITEM).name}
    assert len(paths) == len(others) + 3


def test_the_location_of_the_data_does_not_matter(archive: Archive, tmp_path: Path) -> None:
    write_set(tmp_path / "moved", "german")
    assert replace(archive, data=DataFolder(str(tmp_path / "moved"))).path(ITEM) == archive.path(ITEM)


def test_a_damaged_outcome_raises(archive: Archive) -> None:
    archive.path(ITEM).write_text("{")
    with pytest.raises(ConfigError, match="Remove it, and run again"):
        archive.read(ITEM)


def test_a_stopped_run_writes_no_unfinished_outcome(archive: Archive) -> None:
    copied = pickle.loads(pickle.dumps(archive))
    archive.stop.set()
    with pytest.raises(Stopped):
        archive.compute(ITEM)
    assert archive.read(ITEM) is None
    assert copied.compute(ITEM)["error"] > 0, "another process is not stopped from here"
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        ITEM.compute(archive.data, stop.check)


def test_the_code_digest_covers_the_relevant_modules_and_names_existing_ones() -> None:
    whole = code_digest(CODE)
    assert len({whole, *(code_digest((part,)) for part in CODE)}) == len(CODE) + 1
