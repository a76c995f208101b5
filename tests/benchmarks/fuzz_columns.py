"""Columns of every Arrow type, with odd values, for the tables of fuzzing ingest."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

Rng = np.random.Generator
WORDS = (
    "", "NA", "nan", "null", "inf", "-inf", "1e400", "-1e-400", "0x1f", "1_000", "1,5", "TRUE", "false", " 3", "3 ",
    "-0", "\x00", "é", "𝄞", "٣", "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 12:00:00.123456789", "0001-01-01",
    "12:30", "9223372036854775808", "1" * 400, "'", '"', '"a\nb"', '"a""b"', "#N/A", "3.5e38", "train",
    "test", "x" * 5000,
)  # fmt: skip


def target_column(rng: Rng, rows: int) -> Any:
    classes = rng.integers(0, int(rng.choice([1, 2, 2, 2, 3, 12])), rows)
    kind = rng.choice(["whole", "text", "float", "bool", "measured", "dictionary", "any", "decimal", "nulls"])
    if kind == "text":
        return pa.array([f"k{i}" for i in classes], pa.string())
    if kind == "dictionary":
        return pa.array([f"k{i}" for i in classes], pa.string()).dictionary_encode()
    if kind == "measured":
        return pa.array(rng.standard_normal(rows) * 10.0 ** rng.integers(-40, 160))
    if kind == "any":
        return any_column(rng, rows, "y")
    whole = pa.array(classes)
    if kind == "nulls":
        return pa.array(classes.tolist(), mask=rng.random(rows) < 0.1)
    return whole.cast(
        {"float": pa.float32(), "bool": pa.bool_(), "decimal": pa.decimal128(30, 2)}.get(str(kind), pa.int64()),
        safe=False,
    )


def any_column(rng: Rng, rows: int, name: str) -> Any:
    if name == "split":
        return pa.array(rng.choice(["train", "test"], rows).tolist(), pa.string())
    if name == "h":
        return pa.array(rng.integers(0, 2, rows))
    kinds = list(MAKERS)
    usual = rng.random() < 0.6
    column = MAKERS["float" if usual else str(rng.choice(kinds))](rng, rows)
    if rng.random() < 0.15 and rows and not pa.types.is_null(column.type):
        mask = pa.array(rng.random(rows) < 0.1)
        try:
            column = pa.compute.if_else(mask, pa.scalar(None, column.type), column)
        except pa.ArrowException:
            return column
    return column


def _floats(rng: Rng, rows: int) -> Any:
    values = rng.standard_normal(rows) * 10.0 ** float(rng.choice([0, 0, 0, 3, -30, 30, 36]))
    if rows and rng.random() < 0.1:
        values[rng.integers(rows)] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 5e-324, -0.0, 3.4028236e38])
    with np.errstate(over="ignore"):
        return pa.array(values.astype(str(rng.choice(["float16", "float32", "float64"]))))


def _whole(rng: Rng, rows: int) -> Any:
    kind = np.dtype(str(rng.choice(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])))
    info = np.iinfo(kind)
    return pa.array(rng.integers(info.min, info.max, rows, dtype=kind, endpoint=True))


def _text(rng: Rng, rows: int) -> Any:
    kind = [pa.string(), pa.large_string(), pa.string_view()][int(rng.integers(3))]
    words = [WORDS[i] for i in rng.integers(0, len(WORDS), 6)] if rng.random() < 0.4 else [f"w{i}" for i in range(5)]
    return pa.array([words[i] for i in rng.integers(0, len(words), rows)], pa.string()).cast(kind)


def _dictionary(rng: Rng, rows: int) -> Any:
    values: list[Any] = [
        pa.array(["u", "v", "u", "", None]),
        pa.array([1, 2, 3, 4, 5]),
        pa.array([0.5, 1.5, 1.5, None, 1e300]),
    ]
    indices = pa.array(rng.integers(0, 5, rows), [pa.int8(), pa.int32(), pa.uint16()][int(rng.integers(3))])
    return pa.DictionaryArray.from_arrays(indices, values[int(rng.integers(3))])


def _times(rng: Rng, rows: int) -> Any:
    kinds = [pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "Europe/Berlin", "+05:30")]
    kinds += [pa.date32(), pa.date64()]
    kind = kinds[int(rng.integers(len(kinds)))]
    wide = rng.random() < 0.2
    if pa.types.is_date32(kind):
        return pa.array(
            rng.integers(-(2**31), 2**31 - 1, rows) if wide else rng.integers(0, 20_000, rows), pa.int32()
        ).cast(kind)
    most = 2**63 // (1000 if "[s" in str(kind) else 1) - 1  # Parquet has no seconds: they become milliseconds
    values = rng.integers(-most, most, rows) if wide else rng.integers(0, 2_000_000_000, rows)
    if pa.types.is_date64(kind):
        values = values // 86_400_000 * 86_400_000
    return pa.array(values).cast(kind)


def _odd(rng: Rng, rows: int) -> Any:
    numbers = rng.integers(0, 1000, rows)
    makers: list[Callable[[], Any]] = [
        lambda: pa.array([Decimal(int(n)) / 8 for n in numbers], pa.decimal128(30, 3)),
        lambda: pa.array([Decimal(10) ** 20 + int(n) for n in numbers], pa.decimal256(76, 2)),
        lambda: pa.array([[int(n)] * (int(n) % 3) for n in numbers], pa.list_(pa.int64())),
        lambda: pa.array(
            [{"p": int(n), "q": str(n)} for n in numbers], pa.struct([("p", pa.int64()), ("q", pa.string())])
        ),
        lambda: pa.array([[("k", int(n))] for n in numbers], pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([b"\xff%d" % n for n in numbers], pa.binary()),
        lambda: pa.array([b"0123456789abcdef" for _ in numbers], pa.binary(16)),
        lambda: pa.nulls(rows),
        lambda: pa.array(numbers).cast(pa.duration("s")),
        lambda: pa.array(numbers, pa.time64("us")),
        lambda: pa.array(numbers.astype(np.int32), pa.time32("s")),
        lambda: pa.array([True, False] * rows)[:rows],
        lambda: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"] * rows, pa.binary(16))),
        lambda: pa.ExtensionArray.from_storage(
            pa.json_(), pa.array([json.dumps(int(n)) for n in numbers], pa.string())
        ),
        lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array(numbers % 2, pa.int8())),
        lambda: pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [2]), pa.array([[0.5, 1.5]] * rows, pa.list_(pa.float32(), 2))
        ),
        lambda: pa.array([[1.0, 2.0]] * rows, pa.list_(pa.float64(), 2)),
    ]
    return makers[int(rng.integers(len(makers)))]()


MAKERS: dict[str, Callable[[Rng, int], Any]] = {
    "float": _floats, "whole": _whole, "text": _text, "dictionary": _dictionary, "times": _times, "odd": _odd,
}  # fmt: skip
