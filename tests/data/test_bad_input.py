"""Every kind of bad input ends in one clear sentence and leaves no files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.ingest.run import check_source, ingest
from okl.foundation.errors import ConfigError, DataError, OklError
from tests.data.bad_sources import CASES
from tests.data.sources import parquet, settings, table


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_one_clear_sentence_and_leaves_no_files(tmp_path: Path, name: str) -> None:
    prepare, values, message = CASES[name]
    source = prepare(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=message) as caught:
        ingest(source, tmp_path / "new" / "deep" / "data", settings(**values))
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


EARLY = ["missing file", "not Parquet", "truncated file", "no target column", "a column of dates", "zero rows",
         "NaN", "null", "null in CSV", "a file without a header line",
         "duplicate columns", "shards of differing types", "a text target for regression"]  # fmt: skip


@pytest.mark.parametrize("name", EARLY)
def test_check_source_finds_errors_before_ingest(tmp_path: Path, name: str) -> None:
    prepare, values, message = CASES[name]
    with pytest.raises(DataError, match=message):
        check_source(prepare(tmp_path), settings(**values))


def test_message_for_missing_values_names_columns_and_their_shares(tmp_path: Path) -> None:
    gaps = {"on": pa.array([None, *range(99)], pa.date32()), "flag": pa.array([True, False, None, None] * 25)}
    words = pa.array([None, "x"] * 50)  # missing words have their own input
    source = parquet(tmp_path, table(100, 2, **gaps, words=words))
    message = r"'flag' has no value .* in row 2 .*; of 100 rows read, 50% miss 'flag'\. Fill them, or .* --missing mean"
    with pytest.raises(DataError, match=message):
        check_source(source, settings(dates="drop", missing="error"))
    with pytest.raises(DataError, match=r"'on' has no value .* row 0 .* 1% miss 'on', 50% miss 'flag'\. "):
        check_source(source, settings(dates="parts", missing="error"))
    check_source(source, settings(dates="drop", drop=("flag",), missing="error"))
    check_source(source, settings(dates="parts", missing="mean"))
    parquet(tmp_path, pq.read_table(source).slice(0, 0), "a.parquet")  # the first file in the folder
    with pytest.raises(DataError, match=r"source\.parquet: column 'flag' has no value"):
        check_source(tmp_path, settings(dates="drop", missing="error"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"holdout": 1.5}, r"holdout = 1\.5; expected a share above 0 and below 1"),
        ({"holdout": 0.0}, r"holdout = 0\.0; .* To train on all rows, train on a data set that okl ingest made"),
        ({"holdout": 0.2, "split_column": "split"}, r"the split column 'split' and a holdout both"),
        ({"holdout": 0.2}, r"the split column 'split' and a holdout both choose the test rows"),
        ({"keys": ("y",)}, r"column 'y' is named as target and as key"),
        ({"keys": ("a",), "drop": ("a",)}, r"column 'a' is named as key and as drop"),
    ],
)
def test_settings_that_exclude_each_other_are_an_error(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    source = parquet(tmp_path, table(100, split=["train", "test"] * 50))
    with pytest.raises(ConfigError, match=message):
        ingest(source, tmp_path / "data", settings(**values))
    assert [path.name for path in tmp_path.iterdir()] == ["source.parquet"]


def test_a_destination_that_is_not_a_data_set_is_never_changed(tmp_path: Path) -> None:
    source = parquet(tmp_path, table(100))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for destination in (tmp_path / "mine", tmp_path / "source.parquet"):
        with pytest.raises(DataError, match="exists and is not a data set"):
            ingest(source, destination, settings(), overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_destination_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    source = parquet(tmp_path, table(100))
    with pytest.raises(DataError, match=r"cannot be written: Not a directory"):
        ingest(source, source / "data", settings())
    assert [path.name for path in tmp_path.iterdir()] == ["source.parquet"]


def test_a_destination_created_during_ingest_is_not_replaced(tmp_path: Path) -> None:
    source = parquet(tmp_path, table(100))

    def create_folder(done: int, total: int | None) -> None:
        (tmp_path / "data").mkdir()

    with pytest.raises(DataError, match="exists and is not a data set"):
        ingest(source, tmp_path / "data", settings(), progress=create_folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "source.parquet"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_an_interrupted_overwrite_keeps_the_old_data_set(tmp_path: Path, failure: type[BaseException]) -> None:
    source = parquet(tmp_path, table(100))
    old = ingest(source, tmp_path / "data", settings()).dataset
    parquet(tmp_path, table(50_000))

    def stop(done: int, total: int | None) -> None:
        assert total == 50_000
        if done > 20_000:
            raise failure

    with pytest.raises(failure):
        ingest(source, tmp_path / "data", settings(rows_per_shard=4000), overwrite=True, progress=stop)
    assert ingest(parquet(tmp_path, table(100)), tmp_path / "data", settings()).dataset == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "source.parquet"]


def test_an_interrupt_between_the_two_renames_restores_the_old_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = parquet(tmp_path, table(100))
    old = ingest(source, tmp_path / "data", settings()).dataset
    rename = os.rename

    def interrupted(before: Path, after: Path) -> None:
        if ".unfinished-" in before.name:
            raise KeyboardInterrupt
        rename(before, after)

    monkeypatch.setattr("os.rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest(source, tmp_path / "data", settings(scale="minmax"), overwrite=True)
    monkeypatch.undo()
    assert ingest(source, tmp_path / "data", settings()).dataset == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "source.parquet"]


def test_errors_of_the_store_end_with_exit_code_two() -> None:
    assert issubclass(DataError, OklError)
    assert DataError.exit_code == 2
