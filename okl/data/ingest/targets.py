"""Target columns, tasks and train/test splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.data.ingest.value_formats import NUMBERS, parse_numbers
from okl.data.order import mix_bits
from okl.data.values import Mask, codes_of, is_number, is_text, numbers, value_type
from okl.foundation.errors import ConfigError, DataError, first_of
from okl.foundation.types import Doubles, Integers, Task

if TYPE_CHECKING:
    from okl.data.dataset import Label
    from okl.data.ingest.columns import Roles
    from okl.data.ingest.sources import SourceBatch

# Target classes and their counts, in bounded memory.

MAX_LABELS = 1000
EXACT_INTEGERS = 2.0**53  # beyond it float64 cannot tell neighbours apart
LARGEST_TARGET = 1e70  # the spread of the squared errors of larger ones overflows
Targets = NDArray[np.float64]


@dataclass(frozen=True)
class ClassCounts:
    """The task, the labels in order, the stored value of each, and the TRAIN rows of each; all empty for regression."""

    task: Task
    labels: tuple[Label, ...] = ()
    stored_labels: tuple[float, ...] = ()
    class_counts: tuple[int, ...] = ()


@dataclass
class TargetReader:
    """Turns target columns into float64 and keeps count of the labels; text gets codes in the order of appearance.

    counts : TRAIN rows of each value, until they are more than MAX_LABELS
    only_test : file and row where a value was first seen in a test row
    low, high : of the TRAIN rows, as they are stored; inexact : whether float64 rounds integers among them
    """

    name: str
    kind: pa.DataType
    task: Task | Literal["auto"]
    codes: dict[str, int] = field(default_factory=dict)
    counts: Counter[float] = field(default_factory=Counter)
    only_test: dict[float, tuple[str, int]] = field(default_factory=dict)
    whole: bool = True
    rows: int = 0
    low: float = np.inf
    high: float = -np.inf
    inexact: bool = False

    @property
    def text(self) -> bool:
        """Return whether the labels are text."""
        return is_text(self.kind)

    @property
    def counting(self) -> bool:
        """Return whether the values may still be classes."""
        return self.task != "regression" and len(self.counts) <= MAX_LABELS

    def values(self, rows: SourceBatch) -> Targets:
        """Return targets of a batch (rows,) as they are stored; NaN for missing ones.

        Raises DataError : an infinite target, or more text labels than can be classes
        """
        column = rows.batch.column(self.name)
        if self.text:
            return self._coded(column, rows)
        values = numbers(column).astype(np.float64)
        self.inexact |= pa.types.is_integer(self.kind) and bool((np.abs(values) >= EXACT_INTEGERS).any())
        infinite = np.abs(values) > LARGEST_TARGET
        if infinite.any():
            raise DataError(
                f"{rows.file}: target {self.name!r} is infinite or beyond {LARGEST_TARGET:g} in row "
                f"{rows.first_row + int(infinite.argmax())} (counted from 0); expected finite numbers."
            )
        return values

    def _coded(self, column: pa.Array, rows: SourceBatch) -> Targets:
        encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        index = codes_of(encoded)
        labels = encoded.dictionary.to_pylist()
        present, first = np.unique(index, return_index=True)
        table = np.full(len(labels) + 1, np.nan)  # the last entry is met by index -1
        for word in (labels[index[at]] for at in sorted(first) if index[at] >= 0):
            if word:  # an empty text is a missing label
                self.codes.setdefault(word, len(self.codes))
        for at in present[present >= 0]:
            table[at] = self.codes.get(labels[at], np.nan)
        if len(self.codes) > MAX_LABELS:
            raise DataError(
                f"{rows.file}: target {self.name!r} is text with more than {MAX_LABELS} different labels by row "
                f"{rows.first_row + len(index)}; expected classes. If it is a key, name another target."
            )
        return table[index]

    def count(self, values: Targets, test: Mask | None, file: str, row_numbers: Integers) -> None:
        """Count the labels of rows that are stored; row_numbers : of the rows in their file."""
        train = values if test is None else values[~test]
        self.rows += len(train)
        if len(train):
            self.low, self.high = min(self.low, float(train.min())), max(self.high, float(train.max()))
        if not self.counting:
            return
        if self.whole and not self.text and not (values == np.rint(values)).all():
            self.whole = False
        if not self.whole and self.task == "auto":
            self.task = "regression"
            return
        self.counts.update(dict(zip(*(part.tolist() for part in np.unique(train, return_counts=True)), strict=True)))
        if test is not None:
            where = row_numbers[test]
            for value, at in zip(*(part.tolist() for part in np.unique(values[test], return_index=True)), strict=True):
                if len(self.only_test) <= MAX_LABELS:
                    self.only_test.setdefault(value, (file, int(where[at])))

    def fresh(self) -> TargetReader:
        """Return a reader of the same target, with the same codes and no counts."""
        return TargetReader(self.name, self.kind, self.task, dict(self.codes))

    def add(self, other: TargetReader) -> None:
        """Add the counts of another reader of the same target, with the same codes, for the rows that follow."""
        self.rows += other.rows
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        if self.counting:
            self.counts.update(other.counts)
        self.whole = self.whole and other.whole
        if other.task == "regression":
            self.task = "regression"
        for value, where in other.only_test.items():
            if len(self.only_test) <= MAX_LABELS:
                self.only_test.setdefault(value, where)

    def check_kind(self, where: str) -> None:
        """Raise DataError early if no value of the column's type can be such a target."""
        if self.text and self.task == "regression":
            raise DataError(
                f"{where}: target {self.name!r} is text, but regression takes numbers. Name a column of numbers, or "
                "remove --task for classes."
            )
        if not self.text and not is_number(self.kind):
            raise DataError(
                f"{where}: target {self.name!r} is of type {self.kind}; expected numbers, bools or text labels."
            )

    def classes(self, where: str, positive: str | None = None) -> ClassCounts:
        """Decide the task after all rows were read.

        positive : the label, as text, that comes second of two; None: the larger one, of text labels a rare one
        Raises DataError : a constant target, or one class only; more than two for a binary task; too many; a label that
            only test rows have
        Raises ConfigError : a positive class that is none of two
        """
        kind = value_type(self.kind)
        named, measured = self.text or pa.types.is_boolean(kind), pa.types.is_floating(kind)
        rarest = min(self.counts.values(), default=0)
        task = decide_task(self.task, len(self.counts), self.rows, named, measured, rarest)
        if self.inexact and self.task != "regression" and (task != "regression" or self.low == self.high):
            raise DataError(
                f"{where}: target {self.name!r} holds integers beyond 2^53: as classes, some would become one. "
                "Write them as text, or use --task regression."
            )
        numeric = task == "regression" or (self.task == "auto" and not named)
        if numeric and self.rows > 1 and self.low == self.high and not len({*self.only_test} - {*self.counts}):
            raise DataError(
                f"{where}: target {self.name!r} is constant: {self.low:.15g} in all {self.rows:,} training rows. "
                "Name another target, or add rows with other values."
            )
        if task == "regression":
            if positive is not None:
                raise ConfigError(f"{where}: positive is for two classes, but target {self.name!r} is a regression.")
            return ClassCounts("regression")
        names = {float(code): word for word, code in self.codes.items()}
        values = [*self.counts, *self.only_test]
        labels = {value: names[value] if self.text else plain_label(value, self.kind) for value in values}
        stored = sorted(self.counts, key=lambda value: labels[value])
        self._check(task, [labels[value] for value in stored], where)
        if positive is not None:
            texts = [str(labels[value]) for value in stored]
            if task != "binary" or positive not in texts:
                raise ConfigError(
                    f"{where}: positive must be one of two classes, but is {positive!r}, and target {self.name!r} has "
                    f"{first_of([*map(repr, texts)], 6)}."
                )
            stored.sort(key=lambda value: str(labels[value]) == positive)
        elif (
            self.text and task == "binary" and _is_rare_event(labels[stored[0]], *(self.counts[one] for one in stored))
        ):
            stored.reverse()
        for value, (file, row) in self.only_test.items():
            if value not in self.counts:
                raise DataError(
                    f"{file}: target {self.name!r} is {labels[value]!r} in test row {row} (counted from 0), but no "
                    "training row has that label. Move such a row to train, or leave it out."
                )
        counts = tuple(self.counts[value] for value in stored)
        return ClassCounts(task, tuple(labels[value] for value in stored), tuple(stored), counts)

    def _check(self, task: Task, labels: Sequence[Label], where: str) -> None:
        shown = first_of([*map(repr, labels)], 6)
        if len(labels) < 2:
            elsewhere = any(value not in self.counts for value in self.only_test)
            more = "; test rows have others" if elsewhere else ", and no usable row of the whole source has another"
            raise DataError(
                f"{where}: target {self.name!r} has one class only, {shown}, in training rows{more}; expected two or "
                f"more. {'Divide the rows otherwise' if elsewhere else 'Name another target, or add rows of others'}."
            )
        if len(labels) > MAX_LABELS:
            raise DataError(
                f"{where}: target {self.name!r} holds more than {MAX_LABELS} classes ({shown}). Use --task regression."
            )
        if task == "binary" and len(labels) > 2:
            raise DataError(
                f"{where}: target {self.name!r} holds {len(labels)} classes ({shown}), but a binary task takes two. "
                "Use --task multiclass."
            )


