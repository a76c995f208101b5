"""Files that are made once, by one of many who try at once; what the registry's guarantees stand on.

On this machine the content is written and synced under another name and then linked to its own: linking fails where a
file is, and what it makes is whole. An object store is asked for a put that fails where an object is (S3:
If-None-Match; Google: ifGenerationMatch=0; Azure: If-None-Match). Contents are to be unlike, by a random token: so
whoever does not hear that it won, as the answer was lost, finds its own content there.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from okl.errors import RegistryError
from okl.runfolder import sync
from okl.store.filesystems import EXTRAS, file_system
from okl.store.places import Place, RemotePath
from okl.store.trying import persistently, status_of

CREATING = (*EXTRAS, "memory")  # kinds of stores that make a file only where none is, in one step
TAKEN, CONTESTED = 412, 409  # HTTP: an object is there; another one is being made at this moment
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def create(place: Place, content: bytes) -> bool:
    """Make a file where none is, whole or not at all; whether the file that is there now holds this content.

    Raises
    ------
    RegistryError : the place cannot be written to, or is of a kind where two writers could both win
    DataError : an object store that does not answer, or refuses; whether the file was made is not known then
    """
    return _create_remote(place, content) if isinstance(place, RemotePath) else _create_here(place, content)


def folders(place: Place) -> list[Place]:
    """Folders in a folder, by name; none where there is no folder."""
    if isinstance(place, RemotePath):
        return [place / name for name in persistently(lambda: _remote_folders(place), f"{place} cannot be listed")]
    if not place.is_dir():
        return []
    return [folder for folder in sorted(place.iterdir()) if folder.is_dir() and folder.name[0] != "."]


def unwritable(place: Place, error: OSError) -> RegistryError:
    """The sentence for what this machine's system refused."""
    return RegistryError(
        f"{place} cannot be written: {error.strerror}. Nothing was changed; make room or give permission, then again."
    )


def _create_here(path: Path, content: bytes) -> bool:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:  # on a network's file system perhaps our own, made by a call whose answer was lost
            return path.read_bytes() == content
        for folder in (path.parent, path.parent.parent):
            sync(folder)
        return True
    except OSError as error:
        if error.errno in NO_LINKS and beside.exists():
            raise RegistryError(
                f"{path.parent} is on a file system without hard links ({error.strerror}), where two writers at once "
                "could both win. Keep the registry on another one, or under s3://, gs:// or abfs://."
            ) from None
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):  # it was never made
            beside.unlink()


def _create_remote(place: RemotePath, content: bytes) -> bool:
    kind = place.url.partition("://")[0].lower()
    if kind not in CREATING:
        raise RegistryError(
            f"{kind}:// cannot make a file only where none is, so two writers at once could both win. Keep the "
            "registry in a folder of this machine, or under s3://, gs:// or abfs://."
        )
    fs, path = file_system(place.url)

    def put() -> bool:
        try:
            fs.pipe_file(path, content, mode="create")
        except Exception as error:  # of whatever kind: each store has a family of its own
            if status_of(error) == CONTESTED:
                raise ConnectionError("another file of this name is being made") from None
            if not isinstance(error, FileExistsError) and status_of(error) != TAKEN:
                raise
            there: bytes = fs.cat_file(path)
            return there == content
        return True

    return persistently(put, f"{place} cannot be written")


def _remote_folders(place: RemotePath) -> list[str]:
    fs, path = file_system(place.url)
    fs.invalidate_cache()
    try:
        entries: list[dict[str, Any]] = fs.ls(path, detail=True)
    except FileNotFoundError:
        return []
    names = (str(entry["name"]).rstrip("/") for entry in entries if entry["type"] == "directory")
    return sorted(name.rpartition("/")[2] for name in names)
