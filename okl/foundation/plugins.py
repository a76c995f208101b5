"""Extension files and packages: registration, lookup, loading and transfer to workers."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from importlib.util import spec_from_loader
from pathlib import Path
from threading import RLock
from types import CodeType
from typing import Any, Literal

from okl.foundation.errors import ConfigError, OklError


@dataclass(frozen=True)
class SourceFile:
    """A file with the text that was read: other processes get the text, wherever they run."""

    name: str
    text: str
    sha256: str

    @property
    def module(self) -> str:
        """Return the name of its module in every process; a file that was changed is another module."""
        stem = re.sub(r"\W", "_", Path(self.name).stem)
        return f"okl_extension_{stem}_{self.sha256[:12]}"


KNOWN: dict[str, SourceFile] = {}
"""Files that this process may import, by module."""


def remove_extension(file: SourceFile) -> None:
    """Remove a file as if it had never run."""
    KNOWN.pop(file.module, None)
    sys.modules.pop(file.module, None)


class _Loader(InspectLoader):
    """Loads the module of a file from its text."""

    def get_source(self, fullname: str) -> str:
        return KNOWN[fullname].text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_source(fullname), KNOWN[fullname].name, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finder of the modules of extension files by name, for pickled classes."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, _Loader(), origin=KNOWN[fullname].name) if fullname in KNOWN else None


sys.meta_path.append(_Finder())


# Registrations by kind, name and origin.

GROUP = "okl.extensions"
VARIABLE = "OKL_EXTENSIONS"
Kind = Literal["loss", "solver", "map"]


@dataclass(frozen=True)
class Registration:
    """Object that an extension registered under a name.

    thing : of okl.extensions; origin : file or package that it is from, and its digest or version
    extension : module of that file, or of the package's entry point; module : that defines the thing
    """

    thing: Any
    origin: str
    extension: str
    module: str


lock = RLock()  # held while an extension runs, too
running: list[str] = []  # modules of extensions that are being imported, the innermost last
_exact: dict[tuple[Kind, str, str], Registration] = {}  # by origin, too: a worker may know several states of a file
_latest: dict[tuple[Kind, str], Registration] = {}


def declare(kind: Kind, name: str, thing: Any, module: str) -> None:
    """Register an object under a name; see okl.extensions.

    module : that defines it, which need not be the one that adds it
    Raises ConfigError : another extension has added that name
    """
    with lock:
        extension, before = _extension_of(module), _latest.get((kind, name))
        origin = _origin_of(extension)
        if before is not None and _name_in(before.origin) != _name_in(origin):
            raise ConfigError(f"The {kind} {name!r} is defined by {before.origin} and by {origin}. Remove one of them.")
        _latest[kind, name] = _exact[kind, name, origin] = Registration(thing, origin, extension, module)


def origins(*wanted: str) -> dict[str, str]:
    """Return the origin of each of these names that extensions registered: it decides bits as okl's version does."""
    with lock:
        return {name: entry.origin for (_, name), entry in sorted(_latest.items()) if name in wanted}


def elsewhere(*wanted: str) -> str:
    """Return the condition under which these names exist in processes started by others; empty if there is none."""
    with lock:
        named = [name for (_, name), entry in sorted(_latest.items()) if name in wanted and entry.extension in KNOWN]
    if not named:
        return ""
    return (
        f"{', '.join(named)}: defined in a file. Set {VARIABLE} where runs execute (before okl up), or install a "
        "package."
    )


def classes() -> dict[str, type[Any]]:
    """Return all classes of the extensions of this process, by their full names, for checkpoints."""
    with lock:
        pairs = [(entry.extension, entry.module) for entry in _exact.values()]
    # what an extension has imported from other packages is theirs
    modules = dict.fromkeys(name for pair in pairs for name in pair if _top(name) == _top(pair[0]))
    return {
        f"{name}.{entry.__qualname__}": entry
        for name in modules
        for entry in vars(sys.modules[name]).values()
        if isinstance(entry, type) and entry.__module__ == name
    }


def packages() -> tuple[str, ...]:
    """Return the distributions of the extensions of this process, other than files: workers need them, too."""
    with lock:
        modules = {entry.extension for entry in _exact.values()}
    distributions = {entry.dist.name for entry in entry_points(group=GROUP) if entry.dist and entry.module in modules}
    return tuple(sorted(distributions))


def _extension_of(module: str) -> str:
    """Return the module of the extension that imported a module: the entry point of its package, or the running one."""
    entries = [entry.module for entry in entry_points(group=GROUP) if _top(entry.module) == _top(module)]
    if entries:  # several share the first part of their names where that is a namespace
        path = module.replace(".", "/")
        return max(entries, key=lambda entry: len(os.path.commonpath([entry.replace(".", "/"), path])))
    return running[-1] if running else module


