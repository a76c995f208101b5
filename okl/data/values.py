"""Conversion of raw columns to numbers: missing values, categories, dates and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow.csv import ConvertOptions

from okl.data.dataset import part_names
from okl.foundation.errors import DataError, first_line, first_of
from okl.foundation.types import Doubles, FloatArray

if TYPE_CHECKING:
    from okl.data.dataset import Missing

# Numbers from raw columns: valid types, missing values and infinities.

Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]

MOST_NAMED = 8  # columns that a message lists

PANDAS_MISSING = ("None", "<NA>", *ConvertOptions().null_values)
"""Words that pandas reads as missing in every column by default."""

_ABSENT = ("?", "none", *PANDAS_MISSING)
MISSING_WORDS = [*_ABSENT, *(f" {word}" for word in _ABSENT)]
"""Words of a CSV file that mean a missing number or date, such as NA; in a text column they are ordinary values."""


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values: the entries of a dictionary, otherwise the type itself."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type can be inputs: numbers of any kind, bools, and columns that are all null."""
    kind, test = value_type(kind), pa.types
    tests = (test.is_integer, test.is_floating, test.is_boolean, test.is_decimal, test.is_null)
    return any(holds(kind) for holds in tests)


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are text."""
    kind = value_type(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def numbers(column: pa.Array) -> NDArray[Any]:
    """Return values of a numeric column (rows,) as they are; whole numbers with nulls become float64 with NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if column.null_count:
        kind = column.type if pa.types.is_floating(column.type) else pa.float64()
        column = column.cast(kind, safe=False).fill_null(float("nan"))
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def without_numbers(column: pa.Array, absent: Sequence[float]) -> pa.Array:
    """Return a column of numbers with null in place of some of them; any other column as it is."""
    kind = value_type(column.type)
    if not absent or not is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column
    hits = np.isin(numbers(column), absent)
    return pc.if_else(pa.array(hits), pa.scalar(None, column.type), column) if hits.any() else column


def numbers_among(words: Sequence[str]) -> list[float]:
    """Return the numbers among words.

    >>> numbers_among(["unknown", "-999", "nan"])
    [-999.0]
    """
    found = []
    for word in words:
        with suppress(ValueError):
            found.append(float(word))
    return [value for value in found if np.isfinite(value)]


def missing_in(column: pa.Array) -> Mask:
    """Return which values of a column of numbers or dates are missing, (rows,)."""
    missing: Mask = np.isnan(numbers(column)) if is_number(column.type) else column.is_null().to_numpy(False)
    return missing


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; dictionaries that differ between chunks are merged."""
    column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def codes_of(column: pa.DictionaryArray) -> Codes:
    """Return the dictionary entry of each row, (rows,); -1 for none."""
    signed = column.indices.cast(pa.int64())  # other libraries count without a sign
    codes: Codes = pc.fill_null(signed, -1).to_numpy(zero_copy_only=False)
    return codes


def apply_missing_policy(
    inputs: FloatArray, names: Sequence[str], missing: Missing, file: str, first_row: int, means: Doubles | None = None
) -> Mask | None:
    """Apply the policy for missing values to inputs (n_features, rows), in place; names : of their columns.

    means : (n_features,) of the training rows, for columns of numbers of which none was missing in training
    Returns which rows hold all their values, (rows,), under "drop"; None where all rows may stay.
    Raises DataError : an infinity, or a missing value under "error": names file, column and the first such row
    """
    if np.isfinite(inputs).all():
        return None
    infinite = np.isinf(inputs)
    if infinite.any():
        column, row = _first(infinite)
        raise DataError(
            f"{file}: column {names[column]!r} is infinite or beyond float32 (3.4e38) in row {first_row + row} "
            "(counted from 0); inputs must be finite. Correct the value or leave the row out."
        )
    absent = np.isnan(inputs)
    if missing == "error":
        raise DataError(missing_in_rows(file, names, absent, first_row))
    if missing == "mean" and means is not None:
        np.copyto(inputs, means[:, np.newaxis].astype(np.float32), where=absent)
        return None
    if missing in ("zero", "mean"):  # of the mean only what was missing in every training row, too
        inputs[absent] = 0.0
        return None
    return np.logical_not(absent.any(axis=0))


def missing_in_rows(file: str, names: Sequence[str], absent: Mask, first_row: int) -> str:
    """Return the message about missing inputs, with the share of missing values of each such column.

    names : of the columns that the inputs come from, some of them several times; absent (n_features, rows) : at least
        one is; first_row : number of the first of these rows in the file
    """
    column, row = _first(absent)
    places = [column, *np.flatnonzero(absent.any(axis=1)).tolist()]
    shares = {names[index]: float(absent[index].mean()) for index in places}
    listed = [f"{_percent(share)} miss {name!r}" for name, share in shares.items()]
    return (
        f"{file}: column {names[column]!r} has no value (null or NaN) in row {first_row + row} (counted from 0); of "
        f"{absent.shape[1]:,} rows read, {first_of(listed, MOST_NAMED)}. Fill them, or use --missing mean (training "
        "mean and a 0/1 input), --missing zero or --missing drop (leave such rows out)."
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def _first(mask: Mask) -> tuple[int, int]:
    """Return column and row of the first True, row by row."""
    row = int(mask.any(axis=0).argmax())
    return int(mask[:, row].argmax()), row


# Parts of dates and times as numbers.

DAY_MICROSECONDS = 86_400_000_000
DAYS_TO_2000 = 10_957  # from 1970-01-01
YEAR_DAYS = 365.2425  # on average, in the Gregorian calendar


def is_date(kind: pa.DataType) -> bool:
    """Return whether values of a type are dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_date_or_time(kind: pa.DataType) -> bool:
    """Return whether values of a type are dates, timestamps or times of day."""
    return is_date(kind) or bool(pa.types.is_time(kind))


