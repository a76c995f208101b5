"""Files and packages that add a loss, a model or a map: which there are, and what they declare.

A name that is not one of okl's own is looked for in the files of OKL_EXTENSIONS and in installed packages that have an
entry point in the group `okl.extensions`. Nothing is imported before such a name is asked for, and nothing because a
model file, a checkpoint or a worker says so: these name what they need, and it is there or it is not.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from okl.errors import ConfigError, OklError
from okl.extensions.sourcefiles import KNOWN, SourceFile, forget, read_file

VARIABLE, GROUP = "OKL_EXTENSIONS", "okl.extensions"
Kind = Literal["loss", "solver", "map"]


@dataclass(frozen=True)
class Declared:
    """What an extension adds under a name.

    thing : of okl.extending; origin : file or package that it is from, and its digest or version; module : by name
    """

    thing: Any
    origin: str
    module: str


_lock = RLock()
_exact: dict[tuple[Kind, str, str], Declared] = {}  # by origin, too: a worker may know several states of a file
_latest: dict[tuple[Kind, str], Declared] = {}
_looked_at: set[str] = set()


def use_extension(path: str | os.PathLike[str]) -> None:
    """Run a file that adds losses, models or maps to this process; its workers get it, too.

    Raises
    ------
    ConfigError : the file cannot be read, fails, adds nothing, or adds a name that there is already
    """
    _run(read_file(path))


def offer(path: str) -> None:
    """Have a file looked at when a name is asked for that okl does not know, here and in processes that begin here.

    Raises
    ------
    ConfigError : there is no such file
    """
    if not Path(path).is_file():
        raise ConfigError(f"The extension {path} is not a file. Give one of Python, such as my_loss.py.")
    before = os.environ.get(VARIABLE, "").split(os.pathsep)
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*filter(None, before), os.path.abspath(path)]))


def declare(kind: Kind, name: str, thing: Any, module: str) -> None:
    """Add a thing under a name, from the module that makes it; see okl.extending.

    Raises
    ------
    ConfigError : another extension has added that name
    """
    with _lock:
        origin, before = _origin_of(module), _latest.get((kind, name))
        if before is not None and before.origin.split(" ")[0] != origin.split(" ")[0]:
            raise ConfigError(
                f"The {kind} {name!r} comes from {before.origin} and from {origin}: leave out one of them."
            )
        _latest[kind, name] = _exact[kind, name, origin] = Declared(thing, origin, module)


def find(kind: Kind, name: str) -> Declared | None:
    """What an extension has declared under a name, or None; looks at all extensions that are offered."""
    with _lock:
        _look()
        return _latest.get((kind, name))


def exactly(kind: Kind, name: str, origin: str) -> Any:
    """The thing of that name and origin.

    Raises
    ------
    ConfigError : it is not here, or from another file or version
    """
    with _lock:
        if (kind, name, origin) not in _exact:
            _look()
        declared = _exact.get((kind, name, origin))
        if declared is None:
            here = _latest.get((kind, name))
            found = f"here it comes from {here.origin}" if here else "it is not known in this process"
            raise ConfigError(
                f"The {kind} {name!r} of {origin} is needed, but {found}. Put it into a file that --extension or "
                f"{VARIABLE} names, or install the package with the same version wherever okl runs."
            )
        return declared.thing


def names(kind: Kind) -> tuple[str, ...]:
    """Names that extensions have declared."""
    with _lock:
        _look()
        return tuple(sorted(name for of, name in _latest if of == kind))


def origins(*wanted: str) -> dict[str, str]:
    """Of those of these names that extensions have declared, where each comes from: what decides bits beside okl."""
    with _lock:
        return {name: one.origin for (_, name), one in sorted(_latest.items()) if name in wanted}


def elsewhere(*wanted: str) -> str:
    """What to see to before these names mean anything in processes that others start; nothing if there is nothing."""
    with _lock:
        named = [name for (_, name), one in sorted(_latest.items()) if name in wanted and one.module in KNOWN]
    if not named:
        return ""
    return (
        f"{', '.join(named)}: of a file. Where runs take place, set {VARIABLE} (before okl up), or install a package."
    )


def classes() -> dict[str, type[Any]]:
    """All classes of the extensions that have run here, by their full names: what a checkpoint may hold of them."""
    with _lock:
        modules = dict.fromkeys(one.module for one in _exact.values())
    return {
        f"{name}.{one.__qualname__}": one
        for name in modules
        for one in vars(sys.modules[name]).values()
        if isinstance(one, type) and one.__module__ == name
    }


def packages() -> tuple[str, ...]:
    """Distributions of the extensions that have run here, other than files: workers need them, too."""
    with _lock:
        modules = {one.module for one in _exact.values()}
    found = {entry.dist.name for entry in entry_points(group=GROUP) if entry.dist and entry.module in modules}
    return tuple(sorted(found))


def files() -> dict[str, SourceFile]:
    """The files that have run here, by module: for `adopt` in another process."""
    with _lock:
        return dict(KNOWN)


def adopt(sent: Mapping[str, SourceFile]) -> None:
    """Run the files that ran in the process that this one works for."""
    for file in sent.values():
        _run(file)


def _look() -> None:
    """Run what is offered and has not been run."""
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if path not in _looked_at:
            use_extension(path)
            _looked_at.add(path)
    if GROUP not in _looked_at:
        for entry in entry_points(group=GROUP):
            _import(entry.module, f"{entry.dist.name if entry.dist else entry.module}")
        _looked_at.add(GROUP)


def _run(file: SourceFile) -> None:
    with _lock:
        if KNOWN.setdefault(file.module, file) and file.module not in sys.modules:
            try:
                _import(file.module, file.name)
                if not any(one.module == file.module for one in _exact.values()):
                    raise ConfigError(
                        f"The extension {file.name} adds nothing: call add_loss, add_model or add_map in it."
                    )
            except ConfigError:
                forget(file)
                raise


def _import(module: str, place: str) -> None:
    try:
        importlib.import_module(module)
    except OklError as error:
        raise ConfigError(str(error) if place in str(error) else f"The extension {place}: {error}") from None
    except Exception as error:  # whatever a user's file does wrong
        raise ConfigError(
            f"The extension {place} fails when it is imported: {type(error).__name__}: {error}."
        ) from error


def _origin_of(module: str) -> str:
    if module in KNOWN:
        return f"{KNOWN[module].name} {KNOWN[module].sha256[:12]}"
    for entry in entry_points(group=GROUP):
        if entry.module == module and entry.dist is not None:
            return f"{entry.dist.name} {entry.dist.version}"
    return module
