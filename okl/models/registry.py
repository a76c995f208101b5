"""The model registry: versions, aliases moved by compare-and-swap, lineage and pruning."""

from __future__ import annotations

import errno
import getpass
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from okl.foundation import locations
from okl.foundation.errors import ConfigError, ConflictError, DataError, ModelError, OklError, RegistryError
from okl.foundation.folders import PLACE_FAULTS, UPLOADS, RunFolder, local_folder, sync
from okl.foundation.validation import NAME, check_fields, check_name, fault, parse_json, sealed, validated
from okl.models.file import Model, load_model

# Sealed JSON: it contains its own digest.

FORMAT_VERSION = 1


def seal(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file, with the version of its format in front and its digest at the end."""
    return sealed({"format_version": FORMAT_VERSION, **content})


def read_sealed(path: locations.Place, advice: str) -> dict[str, Any]:
    """Read a sealed file, its digest included; RegistryError, with advice, if it is missing, damaged or too new."""
    try:
        stored = path.read_bytes()
    except DataError as error:
        raise RegistryError(f"{error} {advice}") from None
    except OSError as error:
        raise RegistryError(f"{path} cannot be read ({error.strerror}). {advice}") from None
    try:
        content: dict[str, Any] = parse_json(stored)
        version = content["format_version"]
    except (ValueError, KeyError, TypeError):
        raise RegistryError(f"{path} is damaged: not valid JSON of a registry. {advice}") from None
    if not isinstance(version, int):
        raise RegistryError(f"{path} is damaged: it has no format_version. {advice}")
    if version > FORMAT_VERSION:
        raise RegistryError(
            f"{path} has format {version} of a later okl version; this one reads up to {FORMAT_VERSION}. Upgrade okl."
        )
    if seal(content) != stored:
        raise RegistryError(f"{path} is damaged: the sha256 does not match. {advice}")
    return content


# Exclusive creation of files: one of several writers succeeds.
#
# On this machine the content is written and synced under another name and then linked to its own: linking fails where
# a file is, and what it makes is whole. An object store takes a put that fails where an object exists (S3: If-
# None-Match; Google: ifGenerationMatch=0; Azure: If-None-Match). Contents are to be unlike, by a random token: so
# a writer whose answer was lost finds its own content there.

CREATING = (*locations.EXTRAS, "memory")  # kinds of stores that make a file only where none is, in one step
TAKEN, CONTESTED = 412, 409  # HTTP: an object is there; another one is being made at this moment
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def create_exclusively(path: locations.Place, content: bytes) -> bool:
    """Create a file atomically unless it exists; return whether the file now holds this content.

    Raises RegistryError : the place cannot be written to, or is of a kind where two writers could both win
    Raises DataError : an object store that does not answer, or refuses; whether the file was made is not known then
    """
    return _create_remote(path, content) if isinstance(path, locations.RemotePath) else _create_local(path, content)


def folders(parent: locations.Place) -> list[locations.Place]:
    """Return folders in a folder, by name; none where there is no folder."""
    if isinstance(parent, locations.RemotePath):
        return [
            parent / name
            for name in locations.with_retries(lambda: _remote_folders(parent), f"{parent} cannot be listed")
        ]
    if not parent.is_dir():
        return []
    return [folder for folder in sorted(parent.iterdir()) if folder.is_dir() and folder.name[0] != "."]


def unwritable(path: locations.Place, error: OSError) -> RegistryError:
    """Return the error for a file that this machine cannot write."""
    return RegistryError(
        f"{path} cannot be written: {error.strerror}. Nothing was changed. Check disk space and permissions, and retry."
    )


def _create_local(path: Path, content: bytes) -> bool:
    temporary_path = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        locations.make_folders(path.parent)
        with open(temporary_path, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(temporary_path, path)
        except FileExistsError:  # on a network's file system perhaps our own, made by a call whose answer was lost
            return path.read_bytes() == content
        for folder in (path.parent, path.parent.parent):
            sync(folder)
        return True
    except OSError as error:
        if error.errno in NO_LINKS and temporary_path.exists():
            raise RegistryError(
                f"{path.parent} is on a file system without hard links ({error.strerror}), where two concurrent "
                "writers could both succeed. Use another file system, or s3://, gs:// or abfs://."
            ) from None
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):  # it was never made
            temporary_path.unlink()


def _create_remote(remote: locations.RemotePath, content: bytes) -> bool:
    kind = remote.url.partition("://")[0].lower()
    if kind not in CREATING:
        raise RegistryError(
            f"{kind}:// cannot create a file exclusively, so two concurrent writers could both succeed. Keep the "
            "registry in a local folder, or under s3://, gs:// or abfs://."
        )
    fs, path = locations.file_system(remote.url)

    def put() -> bool:
        try:
            fs.pipe_file(path, content, mode="create")
        except Exception as error:  # of whatever kind: each store has a family of its own
            if locations.status_of(error) == CONTESTED:
                raise ConnectionError("another writer is creating a file of this name") from None
            if not isinstance(error, FileExistsError) and locations.status_of(error) != TAKEN:
                raise
            stored: bytes = fs.cat_file(path)
            return stored == content
        return True

    return locations.with_retries(put, f"{remote} cannot be written")


def _remote_folders(remote: locations.RemotePath) -> list[str]:
    fs, path = locations.file_system(remote.url)
    fs.invalidate_cache()
    try:
        entries: list[dict[str, Any]] = fs.ls(path, detail=True)
    except FileNotFoundError:
        return []
    names = (str(entry["name"]).rstrip("/") for entry in entries if entry["type"] == "directory")
    return sorted(name.rpartition("/")[2] for name in names)


# Lineage of versions.

WINDOW_ROWS = "window_rows"  # in the environment of what was solved anew: rows of the shards that were read


def is_of_retraining(result: Mapping[str, Any]) -> bool:
    """Return whether a result.json next to a model was written by a retraining: its keys differ from a run's.

    Its `progressive` is a list of shards, and its `metrics` are those of champion and challenger on reserved rows.
    """
    return "judged_on" in result


@dataclass(frozen=True)
class Lineage:
    """Lineage of one version; ancestors have their own. It is stored as JSON and outlasts pruning.

    parent : number of the version that it continued from; None: a new start
    shards : what this version learned and its parent had not, in order: sha256, name, rows and what else is known
    settings : those that decide its bits, and what else makes learning the same shards again another thing
    environment : code, packages, processor; metrics : measured figures; decision : what was decided, and why
    """

    parent: int | None = None
    shards: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    decision: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert all values to those that JSON restores; raise RegistryError for values that JSON cannot hold."""
        try:
            for name, value in asdict(self).items():
                as_json = json.loads(json.dumps(value, allow_nan=False))
                object.__setattr__(self, name, tuple(as_json) if name == "shards" else as_json)
        except (TypeError, ValueError) as error:
            raise RegistryError(
                f"A lineage holds values that JSON cannot represent ({error}). Give plain, finite values."
            ) from None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def identity(self, parent_identity: str | None) -> str:
        """Return the identity of a version, without code and packages: an upgrade does not train on a window again."""
        shards = [shard["sha256"] for shard in self.shards]
        content = {"parent": parent_identity, "shards": shards, "settings": dict(self.settings)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


# Log entries.

VERSION_FOLDER = re.compile(r"[0-9]{8,}-[0-9a-f]{12}")
Kind = Literal["publish", "promote", "rollback", "move", "prune"]
CHAMPION, PREVIOUS, CANDIDATE = "champion", "previous", "candidate"
PINNED = "pinned"  # the champion while retraining does not replace it
BASELINE = "baseline"  # in the metrics of a published run: the figure of the majority class or mean by its criterion


@dataclass(frozen=True)
class Publication:
    """A version, from the entry that published it.

    version : number, from 1; folder : its name in the model's folder `versions`
    identity : digest of what decided it; files : bytes and sha256 of each, by path in the folder
    former_entry : number of the entry that published the version before; 0: none
    """

    version: int
    folder: str
    identity: str
    files: dict[str, dict[str, Any]]
    lineage: Lineage
    former_entry: int

    @property
    def size_bytes(self) -> int:
        return sum(int(file["bytes"]) for file in self.files.values())


@dataclass(frozen=True)
class AliasState:
    """State after an entry, which readers need first.

    aliases : versions by alias; entries : numbers of the entries that published those versions, and former ones
    former : champions before this one, the last of them is the alias `previous`
    latest, latest_entry : number of the newest version, and of the entry that published it
    pruned_through, kept : versions up to that number have lost their files, but for those kept
    """

    aliases: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    former: tuple[int, ...] = ()
    latest: int = 0
    latest_entry: int = 0
    pruned_through: int = 0
    kept: tuple[int, ...] = ()

    @property
    def champion(self) -> int | None:
        return self.aliases.get(CHAMPION)

    def is_pruned(self, version: int) -> bool:
        return version <= self.pruned_through and version not in self.kept

    def with_champion(self, version: int, former: tuple[int, ...]) -> AliasState:
        """Return the state with another champion; a pin moves to it, and it is no longer a candidate."""
        aliases = {name: number for name, number in self.aliases.items() if name not in (CHAMPION, PREVIOUS)}
        if aliases.get(CANDIDATE) == version:
            del aliases[CANDIDATE]
        aliases[CHAMPION] = version
        if PINNED in aliases:
            aliases[PINNED] = version
        if former:
            aliases[PREVIOUS] = former[-1]
        return replace(self, aliases=aliases, former=former)


@dataclass(frozen=True)
class Entry:
    """One line of the log; number orders entries, `at` only informs.

    number : from 1, without gaps; state : after it; published : by kind publish; discarded : folders, by kind prune
    why, by, at : for people; before_sha256 : seal of the entry before; token : unlike any other's
    """

    number: int
    kind: Kind
    state: AliasState
    published: Publication | None = None
    discarded: tuple[str, ...] = ()
    why: str = ""
    before_sha256: str = ""
    by: str = field(default_factory=lambda: _author())
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    sha256: str = ""

    def stored(self) -> bytes:
        return seal(asdict(self))

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> Entry:
        """Build the record from stored JSON; raise ValueError for a field that is missing or malformed."""
        given = {name: value for name, value in content.items() if name != "format_version"}
        check_fields(cls, given)
        entry = validated(cls, given)
        published = entry.published
        named = [*entry.discarded, *([published.folder] if published else [])]
        if stray := [name for name in named if not VERSION_FOLDER.fullmatch(name)]:
            raise ValueError(f"{stray[0]!r} is not the folder of a version")
        for path in published.files if published else ():
            if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                raise ValueError(f"the path {path!r} leads out of the version")
        return entry


def _author() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return f"{user}@{platform.node()}:{os.getpid()}"


# The log: numbered files that never change; the highest number holds the state.
#
# Writing the next number is the compare-and-swap: of those who try, one creates the file. No clock matters. Each
# entry states the seal of the one before, so that an entry that was changed or exchanged later is found.

NAMED = re.compile(r"([0-9]{8})\.json")
TEMPORARY = re.compile(r"\.([0-9]{8})\.json\.[0-9a-f]{8}")
EMPTY = Entry(0, "move", AliasState(), by="", at="", token="")
READERS = 8  # at a time: an object store takes some 30 ms for each entry
MOST_TRIES = 10_000
ADVICE = "Restore the file from a backup of the registry."


class RegistryLog:
    """Log of a model in a folder; entries that were read are cached, as they never change."""

    def __init__(self, folder: locations.Place) -> None:
        self.folder = folder
        self._known: dict[int, Entry] = {}

    def head(self) -> Entry:
        """Return the newest entry, number 0 if none; RegistryError if damaged, DataError without an answer."""
        numbers = self._numbers()
        if not numbers:
            return EMPTY
        if numbers[-1] != len(numbers):
            # a folder that grows while it is listed may show a later name and not an earlier one
            for missing in sorted({*range(1, numbers[-1])}.difference(numbers)):
                self.read(missing)
        return self.read(numbers[-1])

    def read(self, number: int) -> Entry:
        """Return an entry by its number; 0 is the start of a log. Raises RegistryError (it is missing or damaged)."""
        if number == 0:
            return EMPTY
        if number not in self._known:
            path = self._place(number)
            content = read_sealed(path, ADVICE)
            try:
                entry = Entry.from_stored(content)
            except ValueError as error:
                raise RegistryError(f"{path} is not an entry of a log ({fault(error)}). {ADVICE}") from None
            if entry.number != number:
                raise RegistryError(f"{path} is damaged: its number is {entry.number}. {ADVICE}")
            self._known[number] = entry
        return self._known[number]

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first; RegistryError for one that does not follow the one before it."""
        last = self.head().number
        with ThreadPoolExecutor(READERS) as pool:
            entries = list(pool.map(self.read, range(1, last + 1)))
        for before, entry in zip([EMPTY, *entries], entries, strict=False):
            if entry.before_sha256 != before.sha256:
                raise RegistryError(
                    f"{self._place(entry.number)} does not follow {self._place(before.number).name}: one of them was "
                    "replaced. Restore both from a backup of the registry."
                )
        return entries

    def append(self, change: Callable[[Entry], Entry | None]) -> Entry:
        """Append the entry that `change` makes of the newest one; repeat whenever another writer was faster.

        change : returns None where nothing is to be done; raises ConflictError where its basis does not hold any more
        Returns the entry that was appended, or the newest one if there was nothing to do.
        """
        for _ in range(MOST_TRIES):
            head = self.head()
            proposed = change(head)
            if proposed is None:
                return head
            entry = self._following(head, proposed)
            if create_exclusively(self._place(entry.number), entry.stored()):
                return self.read(entry.number)
        raise RegistryError(f"{self.folder}: no free entry number in the log. Check its files.")

    def publication(self, version: int, head: Entry) -> Publication:
        """Return the publication of a version; its entry is found by its alias, otherwise by bisection."""
        number = self._number_of(version, head)
        published = self.read(number).published
        if published is None or published.version != version:
            raise RegistryError(
                f"{self._place(number)} does not publish version {version}. Restore the log from a backup."
            )
        return published

    def publications(self, head: Entry) -> Iterator[Publication]:
        """Return the publications of all versions, the newest first."""
        number = head.state.latest_entry
        while published := self.read(number).published:
            yield published
            number = published.former_entry

    def leftovers(self, before: int) -> list[Path]:
        """Return the temporary files of killed writers of entries up to a number; on this machine only."""
        if not isinstance(self.folder, Path) or not self.folder.is_dir():
            return []
        matches = ((TEMPORARY.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted(path for match, path in matches if match and int(match[1]) <= before)

    def _following(self, head: Entry, proposed: Entry) -> Entry:
        """Return the proposed entry with all fields that its place in the log decides."""
        number, state = head.number + 1, proposed.state
        if proposed.published is not None:
            state = replace(state, latest=proposed.published.version, latest_entry=number)
        named = sorted({*state.aliases.values(), *state.former})
        after = replace(head, state=replace(head.state, latest=state.latest, latest_entry=state.latest_entry))
        entries = {str(version): self._number_of(version, after) for version in named}
        return replace(proposed, number=number, state=replace(state, entries=entries), before_sha256=head.sha256)

    def _number_of(self, version: int, head: Entry) -> int:
        """Return the number of the entry that published a version: versions grow along the log."""
        if version == head.state.latest:
            return head.state.latest_entry
        if (number := head.state.entries.get(str(version))) is not None:
            return number
        low, high = version, head.state.latest_entry
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.read(middle).state.latest >= version else (middle + 1, high)
        return low

    def _numbers(self) -> list[int]:
        matches = (NAMED.fullmatch(file.name) for file in locations.json_files(self.folder))
        return sorted(int(match[1]) for match in matches if match)

    def _place(self, number: int) -> locations.Place:
        return self.folder / f"{number:08}.json"


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


# Descriptions as JSON.

LAST = 10  # entries of the log that are shown


def describe_registry(registry: Registry) -> dict[str, Any]:
    """Return all models: aliases, number of versions, the newest entry of the log."""
    models = [
        {
            "model": model.name,
            "aliases": dict(sorted(head.state.aliases.items())),
            "versions": head.state.latest,
            "last": describe_entry(head),
        }
        for model, head in ((model, model.head()) for model in registry.models())
    ]
    return {"registry": registry.location, "models": models}


def describe_model(model: RegisteredModel) -> dict[str, Any]:
    """Return a model: aliases, versions (the newest first), the newest entries of its log."""
    model.version(1)  # raises an error if there is none
    entries = model.entries()
    state = entries[-1].state
    versions: list[dict[str, Any]] = []
    in_all: dict[int | None, int] = {}
    for entry in entries:
        if entry.published is not None:
            version = model.opened(entry.published, state)
            in_all[version.number] = rows_of(version) + in_all.get(version.lineage.parent, 0)
            totals = {"learnt_rows": learnt_rows(version, in_all[version.number]), "at": entry.at, "by": entry.by}
            versions.append(describe_version(version, state.aliases) | totals)
    return {
        "model": model.name,
        "folder": str(model.folder),
        "aliases": dict(sorted(state.aliases.items())),
        "former_champions": list(state.former),
        "versions": versions[::-1],
        "entries": len(entries),
        "log": [describe_entry(entry) for entry in entries[: -LAST - 1 : -1]],
    }


def describe_version(version: Version, aliases: Mapping[str, int]) -> dict[str, Any]:
    """Describe a version, with its own lineage but not its ancestors'."""
    return {
        "version": version.number,
        "aliases": sorted(name for name, number in aliases.items() if number == version.number),
        "pruned": version.pruned,
        "folder": str(version.folder),
        "size_bytes": version.published.size_bytes,
        "identity": version.published.identity,
        "rows": rows_of(version),
        **version.lineage.as_json(),
    }


def describe_one(model: RegisteredModel, version: Version) -> dict[str, Any]:
    """Describe a version: its publication, its ancestors, and the numbers of shards and rows of all of these."""
    line = list(model.ancestry(version))
    entries = model.entries()
    made = next(entry for entry in entries if entry.published is not None and entry.published.version == version.number)
    in_all = sum(map(rows_of, line))
    return describe_version(version, entries[-1].state.aliases) | {
        "model": model.name,
        **{name: getattr(made, name) for name in ("at", "by", "why")},
        "files": version.published.files,
        "ancestors": [ancestor.number for ancestor in line[1:]],
        "shards_in_all": sum(len(member.lineage.shards) for member in line),
        "rows_in_all": in_all,
        "learnt_rows": learnt_rows(version, in_all),
    }


def shown_test(decision: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the paired test on the rows of a retraining's metrics: after drift the newest rows, otherwise all.

    Returns {} without such a test.
    """
    decision = decision or {}
    return decision.get("newest" if decision.get("after_drift") else "overall") or {}


def describe_difference(model: RegisteredModel, first: Version, second: Version) -> dict[str, Any]:
    """Describe the differences of two versions: settings, figures, and shards that only one of them was trained on.

    measured_rows : reserved rows that the figures of each are of, None if it was not compared
    """
    difference: dict[str, Any] = {"model": model.name, "versions": [first.number, second.number]}
    difference["measured_rows"] = [shown_test(one.lineage.decision).get("rows") for one in (first, second)]
    first_json, second_json = first.lineage.as_json(), second.lineage.as_json()
    for part in ("settings", "metrics", "environment", "decision"):
        difference[part] = differences(flattened(first_json[part]), flattened(second_json[part]))
    shards = [
        {str(shard["sha256"]): shard for version in [*model.ancestry(which)][::-1] for shard in version.lineage.shards}
        for which in (first, second)
    ]
    for index, name in enumerate(("shards_of_first_only", "shards_of_second_only")):
        difference[name] = [dict(shard) for sha256, shard in shards[index].items() if sha256 not in shards[1 - index]]
    return difference


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return both values of each name whose values differ; None for a missing one."""
    names = dict.fromkeys([*first, *second])
    return {name: [first.get(name), second.get(name)] for name in names if first.get(name) != second.get(name)}


def describe_entry(entry: Entry) -> dict[str, Any]:
    """Describe an entry of the log and the aliases after it."""
    return {
        "entry": entry.number,
        "kind": entry.kind,
        "version": entry.published.version if entry.published else None,
        "aliases": dict(sorted(entry.state.aliases.items())),
        "at": entry.at,
        "by": entry.by,
        "why": entry.why,
    }


def rows_of(version: Version) -> int:
    """Return the number of rows that this version was trained on and its parent was not."""
    return sum(int(shard.get("rows", 0)) for shard in version.lineage.shards)


def learnt_rows(version: Version, in_all: int) -> int | None:
    """Return the number of training rows of a version; None if it was solved on a window of unrecorded size.

    in_all : rows that it and its ancestors learned, which one that went on from its parent was learned from
    """
    made = version.lineage.environment
    if WINDOW_ROWS in made:
        return int(made[WINDOW_ROWS])
    return None if str(made.get("how", "")).startswith("solved anew") else in_all


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return values of nested mappings by their paths.

    >>> flattened({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b.c': 2}
    """
    by_path: dict[str, Any] = {}
    for name, value in values.items():
        by_path |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return by_path
