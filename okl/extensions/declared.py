"""What extensions have declared in this process, and where each thing is from."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import takewhile
from threading import RLock
from typing import Any, Literal

from okl.errors import ConfigError
from okl.extensions.sourcefiles import KNOWN

GROUP = "okl.extensions"
VARIABLE = "OKL_EXTENSIONS"
Kind = Literal["loss", "solver", "map"]


@dataclass(frozen=True)
class Declared:
    """What an extension adds under a name.

    thing : of okl.extending; origin : file or package that it is from, and its digest or version
    extension : module of that file, or of the package's entry point; module : that defines the thing
    """

    thing: Any
    origin: str
    extension: str
    module: str


lock = RLock()  # held while an extension runs, too
being_run: list[str] = []  # modules of extensions that are being imported, the innermost last
_exact: dict[tuple[Kind, str, str], Declared] = {}  # by origin, too: a worker may know several states of a file
_latest: dict[tuple[Kind, str], Declared] = {}


def declare(kind: Kind, name: str, thing: Any, module: str) -> None:
    """Add a thing under a name; see okl.extending.

    module : that defines it, which need not be the one that adds it

    Raises
    ------
    ConfigError : another extension has added that name
    """
    with lock:
        extension, before = _extension_of(module), _latest.get((kind, name))
        origin = _origin_of(extension)
        if before is not None and _name_in(before.origin) != _name_in(origin):
            raise ConfigError(
                f"The {kind} {name!r} comes from {before.origin} and from {origin}: leave out one of them."
            )
        _latest[kind, name] = _exact[kind, name, origin] = Declared(thing, origin, extension, module)


def latest(kind: Kind, name: str) -> Declared | None:
    """What has been declared last under a name."""
    return _latest.get((kind, name))


def of_origin(kind: Kind, name: str, origin: str) -> Declared | None:
    """What has been declared under a name by a file in this state, or a package in this version."""
    return _exact.get((kind, name, origin))


def declared_names(kind: Kind) -> tuple[str, ...]:
    """Names that have been declared."""
    return tuple(sorted(name for of, name in _latest if of == kind))


def everything() -> dict[tuple[Kind, str, str], Declared]:
    """What has been declared so far, by kind, name and origin."""
    return dict(_exact)


def withdraw_since(before: dict[tuple[Kind, str, str], Declared], extension: str) -> None:
    """Take back what an extension has declared since, as it failed."""
    for kind, name, origin in [key for key, one in _exact.items() if key not in before and one.extension == extension]:
        del _exact[kind, name, origin], _latest[kind, name]
        _latest.update({(of, known): one for (of, known, _), one in before.items() if (of, known) == (kind, name)})


def origins(*wanted: str) -> dict[str, str]:
    """Of those of these names that extensions have declared, where each comes from: what decides bits beside okl."""
    with lock:
        return {name: one.origin for (_, name), one in sorted(_latest.items()) if name in wanted}


def elsewhere(*wanted: str) -> str:
    """What to see to before these names mean anything in processes that others start; nothing if there is nothing."""
    with lock:
        named = [name for (_, name), one in sorted(_latest.items()) if name in wanted and one.extension in KNOWN]
    if not named:
        return ""
    return (
        f"{', '.join(named)}: of a file. Where runs take place, set {VARIABLE} (before okl up), or install a package."
    )


def classes() -> dict[str, type[Any]]:
    """All classes of the extensions that have run here, by their full names: what a checkpoint may hold of them."""
    with lock:
        pairs = [(one.extension, one.module) for one in _exact.values()]
    # what an extension has imported from other packages is theirs
    modules = dict.fromkeys(name for pair in pairs for name in pair if _top(name) == _top(pair[0]))
    return {
        f"{name}.{one.__qualname__}": one
        for name in modules
        for one in vars(sys.modules[name]).values()
        if isinstance(one, type) and one.__module__ == name
    }


def packages() -> tuple[str, ...]:
    """Distributions of the extensions that have run here, other than files: workers need them, too."""
    with lock:
        modules = {one.extension for one in _exact.values()}
    found = {entry.dist.name for entry in entry_points(group=GROUP) if entry.dist and entry.module in modules}
    return tuple(sorted(found))


def _extension_of(module: str) -> str:
    """The module of the extension by which another one is here: of a package the entry point, else what is running."""
    entries = [entry.module for entry in entry_points(group=GROUP) if _top(entry.module) == _top(module)]
    if entries:  # several share the first part of their names where that is a namespace
        return max(entries, key=lambda entry: _parts_shared(entry, module))
    return being_run[-1] if being_run else module


def _origin_of(extension: str) -> str:
    if extension in KNOWN:
        return f"{KNOWN[extension].name} {KNOWN[extension].sha256[:12]}"
    for entry in entry_points(group=GROUP):
        if entry.module == extension and entry.dist is not None:
            return f"{entry.dist.name} {entry.dist.version}"
    return extension


def _name_in(origin: str) -> str:
    """Of a file or package, without its digest or version."""
    return origin.rpartition(" ")[0] or origin


def _parts_shared(one: str, other: str) -> int:
    pairs = zip(one.split("."), other.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _top(module: str) -> str:
    return module.partition(".")[0]
