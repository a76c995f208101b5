"""NAME@WHICH: a version of a registered model, where a folder of a model could be given, too."""

from __future__ import annotations

import os
import re

from okl.registry.registry import NAME, Registry
from okl.registry.version import Version
from okl.store.model import Model, load_model

REFERENCE = re.compile(rf"({NAME.pattern})@([a-z][a-z0-9_-]*|[1-9][0-9]*)")

REGISTRY = "folder or URL of the registry that NAME@WHICH is looked up in; none: OKL_REGISTRY, or okl's home"

Location = str | os.PathLike[str]


def is_reference(model: Location) -> bool:
    """Whether a model is given as NAME@WHICH, and not as a folder that has such a name.

    >>> is_reference("churn@champion"), is_reference("churn@7"), is_reference("runs/churn@7"), is_reference("churn")
    (True, True, False, False)
    """
    return REFERENCE.fullmatch(os.fspath(model)) is not None and not os.path.isdir(model)


def find_version(reference: str, registry: Location | None = None) -> Version:
    """The version that NAME@WHICH means at this moment; it never changes, whatever happens to aliases.

    Parameters
    ----------
    reference : NAME@ALIAS or NAME@NUMBER; registry : see `Registry`

    Raises
    ------
    RegistryError : there is no such model, version or alias
    """
    name, _, which = reference.partition("@")
    return Registry(registry).model(name).version(which)


def pinned(model: Location, registry: Location | None = None) -> str:
    """What means the same model for good: NAME@NUMBER for NAME@WHICH; a folder or URL as it is."""
    return str(find_version(os.fspath(model), registry)) if is_reference(model) else os.fspath(model)


def load(model: Location, registry: Location | None = None) -> Model:
    """Open a model, given as its folder or URL, or as NAME@ALIAS or NAME@NUMBER of a registry.

    Every byte is checked against its digests, and no stored code is run. An alias is looked up once, and a version's
    files never change: whatever is promoted meanwhile, the model is one version's.

    Parameters
    ----------
    model : folder, URL, or reference; registry : folder or URL; None: OKL_REGISTRY, or `registry` in okl's home

    Raises
    ------
    ModelError : missing, damaged, incomplete, or written by a later okl
    RegistryError : no such model, version or alias; or the version was pruned
    """
    if is_reference(model):
        return find_version(os.fspath(model), registry).load()
    return load_model(os.fspath(model))
