"""The ingest of one source into one data set folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from okl.data.dataset import (
    ColumnFormat,
    Dataset,
    Encoding,
    EncodingKind,
    Scale,
    Schema,
    Shard,
    SparseColumns,
    part_names,
)
from okl.data.encoder import texts_and_index
from okl.data.execution import Execution
from okl.data.ingest.columns import Roles, assign_roles, identifier_warnings
from okl.data.ingest.csv import BESIDE_DECIMAL_COMMAS
from okl.data.ingest.reference import classes_by, csv_types, open_by, reader_by, roles_by, settings_by
from okl.data.ingest.row_warnings import find_copies, find_shared_groups, find_shared_keys, find_unsorted_dates
from okl.data.ingest.sources import (
    Piece,
    Source,
    SourceBatch,
    SvmlightReading,
    open_source,
    over_pieces,
    read_piece,
    scan_source,
)
from okl.data.ingest.target_means import (
    MOST_CLASSES,
    TargetScale,
    TargetSums,
    folds_of_rows,
    no_sums,
    sums_of_rows,
    with_means,
)
from okl.data.ingest.targets import TargetReader, grouped, held_out, is_measured, stratified
from okl.data.ingest.value_formats import (
    PLAIN,
    Context,
    FormatTally,
    decide_formats,
    have_leading_zeros,
    may_be_formatted,
    tally_of,
)
from okl.data.ingest.writer import (
    ColumnMoments,
    Progress,
    RowCounts,
    RowReader,
    ShardPosition,
    closing,
    column_statistics,
    copy_on_workers,
    copy_piece,
    empty_moments,
    moved,
    piece_positions,
    shard_writers,
)
from okl.data.manifest import find_warnings, is_dataset, open_dataset, read_manifest, write_manifest
from okl.data.order import MOST_INPUTS
from okl.data.sparse import MOST_COUNTED, count_terms, fitted_text, most_frequent, texts_of
from okl.data.values import (
    MISSING_WORDS,
    date_parts,
    has_time,
    is_date,
    is_text,
    missing_in,
    missing_in_rows,
    numbers,
    zone_of,
)
from okl.foundation.errors import ConfigError, DataError, LocationError
from okl.foundation.folders import PLACE_FAULTS, is_leftover, output_folder, unwritable
from okl.foundation.locations import Place, place_of
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Doubles

# The destination folder: written under a temporary name, then renamed.


def check_destination(destination: Place) -> None:
    """Raise LocationError if something that okl did not make is there."""
    if destination.exists() and not is_leftover(destination) and not is_dataset(destination):
        raise LocationError(
            f"{destination} exists and is not a data set; okl does not replace it. Choose another folder."
        )


@contextmanager
def destination_folder(destination: Place) -> Iterator[Path]:
    """Write to a new folder that replaces the destination at the end; remove the folder after an error.

    Raises LocationError : it cannot be written to or is full, or another program has created files there
    """
    local = isinstance(destination, Path)
    folder = output_folder(destination, replaces=local or is_dataset(destination))
    try:
        folder.open()
        yield folder.staging
        check_destination(destination)
        folder.complete()
    except OSError as error:
        if error.errno not in PLACE_FAULTS:
            raise
        raise unwritable(destination if local else folder.staging, error) from None
    finally:
        folder.close()


# The scan of the TRAIN rows.
#
# Only columns that need it are read: text, and under missing = mean numbers and dates, too. What is counted of a
# piece of the source does not depend on who reads it, and pieces are added up in their order: so the records are the
# same from one process and from any workers.

MOST_VALUES = 50_000  # of a text column; beyond that they are no longer counted


@dataclass(frozen=True)
class ColumnPlan:
    """A source column and what it is read as: the kind of its encoding, or text whose terms are counted."""

    name: str
    kind: EncodingKind | Literal["text"]
    time_zone: str = ""
    calendar: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of the inputs of a numeric or date column, without the one for missing values."""
        dated = tuple(f"{self.name}:{part}" for part in part_names(self.kind, self.calendar))
        return (self.name,) if self.kind == "number" else dated


