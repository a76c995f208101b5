"""The data contract: violations by kind, with figures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import stats

from okl.data.dataset import INDICES, VALUES, ColumnStatistics, Encoding, Schema, SparseColumns, TextColumn
from okl.data.encoder import category_codes, number_of_word, unfit
from okl.data.ingest.reference import text_labels
from okl.data.ingest.sources import Source
from okl.data.values import MISSING_WORDS, is_number, is_text
from okl.foundation.errors import DataError, LocationError, listed, quoted
from okl.foundation.locations import Place, size_of
from okl.foundation.types import Integers
from okl.lifecycle.profile import (
    OF_ROW,
    Profile,
    Range,
    Vector,
    measured,
    merged_statistics,
    of_text,
    open_shard,
    profile_of,
    time_in_name,
)
from okl.lifecycle.settings import ContractSettings
from okl.lifecycle.shard_store import EXCLUDED, Finding, ShardRecord, Time, accepted_among, is_late
from okl.report.format import shortened

# Baselines: the accepted shards, or the reference's statistics.


@dataclass(frozen=True)
class Baseline:
    """Figures of the rows so far.

    schema : the reference; columns : of each figure, see `okl.lifecycle.profile.measured`; those of sparse rows are
        unknown before the first shard
    target : of regression; class_counts : by the reference's labels
    rows : shard by the digest of its values; watermark : latest time of the rows that were trained on
    n_rows : that were counted, 0 before the first shard; shards : the accepted ones in training order
    """

    schema: Schema
    columns: tuple[ColumnStatistics, ...]
    class_counts: tuple[int, ...]
    target: ColumnStatistics | None
    rows: dict[str, str]
    watermark: Time | None = None
    n_rows: int = 0
    shards: tuple[ShardRecord, ...] = ()

    def limits(self, widening: float) -> Range:
        """Return the ranges so far, widened on either side by a multiple of their width.

        A column that was constant so far has no limits, because scaling makes it 0. New rows have later dates than
        those so far, so a date is only far outside if it is many years away.
        """
        lowest, highest = _widened(self.columns, widening)
        for name, part in made_of_dates(self.schema).items():
            at, room = self.schema.features.index(name), DATE_YEARS if part == "years" else np.inf
            column = self.columns[at]
            room = max(room, widening * (column.maximum - column.minimum))
            lowest[at], highest[at] = column.minimum - room, column.maximum + room
        if self.target is None or self.schema.task != "regression":
            return Range(lowest, highest)
        (low,), (high,) = _widened((self.target,), widening)
        return Range(lowest, highest, float(low), float(high))


def baseline_of(schema: Schema, accepted: Collection[ShardRecord], watermark: Time | None = None) -> Baseline:
    """Return the baseline of the accepted shards, if there are any."""
    counted = [record for record in accepted if record.columns]
    rows = {record.rows_sha256: record.sha256 for record in accepted if record.rows_sha256}
    shards = tuple(accepted_among(accepted))
    if not counted:
        unknown = (ColumnStatistics(0, 0.0, 0.0, 0.0, 0.0),) * (len(measured(schema)) - len(schema.features))
        columns = (*schema.feature_statistics, *unknown)
        return Baseline(schema, columns, schema.class_counts, schema.target_statistics, rows, watermark, shards=shards)
    counts = np.array([record.class_counts for record in counted], dtype=np.int64).sum(axis=0)
    targets = [(record.target,) for record in counted if record.target is not None]
    return Baseline(
        schema,
        merged_statistics([record.columns for record in counted]),
        tuple(counts.tolist()) if schema.labels else (),
        merged_statistics(targets)[0] if targets else schema.target_statistics,
        rows,
        watermark,
        sum(record.rows for record in counted),
        shards,
    )


DATE_YEARS = 10.0  # before the first or after the last date: a wrong century, or a unit that makes dates those of 1970


def made_of_dates(schema: Schema) -> dict[str, str]:
    """Return the inputs that are parts of dates, each with the name of its part; see `okl.data.dataset`."""
    return {name: part for each in schema.encodings for name, part in zip(each.inputs, each.parts, strict=False)}


def _widened(columns: tuple[ColumnStatistics, ...], widening: float) -> tuple[Vector, Vector]:
    lowest = np.array([column.minimum for column in columns])
    highest = np.array([column.maximum for column in columns])
    room = np.where(lowest == highest, np.inf, widening * (highest - lowest))
    return lowest - room, highest + room


# Missing values and unknown categories.
#
# What fills a missing number, and the input that all rare words share, hide both from the figures of inputs.

Counts = NDArray[np.int64]


def missing_findings(
    missing: Counts, rows: int, name: str, baseline: Baseline, contract: ContractSettings
) -> Iterator[Finding]:
    """Yield columns with more missing values (rows without one, by column) than so far, or with forbidden ones.

    More than so far is more than the limit allows, and than chance explains: a shard may have few rows.
    """
    schema = baseline.schema
    before = _missing_so_far(baseline)
    text = {encoding.column for encoding in schema.encodings if encoding.kind == "category"} | {*_texts(schema)}
    shares: dict[str, float] = {}
    none = True
    for column, count in zip(schema.source_columns, missing.tolist(), strict=True):
        never = schema.missing == "error" and column not in text
        by_chance = not never and stats.binom.sf(count - 1, rows, before[column]) > contract.level
        if count / rows > (0.0 if never else before[column] + contract.missing_share) and not by_chance:
            shares[column], none = count / rows, none and never
    if shares:
        so_far = {column: "" if not before[column] else f" ({before[column]:.1%} so far)" for column in shares}
        described = [f"{column} in {share:.1%} of rows{so_far[column]}" for column, share in shares.items()]
        expected = "none" if none else f"at most {contract.missing_share:.1%} more than so far"
        yield Finding(
            "missing-values",
            f"{name} has missing values: {listed(described)}; expected {expected}.",
            {"shares": shares, "so_far": before, "limit": 0.0 if none else contract.missing_share},
        )


def unseen_findings(
    columns: Sequence[ColumnStatistics], missing: Counts, rows: int, name: str, baseline: Baseline,
    contract: ContractSettings
) -> Iterator[Finding]:  # fmt: skip
    """Yield text columns with more unknown values than so far, and sparse rows without a known term or column."""
    schema = baseline.schema
    missing_shares = dict(zip(schema.source_columns, (missing / rows).tolist(), strict=True))
    shares: dict[str, list[float]] = {}
    for encoding in schema.encodings:
        if encoding.kind == "category":
            # a row without a value has zeros, or is left out, if none was missing in training
            hidden = 0.0 if encoding.missing or schema.missing == "drop" else missing_shares[encoding.column]
            parts = ((baseline.columns, 0.0), (columns, hidden))
            shares[encoding.column] = [_unseen(encoding, schema, *part) for part in parts]
    yield from _grown(shares, f"{name} has values that were not in the training data", contract)
    if (sparse := schema.sparse) is not None:
        unknown = f"{name} has rows of which the model knows no {'term' if sparse.texts else 'column'}"
        yield from _grown(_shares_without_known(sparse, columns, baseline), unknown, contract)


NOTED_SHARE, NOTED_ROWS = 0.01, 10  # of a shard with unknown values, more than so far: a warning


def _with_values(finding: Finding, source: Source, schema: Schema) -> Finding:
    """Return the finding of unknown values with the most frequent ones among the first rows, any other as it is."""
    kinds = {one.column: one for one in schema.encodings if one.kind == "category"}
    columns = [column for column in finding.figures.get("shares", ()) if column in kinds]
    if finding.kind != "unseen-values" or not columns:
        return finding
    rows, values = next(iter(source.batches(columns))).batch, list[str]()
    for column in columns:
        unknown = category_codes(kinds[column], rows.column(column)) == len(kinds[column].categories)
        found = pc.value_counts(rows.column(column).filter(pa.array(unknown)).cast(pa.string()))
        most = np.argsort(-np.asarray(found.field("counts")), kind="stable")
        values += [quoted(value) for value in found.field("values").take(pa.array(most)).to_pylist()]
    sentence = f"{finding.sentence} The model has no input for {listed(values, 3)}; one of another name would."
    return replace(finding, sentence=sentence) if values else finding


def _few_unseen(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> str:
    """Return the warning of text columns with fewer unknown values than the contract refuses; "" without such."""
    if profile.rows < contract.min_rows:
        return ""
    noted = contract.model_copy(update={"unseen_share": max(NOTED_SHARE, NOTED_ROWS / profile.rows)})
    found = unseen_findings(profile.columns, profile.missing, profile.rows, name, baseline, noted)
    sentences = [finding.sentence.partition("; expected")[0] for finding in found]
    return f"{'. '.join(sentences)}. Such a value counts as none; check the spelling." if sentences else ""


def _shares_without_known(
    sparse: SparseColumns, columns: Sequence[ColumnStatistics], baseline: Baseline
) -> dict[str, list[float]]:
    """Return the shares of documents without a known term, or of rows without a known column: so far, and now."""
    means = [
        dict(zip(measured(baseline.schema), (c.mean for c in each), strict=True))
        for each in (baseline.columns, columns)
    ]
    shares: dict[str, list[float]] = {}
    for text in sparse.texts:
        _, without, empty = of_text(text)
        shares[text.column] = [mean[without] - mean[empty] for mean in means]
    return shares or {"all columns": [mean[OF_ROW[1]] for mean in means]}


def _grown(shares: Mapping[str, list[float]], what: str, contract: ContractSettings) -> Iterator[Finding]:
    """Yield a finding of the columns whose share of rows, so far and now, has grown beyond the limit."""
    grown = {column: pair for column, pair in shares.items() if pair[1] - pair[0] > contract.unseen_share}
    if grown:
        described = [f"{column} in {now:.1%} of rows ({before:.1%} so far)" for column, (before, now) in grown.items()]
        limit = contract.unseen_share
        sentence = f"{what}: {listed(described)}; expected at most {limit:.1%} more than so far."
        yield Finding("unseen-values", sentence, {"shares": grown, "limit": limit})


def _texts(schema: Schema) -> dict[str, TextColumn]:
    return {} if schema.sparse is None else {text.column: text for text in schema.sparse.texts}


def _missing_so_far(baseline: Baseline) -> dict[str, float]:
    schema = baseline.schema
    kinds = {encoding.column: encoding for encoding in schema.encodings}
    position = {name: index for index, name in enumerate(measured(schema))}
    shares, texts = {}, _texts(schema)
    for column in schema.source_columns:
        encoding = kinds.get(column)
        if column in texts:
            empty = baseline.columns[position[of_text(texts[column])[2]]]
            shares[column] = empty.mean if empty.count else 1.0  # unknown before the first shard
        elif column in (INDICES, VALUES):
            shares[column] = 0.0
        elif encoding is None:
            count = baseline.columns[position[column]].count
            shares[column] = max(0.0, 1.0 - count / baseline.n_rows) if baseline.n_rows else 0.0
        else:  # if none was missing in training, there is no later count
            recorded = encoding.missing and encoding.inputs[-1] in position
            shares[column] = baseline.columns[position[encoding.inputs[-1]]].mean if recorded else 0.0
    return shares


def _unseen(encoding: Encoding, schema: Schema, columns: Sequence[ColumnStatistics], hidden: float) -> float:
    """Return the share of rows with a value that has no input of its own; `hidden` is that of rows without a value."""
    means = dict(zip(measured(schema), (column.mean for column in columns), strict=True))
    if encoding.other:
        return means.get(encoding.inputs[encoding.n_own], 0.0)
    if encoding.means:
        return 0.0  # target means do not show it
    return max(0.0, 1.0 - hidden - sum(means.get(name, 0.0) for name in encoding.inputs))


# Distribution checks.
#
# Every limit is on the size of a difference, as with many rows the least difference is none of chance; and where
# chance alone might make one of that size, a test at a tiny level is required, too.

TWO_VALUED = 1e-4  # rounding of the figures of a column of two values
SHOWN = 20


def distribution_findings(
    profile: Profile, name: str, baseline: Baseline, contract: ContractSettings
) -> Iterator[Finding]:
    """Return the deviations from the rows so far."""
    yield from _labels(profile, name, baseline, contract)
    yield from _ranges(profile, name, baseline, contract)
    schema = baseline.schema
    pairs = dict(zip(measured(schema), zip(baseline.columns, profile.columns, strict=True), strict=True))
    if schema.task == "regression" and baseline.target is not None and profile.target is not None:
        pairs[schema.target] = (baseline.target, profile.target)
    missing = dict(zip(schema.source_columns, profile.missing.tolist(), strict=True))
    filled = [column for each in schema.encodings if missing[each.column] == profile.rows for column in each.inputs]
    for column in (*made_of_dates(schema), *filled):  # rows of one night have one day
        pairs.pop(column, None)
    shifts = {column: mean_shift(*pair) for column, pair in pairs.items()}
    if moved := {column: shift for column, shift in shifts.items() if abs(shift) > contract.mean_shift}:
        described = [f"{column} by {shift:+.1f}" for column, shift in moved.items()]
        limit, figures = contract.mean_shift, {"shifts": dict(list(moved.items())[:SHOWN])}
        sentence = f"{name}: means have moved, in standard deviations: {listed(described)}; expected at most {limit:g}."
        yield Finding("mean-shift", sentence, figures | {"limit": limit})
    constant = [column for column, pair in pairs.items() if stopped_changing(*pair, contract.level)]
    if constant and not contract.constant_columns:
        values = {column: pairs[column][1].mean for column in constant[:SHOWN]}
        described = [f"{column} is always {value:g}" for column, value in values.items()]
        yield Finding("constant-column", f"{name}: columns are constant now: {listed(described)}.", {"values": values})


def label_distance(before: Integers, now: Integers) -> tuple[float, float]:
    """Return the total variation distance of label shares, and the p-value of the G-test of equal shares.

    before, now : (n_labels,) rows of each label

    Source: Sokal & Rohlf, Biometry, 1981, section 17.4 (G-test of independence).
    """
    present = (before + now) > 0
    table = np.stack([before[present], now[present]])
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return 0.0, 1.0
    distance = 0.5 * float(np.abs(before / before.sum() - now / now.sum()).sum())
    return distance, float(stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").pvalue)


def mean_shift(before: ColumnStatistics, now: ColumnStatistics) -> float:
    """Return the shift of the mean in units of the larger standard deviation; 0 for a column that never changed.

    Columns of two values are skipped: their mean is a share, which may change.
    """
    spread = max(before.standard_deviation, now.standard_deviation)
    if before.constant or spread == 0.0 or now.count == 0 or two_valued(before):
        return 0.0
    return (now.mean - before.mean) / spread


def two_valued(column: ColumnStatistics) -> bool:
    """Return whether a column takes its least and its largest value only.

    The variance of values in [a, b] is at most (mean - a)(b - mean), with equality only for two values.
    Source: Bhatia & Davis, American Mathematical Monthly 107(4), 2000.
    """
    most = (column.mean - column.minimum) * (column.maximum - column.mean)
    return not column.constant and abs(column.standard_deviation**2 - most) <= TWO_VALUED * most


def stopped_changing(before: ColumnStatistics, now: ColumnStatistics, level: float) -> bool:
    """Return whether a column is constant now, and the number of equal rows rules out chance.

    With c the value now, E (X - c)^2 = spread^2 + (mean - c)^2 is at most P(X != c) max (X - c)^2: so at least that
    share of rows is expected to differ.
    """
    if not now.constant or now.count == 0 or before.constant or two_valued(before):
        return False
    farthest = max(abs(before.maximum - now.mean), abs(before.minimum - now.mean))
    differ = (before.standard_deviation**2 + (before.mean - now.mean) ** 2) / farthest**2
    return now.count * float(np.log1p(-min(differ, 1.0 - 1e-12))) < float(np.log(level))


def _labels(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    labels = baseline.schema.labels
    if not labels:
        return
    now = np.array([profile.labels.get(label, 0) for label in labels], dtype=np.int64)
    before = np.array(baseline.class_counts, dtype=np.int64)
    distance, p_value = label_distance(before, now)
    shares = np.stack([before / max(1, before.sum()), now / max(1, now.sum())], axis=1).tolist()
    if distance > contract.label_distance and p_value < contract.level:
        worst = max(range(len(labels)), key=lambda index: abs(shares[index][1] - shares[index][0]))
        text = (
            f"the distance of the label shares from those so far is {distance:.2f}; expected at most "
            f"{contract.label_distance:g}. {labels[worst]} was {shares[worst][0]:.1%} and is {shares[worst][1]:.1%}."
        )
    elif gone := [index for index in range(len(labels)) if has_vanished(before, now, index, contract.level)]:
        described = [f"{labels[index]} ({shares[index][0]:.2%} of the rows so far)" for index in gone]
        text = f"no row has the label {listed(described)}, which cannot be chance in {now.sum():,} rows."
    else:
        return
    of_labels = dict(zip(map(str, labels), shares, strict=True))
    figures = {"distance": distance, "p_value": p_value, "shares": of_labels}
    yield Finding("label-shares", f"{name}: {text}", figures)


def has_vanished(before: Integers, now: Integers, index: int, level: float) -> bool:
    """Return whether a label has no row now, and the G-test of its share excludes chance."""
    pair = [np.array([counts[index], counts.sum() - counts[index]]) for counts in (before, now)]
    return bool(now[index] == 0 < before[index]) and label_distance(*pair)[1] < level


def _ranges(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    schema = baseline.schema
    counts = dict(zip(measured(schema), profile.beyond.tolist(), strict=True))
    if schema.task == "regression":
        counts[schema.target] = profile.target_beyond
    shares = {column: count / profile.rows for column, count in counts.items()}
    if beyond := {column: share for column, share in shares.items() if share > contract.range_share}:
        described = [f"{column} in {share:.1%} of rows" for column, share in beyond.items()]
        limit, figures = contract.range_share, {"shares": dict(list(beyond.items())[:SHOWN])}
        sentence = (
            f"{name}: values are far outside the range so far: {listed(described)}; expected at most {limit:.1%}."
        )
        yield Finding("out-of-range", sentence, figures | {"limit": limit})


# The contract.

LEAST_SEEN = 3  # rows
KINDS = (
    "empty", "unreadable", "missing-column", "extra-column", "other-type", "too-few-rows", "too-many-rows",
    "infinite-values", "missing-values", "unseen-values", "missing-targets", "unknown-label", "label-shares",
    "out-of-range", "mean-shift", "constant-column", "repeated", "seen-rows", "late", "contradiction", "unrelated",
    EXCLUDED,
)  # fmt: skip
HARD = frozenset(
    {"empty", "unreadable", "missing-column", "other-type", "infinite-values", "missing-targets", "unknown-label",
     "repeated"}
)  # fmt: skip
"""Kinds that cannot be released: the rows cannot be trained on, or already were."""
FOUND_LATER = frozenset({"contradiction", "unrelated", EXCLUDED})
"""Kinds that the champion or a person finds in shards that satisfy the contract."""


@dataclass(frozen=True, eq=False)
class ContractResult:
    """Result of checking a shard against the contract; profile : None where its rows could not be read."""

    findings: tuple[Finding, ...]
    profile: Profile | None
    first_time: Time | None = None
    last_time: Time | None = None
    of: str = ""
    unused: tuple[str, ...] = ()
    unseen: str = ""


def check_contract(
    location: Place, name: str, baseline: Baseline, contract: ContractSettings, time_column: str | None
) -> ContractResult:
    """Check a file against the contract in one read; violations are findings, a store's failure is LocationError."""
    try:
        if size_of(location) == 0:
            return ContractResult((Finding("empty", f"{name} is empty (0 bytes).", {"bytes": 0}),), None)
        source = open_shard(location, baseline.schema)
        columns = tuple(_column_findings(source, name, baseline.schema, contract, time_column))
        if any(finding.kind != "extra-column" for finding in columns):
            return ContractResult(columns, None)
        profile = profile_of(source, baseline.schema, baseline.limits(contract.range_widening), time_column)
    except LocationError:
        raise  # it has no information on the rows
    except (DataError, OSError) as error:
        return ContractResult((unreadable(name, str(error)),), None)
    first, last = profile.first_time, profile.last_time
    if time_column is None:
        first = last = time_in_name(name)
    findings = [
        _with_values(finding, source, baseline.schema)
        for finding in (*columns, *_row_findings(profile, name, baseline, contract))
    ]
    of = baseline.rows.get(profile.rows_sha256, "")
    if of and profile.rows:
        sentence = f"{name} has the same rows as the shard {of[:16]} in another file format"
        findings.append(Finding("repeated", f"{sentence}; they would be trained on twice.", {"of": of}))
    if not contract.late and (late := _late(name, last, baseline.watermark)) is not None:
        findings.append(late)
    unused = tuple(_unknown_columns(source, baseline.schema, time_column))
    unseen = _few_unseen(profile, name, baseline, contract) if not findings else ""
    return ContractResult(tuple(findings), profile, first, last, of, unused, unseen)


