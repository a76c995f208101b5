"""Encoding of source columns as inputs, shared by ingest, prediction and retraining."""

from __future__ import annotations

import re
from decimal import Context
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.data.dataset import INDICES, VALUES, Encoding, Missing, Schema, origins, source_columns
from okl.data.values import (
    MISSING_WORDS,
    PANDAS_MISSING,
    Codes,
    codes_of,
    date_parts,
    is_date,
    is_date_or_time,
    is_number,
    is_text,
    missing_in,
    numbers,
    value_type,
    zone_of,
)
from okl.foundation.errors import DataError, first_line
from okl.foundation.types import FloatArray

# Numeric category names: numeric columns are matched with them by value.

_WHOLE = re.compile(r"\s*[-+]?\d{1,30}\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_EXACT = Context(prec=100, traps=[])  # Arrow's widest decimals have 76 digits


def plain_number(value: float | None) -> str | None:
    """Return a number as text, a whole one without a decimal point; None for None or NaN."""
    if value is None or value != value:
        return None
    return str(int(value)) if np.isfinite(value) and value == int(value) else repr(value)


def number_of_word(word: str) -> float | None:
    """Return the value of a number in digits; None for any other word."""
    return float(word) if _NUMBER.fullmatch(word) else None


def in_stored_spelling(texts: pa.Array, kind: pa.DataType, categories: tuple[str, ...]) -> pa.Array:
    """Return values as text, in the spelling of the categories: 7 becomes '007' if that is a category.

    texts : (k,) text of the different values, whole numbers without a point; kind : of the column, whose dates stay as
        they are, as does every value that is a category already, and text unless all categories are different numbers
    """
    kind = value_type(kind)
    if is_text(kind) and not _numbers_in_text(categories):
        return texts
    if pc.all(pc.is_in(texts, value_set=pa.array([*categories, None], pa.string()))).as_py() is not False:
        return texts
    bare = is_text(kind) or pa.types.is_decimal(kind)  # pandas writes 1 as 1.0 beside a gap, decimals have all places
    if is_text(kind):
        spelled = _numbers_in_text(categories)
    else:
        spelled = {plain: words[0] for plain, words in _spellings(categories, kind).items()}
    own = dict.fromkeys(categories) if spelled else {}
    if not spelled or not (bare or any(plain not in own for plain in spelled)):
        return texts

    def stored(word: str | None) -> str | None:
        if word is None or word in own or (bare and not _NUMBER.fullmatch(word)):
            return word
        return spelled.get(_plain_decimal(word) if bare else word, word)

    return pa.array(map(stored, texts.to_pylist()), pa.string())


def equal_categories(categories: tuple[str, ...], kind: pa.DataType) -> tuple[str, ...]:
    """Return categories, such as '007' and '7', that are equal in a column of a type; () if there are none."""
    return next((spelled for spelled in _spellings(categories, value_type(kind)).values() if len(spelled) > 1), ())


def missing_word_of(encoding: Encoding) -> str:
    """Return a category of a text column, such as 'n/a', that pandas reads as a missing value; "" if there is none."""
    return next((word for word in encoding.categories if word in PANDAS_MISSING), "")


@lru_cache(maxsize=256)
def _places(categories: tuple[str, ...]) -> dict[str | None, int]:
    """Return the index of each category, and that of None, one above that of all others."""
    places: dict[str | None, int] = {word: index for index, word in enumerate(categories)}
    return places | {None: len(categories) + 1}


@lru_cache(maxsize=256)
def _numbers_in_text(categories: tuple[str, ...]) -> dict[str | None, str]:
    """Return categories by the text of their value, if all are different numbers; otherwise none."""
    spelled: dict[str | None, str] = {}
    for word in categories:
        if not _NUMBER.fullmatch(word):
            return {}
        spelled[_plain_decimal(word)] = word
    return spelled if len(spelled) == len(categories) else {}


@lru_cache(maxsize=256)
def _spellings(categories: tuple[str, ...], kind: pa.DataType) -> dict[str, tuple[str, ...]]:
    """Return categories by the text of their value in a column of a type; none for text and dates."""
    spellings: dict[str, tuple[str, ...]] = {}
    if not is_number(kind) or pa.types.is_null(kind):
        return spellings
    for word in categories:
        if plain := _plain(word, kind):
            spellings[plain] = (*spellings.get(plain, ()), word)
    return spellings


def _plain(word: str, kind: pa.DataType) -> str | None:
    """Return the text of the value of a word in a numeric column; None for words that are no such number."""
    if pa.types.is_boolean(kind):
        lower = word.strip().lower()
        return lower if lower in ("true", "false") else None
    if not _NUMBER.fullmatch(word):
        return None
    if pa.types.is_decimal(kind):
        return _plain_decimal(word)
    if not pa.types.is_floating(kind):
        return str(int(word)) if _WHOLE.fullmatch(word) else plain_number(float(word))
    with np.errstate(over="ignore"):
        return plain_number(float(kind.to_pandas_dtype()(float(word))))


def _plain_decimal(word: str) -> str | None:
    """Return a decimal number as text, without zeros at the end; None for one beyond all exponents."""
    value = _EXACT.create_decimal(word.strip()).normalize(_EXACT)
    if not value.is_finite():
        return None
    if value.is_zero():
        return "0"
    return f"{value:f}" if abs(value.adjusted()) < _EXACT.prec else str(value)


class Encoder:
    """Makes inputs of source columns.

    features : inputs to make, in order; encodings : how those are made that are no columns of numbers

    columns : source columns to read, each once; origins : the source column of each input
    """

    def __init__(self, features: tuple[str, ...], encodings: tuple[Encoding, ...]) -> None:
        self.features = features
        self.columns, self.origins = source_columns(features, encodings), origins(features, encodings)
        position = {name: index for index, name in enumerate(features)}
        self._encodings = [encoding for encoding in encodings if any(name in position for name in encoding.inputs)]
        made = {name for encoding in self._encodings for name in encoding.inputs}
        self._plain = [(index, name) for index, name in enumerate(features) if name not in made]
        self._places = [[position.get(name, -1) for name in encoding.inputs] for encoding in self._encodings]

    def fill(self, out: FloatArray, batch: pa.RecordBatch, missing: Missing) -> None:
        """Write the inputs of a batch as float32 into the rows of out (n_features, >= rows).

        A missing value becomes NaN, unless its record differs; that of a category becomes NaN under "drop" only.
        """
        n = batch.num_rows
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows becomes infinite, and is found right after
            for index, name in self._plain:
                np.copyto(out[index, :n], numbers(batch.column(name)), casting="unsafe")
            for encoding, places in zip(self._encodings, self._places, strict=True):
                first = places[0]
                if first >= 0 and places == list(range(first, first + len(places))):
                    encode(encoding, batch.column(encoding.column), out[first : first + len(places), :n], missing)
                    continue
                block = np.empty((len(places), n), dtype=np.float32)
                encode(encoding, batch.column(encoding.column), block, missing)
                for row, index in zip(block, places, strict=True):
                    if index >= 0:
                        out[index, :n] = row


@lru_cache(maxsize=16)
def encoder_by(features: tuple[str, ...], encodings: tuple[Encoding, ...]) -> Encoder:
    """Return the cached encoder of some inputs."""
    return Encoder(features, encodings)


def encoder_of(schema: Schema) -> Encoder:
    """Return the encoder of a schema."""
    return encoder_by(schema.features, schema.encodings)


def encode(encoding: Encoding, column: pa.Array, out: FloatArray, missing: Missing) -> None:
    """Write the inputs of a column into out (len(encoding.inputs), rows); see `Encoder.fill`.
    Raises DataError : a missing value among numbers, where a category is a word such as 'NA'; times of an unknown zone
    """
    if encoding.kind == "category":
        codes, n = category_codes(encoding, column), len(encoding.categories)
        if encoding.means:
            np.take(encoding.table, codes, axis=1, out=out)
        else:
            places = [*range(n), n if encoding.other else -1, len(out) - 1 if encoding.missing else -1]
            index = np.array(places)[codes]
            rows = np.flatnonzero(index >= 0)
            out[:] = 0.0
            out[index[rows], rows] = 1.0
        if missing == "drop":
            out[:, codes > n] = np.nan
        return
    values = out[:-1] if encoding.missing else out
    if encoding.kind == "number":
        np.copyto(values[0], numbers(column), casting="unsafe")
    else:
        values[:] = date_parts(column, encoding.kind, encoding.time_zone, encoding.has_calendar)
    if encoding.fills:
        absent = np.isnan(values[0])
        if encoding.missing:
            out[-1] = absent
        values[:, absent] = np.array(encoding.fills, dtype=np.float32)[:, np.newaxis]


def category_codes(encoding: Encoding, column: pa.Array) -> Codes:
    """Return the index (rows,) of the category of each row: their number for any other value, one more for none.

    Raises DataError : see `encode`
    """
    texts, index = texts_and_index(column)
    texts = in_stored_spelling(texts, column.type, encoding.categories)
    places, n = _places(encoding.categories), len(encoding.categories)
    codes: Codes = np.array([places.get(word, n) for word in texts.to_pylist()], dtype=np.int64)
    numeric = _spellings(encoding.categories, value_type(column.type)) and _absent(texts)[index].any()
    if numeric and (word := next((word for word in encoding.categories if word in MISSING_WORDS), "")):
        raise DataError(
            f"Column {encoding.column!r} holds numbers ({column.type}) and misses a value, which may be {word!r}: "
            f"that was a value like any other in training. {_advise_text_column(encoding.column, keep=True)}"
        )
    return codes[index]


def texts_and_index(column: pa.Array) -> tuple[pa.Array, Codes]:
    """Return values of a column as text, and the index of the value of each row: -1, the last one, for none.

    Returns
    -------
    texts : (k,) text, null for a value that counts as missing: null, NaN, an empty text; the last one is null
    index : (rows,) into words

    Raises
    ------
    DataError : times of a zone that this machine does not know
    """
    if pa.types.is_null(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    texts = pa.concat_arrays([_as_text(encoded.dictionary), pa.nulls(1, pa.string())])
    return texts, codes_of(encoded)


def _as_text(values: pa.Array) -> pa.Array:
    """Return different values as text: whole numbers without a decimal point, whatever their type."""
    if pa.types.is_floating(values.type):
        texts = [plain_number(value) for value in values.to_pylist()]
        return pa.array(texts, pa.string())
    try:
        strings = values.cast(pa.string())
    except pa.ArrowException as error:  # an unknown time zone
        raise DataError(
            f"Values of type {values.type} have no text on this machine: {first_line(error)}. Install tzdata, store "
            "times in UTC, or leave the column out (okl ingest --drop)."
        ) from None
    return pc.if_else(pc.equal(strings, ""), pa.scalar(None, pa.string()), strings)


def _advise_text_column(column: str, keep: bool = False) -> str:
    more = ", keep_default_na=False" if keep else ""
    return f"Give the column as text, as it was in training. In pandas: read_csv(..., dtype={{{column!r}: str}}{more})."


def absent(encoding: Encoding, column: pa.Array) -> NDArray[np.bool_]:
    """Return a mask (rows,) of the rows of a source column without a value."""
    if encoding.kind == "category":
        texts, index = texts_and_index(column)
        return _absent(texts)[index]
    return missing_in(column)


def _absent(texts: pa.Array) -> NDArray[np.bool_]:
    missing: NDArray[np.bool_] = pc.is_null(texts).to_numpy(zero_copy_only=False)
    return missing


def check_kinds(schema: Schema, columns: pa.Schema, where: str, whose: str = "the model") -> None:
    """Raise DataError unless the source columns of a schema, which are all there, are of the kinds that it takes."""
    kinds = {encoding.column: encoding for encoding in schema.encodings}
    for name in encoder_of(schema).columns:
        kind = columns.field(name).type
        if fault := _unfit(encoding := kinds.get(name), kind):
            hint = ""
            if encoding is not None and equal_categories(encoding.categories, kind):
                hint = f" {_advise_text_column(name)}"
            elif is_text(kind) and "number" in fault:
                hint = " Write numbers such as 1234.5, and leave missing ones empty."
                hint = f" In pandas: to_numeric(rows[{name!r}])." if where == "table" else hint
            elif is_text(kind):
                start = " In" if where == "table" else " Write dates such as 2026-12-31; in"
                hint = f"{start} pandas: read_csv(..., parse_dates=[{name!r}]), or to_datetime."
            elif where == "table" and encoding is not None and is_date(kind) and "zone" in fault:
                hint = f" In pandas: rows[{name!r}].dt.tz_localize({encoding.time_zone or None!r})."
            elif encoding is not None and encoding.kind == "time":
                hint = f" In pandas: rows[{name!r}].dt.time." if where == "table" else " Write times such as 08:30."
            raise DataError(f"{where}: column {name!r} is of type {kind}, but {whose} requires {fault}.{hint}")


def unfit(schema: Schema, column: str, kind: pa.DataType) -> str:
    """Return what a source column should hold instead of values of a type; "" if the type is valid."""
    if schema.sparse is not None and column in (INDICES, VALUES, *(text.column for text in schema.texts)):
        return "" if not schema.texts or is_text(kind) or pa.types.is_null(kind) else "text"
    return _unfit(next((encoding for encoding in schema.encodings if encoding.column == column), None), kind)


def _unfit(encoding: Encoding | None, kind: pa.DataType) -> str:
    if encoding is None or encoding.kind == "number":
        return "" if is_number(kind) else "a number"
    if encoding.kind == "category":
        if alike := equal_categories(encoding.categories, kind):
            return f"text, as its values {alike[0]!r} and {alike[1]!r} are one number"
        return "" if is_text(kind) or is_number(kind) or is_date_or_time(kind) else "text"
    if pa.types.is_null(value_type(kind)):
        return ""
    if encoding.kind == "time":
        return "" if pa.types.is_time(kind) else "times of day"
    if not is_date(kind):
        return "dates" if encoding.kind == "date" else "times"
    if encoding.kind == "timestamp" and bool(zone_of(kind)) != bool(encoding.time_zone):
        zone = encoding.time_zone
        return f"times of a zone such as {zone}" if zone else "times without a zone"
    return ""
