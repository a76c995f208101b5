"""Where data, models and runs are kept: paths of this machine, and URLs of object stores.

A path of this machine stays a `pathlib.Path`, so that it costs nothing and a rename stays atomic. A URL is a
`RemotePath`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from okl.errors import ConfigError
from okl.store.filesystems import check_url, file_system
from okl.store.trying import explained, persistently, without_secrets

Answer = TypeVar("Answer")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
LOCAL = ("file://", "local://")


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of an object store; a string to the eye and to pickle, without credentials.

    Parameters
    ----------
    url : such as s3://bucket/folder, without a slash at its end

    Raises
    ------
    ConfigError : the URL carries a user, a password or a token, or is of a kind that nobody here knows;
    DataError : from every method, when the store does not do what it is asked, after trying again where that may help
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the name, with its dot."""
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """What it lies in."""
        return RemotePath(self.url.rpartition("/")[0])

    def absolute(self) -> RemotePath:
        """Itself: every URL is."""
        return self

    def exists(self) -> bool:
        """Whether a file or a folder with files is there."""
        return self.info() is not None

    def is_file(self) -> bool:
        """Whether a file is there."""
        return (self.info() or {}).get("type") == "file"

    def is_dir(self) -> bool:
        """Whether a folder with files is there."""
        return (self.info() or {}).get("type") == "directory"

    def info(self) -> dict[str, Any] | None:
        """What the store tells of a file or folder: type, size and more; None if nothing is there."""
        return self._ask(lambda fs, path: _told(fs, path), "cannot be looked at")

    def files(self, below: bool = False) -> list[tuple[RemotePath, int]]:
        """Files in a folder with their bytes, by name; below: of its folders, too. None where there is no folder."""

        def found(fs: Any, path: str) -> list[tuple[str, int]]:
            fs.invalidate_cache()
            try:
                entries = fs.find(path, detail=True).values() if below else fs.ls(path, detail=True)
            except FileNotFoundError:
                return []
            kept = [entry for entry in entries if entry["type"] == "file"]
            return sorted((entry["name"].removeprefix(path), int(entry["size"] or 0)) for entry in kept)

        return [(RemotePath(self.url + rest), size) for rest, size in self._ask(found, "cannot be listed")]

    def matches(self) -> list[RemotePath]:
        """Files whose names the URL matches as a glob, by name."""
        fixed = re.split(r"[*?\[]", self.url)[0]

        def found(fs: Any, path: str) -> list[str]:
            fs.invalidate_cache()
            entries = fs.glob(path, detail=True).values()
            before = re.split(r"[*?\[]", path)[0]
            return sorted(entry["name"].removeprefix(before) for entry in entries if entry["type"] == "file")

        return [RemotePath(fixed + rest) for rest in self._ask(found, "cannot be listed")]

    def read_bytes(self) -> bytes:
        """Everything in a file."""
        content: bytes = self._ask(lambda fs, path: fs.cat_file(path), "cannot be read")
        return content

    def read_range(self, start: int, stop: int) -> bytes:
        """Bytes start to stop of a file, all of them: fewer count as a failure that may pass."""

        def read(fs: Any, path: str) -> bytes:
            content: bytes = fs.cat_file(path, start=start, end=stop)
            if len(content) != stop - start:
                raise ConnectionError(f"{len(content)} bytes came instead of {stop - start}")
            return content

        return self._ask(read, "cannot be read")

    def write_bytes(self, content: bytes | bytearray) -> None:
        """Make a file, whole or not at all; one that is there is replaced."""
        self._ask(lambda fs, path: fs.pipe_file(path, bytes(content)), "cannot be written")

    def read_text(self, encoding: str = "utf-8") -> str:
        """Everything in a file, as text."""
        return self.read_bytes().decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Make a file from text; see `write_bytes`."""
        self.write_bytes(text.encode(encoding))

    def put(self, file: Path) -> None:
        """Make a file from one of this machine, whole or not at all."""
        self._ask(lambda fs, path: fs.put_file(str(file), path), "cannot be written")

    def unlink(self) -> None:
        """Remove a file; one that is not there is fine."""

        def remove(fs: Any, path: str) -> None:
            try:
                fs.rm_file(path)
            except FileNotFoundError:
                return

        self._ask(remove, "cannot be removed")

    def _ask(self, call: Callable[[Any, str], Answer], failing: str) -> Answer:
        """Call something with the file system and the path in its words, again and again where that may help."""
        fs, path = file_system(self.url)
        return persistently(lambda: call(fs, path), f"{self.url} {failing}")


Place = Path | RemotePath


def place_of(location: str | os.PathLike[str]) -> Place:
    """A path of this machine, or what a URL names; raises ConfigError for a URL that okl must not or cannot use."""
    if isinstance(location, RemotePath | Path):
        return location
    text = os.fspath(location)
    if not URL.match(text):
        return Path(text)
    if text.startswith(LOCAL):
        return Path(text.partition("://")[2])
    check_url(text)
    return RemotePath(text.rstrip("/"))


def absolute_location(location: str) -> str:
    """A path of this machine from its root, or a URL as it is: what a process in another folder can use."""
    place = place_of(location)
    return os.path.abspath(place) if isinstance(place, Path) else str(place)


def local_location(option: str, location: str) -> str:
    """A path of this machine from its root; raises ConfigError for a URL, which this option does not take."""
    if URL.match(location):
        raise ConfigError(f"{option} {without_secrets(location)} is a URL, but it takes a folder of this machine.")
    return os.path.abspath(location)


def size_of(place: Place) -> int:
    """Bytes of a file; raises OSError for a path, DataError for a URL where none is."""
    if isinstance(place, Path):
        return place.stat().st_size
    info = place.info()
    if info is None:
        raise explained(FileNotFoundError(), f"{place} cannot be read")
    return int(info["size"] or 0)


def _told(fs: Any, path: str) -> dict[str, Any] | None:
    fs.invalidate_cache()  # what others have written since counts
    try:
        told: dict[str, Any] = fs.info(path)
    except FileNotFoundError:
        return None
    return told