MOST_COMPARED = 50  # latest shards whose rows a new file is compared with


def seen_finding(
    profile: Profile, name: str, earlier: Iterable[tuple[ShardRecord, NDArray[np.uint64]]], limit: float
) -> Finding | None:
    """Return the finding of rows that accepted shards have, too; None up to a limit, or where chance explains them.

    Where some rows of a file are equal, as few different values make them, rows of other files are as well: the more,
    the larger these are.
    """
    shares, by_chance = dict[str, float](), 0.0
    for record, hashes in earlier:
        share, rows = profile.hashes.shared(hashes)
        if share * rows >= LEAST_SEEN:
            shares[record.name] = share
        by_chance += 2.0 * profile.hashes.repeated * record.rows / max(1, profile.rows)
    share = min(1.0, sum(shares.values()))
    if share <= limit + by_chance:
        return None
    most = max(shares, key=lambda one: shares[one])
    sentence = (
        f"{name}: {share:.0%} of the {profile.rows:,} rows were in earlier files, most in {most}; expected at most "
        f"{limit:.0%}. Training rows would be reserved rows, too. Deliver new rows only."
    )
    return Finding("seen-rows", sentence, {"share": share, "limit": limit, "files": shares})


def learnable(findings: Iterable[Finding]) -> bool:
    """Return whether rows with these findings can be trained on after a manual release."""
    return not any(finding.kind in HARD for finding in findings)


