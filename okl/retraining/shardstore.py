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

import json
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from okl.errors import DataError
from okl.retraining.landing import Seen
from okl.retraining.record import DIGITS, Finding, ShardRecord, record_from, record_text
from okl.retraining.union import union
from okl.store.dataset import Dataset, Schema
from okl.store.manifest import open_dataset
from okl.store.places import Place, place_of
from okl.store.publishing import write_whole

RECORDS, REFERENCE, SEEN = "records", "reference.json", "seen.json"
MOST_NAMED = 10  # quarantined shards in a sentence


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
        write_whole(self.place / RECORDS / f"{record.key}.json", record_text(record))
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
            write_whole(self.place / REFERENCE, json.dumps(asdict(schema), indent=1, allow_nan=False) + "\n")
        return settled or schema

    def seen(self) -> Seen:
        """Digests of files that were hashed."""
        file = self.place / SEEN
        return Seen.from_text(file.read_text(encoding="utf-8")) if file.is_file() else Seen()

    def keep_seen(self, seen: Seen) -> None:
        """Store them."""
        write_whole(self.place / SEEN, seen.text())

    def dataset(self, record: ShardRecord) -> Dataset:
        """The data set of an accepted shard."""
        return open_dataset(self.place / record.key)

    def union(self, records: list[ShardRecord]) -> Dataset:
        """The data sets of accepted shards as one, in the order given."""
        return union(self.place, [self.dataset(record) for record in records])

    def know_under(self, record: ShardRecord, name: str) -> ShardRecord:
        """Note that the same bytes came under another name."""
        return record if name in record.names else self.put(replace(record, names=(*record.names, name)))

    def quarantine(self, record: ShardRecord, finding: Finding) -> ShardRecord:
        """Take back an accepted shard, for what was found later; its data set stays, for a release."""
        return self.put(replace(record, status="quarantined", findings=(*record.findings, finding), released=False))

    def has_data(self, record: ShardRecord) -> bool:
        """Whether the data set of a shard is there: it was accepted once."""
        return (self.place / record.key).exists()

    def release(self, record: ShardRecord) -> ShardRecord:
        """Accept a shard whose data set is there, in spite of what was found."""
        return self.put(replace(record, status="accepted", released=True))


def find_quarantined(records: dict[str, ShardRecord], key: str) -> ShardRecord:
    """The record whose SHA-256 begins so, of a shard that is quarantined, or was and is released.

    Raises
    ------
    DataError : there is none, or several, or it was never quarantined; with those that are
    """
    found = [record for digest, record in records.items() if key and digest.startswith(key)]
    if len(found) == 1 and (found[0].status == "quarantined" or found[0].released):
        return found[0]
    what = "no shard" if not found else f"{len(found)} shards"
    if len(found) == 1:
        what = f"{found[0].name}, which is {'a duplicate' if found[0].status == 'duplicate' else found[0].status}"
    held = sorted((one.name, one.key) for one in records.values() if one.status == "quarantined")
    more = f" and {len(held) - MOST_NAMED:,} more" if len(held) > MOST_NAMED else ""
    told = f"Quarantined are: {', '.join(f'{digits} ({name})' for name, digits in held[:MOST_NAMED])}{more}."
    raise DataError(
        f"release = {key!r} names {what}; expected the first {DIGITS} digits of a quarantined shard's sha256. "
        f"{told if held else 'Quarantined is none.'}"
    )
