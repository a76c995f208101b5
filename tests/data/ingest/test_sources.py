from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from okl.data.ingest.run import ingest
from okl.data.ingest.sources import Source, SvmlightReading, open_source
from okl.foundation.errors import DataError
from okl.foundation.settings import IngestSettings
from tests.data.sources import inputs_of, parquet, table


def read_all(source: Source, columns: list[str] | None = None, rows: int | None = None) -> pa.Table:
    return pa.Table.from_batches([part.batch for part in source.batches(columns, rows)])


def test_parquet_row_groups_are_read_in_order(tmp_path: Path) -> None:
    content = table(1000)
    source = open_source(parquet(tmp_path, content, row_group_size=300))
    assert source.rows == 1000
    assert [piece.rows for piece in source.pieces] == [300, 300, 300, 100]
    assert read_all(source, rows=70).equals(content)
    assert read_all(source, ["y", "b"]).schema.names == ["y", "b"]


def test_row_numbers_count_from_the_start_of_each_file(tmp_path: Path) -> None:
    parquet(tmp_path, table(250), "one.parquet", row_group_size=100)
    parquet(tmp_path, table(30), "two.parquet")
    positions = [(Path(part.file).name, part.first_row) for part in open_source(tmp_path).batches(batch_rows=60)]
    assert positions == [
        ("one.parquet", 0), ("one.parquet", 60), ("one.parquet", 100), ("one.parquet", 160),
        ("one.parquet", 200), ("two.parquet", 0),
    ]  # fmt: skip


def test_directory_and_glob_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    parts = [table(40, seed=i) for i in range(3)]
    for name, part in zip(("b", "c", "a"), parts, strict=True):
        parquet(tmp_path, part, f"{name}.parquet")
    (tmp_path / "_SUCCESS").touch()
    expected = pa.concat_tables([parts[2], parts[0], parts[1]])
    assert read_all(open_source(tmp_path)).equals(expected)
    assert read_all(open_source(f"{tmp_path}/[bc].parquet")).equals(pa.concat_tables(parts[:2]))


def test_csv_equals_the_table_it_was_written_from(tmp_path: Path) -> None:
    content = table(500, id=np.arange(500))
    pacsv.write_csv(content, tmp_path / "s.csv")
    source = open_source(tmp_path / "s.csv")
    read = pa.Table.from_batches([part.batch for part in source.batches(exact=("id",))])
    assert source.rows is None
    assert read.column("id").equals(content.column("id"))
    np.testing.assert_allclose(inputs_of(read), inputs_of(content), rtol=1e-6)


def test_csv_column_of_whole_numbers_may_continue_with_fractions(tmp_path: Path) -> None:
    lines = ["a,y", *["1,0"] * 700_000, "0.5,1"]  # the fraction comes after the block from which types are inferred
    (tmp_path / "s.csv").write_text("\n".join(lines))
    read = read_all(open_source(tmp_path / "s.csv"))
    assert read.column("a").type == pa.float64()
    assert read.column("a")[-1].as_py() == 0.5
    assert len(read) == 700_001


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_equals_the_rows_it_was_written_from(tmp_path: Path, zero_based: bool) -> None:
    content = table(3000, 4)
    values = inputs_of(content, "abcd").astype(np.float64)
    values[np.random.default_rng(0).random(values.shape) < 0.6] = 0
    values[:2, 3] = 1.5
    values[5, 0] = 2.5
    dump_svmlight_file(values, content.column("y").to_numpy(), str(tmp_path / "s.svm"), zero_based=zero_based)
    source = open_source(tmp_path / "s.svm")
    assert source.columns == ("f0", "f1", "f2", "f3", "y")
    assert source.rows == 3000
    read = read_all(source, ["y", "f3", "f0", "f1", "f2"], rows=700)
    np.testing.assert_allclose(inputs_of(read, ["f0", "f1", "f2", "f3"]), values, rtol=1e-12)  # type: ignore[arg-type]
    np.testing.assert_array_equal(read.column("y").to_numpy(), content.column("y").to_numpy())
    assert len(open_source(tmp_path / "s.svm", SvmlightReading(9)).columns) == 10


def test_missing_numbers_of_svmlight_and_csv_are_encoded_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"y": [0, 1] * 30, "f0": rng.normal(5.0, 1.0, 60), "f1": rng.normal(size=60)})
    frame.loc[frame.index % 3 == 0, "f0"] = np.nan
    frame.to_csv(tmp_path / "s.csv", index=False)
    lines = [f"{int(y)} 1:{first} 2:{second}" for y, first, second in frame.itertuples(index=False)]
    (tmp_path / "s.svm").write_text("\n".join(lines) + "\n")
    datasets = {}
    for kind in ("csv", "svm"):
        settings = IngestSettings(target="y", missing="mean", scale="none")
        datasets[kind] = ingest(tmp_path / f"s.{kind}", tmp_path / kind, settings).dataset
    assert datasets["svm"].schema.features == datasets["csv"].schema.features == ("f0", "f0=(missing)", "f1")
    tables = [pq.read_table(data.folder / data.shards[0].path).to_pandas() for data in datasets.values()]
    np.testing.assert_allclose(
        tables[0][list(datasets["svm"].schema.features)], tables[1][list(datasets["svm"].schema.features)]
    )


def test_large_integers_may_be_the_target_of_a_regression(tmp_path: Path) -> None:
    nanoseconds = 1_700_000_000_000_000_000 + 1_000_003 * np.arange(300)
    source = parquet(tmp_path, table(300, 2).drop_columns(["y"]).append_column("y", pa.array(nanoseconds)))
    data = ingest(source, tmp_path / "set", IngestSettings(target="y")).dataset
    assert data.schema.task == "regression"


def test_svmlight_chunks_lose_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okl.data.ingest.sources.CHUNK_BYTES", 64)
    (tmp_path / "s.txt").write_text("".join(f"{i % 2} 1:{i} 2:0.5\n" for i in range(200)) + "1 1:200")
    read = read_all(open_source(tmp_path / "s.txt"))
    np.testing.assert_array_equal(read.column("f0").to_numpy(), np.arange(201))


def test_svmlight_wider_than_the_limit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s.svm").write_text("1 1:1 47236:1\n")
    (tmp_path / "t.svm").write_text("1 1:1 1000001:1\n")
    dense = IngestSettings(storage="dense")
    with pytest.raises(DataError, match=r"column index 47236, but dense rows have at most 4096 columns"):
        ingest(tmp_path / "s.svm", tmp_path / "dense", dense)
    with pytest.raises(DataError, match=r"1000001"):
        open_source(tmp_path / "t.svm")


def test_fingerprint_depends_on_contents_and_names_but_not_on_folders(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    fingerprint = open_source(parquet(tmp_path / "here", table(50))).fingerprint()
    assert open_source(parquet(tmp_path / "there", table(50))).fingerprint() == fingerprint
    assert open_source(parquet(tmp_path / "there", table(50), "other.parquet")).fingerprint() != fingerprint
    assert open_source(parquet(tmp_path / "here", table(50, seed=1))).fingerprint() != fingerprint


def test_parquet_without_its_ending_is_recognised_by_its_magic_bytes(tmp_path: Path) -> None:
    path = parquet(tmp_path, table(20), "part-0001")
    assert open_source(path).kind == "parquet"
