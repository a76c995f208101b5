"""Independent pieces of work, each with a file for what came of it: what is done is never done again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from okl.errors import ConfigError
from okl.reproduction.folder import Folder

Outcome = dict[str, Any]
"""What came of an item, as JSON; "error" is the metric, None if the learner diverged."""


class Item(Protocol):
    """A frozen, picklable piece of work that depends on no other one."""

    @property
    def name(self) -> str:
        """Readable, and different from that of every other item of its table."""
        ...

    @property
    def dataset(self) -> str:
        """The data set it reads, "" for none."""
        ...

    @property
    def rows(self) -> int:
        """Rows that it learns."""
        ...

    @property
    def cost(self) -> float:
        """About how long it takes, in any unit: the longest begin first."""
        ...

    def describe(self) -> dict[str, Any]:
        """All that decides the outcome, but for the data and the code, as JSON."""
        ...

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Do the work; check raises if nobody wants the outcome any more, and is called every second or so."""
        ...


class Stopped(Exception):  # noqa: N818  (no error: nobody wants the outcome any more)
    """The run was stopped while the item was worked on."""


class Stop:
    """Tells the threads of this process to stop; in another process nobody can, and it ends with its process."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def __reduce__(self) -> tuple[type[Stop], tuple[()]]:
        return Stop, ()

    def ask(self) -> None:
        """From now on `check` raises."""
        self._asked.set()

    def check(self) -> None:
        """Raise Stopped if that was asked for."""
        if self._asked.is_set():
            raise Stopped


@dataclass(frozen=True)
class Archive:
    """Outcomes as files of a folder, named by the item and a digest of all that decides them.

    place : folder of the files; data : where items read; code : digest of the sources that decide outcomes
    """

    place: str
    data: Folder
    code: str

    def path(self, item: Item) -> Path:
        """The file of an item: another one if its settings, its data or the code change."""
        described = json.dumps([item.name, item.describe(), self.code, self.data.digest(item.dataset)], sort_keys=True)
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        return Path(self.place) / f"{re.sub(r'[^A-Za-z0-9.+=-]+', '_', item.name)}.{digest}.json"

    def read(self, item: Item) -> Outcome | None:
        """The outcome of an item that is done, else None."""
        try:
            outcome: Outcome = json.loads(self.path(item).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.path(item)} cannot be read ({error}). Remove it, and run again.") from None
        return outcome

    def write(self, item: Item, outcome: Outcome) -> None:
        """Keep an outcome: the file is whole or not there."""
        path = self.path(item)
        beside = path.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            beside.write_text(json.dumps(outcome, allow_nan=False), encoding="utf-8")
            os.replace(beside, path)
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()


@dataclass(frozen=True)
class Work:
    """Works on an item wherever it is called, and keeps the outcome before it hands it out."""

    archive: Archive
    stop: Stop = field(default_factory=Stop)

    def __call__(self, item: Item) -> Outcome:
        """The outcome of an item."""
        self.stop.check()
        outcome = item.run(self.archive.data, self.stop.check)
        self.archive.write(item, outcome)
        return outcome


@cache
def code_digest(parts: tuple[str, ...]) -> str:
    """A digest of the sources of some modules and packages of okl, by their names below it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in parts:
        path = root / part.replace(".", "/")
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            digest.update(source.relative_to(root).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()
