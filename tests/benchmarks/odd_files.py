"""Compare how okl, pandas and DuckDB read odd files: `python -m tests.benchmarks.odd_files`.

Prints a row for each file of `tests.data.odd_files`: "equal" to the expected columns, "refused", or what was read
instead. DuckDB is compared if it can be imported; okl does not depend on it.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from tests.data.odd_files import FILES
from tests.data.test_odd_files import table_of

WIDTH = 60


def with_pandas(path: Path) -> Mapping[Any, Any]:
    if path.name.endswith(".parquet"):
        return pd.read_parquet(path).to_dict("list")
    if "json" in path.name:
        return pd.read_json(path, lines=True).to_dict("list")
    return pd.read_csv(path, sep=None, engine="python").to_dict("list")


def with_duckdb(path: Path) -> Mapping[str, Any]:
    kind = "parquet" if path.name.endswith(".parquet") else "json" if "json" in path.name else "csv"
    sample = "" if kind == "parquet" else ", sample_size=-1"  # types are inferred from the whole file, as in okl
    read: Mapping[str, Any] = (
        import_module("duckdb").sql(f"FROM read_{kind}('{path}'{sample})").to_arrow_table().to_pydict()
    )
    return read


def with_okl(path: Path) -> Mapping[str, Any]:
    return table_of(path)[0]


def plain(value: Any) -> Any:
    """Return a value in one spelling of missing values, whole numbers and days."""
    if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, datetime):
        return value.date() if value.time() == time() else datetime.fromisoformat(value.isoformat())
    return float(value) if isinstance(value, int | Decimal) and not isinstance(value, bool | date) else value


def outcome(
    read: Callable[[Path], Mapping[Any, Any]], path: Path, expected: Mapping[str, Any] | str
) -> tuple[str, str]:
    """Return the kind of the outcome, and a text about it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            columns = read(path)
    except Exception as error:
        shown = str(error).replace(f"{path.parent}/", "").splitlines() or [type(error).__name__]
        return ("refused" if isinstance(expected, str) else "refused, should be read"), shown[0]
    if isinstance(expected, str):
        return "read, should be refused", str(columns)
    is_equal = {*columns} == {*expected} and all(
        [*map(plain, columns[name])] == [*map(plain, values)] for name, values in expected.items()
    )
    return ("equal", "") if is_equal else ("other values", str(columns))


def main() -> None:
    readers: dict[str, Callable[[Path], Mapping[Any, Any]]] = {"okl": with_okl, "pandas": with_pandas}
    try:
        import_module("duckdb")
        readers["DuckDB"] = with_duckdb
    except ImportError:
        print("DuckDB cannot be imported here; it is left out.")
    counts: dict[str, Counter[str]] = {name: Counter() for name in readers}
    with tempfile.TemporaryDirectory() as folder:
        for name, (content, expected, _) in FILES.items():
            path = Path(folder) / name
            path.write_bytes(content)
            print(name)
            for reader, read in readers.items():
                kind, shown = outcome(read, path, expected)
                counts[reader][kind] += 1
                print(f"    {reader:8}{kind:26}{shown[:WIDTH]}")
    for reader, total in counts.items():
        print(f"{reader:8}" + ", ".join(f"{count} {kind}" for kind, count in total.most_common()))


if __name__ == "__main__":
    main()
