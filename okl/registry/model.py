"""A registered model: its versions, which never change, and its aliases, which move by compare-and-swap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from okl.errors import ConfigError, ConflictError, OklError, RegistryError
from okl.registry.entry import CHAMPION, PREVIOUS, Entry, Publication, State
from okl.registry.lineage import Lineage
from okl.registry.payload import Payload, Write
from okl.registry.pruning import Pruned, prune
from okl.registry.reading import Expected, ModelLog, Which
from okl.registry.version import Published

ALIAS = re.compile(r"[a-z][a-z0-9_-]{0,49}")
MOST_FORMER = 20  # champions that rolling back can return to


@dataclass(frozen=True)
class RegisteredModel(ModelLog):
    """All that a registry holds under one name, and what changes it: each change is one entry of the log, or none.

    prepare : makes the registry if it is not there, before the first change
    """

    prepare: Callable[[], None] = field(repr=False, kw_only=True)

    def publish(
        self,
        write: Write,
        lineage: Lineage,
        *,
        promote: bool = False,
        aliases: Iterable[str] = (),
        expected: Expected | None = None,
        why: str = "",
    ) -> Published:
        """Add a version and have aliases name it, in one step, or add nothing.

        Parameters
        ----------
        write : puts its files into the empty folder that it is given: a model under `model`, and whatever goes with it
        lineage : where it comes from; a version of the same identity is returned as it is, and no alias is moved
        promote : whether it becomes champion; aliases : others that are to name it
        expected : what aliases must name until then; None: that the champion is its parent if it is to be promoted
        why : for people

        Raises
        ------
        ConflictError : an alias names something else by now; nothing is published
        RegistryError, DataError : the place cannot be written to; ModelError : no model was written that loads
        """
        names = [_check_alias(alias) for alias in aliases]
        held = ({CHAMPION: lineage.parent} if promote else {}) if expected is None else expected
        self.prepare()
        head = self.head()
        identity = self.identity(lineage, head)
        if found := self.with_identity(identity, lineage.parent, head):
            return Published(found, False)
        self.check_expected(held, head)
        payload = Payload(self.folder / "versions", head.number)
        try:
            files = payload.write(write)
        except BaseException as error:
            payload.remove()
            if isinstance(error, OklError | OSError):  # perhaps for that reason
                self._check_not_discarded(payload, self.head())
            raise

        def change(head: Entry) -> Entry | None:
            if self.with_identity(identity, lineage.parent, head):
                return None
            self.check_expected(held, head)
            self._check_not_discarded(payload, head)
            former = head.state.latest_entry
            made = Publication(head.state.latest + 1, payload.folder.name, identity, files, lineage, former)
            state = replace(head.state, aliases={**head.state.aliases, **dict.fromkeys(names, made.version)})
            return Entry(0, "publish", _promoted(state, made.version) if promote else state, made, why=why)

        try:
            entry = self.log.append(change)
        except ConflictError:
            payload.remove()
            raise  # with any other error an entry may name the files, and its writer was not told
        if entry.published is not None and entry.published.folder == payload.folder.name:
            return Published(self.opened(entry.published, entry.state), True)
        payload.remove()
        found = self.with_identity(identity, lineage.parent, entry)
        assert found is not None
        return Published(found, False)

    def promote(self, which: Which, *, expected: Expected | None = None, why: str = "") -> Entry:
        """Make a version the champion; the champion before becomes `previous`, in the same step.

        Parameters
        ----------
        which : number or alias
        expected : what aliases must name until then; None: the champion is the one of now, or already that version

        Returns
        -------
        the entry after which it is champion: the newest one, if it was already

        Raises
        ------
        ConflictError : an alias names something else by now; RegistryError : no such version, or it was pruned
        ModelError : it is damaged
        """
        head = self.head()
        chosen, held = self.resolved(which, head), {CHAMPION: head.state.champion} if expected is None else expected
        number = chosen.number
        chosen.load()

        def change(head: Entry) -> Entry | None:
            if head.state.champion == number and expected is None:
                return None
            self.check_expected(held, head)
            self._check_there(number, head)
            if head.state.champion == number:
                return None
            return Entry(0, "promote", _promoted(head.state, number), why=why)

        return self.log.append(change)

    def rollback(self, *, expected: Expected | None = None, why: str = "") -> Entry:
        """Make the champion before the champion again, and `previous` what was before that: twice goes back twice.

        Raises
        ------
        ConflictError : the champion is another one by now; RegistryError : no such model, or no champion before
        ModelError : that one is damaged
        """
        held = {CHAMPION: self.state().champion} if expected is None else expected

        def change(head: Entry) -> Entry:
            self.check_expected(held, head)
            former = head.state.former
            if not head.state.latest:
                raise self.absent()
            if head.state.latest == 1:
                raise RegistryError(f"{self.name} has version 1 alone: there is none before it to go back to.")
            if not former:
                raise RegistryError(
                    f"{self.name} has no champion to go back to. Choose a version: okl models promote {self.name} "
                    "VERSION."
                )
            self.resolved(former[-1], head).load()
            return Entry(0, "rollback", head.state.with_champion(former[-1], former[:-1]), why=why)

        return self.log.append(change)

    def move(self, aliases: Mapping[str, Which | None], *, expected: Expected | None = None, why: str = "") -> Entry:
        """Have aliases name versions, or nothing (None), all in one step; not the champion, which is promoted.

        expected : what aliases must name until then; None: these name what they name now

        Raises
        ------
        ConflictError : an alias names something else by now; RegistryError : no such version, or it was pruned
        """
        head = self.head()
        before = {_check_alias(alias): head.state.aliases.get(alias) for alias in aliases}
        held = before if expected is None else expected
        numbers = {
            alias: None if which is None else self.resolved(which, head).number for alias, which in aliases.items()
        }

        def change(head: Entry) -> Entry | None:
            self.check_expected(held, head)
            for number in numbers.values():
                if number is not None:
                    self._check_there(number, head)
            after = {alias: number for alias, number in {**head.state.aliases, **numbers}.items() if number is not None}
            if after == head.state.aliases:
                return None
            return Entry(0, "move", replace(head.state, aliases=after), why=why)

        return self.log.append(change)

    def prune(self, keep: int = 10, *, dry_run: bool = False, why: str = "") -> Pruned:
        """Remove the files of versions that no alias names, but for the newest ones; see `okl.registry.pruning`."""
        return prune(self, keep, dry_run, why)

    def _check_there(self, number: int, head: Entry) -> None:
        """Raise RegistryError if a version's files are gone."""
        _ = self.resolved(number, head).files

    def _check_not_discarded(self, payload: Payload, head: Entry) -> None:
        """Raise ConflictError if pruning took the files for a killed writer's: two prunings while they were written."""
        for number in range(payload.begun + 1, head.number + 1):
            if payload.folder.name in self.log.read(number).discarded:
                raise ConflictError(
                    f"What was to be published was removed as left behind: entry {number} of the log of {self.name} is "
                    "the second pruning since it was begun. Publish it again."
                )


def _promoted(state: State, number: int) -> State:
    former = state.former if state.champion is None else (*state.former, state.champion)
    return state.with_champion(number, former[-MOST_FORMER:])


def _check_alias(alias: str) -> str:
    if not ALIAS.fullmatch(alias):
        raise ConfigError(f"{alias!r} is no alias: it takes small letters, digits, - and _, and a letter first.")
    if alias in (CHAMPION, PREVIOUS):
        raise ConfigError(f"The alias {alias} is not moved by itself: promote a version, or roll back.")
    return alias