def decide_task(
    requested: Task | Literal["auto"], n_labels: int, rows: int, named: bool, measured: bool = False, rarest: int = 5
) -> Task:
    """Return the task of a target with this number of distinct whole values or names in this number of training rows.

    Names and bools are classes. Numbers are classes if there are at most two; up to 10, if each comes twice on
    average; up to 30, if no more than the root of the rows; up to 100, if also each comes 20 times on average. More
    than 10 whole numbers are measurements, not classes, in a column of a floating type, or counts, if the rarest one
    comes less than 5 times.

    rarest : rows of the rarest value
    """
    if requested != "auto":
        return requested
    if n_labels <= 2:
        return "binary"
    per_label = rows / n_labels
    few = n_labels <= 10 and per_label >= 2
    some = n_labels <= 30 and n_labels <= np.sqrt(rows)
    many = n_labels <= 100 and n_labels <= np.sqrt(rows) and per_label >= 20
    return "multiclass" if named or few or (not measured and rarest >= 5 and (some or many)) else "regression"


def is_measured(column: pa.Array, task: Task | Literal["auto"]) -> bool:
    """Return whether the numbers in a target of text, by its first rows, are a regression's rather than classes."""
    if task != "auto":
        return task == "regression"
    texts = column.cast(pa.string())
    readings = [parse_numbers(texts, mark)[0].drop_null() for mark in NUMBERS]
    labels, counts = np.unique(numbers(max(readings, key=len)), return_counts=True)
    measured, rarest = not (labels == np.rint(labels)).all(), int(counts.min(initial=len(column)))
    return len(labels) > 0 and decide_task("auto", len(labels), len(column), False, measured, rarest) == "regression"