def contract_digest(contract: ContractSettings, time_column: str | None) -> str:
    """Return 16 digits that identify the limits: shards that broke other limits are checked again."""
    return hashlib.sha256(f"{contract.model_dump_json()} {time_column}".encode()).hexdigest()[:16]


def unreadable(name: str, why: str) -> Finding:
    """Return the finding of a file that cannot be read; why : the error, which may begin with the file's path."""
    if "holds no rows" in why or " is empty" in why:
        return Finding("empty", f"{name} holds no rows.", {"rows": 0})
    before, path, rest = why.partition(f"/{name} ")
    named = path and not re.search(r"\s", before)  # the error is about the file itself
    return Finding("unreadable", f"{name} {rest}" if named else f"{name} cannot be read: {why}", {"error": why})


def _column_findings(
    source: Source, name: str, schema: Schema, contract: ContractSettings, time_column: str | None
) -> Iterator[Finding]:
    types = dict(zip(source.schema.names, source.schema.types, strict=True))
    needed = _needed_columns(schema, time_column)
    extra = _unknown_columns(source, schema, time_column)
    if missing := [column for column in needed if column not in types]:
        others = f" Others are unknown, perhaps renamed: {listed(extra)}." if extra else ""
        sentence = f"{name} lacks {len(missing)} of {len(needed)} columns: {listed(missing)}.{others}"
        yield Finding("missing-column", sentence, {"columns": missing})
    if extra and not contract.extra_columns:
        sentence = f"{name} has {len(extra)} columns that are not in the reference: {listed(extra)}."
        yield Finding("extra-column", sentence, {"columns": extra})
    wrong = {
        column: str(types[column])
        for column in schema.source_columns
        if column in types and unfit(schema, column, types[column])
    }
    fits = is_text if text_labels(schema) else is_number
    if (kind := types.get(schema.target)) is not None and not fits(kind):
        wrong[schema.target] = str(kind)
    if wrong:
        first = _first_values(source, [*wrong][:SHOWN])
        described = [f"{column} is {kind}{first.get(column, '')}" for column, kind in wrong.items()]
        yield Finding("other-type", f"{name} has columns of other types: {listed(described)}.", {"types": wrong})


