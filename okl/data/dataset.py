"""Data sets as lists of shard descriptors with a schema and the encodings of their columns."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.errors import DataError
from okl.foundation.locations import Place
from okl.foundation.types import FloatArray, Integers, Split, Task

# Encodings of source columns, one immutable record each.

EncodingKind = Literal["number", "category", "date", "timestamp", "time"]


PARTS = ("years", "year_sin", "year_cos", "week_sin", "week_cos", "day_sin", "day_cos")
DATE_PARTS, DAY_PARTS = PARTS[:5], PARTS[5:]
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOURS = tuple(f"hour_{hour:02d}" for hour in range(24))
"""Parts of `--dates calendar`, after the others: 1 on a day of the week, and in an hour of the day."""


_PARTS_OF = {"date": (DATE_PARTS, WEEKDAYS), "timestamp": (PARTS, WEEKDAYS + HOURS), "time": (DAY_PARTS, HOURS)}


def part_names(kind: str, calendar: bool) -> tuple[str, ...]:
    """Return the names of the parts of a kind of dates or times, () of others; see `okl.data.values.date_parts`."""
    plain, steps = _PARTS_OF.get(kind, ((), ()))
    return plain + steps if calendar else plain


@dataclass(frozen=True)
class Encoding:
    """Encoding of one source column; the same record serves ingest, prediction and retraining.

    column : name of the source column
    kind : "category": one input for each value, 1 where the row has it, else 0; "date", "timestamp" and "time", which
        is one of day: see `okl.data.values`; "number": the value itself
    inputs : names of the inputs that it makes, in order: those of values or means, then of `other`, then of `missing`
    categories : of "category": the values that have an input of their own, as text, sorted
    other : whether an input is 1 for every value that is none of these; without it such a row has zeros
    missing : whether the last input is 1 where the column holds no value
    fills : of numbers and dates under missing = mean: what takes the place of a missing value, one for each input but
        that of `missing`; empty: the policy of the schema decides
    time_zone : of "timestamp": zone of the parts of an instant, "" for times without a zone
    means : of "category": target means in place of an input for each value, one row for each such input, which holds
        the mean of each of the categories, then of all other values, then of rows without one; see
        `okl.data.ingest.target_means`
    """

    column: str
    kind: EncodingKind
    inputs: tuple[str, ...]
    categories: tuple[str, ...] = ()
    other: bool = False
    missing: bool = False
    fills: tuple[float, ...] = ()
    time_zone: str = ""
    means: tuple[tuple[float, ...], ...] = field(default=(), repr=False)  # decided by the rows, as shards are

    @property
    def is_date(self) -> bool:
        """Return whether the column holds dates, or times with a date."""
        return self.kind in ("date", "timestamp")

    @property
    def has_calendar(self) -> bool:
        """Return whether a date has inputs of weekdays, and a time of hours."""
        return 0 < len(part_names(self.kind, False)) < len(self.inputs) - self.missing

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts of a date or time, in the order of its inputs; () of other columns."""
        return part_names(self.kind, self.has_calendar)

    @property
    def calendar_inputs(self) -> dict[str, str]:
        """Return the part of each input of a weekday or an hour."""
        parts = zip(self.inputs, self.parts, strict=False) if self.has_calendar else ()
        return {name: part for name, part in parts if part in WEEKDAYS or part in HOURS}

    @property
    def n_own(self) -> int:
        """Return the number of inputs of a "category" before those of `other` and `missing`."""
        return len(self.means) or len(self.categories)

    @cached_property
    def table(self) -> FloatArray:
        """Return the inputs of target means, (inputs, categories + 2) float32, by the code of a value."""
        flags = np.eye(2, len(self.categories) + 2, len(self.categories))[[*[0] * self.other, *[1] * self.missing]]
        return np.vstack([self.means, flags]).astype(np.float32)


@dataclass(frozen=True)
class SvmlightColumns:
    """Meaning of the indices of svmlight text as columns.

    first_index : 0 or 1, that of the first column
    hashed : columns that all indices are folded into, see `okl.data.ingest.sources.fold`; 0: each has its own
    """

    first_index: Literal[0, 1]
    hashed: int = 0


@dataclass(frozen=True)
class TextColumn:
    """Terms of a column of text, each a sparse input: l2-normalised tf-idf of words and pairs of words.

    column : name of the source column; terms : words and pairs, sorted; weights : inverse document frequency of each
    """

    column: str
    terms: tuple[str, ...]
    weights: tuple[float, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.terms) != len(self.weights):
            raise DataError(f"Text column {self.column!r} has {len(self.terms)} terms, {len(self.weights)} weights.")


