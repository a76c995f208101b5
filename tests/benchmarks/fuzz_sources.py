"""Sources for fuzzing ingest: tables of all Arrow types, CSV with odd words, svmlight text with odd numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from okl.data.ingest.csv import PACKED
from tests.benchmarks.fuzz_bytes import damaged
from tests.benchmarks.fuzz_columns import MAKERS, WORDS, Rng, any_column, target_column

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
PAIRS = (
    "1:", ":1", "0:1", "2147483648:1", "9223372036854775807:1", "99999999999999999999:1", "-1:2", "3:nan", "3:inf",
    "1.5:2", "3:1e400", "qid:3", "#", "# 1:2", "3:1 3:2", "9:1 2:1", "x:y", "4097:1", "1:1:1", "\x00",
    "\ufeff", "5000:1", "1 :2",
)  # fmt: skip
CODECS = ("utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32-le", "shift_jis")


class Source(NamedTuple):
    """A source: its path, its known columns, its number of rows if not damaged, and a description."""

    path: Path
    columns: tuple[str, ...]
    rows: int | None
    description: str


def make_source(rng: Rng, folder: Path) -> Source:
    """Write a source of one file, sometimes two of the same kind, into the folder; about half of them damaged."""
    kind = str(rng.choice(["parquet", "csv", "svmlight"], p=[0.5, 0.3, 0.2]))
    ending = {"parquet": "parquet", "csv": "csv", "svmlight": str(rng.choice(["svm", "txt"]))}[kind]
    shape, rows, columns = _shape(rng), 0, tuple[str, ...]()
    files = 2 if rng.random() < 0.1 else 1
    packing = str(rng.choice([*PACKED])) if kind != "parquet" and rng.random() < 0.3 else ""
    is_damaged = False
    for number in range(files):
        again = np.random.default_rng(shape) if rng.random() < 0.8 else rng
        path = folder / f"s{number}.{ending}"
        n_made, columns = {"parquet": _parquet, "csv": _csv, "svmlight": _svmlight}[kind](again, path)
        rows += n_made
        if packing:
            path = _packed(path, packing)
        if rng.random() < 0.4:
            content = path.read_bytes()
            changed = damaged(content, rng, 600 if kind == "parquet" else 0)
            path.write_bytes(changed)
            is_damaged |= changed != content
    n_rows = rows if rows > 0 and not is_damaged and kind == "parquet" else None
    return Source(path if files == 1 else folder, columns, n_rows, f"{kind}{' damaged' if is_damaged else ''}")


def _packed(path: Path, ending: str) -> Path:
    """Compress the file according to an additional ending; return its new path."""
    packed = path.with_name(path.name + ending)
    with pa.output_stream(str(packed)) as stream:
        stream.write(path.read_bytes())
    path.unlink()
    return packed


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
    arrays = [target_column(rng, rows) if name == "y" else any_column(rng, rows, name) for name in names]
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
    except (pa.ArrowException, OSError, ValueError):  # a type that this version of Parquet does not have
        writable = [
            i
            for i, array in enumerate(arrays)
            if pa.types.is_primitive(array.type) and not pa.types.is_float16(array.type)
        ]
        table = table.select(writable) if writable else pa.table({"y": pa.array(np.arange(rows) % 2)})
        pq.write_table(table, path)
    return rows, tuple(table.column_names)


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
        str(rng.choice(choices, p=p))
        for choices, p in (((",", ";", "\t"), (0.8, 0.15, 0.05)), (("\n", "\r\n", "\r"), (0.7, 0.2, 0.1)))
    )
    odd = rng.random() * float(rng.choice([0.0, 0.0, 0.02, 0.3]))
    cells = rng.normal(size=(rows, len(names))).round(3).astype(str).astype(object)
    if comma == ";" and rows and rng.random() < 0.7:
        cells = np.char.replace(cells.astype(str), ".", ",").astype(object)
    is_odd = rng.random(cells.shape) < odd
    words = WORDS if rng.random() < 0.4 else [word for word in WORDS if comma not in word and '"' not in word]
    cells[is_odd] = rng.choice(np.array(words, dtype=object), int(is_odd.sum()))
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