@dataclass(frozen=True, eq=False)
class ColumnScan:
    """Statistics of one column over the TRAIN rows.

    rows : with a value; missing : without one; missing_in_test : test rows without one
    values : rows by value, None where there are more than MOST_VALUES
    sums : of the parts of a number or date, float64
    """

    rows: int = 0
    missing: int = 0
    values: Counter[str] | None = None
    sums: Doubles | None = None
    missing_in_test: int = 0

    def plus(self, later: ColumnScan) -> ColumnScan:
        """Merge the statistics of later rows; the values of the later ones are counted in this one's counter."""
        values: Counter[str] | None = None
        if self.values is not None and later.values is not None:
            self.values.update(later.values)
            values = None if len(self.values) > MOST_VALUES else self.values
        sums = None if self.sums is None or later.sums is None else self.sums + later.sums
        rows, missing = self.rows + later.rows, self.missing + later.missing
        return ColumnScan(rows, missing, values, sums, self.missing_in_test + later.missing_in_test)


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Training documents of a column: all, and those with each term."""

    documents: int
    terms: Counter[str]

    def plus(self, later: TermCounts) -> TermCounts:
        """Merge the counts of later rows into these."""
        self.terms.update(later.terms)
        return TermCounts(self.documents + later.documents, most_frequent(self.terms, MOST_COUNTED))


def column_plans(roles: Roles, schema: pa.Schema, settings: IngestSettings) -> list[ColumnPlan]:
    """Return how each input column is read, in order."""
    plans, calendar = [], settings.dates == "calendar"
    for name in roles.features:
        kind = schema.field(name).type
        if name in settings.categories or is_text(kind):
            plans.append(ColumnPlan(name, "category"))
        elif pa.types.is_time(kind):
            plans.append(ColumnPlan(name, "time", calendar=calendar))
        elif is_date(kind):
            plans.append(ColumnPlan(name, "timestamp" if has_time(kind) else "date", zone_of(kind), calendar))
        else:
            plans.append(ColumnPlan(name, "number"))
    return plans


def scan_columns(
    source: Source, roles: Roles, plans: Sequence[ColumnPlan], settings: IngestSettings, execution: Execution | None
) -> list[Any]:
    """Scan the TRAIN rows of a source for the content of some columns: TermCounts of text, else ColumnScan.

    source : one whose pieces know their rows, where workers read it
    Raises DataError : rows that cannot be read, or whose split is none
    """
    if not plans:
        return []
    return _merged(partial(_scan_piece, roles, plans, settings.seed), source, execution)


def _merged(
    work: Callable[[ShardPosition], tuple[int, list[Any]]], source: Source, execution: Execution | None
) -> list[Any]:
    """Return what is counted over all pieces; work : returns the rows of a piece and a list of figures with `plus`."""

    def scans_here() -> Iterator[tuple[int, list[Any]]]:
        rows = 0
        for piece in source.pieces:
            yield (found := work(ShardPosition(piece, RowCounts(rows))))
            rows += found[0]

    found = scans_here() if execution is None else execution.map(work, piece_positions(source.pieces))
    return reduce(lambda one, later: [a.plus(b) for a, b in zip(one, later, strict=True)], (each for _, each in found))


def _scan_piece(roles: Roles, plans: Sequence[ColumnPlan], seed: int, position: ShardPosition) -> tuple[int, list[Any]]:
    """Return the rows of a piece, and the scan of each column over its TRAIN rows."""
    strata = roles.target if roles.strata else None
    others = [name for name in (roles.split, roles.holdout, roles.group, strata) if name is not None]
    columns = list(dict.fromkeys([*(plan.name for plan in plans), *others]))
    scans: list[Any] = [
        {"category": ColumnScan(values=Counter()), "text": TermCounts(0, Counter())}.get(
            plan.kind, ColumnScan(sums=np.zeros(len(plan.parts)))
        )
        for plan in plans
    ]
    n_rows = 0
    for rows in read_piece(position.piece, columns, exact=roles.exact_columns):
        test = held_out(roles, rows, position.at.rows + n_rows, seed)
        n_rows += rows.batch.num_rows
        batch = rows.batch if test is None else rows.batch.filter(pa.array(~test))
        held = None if test is None else rows.batch.filter(pa.array(test))
        scans = [
            # neither: a text column with too many values to continue counting
            so_far.plus(_scan_column(plan, batch.column(plan.name), held))
            if plan.kind == "text" or so_far.values is not None or so_far.sums is not None
            else so_far
            for plan, so_far in zip(plans, scans, strict=True)
        ]
    return n_rows, scans


def _scan_column(plan: ColumnPlan, column: pa.Array, held: pa.RecordBatch | None) -> ColumnScan | TermCounts:
    n = len(column)
    if plan.kind == "text":
        return TermCounts(n, count_terms(texts_of(column)))
    if plan.kind == "category":
        texts, index = texts_and_index(column)
        counts = np.bincount(index % len(texts), minlength=len(texts))  # -1 is the last one
        named = Counter[str]()
        for word, count in zip(texts.to_pylist(), counts.tolist(), strict=True):
            if word is not None and count:
                named[word] += count
        rows = named.total()
        return ColumnScan(rows, n - rows, None if len(named) > MOST_VALUES else named)
    if plan.kind == "number":
        with np.errstate(over="ignore", invalid="ignore"):
            parts = numbers(column).astype(np.float32).astype(np.float64)[np.newaxis]
    else:
        parts = date_parts(column, plan.kind, plan.time_zone, plan.calendar)
    present = ~np.isnan(parts[0])
    rows = int(present.sum())
    in_test = 0 if held is None else int(missing_in(held.column(plan.name)).sum())
    with np.errstate(invalid="ignore"):  # of infinite values, which are an error where they are copied
        sums = parts[:, present].sum(axis=1)
    return ColumnScan(rows, n - rows, sums=sums, missing_in_test=in_test)


# Encoding records from the scan: which values get an input.

FEW_VALUES = 16  # a column of so few is never taken for an identifier
MOST_MEAN, FEW_ROWS = 30, 8  # training rows: of a value on average for target means; of the values of most rows
LEAST_OF_MEAN = 2  # training rows of a value with a target mean of its own: a single one has no other to learn from
MOST_FREQUENT, LEAST_ROWS = 64, 5  # values of a column with an input at least; training rows of each further one
MOST_NUMBERS = 30_000_000  # in all training rows, for further values to have inputs
MANY_WORDS = 4  # in the mean of different values: then these look like texts
SOME_WORDS = 2  # likewise, if they have less than half as many different words as there are values
LONGEST_NAME = 60
OTHER, MISSING, MEAN = "(other)", "(missing)", "(mean target)"


def learn_encodings(
    source: Source,
    roles: Roles,
    settings: IngestSettings,
    targets: TargetReader,
    execution: Execution | None,
    keep_fills: bool,
) -> tuple[Roles, list[str]]:
    """Decide how each column becomes inputs; a table of numbers none of which is missing is left as it is.

    The most frequent values of a text column, as many as `_numbers_of_inputs` says (of equally frequent ones the first
    in the order of the alphabet), get an input each, in the order of the alphabet; all others share one. A column most
    of whose values occur once, such as an id, has no information on other rows: it is left out. A column of more than
    MOST_FREQUENT values makes target means instead, see `_makes_means`, unless the settings have a number of values.

    targets : reader of the target, which is not changed
    keep_fills : for rows that a model continues to train on: numbers are encoded with their means even if none is
        missing, as later files may miss some, and no column makes target means, as these would remain those of the
        first files and include the targets of their rows
    Returns roles whose features are the inputs, and sentences on each column that was left out.
    Raises DataError : numbers among which there are a few words; more inputs than fit; no input left
    """
    if roles.sparse is not None and not roles.features:
        return roles, []
    plans = column_plans(roles, source.schema, settings)
    mean = settings.missing == "mean"
    numeric = all(plan.kind == "number" for plan in plans)
    if numeric and (not mean or (source.kind == "svmlight" and not any(piece.has_missing for piece in source.pieces))):
        return roles, []
    scanned = [plan for plan in plans if mean or plan.kind == "category"]
    scans = dict(zip(scanned, scan_columns(source, roles, scanned, settings, execution), strict=True))
    if numeric and not keep_fills and not any(scan.missing + scan.missing_in_test for scan in scans.values()):
        return roles, []
    taken = {roles.target, *roles.keys, *(plan.name for plan in plans if plan.kind == "number")}
    words = {plan.name: scans[plan] for plan in plans if plan.kind == "category"}
    unused = {name: _why_unused(name, scan, settings, source.location) for name, scan in words.items()}
    words = {name: scan for name, scan in words.items() if not unused[name]}
    notes, made = [note for note in unused.values() if note], dict[str, Encoding | None]()
    n_others = sum(len(plan.parts) + 1 for plan in plans if plan.kind != "category")
    of_means = dict[str, tuple[Encoding, Encoding]]()
    if not keep_fills and settings.max_categories is None:
        many = {name: scan for name, scan in words.items() if _makes_means(scan.values or Counter(), settings)}
        of_means = _learn_means(source, roles, many, settings, targets, execution, taken)
        n_others += sum(len(encoding.inputs) for encoding, _ in of_means.values())
    counted = {name: scan for name, scan in words.items() if name not in of_means}
    n_most = _numbers_of_inputs(counted, n_others, settings.max_categories)
    for plan in plans:
        if plan.kind == "category":
            if plan.name in of_means:
                made[plan.name] = of_means[plan.name][0]
            elif plan.name in words:
                made[plan.name] = _category(plan.name, scans[plan], n_most[plan.name], settings, taken)
        elif plan.kind == "number" and not mean:
            made[plan.name] = None
        else:
            made[plan.name] = _filled(plan, scans[plan] if mean else None, taken)
    roles = replace(roles, fold_means=tuple(of_folds for _, of_folds in of_means.values()))
    return _with_inputs(roles, made, notes, source.location), notes


def _makes_means(values: Counter[str], settings: IngestSettings) -> bool:
    """Return whether a column makes target means: many values, of which most rows have one in few rows if auto."""
    rows, rare = values.total(), sum(count for count in values.values() if count < FEW_ROWS)
    by_settings = {"means": True, "inputs": False}.get(settings.many_values, 2 * rare > rows)
    return by_settings and len(values) > MOST_FREQUENT and rows < MOST_MEAN * len(values)


def _learn_means(
    source: Source,
    roles: Roles,
    scans: Mapping[str, ColumnScan],
    settings: IngestSettings,
    targets: TargetReader,
    execution: Execution | None,
    taken: set[str],
) -> dict[str, tuple[Encoding, Encoding]]:
    """Return the encodings of columns by target means, for new rows and for TRAIN rows; see `with_means`.

    None if there are too many classes, or if the target is none: copying the rows raises why.
    """
    if not scans:
        return {}
    targets = targets.fresh()
    reader, at = RowReader(replace(roles, keys=()), settings, targets, with_inputs=False), 0
    for piece in source.pieces:
        for rows in reader.batches(piece, at):
            targets.count(rows.targets, rows.test, rows.file, rows.numbers)
            at += rows.read
    try:
        classes = targets.classes(source.location, settings.positive)
    except DataError:
        return {}
    if not targets.low < targets.high or len(classes.labels) > MOST_CLASSES:
        return {}
    numbers = () if classes.labels else (targets.low, targets.high)
    scale = TargetScale(classes.stored_labels, *numbers)
    labels = classes.labels if len(classes.labels) > 2 else ()
    means = [f"(share of {_shortened(str(label))})" for label in labels] or [MEAN]
    encodings = []
    for name, scan in scans.items():
        assert scan.values is not None
        categories = tuple(sorted(word for word, count in scan.values.items() if count >= LEAST_OF_MEAN))
        other, missing = len(categories) < len(scan.values), scan.missing > 0 and settings.missing != "drop"
        names = [*means, *([OTHER] if other else []), *([MISSING] if missing else [])]
        inputs = tuple(_unused(f"{name}={one}", taken) for one in names)
        encodings.append(Encoding(name, "category", inputs, categories=categories, other=other, missing=missing))
    work = partial(_sums_of_piece, roles, encodings, settings.seed, targets.fresh(), scale)
    totals = _merged(work, source, execution)
    pairs = zip(encodings, totals, strict=True)
    return {encoding.column: with_means(encoding, total, scale) for encoding, total in pairs}


def _sums_of_piece(
    roles: Roles,
    encodings: Sequence[Encoding],
    seed: int,
    targets: TargetReader,
    scale: TargetScale,
    position: ShardPosition,
) -> tuple[int, list[TargetSums]]:
    """Return the rows of a piece, and the target sums of each column over its TRAIN rows."""
    others = [name for name in (roles.target, roles.split, roles.holdout, roles.group) if name is not None]
    names = list(dict.fromkeys([*(encoding.column for encoding in encodings), *others]))
    totals, n_rows = [no_sums(encoding, scale) for encoding in encodings], 0
    for rows in read_piece(position.piece, names, exact=roles.exact_columns):
        first, n = position.at.rows + n_rows, rows.batch.num_rows
        values, test = targets.values(rows), held_out(roles, rows, first, seed)
        used, fold = ~np.isnan(values) if test is None else ~(np.isnan(values) | test), folds_of_rows(first, n, seed)
        for index, encoding in enumerate(encodings):
            column = rows.batch.column(encoding.column)
            totals[index] = totals[index].plus(sums_of_rows(encoding, column, fold, values, used, scale))
        n_rows += n
    return n_rows, totals


def _with_inputs(roles: Roles, made: dict[str, Encoding | None], notes: Sequence[str], where: str) -> Roles:
    inputs = {name: (name,) if encoding is None else encoding.inputs for name, encoding in made.items()}
    features = tuple(name for names in inputs.values() for name in names)
    if not features and roles.sparse is None:
        raise DataError(f"{where} has no input columns left. {' '.join(notes)}")
    if len(features) > MOST_INPUTS:
        widest = sorted(inputs, key=lambda name: (-len(inputs[name]), name))[:3]
        widths = ", ".join(f"{len(inputs[name])} from {name!r}" for name in widest)
        raise DataError(
            f"{where}: its {len(inputs)} columns would make {len(features)} inputs ({widths}, ...), but okl holds rows "
            f"dense and takes at most {MOST_INPUTS}. Lower --max-categories, or leave columns out with --drop."
        )
    encodings = tuple(encoding for encoding in made.values() if encoding is not None)
    return replace(roles, features=features, encodings=encodings)


def _numbers_of_inputs(scans: Mapping[str, ColumnScan], n_others: int, given: int | None) -> dict[str, int]:
    """Return the number of values with an input of each text column.

    The MOST_FREQUENT of each column have one. So have all others in at least LEAST_ROWS training rows, those of more
    rows first, as long as a row has no more than MOST_INPUTS inputs and all rows no more than MOST_NUMBERS numbers.

    n_others : inputs of other columns; given : the number, if it was set
    """
    if given is not None or not scans:
        return dict.fromkeys(scans, given or 0)
    counts = {name: sorted((scan.values or Counter()).values(), reverse=True) for name, scan in scans.items()}
    rows = max(scan.rows + scan.missing for scan in scans.values())
    room = min(MOST_INPUTS, MOST_NUMBERS // max(1, rows)) - n_others
    room -= sum(min(MOST_FREQUENT, len(of_column)) + 2 for of_column in counts.values())
    further = sorted((-count, name) for name, rest in counts.items() for count in rest[MOST_FREQUENT:])
    chosen = Counter(name for count, name in further[: max(0, room)] if -count >= LEAST_ROWS)
    return {name: MOST_FREQUENT + chosen[name] for name in scans}


def _category(name: str, scan: ColumnScan, n_most: int, settings: IngestSettings, taken: set[str]) -> Encoding:
    assert scan.values is not None
    ranked = sorted(scan.values, key=lambda word: (-scan.values[word], word))  # type: ignore[index]
    categories = tuple(sorted(ranked[:n_most]))
    other, missing = len(ranked) > len(categories), scan.missing > 0 and settings.missing != "drop"
    shown = [*(_shortened(word) for word in categories), *([OTHER] if other else []), *([MISSING] if missing else [])]
    inputs = tuple(_unused(f"{name}={word}", taken) for word in shown)
    return Encoding(name, "category", inputs, categories=categories, other=other, missing=missing)


def _filled(plan: ColumnPlan, scan: ColumnScan | None, taken: set[str]) -> Encoding:
    """Return the encoding of a number or date; scan : statistics if missing values become the mean."""
    kind = plan.kind
    assert kind != "text", "texts have no encoding"
    inputs = plan.parts if kind == "number" else tuple(_unused(part, taken) for part in plan.parts)
    if scan is None:
        return Encoding(plan.name, kind, inputs, time_zone=plan.time_zone)
    assert scan.sums is not None
    fills = tuple(float(total) / scan.rows if scan.rows else 0.0 for total in scan.sums)
    if scan.missing:
        inputs = (*inputs, _unused(f"{plan.name}={MISSING}", taken))
    return Encoding(
        plan.name, kind, inputs, missing=scan.missing > 0, fills=fills, time_zone=plan.time_zone
    )  # fmt: skip


def _unused(name: str, taken: set[str]) -> str:
    """Return a name that no column has, with apostrophes appended if necessary, and add it to `taken`."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _shortened(word: str) -> str:
    word = " ".join(word.split()) or word
    return word if len(word) <= LONGEST_NAME else word[: LONGEST_NAME - 3] + "..."


