"""Unusual files in an inbox, for tests of retraining and the simulation of its nights."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv

from tests.lifecycle.shards import content, land

GOOD = "given.parquet"  # a valid shard in the inbox


def cut(inbox: Path, seed: int) -> None:
    """Write the first half of a Parquet file."""
    whole = land(inbox, f"cut-{seed}.parquet", content(seed)).read_bytes()
    (inbox / f"cut-{seed}.parquet").write_bytes(whole[: len(whole) // 2])


def cut_gzip(inbox: Path, seed: int) -> None:
    """Write the first half of a compressed CSV file."""
    packed = gzip.compress(csv_of(seed))
    (inbox / f"cut-{seed}.csv.gz").write_bytes(packed[: len(packed) // 2])


def csv_of(seed: int) -> bytes:
    sink = pyarrow.BufferOutputStream()
    pyarrow.csv.write_csv(content(seed), sink)
    return bytes(sink.getvalue())


def same_bytes(inbox: Path, seed: int) -> None:
    """Copy a shard to another name."""
    shutil.copy(inbox / GOOD, inbox / f"copy-{seed}.parquet")


def folder(inbox: Path, seed: int) -> None:
    """Create a folder with the name of a file."""
    (inbox / f"folder-{seed}.parquet").mkdir()


def pipe(inbox: Path, seed: int) -> None:
    """Create a named pipe without a writer: opening it would block forever."""
    os.mkfifo(inbox / f"pipe-{seed}.csv")


def loop(inbox: Path, seed: int) -> None:
    """Create a link to itself, and a folder that contains itself."""
    (inbox / f"loop-{seed}.parquet").symlink_to(f"loop-{seed}.parquet")
    (inbox / f"around-{seed}").symlink_to(".")


def dangling(inbox: Path, seed: int) -> None:
    """Create a link to a missing file."""
    (inbox / f"dangling-{seed}.parquet").symlink_to("nothing")


def device(inbox: Path, seed: int) -> None:
    """Create a link to a device with endless content."""
    (inbox / f"device-{seed}.csv").symlink_to("/dev/zero")


def names(inbox: Path, seed: int) -> None:
    """Write valid shards with spaces, quotes, line ends, markup, other scripts and invalid UTF-8 in their names."""
    odd = (
        b"a b",
        b"'\"`",
        b"new\nline",
        b"<b>x&amp;",
        "木é".encode(),
        b"\xff\xfe",
        b"up..%2f..",
        b"-rf",
        b"$(id)",
        b"a|b",
    )
    for number, name in enumerate(odd):
        land(inbox, "made.parquet", content(100 * seed + number))
        os.rename(inbox / "made.parquet", os.path.join(os.fsencode(inbox), b"%s-%d.parquet" % (name, seed)))


def long_name(inbox: Path, seed: int) -> None:
    """Write a shard with the longest name that a file system allows."""
    land(inbox, f"-{seed}.parquet".rjust(255, "n"), content(seed))


def empty(inbox: Path, seed: int) -> None:
    """Write an empty file."""
    for suffix in ("parquet", "csv", "csv.gz", "jsonl", "svm"):
        (inbox / f"empty-{seed}.{suffix}").touch()


def wide(inbox: Path, seed: int, columns: int = 1_000_000) -> None:
    """Write a file of a million columns."""
    header = ",".join(f"c{number}" for number in range(columns))
    (inbox / f"wide-{seed}.csv").write_text(f"{header}\n" + ",".join(["1"] * columns) + "\n")


def bomb(inbox: Path, seed: int, megabytes: int = 10_000) -> None:
    """Write a compressed file that expands a thousandfold."""
    with gzip.open(inbox / f"bomb-{seed}.csv.gz", "wb", 1) as stream:
        stream.write(b"x0,x1,x2,x3,hour,y\n")
        for _ in range(megabytes):
            stream.write(b"0" * 2**20)


def rows_bomb(inbox: Path, seed: int, megabytes: int = 2_000) -> None:
    """Write a compressed file of equal rows that expands to gigabytes."""
    with gzip.open(inbox / f"rows-{seed}.csv.gz", "wb", 1) as stream:
        stream.write(b"x0,x1,x2,x3,hour,y\n")
        for _ in range(megabytes):
            stream.write(b"0,50,0,0,1,1\n" * (2**20 // 13))


def tiny(inbox: Path, seed: int, files: int = 10_000) -> None:
    """Write files of one row each."""
    for number in range(files):
        (inbox / f"tiny-{seed}-{number:05}.csv").write_text(f"x0,x1,x2,x3,hour,y\n{number},50,0,0,{seed},1\n")


def binary(inbox: Path, seed: int) -> None:
    """Write random bytes under the names of all formats."""
    for suffix in ("parquet", "csv", "csv.gz", "jsonl", "svm"):
        (inbox / f"binary-{seed}.{suffix}").write_bytes(os.urandom(5_000))


def other(inbox: Path, seed: int) -> None:
    """Write a file whose format does not match its name."""
    (inbox / f"other-{seed}.parquet").write_bytes(csv_of(seed))


QUICK: dict[str, Callable[[Path, int], None]] = {
    make.__name__: make
    for make in (
        cut,
        cut_gzip,
        same_bytes,
        folder,
        pipe,
        loop,
        dangling,
        device,
        names,
        long_name,
        empty,
        binary,
        other,
    )
}
COSTLY: dict[str, Callable[[Path, int], None]] = {make.__name__: make for make in (wide, bomb, rows_bomb, tiny)}
