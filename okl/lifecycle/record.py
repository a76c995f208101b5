"""Records of shards: accepted, quarantined or duplicate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from okl.data.dataset import ColumnStatistics
from okl.foundation.errors import DataError
from okl.foundation.validation import check_fields, fault, parse_json, validated
from okl.lifecycle.error_drift import ShardScores

FORMAT_VERSION = 1
DIGITS = 16
SHA256 = re.compile("[0-9a-f]{64}")
ATTEMPTS = "attempts"  # folder of rejected challengers in the shard store
PAGE = "report.html"  # report of a version
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
