"""What a model's log says: versions by number and alias, ancestors, the version that has an identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches

from okl.errors import ConflictError, OklError, RegistryError
from okl.registry.entry import CHAMPION, Entry, Publication, State
from okl.registry.exclusive import folders
from okl.registry.lineage import Lineage
from okl.registry.log import Log
from okl.registry.version import Version
from okl.store.places import Place

Which = int | str
Expected = Mapping[str, int | None]


@dataclass(frozen=True)
class ModelLog:
    """A model as it can be read; `RegisteredModel` adds what changes it.

    name : of the model; folder : of the model, where retraining keeps its own things, too
    """

    name: str
    folder: Place
    log: Log = field(repr=False)

    def head(self) -> Entry:
        """The newest entry of the log, with the state after it; its number is 0 where nothing was published yet."""
        return self.log.head()

    def state(self) -> State:
        """Aliases and what else holds now: one value, read at one moment."""
        return self.head().state

    def entries(self) -> list[Entry]:
        """All that ever happened, oldest first; see `Log.entries`."""
        return self.log.entries()

    def versions(self) -> list[Version]:
        """All versions, oldest first, those without files too."""
        head = self.head()
        return [self.opened(published, head.state) for published in self.log.publications(head)][::-1]

    def version(self, which: Which = CHAMPION) -> Version:
        """A version by number or alias.

        Raises
        ------
        RegistryError : there is no such version or alias; the message names those that there are
        """
        return self.resolved(which, self.head())

    def ancestry(self, version: Version) -> Iterator[Version]:
        """A version, its parent, and so on to the one that began anew."""
        head, parent = self.head(), version.lineage.parent
        yield version
        while parent is not None:
            version = self.resolved(parent, head)
            yield version
            parent = version.lineage.parent

    def find(self, lineage: Lineage) -> Version | None:
        """The version with this parent, these shards and these settings, if there is one."""
        head = self.head()
        return self.with_identity(self.identity(lineage, head), lineage.parent, head)

    def resolved(self, which: Which, head: Entry) -> Version:
        """A version by number or alias, as of an entry; see `version`."""
        state = head.state
        if not state.latest:
            raise self.absent()
        number = int(which) if str(which).isdecimal() else state.aliases.get(str(which))
        if number is None:
            named = ", ".join(f"{alias} ({version})" for alias, version in sorted(state.aliases.items())) or "none"
            make = f" To make one it: okl models promote {self.name} {state.latest}." if which == CHAMPION else ""
            raise RegistryError(f"{self.name} has no alias {str(which)!r}. It has {named}; or give a number.{make}")
        if not 1 <= number <= state.latest:
            raise RegistryError(f"{self.name} has no version {number}. It has 1 to {state.latest}.")
        return self.opened(self.log.publication(number, head), state)

    def absent(self) -> RegistryError:
        """The error about a model of which there is no version, with the closest names."""
        hint = f" Did you mean {close}?" if (close := self.close_names()) else ""
        return RegistryError(
            f"No version of {self.name} is in the registry {self.folder.parent}.{hint} See what is: okl models list; "
            "or give another one: --registry, OKL_REGISTRY."
        )

    def close_names(self) -> str:
        """Names of other models that look like this one's, "or" between; "" if there is none."""
        return " or ".join(get_close_matches(self.name, self.others(), 3))

    def others(self) -> list[str]:
        """Names of the other models of the registry; none where its store cannot be listed."""
        with suppress(OklError):
            return [folder.name for folder in folders(self.folder.parent) if folder.name != self.name]
        return []

    def opened(self, published: Publication, state: State) -> Version:
        """The version that an entry published, as of a state."""
        folder = self.folder / "versions" / published.folder
        return Version(self.name, folder, published, state.is_pruned(published.version))

    def identity(self, lineage: Lineage, head: Entry) -> str:
        """Of a version to be; raises RegistryError if its parent is not there."""
        return lineage.identity(None if lineage.parent is None else self.resolved(lineage.parent, head).identity)

    def with_identity(self, identity: str, parent: int | None, head: Entry) -> Version | None:
        """The version of an identity as of an entry, looked for among those after its parent."""
        for published in self.log.publications(head):
            if published.identity == identity:
                return self.opened(published, head.state)
            if parent is not None and published.version <= parent:
                break
        return None

    def check_expected(self, expected: Expected, head: Entry) -> None:
        """Raise ConflictError unless aliases name what is expected (None: nothing) after an entry."""
        for alias, version in expected.items():
            now = head.state.aliases.get(alias)
            if now != version:
                told = [f"{self.name}@{one}" if one else "nothing" for one in (now, version)]
                raise ConflictError(
                    f"The alias {alias} of {self.name} names {told[0]} by now, not {told[1]}: entry {head.number} of "
                    f"its log is a {head.kind} by {head.by}. Nothing was changed; see okl models show {self.name}, "
                    "and decide again."
                )
