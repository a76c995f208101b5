"""Small real data sets, from the repository and from scikit-learn, written as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris

COVTYPE = Path(__file__).parents[2] / "data" / "covtype" / "part-00000.parquet"
COVTYPE_ROWS = 1500
DATA_SETS = ("cancer", "iris", "digits", "diabetes", "covtype", "types", "mixed")


def _table(X: NDArray[Any], y: NDArray[Any]) -> pa.Table:
    order = np.random.default_rng(0).permutation(len(y))
    columns = {f"x{number}": X[order, number].astype(np.float64) for number in range(X.shape[1])}
    return pa.table(columns | {"y": y[order]})


def make_table(name: str) -> pa.Table:
    """Return the rows of a data set with target y; those of scikit-learn in a seeded order."""
    if name == "cancer":
        return _table(*load_breast_cancer(return_X_y=True))
    if name == "iris":
        return _table(*load_iris(return_X_y=True))
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return _table(X[:600], y[:600])
    if name == "diabetes":
        return _table(*load_diabetes(return_X_y=True))
    if name == "mixed":
        return _mixed()
    names = pq.read_schema(COVTYPE).names
    rows = next(pq.ParquetFile(COVTYPE).iter_batches(COVTYPE_ROWS))
    table = pa.Table.from_batches([rows]).select([one for one in names if not one.startswith("_") and one != "split"])
    y = np.asarray(table.column("y").to_numpy())
    labels = y.astype(np.int64) if name == "types" else (y == y[0]).astype(np.int64)
    return table.drop_columns(["y"]).append_column("y", pa.array(labels))


def _mixed() -> pa.Table:
    """Return breast cancer rows with a text column, a date column and missing numbers."""
    table = make_table("cancer").select(["x0", "x1", "x2", "x3", "y"])
    first, second = table.column("x0").to_numpy(), table.column("x1").to_numpy()
    texts = np.array(["small", "middle", "large", "huge"])[np.digitize(first, [12, 15, 20])]
    days = np.datetime64("2020-01-01") + (second * 20).astype(int)
    third = pa.array(
        [None if number % 17 == 0 else value for number, value in enumerate(table.column("x2").to_numpy())]
    )
    position = table.schema.get_field_index("x2")
    return (
        table.set_column(position, "x2", third)
        .append_column("size", pa.array(texts))
        .append_column("day", pa.array(days))
    )
