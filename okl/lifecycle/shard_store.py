"""Shards: their records, the inbox of arriving files, and the store of those that were accepted."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from glob import glob, has_magic
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from okl.data.dataset import ColumnStatistics, Dataset, Schema, Shard
from okl.data.ingest.sources import kind_by_name
from okl.data.manifest import open_dataset
from okl.foundation.errors import ConfigError, DataError, listed
from okl.foundation.folders import remove_temporary_files, write_durably
from okl.foundation.locations import Place, RemotePath, file_sha256, json_files, place_of
from okl.foundation.validation import check_fields, fault, parse_json, validated
from okl.lifecycle.error_drift import ShardScores

# Records: accepted, quarantined or duplicate.

FORMAT_VERSION = 1
DIGITS = 16
SHA256 = re.compile("[0-9a-f]{64}")
ATTEMPTS = "attempts"  # folder of rejected challengers in the shard store
CHOICES = "choices"  # folder of choices that were made again, in the shard store
PAGE = "report.html"  # report of a version
EXCLUDED = "excluded"  # kind of the finding of a shard that was excluded by hand
Status = Literal["accepted", "quarantined", "duplicate"]
Time = str | float


@dataclass(frozen=True)
class Finding:
    """Reason why a shard breaks the contract: one of okl.lifecycle.contract.KINDS, a message and its figures."""

    kind: str
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardRecord:
    """A shard by the SHA-256 of its file's bytes; a value.

    names : of the file, the first one first, relative to where files arrive; size_bytes : of the file
    rows_sha256 : of its values, whatever they are stored as; "" where it could not be read
    rows, train_rows, test_rows : rows in total, for training and reserved (the latter two of an accepted shard)
    first_time, last_time : of the time column, or from the name, None if neither has a time
    class_counts : rows of each label of the reference; columns, target : statistics of inputs and of the target
    of : sha256 of the shard that a duplicate repeats; contract : digest of the limits that it was checked against
    released : accepted by a manual release; unused : columns of the file that the reference does not have
    unseen : the warning of text columns with some values that the reference does not have
    scored : errors of the champion on its rows before training on them
    """

    sha256: str
    names: tuple[str, ...]
    size_bytes: int
    status: Status
    findings: tuple[Finding, ...] = ()
    rows_sha256: str = ""
    rows: int = 0
    train_rows: int = 0
    test_rows: int = 0
    first_time: Time | None = None
    last_time: Time | None = None
    class_counts: tuple[int, ...] = ()
    columns: tuple[ColumnStatistics, ...] = ()
    target: ColumnStatistics | None = None
    of: str = ""
    contract: str = ""
    released: bool = False
    scored: ShardScores | None = None
    unused: tuple[str, ...] = ()
    unseen: str = ""

    @property
    def key(self) -> str:
        """Return the name of its folder and of its record."""
        return self.sha256[:DIGITS]

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def order(self) -> tuple[int, float, str, str, str]:
        """Return the sort key of training order: time if known, then name; never a clock of this machine."""
        if isinstance(self.last_time, str):
            return (1, 0.0, self.last_time, self.name, self.sha256)
        return (0, float(self.last_time or 0.0), "", self.name, self.sha256)

    @property
    def reason(self) -> str:
        """Return all findings as one text; "" for none."""
        return " ".join(finding.sentence for finding in self.findings)

    @property
    def excluded(self) -> bool:
        """Return whether it was accepted, and excluded by hand since."""
        return self.status == "quarantined" and any(finding.kind == EXCLUDED for finding in self.findings)


def record_text(record: ShardRecord) -> str:
    """Return readable JSON; equal records give equal bytes."""
    return json.dumps({"format_version": FORMAT_VERSION, **asdict(record)}, indent=1, allow_nan=False) + "\n"


def record_from(text: str, where: str) -> ShardRecord:
    """Return the record in a file. Raises DataError (it is damaged or of a newer format)."""
    try:
        content = parse_json(text)
        version = content.pop("format_version")
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise DataError(
                f"{where} has format {version}, but this version of okl reads formats up to {FORMAT_VERSION}. Upgrade "
                "okl."
            )
        check_fields(ShardRecord, content)
        record = validated(ShardRecord, content)
        if not SHA256.fullmatch(record.sha256) or not record.names:
            raise ValueError("it names no shard")
    except DataError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        why = fault(error) if isinstance(error, ValueError) else "expected the record of a shard"
        raise DataError(f"{where} is damaged ({why}). Remove it; the next run validates the file again.") from None
    return record


def in_window(record: ShardRecord, first: str | None, last: str | None) -> bool:
    """Return whether a shard's time is at least the first and below the last, where these are given."""
    if first is None and last is None:
        return True
    if record.first_time is None or record.last_time is None:
        return False
    kind = str if isinstance(record.first_time, str) else float
    begins, ends = record.first_time, record.last_time
    return (first is None or begins >= kind(first)) and (last is None or ends < kind(last))  # type: ignore[operator]


