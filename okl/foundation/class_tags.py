"""Tags by which files refer to classes, independent of module and name of the class; arrays."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray

Class = TypeVar("Class", bound=type[Any])

TAG = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_classes: dict[str, type[Any]] = {}
_tags: dict[type[Any], str] = {}
_renamed: dict[type[Any], dict[str, str | None]] = {}


def stored(
    tag: str, renamed: Mapping[str, str | None] | None = None, former: tuple[str, ...] = ()
) -> Callable[[Class], Class]:
    """Declare the tag by which checkpoints and state files name a class; goes above `@dataclass`.

    A class may move and take another name, but keeps its tag: files that exist refer to it.

    tag : in kebab case, unlike any other
    renamed : attributes by the names they have in older files, and by today's; None for one that is no longer used.
        Subclasses inherit it. Named tuples are stored by position, so their fields may be renamed freely
    former : tags of classes that this one replaced; files that have them are read, and written with its own
    Raises ValueError : the tag is malformed or belongs to another class, or today's name is no attribute of it
    """

    def declare(kind: Class) -> Class:
        name = f"{kind.__module__}.{kind.__qualname__}"
        for one in (tag, *former):
            if not TAG.fullmatch(one):
                raise ValueError(f"{name}: the tag {one!r} is not in kebab case, such as 'budget-state'.")
            other = _classes.get(one)
            # a module whose import failed half way is imported again: the same class
            if other is not None and f"{other.__module__}.{other.__qualname__}" != name:
                raise ValueError(f"{name}: the tag {one!r} belongs to {other.__module__}.{other.__qualname__}.")
        if renamed and issubclass(kind, tuple):
            raise ValueError(f"{name}: a named tuple is stored by position; it has no attributes to rename.")
        attributes = {*dir(kind), *(name for base in kind.__mro__ for name in vars(base).get("__annotations__", ()))}
        for attribute in (renamed or {}).values():
            if attribute is not None and attribute not in attributes:
                raise ValueError(f"{name}: renamed names {attribute!r}, which is not an attribute of the class.")
        _classes.update(dict.fromkeys((tag, *former), kind))
        _tags[kind], _renamed[kind] = tag, dict(renamed or {})
        return kind

    return declare


def tagged_classes() -> dict[str, type[Any]]:
    """Return the classes of the modules imported so far, by tag."""
    return dict(_classes)


def tag_of(kind: type[Any]) -> str | None:
    """Return the tag of a class; None for a class without one, even if it inherits from one that has."""
    return _tags.get(kind)


def class_of(tag: str) -> type[Any] | None:
    """Return the class of a tag; None if no module imported so far declares it."""
    return _classes.get(tag)


def lasting_attributes(instance: Any) -> dict[str, Any]:
    """Return the attributes of an instance without cached properties.

    Arrays packed for compiled code are cached; their layout depends on the CPU, so that each process packs its own.
    """
    return {name: value for name, value in vars(instance).items() if not _is_cache(type(instance), name)}


def with_todays_names(kind: type[Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes read from a file by the current names of its class, without values of cached properties."""
    renamed: dict[str, str | None] = {}
    for base in reversed(kind.__mro__):
        renamed |= _renamed.get(base, {})
    named = {renamed.get(name, name): value for name, value in attributes.items()}
    return {name: value for name, value in named.items() if name is not None and not _is_cache(kind, name)}


def _is_cache(kind: type[Any], name: str) -> bool:
    return isinstance(getattr(kind, name, None), cached_property)


def save_arrays(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Write C-contiguous arrays as one safetensors file, without a copy in memory; or raise OSError."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file  # imports numpy, which commands without rows need not wait for

    try:
        save_file(arrays, path)
    except SafetensorError as error:
        # of the system's error it keeps the words, and what is to be done depends on its number
        number_match = re.search(r"os error (\d+)", str(error))
        code = int(number_match[1]) if number_match else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from None
