"""From files that arrive to shards that are accepted, or not; and which of these are still to be learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from okl.errors import ConfigError, DataError
from okl.retraining.baseline import baseline_of
from okl.retraining.beginning import MOST_FIRST
from okl.retraining.champion import Known, in_window
from okl.retraining.contract import FOUND_LATER, contract_digest
from okl.retraining.landing import Arrival, arrivals
from okl.retraining.record import ShardRecord
from okl.retraining.settings import RetrainSettings
from okl.retraining.settling import settle
from okl.retraining.shardstore import ShardStore, find_quarantined
from okl.store.dataset import Schema
from okl.store.places import Place


@dataclass(eq=False)
class Intake:
    """What a run finds where files arrive, and what becomes of it.

    known : records and champion when it was begun
    new : files to hold, with their digests; fresh : names of files that may still be written
    accepted, bad : records of this run; renamed : files whose bytes had come under another name
    standing : quarantined by runs before, with files that are still there
    gone : quarantined and released, with files that are no longer there, but data sets that are
    places : of the first files that are there, new or not
    """

    settings: RetrainSettings
    store: ShardStore
    known: Known
    new: list[tuple[Arrival, str]] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    accepted: list[ShardRecord] = field(default_factory=list)
    bad: list[ShardRecord] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    standing: list[ShardRecord] = field(default_factory=list)
    gone: list[ShardRecord] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    files: int = 0

    def discover(self) -> dict[str, Any]:
        """Look at what is there, and hash what was not seen before.

        Raises
        ------
        ConfigError : the place where files arrive is not there; DataError : it does not answer, or a file is lost, or
            what is to be released is not quarantined, or neither its file nor its data set is there
        """
        found, self.fresh = arrivals(self.settings.source, self.settings.settle_seconds)
        self.files, self.places = len(found), [arrival.place for arrival in found[:MOST_FIRST]]
        seen, records = self.store.seen(), dict(self.known.records)
        before = dict(seen.entries)
        released = {find_quarantined(records, key).sha256 for key in self.settings.release}
        digests: set[str] = set()
        for arrival in found:
            digest = seen.sha256(arrival)
            record = records.get(digest)
            if digest in digests if record is None else arrival.name not in record.names:
                self.renamed.append(arrival.name)
            if record is not None:
                records[digest] = self.store.know_under(record, arrival.name)
            if digest not in digests and (record is None or self._again(record, released)):
                self.new.append((arrival, digest))
            elif digest not in digests and record is not None and record.status == "quarantined":
                self.standing.append(record)
            digests.add(digest)
        seen.keep_only(arrival.name for arrival in found)
        if seen.entries != before:
            self.store.keep_seen(seen)
        self._released = released
        self._look_for([records[digest] for digest in released - digests])
        return {"files": self.files, "new": len(self.new), "still_written": len(self.fresh)}

    def hold(self, reference: Schema, progress: Callable[[int, int | None], None]) -> None:
        """Hold the new files one after the other, in the order of their names, each with those before accepted.

        Then take in again what is released and was accepted once, though its file is gone.
        """
        records, settings = self.store.records(), self.settings
        ingesting = settings.ingest.model_copy(update={"holdout": settings.holdout})
        for arrival, digest in self.new:
            before = records.get(digest)
            if before is not None and digest in self._released and self.store.has_data(before):
                record = self.store.release(before)  # it was accepted once, and then contradicted the champion
            else:
                accepted = [one for one in records.values() if one.status == "accepted" and one.sha256 != digest]
                baseline = baseline_of(reference, accepted, self.known.watermark)
                waived = digest in self._released
                parts = (baseline, settings.contract, ingesting, settings.time_column, waived, progress)
                record = settle(self.store, arrival, digest, *parts)
            records[digest] = record
            (self.accepted if record.status == "accepted" else self.bad).append(record)
        self.accepted += [self.store.release(record) for record in self.gone]

    def pending(self, known: Known) -> list[ShardRecord]:
        """Accepted shards that the champion has not learnt, in the order of learning, within the window asked for.

        Raises
        ------
        ConfigError : a window was asked for, and no shard tells its time
        """
        settings = self.settings
        waiting = [one for one in known.accepted() if one.sha256 not in known.learnt]
        first, last = settings.window_from, settings.window_to
        if (first or last) and waiting and all(one.first_time is None for one in waiting):
            raise ConfigError(
                "A window was asked for, but no shard tells its time: name a time_column, or files by their date, such "
                "as 2026-11-22.parquet."
            )
        return [one for one in waiting if in_window(one, first, last)][: settings.max_shards]

    def as_json(self, pending: list[ShardRecord]) -> dict[str, Any]:
        """For the report."""
        return {
            "files": self.files,
            "still_written": self.fresh,
            "under_another_name": self.renamed,
            "accepted": [_told(record) for record in self.accepted],
            "rejected": [_told(record) for record in self.bad],
            "standing": [_told(record) for record in self.standing],
            "learnt": [_told(record) for record in pending],
        }

    def _look_for(self, absent: list[ShardRecord]) -> None:
        """Find what is released in the store, as its file is no longer where files arrive."""
        held = sorted((one for one in absent if one.status == "quarantined"), key=lambda one: one.order)
        self.gone = [one for one in held if self.store.has_data(one)]
        lost = [one for one in held if one not in self.gone and not {*one.names} & {*self.fresh}]
        if lost:
            raise DataError(
                f"{lost[0].name} is quarantined and no longer in {self.settings.source}, and as it was never accepted, "
                f"its rows are nowhere else. Bring it back, or leave {lost[0].key} out of release."
            )

    def _again(self, record: ShardRecord, released: set[str]) -> bool:
        """Whether a known file is held again: it is released, or broke a contract with other limits."""
        if record.status != "quarantined":
            return False
        if record.sha256 in released:
            return True
        contradicted = any(finding.kind in FOUND_LATER for finding in record.findings)
        now = contract_digest(self.settings.contract, self.settings.time_column)
        return not contradicted and record.contract != now


def _told(record: ShardRecord) -> dict[str, Any]:
    kinds = [finding.kind for finding in record.findings] or (["duplicate"] if record.status == "duplicate" else [])
    told = {"sha256": record.sha256, "name": record.name, "rows": record.rows, "status": record.status, "kinds": kinds}
    return told | ({"reason": record.reason} if record.findings else {})