def is_late(last_time: Time | None, watermark: Time | None) -> bool:
    """Return whether a shard ends before the latest time that was trained on; times of two types are not compared."""
    if last_time is None or watermark is None or isinstance(last_time, str) != isinstance(watermark, str):
        return False
    return last_time < watermark  # type: ignore[operator]  # both are texts, or both numbers


# Arrivals.

SETTLED_NANOSECONDS = 2 * 10**9
STAMPS = ("ETag", "etag", "content_md5", "md5Hash", "generation", "mtime", "LastModified", "last_modified")


@dataclass(frozen=True)
class Arrival:
    """A file where files arrive.

    name : relative to the folder, or to the fixed part of a glob; stamp : changes with the content, "" if unknown;
        age_seconds : time since the last change, None if unknown
    problem : why it cannot be read, "" if it can be
    """

    name: str
    location: Place
    size_bytes: int
    stamp: str
    age_seconds: float | None = None
    problem: str = ""

    def is_unchanged(self) -> bool:
        """Return whether the file is still the one that was listed."""
        if isinstance(self.location, RemotePath):
            return _stamp(self.location.info() or {}) == self.stamp
        try:
            status = self.location.stat()
        except OSError:
            return False
        return status.st_size == self.size_bytes and self.stamp in ("", f"{status.st_mtime_ns}-{status.st_ino}")


def arrivals(source: str, settle_seconds: float = 0.0) -> tuple[list[Arrival], list[Arrival], list[Arrival]]:
    """Return data files of a folder and of its folders, or what a glob matches, by name.

    Returns files that are complete, files that were changed within settle_seconds and may be incomplete, and those with
        a problem: links to nothing, pipes, devices, files without permission, names that are no text.
    Raises ConfigError : a folder of this machine that is not there; DataError : a store that does not answer
    """
    location = place_of(source)
    files = _remote(location) if isinstance(location, RemotePath) else _local(location.absolute())
    selected = sorted((arrival for arrival in files if _is_data(arrival)), key=lambda arrival: arrival.name)
    settled, fresh, odd = list[Arrival](), list[Arrival](), list[Arrival]()
    for arrival in selected:
        is_fresh = arrival.age_seconds is not None and abs(arrival.age_seconds) < settle_seconds
        (odd if arrival.problem else fresh if is_fresh else settled).append(arrival)
    return settled, fresh, odd


def _is_data(arrival: Arrival) -> bool:
    parts = arrival.name.split("/")
    return kind_by_name(parts[-1]) is not None and not any(part[:1] in "._" for part in parts)


def _local(path: Path) -> Iterable[Arrival]:
    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            raise ConfigError(f"{path} cannot be listed: no permission. Grant it to the user that retrains.")
        root, files = path, [*path.rglob("*")]
    elif path.is_file():
        root, files = path.parent, [path]
    elif has_magic(str(path)):
        root = Path(re.split(r"[*?\[]", str(path))[0].rpartition("/")[0] or "/")
        files = [Path(name) for name in glob(str(path), recursive=True)]
    else:
        raise ConfigError(f"{path} does not exist. Expected a folder of arriving files, a file or a glob.")
    now = time.time_ns()
    for file in files:
        name, size, stamp, age = file.relative_to(root).as_posix(), 0, "", None
        problem = "" if shown(name) == name else "its name is not UTF-8"
        try:
            status = file.stat()
        except OSError as error:
            if not file.is_symlink():  # removed in the meantime
                continue
            problem = f"it is a broken link ({error.strerror})"
        else:
            if stat.S_ISDIR(status.st_mode):
                continue
            unchanged = now - status.st_mtime_ns > SETTLED_NANOSECONDS
            size, age = status.st_size, (now - status.st_mtime_ns) / 1e9
            stamp = f"{status.st_mtime_ns}-{status.st_ino}" if unchanged else ""
            if not stat.S_ISREG(status.st_mode):
                problem = f"it is {KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}"
            elif not os.access(file, os.R_OK):
                problem = "no permission to read it"
        yield Arrival(shown(name), file, size, stamp, age, problem)


KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def shown(name: str) -> str:
    """Return a name with bytes that are not UTF-8 as escapes: JSON, reports and Arrow cannot hold them."""
    return name.encode(errors="backslashreplace").decode()


def _remote(location: RemotePath) -> Iterable[Arrival]:
    if has_magic(str(location)):
        root = re.split(r"[*?\[]", str(location))[0].rpartition("/")[0]
        files = [(file, int((file.info() or {}).get("size") or 0)) for file in location.matches()]
    elif location.is_file():
        root, files = str(location.parent), [(location, int((location.info() or {}).get("size") or 0))]
    else:
        root, files = str(location), location.files(below=True)
    for file, size in files:
        yield Arrival(str(file).removeprefix(root).lstrip("/"), file, size, _stamp(file.info() or {}))


def _stamp(details: dict[str, Any]) -> str:
    return next((str(details[key]) for key in STAMPS if details.get(key)), "")


def content_sha256(location: Place) -> str:
    """Return the SHA-256 of a file's bytes, hexadecimal. Raises DataError (it cannot be read)."""
    try:
        return file_sha256(location)
    except OSError as error:
        raise DataError(
            f"{location} cannot be read: {error.strerror}. Grant permission or remove the file; if it was removed, run "
            "again."
        ) from None


@dataclass(eq=False)
class FileState:
    """Cache of digests of files by name, size and stamp; a file without a stamp is read each time."""

    entries: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str) -> FileState:
        """Return the stored digests; empty if the text is damaged."""
        try:
            entries = parse_json(text)
            sound = all(len(entry) == 3 and len(entry[2]) == 64 for entry in entries.values())
        except (ValueError, AttributeError, TypeError):
            return cls()
        return cls(entries if sound else {})

    def text(self) -> str:
        return json.dumps(self.entries, indent=0)

    def sha256(self, arrival: Arrival) -> str:
        """Return the digest of a file's bytes, read unless name, size and stamp are unchanged; see `content_sha256`."""
        entry = self.entries.get(arrival.name)
        if arrival.stamp and entry is not None and entry[:2] == [arrival.size_bytes, arrival.stamp]:
            return str(entry[2])
        digest = content_sha256(arrival.location)
        self.entries[arrival.name] = [arrival.size_bytes, arrival.stamp, digest]
        return digest

    def keep_only(self, names: Iterable[str]) -> None:
        """Remove the digests of files that no longer exist."""
        wanted = set(names)
        self.entries = {name: entry for name, entry in self.entries.items() if name in wanted}


# The union of data sets.


def union(location: Place, parts: Sequence[Dataset]) -> Dataset:
    """Return one data set of all shards, in the order of the parts below a location; train shards stay train shards.

    Counts of classes are added up. Raises DataError : no part, parts of different schemas, or a part elsewhere
    """
    if not parts:
        raise DataError(f"{location}: expected at least one shard, got none.")
    schema = parts[0].schema
    shards: list[Shard] = []
    for part in parts:
        if replace(part.schema, class_counts=()) != replace(schema, class_counts=()):
            raise DataError(f"{part.folder} and {parts[0].folder} have different references.")
        if str(part.folder) != str(location / part.folder.name):
            raise DataError(f"{part.folder} is not in {location}, but all parts of a union must be.")
        shards += [replace(shard, path=f"{part.folder.name}/{shard.path}") for shard in part.shards]
    shards = [replace(shard, index=index) for index, shard in enumerate(shards)]
    counts = tuple(map(sum, zip(*(part.schema.class_counts for part in parts), strict=True)))
    digest = hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest()
    source = hashlib.sha256("".join(part.source_sha256 for part in parts).encode()).hexdigest()
    return Dataset(location, replace(schema, class_counts=counts), tuple(shards), digest, source)


# The shard store: accepted data sets and quarantined files.
#
#     NAME/data/reference.json     the schema of every shard, from the first shards
#               seen.json          digests of files that were hashed; only a saving
#               records/SHA16.json one for each file's content that was ever held; it is written last
#               choices/KEY.json   settings, scaling and metric that were chosen again, see okl.lifecycle.choice
#               SHA16/             an accepted shard: an okl data set of its own, rows to learn and reserved ones
#
# A shard is what its bytes are: the SHA-256 of its file. A process may be killed at any moment: a data set appears
# when it is complete, and a shard counts once its record is there, which the same bytes write again the same way.
# Files stay where they arrived; what is quarantined stays there, too.

