"""A folder that appears when it is complete: written beside its destination, then renamed, or gone without a trace."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from okl.errors import DataError
from okl.store.manifest import is_dataset

PLACE_FAULTS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.ENAMETOOLONG)


def check_destination(destination: Path) -> None:
    """Raise DataError if something that okl did not make is there."""
    if destination.exists() and not is_dataset(destination):
        raise DataError(f"{destination} exists and is not a data set; okl does not replace it. Choose another folder.")


@contextmanager
def written_beside(destination: Path) -> Iterator[Path]:
    """A new folder beside the destination that takes its place at the end, or goes away with everything it holds.

    Raises
    ------
    DataError : the place cannot be written to or is full, or something that okl did not make has come there meanwhile
    """
    made = [parent for parent in destination.parents if not parent.exists()]
    own = f"{os.getpid()}-{secrets.token_hex(4)}"  # containers that share a disk share process numbers, too
    folder = destination.with_name(f"{destination.name}.partial-{own}")
    old = destination.with_name(f"{destination.name}.replaced-{own}")
    done = False
    try:
        folder.mkdir(parents=True)
        yield folder
        check_destination(destination)
        if destination.exists():
            os.rename(destination, old)
        os.rename(folder, destination)
        done = True
    except OSError as error:
        if error.errno not in PLACE_FAULTS:
            raise
        raise DataError(f"{destination} cannot be written: {error.strerror}. Choose another place.") from None
    finally:
        if old.exists() and not destination.exists():
            os.rename(old, destination)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        for parent in [] if done else made:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()