@dataclass(frozen=True)
class SparseColumns:
    """Inputs that shards hold as sparse rows, after those that have a column of their own.

    n_columns : their number; texts : those whose terms they are, in order; (): they are the indices of svmlight text
    unit_length : whether sparse rows are divided by their length when they are read
    """

    n_columns: int
    texts: tuple[TextColumn, ...] = ()
    unit_length: bool = False

    def __post_init__(self) -> None:
        if self.texts and sum(len(text.terms) for text in self.texts) != self.n_columns:
            raise DataError(f"There are {self.n_columns} sparse columns, but their texts have other numbers of terms.")

    def name(self, index: int) -> str:
        for text in self.texts:
            if index < len(text.terms):
                return f"{text.column}: {text.terms[index]}"
            index -= len(text.terms)
        return f"f{index}"


# Names of the columns of shards, and of batches of svmlight text, that hold sparse rows.
INDICES, VALUES = "okl:indices", "okl:values"


def source_columns(features: tuple[str, ...], encodings: tuple[Encoding, ...]) -> tuple[str, ...]:
    """Return the source columns of inputs, each once, in the order of the inputs."""
    return tuple(dict.fromkeys(origins(features, encodings)))


def origins(features: tuple[str, ...], encodings: tuple[Encoding, ...]) -> tuple[str, ...]:
    """Return the source column of each input; an input without an encoding is a numeric column of the same name."""
    made = {name: encoding.column for encoding in encodings for name in encoding.inputs}
    return tuple(made.get(name, name) for name in features)


@dataclass(frozen=True)
class ColumnFormat:
    """Format of a source column of text that holds numbers or dates, decided over all rows of the training source.

    column : name of the source column; kind : "instant": a time with a zone, in UTC; "time": of day; "duration": a
        number in units of the last part, such as seconds of 1:25:15
    decimal : mark of the decimals of numbers, "." or ","; the other one may group thousands
    unit : of numbers: "%" or a word such as kg, which every value has, or a currency, which values may have; "": none
    order : of dates: "day" or "month" comes first, or "year" where no value leaves that open
    example : one of its values
    """

    column: str
    kind: Literal["number", "date", "timestamp", "instant", "time", "duration"]
    decimal: str = "."
    unit: str = ""
    order: Literal["day", "month", "year"] = "year"
    example: str = ""


SIGNS = ("", "$", "€", "£", "¥", "₹", "CHF", "%")
"""Units of formats that are no words: none, currencies and percent."""

# Data sets: shard descriptors and a schema.

# 9 with times of day, durations or units; 8 with words for missing values; 7 with target means; 6 with squashed
# columns; 5 with a metric or sparse columns; 4 with formats; else 2, or 1 for numbers alone (3: models)
FORMAT_VERSION = 9
MANIFEST = "manifest.json"

Scale = Literal["none", "standard", "minmax"]
Scaling = Literal["none", "standard", "minmax", "robust", "robust-minmax"]  # robust: heavy tails are squashed before
ROBUST: dict[Scaling, Scale] = {"robust": "standard", "robust-minmax": "minmax"}
BESIDE_WORDS: Scaling = "robust-minmax"
"""Scaling of the other columns of texts: standardised, a rare category would outweigh all words of a row."""
Missing = Literal["error", "drop", "zero", "mean"]
Label = int | float | str | bool


@stored("dataset-shard")
@dataclass(frozen=True)
class Shard:
    """One Parquet file of one split, its path relative to the data set's folder, with the rows of each row group."""

    index: int
    path: str
    split: Split
    row_groups: tuple[int, ...]
    size_bytes: int
    sha256: str

    @property
    def rows(self) -> int:
        return sum(self.row_groups)


@stored("column-statistics")
@dataclass(frozen=True)
class ColumnStatistics:
    """Count, mean, standard deviation (population), minimum and maximum of a column over the TRAIN rows."""

    count: int
    mean: float
    standard_deviation: float
    minimum: float
    maximum: float

    @property
    def constant(self) -> bool:
        """Return whether the column never changes."""
        return self.minimum == self.maximum


@stored("squashed-column")
@dataclass(frozen=True)
class SquashedColumn:
    """An input with heavy tails that is read as z / sqrt(1 + (z / 3)^2), z = (value - center) / width, within +-3.

    The smooth clip of RealMLP: Holzmueller, Grinsztajn & Steinwart, NeurIPS 2024, section 3, with sampled quantiles.

    name : of the input
    center, width : median and interquartile range, divided by that of the standard normal distribution
    statistics : of the squashed values; scalings and metrics use them in place of the statistics of the values
    """

    name: str
    center: float
    width: float
    statistics: ColumnStatistics