def plain_label(value: float, kind: pa.DataType) -> Label:
    """Return a stored number as a label: True, 3 rather than 3.0, 0.5."""
    if pa.types.is_boolean(value_type(kind)):
        return bool(value)
    return int(value) if value == int(value) else value


def stored_index(values: NDArray[Any], stored_labels: Sequence[float]) -> Integers:
    """Return the class index (rows,) of each stored value; -1 for a value without a label."""
    stored = np.asarray(stored_labels)
    order = np.argsort(stored)
    near = order[np.minimum(np.searchsorted(stored, values, sorter=order), len(stored) - 1)]
    return np.where(stored[near] == values, near, -1)


RARE_SHARE = 0.2
"""Share of the rows below which the first of two text labels is the class that rates are about."""
NEGATIVES = ("n", "no", "not", "f", "false", "neg", "negative", "none", "off", "0", "-1")


def _is_rare_event(label: Label, count: int, other: int) -> bool:
    return count < RARE_SHARE * (count + other) and str(label).strip().lower() not in NEGATIVES


# Test rows: by a seeded hash of row numbers or of groups, the last rows, by a split column or by a 0/1 column.


def held_out(roles: Roles, rows: SourceBatch, first_row: int, seed: int) -> Mask | None:
    """Return which rows of a batch are test rows, (rows,); None if the source has none.

    first_row : number of the batch's first row in the whole source, which the hash goes by
    Raises DataError : a split that is neither train nor test, or a holdout column that is neither 0 nor 1
    """
    if roles.split is not None:
        return _by_name(rows, roles.split)
    if roles.holdout is not None:
        return _by_flag(rows, roles.holdout)
    if roles.first_test_row is not None:
        return np.arange(first_row, first_row + rows.batch.num_rows) >= roles.first_test_row
    if roles.share > 0 and roles.group is not None:
        return group_share(rows.batch.column(roles.group), seed) < roles.share
    if roles.share > 0 or roles.strata:
        shares = hash_share(first_row, rows.batch.num_rows, seed)
        if not roles.strata:
            return shares < roles.share
        texts, limits = zip(*roles.strata, strict=True)
        index = pc.index_in(rows.batch.column(roles.target).cast(pa.string()), value_set=pa.array(texts, pa.string()))
        stratum = pc.fill_null(index, len(limits)).to_numpy(zero_copy_only=False)
        of_class: Mask = shares < np.array([*limits, roles.share])[stratum]
        return of_class
    return None


RARE_ROWS = 2000
"""Most rows of a class, or of a regression, whose share of test rows is exact; that of more rows is random."""


ROWS_OF_CLASS = 10
"""Average rows of a class, below which whole values are numbers rather than classes."""


