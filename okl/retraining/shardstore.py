"""The shards of a model: what was accepted, as data sets; what was not, with its reason; nothing twice, nothing lost.

    NAME/data/reference.json     the schema that every shard is held to, from the first shards
              seen.json          digests of files that were hashed; only a saving
              records/SHA16.json one for each file's content that was ever held; it is written last
              SHA16/             an accepted shard: an okl data set of its own, rows to learn and reserved ones

A shard is what its bytes are: the SHA-256 of its file. A process may be killed at any moment: a data set appears when
it is complete, and a shard counts once its record is there, which the same bytes write again the same way. Files stay
where they arrived; what is quarantined stays there, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from okl.configuration import IngestSettings
from okl.errors import ConflictError, DataError, PlaceError, PlaceTakenError
from okl.retraining.baseline import Baseline
from okl.retraining.contract import HARD, Held, contract_digest, hold
from okl.retraining.landing import Arrival, Seen
from okl.retraining.profile import Profile
from okl.retraining.record import DIGITS, Finding, ShardRecord, Status, record_from, record_text
from okl.retraining.settings import ContractSettings
from okl.retraining.union import union
from okl.runfolder import sync
from okl.store.dataset import Dataset, Schema
from okl.store.ingest import ingest
from okl.store.manifest import is_dataset, open_dataset
from okl.store.places import Place, RemotePath, place_of
from okl.store.publishing import file_beside, is_leftover

RECORDS, REFERENCE, SEEN = "records", "reference.json", "seen.json"


class ShardStore:
    """A folder or URL of shards; several processes may read it, and write it with the same outcome.

    place : of the store; made at the first write
    """

    def __init__(self, place: str | Place) -> None:
        self.place = place_of(place).absolute()

    def records(self) -> dict[str, ShardRecord]:
        """All records by SHA-256.

        Raises
        ------
        DataError : one that is damaged
        """
        folder = self.place / RECORDS
        if isinstance(folder, Path):
            files: list[Place] = [*sorted(folder.glob("[0-9a-f]*.json"))]
        else:
            files = [file for file, _ in folder.files() if file.suffix == ".json"]
        found = [record_from(file.read_text(encoding="utf-8"), str(file)) for file in files]
        return {record.sha256: record for record in found}

    def accepted(self) -> list[ShardRecord]:
        """Records of accepted shards in the order of learning."""
        return sorted((one for one in self.records().values() if one.status == "accepted"), key=lambda one: one.order)

    def put(self, record: ShardRecord) -> ShardRecord:
        """Write a record, whole or not at all; one of the same shard is replaced."""
        self._write(self.place / RECORDS / f"{record.key}.json", record_text(record))
        return record

    def reference(self) -> Schema | None:
        """The schema that shards are held to, None before the first.

        Raises
        ------
        DataError : it is damaged
        """
        file = self.place / REFERENCE
        if not file.is_file():
            return None
        try:
            return TypeAdapter(Schema).validate_python(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, ValidationError):
            raise DataError(f"{file} is damaged: it is no schema. Bring it back from the champion's model.") from None

    def set_reference(self, schema: Schema) -> Schema:
        """Settle what all shards are held to, unless that is settled; what holds."""
        settled = self.reference()
        if settled is None:
            self._write(self.place / REFERENCE, json.dumps(asdict(schema), indent=1, allow_nan=False) + "\n")
        return settled or schema

    def seen(self) -> Seen:
        """Digests of files that were hashed."""
        file = self.place / SEEN
        return Seen.from_text(file.read_text(encoding="utf-8")) if file.is_file() else Seen()

    def keep_seen(self, seen: Seen) -> None:
        """Store them."""
        self._write(self.place / SEEN, seen.text())

    def dataset(self, record: ShardRecord) -> Dataset:
        """The data set of an accepted shard."""
        return open_dataset(self.place / record.key)

    def union(self, records: list[ShardRecord]) -> Dataset:
        """The data sets of accepted shards as one, in the order given."""
        return union(self.place, [self.dataset(record) for record in records])

    def settle(
        self,
        arrival: Arrival,
        sha256: str,
        baseline: Baseline,
        contract: ContractSettings,
        ingesting: IngestSettings,
        time_column: str | None = None,
        released: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> ShardRecord:
        """Hold a file to the contract, and accept or quarantine it; killed at any moment, it is done again.

        Parameters
        ----------
        sha256 : of the file's bytes; baseline : what was accepted before
        ingesting : holdout is the share of rows that are reserved, seed decides which
        released : whether it is accepted in spite of findings that rows can be learnt with

        Returns
        -------
        its record, written

        Raises
        ------
        PlaceError : its data set cannot be written, or the file cannot be read now; there is no record
        ConflictError : another process takes in the same shard
        """
        others = {rows: shard for rows, shard in baseline.rows.items() if shard != sha256}  # it may be held again
        held = hold(arrival.place, arrival.name, replace(baseline, rows=others), contract, time_column)
        waived = released and not any(finding.kind in HARD for finding in held.findings)
        status: Status = "duplicate" if held.of else "accepted" if waived or not held.findings else "quarantined"
        record = _record(arrival, sha256, held, status, baseline.schema)
        record = replace(
            record, contract=contract_digest(contract, time_column), released=waived and bool(held.findings)
        )
        if status == "accepted":
            settings = ingesting.model_copy(update={"seed": reserved_seed(ingesting.seed, sha256)})
            try:
                data = self._taken_in(arrival, self.place / record.key, settings, baseline.schema, progress)
            except PlaceError:
                raise  # a full disk, a store that does not answer: the shard may be well, and is held again
            except DataError as error:  # such as too few rows to leave one to learn
                finding = Finding("unreadable", f"{arrival.name} cannot be read: {error}", {"error": str(error)})
                return self.put(replace(record, status="quarantined", findings=(*record.findings, finding)))
            record = replace(record, train_rows=data.rows("train"), test_rows=data.rows("test"))
        return self.put(record)

    def know_under(self, record: ShardRecord, name: str) -> ShardRecord:
        """Note that the same bytes came under another name."""
        return record if name in record.names else self.put(replace(record, names=(*record.names, name)))

    def quarantine(self, record: ShardRecord, finding: Finding) -> ShardRecord:
        """Take back an accepted shard, for what was found later; its data set stays, for a release."""
        return self.put(replace(record, status="quarantined", findings=(*record.findings, finding), released=False))

    def release(self, record: ShardRecord) -> ShardRecord:
        """Accept a shard whose data set is there, in spite of what was found."""
        return self.put(replace(record, status="accepted", released=True))

    def _taken_in(
        self,
        arrival: Arrival,
        folder: Place,
        settings: IngestSettings,
        reference: Schema,
        progress: Callable[[int, int | None], None] | None,
    ) -> Dataset:
        """The data set of a file; what a killed process left there under other settings is replaced."""

        def taken_in(overwrite: bool) -> Dataset:
            return ingest(arrival.place, folder, settings, overwrite, progress=progress, reference=reference).dataset

        try:
            try:
                return taken_in(overwrite=False)
            except DataError:
                if not is_dataset(folder):
                    raise
            return taken_in(overwrite=True)
        except (PlaceTakenError, PlaceError) as error:
            if not isinstance(error, PlaceTakenError) and not _is_written_to(folder):
                raise
            raise ConflictError(
                f"Another retraining takes in {arrival.name} at this moment. Nothing is lost; the next run goes on."
            ) from None

    def _write(self, place: Place, text: str) -> None:
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file_beside(place) as beside:
                beside.write_text(text, encoding="utf-8")
                sync(beside)
        except OSError as error:
            raise DataError(f"{place} cannot be written: {error.strerror}. Nothing was changed.") from None


def _is_written_to(folder: Place) -> bool:
    """Whether somebody writes, or has written, where it could not be written: under a URL two at once meet."""
    return isinstance(folder, RemotePath) and (is_leftover(folder) or is_dataset(folder))


def reserved_seed(seed: int, sha256: str) -> int:
    """What decides which rows of a shard are reserved: a hash of the seed and the shard, 63 bits."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{sha256}".encode()).digest()[:8]) >> 1


def find_shard(records: dict[str, ShardRecord], key: str) -> ShardRecord:
    """The record whose SHA-256 begins so.

    Raises
    ------
    DataError : there is none, or several
    """
    found = [record for digest, record in records.items() if key and digest.startswith(key)]
    if len(found) != 1:
        what = "no shard" if not found else f"{len(found)} shards"
        raise DataError(f"{key!r} names {what}; expected the first {DIGITS} digits of a shard's sha256.")
    return found[0]


def _record(arrival: Arrival, sha256: str, held: Held, status: Status, schema: Schema) -> ShardRecord:
    profile: Profile | None = held.profile
    record = ShardRecord(sha256, (arrival.name,), arrival.size_bytes, status, held.findings, of=held.of)
    if profile is None:
        return record
    return replace(
        record,
        rows_sha256=profile.rows_sha256,
        rows=profile.rows,
        first_time=held.first_time,
        last_time=held.last_time,
        class_counts=tuple(profile.labels.get(label, 0) for label in schema.labels),
        columns=profile.columns,
        target=profile.target if schema.task == "regression" else None,
    )
