"""CSV as written by spreadsheets and exports: other separators, decimal commas, compressed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from okl.data.ingest import csv
from okl.data.ingest.csv import packing_of, separator_of
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import open_source
from okl.foundation.errors import DataError
from okl.lifecycle.shard_store import arrivals
from tests.data.mixed import mixed
from tests.data.sources import settings, table

ROWS = mixed(600)
SETTINGS = settings(target="label", missing="mean", dates="parts")


def write_rows(path: Path, separator: str = ",", decimal: str = ".") -> Path:
    """Write the rows to a file, compressed according to its ending."""
    with pa.output_stream(str(path), compression=packing_of(path.name)) as stream:
        stream.write(ROWS.to_csv(sep=separator, decimal=decimal, index=False).encode())
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the shards of the rows from a plain CSV file."""
    folder = tmp_path_factory.mktemp("plain")
    return shards(write_rows(folder / "s.csv"), folder / "data")


def shards(source: Path, folder: Path) -> dict[str, bytes]:
    ingest(source, folder, SETTINGS)
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.mark.parametrize("blocks", ["one block", "many"])
@pytest.mark.parametrize(
    ("name", "separator", "decimal"),
    [
        ("s.csv", ";", ","),
        ("s.csv", ";", "."),
        ("s.tsv", "\t", "."),
        ("s.csv", "|", "."),
        ("S.CSV.GZ", ",", "."),
        ("s.csv.bz2", ";", ","),
        ("s.tsv.zst", "\t", "."),
    ],
)
def test_shards_do_not_depend_on_the_csv_format(
    name: str, separator: str, decimal: str, blocks: str, plain: dict[str, bytes], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    source = write_rows(tmp_path / name, separator, decimal)
    if blocks == "many":
        monkeypatch.setattr(csv, "BLOCK_BYTES", 4000)
        monkeypatch.setattr(csv, "RANGE_BYTES", 8000)
    assert shards(source, tmp_path / "data") == plain


@pytest.mark.parametrize(
    ("header", "separator"),
    [
        ('id;"Price, EUR"', ";"),
        ('"Price, EUR"\t"a;b;c"\ty', "\t"),
        ('id|"a ""b"", c"|y', "|"),
        ('id;"Price,', ";"),  # a name that continues in the next line
        ('id,";;;"', ","),
        ('"a;b"', ","),  # one column
        ('5" pipe, 3" pipe;y', ","),  # inches, not quotes
        ('a;"b"c,d', ","),
    ],
)
def test_separators_between_quotes_are_ignored(header: str, separator: str) -> None:
    assert separator_of(f"{header}\n1,5;2\n".encode()) == separator


def test_a_quoted_name_with_a_comma_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text('id;"Price, EUR"\n1;2,5\n2;3,5\n')
    (part,) = open_source(tmp_path / "s.csv").batches()
    assert part.batch.to_pydict() == {"id": [1, 2], "Price, EUR": [2.5, 3.5]}


def test_files_of_one_source_may_have_different_formats(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "1.csv.gz")
    write_rows(tmp_path / "in" / "2.csv", ";", ",")
    write_rows(tmp_path / "in" / "3.tsv", "\t")
    ages = [part.batch.column("age").to_numpy(zero_copy_only=False) for part in open_source(tmp_path / "in").batches()]
    assert len(ages) == 3
    np.testing.assert_array_equal(ages[0], ROWS["age"])
    np.testing.assert_array_equal(ages[1], ages[0])
    np.testing.assert_array_equal(ages[2], ages[0])


def test_compressed_svmlight_text_is_read(tmp_path: Path) -> None:
    with pa.output_stream(str(tmp_path / "s.svm.bz2")) as stream:
        stream.write(b"1 1:0.5 3:2\n-1 2:1\n")
    source = open_source(tmp_path / "s.svm.bz2")
    assert source.kind == "svmlight"
    assert [part.batch.column("f2").to_pylist() for part in source.batches()] == [[2.0, 0.0]]


@pytest.mark.parametrize("name", ["s.csv.gz", "s.csv.bz2", "s.csv.zst", "s.svm.gz"])
def test_an_incomplete_compressed_file_is_an_error(name: str, tmp_path: Path) -> None:
    path, text = tmp_path / name, table(3000).to_pandas().to_csv(index=False).encode()
    with pa.output_stream(str(path)) as stream:
        stream.write(b"".join(b"%d 1:%d\n" % (i % 2, i) for i in range(3000)) if ".svm" in name else text)
    complete = path.read_bytes()
    for content in (complete[: len(complete) // 2], b"a,y\n1,0\n" * 40, b"\x1f\x8b" + complete[2:400][::-1]):
        path.write_bytes(content)
        with pytest.raises(
            DataError, match=rf"{name} cannot be unpacked as \w+: .* It may be truncated: write or fetch it again"
        ):
            ingest(path, tmp_path / "data", settings())
        assert [file.name for file in tmp_path.iterdir()] == [name]


def test_both_endings_of_a_file_show_whether_it_has_data(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.parquet.gz", "c.gz", "d.svm.zst", "e.zip", "f.tsv"):
        (tmp_path / name).write_bytes(b"")
    assert [file.name for file in arrivals(str(tmp_path))[0]] == ["a.csv.gz", "d.svm.zst", "f.tsv"]
    for name, ending in (("b.parquet.gz", r"\.parquet\.gz"), ("c.gz", r"\.gz"), ("e.zip", r"\.zip")):
        with pytest.raises(DataError, match=rf"the ending '{ending}' is unknown; .* compressed as \.gz, \.bz2, \.zst"):
            open_source(tmp_path / name)


def test_message_for_an_unreadable_date_shows_the_expected_format(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("on,y\n2026-12-31,0\n31.12.2026,1\n")
    source = open_source(tmp_path / "s.csv", types={"on": pa.timestamp("us")})
    with pytest.raises(
        DataError, match=r"column 'on', row 1 .* holds '31\.12\.2026', .* Write dates as 2026-12-31, or"
    ):
        list(source.batches())
