"""From a file that has arrived to its record: held to the contract, and taken in as a data set if it keeps to it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from okl.configuration import IngestSettings
from okl.errors import ConflictError, DataError, PlaceError, PlaceTakenError
from okl.retraining.baseline import Baseline
from okl.retraining.contract import Held, contract_digest, hold, learnable
from okl.retraining.landing import Arrival
from okl.retraining.profile import Profile
from okl.retraining.record import Finding, ShardRecord, Status
from okl.retraining.settings import ContractSettings
from okl.retraining.shardstore import ShardStore
from okl.store.dataset import Dataset, Schema
from okl.store.ingest import ingest
from okl.store.manifest import is_dataset
from okl.store.places import Place, RemotePath
from okl.store.publishing import is_leftover


def settle(
    store: ShardStore,
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
    waived = released and learnable(held.findings)
    status: Status = "duplicate" if held.of else "accepted" if waived or not held.findings else "quarantined"
    record = _record(arrival, sha256, held, status, baseline.schema)
    record = replace(record, contract=contract_digest(contract, time_column), released=waived)
    if status == "accepted":
        settings = ingesting.model_copy(update={"seed": reserved_seed(ingesting.seed, sha256)})
        try:
            data = _taken_in(arrival, store.place / record.key, settings, baseline.schema, progress)
        except PlaceError:
            raise  # a full disk, a store that does not answer: the shard may be well, and is held again
        except DataError as error:  # such as too few rows to leave one to learn
            finding = Finding("unreadable", f"{arrival.name} cannot be read: {error}", {"error": str(error)})
            return store.put(replace(record, status="quarantined", findings=(*record.findings, finding)))
        record = replace(record, train_rows=data.rows("train"), test_rows=data.rows("test"))
    return store.put(record)


def _taken_in(
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


def _is_written_to(folder: Place) -> bool:
    """Whether somebody writes, or has written, where it could not be written: under a URL two at once meet."""
    return isinstance(folder, RemotePath) and (is_leftover(folder) or is_dataset(folder))


def reserved_seed(seed: int, sha256: str) -> int:
    """What decides which rows of a shard are reserved: a hash of the seed and the shard, 63 bits."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{sha256}".encode()).digest()[:8]) >> 1


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