def _first_values(source: Source, columns: list[str]) -> dict[str, str]:
    """Return the first value of each column that is not a number in text, with its row, among the first rows."""
    found: dict[str, str] = {}
    with suppress(DataError):
        for rows in source.batches(columns):
            for column in columns:
                for row, value in enumerate(rows.batch.column(column).to_pylist()):
                    as_number = isinstance(value, str) and (value in MISSING_WORDS or number_of_word(value) is not None)
                    if value is not None and not as_number:
                        found[column] = f" (first: {shortened(repr(value))} in row {row}, counted from 0)"
                        break
            break
    return found


def _needed_columns(schema: Schema, time_column: str | None) -> list[str]:
    needed = [*schema.source_columns, schema.target, *schema.keys, *([time_column] if time_column else [])]
    return [*dict.fromkeys(needed)]


def _unknown_columns(source: Source, schema: Schema, time_column: str | None) -> list[str]:
    needed = {*_needed_columns(schema, time_column)}
    return [column for column in source.schema.names if column not in needed]


def _row_findings(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    schema, rows = baseline.schema, profile.rows
    if rows == 0:
        yield Finding("empty", f"{name} holds no rows.", {"rows": 0})
        return
    if rows < contract.min_rows:
        figures = {"rows": rows, "min_rows": contract.min_rows}
        yield Finding("too-few-rows", f"{name} has {rows} rows; expected at least {contract.min_rows}.", figures)
    if contract.max_rows is not None and rows > contract.max_rows:
        figures = {"rows": rows, "max_rows": contract.max_rows}
        yield Finding("too-many-rows", f"{name} has {rows:,} rows; expected at most {contract.max_rows:,}.", figures)
    yield from _value_findings(profile, name, baseline, contract)
    counts = profile.labels if schema.labels else {}
    if unknown := {str(label): n for label, n in counts.items() if label not in schema.labels}:
        described = [f"{label!r} ({count} rows)" for label, count in unknown.items()]
        known = {str(label).strip().casefold() for label in schema.labels}
        spelled = known.issuperset(label.strip().casefold() for label in unknown)
        hint = "; they differ from known ones in case or blanks only" if spelled else ""
        what = f"labels that are not in the reference: {listed(described)}{hint}."
        sentence = f"{name}: target {schema.target!r} has {what}"
        yield Finding("unknown-label", sentence, {"rows": dict(list(unknown.items())[:20])})
    if rows >= contract.min_rows:
        yield from distribution_findings(profile, name, baseline, contract)
        yield from unseen_findings(profile.columns, profile.missing, rows, name, baseline, contract)


def _value_findings(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    schema, rows = baseline.schema, profile.rows
    counts = dict(zip(measured(schema), profile.infinite.tolist(), strict=True))
    counts |= {schema.target: profile.target_infinite}
    if infinite := {column: count for column, count in counts.items() if count}:
        described = [f"{column} in {count:,} row{'s' if count > 1 else ''}" for column, count in infinite.items()]
        sentence = f"{name} has values that are infinite or beyond float32: {listed(described)}."
        yield Finding("infinite-values", sentence, {"rows": infinite})
    yield from missing_findings(profile.missing, rows, name, baseline, contract)
    limit = 0.0 if schema.missing == "error" else contract.missing_share
    if profile.target_missing > limit * rows and schema.missing != "drop":
        yield Finding(
            "missing-targets",
            f"{name} has no value of the target {schema.target!r} in {profile.target_missing} of {rows} rows; expected "
            f"at most {limit:.1%}.",
            {"rows": profile.target_missing, "limit": limit},
        )


def _late(name: str, last: Time | None, watermark: Time | None) -> Finding | None:
    if not is_late(last, watermark):
        return None
    sentence = f"{name} ends at {last}, but the model was already trained on rows up to {watermark}."
    return Finding("late", sentence, {"last_time": last, "watermark": watermark})
