"""A version of a registered model: files that never change, and the lineage that outlasts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from okl.errors import ModelError, RegistryError
from okl.registry.entry import Publication
from okl.registry.lineage import Lineage
from okl.registry.payload import ADVICE, MODEL, verify_files
from okl.store.model import Model, load_model
from okl.store.places import Place


@dataclass(frozen=True)
class Version:
    """One version; str() of it is NAME@NUMBER.

    name : of the model; folder : of its files; published : what the log says of it; pruned : whether its files are gone
    """

    name: str
    folder: Place
    published: Publication
    pruned: bool = False

    @property
    def number(self) -> int:
        """From 1."""
        return self.published.version

    @property
    def lineage(self) -> Lineage:
        """Where it comes from."""
        return self.published.lineage

    @property
    def identity(self) -> str:
        """The digest of what decided it."""
        return self.published.identity

    @property
    def files(self) -> Place:
        """The folder, of a version whose files are there; raises RegistryError if it was pruned."""
        if self.pruned:
            raise RegistryError(
                f"{self} was pruned, its files are gone. See which versions have theirs: okl models show {self.name}."
            )
        return self.folder

    @property
    def model_folder(self) -> Place:
        """Of the model itself; raises RegistryError if it was pruned."""
        return self.files / MODEL

    def load(self) -> Model:
        """Open the model; raises ModelError if it is missing or damaged, RegistryError if it was pruned."""
        try:
            return load_model(self.model_folder)
        except ModelError as error:
            raise ModelError(f"{self}: {error} {ADVICE}") from None

    def verify(self) -> None:
        """Hold all files against the digests in the log; raises RegistryError that names one that is not as it was."""
        verify_files(self.files, self.published.files)

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"


class Published(NamedTuple):
    """A version, and whether this call published it: one of the same identity is not published again."""

    version: Version
    new: bool
