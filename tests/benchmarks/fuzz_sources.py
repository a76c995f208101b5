"""Sources for fuzzing ingest: tables of all types that Arrow has, CSV of odd words, svmlight text of odd numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tests.benchmarks.fuzz_bytes import damaged

Rng = np.random.Generator
NAMES = (
    "a",
    "b",
    "c",
    "x.y",
    "x",
    "",
    " ",
    "ü",
    "split",
    "h",
    "a=1",
    'q"t',
    "line\nend",
    "f0",
    "y ",
    "Y",
    "n" * 300,
    "a,b",
    "\x00",
)
WORDS = (
    "", "NA", "nan", "null", "inf", "-inf", "1e400", "-1e-400", "0x1f", "1_000", "1,5", "TRUE", "false", " 3", "3 ",
    "-0", "\x00", "é", "𝄞", "٣", "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01 12:00:00.123456789", "0001-01-01",
    "12:30", "9223372036854775808", "1" * 400, "'", '"', '"a\nb"', '"a""b"', "#N/A", "3.5e38", "train",
    "test", "x" * 5000,
)  # fmt: skip
PAIRS = (
    "1:", ":1", "0:1", "2147483648:1", "9223372036854775807:1", "99999999999999999999:1", "-1:2", "3:nan", "3:inf",
    "1.5:2", "3:1e400", "qid:3", "#", "# 1:2", "3:1 3:2", "9:1 2:1", "x:y", "4097:1", "1:1:1", "\x00",
    "\ufeff", "5000:1", "1 :2",
)  # fmt: skip
CODECS = ("utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32-le", "shift_jis")


class Made(NamedTuple):
    """A source: what to ingest, its columns as far as known, its rows if nothing was damaged, and what it is."""

    path: Path
    columns: tuple[str, ...]
    rows: int | None
    told: str


def make_source(rng: Rng, folder: Path) -> Made:
    """Write a source of one file, sometimes two of the same kind, into the folder; about half of them damaged."""
    kind = str(rng.choice(["parquet", "csv", "svmlight"], p=[0.5, 0.3, 0.2]))
    ending = {"parquet": "parquet", "csv": "csv", "svmlight": str(rng.choice(["svm", "txt"]))}[kind]
    shape, rows, columns = _shape(rng), 0, tuple[str, ...]()
    files = 2 if rng.random() < 0.1 else 1
    harmed = False
    for number in range(files):
        again = np.random.default_rng(shape) if rng.random() < 0.8 else rng
        path = folder / f"s{number}.{ending}"
        made, columns = {"parquet": _parquet, "csv": _csv, "svmlight": _svmlight}[kind](again, path)
        rows += made
        if rng.random() < 0.4:
            content = path.read_bytes()
            changed = damaged(content, rng, 600 if kind == "parquet" else 0)
            path.write_bytes(changed)
            harmed |= changed != content
    known = rows if rows > 0 and not harmed and kind == "parquet" else None
    return Made(path if files == 1 else folder, columns, known, f"{kind}{' damaged' if harmed else ''}")


def _shape(rng: Rng) -> int:
    return int(rng.integers(2**31))


def _rows(rng: Rng) -> int:
    return int(rng.choice([0, 1, 2, 3, 10, 60, 300, 3000], p=[0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.25, 0.05]))


def _columns(rng: Rng) -> list[str]:
    usual = [f"c{i}" for i in range(int(rng.integers(1, 6)))]
    odd = [str(rng.choice(NAMES)) for _ in range(int(rng.integers(0, 3)))] if rng.random() < 0.4 else []
    names = [*usual, *odd, "y"]
    if rng.random() < 0.97:
        names = list(dict.fromkeys(names))
    rng.shuffle(names)
    return names


def _parquet(rng: Rng, path: Path) -> tuple[int, tuple[str, ...]]:
    rows, names = _rows(rng), _columns(rng)
    arrays = [_target(rng, rows) if name == "y" else _array(rng, rows, name) for name in names]
    table = pa.Table.from_arrays(arrays, names=names)
    options: dict[str, Any] = {
        "compression": str(rng.choice(["none", "snappy", "zstd", "gzip", "lz4", "brotli"])),
        "row_group_size": int(rng.choice([1, 7, 100, 10_000])) if rows < 400 else 1000,
        "use_dictionary": bool(rng.random() < 0.5),
        "data_page_version": str(rng.choice(["1.0", "2.0"])),
        "version": str(rng.choice(["1.0", "2.4", "2.6"])),
        "write_page_checksum": bool(rng.random() < 0.2),
        "store_schema": bool(rng.random() < 0.7),
    }
    try:
        pq.write_table(table, path, **options)
    except (pa.ArrowException, OSError, ValueError):  # a type that Parquet, or its older version, does not have
        kept = [
            i for i, one in enumerate(arrays) if pa.types.is_primitive(one.type) and not pa.types.is_float16(one.type)
        ]
        table = table.select(kept) if kept else pa.table({"y": pa.array(np.arange(rows) % 2)})
        pq.write_table(table, path)
    return rows, tuple(table.column_names)


def _target(rng: Rng, rows: int) -> Any:
    classes = rng.integers(0, int(rng.choice([1, 2, 2, 2, 3, 12])), rows)
    kind = rng.choice(["whole", "text", "float", "bool", "measured", "dictionary", "any", "decimal", "nulls"])
    if kind == "text":
        return pa.array([f"k{i}" for i in classes], pa.string())
    if kind == "dictionary":
        return pa.array([f"k{i}" for i in classes], pa.string()).dictionary_encode()
    if kind == "measured":
        return pa.array(rng.standard_normal(rows) * 10.0 ** rng.integers(-40, 160))
    if kind == "any":
        return _array(rng, rows, "y")
    whole = pa.array(classes)
    if kind == "nulls":
        return pa.array(classes.tolist(), mask=rng.random(rows) < 0.1)
    return whole.cast(
        {"float": pa.float32(), "bool": pa.bool_(), "decimal": pa.decimal128(30, 2)}.get(str(kind), pa.int64()),
        safe=False,
    )


def _array(rng: Rng, rows: int, name: str) -> Any:
    if name == "split":
        return pa.array(rng.choice(["train", "test"], rows).tolist(), pa.string())
    if name == "h":
        return pa.array(rng.integers(0, 2, rows))
    kinds = list(MAKERS)
    usual = rng.random() < 0.6
    made = MAKERS["float" if usual else str(rng.choice(kinds))](rng, rows)
    if rng.random() < 0.15 and rows and not pa.types.is_null(made.type):
        mask = pa.array(rng.random(rows) < 0.1)
        try:
            made = pa.compute.if_else(mask, pa.scalar(None, made.type), made)
        except pa.ArrowException:
            return made
    return made


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
    most = 2**63 // (1000 if "[s" in str(kind) else 1) - 1  # Parquet holds no seconds: they become milliseconds
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


def _csv(rng: Rng, path: Path) -> tuple[int, tuple[str, ...]]:
    rows, names = _rows(rng), _columns(rng)
    if rng.random() < 0.3:
        columns = [MAKERS[str(rng.choice(["float", "whole", "text", "times"]))](rng, rows) for _ in names]
        table = pa.Table.from_arrays(
            [pa.array(rng.integers(0, 2, rows)) if n == "y" else c for n, c in zip(names, columns, strict=True)],
            names=names,
        )
        try:
            pacsv.write_csv(table, path)
            return rows, tuple(names)
        except pa.ArrowException:
            pass
    comma, end = (
        str(rng.choice(few, p=p))
        for few, p in (((",", ";", "\t"), (0.9, 0.05, 0.05)), (("\n", "\r\n", "\r"), (0.7, 0.2, 0.1)))
    )
    odd = rng.random() * float(rng.choice([0.0, 0.0, 0.02, 0.3]))
    cells = rng.normal(size=(rows, len(names))).round(3).astype(str).astype(object)
    where = rng.random(cells.shape) < odd
    words = WORDS if rng.random() < 0.4 else [word for word in WORDS if comma not in word and '"' not in word]
    cells[where] = rng.choice(np.array(words, dtype=object), int(where.sum()))
    cells[:, names.index("y")] = rng.choice(["0", "1"] if rng.random() < 0.7 else ["yes", "no", "1"], rows)
    lines = [comma.join(row) for row in [names, *cells.tolist()]]
    if rng.random() < 0.05 and rows:
        lines[int(rng.integers(1, rows + 1))] += comma + "7"
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    if rng.random() < 0.05:
        text = text.replace(end, "\r\n", rows // 2)
    codec = "utf-8" if rng.random() < 0.9 else str(rng.choice(CODECS))
    path.write_bytes(text.encode(codec, errors="replace"))
    return rows, tuple(names)


def _svmlight(rng: Rng, path: Path) -> tuple[int, tuple[str, ...]]:
    rows, width = _rows(rng), int(rng.choice([1, 3, 8, 200]))
    first, odd = int(rng.integers(2)), float(rng.choice([0.0, 0.0, 0.01, 0.2]))
    lines = []
    for _ in range(rows):
        indices = np.sort(rng.choice(width, int(rng.integers(0, min(width, 5) + 1)), replace=False)) + first
        parts = [
            str(rng.choice(["1", "-1", "+1", "2"], p=[0.45, 0.45, 0.09, 0.01])),
            *(f"{i}:{rng.normal():.4g}" for i in indices),
        ]
        if rng.random() < odd:
            parts.insert(int(rng.integers(len(parts) + 1)), str(rng.choice(PAIRS)))
        lines.append(" ".join(parts))
    end = str(rng.choice(["\n", "\r\n", "\n\n"], p=[0.8, 0.1, 0.1]))
    path.write_bytes((end.join(lines) + end).encode("utf-8", errors="replace"))
    return rows, (*(f"f{i}" for i in range(width)), "y")
