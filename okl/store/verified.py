"""Shards whose bytes this process has held against their digests: once a file, before its first row is read.

A file is known by its device, its number there, its size and the time of its last change, so that one that is renamed
with its folder stays known, and one that is written again does not. SHA-256 takes about a second for a gigabyte and a
core; the bytes come from the disk once, as the reading that follows finds them in the system's memory.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from threading import Lock

from okl.errors import DataError

_lock = Lock()
_verified: dict[tuple[int, int, int, int], str] = {}
_locks: dict[str, Lock] = {}


def verify_file(path: Path, sha256: str) -> None:
    """Read a file and compare its digest, unless this process has, or has written it.

    Raises
    ------
    DataError : the bytes are others, by name; OSError : it cannot be read
    """
    if _verified.get(_state(path)) == sha256:
        return
    with _lock:
        waiting = _locks.setdefault(str(path), Lock())
    with waiting:  # threads that come to one shard at once hash it once
        state = _state(path)
        if _verified.get(state) == sha256:
            return
        if file_sha256(path) != sha256:
            raise changed(path)
        _verified[state] = sha256
    with _lock:
        _locks.pop(str(path), None)


def written(path: Path) -> str:
    """SHA-256 of a file that this process has just written, which is thereby verified."""
    state, digest = _state(path), file_sha256(path)
    _verified[state] = digest
    return digest


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's contents, hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def changed(place: object) -> DataError:
    """What is said of a shard whose bytes are not what they were."""
    return DataError(
        f"{place} is damaged, or has changed since it was ingested: its SHA-256 is not that of manifest.json. "
        "Ingest the source again."
    )


def _state(path: Path) -> tuple[int, int, int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
