"""Pruning: the files of old versions go, their lineage stays; and so does every version that an alias names.

First an entry of the log says which versions lose their files, then the files go: whoever wants to promote one of them
is told that it was pruned, as both are decided by the order of the log. What killed writers left is removed by the
second pruning after it was begun: the first one may meet a writer at work. One that is slower than that finds its
folder among the entry's discarded ones, and publishes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from okl.errors import ConfigError
from okl.registry.entry import Entry, State
from okl.registry.exclusive import folders
from okl.registry.payload import NAMED, remove_version
from okl.registry.reading import ModelLog


@dataclass(frozen=True)
class Pruned:
    """What was removed. versions : numbers; size_bytes : of their files; leftovers : of killed writers, by name."""

    versions: tuple[int, ...]
    size_bytes: int
    leftovers: tuple[str, ...]


def prune(model: ModelLog, keep: int, dry_run: bool, why: str) -> Pruned:
    """Remove the files of all versions but the newest ones and those that aliases name.

    Parameters
    ----------
    keep : how many of the newest versions keep their files, at least 1; dry_run : remove nothing, say what would be

    Raises
    ------
    ConfigError : keep is below 1; RegistryError : a damaged log
    """
    if keep < 1:
        raise ConfigError(f"keep = {keep}, but at least the newest version stays: give 1 or more.")
    # listed before the log is read: what is published meanwhile is not taken for a leftover
    there = [folder.name for folder in folders(model.folder / "versions") if NAMED.fullmatch(folder.name)]
    before = model.head()
    proposed = _proposed(model, keep, there, why, before)
    if not dry_run:
        entry = model.log.append(lambda head: _proposed(model, keep, there, why, head))
        proposed = entry if entry.kind == "prune" and entry.number > before.number else None
    state, discarded = (before.state, ()) if proposed is None else (proposed.state, proposed.discarded)
    pruned = [one for one in model.log.publications(before) if state.is_pruned(one.version)]
    if not dry_run:
        for name in {*(one.folder for one in pruned), *discarded}.intersection(there):  # also what a killed one left
            remove_version(model.folder / "versions" / name)
        for path in model.log.leftovers(_last_pruning(model, before)):
            with suppress(FileNotFoundError):  # another one prunes, too
                path.unlink()
    gone = [one for one in pruned if not before.state.is_pruned(one.version)]
    return Pruned(tuple(sorted(one.version for one in gone)), sum(one.size_bytes for one in gone), discarded)


def _proposed(model: ModelLog, keep: int, there: list[str], why: str, head: Entry) -> Entry | None:
    """The entry that prunes after another one; None if there is nothing to remove, now or the next time."""
    state = _pruned(head.state, keep)
    unnamed = sorted({*there} - {published.folder for published in model.log.publications(head)})
    last = _last_pruning(model, head)
    discarded = tuple(name for name in unnamed if int(name.partition("-")[0]) < last)
    if state == head.state and not unnamed:
        return None
    return Entry(0, "prune", state, discarded=discarded, why=why)


def _pruned(state: State, keep: int) -> State:
    through = max(state.pruned_through, state.latest - keep)
    named = {*state.aliases.values()}
    kept = tuple(sorted(version for version in named if version <= through))
    former = tuple(version for version in state.former if version > through or version in kept)
    return replace(state, pruned_through=through, kept=kept, former=former)


def _last_pruning(model: ModelLog, head: Entry) -> int:
    """Number of the newest entry that prunes; 0 if there is none."""
    return next((number for number in range(head.number, 0, -1) if model.log.read(number).kind == "prune"), 0)