def stratified(roles: Roles, batches: Iterable[SourceBatch], seed: int, of_classes: bool | None) -> Roles:
    """Return roles whose share of test rows is exact in each class of few rows, at least one row of two or more.

    batches : all rows, with the target; seed : of the hash of row numbers
    of_classes : whether the target has classes; None: if its values have enough rows. Without, the share of all rows is
        exact if they are few
    """
    counts, hashes, rows = Counter[str](), dict[str, list[NDArray[np.float64]]](), 0
    whole, n_present = list[NDArray[np.float64]](), 0
    for batch in batches:
        column = batch.batch.column(roles.target)
        shares = hash_share(rows, len(column), seed)
        rows += len(column)
        present = pc.is_valid(column).to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            present = present & ~np.isnan(numbers(column))
        n_present += int(present.sum())
        if n_present <= RARE_ROWS:
            whole.append(shares[present])
        if of_classes is False or len(counts) > MAX_LABELS:
            continue
        encoded = pc.dictionary_encode(column.cast(pa.string()))
        index = np.where(present, codes_of(encoded), -1)
        for number, text in enumerate(encoded.dictionary.to_pylist()):
            found = shares[index == number]
            counts[text] += len(found)
            if counts[text] <= RARE_ROWS:
                hashes.setdefault(text, []).append(found)
    counts = +counts  # without values that no row has
    many = of_classes or (of_classes is None and ROWS_OF_CLASS * len(counts) <= n_present)
    if many and len(counts) <= MAX_LABELS:
        few = [text for text, count in sorted(counts.items()) if count <= RARE_ROWS]
        limits = [_limit_of(np.sort(np.concatenate(hashes[text])), roles.share) for text in few]
        return replace(roles, strata=tuple(zip(few, limits, strict=True)))
    if 0 < n_present <= RARE_ROWS:
        return replace(roles, share=_limit_of(np.sort(np.concatenate(whole)), roles.share))
    return roles


def grouped(roles: Roles, batches: Iterable[SourceBatch], seed: int) -> Roles:
    """Return roles whose share of groups is exact, if there are few: at least one group of two or more.

    batches : all rows, with the group; seed : of the hash of groups
    """
    distinct = np.empty(0)
    for batch in batches:
        distinct = np.union1d(distinct, group_share(batch.batch.column(roles.group), seed))
        if len(distinct) > RARE_ROWS:
            return roles
    return replace(roles, share=_limit_of(distinct, roles.share))


def group_share(column: pa.Array, seed: int) -> Doubles:
    """Hash values to numbers in [0, 1) by their text alone, so that a group is on one side in all files.

    Rows without a value are one group.
    """
    texts = pc.fill_null(column.cast(pa.large_string()), "")
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)
    # a polynomial of the letters, modulo 2^64: powers count from the first letter of all, and are divided away
    powers, inverses = (
        np.multiply.accumulate(np.r_[np.uint64(1), np.full(len(letters), factor, np.uint64)])
        for factor in (_FACTOR, np.uint64(pow(int(_FACTOR), -1, 2**64)))
    )
    sums = np.r_[np.uint64(0), np.add.accumulate(letters * powers[:-1], dtype=np.uint64)]
    starts = ends - ends[0]
    values = (sums[starts[1:]] - sums[starts[:-1]]) * inverses[starts[:-1]]
    start = mix_bits(np.array([seed % 2**64], dtype=np.uint64))
    return (mix_bits(mix_bits(values) + start) >> np.uint64(11)).astype(np.float64) * 2.0**-53


_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that it has an inverse


def _limit_of(hashes: Doubles, share: float) -> float:
    """Return the limit below which the share of sorted hashes lies: at least one, and never all."""
    n = len(hashes)
    wanted = min(max(1, round(share * n)), n - 1)
    return float(hashes[wanted]) if wanted > 0 else 0.0


def hash_share(first_row: int, rows: int, seed: int) -> Doubles:
    """Hash row numbers to numbers in [0, 1): rows below a share are that share of all rows, whatever the batches."""
    start = mix_bits(np.array([seed % 2**64], dtype=np.uint64))
    row = np.arange(first_row, first_row + rows, dtype=np.uint64)
    return (mix_bits(row + start) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _by_name(rows: SourceBatch, name: str) -> Mask:
    column = rows.batch.column(name).cast(pa.string())
    test, train = (
        pc.fill_null(pc.equal(column, word), False).to_numpy(zero_copy_only=False) for word in ("test", "train")
    )
    if not (test | train).all():
        row = int((test | train).argmin())
        raise DataError(
            f"{rows.file}: column {name!r} is {column[row].as_py()!r} in row {rows.first_row + row} (counted from 0), "
            f"but a split is train or test. Correct it, or use --drop {quote(name)}."
        )
    mask: Mask = test
    return mask


def _by_flag(rows: SourceBatch, name: str) -> Mask:
    column = rows.batch.column(name)
    if not is_number(column.type):
        raise DataError(
            f"{rows.file}: holdout column {name!r} is of type {column.type}; expected 0 (train) and 1 (test)."
        )
    values = numbers(column)
    valid = (values == 0) | (values == 1)
    if not valid.all():
        row = int(valid.argmin())
        raise DataError(
            f"{rows.file}: holdout column {name!r} is {values[row]} in row {rows.first_row + row} (counted from 0); "
            "expected 0 (train) or 1 (test)."
        )
    mask: Mask = values == 1
    return mask