NUMBERS_AS_TEXT = "numbers stored as text"


def _why_unused(name: str, scan: ColumnScan, settings: IngestSettings, where: str) -> str:
    """Return the reason why a text column makes no inputs, and what --text makes of it; "" if it makes some."""
    requested = name in settings.categories
    if scan.values is None:
        if requested:
            raise DataError(
                f"{where}: column {name!r} was named as a category, but has more than {MOST_VALUES} values. Group them "
                f"beforehand, or use --drop {quote(name)}."
            )
        return (
            f"Column {name!r} is left out: it is text with more than {MOST_VALUES} different values. "
            f"--text {quote(name)} takes its words. Numbers must not be stored as text."
        )
    n = len(scan.values)
    if n == 0:
        return f"Column {name!r} is left out: it holds no value in the training rows."
    if not requested and n > FEW_VALUES and 2 * n > scan.rows:
        flag = quote(name)
        if all(re.match(PLAIN, word) for word in scan.values) and not have_leading_zeros(scan.values):
            return (
                f"Column {name!r} is left out: its {n} different values are {NUMBERS_AS_TEXT}. Store them as "
                f"numbers, as pandas.to_numeric makes them (--category {flag} takes each as a category)."
            )
        if _look_like_texts(scan.values):
            return (
                f"Column {name!r} is left out: its {n} different values in {scan.rows} training rows look like texts. "
                f"--text {flag} takes their words and pairs of words as inputs."
            )
        return (
            f"Column {name!r} is left out: its {n} different values in {scan.rows} training rows identify rows "
            f"rather than categories (--category {flag} uses it anyway, --key {flag} copies it to the scores)."
        )
    return ""