RECORDS, ROWS, REFERENCE, CHOICE, SEEN = "records", "rows", "reference.json", "choice.json", "seen.json"
MOST_NAMED = 10  # quarantined shards in a sentence
PREPARATION = ("scale", "scale_target", "feature_statistics", "target_statistics", "metric", "squashed")
"""Fields of a schema that apply when stored rows are read; each model has its own."""


class ShardStore:
    """A folder or URL of shards, created at the first write; concurrent processes get the same outcome."""

    def __init__(self, location: str | Place, read_by: Schema | None = None) -> None:
        self.location, self._read_by = place_of(location).absolute(), read_by

    def as_read_by(self, schema: Schema) -> ShardStore:
        """Return the same store, whose data sets are scaled, squashed and weighted as those of a model's schema."""
        return ShardStore(self.location, schema)

    def remove_leftovers(self) -> None:
        """Remove what killed processes of this host were writing; their unfinished data sets go with the next one."""
        if isinstance(self.location, Path):
            for folder in (self.location, *(self.location / name for name in (RECORDS, ROWS, ATTEMPTS, CHOICES))):
                remove_temporary_files(folder)

    def records(self) -> dict[str, ShardRecord]:
        """Return all records by SHA-256. Raises DataError (one that is damaged)."""
        records = [_record_in(file) for file in json_files(self.location / RECORDS)]
        return {record.sha256: record for record in records}

    def accepted(self) -> list[ShardRecord]:
        """Return records of accepted shards in training order."""
        return accepted_among(self.records().values())

    def put(self, record: ShardRecord) -> ShardRecord:
        """Write a record, whole or not at all; one of the same shard is replaced."""
        write_durably(self.location / RECORDS / f"{record.key}.json", record_text(record))
        return record

    def put_rows(self, record: ShardRecord, hashes: NDArray[np.uint64]) -> None:
        """Store hashes of the rows of a shard, with which those of later files are compared."""
        content = BytesIO()
        np.save(content, hashes, allow_pickle=False)
        write_durably(self.location / ROWS / f"{record.key}.npy", content.getvalue())

    def rows(self, record: ShardRecord) -> NDArray[np.uint64]:
        """Return the hashes of the rows of a shard; none of a shard of an older okl. Raises DataError (damaged)."""
        file = self.location / ROWS / f"{record.key}.npy"
        if not file.is_file():
            return np.empty(0, dtype=np.uint64)
        try:
            hashes: NDArray[np.uint64] = np.load(BytesIO(file.read_bytes()), allow_pickle=False)
        except (ValueError, EOFError):
            raise DataError(f"{file} is damaged: expected hashes of rows. Remove it, and run again.") from None
        return hashes

    def reference(self) -> Schema | None:
        """Return the reference schema of the shards, None before the first shard. Raises DataError (it is damaged)."""
        file = self.location / REFERENCE
        if not file.is_file():
            return None
        try:
            return validated(Schema, parse_json(file.read_bytes()))
        except ValueError:
            raise DataError(f"{file} is damaged: expected a schema. Restore it from the champion's model.") from None

    def set_reference(self, schema: Schema) -> Schema:
        """Set the reference schema unless there is one; return the valid one."""
        reference = self.reference()
        if reference is None:
            write_durably(self.location / REFERENCE, json.dumps(asdict(schema), indent=1, allow_nan=False) + "\n")
        return reference or schema

    def remove_reference(self) -> None:
        """Remove the reference schema and the choice of settings, which no shard has."""
        for file in (self.location / REFERENCE, self.location / CHOICE):
            if file.is_file():
                file.unlink()

    def choice(self) -> dict[str, Any]:
        """Return the settings chosen for the first shards, {} without a choice; DataError if damaged."""
        file = self.location / CHOICE
        try:
            found = parse_json(file.read_bytes()) if file.is_file() else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise DataError(f"{file} is damaged: expected settings of training. Remove it, and name a solver.")
        return found

    def set_choice(self, settings: Mapping[str, Any]) -> None:
        """Store the settings that were chosen automatically for the first shards."""
        write_durably(self.location / CHOICE, json.dumps(settings, indent=1, allow_nan=False) + "\n")

    def file_state(self) -> FileState:
        """Return the cached digests of files."""
        file = self.location / SEEN
        return FileState.from_text(file.read_bytes().decode(errors="replace")) if file.is_file() else FileState()

    def write_file_state(self, state: FileState) -> None:
        write_durably(self.location / SEEN, state.text())

    def dataset(self, record: ShardRecord) -> Dataset:
        data = open_dataset(self.location / record.key)
        return data if self._read_by is None else replace(data, schema=prepared_as(data.schema, self._read_by))

    def union(self, records: list[ShardRecord]) -> Dataset:
        """Return the data sets of accepted shards as one, in the order given."""
        return union(self.location, [self.dataset(record) for record in records])

    def add_name(self, record: ShardRecord, name: str) -> ShardRecord:
        """Record another name of the same file."""
        return record if name in record.names else self.put(replace(record, names=(*record.names, name)))

    def quarantine_accepted(self, record: ShardRecord, finding: Finding) -> ShardRecord:
        """Quarantine an accepted shard after a later finding; its data set is kept for a release."""
        return self.put(replace(record, status="quarantined", findings=(*record.findings, finding), released=False))

    def exclude(self, record: ShardRecord) -> ShardRecord:
        """Quarantine an accepted shard by hand, see `quarantine_accepted`."""
        earlier = tuple(finding for finding in record.findings if finding.kind != EXCLUDED)
        finding = Finding(EXCLUDED, f"{record.name} was excluded with --exclude.")
        return self.quarantine_accepted(replace(record, findings=earlier), finding)

    def has_data(self, record: ShardRecord) -> bool:
        """Return whether the data set of a shard exists: it was accepted once."""
        return (self.location / record.key).exists()

    def release(self, record: ShardRecord) -> ShardRecord:
        """Accept a shard with findings, whose data set exists."""
        return self.put(replace(record, status="accepted", released=True))


