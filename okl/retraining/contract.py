"""The data contract: what is wrong with a shard, each with a kind, a sentence and figures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from okl.errors import DataError, PlaceError
from okl.retraining.absences import missing_findings, unseen_findings
from okl.retraining.baseline import Baseline
from okl.retraining.distributions import distribution_findings
from okl.retraining.profile import Profile, open_shard, profile_of, time_in_name
from okl.retraining.record import Finding, Time
from okl.retraining.settings import ContractSettings
from okl.store.dataset import Schema
from okl.store.encoder import unfit
from okl.store.places import Place, size_of
from okl.store.reference import text_labels
from okl.store.sources import Source
from okl.store.values import is_number, is_text

KINDS = (
    "empty", "unreadable", "missing-column", "extra-column", "other-type", "too-few-rows", "too-many-rows",
    "infinite-values", "missing-values", "unseen-values", "missing-targets", "unknown-label", "label-shares",
    "out-of-range", "mean-shift", "constant-column", "repeated", "late", "contradiction", "unrelated",
)  # fmt: skip
HARD = frozenset(
    {"empty", "unreadable", "missing-column", "other-type", "infinite-values", "missing-targets", "unknown-label",
     "repeated"}
)  # fmt: skip
"""Kinds that nobody can release: such rows cannot be learnt, or have been."""
FOUND_LATER = frozenset({"contradiction", "unrelated"})
"""Kinds that the champion finds in shards that keep to the contract."""


@dataclass(frozen=True, eq=False)
class Held:
    """What was found about a shard; profile : None where its rows could not be looked at."""

    findings: tuple[Finding, ...]
    profile: Profile | None
    first_time: Time | None = None
    last_time: Time | None = None
    of: str = ""


def hold(place: Place, name: str, baseline: Baseline, contract: ContractSettings, time_column: str | None) -> Held:
    """Hold a file to the contract: look at it once, and raise nothing about what it holds.

    place, name : the file, and what to call it

    Raises
    ------
    PlaceError : a store that does not answer
    """
    try:
        if size_of(place) == 0:
            return Held((Finding("empty", f"{name} is empty: it has no bytes.", {"bytes": 0}),), None)
        source = open_shard(place, baseline.schema)
        columns = tuple(_column_findings(source, name, baseline.schema, contract, time_column))
        if any(finding.kind != "extra-column" for finding in columns):
            return Held(columns, None)
        profile = profile_of(source, baseline.schema, baseline.limits(contract.range_widening), time_column)
    except PlaceError:
        raise  # it tells nothing of the rows
    except (DataError, OSError) as error:
        return Held((_unreadable(name, str(error)),), None)
    first, last = profile.first_time, profile.last_time
    if time_column is None:
        first = last = time_in_name(name)
    findings = [*columns, *_row_findings(profile, name, baseline, contract)]
    of = baseline.rows.get(profile.rows_sha256, "")
    if of and profile.rows:
        sentence = f"{name} holds the rows of the shard {of[:16]} again, in other bytes: it would be learnt twice."
        findings.append(Finding("repeated", sentence, {"of": of}))
    if not contract.late and (late := _late(name, last, baseline.watermark)) is not None:
        findings.append(late)
    return Held(tuple(findings), profile, first, last, of)


def learnable(findings: Iterable[Finding]) -> bool:
    """Whether rows can be learnt in spite of what was found, once somebody says so: a release of others is in vain."""
    return not any(finding.kind in HARD for finding in findings)


def contract_digest(contract: ContractSettings, time_column: str | None) -> str:
    """What tells limits from other limits, 16 digits: shards that broke other ones are held again."""
    return hashlib.sha256(f"{contract.model_dump_json()} {time_column}".encode()).hexdigest()[:16]


def _unreadable(name: str, why: str) -> Finding:
    if "holds no rows" in why or " is empty" in why:
        return Finding("empty", f"{name} holds no rows.", {"rows": 0})
    return Finding("unreadable", f"{name} cannot be read: {why}", {"error": why})


def _column_findings(
    source: Source, name: str, schema: Schema, contract: ContractSettings, time_column: str | None
) -> Iterator[Finding]:
    types = dict(zip(source.schema.names, source.schema.types, strict=True))
    needed = [*schema.source_columns, schema.target, *schema.keys, *([time_column] if time_column else [])]
    if missing := [column for column in dict.fromkeys(needed) if column not in types]:
        yield Finding(
            "missing-column",
            f"{name} misses {len(missing)} of {len(needed)} columns: {_shown(missing)}.",
            {"columns": missing},
        )
    extra = [column for column in types if column not in needed]
    if extra and not contract.extra_columns:
        yield Finding(
            "extra-column",
            f"{name} has {len(extra)} columns that the reference has not: {_shown(extra)}.",
            {"columns": extra},
        )
    wrong = {
        column: str(types[column])
        for column in schema.source_columns
        if column in types and unfit(schema, column, types[column])
    }
    if (kind := types.get(schema.target)) is not None and not _fits_target(schema, kind):
        wrong[schema.target] = str(kind)
    if wrong:
        told = [f"{column} is {kind}" for column, kind in wrong.items()]
        yield Finding("other-type", f"{name} has columns of other types: {_shown(told)}.", {"types": wrong})


def _fits_target(schema: Schema, kind: pa.DataType) -> bool:
    return is_text(kind) if text_labels(schema) else is_number(kind)


def _row_findings(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    schema, rows = baseline.schema, profile.rows
    if rows == 0:
        yield Finding("empty", f"{name} holds no rows.", {"rows": 0})
        return
    if rows < contract.min_rows:
        figures = {"rows": rows, "min_rows": contract.min_rows}
        yield Finding("too-few-rows", f"{name} has {rows} rows; expected {contract.min_rows} at least.", figures)
    if contract.max_rows is not None and rows > contract.max_rows:
        figures = {"rows": rows, "max_rows": contract.max_rows}
        yield Finding("too-many-rows", f"{name} has {rows:,} rows; expected {contract.max_rows:,} at most.", figures)
    yield from _value_findings(profile, name, baseline, contract)
    if unknown := {
        str(label): n for label, n in profile.labels.items() if schema.labels and label not in schema.labels
    }:
        told = [f"{label!r} ({count} rows)" for label, count in unknown.items()]
        yield Finding(
            "unknown-label",
            f"{name}: target {schema.target!r} holds labels that the reference has not: {_shown(told)}.",
            {"rows": dict(list(unknown.items())[:20])},
        )
    if rows >= contract.min_rows:
        yield from distribution_findings(profile, name, baseline, contract)
        yield from unseen_findings(profile.columns, profile.missing, rows, name, baseline, contract)


def _value_findings(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    schema, rows = baseline.schema, profile.rows
    counts = dict(zip(schema.features, profile.infinite.tolist(), strict=True)) | {
        schema.target: profile.target_infinite
    }
    if infinite := {column: count for column, count in counts.items() if count}:
        told = [f"{column} in {count} rows" for column, count in infinite.items()]
        yield Finding("infinite-values", f"{name} holds infinite values: {_shown(told)}.", {"rows": infinite})
    yield from missing_findings(profile.missing, rows, name, baseline, contract)
    if profile.target_missing and schema.missing != "drop":
        yield Finding(
            "missing-targets",
            f"{name} misses the target {schema.target!r} in {profile.target_missing} of {rows} rows.",
            {"rows": profile.target_missing},
        )


def _late(name: str, last: Time | None, watermark: Time | None) -> Finding | None:
    if last is None or watermark is None or isinstance(last, str) != isinstance(watermark, str):
        return None
    if not last < watermark:  # type: ignore[operator]  # both are texts, or both numbers
        return None
    sentence = f"{name} ends at {last}, but rows up to {watermark} have been learnt: it is older than the watermark."
    return Finding("late", sentence, {"last_time": last, "watermark": watermark})


def _shown(words: list[str]) -> str:
    return ", ".join(words[:5]) + (f", and {len(words) - 5} more" if len(words) > 5 else "")
