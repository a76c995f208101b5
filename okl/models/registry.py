"""The model registry: versions, aliases moved by compare-and-swap, and pruning."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from okl.foundation import locations
from okl.foundation.errors import ConfigError, ConflictError, DataError, ModelError, OklError, RegistryError
from okl.foundation.folders import PLACE_FAULTS, UPLOADS, RunFolder, local_folder, sync
from okl.foundation.validation import NAME, check_name
from okl.models.file import Model, load_model
from okl.models.registry_log import (
    CHAMPION,
    PINNED,
    PREVIOUS,
    VERSION_FOLDER,
    AliasState,
    Entry,
    Lineage,
    Publication,
    RegistryLog,
    create_exclusively,
    folders,
    read_sealed,
    seal,
    unwritable,
)

# Payloads: the files of a version, complete before the log names them.
#
# So a reader never meets a part of a version. What a killed writer leaves is named by no entry; pruning removes it.

Write = Callable[[Path], object]
MODEL = "model"
PAYLOAD_ADVICE = "Restore the file from a backup, or use another version: okl models rollback, okl models promote."


def write_files(folder: locations.Place, write: Write) -> dict[str, dict[str, Any]]:
    """Write the files of a version and move them to its folder; return bytes and sha256 of each, by path.

    folder : new; its name starts with the number of the newest entry then, by which pruning finds abandoned files
    write : puts files into the empty folder that it is given, a model under `model`
    Raises ModelError : no model was written that loads; RegistryError : no room, no permission; DataError : from a
        store
    """
    try:
        if isinstance(folder, Path):
            locations.make_folders(folder.parent)
            folder.mkdir()
            return _written(folder, write)
        local, remote = RunFolder(local_folder(folder)), folder
        try:
            local.open()
            files = _written(local.staging, write)
            with ThreadPoolExecutor(UPLOADS) as pool:
                list(pool.map(lambda path: (remote / path).put(local.staging / path), files))
        finally:
            local.discard()
            local.close()
        return files
    except OSError as error:
        if error.errno not in PLACE_FAULTS:
            raise
        raise unwritable(folder, error) from None


def remove_version(folder: locations.Place) -> None:
    """Remove the files of a version, if there are any."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for file, _ in folder.files(below=True):
        file.unlink()


def _written(folder: Path, write: Write) -> dict[str, dict[str, Any]]:
    write(folder)
    load_model(folder / MODEL)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in paths:
        sync(path)
    for parent in sorted({folder.parent, folder, *(path.parent for path in paths)}):
        sync(parent)
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": locations.file_sha256(path)}
        for path in paths
    }


# Versions.


@dataclass(frozen=True)
class Version:
    """A version, shown as NAME@NUMBER, with its folder, its publication, and whether its files were pruned."""

    name: str
    folder: locations.Place
    published: Publication
    pruned: bool = False

    @property
    def number(self) -> int:
        return self.published.version

    @property
    def lineage(self) -> Lineage:
        """Return the lineage of the version."""
        return self.published.lineage

    @property
    def files(self) -> locations.Place:
        """Return the folder, of a version whose files are there; raises RegistryError if it was pruned."""
        if self.pruned:
            raise RegistryError(
                f"{self} was pruned, so its files no longer exist. List the others: okl models show {self.name}."
            )
        return self.folder

    @property
    def model_folder(self) -> locations.Place:
        """Return the folder of the model itself; raise RegistryError if it was pruned."""
        return self.files / MODEL

    def load(self) -> Model:
        """Open the model; raises ModelError if it is missing or damaged, RegistryError if it was pruned."""
        try:
            return load_model(self.model_folder)
        except ModelError as error:
            raise ModelError(f"{self}: {error} {PAYLOAD_ADVICE}") from None

    def verify(self) -> None:
        """Compare all files with the digests in the log; raise RegistryError that names one that differs."""
        folder = self.files
        for path, recorded in self.published.files.items():
            file = folder / path
            try:
                digest = locations.file_sha256(file)
            except OSError as error:
                raise RegistryError(f"{file} cannot be read ({error.strerror}). {PAYLOAD_ADVICE}") from None
            except DataError as error:
                raise RegistryError(f"{error} {PAYLOAD_ADVICE}") from None
            if digest != recorded["sha256"]:
                raise RegistryError(f"{file} is damaged: the sha256 differs from that in the log. {PAYLOAD_ADVICE}")

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"


