"""The folder of a reproduction, which grows item by item, and which a later run takes up where this one stopped."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from okl.errors import ConfigError
from okl.home import okl_home

MARK = "reproduction.json"
ITEMS = "items"


def new_folder(table: str) -> Path:
    """A place in okl's home folder that no run has taken."""
    return okl_home() / "runs" / f"{table}-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"


def check_place(folder: Path, table: str) -> None:
    """Raise ConfigError unless the folder is not there yet, or holds a reproduction of the same table."""
    if not os.path.lexists(folder):
        nearest = next(parent for parent in folder.absolute().parents if parent.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise ConfigError(f"{folder} cannot be made: {nearest} is no folder to write in. Choose another --out.")
        return
    try:
        found = json.loads((folder / MARK).read_text(encoding="utf-8"))["table"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{folder} exists already, and holds no reproduction. Choose another --out.") from None
    if found != table:
        raise ConfigError(f"{folder} holds a reproduction of {found}, not of {table}. Choose another --out.")


class Place:
    """The folder: `open` it, work, then `close` it; what is done stays, and a folder without anything goes.

    Parameters
    ----------
    folder : new, or of an earlier run of the same table
    table : its name
    """

    def __init__(self, folder: Path, table: str) -> None:
        self.folder = folder.absolute()
        self.table = table
        self._lock: int | None = None
        self._made: list[Path] = []

    @property
    def items(self) -> Path:
        """Folder of the outcomes."""
        return self.folder / ITEMS

    def open(self) -> None:
        """Make the folder if need be and lock it for this process, or raise ConfigError if another one works in it."""
        check_place(self.folder, self.table)
        self._made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self.items.mkdir(parents=True, exist_ok=True)
            mark = self.folder / MARK
            if not mark.exists():
                mark.write_text(json.dumps({"table": self.table}), encoding="utf-8")
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written to ({error.strerror}). Choose another --out.") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._made = []
            raise ConfigError(
                f"{self.folder}: another run works there now. Wait for it, or use another --out."
            ) from None
        except OSError:  # a file system without locks
            return
        for left in self.items.glob(".*.partial"):  # by a run that was killed
            left.unlink(missing_ok=True)

    def close(self) -> None:
        """Unlock the folder; remove it, and parents made for it, if no item was done. A second call does nothing."""
        if self._made and not any(self.items.glob("*.json")):
            shutil.rmtree(self.folder, ignore_errors=True)
            for parent in self._made[1:]:
                with suppress(OSError):
                    parent.rmdir()
        self._made = []
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
