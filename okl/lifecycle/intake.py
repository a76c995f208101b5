"""From arriving files to accepted shards."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from okl.data.dataset import Dataset, Schema
from okl.data.ingest.run import ingest
from okl.data.manifest import is_dataset
from okl.data.reading import stored_column
from okl.foundation.errors import ConfigError, ConflictError, DataError, LocationError, LocationTakenError, listed
from okl.foundation.folders import is_leftover
from okl.foundation.locations import Place, RemotePath
from okl.foundation.settings import IngestSettings
from okl.lifecycle.contract import (
    FOUND_LATER,
    MOST_COMPARED,
    Baseline,
    baseline_of,
    check_contract,
    contract_digest,
    learnable,
    seen_finding,
    unreadable,
)
from okl.lifecycle.profile import time_in_name
from okl.lifecycle.settings import ContractSettings, RetrainSettings
from okl.lifecycle.shard_store import (
    Arrival,
    ShardRecord,
    ShardStore,
    Status,
    arrivals,
    find_accepted,
    find_quarantined,
    in_window,
)

if TYPE_CHECKING:
    from okl.lifecycle.champion import ModelHistory

# Validation of one file.


def validate_file(
    store: ShardStore,
    arrival: Arrival,
    sha256: str,
    baseline: Baseline,
    contract: ContractSettings,
    ingesting: IngestSettings,
    time_column: str | None = None,
    released: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> ShardRecord | None:
    """Validate a file against the contract, and accept or quarantine it; safe to repeat after a kill at any moment.

    sha256 : of the file's bytes; baseline : what was accepted before
    ingesting : holdout is the share of rows that are reserved, seed decides which
    released : accept the shard with findings that allow training
    Returns its record, written; None if the file was changed since it was listed, so that the digest may be of other
        bytes.
    Raises LocationError : its data set cannot be written, or the file cannot be read now; there is no record
    Raises ConflictError : another process takes in the same shard
    """
    others = {rows: shard for rows, shard in baseline.rows.items() if shard != sha256}  # it may be held again
    result = check_contract(arrival.location, arrival.name, replace(baseline, rows=others), contract, time_column)
    if result.profile is not None and not result.of and contract.seen_share < 1.0:
        earlier = ((shard, store.rows(shard)) for shard in baseline.shards[-MOST_COMPARED:])
        seen = seen_finding(result.profile, arrival.name, earlier, contract.seen_share)
        result = replace(result, findings=(*result.findings, *([seen] if seen else [])))
    waived = released and learnable(result.findings)
    status: Status = "duplicate" if result.of else "accepted" if waived or not result.findings else "quarantined"
    limits = contract_digest(contract, time_column)
    record = ShardRecord(
        sha256, (arrival.name,), arrival.size_bytes, status, result.findings,
        of=result.of, contract=limits, released=waived,
    )  # fmt: skip
    if (profile := result.profile) is not None:
        record = replace(
            record,
            rows_sha256=profile.rows_sha256,
            rows=profile.rows,
            first_time=result.first_time,
            last_time=result.last_time,
            unused=result.unused,
            unseen=result.unseen,
            class_counts=tuple(profile.labels.get(label, 0) for label in baseline.schema.labels),
            columns=profile.columns,
            target=profile.target if baseline.schema.task == "regression" else None,
        )
    data = None
    if status == "accepted":
        settings = ingesting
        if ingesting.group is None:  # else a group is reserved in all shards
            # each shard reserves other rows: its seed is a hash of the seed and the shard, 63 bits
            seed = int.from_bytes(hashlib.sha256(f"{ingesting.seed}:{sha256}".encode()).digest()[:8]) >> 1
            settings = ingesting.model_copy(update={"seed": seed})
        try:
            data = _taken_in(arrival, store.location / record.key, settings, baseline.schema, progress)
        except LocationError:
            raise  # a full disk, a store that does not answer: the shard may be well, and is held again
        except DataError as error:  # such as too few rows to leave one to learn
            findings = (*record.findings, unreadable(arrival.name, str(error)))
            record = replace(record, status="quarantined", findings=findings)
    if not arrival.is_unchanged():
        if data is not None and isinstance(data.folder, Path):
            shutil.rmtree(data.folder, ignore_errors=True)
        return None
    if data is not None and result.profile is not None:
        store.put_rows(record, result.profile.hashes.values)
        record = replace(record, train_rows=data.rows("train"), test_rows=data.rows("test"))
    return store.put(record)


def _taken_in(
    arrival: Arrival,
    folder: Place,
    settings: IngestSettings,
    reference: Schema,
    progress: Callable[[int, int | None], None] | None,
) -> Dataset:
    """Return the data set of a file; what a killed process left there under other settings is replaced."""

    def taken_in(overwrite: bool) -> Dataset:
        return ingest(arrival.location, folder, settings, overwrite, progress=progress, reference=reference).dataset

    try:
        try:
            return taken_in(overwrite=False)
        except DataError:
            if not is_dataset(folder):
                raise
        return taken_in(overwrite=True)
    except (LocationTakenError, LocationError) as error:
        # a URL cannot be locked: another process writes the shard, or wrote it
        is_written_to = isinstance(folder, RemotePath) and (is_leftover(folder) or is_dataset(folder))
        if not isinstance(error, LocationTakenError) and not is_written_to:
            raise
        raise ConflictError(
            f"Another retraining is reading {arrival.name} now. Nothing is lost; the next run continues."
        ) from None


# Intake of all arrivals.

LATE_ROWS = 0.01  # of a shard, that are older than rows of the latest before


@dataclass(eq=False)
class Intake:
    """Arrived files of a run and their treatment.

    history : records and champion at the start
    new : files to hold, with their digests; fresh : names of files to hold that may still be written
    unread : name of each file that cannot be read, and why; accepted, bad : records of this run
    same : names under which bytes of before have come for the first time, the name of before, the digest
    vain : records to release that cannot be trained on
    standing : quarantined by runs before, with files that are still there
    restorable : quarantined and released; the file is gone, but the data set is stored
    ignored : sentences about columns that no file had before, and about rows that are older than earlier ones
    excluded : shards that are not trained on any more, by name or digits of the settings
    """

    settings: RetrainSettings
    store: ShardStore
    history: ModelHistory
    new: list[tuple[Arrival, str]] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    unread: list[dict[str, str]] = field(default_factory=list)
    accepted: list[ShardRecord] = field(default_factory=list)
    bad: list[ShardRecord] = field(default_factory=list)
    same: list[tuple[str, str, str]] = field(default_factory=list)
    vain: list[ShardRecord] = field(default_factory=list)
    standing: list[ShardRecord] = field(default_factory=list)
    restorable: list[ShardRecord] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    excluded: list[ShardRecord] = field(default_factory=list)
    files: int = 0

    def discover(self) -> dict[str, Any]:
        """List the files, and hash new ones.

        Raises ConfigError : the folder of arriving files does not exist; DataError : it does not answer, or a file is
            lost, or what is to be released is not quarantined, or neither its file nor its data set is there, or what
            is to be excluded is not accepted
        """
        settled, fresh, odd = arrivals(self.settings.source, self.settings.settle_seconds)
        self.unread = [{"name": arrival.name, "why": arrival.problem} for arrival in odd]
        self.files = len(settled)
        state, self._records = self.store.file_state(), dict(self.history.records)
        before, young = dict(state.entries), {arrival.name for arrival in fresh}
        self.excluded = [find_accepted(self._records, key) for key in self.settings.exclude]
        self._released = {find_quarantined(self._records, key).sha256 for key in self.settings.release}
        sizes = {record.size_bytes for record in self._records.values()}
        met: dict[str, str] = {}
        for arrival in sorted([*settled, *fresh], key=lambda arrival: arrival.name):
            if arrival.name in young and arrival.size_bytes not in sizes:  # half a file need not be read
                self.fresh.append(arrival.name)
                continue
            digest = state.sha256(arrival)
            if arrival.name in young and self._is_to_validate(digest):
                self.fresh.append(arrival.name)
            else:  # of the young ones those whose bytes are known: they were touched, or copied again
                self._meet(arrival, digest, met)
        state.keep_only(arrival.name for arrival in (*settled, *fresh))
        if state.entries != before:
            self.store.write_file_state(state)
        self._find_released([self._records[digest] for digest in self._released - met.keys()])
        return {"files": self.files, "new": len(self.new), "still_written": len(self.fresh)}

    def exclude(self) -> None:
        """Quarantine the shards that are not trained on any more."""
        self.excluded = [record if record.excluded else self.store.exclude(record) for record in self.excluded]

    def validate(self, reference: Schema, progress: Callable[[int, int | None], None]) -> None:
        """Check new files by name, each against those accepted before; then accept released ones."""
        records, settings = self.store.records(), self.settings
        twins: dict[str, list[str]] = {}
        for name, _, digest in self.same:
            twins.setdefault(digest, []).append(name)
        ingesting = settings.ingest.model_copy(update={"holdout": settings.holdout})
        for arrival, digest in self.new:
            before = records.get(digest)
            if before is not None and digest in self._released and self.store.has_data(before):
                record = self.store.release(before)  # it was accepted once, and then contradicted the champion
            else:
                accepted = [one for one in records.values() if one.status == "accepted" and one.sha256 != digest]
                baseline = baseline_of(reference, accepted, self.history.watermark)
                waived = digest in self._released
                parts = (baseline, settings.contract, ingesting, settings.time_column, waived, progress)
                checked = validate_file(self.store, arrival, digest, *parts)
                if checked is None:
                    self.fresh.append(arrival.name)
                    continue
                record = checked
                self._find_new_columns(record, accepted)
                if record.unseen and record.status == "accepted":
                    self.ignored.append(record.unseen)
                if record.status == "accepted" and self.history.champion is not None and accepted:
                    self.ignored += self._late_rows(record, max(accepted, key=lambda before: before.order))
            for name in (*(before.names if before else ()), *twins.get(digest, ())):
                record = self.store.add_name(record, name)  # so that it is reported once
            records[digest] = record
            if digest in self._released and record.status == "quarantined" and not learnable(record.findings):
                self.vain.append(record)
            (self.accepted if record.status == "accepted" else self.bad).append(record)
        self.accepted += [self.store.release(record) for record in self.restorable]

    def pending(self, history: ModelHistory) -> list[ShardRecord]:
        """Return accepted shards within the window that are new for the champion, in training order.

        Raises ConfigError : a window was given, but the shards have no times
        """
        settings = self.settings
        waiting = [record for record in history.accepted() if record.sha256 not in history.trained_on]
        first, last = settings.window_from, settings.window_to
        if (first or last) and waiting and all(record.first_time is None for record in waiting):
            raise ConfigError(
                "window_from and window_to need the time of a shard. Set time_column, or put the date into file "
                "names, such as 2026-11-22.parquet."
            )
        return [record for record in waiting if in_window(record, first, last)][: settings.max_shards]

    def as_json(self, pending: list[ShardRecord]) -> dict[str, Any]:
        """Return the facts for the report."""
        out = {record.sha256 for record in (*self.bad, *self.standing) if record.status == "quarantined"}
        has_times = self.settings.time_column is not None
        return {
            "files": self.files,
            "still_written": self.fresh,
            "unread": self.unread,
            "under_another_name": [
                {"name": name, "same_as": other, "status": "quarantined" if digest in out else "already trained on"}
                for name, other, digest in self.same
            ],
            "accepted": [_describe(record) for record in self.accepted],
            "rejected": [
                _describe(record) | {"timed": has_times or time_in_name(record.name) is not None} for record in self.bad
            ],
            "standing": [_describe(record) for record in self.standing],
            "excluded": [_describe(record) for record in self.excluded],
            "released_in_vain": [_describe(record) | {"there": record in self.bad} for record in self.vain],
            "learnt": [_describe(record) for record in pending],
        }

    def _meet(self, arrival: Arrival, digest: str, met: dict[str, str]) -> None:
        """Validate a file; met : the first name of each digest so far."""
        record, first = self._records.get(digest), met.setdefault(digest, arrival.name)
        pending = first == arrival.name and self._is_to_validate(digest)
        if pending:
            self.new.append((arrival, digest))
        elif record is None or arrival.name not in record.names:
            self.same.append((arrival.name, record.name if record else first, digest))
        if record is not None:
            self._records[digest] = self.store.add_name(record, arrival.name)
            if not pending and first == arrival.name and record.status == "quarantined" and not record.excluded:
                self.standing.append(record)

    def _find_new_columns(self, record: ShardRecord, before: list[ShardRecord]) -> None:
        """Record the columns of an accepted shard that no shard had before; the first shards have those left out."""
        known = {*self.settings.ingest.drop}.union(*(one.unused for one in before))
        new = [column for column in record.unused if column not in known]
        if new and record.status == "accepted" and (before or self.history.champion):
            columns = "a new column, which is" if len(new) == 1 else f"{len(new)} new columns, which are"
            remedy = "To use new columns, train a model of another name."
            self.ignored.append(f"{record.name} has {columns} ignored: {listed(new)}. {remedy}")

    def _late_rows(self, record: ShardRecord, latest: ShardRecord) -> list[str]:
        """Return a sentence for each date column by which a part of a shard is older than rows of the latest before."""
        sentences = list[str]()
        for encoding in self.store.dataset(record).schema.encodings:
            if encoding.is_date:
                before, years = (stored_column(self.store.dataset(one), encoding.inputs[0]) for one in (latest, record))
                late = int((years < before.max()).sum())
                if LATE_ROWS * len(years) <= late <= 0.5 * len(years):  # more: it does not advance from file to file
                    sentences.append(
                        f"{record.name}: {late:,} of {len(years):,} rows are older by {encoding.column!r} than rows of "
                        f"{latest.name}, which came before."
                    )
        return sentences

    def _find_released(self, away: list[ShardRecord]) -> None:
        """Find the released shards in the store, as its file is no longer where files arrive."""
        quarantined = sorted((one for one in away if one.status == "quarantined"), key=lambda record: record.order)
        self.restorable = [record for record in quarantined if self.store.has_data(record)]
        absent = [one for one in quarantined if one not in self.restorable and not {*one.names} & {*self.fresh}]
        self.vain = [record for record in absent if not learnable(record.findings)]
        if lost := [record for record in absent if record not in self.vain]:
            raise DataError(
                f"{lost[0].name} is quarantined and no longer in {self.settings.source}; it was never accepted, so its "
                f"rows are not stored. Restore the file, or remove {lost[0].key} from release."
            )

    def _is_to_validate(self, digest: str) -> bool:
        """Return whether a file is new, or checked again: it was released, or broke a contract with other limits."""
        record = self._records.get(digest)
        if record is None or record.status != "quarantined":
            return record is None
        if digest in self._released:
            return True
        contradicted = any(finding.kind in FOUND_LATER for finding in record.findings)
        now = contract_digest(self.settings.contract, self.settings.time_column)
        return not contradicted and record.contract != now


def _describe(record: ShardRecord) -> dict[str, Any]:
    kinds = [finding.kind for finding in record.findings] or (["duplicate"] if record.status == "duplicate" else [])
    described = {
        "sha256": record.sha256,
        "name": record.name,
        "rows": record.rows,
        "status": record.status,
        "kinds": kinds,
        "left_out": record.rows - record.train_rows - record.test_rows if record.status == "accepted" else 0,
    }
    return described | ({"reason": record.reason, "releasable": learnable(record.findings)} if record.findings else {})
