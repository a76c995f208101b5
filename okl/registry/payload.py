"""The files of a version: written under a name that nobody else has, complete before the log names it.

So a reader never meets a part of a version. What a killed writer leaves is named by no entry; pruning removes it.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from okl.errors import DataError, RegistryError
from okl.registry.exclusive import unwritable
from okl.runfolder import RunFolder, sync
from okl.store.digests import file_digest
from okl.store.model import load_model
from okl.store.places import Place, RemotePath
from okl.store.publishing import PLACE_FAULTS, UPLOADS, local_folder
from okl.store.verified import file_sha256

Write = Callable[[Path], object]
MODEL = "model"
NAMED = re.compile(r"[0-9]{8,}-[0-9a-f]{12}")
ADVICE = "Bring the file back from a backup, or use another version: okl models rollback, okl models promote."


class Payload:
    """A version's files to be: `write` them, then have the log name `folder`, or `remove` them.

    Parameters
    ----------
    versions : folder of all versions of a model
    begun : number of the newest entry when it was begun; by it pruning tells what has long been left behind
    """

    def __init__(self, versions: Place, begun: int) -> None:
        self.begun = begun
        self.folder = versions / f"{begun:08}-{secrets.token_hex(6)}"

    def write(self, write: Write) -> dict[str, dict[str, Any]]:
        """Have files written, and bring them to their place for good; bytes and sha256 of each, by path.

        Parameters
        ----------
        write : puts files into the empty folder that it is given, a model under `model`

        Raises
        ------
        ModelError : no model was written that loads; RegistryError : no room, no permission; DataError : from a store
        """
        try:
            if isinstance(self.folder, RemotePath):
                return self._send(self.folder, write)
            self.folder.mkdir(parents=True)
            return _written(self.folder, write)
        except OSError as error:
            if error.errno not in PLACE_FAULTS:
                raise
            raise unwritable(self.folder, error) from None

    def remove(self) -> None:
        """Remove the files; what cannot be removed now is left to pruning."""
        with suppress(OSError, DataError):
            remove_version(self.folder)

    def _send(self, folder: RemotePath, write: Write) -> dict[str, dict[str, Any]]:
        here = RunFolder(local_folder(folder))
        try:
            here.open()
            files = _written(here.beside, write)
            with ThreadPoolExecutor(UPLOADS) as pool:
                list(pool.map(lambda path: (folder / path).put(here.beside / path), files))
        finally:
            here.discard()
            here.close()
        return files


def remove_version(folder: Place) -> None:
    """Remove the files of a version; none is fine."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for file, _ in folder.files(below=True):
        file.unlink()


def verify_files(folder: Place, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Read all files of a version and hold them against what the log says.

    Raises
    ------
    RegistryError : one is missing or has changed, by name
    """
    for path, known in files.items():
        place = folder / path
        try:
            digest = file_digest(place)
        except OSError as error:
            raise RegistryError(f"{place} cannot be read ({error.strerror}). {ADVICE}") from None
        except DataError as error:
            raise RegistryError(f"{error} {ADVICE}") from None
        if digest != known["sha256"]:
            raise RegistryError(f"{place} is damaged: it has not the sha256 that the log states. {ADVICE}")


def _written(folder: Path, write: Write) -> dict[str, dict[str, Any]]:
    write(folder)
    load_model(folder / MODEL)
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in found:
        sync(path)
    for parent in sorted({folder.parent, folder, *(path.parent for path in found)}):
        sync(parent)
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in found
    }
