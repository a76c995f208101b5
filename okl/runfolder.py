"""A folder that is complete or not there: written under another name beside its place, renamed at the end.

While it is written, its process holds the system's lock on it, which ends with the process, however it ends. So what a
killed run left can be told from what is being written, and the next run in the same parent folder removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from pathlib import Path

from okl.errors import ConfigError

UNFINISHED = re.compile(r"\..+\.unfinished-[0-9a-f]{8}")


class RunFolder:
    """A folder to be: `open` it, write into `beside`, then `complete` it; `close` removes it if that did not happen.

    Parameters
    ----------
    folder : the place that it takes when it is complete
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.beside = _unfinished(self.folder)
        self._lock: int | None = None
        self._made: list[Path] = []

    def open(self) -> None:
        """Make the folder beside its place, and remove what killed runs left there.

        Raises
        ------
        ConfigError : the place is taken, or cannot be written to
        """
        check_place(self.folder)
        self._made = [parent for parent in self.folder.parents if not parent.exists()]
        try:
            self.beside, self._lock = make_beside(self.folder)
        except OSError as error:
            raise _unwritable(self.folder, str(error.strerror)) from None
        remove_leftovers(self.folder.parent)

    def complete(self) -> None:
        """Give the folder its name; from here on it stays."""
        try:
            self.beside.rename(self.folder)
        except OSError as error:
            raise _unwritable(self.folder, str(error.strerror)) from None
        self._made = []

    def close(self) -> None:
        """Remove the folder and the parents made for it, unless it is complete; a second call does nothing."""
        shutil.rmtree(self.beside, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        for parent in self._made:
            try:
                parent.rmdir()
            except OSError:  # somebody else put something there, or took it away
                break
        self._made = []


def make_beside(folder: Path) -> tuple[Path, int | None]:
    """Make a folder beside a place, with the parents it needs, and lock it; None where a file system has no locks.

    Close the lock when the folder has its name, or is gone: until then no other process takes it for a leftover.
    """
    while True:
        beside = _unfinished(folder)
        beside.mkdir(parents=True)
        try:
            lock = _lock(beside)
        except (BlockingIOError, FileNotFoundError):  # another run took it for a leftover before it was locked
            continue
        except OSError:  # no locks: nobody will take it away, nor what a killed run leaves
            return beside, None
        if beside.exists():  # its name is used once only, so it is the one that is locked
            return beside, lock
        os.close(lock)


def check_place(folder: Path) -> None:
    """Raise ConfigError if a folder is there already, or if it can be known now that it cannot be made."""
    if os.path.lexists(folder):
        raise ConfigError(f"{folder} exists already, and okl never overwrites a result. Choose another --out.")
    nearest = next(parent for parent in folder.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise _unwritable(folder, f"{nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _unwritable(folder, f"no permission to write in {nearest}")


def remove_leftovers(parent: Path) -> None:
    """Remove the unfinished folders of processes that are gone; one that is being written is locked, and stays."""
    for folder in parent.iterdir():
        if UNFINISHED.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            try:
                lock = _lock(folder)
            except OSError:  # it is being written, it has just gone, or the file system has no locks to tell by
                continue
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _unfinished(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.unfinished-{secrets.token_hex(4)}")


def _lock(folder: Path) -> int:
    """Lock a folder for this process and return the descriptor that holds the lock, or raise OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _unwritable(folder: Path, why: str) -> ConfigError:
    return ConfigError(f"{folder} cannot be made: {why}. Choose another place: --out, or OKL_HOME for runs without it.")
