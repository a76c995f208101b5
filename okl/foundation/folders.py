"""Folders that are published atomically: written under a temporary name, then renamed or uploaded."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import platform
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from okl.foundation.errors import CheckpointError, ConfigError, DataError, LocationError, LocationTakenError
from okl.foundation.locations import Place, RemotePath, make_folders, okl_home, private_umask

# Local folders, published by renaming.
#
# While a folder is written, its process holds a file lock on it, which ends with the process in any case. An unlocked
# unfinished folder is therefore left by a killed run: the next run in the same parent folder removes it, unless it
# contains a checkpoint: then it remains for a week, to be resumed.

UNFINISHED_RUN = re.compile(r"\.(.+)\.unfinished-[0-9a-f]{8}")
CHECKPOINT = "checkpoint"
DIGITS = 6  # of the number in the name of a checkpoint
NAMED = "named"  # file in an unfinished folder: when its name was last shown
DAY_SECONDS = 86_400.0
KEPT_SECONDS = 7 * 86400


class RunFolder:
    """A new folder: `open` it, write into `staging`, then `complete` it; `close` removes an incomplete one.

    A folder with a checkpoint is not removed, so that another process can `reopen` it and resume.

    folder : its final path
    replaces : whether to replace an existing folder, which is an error otherwise; the old one remains until `complete`
    """

    def __init__(self, folder: Path, replaces: bool = False) -> None:
        self.folder = folder.absolute()
        self._replaces = replaces
        self.staging = _unfinished(self.folder)
        self._lock: int | None = None
        self._made: list[Path] = []

    def open(self) -> None:
        """Make the folder next to its final path, remove those of killed runs there; ConfigError or OSError."""
        if not self._replaces:
            check_run_folder(self.folder)
        self._made = [parent for parent in self.folder.parents if not parent.exists()]
        with self._refused():
            self.staging, self._lock = make_unfinished(self.folder)
        remove_leftovers(self.folder.parent)

    def reopen(self, temporary_path: Path) -> None:
        """Resume another process's folder by its name; CheckpointError or ConfigError if that cannot be."""
        try:
            self._lock = lock_folder(temporary_path)
        except BlockingIOError:
            raise CheckpointError(
                f"{temporary_path} is being written by another process. Wait until it ends."
            ) from None
        except OSError as error:
            raise CheckpointError(f"{temporary_path} cannot be resumed: {error.strerror}.") from None
        self.staging, self.folder = temporary_path, temporary_path.with_name(name_of(temporary_path))
        check_run_folder(self.folder)

    @property
    def resumable(self) -> bool:
        return resumable(self.staging)

    def discard(self) -> None:
        """Discard the checkpoint: another process would fail, too."""
        shutil.rmtree(self.staging / CHECKPOINT, ignore_errors=True)

    def complete(self) -> None:
        """Rename the folder to its final path and remove its checkpoint.

        Raises LocationTakenError : another process has renamed its folder to that path at the same time; what would not
            have replaced it is kept under the next free name
        """
        old = self.folder.with_name(f"{self.folder.name}.replaced-{secrets.token_hex(4)}")
        with self._refused():
            if self._replaces and self.folder.exists():
                self.folder.rename(old)
            try:
                self.staging.rename(self.folder)
            except BaseException as error:
                if isinstance(error, OSError) and error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    shutil.rmtree(old, ignore_errors=True)
                    then = "Try again." if self._replaces else f"What this one wrote is in {self._keep()}."
                    raise LocationTakenError(
                        f"{self.folder} was written by another process at the same time, whose files remain. {then}"
                    ) from None
                if old.exists():
                    old.rename(self.folder)
                raise
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(self.folder / CHECKPOINT, ignore_errors=True)
        self._made = []

    def _keep(self) -> Path:
        """Rename the folder to the first free one of NAME-2, NAME-3, ..., and return that."""
        number = 2
        while (kept := self.folder.with_name(f"{self.folder.name}-{number}")).exists():
            number += 1
        self.staging.rename(kept)
        shutil.rmtree(kept / CHECKPOINT, ignore_errors=True)
        return kept

    @contextmanager
    def _refused(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._replaces:
                raise
            raise _unwritable(self.folder, str(error.strerror)) from None

    def close(self) -> None:
        """Remove the folder and the parents made for it, unless it is complete or resumable; idempotent."""
        if not self.resumable:
            shutil.rmtree(self.staging, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        with suppress(OSError):  # another process has used or removed it
            for parent in self._made:
                parent.rmdir()
        self._made = []


def make_unfinished(folder: Path) -> tuple[Path, int | None]:
    """Make an unfinished folder next to its final path and lock it; None if the file system has no locks.

    Close the lock when the folder is renamed or removed: until then no other process removes it.
    """
    while True:
        temporary_path = _unfinished(folder)
        make_folders(temporary_path.parent)
        temporary_path.mkdir(0o777 & ~private_umask())
        try:
            lock = lock_folder(temporary_path)
        except (BlockingIOError, FileNotFoundError):  # another run removed it before it was locked
            continue
        except OSError:  # no locks: no process removes unfinished folders
            return temporary_path, None
        except BaseException:  # an interrupt, before the caller knows the folder
            temporary_path.rmdir()
            raise
        if temporary_path.exists():  # names are unique, so the lock is of this folder
            return temporary_path, lock
        os.close(lock)


def check_run_folder(folder: Path) -> None:
    """Raise ConfigError if a folder exists, or certainly cannot be made."""
    if os.path.lexists(folder):
        raise ConfigError(f"{folder} exists already, and okl never overwrites a result. Choose another --out.")
    nearest = next(parent for parent in folder.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise _unwritable(folder, f"{nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _unwritable(folder, f"no permission to write in {nearest}")


def remove_leftovers(parent: Path) -> None:
    """Remove the unfinished folders of ended processes; keep locked ones, and those with a checkpoint for a week."""
    for folder in parent.iterdir():
        if UNFINISHED_RUN.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            try:
                lock = lock_folder(folder)
            except OSError:  # locked, just removed, or a file system without locks
                continue
            if all(time.time() - checkpoint.stat().st_mtime >= KEPT_SECONDS for checkpoint in checkpoints_in(folder)):
                shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def resumable_in(parent: Path) -> list[Path]:
    """Return unfinished folders that can be resumed: with a checkpoint, and locked by no process."""
    folders = []
    for folder in sorted(parent.iterdir()) if parent.is_dir() else []:
        if resumable(folder):
            try:
                os.close(lock_folder(folder))
            except BlockingIOError:
                continue
            except OSError:  # no locks to check
                pass
            folders.append(folder)
    return folders


def not_named_today(parent: Path) -> list[Path]:
    """Return unfinished folders that can be resumed and were not returned in the last day, and record that."""
    marks = {folder: folder / NAMED for folder in resumable_in(parent)}
    now, due = time.time(), list[Path]()
    for folder, mark in marks.items():
        with suppress(OSError):  # removed just now, or a full disk
            if not mark.exists() or now - mark.stat().st_mtime >= DAY_SECONDS:
                mark.touch()
                due.append(folder)
    return due


def resumable(folder: Path) -> bool:
    """Return whether a folder is unfinished and has a checkpoint."""
    return UNFINISHED_RUN.fullmatch(folder.name) is not None and bool(checkpoints_in(folder))


def checkpoints_in(folder: Path) -> list[Path]:
    """Return the complete checkpoints in an unfinished folder: `NAME-000007`."""
    return [path for path in (folder / CHECKPOINT).glob(f"[!.]*-{'[0-9]' * DIGITS}") if path.is_dir()]


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_of(temporary_path: Path) -> str:
    """Return the final name of an unfinished folder."""
    match = UNFINISHED_RUN.fullmatch(temporary_path.name)
    return match[1] if match else temporary_path.name


def _unfinished(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.unfinished-{secrets.token_hex(4)}")


def lock_folder(folder: Path) -> int:
    """Lock a folder for this process and return the descriptor that holds the lock, or raise OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _unwritable(folder: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{folder} cannot be created: {why}. Choose another --out, or set OKL_HOME for runs without --out."
    )


# Remote folders, published by uploading the manifest last.
#
# An object store has no rename. So a folder is written in okl's home and uploaded when it is complete: first an object
# `_unfinished` with the token of its writer, then all files, last those that readers open first (a manifest, a model's
# description, a result); then `_unfinished` is removed. The upload of a killed process still has that object, and the
# next writer clears it.

COUNTING = ("manifest.json", "model.json", "result.json", "_scores.json")
UNFINISHED = "_unfinished"
LEFT_OUT = "checkpoint"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # EFBIG: a limit of file sizes
PLACE_FAULTS = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)
UPLOADS = 2  # at a time: each holds a file of up to 100 MB in memory


class PublishedFolder:
    """A new remote folder, with the interface of a `RunFolder`: `open` it, write into `staging`, then `complete` it.

    folder : its URL
    replaces : whether to replace existing files, which is an error otherwise; they remain until `complete`
    """

    def __init__(self, folder: RemotePath, replaces: bool = False) -> None:
        self.folder = folder
        self._replaces = replaces
        self._local = RunFolder(local_folder(folder))
        self._token = secrets.token_hex(8)
        self._claimed = self._complete = False

    @property
    def staging(self) -> Path:
        return self._local.staging

    @property
    def resumable(self) -> bool:
        return not self._complete and self._local.resumable

    def open(self) -> None:
        """Claim the URL and make the local folder; ConfigError if it is in use, DataError if it cannot be written."""
        if not self._replaces:
            check_free(self.folder)
            self._claim()
        self._local.open()

    def reopen(self, temporary_path: Path) -> None:
        """Resume the local folder of another process; see `RunFolder.reopen`."""
        check_free(self.folder)
        self._local.reopen(temporary_path)
        self._claim()

    def discard(self) -> None:
        self._local.discard()

    def complete(self) -> None:
        """Upload all files; raise ConfigError if another process has claimed the URL."""
        if self._replaces:
            for name in COUNTING:
                (self.folder / name).unlink()
            self._claim()
        self._check_claim()
        paths = sorted(path.relative_to(self.staging) for path in self.staging.rglob("*") if path.is_file())
        counting = [path for path in paths if path.name in COUNTING]
        with ThreadPoolExecutor(UPLOADS) as pool:
            list(pool.map(self._send, [path for path in paths if path not in counting]))
        for path in sorted(counting, key=lambda path: -len(path.parts)):
            self._send(path)
        (self.folder / UNFINISHED).unlink()
        self._complete = True
        if self._replaces:
            written = {str(self.folder / str(path)) for path in paths}
            for old, _ in self.folder.files(below=True):
                if str(old) not in written:
                    old.unlink()

    def close(self) -> None:
        """Remove the uploaded files of an incomplete folder, and the local folder; idempotent."""
        if self._complete:
            self._local.discard()
        elif self._claimed:
            self._claimed = False
            with suppress(DataError, ConfigError):  # the first failure is raised, and _unfinished remains
                self._check_claim()
                clear(self.folder)
        self._local.close()

    def _send(self, path: Path) -> None:
        if path.parts[0] != LEFT_OUT:
            (self.folder / path.as_posix()).put(self.staging / path)

    def _claim(self) -> None:
        (self.folder / UNFINISHED).write_text(self._token)
        self._claimed = True

    def _check_claim(self) -> None:
        if (self.folder / UNFINISHED).read_text() != self._token:
            raise LocationTakenError(f"{self.folder} is being written by another process. Choose another folder.")


def output_folder(folder: Place, replaces: bool = False) -> RunFolder | PublishedFolder:
    """Return the local or remote folder of a run, not yet opened."""
    return RunFolder(folder, replaces) if isinstance(folder, Path) else PublishedFolder(folder, replaces)


def local_folder(folder: Place) -> Path:
    """Return the local folder of a run: the folder itself, or one in okl's home for a remote folder."""
    if isinstance(folder, Path):
        return folder
    return okl_home() / "sent" / f"{folder.name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def check_published(folder: Place) -> None:
    """Raise ConfigError if a result exists, or certainly cannot be made."""
    if isinstance(folder, Path):
        check_run_folder(folder)
    elif folder.exists() and not is_leftover(folder):
        raise LocationTakenError(f"{folder} exists already, and okl never overwrites a result. Choose another --out.")


def is_leftover(folder: Place) -> bool:
    """Return whether a location is a URL with an incomplete upload."""
    return not isinstance(folder, Path) and (folder / UNFINISHED).is_file()


def check_free(folder: RemotePath) -> None:
    """Remove an incomplete upload; raise ConfigError if the URL has other content."""
    check_published(folder)
    if is_leftover(folder):
        clear(folder)


def clear(folder: RemotePath) -> None:
    """Remove all files below a URL, `_unfinished` last."""
    for file, _ in folder.files(below=True):
        if file.name != UNFINISHED:
            file.unlink()
    (folder / UNFINISHED).unlink()


@contextmanager
def atomic_file(location: Place, replaces: bool = True) -> Iterator[Path]:
    """Yield a local file, renamed or uploaded at the end; LocationTakenError for a local one unless it replaces."""
    if isinstance(location, Path):
        # processes of several hosts, with equal process ids, may write here
        name = f".{location.name}.{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
        temporary_path = location.with_name(name)
        try:
            yield temporary_path
            (os.replace if replaces else _name_once)(temporary_path, location)
        except OSError as error:
            if error.errno in FULL:  # which no read fails with
                raise unwritable(location, error) from None
            raise
        finally:
            temporary_path.unlink(missing_ok=True)
        return
    with tempfile.TemporaryDirectory(prefix="okl-") as folder:
        yield Path(folder) / location.name
        location.put(Path(folder) / location.name)


def _name_once(temporary_path: Path, location: Path) -> None:
    """Give a file its name, unless another process has taken it: then raise LocationTakenError."""
    try:
        os.link(temporary_path, location)
    except FileExistsError:
        raise LocationTakenError(
            f"Another command has written {location} meanwhile, and it is not overwritten. Choose another name."
        ) from None
    except OSError:  # a file system without hard links
        os.replace(temporary_path, location)


TEMPORARY = re.compile(r"\..+\.(?P<host>[^/]*)-(?P<pid>\d+)-[0-9a-f]{8}\.tmp")  # see `atomic_file`


def remove_temporary_files(folder: Path) -> None:
    """Remove the files that killed processes of this host were writing in a folder; see `atomic_file`."""
    import psutil  # type: ignore[import-untyped]  # no stubs

    for path in folder.glob(".*.tmp"):
        match = TEMPORARY.fullmatch(path.name)
        if match and match["host"] == platform.node() and not psutil.pid_exists(int(match["pid"])):
            path.unlink(missing_ok=True)


def write_durably(location: Place, content: str | bytes) -> None:
    """Write a file atomically and flush it to the disk; LocationError leaves an existing file unchanged."""
    try:
        if isinstance(location, Path):
            make_folders(location.parent)
        with atomic_file(location) as temporary_path:
            temporary_path.write_bytes(content.encode() if isinstance(content, str) else content)
            sync(temporary_path)
    except OSError as error:
        raise unwritable(location, error) from None


def unwritable(location: Place, error: OSError) -> LocationError:
    """Return the error for a failure of the local file system."""
    remedy = "Free disk space" if error.errno in FULL else "Check its permissions, or choose another location"
    why = os.strerror(error.errno) if error.errno else error.strerror  # Arrow's text names its own functions
    return LocationError(f"{location} cannot be written: {why}. {remedy}, then try again.")
