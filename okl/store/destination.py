"""A folder that appears when it is complete: written beside its destination, then renamed, or gone without a trace."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from okl.errors import PlaceError
from okl.runfolder import make_beside, remove_leftovers
from okl.store.manifest import is_dataset
from okl.store.places import Place, RemotePath
from okl.store.publishing import PLACE_FAULTS, PublishedFolder, is_leftover, unwritable


def check_destination(destination: Place) -> None:
    """Raise PlaceError if something that okl did not make is there."""
    if isinstance(destination, RemotePath) and is_leftover(destination):
        return
    if destination.exists() and not is_dataset(destination):
        raise PlaceError(f"{destination} exists and is not a data set; okl does not replace it. Choose another folder.")


def written_beside(destination: Place) -> AbstractContextManager[Path]:
    """A new folder that takes its place at the end, or goes away with everything it holds; see the two ways below."""
    return _renamed_at_the_end(destination) if isinstance(destination, Path) else _sent_at_the_end(destination)


@contextmanager
def _sent_at_the_end(destination: RemotePath) -> Iterator[Path]:
    place = PublishedFolder(destination, replaces=is_dataset(destination))
    try:
        place.open()
        yield place.beside
        place.complete()
    except OSError as error:
        if error.errno not in PLACE_FAULTS:
            raise
        raise unwritable(place.beside, error) from None
    finally:
        place.close()


@contextmanager
def _renamed_at_the_end(destination: Path) -> Iterator[Path]:
    """A new folder beside the destination that takes its place at the end, or goes away with everything it holds.

    What killed processes left beside the destination goes, too.

    Raises
    ------
    PlaceError : it cannot be written to or is full, or something that okl did not make has come there meanwhile
    """
    made = [parent for parent in destination.parents if not parent.exists()]
    old = destination.with_name(f"{destination.name}.replaced-{secrets.token_hex(4)}")
    folder: Path | None = None
    lock: int | None = None
    done = False
    try:
        folder, lock = make_beside(destination)
        remove_leftovers(destination.parent)
        yield folder
        check_destination(destination)
        if destination.exists():
            os.rename(destination, old)
        os.rename(folder, destination)
        done = True
    except OSError as error:
        if error.errno not in PLACE_FAULTS:
            raise
        raise unwritable(destination, error) from None
    finally:
        if old.exists() and not destination.exists():
            os.rename(old, destination)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        shutil.rmtree(old, ignore_errors=True)
        for parent in [] if done else made:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()