def _look_like_texts(values: Collection[str]) -> bool:
    """Return whether different values have many words in the mean, or several words that return in other values."""
    words = [word for value in values for word in value.casefold().split()]
    few = len(words) >= SOME_WORDS * len(values) and 2 * len(set(words)) < len(values)
    return few or len(words) >= MANY_WORDS * len(values)


def fitted_texts(counts: Sequence[TermCounts], settings: IngestSettings, where: str) -> SparseColumns:
    """Return the columns of the terms that occur in enough rows; counts : one for each column of text.

    Raises DataError : a column without a term in enough rows, such as one of ids or of empty texts
    """
    texts = []
    for name, total in zip(settings.text, counts, strict=True):
        text = fitted_text(name, total.terms, total.documents, settings.min_documents, settings.max_terms)
        if not text.terms:
            raise DataError(
                f"{where}: no word of column {name!r} occurs in {settings.min_documents} of its "
                f"{total.documents:,} training rows; it holds ids or no text. Use --drop {quote(name)}, or a lower "
                "--min-documents."
            )
        texts.append(text)
    return SparseColumns(sum(len(text.terms) for text in texts), tuple(texts))


# Formats of text columns: numbers and dates that the reader of a file does not recognise.


DECIMALS = {"auto": "", "point": ".", "comma": ","}  # marks by their names


