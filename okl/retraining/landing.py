"""Where files arrive: what is there, by name, and which of them need not be read again to know what they are."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from okl.errors import ConfigError, DataError
from okl.store.digests import file_digest
from okl.store.listing import kind_by_name
from okl.store.places import Place, RemotePath, place_of

SETTLED_NANOSECONDS = 2 * 10**9
STAMPS = ("ETag", "etag", "content_md5", "md5Hash", "generation", "mtime", "LastModified", "last_modified")


@dataclass(frozen=True)
class Arrival:
    """A file where files arrive.

    name : relative to the folder, or to the fixed part of a glob; stamp : changes with the content, "" if nobody can
        say; age_seconds : since it was changed, None where the store does not say
    """

    name: str
    place: Place
    size_bytes: int
    stamp: str
    age_seconds: float | None = None


def arrivals(source: str, settle_seconds: float = 0.0) -> tuple[list[Arrival], list[Arrival]]:
    """Data files of a folder and of its folders, or what a glob matches, by name.

    Returns
    -------
    those that are settled, and those that were changed within settle_seconds: they may still be written

    Raises
    ------
    ConfigError : a folder of this machine that is not there; DataError : a store that does not answer
    """
    place = place_of(source)
    found = _remote(place) if isinstance(place, RemotePath) else _local(place.absolute())
    kept = sorted((one for one in found if _is_data(one)), key=lambda one: one.name)
    fresh = [one for one in kept if one.age_seconds is not None and abs(one.age_seconds) < settle_seconds]
    names = {one.name for one in fresh}
    return [one for one in kept if one.name not in names], fresh


def _is_data(arrival: Arrival) -> bool:
    parts = arrival.name.split("/")
    return kind_by_name(parts[-1]) is not None and not any(part[:1] in "._" for part in parts)


def _local(path: Path) -> Iterable[Arrival]:
    if path.is_dir():
        root, files = path, [one for one in path.rglob("*") if one.is_file()]
    elif path.is_file():
        root, files = path.parent, [path]
    elif has_magic(str(path)):
        root = Path(re.split(r"[*?\[]", str(path))[0].rpartition("/")[0] or "/")
        files = [Path(name) for name in glob(str(path), recursive=True) if Path(name).is_file()]
    else:
        raise ConfigError(f"{path} does not exist; expected the folder where files arrive, a file or a glob. Make it.")
    now = time.time_ns()
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:  # gone meanwhile
            continue
        settled = now - status.st_mtime_ns > SETTLED_NANOSECONDS
        stamp = f"{status.st_mtime_ns}-{status.st_ino}" if settled else ""
        name = file.relative_to(root).as_posix()
        yield Arrival(name, file, status.st_size, stamp, (now - status.st_mtime_ns) / 1e9)


def _remote(place: RemotePath) -> Iterable[Arrival]:
    if has_magic(str(place)):
        root = re.split(r"[*?\[]", str(place))[0].rpartition("/")[0]
        files = [(file, int((file.info() or {}).get("size") or 0)) for file in place.matches()]
    elif place.is_file():
        root, files = str(place.parent), [(place, int((place.info() or {}).get("size") or 0))]
    else:
        root, files = str(place), place.files(below=True)
    for file, size in files:
        told: dict[str, Any] = file.info() or {}
        stamp = next((str(told[key]) for key in STAMPS if told.get(key)), "")
        yield Arrival(str(file).removeprefix(root).lstrip("/"), file, size, stamp)


def content_sha256(place: Place) -> str:
    """SHA-256 of a file's bytes, hexadecimal.

    Raises
    ------
    DataError : it cannot be read
    """
    try:
        return file_digest(place)
    except OSError as error:
        raise DataError(
            f"{place} cannot be read: {error.strerror}. Give permission, or take it away; if it is gone, run again."
        ) from None


@dataclass(eq=False)
class Seen:
    """Digests of files by name, size and stamp, so that a file is hashed once; only a saving: lost, it is made anew."""

    entries: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str) -> Seen:
        """As it was stored; empty where that is damaged."""
        try:
            entries = json.loads(text)
            sound = all(len(entry) == 3 and len(entry[2]) == 64 for entry in entries.values())
        except (ValueError, AttributeError, TypeError):
            return cls()
        return cls(entries if sound else {})

    def text(self) -> str:
        """To be stored."""
        return json.dumps(self.entries, indent=0)

    def sha256(self, arrival: Arrival) -> str:
        """Of a file's bytes, read unless name, size and stamp are those of before; see `content_sha256`."""
        entry = self.entries.get(arrival.name)
        if arrival.stamp and entry is not None and entry[:2] == [arrival.size_bytes, arrival.stamp]:
            return str(entry[2])
        digest = content_sha256(arrival.place)
        if arrival.stamp:
            self.entries[arrival.name] = [arrival.size_bytes, arrival.stamp, digest]
        return digest

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget files that are gone."""
        wanted = set(names)
        self.entries = {name: entry for name, entry in self.entries.items() if name in wanted}
