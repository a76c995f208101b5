"""Which rows a table takes of a data set, how they are scaled, in which orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.errors import DataError
from okl.reproduction.folder import Folder, Selection
from tests.reproduction.sets import write_orders, write_set


def test_a_selection_takes_its_split_in_stored_order(tmp_path: Path) -> None:
    table = pq.read_table(write_set(tmp_path, "w7a", split=True))
    folder, train = Folder(str(tmp_path)), Selection("w7a", "binary", "train")
    chosen = table["split"].to_numpy(zero_copy_only=False) == "train"
    rows = folder.rows(train, "float32")
    assert folder.count(train) == len(rows.targets) == chosen.sum() == 240
    assert (rows.targets == table["y"].to_numpy()[chosen]).all()
    assert (rows.inputs[:, 1] == table["f1"].to_numpy()[chosen]).all()
    assert folder.count(Selection("w7a", "binary", "all")) == 320
    assert folder.has_split("w7a")


def test_minmax_brings_inputs_and_a_regression_target_to_the_unit_interval(tmp_path: Path) -> None:
    write_set(tmp_path, "abalone", "regression")
    rows = Folder(str(tmp_path)).rows(Selection("abalone", "regression", "all", minmax=True), "float64")
    for values in (rows.inputs, rows.targets):
        assert (values.min(axis=0) == 0.0).all()
        assert (values.max(axis=0) == 1.0).all()


def test_the_authors_orders_are_taken_where_they_are_asked_for_and_there(tmp_path: Path) -> None:
    write_set(tmp_path, "german")
    write_orders(tmp_path, "german", 320, 2)
    folder = Folder(str(tmp_path))
    theirs = pq.read_table(tmp_path / "perms" / "german_perms.parquet")["run1"].to_numpy()
    assert (folder.order("german", 320, 1, "authors") == theirs).all()
    seeded = folder.order("german", 320, 1, "seeded")
    assert (seeded == np.random.default_rng(1).permutation(320)).all()
    assert (folder.order("w7a", 320, 1, "authors") == seeded).all()
    assert not (theirs == seeded).all()
    with pytest.raises(DataError, match=r"holds 2 orders.*fewer --repeats"):
        folder.order("german", 320, 2, "authors")
    with pytest.raises(DataError, match="not an order of the 300 rows"):
        folder.order("german", 300, 1, "authors")


@pytest.mark.parametrize(
    ("columns", "task", "sentence"),
    [
        ({"f0": [1.0, 2.0]}, "binary", "it takes inputs and a column y"),
        ({"f0": [1.0, 2.0], "y": [0, 1]}, "binary", r"two classes are -1 and \+1"),
        ({"f0": [1.0, 2.0], "y": [0.5, 1]}, "multiclass", "classes are 0, 1, 2"),
        ({"f0": [1.0, None], "y": [-1, 1]}, "binary", "missing or infinite"),
        ({"f0": ["a", "b"], "y": [-1, 1]}, "binary", "cannot be read as a data set"),
        ({"f0": [1.0], "y": [1], "split": ["test"]}, "binary", "no rows of the split 'train'"),
    ],
)
def test_a_bad_file_is_told_in_one_sentence(
    columns: dict[str, list[object]], task: str, sentence: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "german.parquet")
    with pytest.raises(DataError, match=sentence):
        Folder(str(tmp_path)).rows(Selection("german", task, "train"), "float32")  # type: ignore[arg-type]


def test_a_broken_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    path = write_set(tmp_path, "german")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"german\.parquet cannot be read"):
        Folder(str(tmp_path)).count(Selection("german", "binary", "train"))


def test_the_digest_is_that_of_data_and_orders(tmp_path: Path) -> None:
    write_set(tmp_path, "german")
    before = Folder(str(tmp_path)).digest("german")
    assert Folder(str(tmp_path)).digest("german") == before
    write_orders(tmp_path, "german", 320, 1)
    with_orders = Folder(str(tmp_path)).digest("german")
    write_set(tmp_path, "german", rows=321)
    assert len({before, with_orders, Folder(str(tmp_path)).digest("german")}) == 3