def find_formats(
    source: Source, settings: IngestSettings, execution: Execution | None = None, preview: bool = False
) -> tuple[Source, list[str]]:
    """Return the source with those columns of text as numbers or dates that hold them, and a note on each.

    Columns of digits that are names, see `padded_columns`, become text.

    preview : decide by the first rows alone
    Raises DataError : see `decide_formats`
    """
    roles, kinds = assign_roles(source, settings), dict(zip(source.schema.names, source.schema.types, strict=True))
    whole = [name for name in roles.features if pa.types.is_integer(kinds[name])]
    padded = padded_columns(source, whole, execution, preview)
    pieces = tuple(piece.as_text(padded) for piece in source.pieces)
    source = replace(source, schema=pieces[0].schema, pieces=pieces)
    names = [name for name in (*roles.features, roles.target) if is_text(kinds[name])]
    names = [name for name in names if name not in settings.categories]
    first = next(source.batches(names), None) if names else None
    words = source.pieces[0].dialect.missing_words
    tallies = {} if first is None else _tallies_of(first, words)
    measured = first is not None and roles.target in names and is_measured(first.batch[roles.target], settings.task)
    names = [name for name, tally in tallies.items() if may_be_formatted(tally)]

    def tallied(names: Sequence[str], pieces: Sequence[Piece]) -> dict[str, FormatTally]:
        parts = over_pieces(partial(_tally_piece, names), pieces, execution)
        totals = reduce(lambda one, other: [a.plus(b) for a, b in zip(one, other, strict=True)], parts)
        return dict(zip(names, totals, strict=True))

    if names and not preview:
        tallies = tallied(names, source.pieces)
    text = source.kind == "csv"
    dialects = [piece.dialect for piece in source.pieces]
    marks = {dialect.decimal for dialect in dialects}
    floats = [name for name in (*roles.features, roles.target) if text and pa.types.is_floating(kinds[name])]
    as_text = tuple(piece.as_text(floats) for piece in source.pieces)
    decided, notes = decide_formats(
        {name: tallies[name] for name in names},
        Context(
            decimal=DECIMALS[settings.decimal],
            order=settings.date_order.replace("auto", ""),
            marks=dict.fromkeys(floats, marks.pop()) if len(marks) == 1 else {},
            likely="," if text and dialects[0].separator in BESIDE_DECIMAL_COMMAS else ".",
            target=roles.target,
            measured=measured,
            strict=text,
            plain=lambda: tallied(floats, as_text) if floats and not preview else {},
        ),
    )
    formats = list(decided)
    if text and settings.decimal == "comma":  # so that new files are read by it, too
        formats += [ColumnFormat(name, "number", ",") for name in floats]
        source = replace(source, pieces=as_text)
    return (source.with_formats(formats) if formats else source), notes