@stored("dataset-schema")
@dataclass(frozen=True)
class Schema:
    """All that turns raw rows into inputs and targets, and back.

    features : names of the input columns, in the order the model knows them
    target, task : name of the target column, what is predicted
    labels : the classes in order (class index 0 first), the second of two is the positive one; none for regression
    stored_labels : the values of the labels in the Parquet files (they differ for text labels only)
    class_counts : TRAIN rows of each class, in the order of labels
    keys : columns that are stored and never used as inputs
    scale, scale_target, missing : how values are prepared on reading; stored values are raw
    feature_statistics, target_statistics : over TRAIN rows
    encodings : how the inputs are made that are no columns of numbers of the same name; none in most tables
    svmlight : how indices become columns, for rows from svmlight text
    formats : how columns of text are read that hold numbers or dates
    missing_words : words and numbers of source columns that mean a missing value besides the usual ones
    metric : learnt weights of the squared differences of the inputs, one for each input, applied after the scaling; ()
        for all 1. Models have one, and shards of retrained models; see `okl.features.metric_learning`
    sparse : inputs that are held as sparse rows, after the features; None in most tables
    squashed : inputs whose heavy tails are squashed before the scaling, as the metric of models; see `okl.data.squash`
    """

    features: tuple[str, ...]
    target: str
    task: Task
    labels: tuple[Label, ...] = ()
    stored_labels: tuple[float, ...] = ()
    class_counts: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    scale: Scale = "none"
    scale_target: bool = False
    missing: Missing = "error"
    feature_statistics: tuple[ColumnStatistics, ...] = ()
    target_statistics: ColumnStatistics | None = None
    encodings: tuple[Encoding, ...] = ()
    svmlight: SvmlightColumns | None = None
    formats: tuple[ColumnFormat, ...] = field(default=(), repr=False)  # reading shards does not depend on them
    metric: tuple[float, ...] = field(default=(), repr=False)  # in `read_sha256` where there is one
    sparse: SparseColumns | None = None
    squashed: tuple[SquashedColumn, ...] = field(default=(), repr=False)  # as the metric
    missing_words: tuple[str, ...] = ()

    @cached_property
    def source_columns(self) -> tuple[str, ...]:
        """Return the source columns of the inputs, in order: those that prediction takes."""
        dense = source_columns(self.features, self.encodings)
        if self.sparse is None:
            return dense
        return (*dense, *([text.column for text in self.sparse.texts] or (INDICES, VALUES)))

    def as_json(self) -> dict[str, Any]:
        """Return all fields for storage; omit empty encodings, so that manifests without them do not change."""
        values = asdict(self)
        values["encodings"] = [
            {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in encoding.items()
                if name != "means" or value
            }
            for encoding in values["encodings"]
        ]
        for name in ("formats", "metric", "squashed", "missing_words"):
            values[name] = list(values[name])
        for name in ("encodings", "svmlight", "formats", "metric", "sparse", "squashed", "missing_words"):
            if not values[name]:
                del values[name]
        return values

    @property
    def format_version(self) -> int:
        """Return the oldest format version with all fields in use: an older okl then asks for an upgrade."""
        kinds = {*(one.kind for one in self.encodings), *(form.kind for form in self.formats)}
        if kinds.intersection(("time", "duration")) or not {form.unit for form in self.formats}.issubset(SIGNS):
            return FORMAT_VERSION
        if self.missing_words:
            return 8
        if any(encoding.means for encoding in self.encodings):
            return 7
        if self.squashed:
            return 6
        if self.metric or self.sparse:
            return 5
        if self.formats:
            return 4
        return 2 if self.encodings or self.svmlight or self.missing == "mean" else 1

    @property
    def dense(self) -> Schema:
        """Return the schema of the inputs that are not sparse."""
        return self if self.sparse is None else replace(self, sparse=None)

    @property
    def texts(self) -> tuple[TextColumn, ...]:
        """Return the columns of text whose terms are sparse inputs."""
        return () if self.sparse is None else self.sparse.texts

    @property
    def n_features(self) -> int:
        """Return the number of inputs, sparse ones among them."""
        return len(self.features) + (self.sparse.n_columns if self.sparse else 0)

    def input_name(self, index: int) -> str:
        n_dense = len(self.features)
        if index < n_dense or self.sparse is None:
            return self.features[index]
        return self.sparse.name(index - n_dense)

    @property
    def n_outputs(self) -> int:
        """Return the number of scores of a row: K for K > 2 classes, otherwise one."""
        return len(self.labels) if self.task == "multiclass" else 1

    @property
    def scaling(self) -> Scaling:
        """Return the scaling of the inputs, a robust one with squashed columns."""
        return next((robust for robust, scale in ROBUST.items() if self.squashed and scale == self.scale), self.scale)

    def scaled_as(self, scaling: Scaling) -> Schema:
        """Return the schema with another scaling; a robust one keeps the squashed columns of this one."""
        if scaling == "robust" or scaling == "robust-minmax":
            return replace(self, scale=ROBUST[scaling])
        return replace(self, scale=scaling, squashed=())

    @cached_property
    def input_statistics(self) -> tuple[ColumnStatistics, ...]:
        """Return the statistics of the inputs before the scaling: those of squashed columns are of squashed values."""
        squashed = {column.name: column.statistics for column in self.squashed}
        pairs = zip(self.features, self.feature_statistics, strict=bool(squashed))
        return tuple(squashed.get(name, statistics) for name, statistics in pairs)

    @cached_property
    def shift_and_factor(self) -> tuple[FloatArray, FloatArray]:
        """Return shift and factor, (len(features),) float64: an input is (value - shift) * factor; 0 if constant.

        The factor includes the root of the metric, so that all distances are those of the metric. Of squashed columns,
        the value is the squashed one, see `reading_stages`.
        """
        pairs = [scaling_of(self.scale, column) for column in self.input_statistics]
        shift, factor = np.array([shift for shift, _ in pairs]), np.array([factor for _, factor in pairs])
        return shift, factor * np.sqrt(self.metric) if self.metric else factor

    @cached_property
    def reading_stages(self) -> tuple[tuple[FloatArray, FloatArray], tuple[Integers, FloatArray, FloatArray]]:
        """Return shift and factor (len(features),) of stored values; positions, shift and factor of squashed columns.

        Only squashed columns have a second stage: the first one makes z of them.
        """
        shift, factor = (one.copy() for one in self.shift_and_factor)
        at = np.array([self.features.index(column.name) for column in self.squashed], dtype=np.int64)
        second = at, shift[at], factor[at]
        shift[at] = [column.center for column in self.squashed]
        factor[at] = [1.0 / column.width for column in self.squashed]
        return (shift, factor), second

    def refuse_empty_classes(self) -> None:
        """Raise DataError for a class without a training row; accept classes that are not counted yet."""
        for label, count in zip(self.labels, self.class_counts, strict=False):
            if count == 0:
                raise DataError(f"No training row has the label {label!r}: leave the class out, or split otherwise.")

    @property
    def target_shift_and_factor(self) -> tuple[float, float]:
        """Return shift and factor of the target: (value - shift) * factor; (0, 1) unless scale_target."""
        if not self.scale_target or self.target_statistics is None:
            return 0.0, 1.0
        return scaling_of(self.scale, self.target_statistics)


