"""The classes whose instances a checkpoint may hold: those that the states of solvers are made of.

A file names a class, and it is looked up here: nothing is imported because a file says so. Classes of extensions are
those of files and packages that this process has been told to use.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from okl import extensions

PACKAGES = ("accelerated", "features", "kernels", "online", "ridge", "subgradient")
MODULES = (
    *("checkpoints.position", "curve", "drift", "execution.protocol", "losses", "solvers"),
    *("store.dataset", "store.order", "store.runs"),
    *("compiled.fourier", "compiled.hadamard", "compiled.kernelblocks", "compiled.kernelrule"),
)


def known_classes() -> dict[str, type[Any]]:
    """By their full names, protocols apart, which have no instances; imported at first use only, as they are many.

    Learners in a registry's versions are kept by these names: one that changes leaves them behind, unread.
    """
    return _own_classes() | extensions.classes()


def known_names() -> dict[type[Any], str]:
    """The full name of each known class."""
    return {one: name for name, one in known_classes().items()}


@cache
def _own_classes() -> dict[str, type[Any]]:
    return {
        f"{name}.{one.__qualname__}": one
        for name in _module_names()
        for one in vars(import_module(name)).values()
        # of a package among them those that it exports, whichever of its modules they are in
        if isinstance(one, type) and f"{one.__module__}.".startswith(f"{name}.") and not _is_protocol(one)
    }


def _is_protocol(one: type[Any]) -> bool:
    return bool(getattr(one, "_is_protocol", False))


def _module_names() -> Iterator[str]:
    for package in PACKAGES:
        folder = import_module(f"okl.{package}").__path__
        yield from (found.name for found in pkgutil.walk_packages(folder, f"okl.{package}.") if not found.ispkg)
    yield from (f"okl.{module}" for module in MODULES)
