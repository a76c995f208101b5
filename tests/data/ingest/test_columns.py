"""Columns of whole numbers that identify rows cause a warning; columns of measurements do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.ingest.columns import FIRST_ROWS
from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings


def table(rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    columns = {"id": random.permutation(rows) * 7 + 10**6, "age": random.integers(18, 90, rows)}
    return columns | {"a": random.normal(size=rows), "y": random.integers(0, 2, rows)}


def warnings(source: Path, keys: tuple[str, ...] = ()) -> list[str]:
    ingested = ingest(source, source.with_name(f"made-{len(keys)}"), IngestSettings(keys=keys))
    assert ingested.dataset.schema.features == tuple(name for name in ("id", "age", "a") if name not in keys)
    return list(ingested.dataset.warnings)


@pytest.mark.parametrize("kind", ["csv", "parquet", "floats.csv", "floats.parquet"])
def test_an_id_column_is_a_warning_and_stays_an_input(kind: str, tmp_path: Path) -> None:
    source, content = tmp_path / f"rows.{kind}", table(150)
    if "floats" in kind:
        content["id"] = content["id"].astype(np.float64)
    if kind.endswith("csv"):
        names, columns = zip(*content.items(), strict=True)
        lines = [",".join(map(str, row)) for row in zip(*(column.tolist() for column in columns), strict=True)]
        source.write_text("\n".join([",".join(names), *lines]) + "\n")
    else:
        pq.write_table(pa.table(content), source, row_group_size=40)
    (warning,) = warnings(source)
    assert warning.startswith("Column 'id' holds whole numbers that all differ in its 150 rows")
    assert "--key id" in warning
    assert "--drop id" in warning
    assert warnings(source, keys=("id",)) == []


def test_ids_of_several_rows_are_named_with_the_option_for_groups(tmp_path: Path) -> None:
    source, content = tmp_path / "rows.parquet", table(150)
    for name, is_named in (("patient_id", True), ("customerId", True), ("paid", False)):
        columns = {name if key == "id" else key: values for key, values in content.items()}
        columns[name] = np.arange(150) // 3
        pq.write_table(pa.table(columns), source)
        results = [ingest(source, tmp_path / f"{name}-{group}", IngestSettings(group=group)) for group in (None, name)]
        assert [f"--group {name} keeps" in warning for warning in results[0].dataset.warnings] == [True] * is_named
        assert results[1].dataset.warnings == ()


def test_skewed_measurements_that_all_differ_are_not_ids(tmp_path: Path) -> None:
    content, source = table(150), tmp_path / "rows.csv"
    content["id"] = np.unique(np.round(np.exp(np.linspace(5.0, 20.0, 150))))  # such as populations of countries
    lines = [",".join(map(str, row)) for row in zip(*(column.tolist() for column in content.values()), strict=True)]
    source.write_text("\n".join([",".join(content), *lines]) + "\n")
    assert warnings(source) == []


def test_few_rows_or_a_repeated_value_give_no_warning(tmp_path: Path) -> None:
    for rows, twice in ((100, False), (150, True)):
        columns = table(rows)
        columns["id"][-1] = columns["id"][0 if twice else -1]
        source = tmp_path / f"{rows}" / "rows.parquet"
        source.parent.mkdir()
        pq.write_table(pa.table(columns), source)
        assert warnings(source) == []


def test_only_the_first_rows_are_checked_for_any_row_groups(tmp_path: Path) -> None:
    columns = table(FIRST_ROWS + 10)
    columns["id"][-5:] = columns["id"][:5]
    warnings_seen = set()
    for rows in (5000, FIRST_ROWS + 10):
        source = tmp_path / f"{rows}" / "rows.parquet"
        source.parent.mkdir()
        pq.write_table(pa.table(columns), source, row_group_size=rows)
        warnings_seen.add(tuple(warnings(source)))
    ((warning,),) = warnings_seen
    assert f"the first {FIRST_ROWS:,} rows" in warning


@pytest.mark.parametrize("text", ["a,b,y,\n1,2,0,\n3,5,1,\n2,2,1,\n", ",a,b,y\n0,1,2,0\n1,3,5,1\n2,2,2,1\n"])
def test_a_column_without_a_name_is_left_out_unless_it_is_the_only_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    data = ingest(tmp_path / "rows.csv", tmp_path / "set", IngestSettings()).dataset
    assert data.schema.features == ("a", "b")
    assert data.warnings[0].startswith("The column without a name is left out")
    (tmp_path / "one.csv").write_text(",y\n1,0\n3,1\n2,1\n")
    alone = ingest(tmp_path / "one.csv", tmp_path / "one", IngestSettings()).dataset
    assert alone.schema.features == ("",)
    assert [warning for warning in alone.warnings if "without a name" in warning] == []
