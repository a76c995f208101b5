"""The log of a model: numbered files that are made once and never changed; the highest one holds the state.

Writing the next number is the compare-and-swap: of those who try, one makes the file. Nobody's clock matters. Each
entry states the seal of the one before, so that an entry that was changed or exchanged later is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from okl.errors import RegistryError
from okl.registry.entry import Entry, Publication, State
from okl.registry.exclusive import create
from okl.registry.sealed import read_sealed
from okl.store.places import Place

NAMED = re.compile(r"([0-9]{8})\.json")
BESIDE = re.compile(r"\.([0-9]{8})\.json\.[0-9a-f]{8}")
EMPTY = Entry(0, "move", State(), by="", at="", token="")
READERS = 8  # at a time: an object store takes some 30 ms for each entry
MOST_TRIES = 10_000
ADVICE = "Bring the file back from a backup of the registry."


class Log:
    """Reads and appends entries; those that were read are remembered, as they never change.

    Parameters
    ----------
    folder : where the entries are
    """

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self._known: dict[int, Entry] = {}

    def head(self) -> Entry:
        """The newest entry; one with number 0 if there is none yet.

        Raises
        ------
        RegistryError : it is damaged; DataError : the store does not answer
        """
        numbers = self._numbers()
        if not numbers:
            return EMPTY
        if numbers[-1] != len(numbers):
            # a folder that grows while it is listed may show a later name and not an earlier one
            for missing in sorted({*range(1, numbers[-1])}.difference(numbers)):
                self.read(missing)
        return self.read(numbers[-1])

    def read(self, number: int) -> Entry:
        """An entry by its number; 0 is what a log begins with.

        Raises
        ------
        RegistryError : it is missing or damaged
        """
        if number == 0:
            return EMPTY
        if number not in self._known:
            place = self._place(number)
            content = read_sealed(place, ADVICE)
            try:
                entry = Entry.from_stored(content)
            except (KeyError, TypeError) as error:
                raise RegistryError(f"{place} is no entry of a log ({error}). {ADVICE}") from None
            if entry.number != number:
                raise RegistryError(f"{place} is damaged: it says that it is entry {entry.number}. {ADVICE}")
            self._known[number] = entry
        return self._known[number]

    def entries(self) -> list[Entry]:
        """All of them, oldest first, each held against the one before.

        Raises
        ------
        RegistryError : one is damaged, missing, or does not follow the one before it
        """
        last = self.head().number
        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(self.read, range(1, last + 1)))
        for before, entry in zip([EMPTY, *found], found, strict=False):
            if entry.before_sha256 != before.sha256:
                raise RegistryError(
                    f"{self._place(entry.number)} does not follow {self._place(before.number).name}: one of them was "
                    "exchanged. Bring both back from a backup of the registry."
                )
        return found

    def append(self, change: Callable[[Entry], Entry | None]) -> Entry:
        """Append what follows from the newest entry, which is looked at again whenever another writer was faster.

        Parameters
        ----------
        change : the next entry (its number and seals are filled in) after the newest one, or None: nothing to do;
            raises ConflictError where what it is based on does not hold any more

        Returns
        -------
        the entry that was appended, or the newest one if there was nothing to do
        """
        for _ in range(MOST_TRIES):
            head = self.head()
            proposed = change(head)
            if proposed is None:
                return head
            entry = self._following(head, proposed)
            if create(self._place(entry.number), entry.stored()):
                return self.read(entry.number)
        raise RegistryError(
            f"{self.folder} names no entry that another writer does not have already. Look at its list."
        )

    def publication(self, version: int, head: Entry) -> Publication:
        """A version's; the entry is known of those that aliases name, and found by bisection of others."""
        number = self._number_of(version, head)
        published = self.read(number).published
        if published is None or published.version != version:
            raise RegistryError(
                f"{self._place(number)} does not publish version {version}. Bring the log back from a backup."
            )
        return published

    def publications(self, head: Entry) -> Iterator[Publication]:
        """Of all versions, the newest first."""
        number = head.state.latest_entry
        while published := self.read(number).published:
            yield published
            number = published.former_entry

    def leftovers(self, before: int) -> list[Path]:
        """What killed writers left beside entries with numbers up to one; on this machine only."""
        if not isinstance(self.folder, Path) or not self.folder.is_dir():
            return []
        found = ((BESIDE.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted(path for match, path in found if match and int(match[1]) <= before)

    def _following(self, head: Entry, proposed: Entry) -> Entry:
        """What was proposed, with all that its place in the log decides."""
        number, state = head.number + 1, proposed.state
        if proposed.published is not None:
            state = replace(state, latest=proposed.published.version, latest_entry=number)
        named = sorted({*state.aliases.values(), *state.former})
        after = replace(head, state=replace(head.state, latest=state.latest, latest_entry=state.latest_entry))
        entries = {str(version): self._number_of(version, after) for version in named}
        return replace(proposed, number=number, state=replace(state, entries=entries), before_sha256=head.sha256)

    def _number_of(self, version: int, head: Entry) -> int:
        """Of the entry that published a version: numbers of versions grow along the log."""
        if version == head.state.latest:
            return head.state.latest_entry
        if (known := head.state.entries.get(str(version))) is not None:
            return known
        low, high = version, head.state.latest_entry
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.read(middle).state.latest >= version else (middle + 1, high)
        return low

    def _numbers(self) -> list[int]:
        if isinstance(self.folder, Path):
            names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        else:
            names = [file.name for file, _ in self.folder.files()]
        return sorted(int(match[1]) for name in names if (match := NAMED.fullmatch(name)))

    def _place(self, number: int) -> Place:
        return self.folder / f"{number:08}.json"