class Published(NamedTuple):
    """A version, and whether this call published it: one of the same identity is not published again."""

    version: Version
    new: bool


# Pruning: files of old versions are removed, lineage and aliased versions stay.
#
# First an entry of the log names the versions that lose their files, then the files go: a process that promotes one of
# them gets an error, because the order of the log decides both. Files of killed writers are removed by
# the second pruning after their start: the first one may meet an active writer. A slower writer finds
# its folder among the entry's discarded ones, and publishes nothing.


@dataclass(frozen=True)
class Pruned:
    """Result of pruning. versions : numbers; size_bytes : of their files; leftovers : of killed writers, by name."""

    versions: tuple[int, ...]
    size_bytes: int
    leftovers: tuple[str, ...]


# Registered models: versions and aliases.

ALIAS = re.compile(r"[a-z][a-z0-9_-]{0,49}")
MOST_FORMER = 20  # champions that rolling back can return to

Which = int | str
Expected = Mapping[str, int | None]


@dataclass(frozen=True)
class RegisteredModel:
    """A registered model: its log, its versions and its aliases; each change adds one entry to the log, or none.

    name : of the model; folder : of the model, where retraining keeps its own things, too
    prepare : makes the registry if it is not there, before the first change
    """

    name: str
    folder: locations.Place
    log: RegistryLog = field(repr=False)
    prepare: Callable[[], None] = field(repr=False, kw_only=True)

    def head(self) -> Entry:
        """Return the newest entry of the log and the state after it; number 0 if nothing was published."""
        return self.log.head()

    def state(self) -> AliasState:
        """Return aliases and what else holds now: one value, read at one moment."""
        return self.head().state

    def entries(self) -> list[Entry]:
        """Return all entries of the log, oldest first; see `RegistryLog.entries`."""
        return self.log.entries()

    def versions(self) -> list[Version]:
        """Return all versions, oldest first, those without files too."""
        head = self.head()
        return [self.opened(published, head.state) for published in self.log.publications(head)][::-1]

    def version(self, which: Which = CHAMPION) -> Version:
        """Return a version by number or alias.

        Raises
        ------
        RegistryError : there is no such version or alias; the message names those that there are
        """
        return self.resolved(which, self.head())

    def ancestry(self, version: Version) -> Iterator[Version]:
        """Return a version, its parent, and so on to the one without a parent."""
        head, parent = self.head(), version.lineage.parent
        yield version
        while parent is not None:
            version = self.resolved(parent, head)
            yield version
            parent = version.lineage.parent

    def find(self, lineage: Lineage) -> Version | None:
        """Return the version with this parent, these shards and these settings, if there is one."""
        head = self.head()
        return self.with_identity(self.identity(lineage, head), lineage.parent, head)

    def resolved(self, which: Which, head: Entry) -> Version:
        """Return a version by number or alias, as of an entry; see `version`."""
        state = head.state
        if not state.latest:
            raise self.absent()
        number = int(which) if str(which).isdecimal() else state.aliases.get(str(which))
        if number is None:
            named = ", ".join(f"{alias} ({version})" for alias, version in sorted(state.aliases.items())) or "none"
            make = f" To set it: okl models promote {self.name} {state.latest}." if which == CHAMPION else ""
            raise RegistryError(
                f"{self.name} has no alias {str(which)!r}; its aliases: {named}. Give an alias or a version "
                f"number.{make}"
            )
        if not 1 <= number <= state.latest:
            raise RegistryError(f"{self.name} has no version {number}, only 1 to {state.latest}.")
        return self.opened(self.log.publication(number, head), state)

    def absent(self) -> RegistryError:
        hint = f" Did you mean {close}?" if (close := self.close_names()) else ""
        return RegistryError(
            f"The registry {self.folder.parent} has no model {self.name}.{hint} List its models (okl models list), "
            "or give another registry: --registry, OKL_REGISTRY."
        )

    def close_names(self) -> str:
        """Return names of other models that look like this one's, "or" between; "" if there is none."""
        return " or ".join(get_close_matches(self.name, self.others(), 3))

    def others(self) -> list[str]:
        """Return names of the other models of the registry; none where its store cannot be listed."""
        with suppress(OklError):
            return [folder.name for folder in folders(self.folder.parent) if folder.name != self.name]
        return []

    def opened(self, published: Publication, state: AliasState) -> Version:
        folder = self.folder / "versions" / published.folder
        return Version(self.name, folder, published, state.is_pruned(published.version))

    def identity(self, lineage: Lineage, head: Entry) -> str:
        """Return the identity of a version to be published; raise RegistryError if its parent is missing."""
        return lineage.identity(
            None if lineage.parent is None else self.resolved(lineage.parent, head).published.identity
        )

    def with_identity(self, identity: str, parent: int | None, head: Entry) -> Version | None:
        """Return the version of an identity as of an entry, among those after its parent; None if there is none."""
        for published in self.log.publications(head):
            if published.identity == identity:
                return self.opened(published, head.state)
            if parent is not None and published.version <= parent:
                break
        return None

    def check_expected(self, expected: Expected, head: Entry) -> None:
        """Raise ConflictError unless aliases name the expected versions (None: nothing) after an entry."""
        for alias, version in expected.items():
            now = head.state.aliases.get(alias)
            if now != version:
                versions = [f"{self.name}@{number}" if number else "nothing" for number in (now, version)]
                raise ConflictError(
                    f"The alias {alias} of {self.name} is now {versions[0]}, not {versions[1]}: entry {head.number} of "
                    f"the log is a {head.kind} by {head.by}. Nothing was changed. Check okl models show {self.name}, "
                    "and retry."
                )

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
        """Add a version and set aliases to it, in one step, or add nothing.

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
        required = ({CHAMPION: lineage.parent} if promote else {}) if expected is None else expected
        self.prepare()
        head = self.head()
        identity = self.identity(lineage, head)
        if existing := self.with_identity(identity, lineage.parent, head):
            return Published(existing, False)
        self.check_expected(required, head)
        folder = self.folder / "versions" / f"{head.number:08}-{secrets.token_hex(6)}"

        def discard() -> None:
            with suppress(OSError, DataError):  # what cannot be removed now is left to pruning
                remove_version(folder)

        try:
            files = write_files(folder, write)
        except BaseException as error:
            discard()
            if isinstance(error, OklError | OSError):  # perhaps for that reason
                self._check_not_discarded(folder.name, self.head())
            raise

        def change(head: Entry) -> Entry | None:
            if self.with_identity(identity, lineage.parent, head):
                return None
            self.check_expected(required, head)
            self._check_not_discarded(folder.name, head)
            former = head.state.latest_entry
            made = Publication(head.state.latest + 1, folder.name, identity, files, lineage, former)
            state = replace(head.state, aliases={**head.state.aliases, **dict.fromkeys(names, made.version)})
            return Entry(0, "publish", _promoted(state, made.version) if promote else state, made, why=why)

        try:
            entry = self.log.append(change)
        except ConflictError:
            discard()
            raise  # with any other error an entry may name the files although its writer got an error
        if entry.published is not None and entry.published.folder == folder.name:
            return Published(self.opened(entry.published, entry.state), True)
        discard()
        existing = self.with_identity(identity, lineage.parent, entry)
        assert existing is not None
        return Published(existing, False)

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
        chosen, required = self.resolved(which, head), {CHAMPION: head.state.champion} if expected is None else expected
        number = chosen.number
        chosen.load()

        def change(head: Entry) -> Entry | None:
            if head.state.champion == number and expected is None:
                return None
            self.check_expected(required, head)
            _ = self.resolved(number, head).files  # raises an error if it was pruned
            if head.state.champion == number:
                return None
            return Entry(0, "promote", _promoted(head.state, number), why=why)

        return self.log.append(change)

    def rollback(self, *, expected: Expected | None = None, why: str = "") -> Entry:
        """Restore the previous champion, and set `previous` to the one before it: two calls go back two champions.

        Raises
        ------
        ConflictError : the champion is another one by now; RegistryError : no such model, or no champion before
        ModelError : that one is damaged
        """
        required = {CHAMPION: self.state().champion} if expected is None else expected

        def change(head: Entry) -> Entry:
            self.check_expected(required, head)
            former = head.state.former
            if not head.state.latest:
                raise self.absent()
            if head.state.latest == 1:
                raise RegistryError(f"{self.name} has only version 1: there is no earlier version to roll back to.")
            if not former:
                raise RegistryError(
                    f"{self.name} has no earlier champion to roll back to. Promote a version: okl models promote "
                    f"{self.name} VERSION."
                )
            self.resolved(former[-1], head).load()
            return Entry(0, "rollback", head.state.with_champion(former[-1], former[:-1]), why=why)

        return self.log.append(change)

    def set_aliases(
        self, aliases: Mapping[str, Which | None], *, expected: Expected | None = None, why: str = ""
    ) -> Entry:
        """Set aliases to versions, or remove them (None), all in one step; not the champion, which is promoted.

        expected : what aliases must name until then; None: these name what they name now

        Raises
        ------
        ConflictError : an alias names something else by now; RegistryError : no such version, or it was pruned
        """
        head = self.head()
        before = {_check_alias(alias): head.state.aliases.get(alias) for alias in aliases}
        required = before if expected is None else expected
        numbers = {
            alias: None if which is None else self.resolved(which, head).number for alias, which in aliases.items()
        }

        def change(head: Entry) -> Entry | None:
            self.check_expected(required, head)
            for number in numbers.values():
                if number is not None:
                    _ = self.resolved(number, head).files  # raises an error if it was pruned
            after = {alias: number for alias, number in {**head.state.aliases, **numbers}.items() if number is not None}
            if after == head.state.aliases:
                return None
            return Entry(0, "move", replace(head.state, aliases=after), why=why)

        return self.log.append(change)

    def pin(self, *, release: bool = False, why: str = "") -> Entry:
        """Pin the champion: retraining checks and stores new shards, and trains nothing until the pin is released.

        The pin moves with the champion where a person promotes another version or rolls back.

        Raises
        ------
        ConflictError : the champion is another one by now; RegistryError : no such model, or no champion
        """
        expected = {CHAMPION: self.version().number}
        return self.set_aliases({PINNED: None if release else CHAMPION}, expected=expected, why=why)

    def prune(self, keep: int = 10, *, dry_run: bool = False, why: str = "") -> Pruned:
        """Remove the files of all versions but the newest ones and those with an alias.

        Parameters
        ----------
        keep : how many of the newest versions keep their files, at least 1
        dry_run : remove nothing, report what would be

        Raises
        ------
        ConfigError : keep is below 1; RegistryError : a damaged log
        """
        if keep < 1:
            raise ConfigError(f"keep = {keep}; expected at least 1, because the newest version is not pruned.")
        # listed before the log is read, so that new versions are not taken for abandoned files
        present = [folder.name for folder in folders(self.folder / "versions") if VERSION_FOLDER.fullmatch(folder.name)]
        before = self.head()
        proposed = self._proposed(keep, present, why, before)
        if not dry_run:
            entry = self.log.append(lambda head: self._proposed(keep, present, why, head))
            proposed = entry if entry.kind == "prune" and entry.number > before.number else None
        state, discarded = (before.state, ()) if proposed is None else (proposed.state, proposed.discarded)
        pruned = [publication for publication in self.log.publications(before) if state.is_pruned(publication.version)]
        if not dry_run:
            # also files left by a killed process
            for name in {*(publication.folder for publication in pruned), *discarded}.intersection(present):
                remove_version(self.folder / "versions" / name)
            for path in self.log.leftovers(self._last_pruning(before)):
                with suppress(FileNotFoundError):  # another one prunes, too
                    path.unlink()
        gone = [publication for publication in pruned if not before.state.is_pruned(publication.version)]
        return Pruned(
            tuple(sorted(publication.version for publication in gone)),
            sum(publication.size_bytes for publication in gone),
            discarded,
        )

    def _proposed(self, keep: int, present: list[str], why: str, head: Entry) -> Entry | None:
        """Return the entry that prunes after another one; None if there is nothing to remove, now or the next time."""
        state = _pruned(head.state, keep)
        unnamed = sorted({*present} - {published.folder for published in self.log.publications(head)})
        last = self._last_pruning(head)
        discarded = tuple(name for name in unnamed if _begun(name) < last)
        # a killed writer's file is removed by the pruning after the next one, so that this must be an entry
        if state == head.state and not unnamed and not self.log.leftovers(head.number + 1):
            return None
        return Entry(0, "prune", state, discarded=discarded, why=why)

    def _last_pruning(self, head: Entry) -> int:
        """Return number of the newest entry that prunes; 0 if there is none."""
        return next((number for number in range(head.number, 0, -1) if self.log.read(number).kind == "prune"), 0)

    def _check_not_discarded(self, folder: str, head: Entry) -> None:
        """Raise ConflictError if pruning took the files for a killed writer's: two prunings while they were written."""
        for number in range(_begun(folder) + 1, head.number + 1):
            if folder in self.log.read(number).discarded:
                raise ConflictError(
                    f"The unpublished files were pruned: entry {number} of the log of {self.name} is "
                    "the second pruning since publishing started. Publish again."
                )


