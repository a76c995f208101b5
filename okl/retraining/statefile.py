"""What a learner goes on from, beside its version: JSON and arrays, checked to the last byte; reading runs no code.

    state/checkpoint.json, state.json, arrays.safetensors     as of a run that was broken off, see okl.checkpoints

It is read by later versions of okl, too, as long as what it is made of has the same parts; otherwise it is refused, and
the model is learnt anew from its shards.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from okl.checkpoints.folder import ARRAYS, HEAD, STATE, complete_ones, read_head, read_value, write_checkpoint
from okl.checkpoints.known import known_classes
from okl.errors import CheckpointError, DataError
from okl.online.solver import OnlineState
from okl.store.places import Place

NAME = "learner"


def save_state(folder: Path, state: OnlineState, about: dict[str, Any]) -> None:
    """Write what a finished learner goes on from.

    Parameters
    ----------
    folder : which is made; about : what it belongs to, JSON

    Raises
    ------
    OSError : it cannot be written
    """
    kept = replace(state, windows=(), segments=())  # of the data that were learnt: nothing of theirs is needed
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".state-") as place:
        write_checkpoint(Path(place), NAME, kept, about, {}, None)
        (written,) = complete_ones(Path(place), NAME)
        written.rename(folder)


def load_state(folder: Place) -> tuple[OnlineState, dict[str, Any]]:
    """The state, and what it belongs to.

    Raises
    ------
    CheckpointError : it is missing or damaged, or made of parts that this okl has not
    """
    if isinstance(folder, Path):
        return _load(folder)
    with tempfile.TemporaryDirectory(prefix="okl-") as place:
        for name in (HEAD, STATE, ARRAYS):
            try:
                (Path(place) / name).write_bytes((folder / name).read_bytes())
            except DataError as error:
                raise CheckpointError(f"{folder} cannot be read: {error}") from None
        return _load(Path(place))


def _load(folder: Path) -> tuple[OnlineState, dict[str, Any]]:
    head = read_head(folder)
    try:
        state = read_value(head, {})
    except KeyError as error:
        raise CheckpointError(f"{folder}: {error} is no part of this okl.") from None
    for one in _parts(state, set()):
        required = [f.name for f in fields(one) if f.default is MISSING and f.default_factory is MISSING]
        known = {field.name for field in fields(one)}
        own = {name for name in vars(one) if not hasattr(type(one), name) or name in known}  # not what is computed once
        if not own <= known or not set(required) <= own:
            raise CheckpointError(f"{folder} was written by an okl whose {type(one).__name__} has other parts.")
    if not isinstance(state, OnlineState):
        raise CheckpointError(f"{folder} holds no state of an online learner.")
    return state, head.about


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """All instances of known dataclasses in a value."""
    if id(value) in seen:
        return
    if isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _parts(item, seen)
    elif is_dataclass(value) and type(value) in set(known_classes().values()):
        seen.add(id(value))
        yield value
        for item in list(vars(value).values()):
            yield from _parts(item, seen)