def _origin_of(extension: str) -> str:
    if extension in KNOWN:
        return f"{KNOWN[extension].name} {KNOWN[extension].sha256[:12]}"
    for entry in entry_points(group=GROUP):
        if entry.module == extension and entry.dist is not None:
            return f"{entry.dist.name} {entry.dist.version}"
    return extension


def _name_in(origin: str) -> str:
    """Return the name in an origin, without the digest of the file or the version of the package."""
    return origin.rpartition(" ")[0] or origin


def _top(module: str) -> str:
    return module.partition(".")[0]


# Loading of extensions on demand.
#
# Such a name is looked for in the files of OKL_EXTENSIONS and in installed packages that have an entry point in the
# group `okl.extensions`. Nothing is imported before, and nothing because a model file, a checkpoint or a
# worker raises an error: these name what they need, and it is loaded or not.

_loaded: set[str] = set()


def use_extension(path: str | os.PathLike[str]) -> None:
    """Run a file that adds losses, models or maps to this process; its workers get it, too.
    Raises ConfigError : the file cannot be read, fails, adds nothing, or adds a name that there is already
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The extension {os.fspath(path)} cannot be read ({error}). Give a Python file.") from None
    _run(SourceFile(Path(path).name, text, hashlib.sha256(text.encode()).hexdigest()))


def offer(path: str) -> None:
    """Load a file when an unknown name is requested, here and in processes started here; or raise ConfigError."""
    if not Path(path).is_file():
        raise ConfigError(f"The extension {path} is not a file. Give a Python file, such as my_loss.py.")
    before = os.environ.get(VARIABLE, "").split(os.pathsep)
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*filter(None, before), os.path.abspath(path)]))


def find(kind: Kind, name: str) -> Registration | None:
    """Return the registration under a name, or None; loads all offered extensions."""
    with lock:
        _load_offered()
        return _latest.get((kind, name))


def exactly(kind: Kind, name: str, origin: str) -> Any:
    """Return the registered object of that name and origin, or raise ConfigError."""
    with lock:
        if (kind, name, origin) not in _exact:
            _load_offered()
        declared = _exact.get((kind, name, origin))
        if declared is None:
            current = _latest.get((kind, name))
            current_origin = f"here it comes from {current.origin}" if current else "this process has not loaded it"
            raise ConfigError(
                f"The {kind} {name!r} of {origin} is required, but {current_origin}. Put it into a file named "
                f"by --extension or {VARIABLE}, or install the package with the same version wherever okl runs."
            )
        return declared.thing


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names that extensions have declared."""
    with lock:
        _load_offered()
        return tuple(sorted(name for of, name in _latest if of == kind))


def files() -> dict[str, SourceFile]:
    """Return the files that have run here, by module, for `run_plugins_of_parent` in another process."""
    with lock:
        return dict(KNOWN)


def run_plugins_of_parent(sent: Mapping[str, SourceFile]) -> None:
    """Run the files that ran in the process that this one works for."""
    for file in sent.values():
        _run(file)


def _load_offered() -> None:
    """Run the offered files that have not run yet."""
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if path not in _loaded:
            use_extension(path)
            _loaded.add(path)
    if GROUP not in _loaded:
        for entry in entry_points(group=GROUP):
            _import(entry.module, f"{entry.dist.name if entry.dist else entry.module}")
        _loaded.add(GROUP)


def _run(file: SourceFile) -> None:
    with lock:
        if KNOWN.setdefault(file.module, file) and file.module not in sys.modules:
            before = dict(_exact)
            try:
                _import(file.module, file.name)
                if _exact == before:
                    raise ConfigError(
                        f"The extension {file.name} adds nothing: call add_loss, add_model or add_map in it."
                    )
            except ConfigError:
                remove_extension(file)
                for key in [key for key in _exact if key not in before and _exact[key].extension == file.module]:
                    del _exact[key]
                    _latest.pop(key[:2], None)
                _latest.update({key[:2]: entry for key, entry in before.items() if key[:2] not in _latest})
                raise


def _import(module: str, location: str) -> None:
    running.append(module)
    try:
        importlib.import_module(module)
    except OklError as error:
        raise ConfigError(str(error) if location in str(error) else f"The extension {location}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever a user's file does wrong
        raise ConfigError(
            f"The extension {location} fails when it is imported: {type(error).__name__}: {error}."
        ) from error
    finally:
        running.pop()