def _begun(folder: str) -> int:
    """Return the number of the newest entry when writing to the folder of a version began."""
    return int(folder.partition("-")[0])


def _promoted(state: AliasState, number: int) -> AliasState:
    former = state.former if state.champion is None else (*state.former, state.champion)
    return state.with_champion(number, former[-MOST_FORMER:])


def _check_alias(alias: str) -> str:
    if not ALIAS.fullmatch(alias):
        raise ConfigError(
            f"{alias!r} is not a valid alias: it has lower-case letters, digits, - and _, and starts with a letter."
        )
    if alias in (CHAMPION, PREVIOUS):
        raise ConfigError(f"The alias {alias} cannot be set directly. Promote a version, or roll back.")
    return alias


def _pruned(state: AliasState, keep: int) -> AliasState:
    through = max(state.pruned_through, state.latest - keep)
    named = {*state.aliases.values()}
    retained = tuple(sorted(version for version in named if version <= through))
    former = tuple(version for version in state.former if version > through or version in retained)
    return replace(state, pruned_through=through, kept=retained, former=former)


# The registry.

MARK = "registry.json"


class Registry:
    """Models by name; opening a registry is cheap, and the first change creates it.

    Parameters
    ----------
    location : folder or URL; None: OKL_REGISTRY, or `registry` in the okl home folder
    """

    def __init__(self, location: str | os.PathLike[str] | None = None) -> None:
        self.location = registry_location(location)
        self.folder: locations.Place = locations.place_of(self.location)
        self._prepared = False

    def model(self, name: str) -> RegisteredModel:
        """Return a model, with or without versions; raise ConfigError for an invalid name."""
        folder = self.folder / check_name(name)
        return RegisteredModel(name, folder, RegistryLog(folder / "log"), prepare=self.prepare)

    def models(self) -> list[RegisteredModel]:
        """Return all models with a version, by name; raise RegistryError if there is no registry."""
        self.check()
        registered = [self.model(folder.name) for folder in folders(self.folder) if NAME.fullmatch(folder.name)]
        return [model for model in registered if model.state().latest]

    def check(self) -> None:
        read_sealed(
            self.folder / MARK,
            "Publishing a model creates a registry. Otherwise give another one: --registry, OKL_REGISTRY.",
        )

    def prepare(self) -> None:
        """Create the registry if necessary, and check that only one of two concurrent writers can succeed there.

        Raises
        ------
        RegistryError : it cannot be made, or its store makes a file again that is there; DataError : no answer
        """
        if self._prepared:
            return
        mark = self.folder / MARK
        if create_exclusively(mark, seal({"token": secrets.token_hex(16)})) and create_exclusively(
            mark, seal({"token": secrets.token_hex(16)})
        ):
            raise RegistryError(
                f"{self.folder}: the storage overwrites files instead of creating them exclusively, so "
                "two concurrent writers could both succeed. Use a folder, or storage with conditional writes."
            )
        self.check()
        self._prepared = True


def registry_location(location: str | os.PathLike[str] | None = None) -> str:
    """Return the absolute location of the given registry, by default that of OKL_REGISTRY, or the one in okl's home."""
    given = os.fspath(location) if location is not None else os.environ.get("OKL_REGISTRY", "")
    return locations.absolute_location(given) if given else str(locations.okl_home() / "registry")
