"""Folders of an object store that are complete, or that no reader accepts: written here, then sent, what counts last.

An object store has no rename. So a folder is written on this machine, in okl's home, and sent when it is complete:
first an object `_unfinished`, which says whose the place is, then everything else, then the files that readers ask for
first (a manifest, a model's description, a result), and then `_unfinished` goes. What a killed process left can be told
by that object, and the next one who wants the place clears it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import secrets
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from okl.errors import ConfigError, DataError, PlaceError, PlaceTakenError
from okl.home import okl_home
from okl.runfolder import RunFolder, sync
from okl.runfolder import check_place as check_path
from okl.store.places import Place, RemotePath

COUNTING = ("manifest.json", "model.json", "result.json", "_scores.json")
UNFINISHED = "_unfinished"
LEFT_OUT = "checkpoint"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a limit of files is told as a disk that is full
PLACE_FAULTS = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)
UPLOADS = 2  # at a time: each holds a file of up to 100 MB in memory


class PublishedFolder:
    """A remote folder to be, with the face of a `RunFolder`: `open` it, write into `beside`, then `complete` it.

    Parameters
    ----------
    folder : the place that it takes when it is complete
    replaces : whether what is there goes, which otherwise is an error; until `complete` it stays as it is
    """

    def __init__(self, folder: RemotePath, replaces: bool = False) -> None:
        self.folder = folder
        self._replaces = replaces
        self._local = RunFolder(local_folder(folder))
        self._token = secrets.token_hex(8)
        self._claimed = self._complete = False

    @property
    def beside(self) -> Path:
        """Where it is written on this machine."""
        return self._local.beside

    @property
    def resumable(self) -> bool:
        """Whether what is on this machine holds a checkpoint, and so stays there."""
        return not self._complete and self._local.resumable

    def open(self) -> None:
        """Claim the place, which shows that it can be written to, and make the folder on this machine.

        Raises
        ------
        ConfigError : the place is taken; DataError : the store refuses
        """
        if not self._replaces:
            check_free(self.folder)
            self._claim()
        self._local.open()

    def reopen(self, beside: Path) -> None:
        """Go on with what another process left on this machine; see `RunFolder.reopen`."""
        check_free(self.folder)
        self._local.reopen(beside)
        self._claim()

    def discard(self) -> None:
        """Have nothing stay: no other process can do better."""
        self._local.discard()

    def complete(self) -> None:
        """Send everything; from here on it stays. Raises ConfigError if another process has claimed the place."""
        if self._replaces:
            for name in COUNTING:
                (self.folder / name).unlink()
            self._claim()
        self._check_claim()
        paths = sorted(path.relative_to(self.beside) for path in self.beside.rglob("*") if path.is_file())
        counting = [path for path in paths if path.name in COUNTING]
        with ThreadPoolExecutor(UPLOADS) as pool:
            list(pool.map(self._send, [path for path in paths if path not in counting]))
        for path in sorted(counting, key=lambda path: -len(path.parts)):
            self._send(path)
        (self.folder / UNFINISHED).unlink()
        self._complete = True
        if self._replaces:
            kept = {str(self.folder / str(path)) for path in paths}
            for old, _ in self.folder.files(below=True):
                if str(old) not in kept:
                    old.unlink()

    def close(self) -> None:
        """Remove what was sent of a folder that is not complete, and all of it on this machine; twice is as once."""
        if self._complete:
            self._local.discard()
        elif self._claimed:
            self._claimed = False
            with suppress(DataError, ConfigError):  # the failure that led here is told, and _unfinished stays
                self._check_claim()
                clear(self.folder)
        self._local.close()

    def _send(self, path: Path) -> None:
        if path.parts[0] != LEFT_OUT:
            (self.folder / path.as_posix()).put(self.beside / path)

    def _claim(self) -> None:
        (self.folder / UNFINISHED).write_text(self._token)
        self._claimed = True

    def _check_claim(self) -> None:
        if (self.folder / UNFINISHED).read_text() != self._token:
            raise PlaceTakenError(f"{self.folder} is being written by another process, too. Choose another place.")


def run_place(folder: Place) -> RunFolder | PublishedFolder:
    """The folder to be of a run, wherever it is to be."""
    return RunFolder(folder) if isinstance(folder, Path) else PublishedFolder(folder)


def local_folder(folder: Place) -> Path:
    """Where the folder of a run is written on this machine: at its place, or in okl's home if that is remote."""
    if isinstance(folder, Path):
        return folder
    return okl_home() / "sent" / f"{folder.name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def check_place(folder: Place) -> None:
    """Raise ConfigError if a result is there already, or if it can be known now that none can be made."""
    if isinstance(folder, Path):
        check_path(folder)
    elif folder.exists() and not is_leftover(folder):
        raise _taken(folder)


def is_leftover(folder: RemotePath) -> bool:
    """Whether a place holds what a process began to send, and did not finish."""
    return (folder / UNFINISHED).is_file()


def check_free(folder: RemotePath) -> None:
    """Clear what a killed process left at a place; raises ConfigError if something else is there."""
    if is_leftover(folder):
        clear(folder)
    elif folder.exists():
        raise _taken(folder)


def _taken(folder: RemotePath) -> PlaceTakenError:
    return PlaceTakenError(f"{folder} exists already, and okl never overwrites a result. Choose another --out.")


def clear(folder: RemotePath) -> None:
    """Remove everything at a place; what tells that it is not complete goes last."""
    for file, _ in folder.files(below=True):
        if file.name != UNFINISHED:
            file.unlink()
    (folder / UNFINISHED).unlink()


@contextmanager
def file_beside(place: Place) -> Iterator[Path]:
    """A file of this machine to write, which takes its place at the end, or goes."""
    if isinstance(place, Path):
        # processes of several hosts, with numbers of their own, may write here
        beside = place.with_name(f".{place.name}.{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            yield beside
            os.replace(beside, place)
        finally:
            beside.unlink(missing_ok=True)
        return
    with tempfile.TemporaryDirectory(prefix="okl-") as folder:
        yield Path(folder) / place.name
        place.put(Path(folder) / place.name)


def write_whole(place: Place, content: str | bytes) -> None:
    """Make or replace a file, whole or not at all, so that it outlasts a loss of power.

    Raises
    ------
    PlaceError : it cannot be written; what was there before still is
    """
    try:
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
        with file_beside(place) as beside:
            beside.write_bytes(content.encode() if isinstance(content, str) else content)
            sync(beside)
    except OSError as error:
        raise unwritable(place, error) from None


def unwritable(place: Place, error: OSError) -> PlaceError:
    """The sentence for what this machine's system refused."""
    remedy = "Make room there" if error.errno in FULL else "Give permission there, or choose another place"
    return PlaceError(f"{place} cannot be written: {error.strerror}. {remedy}, then again.")
