"""Log of a registered model: sealed entries, each created exclusively, and the lineage of its versions."""

from __future__ import annotations

import errno
import getpass
import hashlib
import json
import os
import platform
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from okl.foundation import locations
from okl.foundation.errors import DataError, RegistryError
from okl.foundation.folders import sync
from okl.foundation.validation import check_fields, fault, parse_json, sealed, validated

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
        _sync_folders(path)
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


def _sync_folders(path: Path) -> None:
    """Sync the folders of a file that is there now: a failure here must not say that nothing was changed."""
    try:
        for folder in (path.parent, path.parent.parent):
            sync(folder)
    except OSError as error:
        raise RegistryError(
            f"{path} is written and counts, but its folder cannot be synced: {error.strerror}. A power failure may "
            "remove it. Check the disk, then look at the model by okl models."
        ) from None


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
