"""Keys of CSV files keep their spelling: they are text if a number would change them, numbers otherwise."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import okl
from okl.data.dataset import Dataset
from okl.data.ingest import csv
from okl.data.ingest.run import ingest
from okl.foundation.errors import DataError
from okl.models.file import save_model
from okl.runs.predict import score_stream
from tests.data.sources import settings
from tests.models.test_file import make_model

ROWS = 60
LONG = 90071992547409930123  # 20 digits, of which float64 keeps 16


def write_keys(folder: Path, values: list[Any], name: str = "s.csv") -> Path:
    lines = [f"{row % 7}.5,{row % 3},{row % 2},{value}" for row, value in enumerate(values)]
    path = folder / name
    path.write_text("\n".join(["width,height,y,zip", *lines, ""]))
    return path


def keys_of(data: Dataset) -> pa.ChunkedArray:
    return pa.concat_tables([pq.read_table(data.path(shard)) for shard in data.shards]).column("zip")


KEYS = {
    "leading zeros": ([f"{500 + row:05d}" for row in range(ROWS)], pa.string()),
    "a sign and zeros": ([*range(1, ROWS), "-007"], pa.string()),
    "more digits than int64": ([LONG + row for row in range(ROWS)], pa.string()),
    "many digits beside decimals": ([0.5, *(9007199254740993 + row for row in range(1, ROWS))], pa.string()),
    "whole numbers": ([*range(ROWS - 1), 2**63 - 1], pa.int64()),
    "zeros and ones": ([row % 2 for row in range(ROWS)], pa.int64()),
    "decimals below 1": ([row / 64 for row in range(ROWS)], pa.float64()),
}


@pytest.mark.parametrize("case", KEYS)
def test_a_key_is_text_only_if_a_number_would_change_it(case: str, tmp_path: Path) -> None:
    values, kind = KEYS[case]
    source = write_keys(tmp_path, values)
    data = ingest(source, tmp_path / "data", settings(keys=("zip",))).dataset
    again = ingest(source, tmp_path / "again", settings(), reference=data.schema).dataset
    for ingested in (data, again):
        assert keys_of(ingested).type == kind
        assert keys_of(ingested).to_pylist() == (values if kind != pa.string() else [str(value) for value in values])


@pytest.mark.parametrize("height", ["2", '"a\nb"'], ids=["plain", "line ends in quotes"])
def test_one_such_value_in_a_late_row_is_enough(height: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 512)
    monkeypatch.setattr(csv, "RANGE_BYTES", 1024)
    values = [*range(10_000, 10_300), "00501"]
    source = write_keys(tmp_path, values)
    source.write_text(source.read_text().replace(",2,", f",{height},"))
    data = ingest(source, tmp_path / "data", settings(keys=("zip",))).dataset
    assert keys_of(data).to_pylist() == [str(value) for value in values]


def test_several_files_get_one_type_of_key(tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    write_keys(folder, [*range(10_000, 10_030)], "a.csv")
    write_keys(folder, ["00501", "00502"], "b.csv")
    data = ingest(folder, tmp_path / "data", settings(keys=("zip",))).dataset
    assert keys_of(data).to_pylist() == [*map(str, range(10_000, 10_030)), "00501", "00502"]


def test_the_holdout_column_stays_a_number(tmp_path: Path) -> None:
    values = ["01" if row % 5 == 4 else "00" for row in range(ROWS)]
    ingest_settings = settings(keys=("zip",), holdout="zip")
    data = ingest(write_keys(tmp_path, values), tmp_path / "data", ingest_settings).dataset
    assert keys_of(data).type == pa.int64()
    assert {shard.split for shard in data.shards} == {"train", "test"}


def test_predictions_keep_the_spelling_of_keys(tmp_path: Path) -> None:
    model, values = make_model("binary"), ["00501", "", str(LONG), "12"]
    save_model(replace(model, schema=replace(model.schema, keys=("zip",))), tmp_path / "own")
    save_model(model, tmp_path / "other")
    source = write_keys(tmp_path, values)
    for name, keys in (("own", ()), ("other", ("zip",))):
        okl.predict(tmp_path / name, source, tmp_path / f"of-{name}", keys=keys)
        assert pq.read_table(tmp_path / f"of-{name}")["zip"].to_pylist() == values
        out = io.BytesIO()
        score_stream(str(tmp_path / name), io.BytesIO(source.read_bytes()), out, keys)
        as_text = pacsv.ConvertOptions(column_types={"zip": pa.string()})
        written = pacsv.read_csv(io.BytesIO(out.getvalue()), convert_options=as_text)
        assert written["zip"].to_pylist() == values


def test_an_input_that_is_also_a_key_is_refused_if_it_would_change(tmp_path: Path) -> None:
    save_model(make_model("binary"), tmp_path / "model")
    source = tmp_path / "s.csv"
    source.write_text("width,height\n007,1\n8,2\n")
    with pytest.raises(DataError, match=r"'width' is a numeric input and a key, .* such as 00501 .*Remove the key"):
        okl.predict(tmp_path / "model", source, tmp_path / "out", keys=("width",))
    source.write_text("width,height\n7,1\n8,2\n")
    okl.predict(tmp_path / "model", source, tmp_path / "out", keys=("width",))
    assert pq.read_table(tmp_path / "out")["width"].to_pylist() == [7, 8]