def _tallies_of(rows: SourceBatch, missing_words: tuple[str, ...]) -> dict[str, FormatTally]:
    columns = zip(rows.batch.schema.names, rows.batch.columns, strict=True)
    return {name: tally_of(column, rows.file, rows.first_row, missing_words) for name, column in columns}


def _tally_piece(names: Sequence[str], piece: Piece) -> list[FormatTally]:
    tallies = [FormatTally()] * len(names)
    for rows in read_piece(piece, names):
        counted = _tallies_of(rows, piece.dialect.missing_words).values()
        tallies = [so_far.plus(new) for so_far, new in zip(tallies, counted, strict=True)]
    return tallies


def padded_columns(
    source: Source, names: Sequence[str], execution: Execution | None = None, preview: bool = False
) -> set[str]:
    """Return the columns of CSV files whose digits are names, such as the postal code 01032.

    These have one width, leading zeros in some rows, and repeat: of a number that is padded, most values differ. A
    column whose first rows have no such value is not read again.

    names : of columns that are read as whole numbers; preview : decide by the first rows alone
    """
    if source.kind != "csv" or not names:
        return set()
    text = [piece.as_text(names) for piece in source.pieces]

    def padded(parts: Iterable[tuple[int, Mapping[str, set[str]]]]) -> list[str]:
        counts, words = zip(*parts, strict=True)
        seen = {name: set[str]().union(*(part[name] for part in words)) for name in words[0]}
        most = max(FEW_VALUES, min(MOST_VALUES, sum(counts) // 2))
        return [name for name, of_column in seen.items() if len(of_column) <= most and have_leading_zeros(of_column)]

    found = padded([_distinct_words(names, 1, text[0])])
    if found and not preview:
        found = padded(over_pieces(partial(_distinct_words, found, None), text, execution))
    return {*found}


def _distinct_words(names: Sequence[str], n_batches: int | None, piece: Piece) -> tuple[int, dict[str, set[str]]]:
    """Return the rows of a piece, or of its first batches, and the words of columns of text, if they are few."""
    rows, words, absent = 0, {name: set[str]() for name in names}, {*MISSING_WORDS, *piece.dialect.missing_words}
    for part in islice(read_piece(piece, names), n_batches):
        rows += part.batch.num_rows
        for name, seen in words.items():
            if len(seen) <= MOST_VALUES:
                seen |= {*part.batch.column(name).unique().to_pylist()} - absent
    return rows, words


# Preview of the first rows: errors are raised early.


def check_first_rows(source: Source, roles: Roles, settings: IngestSettings, targets: TargetReader) -> None:
    """Check the first batch of rows, except of svmlight text.

    targets : reads the target; not to be used again, as it has seen these rows then
    Raises DataError : text that is rather dates or numbers; a number or a date that is missing where none may be (for a
        word that is missing there is an input); a target that is infinite; rows that cannot be read: each as when all
        are
    """
    plans = column_plans(roles, source.schema, settings)
    names = [*(plan.name for plan in plans), roles.target]
    if source.kind == "svmlight" or (rows := next(source.batches(names), None)) is None:
        return
    columns = {plan: rows.batch.column(plan.name) for plan in plans}
    filled = {plan.name: missing_in(column) for plan, column in columns.items() if plan.kind != "category"}
    if settings.missing == "error" and any(absent.any() for absent in filled.values()):
        raise DataError(missing_in_rows(rows.file, list(filled), np.array([*filled.values()]), rows.first_row))
    targets.values(rows)


@dataclass(frozen=True)
class IngestResult:
    """A data set, and whether it was written now (False: it was there already, from the same source and settings).

    terms : counts that the terms of each column of text were fitted to, if they were fitted now
    """

    dataset: Dataset
    changed: bool
    terms: tuple[TermCounts, ...] = ()


def ingest(
    source: str | Place,
    destination: str | Place,
    settings: IngestSettings,
    overwrite: bool = False,
    progress: Progress | None = None,
    reference: Schema | None = None,
    execution: Execution | None = None,
    default_holdout: float | None = None,
    default_scale: Scale = "none",
    keep_fills: bool = False,
) -> IngestResult:
    """Make a data set from a source, unless the destination already is that data set.

    source : Parquet file, folder or glob, CSV, JSON lines or svmlight text; a path or a URL, as the destination
    destination : folder of the data set; it appears when it is complete
    overwrite : replace a data set made from another source or with other settings
    progress : called with the rows done and the total (None if unknown)
    reference : schema that decides inputs, labels and scaling, in place of the settings and of what the rows hold
    execution : its workers, if any, read the source and write the shards, with the same bytes
    default_holdout : share of test rows to draw by class where neither the settings nor the source have a split
    default_scale : scaling of a table whose settings have none; svmlight text is left as it is
    keep_fills : see `learn_encodings`
    Raises DataError : rows, columns or files that do not hold what they must; a destination that is taken
    Raises ConfigError : settings that exclude each other
    """
    destination = place_of(destination).absolute()
    settings = settings if reference is None else settings_by(reference, settings)
    opened = check_source(source, settings, reference)
    check_destination(destination)
    spread = execution if execution is not None and execution.n_workers > 0 else None
    fingerprint = opened.fingerprint(spread)
    if is_dataset(destination) and not overwrite:
        return IngestResult(_same_or_error(destination, opened, fingerprint, settings, reference), changed=False)
    exact = [name for name in (*settings.keys, settings.group) if name is not None and name != settings.holdout]
    types = (*settings.categories, *settings.text) if reference is None else csv_types(reference)
    opened, notes = scan_source(opened, spread, types, exact), list[str]()
    terms: tuple[TermCounts, ...] = ()
    if reference is None:
        opened, notes = find_formats(opened, settings, spread)
    roles, reader = _roles_and_reader(opened, settings, reference)
    reader.check_kind(opened.location)  # again: later rows may contain words
    if default_holdout is not None and reference is None and not roles.names_test_rows:
        settings = settings.model_copy(update={"holdout": default_holdout, "stratify": True})
        roles = replace(roles, share=default_holdout)
    if reference is None and settings.scale == "none" and opened.kind != "svmlight":
        settings = settings.model_copy(update={"scale": default_scale})
    if roles.last:
        n_rows = (
            opened.rows if opened.rows is not None else sum(b.batch.num_rows for b in opened.batches([roles.target]))
        )
        roles = replace(roles, first_test_row=n_rows - max(1, round(roles.last * n_rows)))
    if settings.stratify and roles.share:
        if roles.group is not None:
            roles = grouped(roles, opened.batches([roles.group], exact=[roles.group]), settings.seed)
        else:
            known = None if reader.task == "auto" and not reader.text else reader.task != "regression"
            roles = stratified(roles, opened.batches([roles.target]), settings.seed, known)
    if reference is None:
        ids = identifier_warnings(opened, roles, settings.categories)
        if "" in opened.columns and "" not in (*roles.features, roles.target, *roles.keys, *settings.drop):
            ids = ["The column without a name is left out, as an index that pandas wrote. Name it to use it.", *ids]
        plans = [ColumnPlan(name, "text") for name in roles.texts]
        if terms := tuple(scan_columns(opened, roles, plans, settings, spread)):
            roles = replace(roles, sparse=fitted_texts(terms, settings, opened.location))
        roles, left_out = learn_encodings(opened, roles, settings, reader, spread, keep_fills)
        notes = [*notes, *left_out, *ids]
    with destination_folder(destination) as folder:
        request = (opened, roles, settings, reader, folder)
        written = _copy_locally(*request, progress) if spread is None else copy_on_workers(*request, spread, progress)
        _finish(folder, opened, fingerprint, roles, settings, reader, written, reference, notes)
    try:
        return IngestResult(open_dataset(destination), True, terms)
    except DataError as error:
        raise LocationError(f"{error} Another process may be writing to this folder.") from None


def check_not_ingested(data: str, ingest: IngestSettings | None) -> None:
    """Raise ConfigError for options of ingest with a data set, which has been ingested."""
    if ingest is not None:
        raise ConfigError(f"{data} is already a data set. Remove the options of ingest, which apply to sources only.")


def check_source(source: str | Place, settings: IngestSettings, reference: Schema | None = None) -> Source:
    """Open a source and check all that can be checked before its rows are read; raises as `ingest` does."""
    if settings.scale_target and settings.scale == "none":
        raise ConfigError("scale_target scales the target as the inputs are scaled, but scale = none; choose one.")
    if reference is not None:
        opened = open_by(reference, source)
    else:
        indices: dict[str, Literal[0, 1] | None] = {"auto": None, "0": 0, "1": 1}
        first = indices[settings.svmlight_index]
        svmlight = SvmlightReading(0, first, settings.hash_columns or 0, settings.storage)
        types = dict.fromkeys((*settings.categories, *settings.text), pa.string())
        words = settings.missing_words
        opened = open_source(source, svmlight, types, decimal=DECIMALS[settings.decimal], missing_words=words)
    if settings.missing_words and opened.kind == "svmlight":
        raise ConfigError(f"{opened.location} is svmlight, but missing_words mean values of tables. Remove them.")
    formatted = find_formats(opened, settings, preview=True)[0] if reference is None else opened
    roles, reader = _roles_and_reader(formatted, settings, reference)
    reader.check_kind(opened.location)
    if settings.hash_columns and opened.kind != "svmlight":
        raise ConfigError(f"{opened.location} is {opened.kind}, but hash_columns folds columns of svmlight text.")
    if reference is None:
        check_first_rows(formatted, roles, settings, reader)
    return opened


def _roles_and_reader(source: Source, settings: IngestSettings, reference: Schema | None) -> tuple[Roles, TargetReader]:
    if reference is not None:
        return roles_by(reference, source, settings), reader_by(reference, source)
    roles = assign_roles(source, settings)
    return roles, TargetReader(roles.target, source.schema.field(roles.target).type, settings.task)


def _same_or_error(
    destination: Place, source: Source, fingerprint: str, settings: IngestSettings, reference: Schema | None
) -> Dataset:
    manifest = read_manifest(destination)
    schema = manifest.dataset.schema
    if reference is not None and replace(schema, class_counts=()) != replace(reference, class_counts=()):
        raise DataError(f"{destination} was made with another reference. Use another folder.")
    if manifest.source.get("sha256") != fingerprint:
        raise DataError(f"{destination} was made from other data than {source.location} holds now. Use --overwrite.")
    made = _DEFAULTS | dict(manifest.settings)  # options younger than the data set
    changed = [key for key, value in settings.model_dump(mode="json").items() if made[key] != value]
    if changed:
        raise DataError(
            f"{destination} was made with other settings ({', '.join(changed)}). Use --overwrite, or another folder."
        )
    return manifest.dataset


def _copy_locally(
    source: Source,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    folder: Path,
    progress: Progress | None,
) -> tuple[RowCounts, list[Shard], ColumnMoments]:
    """Read all rows in this process; see `copy_on_workers`."""
    writers, rows = shard_writers(folder, source.schema, roles, settings), RowReader(roles, settings, reader)
    at = RowCounts()
    with closing(writers):
        for piece in source.pieces:
            batches = copy_piece(rows, writers, piece, at)
            for at in batches:
                if progress is not None:
                    progress(at.rows, source.rows)
    train, test = writers
    return at, train.shards + test.shards, (train.moments or [empty_moments(len(roles.features) + 1)])[0]


def _finish(
    folder: Path,
    source: Source,
    fingerprint: str,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    written: tuple[RowCounts, list[Shard], ColumnMoments],
    reference: Schema | None,
    notes: list[str],
) -> None:
    """Name the shards, decide the task and write the manifest; notes : on columns, left out or suspect."""
    counts, shards, moments = written
    dropped = counts.rows - counts.train - counts.test
    if counts.train == 0:
        what = "with missing values" if settings.missing == "drop" else "without a target"
        suffix = f" after rows {what} were left out" if dropped else ""
        remedy = (
            "Hold out fewer rows." if not dropped
            else "Use --missing mean." if settings.missing == "drop"
            else f"Column {roles.target!r} has no value there: name another target (--target)."
        )  # fmt: skip
        raise DataError(f"{source.location} has no training rows{suffix}; expected at least one. {remedy}")
    where = source.location
    classes = reader.classes(where, settings.positive) if reference is None else classes_by(reference, reader, where)
    if settings.scale_target and classes.task != "regression":
        raise ConfigError(f"scale_target is for regression, but target {roles.target!r} makes a {classes.task} task.")
    *inputs, target = column_statistics(moments)
    made = reference or Schema(
        features=roles.features, target=roles.target, task=classes.task, labels=classes.labels,
        stored_labels=classes.stored_labels, class_counts=classes.class_counts, keys=roles.keys, scale=settings.scale,
        scale_target=settings.scale_target, missing=settings.missing,
        feature_statistics=tuple(inputs), target_statistics=target if classes.task == "regression" else None,
        encodings=roles.encodings, svmlight=source.pieces[0].svmlight, formats=source.pieces[0].formats,
        missing_words=source.pieces[0].dialect.missing_words,
        sparse=roles.sparse,
    )  # fmt: skip
    schema = replace(made, class_counts=classes.class_counts)
    shards = [moved(folder, shard, index, "part") for index, shard in enumerate(shards)]
    files = [file.name for file in source.files]
    origin = {"kind": source.kind, "files": files, "rows": counts.rows, "sha256": fingerprint}
    split_requested = roles.names_test_rows
    guessed = settings.task == "auto" and not reader.text
    cause = "a missing value" if settings.missing == "drop" else f"a missing target {roles.target!r}"
    warnings = find_warnings(schema, counts.rows, dropped, cause, split_requested and counts.test == 0, guessed)
    repeated, first = find_copies(folder, shards, schema), list[str]()  # summaries show few: what misleads comes first
    if roles.share:
        repeated += find_shared_keys(folder, shards, schema)
    elif roles.group is not None and counts.test:
        first += find_shared_groups(folder, shards, roles.group, settings.holdout)
    if roles.last and counts.test:
        first += find_unsorted_dates(folder, shards, schema)
    # newer settings only if given, so that manifests without them do not change
    values = settings.model_dump(mode="json")
    given = {name: value for name, value in values.items() if name not in NEWER or value != _DEFAULTS[name]}
    write_manifest(folder, schema, shards, origin, given, [*first, *notes, *warnings, *repeated])


_DEFAULTS = IngestSettings.model_validate({}).model_dump(mode="json")
NEWER = (
    "categories", "max_categories", "dates", "svmlight_index", "hash_columns", "stratify", "date_order", "decimal",
    "storage", "normalise", "text", "min_documents", "max_terms", "positive", "many_values",
    "group", "missing_words",
)  # fmt: skip