def has_time(kind: pa.DataType) -> bool:
    """Return whether values of a type have a time of day, too."""
    return bool(pa.types.is_timestamp(kind))


def zone_of(kind: pa.DataType) -> str:
    """Return the time zone of a type; "" without one."""
    return (kind.tz or "") if pa.types.is_timestamp(kind) else ""


def date_parts(column: pa.Array, kind: str, time_zone: str = "", calendar: bool = False) -> Doubles:
    """Return parts of dates or times (n_parts, rows), see `okl.data.dataset.part_names`; NaN for missing values.

    years since 2000-01-01 of 365.2425 days; sine and cosine of the day in its year, of the day in its week (0 on
    Mondays) and of the time of day, each as an angle of 2 pi a period: so December and January are neighbours.

    column : dates, timestamps, or with "time" times of day
    kind : "timestamp"; "date": timestamps are taken as their dates; "time": only the parts of the time of day
    calendar : whether parts of weekdays and, with the time of day, of hours follow
    time_zone : of the parts, "" for times without a zone, which are used as they are
    Raises DataError : a time zone that this machine does not know
    """
    micros = _local_micros(column, time_zone)
    absent = pc.is_null(micros).to_numpy(zero_copy_only=False)
    since = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    days, rest = np.divmod(since, DAY_MICROSECONDS)
    share = np.zeros(len(days)) if kind == "date" else rest / DAY_MICROSECONDS
    dates = days.astype("datetime64[D]")
    years = dates.astype("datetime64[Y]")
    first, after = years.astype("datetime64[D]"), (years + 1).astype("datetime64[D]")
    in_year = (dates - first).astype(np.float64) / (after - first).astype(np.float64)
    turns = [in_year, (days + 3) % 7 / 7.0, share]  # 1970-01-01 was a Thursday
    values = [(days - DAYS_TO_2000 + share) / YEAR_DAYS]
    for turn in turns:
        values += [np.sin(2.0 * np.pi * turn), np.cos(2.0 * np.pi * turn)]
    if calendar:
        values += list(np.equal.outer(np.arange(7), (days + 3) % 7).astype(np.float64))
        values += list(np.equal.outer(np.arange(24), rest // (DAY_MICROSECONDS // 24)).astype(np.float64))
    by_name = dict(zip(part_names("timestamp", calendar), values, strict=True))
    parts_of_dates = np.stack([by_name[name] for name in part_names(kind, calendar)])
    parts_of_dates[:, absent] = np.nan
    return parts_of_dates


def _local_micros(column: pa.Array, time_zone: str) -> pa.Array:
    """Return microseconds since 1970-01-01 in local time of a time zone, (rows,) int64."""
    if pa.types.is_null(column.type):
        return column.cast(pa.int64())
    if pa.types.is_time(column.type):
        return column.cast(pa.time64("us"), safe=False).cast(pa.int64())
    try:
        if time_zone:
            column = pc.local_timestamp(column.cast(pa.timestamp("us", time_zone), safe=False))
        return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    except pa.ArrowException as error:
        raise DataError(
            f"Times of the zone {time_zone!r} cannot be converted on this machine: {first_line(error)}. Install "
            "tzdata, or store times in UTC."
        ) from None


_VALUE = re.compile(r"[-+]?\d*\.?\d+$")  # a name of a column that is rather a value


def values_hint(columns: Sequence[str]) -> str:
    """Return a hint if column names look like values, as in a file without a header line; else ""."""
    value = next(filter(_VALUE.match, columns), None)
    return "" if value is None else f" If {value} is a value, add a header line with names."
