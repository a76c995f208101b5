"""The registry: a folder of models, on this machine or under a URL."""

from __future__ import annotations

import os
import re
import secrets

from okl.errors import ConfigError, RegistryError
from okl.home import okl_home
from okl.registry.exclusive import create, folders
from okl.registry.log import Log
from okl.registry.model import RegisteredModel
from okl.registry.sealed import read_sealed, seal
from okl.store.places import Place, absolute_location, place_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MARK = "registry.json"


class Registry:
    """Models by name; opening it costs nothing, and it is made by the first change.

    Parameters
    ----------
    location : folder or URL; None: what OKL_REGISTRY says, or `registry` in okl's home
    """

    def __init__(self, location: str | os.PathLike[str] | None = None) -> None:
        self.location = registry_location(location)
        self.folder: Place = place_of(self.location)
        self._prepared = False

    def model(self, name: str) -> RegisteredModel:
        """A model, whether versions of it are there or not; raises ConfigError for what is no name."""
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no name of a model: it takes letters, digits, '.', '-' and '_', at most 100, and begins "
                "with a letter or digit."
            )
        folder = self.folder / name
        return RegisteredModel(name, folder, Log(folder / "log"), prepare=self.prepare)

    def models(self) -> list[RegisteredModel]:
        """All of which there is a version, by name; raises RegistryError if there is no registry."""
        self.check()
        found = [self.model(folder.name) for folder in folders(self.folder) if NAME.fullmatch(folder.name)]
        return [model for model in found if model.state().latest]

    def check(self) -> None:
        """Raise RegistryError if no registry is there that this okl can read."""
        read_sealed(
            self.folder / MARK,
            "A registry is made when a model is published; or give the place of another one: --registry, OKL_REGISTRY.",
        )

    def prepare(self) -> None:
        """Make the registry if it is not there, and see that its place lets one writer win, and no more.

        Raises
        ------
        RegistryError : it cannot be made, or its store makes a file again that is there; DataError : no answer
        """
        if self._prepared:
            return
        mark = self.folder / MARK
        if create(mark, seal({"token": secrets.token_hex(16)})) and create(
            mark, seal({"token": secrets.token_hex(16)})
        ):
            raise RegistryError(
                f"{self.folder}: the store replaces a file where it was asked to make one only if none is there, so "
                "two writers at once could both win. Keep the registry in a folder, or a store that heeds conditions."
            )
        self.check()
        self._prepared = True


def registry_location(location: str | os.PathLike[str] | None = None) -> str:
    """A given registry's place from the root, or the one that is meant where none is given."""
    given = os.fspath(location) if location is not None else os.environ.get("OKL_REGISTRY", "")
    return absolute_location(given) if given else str(okl_home() / "registry")
