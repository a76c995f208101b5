"""Categories whose names are numbers, as a CSV file spells them: columns of numbers are matched with them by value."""

from __future__ import annotations

import re
from decimal import Context
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from okl.store.csvtypes import MISSING_WORDS
from okl.store.values import is_number, value_type

_WHOLE = re.compile(r"\s*[-+]?\d{1,30}\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
_EXACT = Context(prec=100, traps=[])  # Arrow's widest decimals have 76 digits


def plain_number(value: float | None) -> str | None:
    """A number as text, a whole one without a point; None for none."""
    if value is None or value != value:
        return None
    return str(int(value)) if np.isfinite(value) and value == int(value) else repr(value)


def number_of_word(word: str) -> float | None:
    """The value of a number in digits, None for any other word."""
    return float(word) if _NUMBER.fullmatch(word) else None


def with_stored_names(words: pa.Array, kind: pa.DataType, categories: tuple[str, ...]) -> pa.Array:
    """Values of a column as text, in the spelling of the categories: 7 becomes '007' where that was learnt.

    words : (k,) text of the different values, whole numbers without a point; kind : of the column, whose text and dates
        stay as they are, as does every value that is a category already
    """
    spellings = {plain: found[0] for plain, found in _spellings(categories, value_type(kind)).items()}
    other = {plain: word for plain, word in spellings.items() if plain not in categories}
    if pa.types.is_decimal(value_type(kind)):  # whose text has all its places: 7.0000
        bare = pa.array([word and _plain_decimal(word) for word in words.to_pylist()], pa.string())
        words = pc.if_else(pc.is_in(words, value_set=pa.array(categories, pa.string())), words, bare)
    if not other:
        return words
    place = pc.index_in(words, value_set=pa.array([*other], pa.string()))
    return pc.coalesce(pa.array([*other.values()], pa.string()).take(place), words)


def of_one_value(categories: tuple[str, ...], kind: pa.DataType) -> tuple[str, ...]:
    """Categories, such as '007' and '7', that a column of a type cannot tell apart; () where there are none."""
    return next((found for found in _spellings(categories, value_type(kind)).values() if len(found) > 1), ())


def word_for_missing(categories: tuple[str, ...], kind: pa.DataType) -> str:
    """A category, such as 'NA', that a column of numbers can only hold as a missing value; "" where there is none."""
    if not _spellings(categories, value_type(kind)):
        return ""
    return next((word for word in categories if word in MISSING_WORDS), "")


@lru_cache(maxsize=256)
def _spellings(categories: tuple[str, ...], kind: pa.DataType) -> dict[str, tuple[str, ...]]:
    """Categories by the text of their value in a column of a type; none for text and dates."""
    found: dict[str, tuple[str, ...]] = {}
    if not is_number(kind) or pa.types.is_null(kind):
        return found
    for word in categories:
        if plain := _plain(word, kind):
            found[plain] = (*found.get(plain, ()), word)
    return found


def _plain(word: str, kind: pa.DataType) -> str | None:
    """The text that a column of such numbers has for the value of a word; None for words that are no such number."""
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
    """A decimal number as text, of all its digits and without zeros at the end; None for one beyond all exponents."""
    value = _EXACT.create_decimal(word.strip()).normalize(_EXACT)
    if not value.is_finite():
        return None
    if value.is_zero():
        return "0"
    return f"{value:f}" if abs(value.adjusted()) < _EXACT.prec else str(value)
