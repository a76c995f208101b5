"""Sources that cannot become a data set, each with the expected message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from okl.data.ingest.run import ingest
from tests.data.sources import parquet, replaced, settings, table

Prepare = Callable[[Path], Any]


def table_with_value(
    value: float | None, row: int = 70, column: str = "c", kind: pa.DataType | None = None
) -> pa.Table:
    values = table(100).column(column).cast(kind or pa.float32()).to_pylist()
    values[row] = value
    return table(100).set_column("abcde".index(column), column, pa.array(values, kind or pa.float32()))


def write_truncated(folder: Path) -> Path:
    path = parquet(folder, table(100))
    path.write_bytes(path.read_bytes()[:-100])
    return path


def write_damaged(folder: Path) -> Path:
    path = parquet(folder, table(5000), compression="none")
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    return path


def write_text(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_two_files(folder: Path, first: pa.Table, second: pa.Table) -> Path:
    source = folder / "many"
    source.mkdir()
    parquet(source, first, "one.parquet")
    parquet(source, second, "two.parquet")
    return source


def make_empty_folder(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def table_with_targets(*values: Any) -> pa.Table:
    return replaced(table(100), "y", [values[i % len(values)] for i in range(100)])


def table_with_split(test_label: Any) -> pa.Table:
    content = table_with_targets(*([1, 2] if test_label == 3 else ["u", "v"]))
    values = content.column("y").to_pylist()
    values[60] = test_label
    return replaced(content, "y", values).append_column("split", pa.array(["train"] * 60 + ["test"] * 40))


# how to make the source, settings, pattern of the message
CASES: dict[str, tuple[Prepare, dict[str, Any], str]] = {
    "missing file": (lambda f: f / "none.parquet", {}, r"none\.parquet does not exist"),
    "no match": (lambda f: f / "*.parquet", {}, r"no file matches .* Check its folder and pattern"),
    "empty directory": (make_empty_folder, {}, r"is a folder without data files"),
    "unknown ending": (
        lambda f: write_text(f, "s.xlsx", "PK"),
        {},
        r"ending '\.xlsx' is unknown; expected \.parquet.*save a sheet as CSV",
    ),
    "not Parquet": (
        lambda f: write_text(f, "s.parquet", "a,b\n1,2\n"),
        {},
        r"s\.parquet is not a Parquet file: it begins with",
    ),
    "empty file": (lambda f: write_text(f, "s.parquet", ""), {}, r"s\.parquet is empty"),
    "empty CSV": (lambda f: write_text(f, "s.csv", ""), {}, r"s\.csv is empty"),
    "truncated file": (write_truncated, {}, r"source\.parquet is a truncated Parquet file"),
    "damaged pages": (write_damaged, {}, r"source\.parquet is a damaged Parquet file"),
    "no target column": (
        lambda f: parquet(f, table(100, 2)),
        {"target": "Y"},
        r"has no target column 'Y'.*Its columns are a, b, y\. Name the column to predict: --target NAME\.",
    ),
    "a file without a header line": (
        lambda f: write_text(f, "s.csv", "1.5,yes\n2.5,no\n"),
        {},
        r"Its columns are 1\.5, yes\. .* If 1\.5 is a value, add a header line with names\.",
    ),
    "no target column among many": (
        lambda f: write_text(f, "s.csv", "a,b,c,d,e,f,g,h,i,j\n" + "1,2,3,4,5,6,7,8,9,0\n" * 9),
        {"target": "wholly"},
        r"Its columns are a, b, c, d, \.\.\., g, h, i, j\. Name",
    ),
    "a target with a typing error": (
        lambda f: parquet(f, table(100, label=np.arange(100) % 2)),
        {"target": "lable"},
        r"Did you mean 'label'\?",
    ),
    "keys with commas": (
        lambda f: parquet(f, table(100)),
        {"keys": ("a,b",)},
        r"Name one at a time: --key a --key b\. ",
    ),
    "dates in a column of two words": (
        lambda f: write_text(f, "s.csv", "a,signed up,y\n" + "1,2026-11-22,0\n2,2026-11-23,1\n" * 50),
        {"dates": "error"},
        r"--key 'signed up' to copy it to the scores, or --drop 'signed up'",
    ),
    "text in another encoding": (
        lambda f: write_text(f, "s.csv", b"a,city,y\n" + b"1,M\xfcnchen,0\n" * 50 + b"2,Bonn,1\n" * 50),
        {},
        r"column 'city' holds bytes that are not UTF-8 text",
    ),
    "no such key": (lambda f: parquet(f, table(100)), {"keys": ("id",)}, r"has no key column 'id'"),
    "no such split": (lambda f: parquet(f, table(100)), {"split_column": "s"}, r"has no split column 's'"),
    "no such holdout": (lambda f: parquet(f, table(100)), {"holdout": "held"}, r"column 'held'\. .*--holdout last\. "),
    "holdout with a comma": (
        lambda f: parquet(f, table(100)),
        {"holdout": "0,2"},
        r"column '0,2'. A share of the rows is written 0\.2\.",
    ),
    "NaN": (
        lambda f: parquet(f, table_with_value(float("nan"))),
        {"missing": "error"},
        r"source\.parquet: column 'c' has no value.*in row 70",
    ),
    "null": (
        lambda f: parquet(f, table_with_value(None)),
        {"missing": "error"},
        r"source\.parquet: column 'c' has no value.*in row 70",
    ),
    "infinity": (
        lambda f: parquet(f, table_with_value(float("-inf"))),
        {"missing": "drop"},
        r"source\.parquet: column 'c' is infinite.*row 70",
    ),
    "beyond float32": (
        lambda f: parquet(f, table_with_value(1e300, kind=pa.float64())),
        {"missing": "zero"},
        r"column 'c' is .*beyond float32.*70",
    ),
    "NaN in the second file": (
        lambda f: write_two_files(f, table(100), table_with_value(float("nan"), 4)),
        {"missing": "error"},
        r"two\.parquet: column 'c' has no value.*in row 4 ",
    ),
    "null in CSV": (
        lambda f: write_text(f, "s.csv", "a,y\n1,0\n,1\n3,0\n"),
        {"missing": "error"},
        r"s\.csv: column 'a' has no value.*in row 1 ",
    ),
    "no target in any row": (
        lambda f: parquet(f, replaced(table(100), "y", [float("nan")] * 100)),
        {},
        r"has no training rows after rows without a target were left out; .* Column 'y' has no value there",
    ),
    "infinite target": (
        lambda f: parquet(f, replaced(table(100), "y", [0.5] * 99 + [float("inf")])),
        {},
        r"target 'y' is infinite or beyond 1e\+70 in row 99",
    ),
    "shards of differing columns": (
        lambda f: write_two_files(f, table(100), table(100, 4)),
        {},
        r"one\.parquet and two\.parquet differ .*'e' is only in the former",
    ),
    "shards of differing types": (
        lambda f: write_two_files(f, table(100), table_with_value(1.0, kind=pa.float64())),
        {},
        r"'c' is float in the former, double in the la",
    ),
    "shards of differing kinds": (
        lambda f: write_text(write_two_files(f, table(9), table(9)), "x.csv", "a\n1\n").parent,
        {},
        r"mixes parquet \(one.*csv \(x\.csv\)",
    ),
    "one class only": (
        lambda f: parquet(f, table_with_targets("u")),
        {},
        r"target 'y' has one class only, 'u', in training rows, and no usable row of the whole source has another; exp",
    ),
    "integers that float64 rounds": (
        lambda f: parquet(f, table_with_targets(2**53, 2**53 + 1)),
        {},
        r"target 'y' holds integers beyond 2\^53: as classes, some would become one\. Write them as text",
    ),
    "a constant number": (
        lambda f: parquet(f, table_with_targets(1)),
        {},
        r"target 'y' is constant: 1 in all 100 training rows",
    ),
    "a constant target of a regression": (
        lambda f: parquet(f, table_with_targets(0.5)),
        {"task": "regression"},
        r"target 'y' is constant: 0.5 in all 100 training rows",
    ),
    "one class only in training rows": (
        lambda f: parquet(f, table_with_targets(0, 1).append_column("split", pa.array(["train", "test"] * 50))),
        {"split_column": "split"},
        r"target 'y' has one class only, 0, in training rows; test rows have others; expected two or more\. Divide",
    ),
    "three classes for a binary task": (
        lambda f: parquet(f, table_with_targets(1, 2, 5)),
        {"task": "binary"},
        r"holds 3 classes \(1, 2, 5\).*Use --task multiclass",
    ),
    "too many classes": (
        lambda f: parquet(f, replaced(table(2500), "y", np.arange(2500) / 2)),
        {"task": "multiclass"},
        r"more than 1000 clas",
    ),
    "too many classes for a binary task": (  # multiclass would also be refused
        lambda f: parquet(f, replaced(table(2500), "y", np.arange(2500) / 2)),
        {"task": "binary"},
        r"more than 1000 classes .*Use --task regression",
    ),
    "too many words": (
        lambda f: parquet(f, replaced(table(2500), "y", [str(i) for i in range(2500)])),
        {},
        r"more than 1000 different lab",
    ),
    "a column of lists": (
        lambda f: parquet(f, table(100, tags=[["x"]] * 100)),
        {},
        r"'tags' is of type list<.*leave it out \(--drop tags\) or copy it to the scores \(--key tags\)",
    ),
    "a column of dates": (
        lambda f: parquet(f, table(100, at=pa.array(range(100), pa.timestamp("us")))),
        {"dates": "error"},
        r"'at' holds dates \(timestamp\[us\]\)\. Use --dates parts .*, --dates drop .*--drop at",
    ),
    "a text target for regression": (
        lambda f: parquet(f, table_with_targets("u", "v")),
        {"task": "regression"},
        r"target 'y' is text, but regression takes numbers",
    ),
    "a target of dates": (
        lambda f: parquet(f, replaced(table(9), "y", pa.array(range(9), pa.date32()))),
        {},
        r"target 'y' is of type date32",
    ),
    "zero rows": (lambda f: parquet(f, table(0)), {}, r"source\.parquet holds no rows"),
    "zero rows in CSV": (lambda f: write_text(f, "s.csv", "a,y\n"), {}, r"s\.csv holds no rows"),
    "all rows dropped": (
        lambda f: parquet(f, replaced(table(9), "a", [None] * 9)),
        {"missing": "drop"},
        r"no training rows after rows with",
    ),
    "duplicate columns": (
        lambda f: parquet(f, table(9).rename_columns(["a", "b", "a", "d", "b", "y"])),
        {},
        r"one column is named 'a', 'b'",
    ),
    "duplicate columns in CSV": (lambda f: write_text(f, "s.csv", "a,a,y\n1,2,0\n"), {}, r"one column is named 'a'"),
    "only a target": (lambda f: parquet(f, table(9).select(["y"])), {}, r"has no input columns"),
    "a label of test rows only": (
        lambda f: parquet(f, table_with_split(3)),
        {},
        r"source\.parquet: target 'y' is 3 in test row 60 .*no training row has that",
    ),
    "a text label of test rows only": (
        lambda f: parquet(f, table_with_split("w")),
        {},
        r"source\.parquet: target 'y' is 'w' in test row 60",
    ),
    "a split of a third kind": (
        lambda f: parquet(f, table(9, split=["train"] * 8 + ["valid"])),
        {},
        r"column 'split' is 'valid' in row 8 ",
    ),
    "a missing split": (
        lambda f: parquet(f, table(9, split=["train"] * 8 + [None])),
        {},
        r"column 'split' is None in row 8 ",
    ),
    "a split of numbers": (
        lambda f: parquet(f, table(9)),
        {"split_column": "a"},
        r"split column 'a' is of type float; expected text",
    ),
    "a holdout column of other numbers": (
        lambda f: parquet(f, table(9, h=np.arange(9))),
        {"holdout": "h"},
        r"holdout column 'h' is 2 in row 2 ",
    ),
    "no training rows": (
        lambda f: parquet(f, table(9, split=["test"] * 9)),
        {},
        r"has no training rows; expected .*Hold out fewer",
    ),
    "ragged CSV": (
        lambda f: write_text(f, "s.csv", "a,y\n1,0\n1,2,3\n"),
        {},
        r"s\.csv, row 1 .*expected 2 values, got 3",
    ),
    "words in a CSV column of numbers": (
        lambda f: write_text(f, "s.csv", "a,y\n" + "1,0\n" * 700_000 + "oops,1\n"),
        {},
        r"'a', row 700000 .*expected a number, such as '1', but it holds 'oops'",
    ),
    "not svmlight": (
        lambda f: write_text(f, "s.svm", "hello world\n"),
        {},
        r"s\.svm, line 1, is not svmlight text: its label 'hello' is no",
    ),
    "a data set as a source": (
        lambda f: ingest(parquet(f, table(99)), f / "d", settings()).dataset.folder,
        {},
        r"is a data set already",
    ),
}