def scaling_of(scale: Scale, column: ColumnStatistics) -> tuple[float, float]:
    """Return shift and factor of a column under a scaling; the factor of a constant column is 0 if it is scaled."""
    if scale == "none":
        return 0.0, 1.0
    if scale == "standard":
        spread = 0.0 if column.constant else column.standard_deviation
        return column.mean, (1.0 / spread if spread > 0 else 0.0)
    spread = column.maximum - column.minimum
    return column.minimum, (1.0 / spread if spread > 0 else 0.0)


@stored("dataset")
@dataclass(frozen=True, repr=False)
class Dataset:
    """A sharded Parquet data set; made by `okl.data.ingest.run`, opened by `okl.data.manifest.open_dataset`.

    folder : absolute path, or URL; sha256 : digest of the manifest, which holds the digest of every shard
    source_sha256 : fingerprint of what it was made from
    """

    folder: Place
    schema: Schema
    shards: tuple[Shard, ...]
    sha256: str
    source_sha256: str = ""
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        rows = f"{self.rows('train'):,} training and {self.rows('test'):,} test rows"
        what = f"{self.schema.n_features:,} inputs, target {self.schema.target!r} ({self.schema.task})"
        return f"Dataset({str(self.folder)!r}: {rows}, {what})"

    @cached_property
    def read_sha256(self) -> str:
        """Return the hexadecimal digest of all that decides rows, with a schema that replaces the manifest's."""
        learnt = "".join(f" {part}" for part in (self.schema.metric, self.schema.squashed) if part)
        return hashlib.sha256(f"{self.sha256} {self.schema!r}{learnt}".encode()).hexdigest()

    def with_metric(self, metric: tuple[float, ...]) -> Dataset:
        """Return the same shards, to be read with a metric (n_features,), or without one if it is ()."""
        return replace(self, schema=replace(self.schema, metric=metric))

    def split(self, name: Split) -> tuple[Shard, ...]:
        """Return the shards of one split, in order."""
        return tuple(shard for shard in self.shards if shard.split == name)

    def rows(self, name: Split) -> int:
        return sum(shard.rows for shard in self.split(name))

    @property
    def row_width(self) -> int:
        """Return about how many float32 numbers a row is in memory: its inputs; of a sparse one, its stored bytes."""
        if self.schema.sparse is None:
            return self.schema.n_features
        stored = sum(shard.size_bytes for shard in self.shards) // max(1, sum(shard.rows for shard in self.shards))
        return len(self.schema.features) + max(1, stored)

    def path(self, shard: Shard) -> Place:
        """Return the absolute path or the URL of a shard."""
        return self.folder / shard.path
