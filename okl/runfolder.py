"""A folder that is complete or not there: written under another name beside its place, renamed at the end.

While it is written, its process holds the system's lock on it, which ends with the process, however it ends. So what a
killed run left can be told from what is being written, and the next run in the same parent folder removes it, unless it
holds a checkpoint: then it stays for a week, for whoever goes on with it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from pathlib import Path

from okl.errors import CheckpointError, ConfigError

UNFINISHED = re.compile(r"\.(.+)\.unfinished-[0-9a-f]{8}")
CHECKPOINT = "checkpoint"
KEPT_SECONDS = 7 * 86400


class RunFolder:
    """A folder to be: `open` it, write into `beside`, then `complete` it; `close` removes it if that did not happen.

    One that holds a checkpoint is not removed, so that another process can `reopen` it and go on.

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

    def reopen(self, beside: Path) -> None:
        """Go on with the folder that another process left; its name says which place it is to take.

        Raises
        ------
        CheckpointError : it is not there, or another process is at it; ConfigError : its place is taken
        """
        try:
            self._lock = _lock(beside)
        except BlockingIOError:
            raise CheckpointError(f"{beside} is being written by another process. Wait for its end.") from None
        except OSError as error:
            raise CheckpointError(f"{beside} cannot be gone on with: {error.strerror}.") from None
        self.beside, self.folder = beside, beside.with_name(name_of(beside))
        check_place(self.folder)

    @property
    def resumable(self) -> bool:
        """Whether it holds a checkpoint, and so stays."""
        return resumable(self.beside)

    def discard(self) -> None:
        """Have nothing stay: no other process can do better."""
        shutil.rmtree(self.beside / CHECKPOINT, ignore_errors=True)

    def complete(self) -> None:
        """Give the folder its name; from here on it stays, and needs no checkpoint."""
        try:
            self.beside.rename(self.folder)
        except OSError as error:
            raise _unwritable(self.folder, str(error.strerror)) from None
        shutil.rmtree(self.folder / CHECKPOINT, ignore_errors=True)
        self._made = []

    def close(self) -> None:
        """Remove the folder and the parents made for it, unless it is complete or resumable; twice is as once."""
        if not self.resumable:
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
    """Remove the unfinished folders of processes that are gone; one that is being written is locked, and stays.

    So does one with a checkpoint, for KEPT_SECONDS.
    """
    for folder in parent.iterdir():
        if UNFINISHED.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            try:
                lock = _lock(folder)
            except OSError:  # it is being written, it has just gone, or the file system has no locks to tell by
                continue
            if not any(time.time() - kept.stat().st_mtime < KEPT_SECONDS for kept in checkpoints_in(folder)):
                shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def resumable_in(parent: Path) -> list[Path]:
    """Unfinished folders that another process can go on with: they hold a checkpoint, and nobody writes them."""
    found = []
    for folder in sorted(parent.iterdir()) if parent.is_dir() else []:
        if resumable(folder):
            try:
                os.close(_lock(folder))
            except BlockingIOError:
                continue
            except OSError:  # no locks to tell by
                pass
            found.append(folder)
    return found


def resumable(folder: Path) -> bool:
    """Whether a folder is an unfinished one that holds a checkpoint."""
    return UNFINISHED.fullmatch(folder.name) is not None and bool(checkpoints_in(folder))


def checkpoints_in(folder: Path) -> list[Path]:
    """The complete checkpoints in an unfinished folder."""
    return list((folder / CHECKPOINT).glob("[!.]*"))


def sync(path: Path) -> None:
    """Have the system write down a file, or the names in a folder, so that they outlast a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_of(beside: Path) -> str:
    """The name that an unfinished folder is to take."""
    match = UNFINISHED.fullmatch(beside.name)
    return match[1] if match else beside.name


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
