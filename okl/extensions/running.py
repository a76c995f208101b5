"""Files and packages that add a loss, a model or a map: they run when a name is asked for that is not okl's own.

Such a name is looked for in the files of OKL_EXTENSIONS and in installed packages that have an entry point in the group
`okl.extensions`. Nothing is imported before, and nothing because a model file, a checkpoint or a worker says so: these
name what they need, and it is there or it is not.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from okl.errors import ConfigError, OklError
from okl.extensions.declared import (
    GROUP,
    VARIABLE,
    Declared,
    Kind,
    being_run,
    declared_names,
    everything,
    latest,
    lock,
    of_origin,
    withdraw_since,
)
from okl.extensions.sourcefiles import KNOWN, SourceFile, forget, read_file

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


def find(kind: Kind, name: str) -> Declared | None:
    """What an extension has declared under a name, or None; looks at all extensions that are offered."""
    with lock:
        _look()
        return latest(kind, name)


def exactly(kind: Kind, name: str, origin: str) -> Any:
    """The thing of that name and origin.

    Raises
    ------
    ConfigError : it is not here, or from another file or version
    """
    with lock:
        if of_origin(kind, name, origin) is None:
            _look()
        declared = of_origin(kind, name, origin)
        if declared is None:
            here = latest(kind, name)
            found = f"here it comes from {here.origin}" if here else "it is not known in this process"
            raise ConfigError(
                f"The {kind} {name!r} of {origin} is needed, but {found}. Put it into a file that --extension or "
                f"{VARIABLE} names, or install the package with the same version wherever okl runs."
            )
        return declared.thing


def names(kind: Kind) -> tuple[str, ...]:
    """Names that extensions have declared."""
    with lock:
        _look()
        return declared_names(kind)


def files() -> dict[str, SourceFile]:
    """The files that have run here, by module: for `adopt` in another process."""
    with lock:
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
    with lock:
        if KNOWN.setdefault(file.module, file) and file.module not in sys.modules:
            before = everything()
            try:
                _import(file.module, file.name)
                if everything() == before:
                    raise ConfigError(
                        f"The extension {file.name} adds nothing: call add_loss, add_model or add_map in it."
                    )
            except ConfigError:
                forget(file)
                withdraw_since(before, file.module)
                raise


def _import(module: str, place: str) -> None:
    being_run.append(module)
    try:
        importlib.import_module(module)
    except OklError as error:
        raise ConfigError(str(error) if place in str(error) else f"The extension {place}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever a user's file does wrong
        raise ConfigError(
            f"The extension {place} fails when it is imported: {type(error).__name__}: {error}."
        ) from error
    finally:
        being_run.pop()
