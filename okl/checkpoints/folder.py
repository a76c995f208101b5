"""A checkpoint on disk: a folder that is complete or not there, checked to the last byte when it is read.

    NAME-000007/checkpoint.json      format version, what it belongs to, digests of the others, and of itself
                state.json           the state, but for its arrays
                arrays.safetensors   its arrays
                beside/              files that workers keep beside their shards, where there are any

A new one is written beside the last one, which goes when the new one has its name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from okl.checkpoints.tree import PutTogether, TakenApart
from okl.errors import CheckpointError
from okl.runfolder import CHECKPOINT, sync
from okl.store.shards import file_sha256

FORMAT_VERSION = 1
HEAD, STATE, ARRAYS, BESIDE = "checkpoint.json", "state.json", "arrays.safetensors", "beside"
DIGITS = 6


@dataclass(frozen=True)
class Head:
    """What a checkpoint says of itself. about : what it belongs to; files : sha256 of each; sizes : of those beside."""

    folder: Path
    about: dict[str, Any]
    files: dict[str, str]
    sizes: dict[str, int]


def write_checkpoint(
    run: Path, name: str, value: Any, about: Mapping[str, Any], shared: Mapping[str, Any], beside: Path | None
) -> None:
    """Write where a loop of a run stands; the last one goes when this one is complete.

    Parameters
    ----------
    run : folder of the run; name : of the loop
    value : its position; about : what it belongs to, JSON; shared : see TakenApart
    beside : folder of files to keep, too; None: there are none

    Raises
    ------
    OSError : it cannot be written; the last one stays
    """
    home = run / CHECKPOINT
    home.mkdir(exist_ok=True)
    older = complete_ones(run, name)
    number = 1 + (_number(older[-1]) if older else 0)
    partial, place = home / f".{name}.partial", home / f"{name}-{number:0{DIGITS}d}"
    for left in home.glob(".*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    try:
        partial.mkdir()
        _write(partial, value, about, shared, beside)
        partial.rename(place)
    except SafetensorError as error:
        # of the system's error it keeps the words, and what is to be done depends on its number
        number_told = re.search(r"os error (\d+)", str(error))
        code = int(number_told[1]) if number_told else errno.EIO
        raise OSError(code, os.strerror(code), str(partial / ARRAYS)) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync(home)
    for one in older:  # first out of sight: a process that is killed meanwhile must not leave half of one
        going = one.rename(home / f".{one.name}.going")
        shutil.rmtree(going, ignore_errors=True)


def complete_ones(run: Path, name: str) -> list[Path]:
    """The checkpoints of a loop, the latest last."""
    return sorted((run / CHECKPOINT).glob(f"{name}-{'[0-9]' * DIGITS}"))


def read_head(folder: Path) -> Head:
    """What a checkpoint says of itself.

    Raises
    ------
    CheckpointError : it is missing, damaged, or of a later okl
    """
    try:
        stored = (folder / HEAD).read_bytes()
        head = json.loads(stored)
        version, about, files, sizes = (head[key] for key in ("format_version", "about", "files", "sizes"))
    except OSError as error:
        raise _damaged(folder / HEAD, f"it cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError):
        raise _damaged(folder / HEAD, "it is no checkpoint's JSON") from None
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{folder / HEAD} has format {version}, from the future: this okl knows formats up to {FORMAT_VERSION}. "
            "Go on with the okl that the run began with."
        )
    if _render(head) != stored:
        raise _damaged(folder / HEAD, "its bytes do not have the sha256 that it states")
    return Head(folder, about, files, sizes)


def read_value(head: Head, shared: Mapping[str, Any]) -> Any:
    """The position that a checkpoint holds, with the same bits.

    Raises
    ------
    CheckpointError : a file is missing, torn or damaged
    """
    folder = head.folder
    try:
        for name, digest in head.files.items():
            if file_sha256(folder / name) != digest:
                raise _damaged(folder / name, f"its bytes do not have the sha256 that {HEAD} states")
        for name, size in head.sizes.items():
            found = (folder / BESIDE / name).stat().st_size
            if found != size:
                raise _damaged(folder / BESIDE / name, f"it has {found} bytes, and {size} were written")
        tree, arrays = json.loads((folder / STATE).read_bytes()), load_file(folder / ARRAYS)
    except OSError as error:
        raise _damaged(Path(error.filename or folder), f"it cannot be read ({error.strerror})") from None
    except (ValueError, SafetensorError) as error:
        raise _damaged(folder, str(error)) from None
    return PutTogether(tree, arrays, shared).value


def bring_back_beside(head: Head, folder: Path) -> None:
    """Put the files that workers kept where they look for them; those that are there have the same name and content."""
    for name in head.sizes:
        if not (folder / name).exists():
            _link(head.folder / BESIDE / name, folder / name)


def _write(partial: Path, value: Any, about: Mapping[str, Any], shared: Mapping[str, Any], beside: Path | None) -> None:
    apart = TakenApart(value, shared)
    save_file(apart.arrays, partial / ARRAYS)
    (partial / STATE).write_text(json.dumps(apart.tree, allow_nan=False, separators=(",", ":")), encoding="utf-8")
    sizes = {} if beside is None else _keep_beside(beside, partial / BESIDE)
    head = {
        "format_version": FORMAT_VERSION,
        "about": about,
        "files": {name: file_sha256(partial / name) for name in (STATE, ARRAYS)},
        "sizes": sizes,
    }
    (partial / HEAD).write_bytes(_render(head))
    for name in (STATE, ARRAYS, HEAD):
        sync(partial / name)
    sync(partial)


def _keep_beside(source: Path, place: Path) -> dict[str, int]:
    """Links to the files of a folder, which stay when workers replace these; sizes by name."""
    place.mkdir()
    sizes = {}
    for path in sorted(source.glob("*.npy")):
        try:
            _link(path, place / path.name)
        except FileNotFoundError:  # replaced meanwhile by a later one: nobody needs it
            continue
        sync(place / path.name)
        sizes[path.name] = (place / path.name).stat().st_size
    sync(place)
    return sizes


def _link(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(source, place)


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _render(head: Mapping[str, Any]) -> bytes:
    """JSON with its own digest: any changed byte no longer renders to itself."""
    body = {key: value for key, value in head.items() if key != "sha256"}
    text = json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False)
    return json.dumps(
        {**body, "sha256": hashlib.sha256(text.encode()).hexdigest()}, indent=1, ensure_ascii=False, allow_nan=False
    ).encode()


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path} is damaged: {why}. Train again without --resume, and remove the unfinished run.")