def prepared_as(schema: Schema, other: Schema) -> Schema:
    """Return a schema with scaling, squashed columns, metric and statistics of another one."""
    return replace(schema, **{name: getattr(other, name) for name in PREPARATION})


def accepted_among(records: Iterable[ShardRecord]) -> list[ShardRecord]:
    """Return the records of accepted shards in training order."""
    return sorted((record for record in records if record.status == "accepted"), key=lambda record: record.order)


def _record_in(file: Place) -> ShardRecord:
    try:
        record = record_from(file.read_bytes().decode(errors="replace"), str(file))
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}). Restore the file, or remove it.") from None
    if file.name != f"{record.key}.json":
        raise DataError(
            f"{file} is damaged: it is the record of the shard {record.key}. Restore the file, or remove it."
        )
    return record


def find_accepted(records: Mapping[str, ShardRecord], key: str) -> ShardRecord:
    """Return the one accepted or excluded shard of this name, or with these first digits of its SHA-256.

    Raises DataError : no shard, or several
    """
    known = [record for record in records.values() if record.status == "accepted" or record.excluded]
    matches = [record for record in known if key in record.names]
    matches = matches or [record for record in known if key and record.sha256.startswith(key)]
    if len(matches) == 1:
        return matches[0]
    named = f"{key!r} names {len(matches) or 'no'} {'shards' if matches else 'shard'}"
    among = sorted((record.name, record.key) for record in matches or known)
    listing = listed([f"{digits} ({name})" for name, digits in among], MOST_NAMED)
    raise DataError(
        f"exclude = {named}; expected the name of an accepted file, or the first {DIGITS} digits of its sha256. "
        f"{f'Accepted shards: {listing}.' if among else 'No shard is accepted.'}"
    )


def find_quarantined(records: dict[str, ShardRecord], key: str) -> ShardRecord:
    """Return the one quarantined or released shard with these first digits of its SHA-256, or raise DataError."""
    matches = [record for digest, record in records.items() if key and digest.startswith(key)]
    if len(matches) == 1 and (matches[0].status == "quarantined" or matches[0].released):
        return matches[0]
    what = "no shard" if not matches else f"{len(matches)} shards"
    if len(matches) == 1:
        what = f"{matches[0].name}, which is {'a duplicate' if matches[0].status == 'duplicate' else matches[0].status}"
    quarantined = sorted((record.name, record.key) for record in records.values() if record.status == "quarantined")
    listing = f"Quarantined shards: {listed([f'{digits} ({name})' for name, digits in quarantined], MOST_NAMED)}."
    raise DataError(
        f"release = {key!r} names {what}; expected the first {DIGITS} digits of a quarantined shard's sha256. "
        f"{listing if quarantined else 'No shard is quarantined.'}"
    )
