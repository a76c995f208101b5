"""What stands between the values of a CSV file, and before the decimals of its numbers: Excel's own choice varies."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from okl.store.values import is_number

MARKS = ";\t|"  # that separate values where commas do not
BESIDE_DECIMAL_COMMAS = ";"  # where a spreadsheet writes it, it writes 1,5; beside tabs 1,234 may be a thousand
# from a quote where a value begins, whatever separates values, to the one where it ends, or to the end of the line
_QUOTED = re.compile(r'(?:^|(?<=[,;\t|]))"[^"]*(?:""[^"]*)*(?:"(?=[,;\t|]|$)|$)')


class Dialect(NamedTuple):
    """How the text of a CSV file is values: what separates them, and what stands before the decimals of a number."""

    separator: str = ","
    decimal: str = "."

    def converting(self, **options: Any) -> pacsv.ConvertOptions:
        """How Arrow is to make values of text, with further options."""
        return pacsv.ConvertOptions(decimal_point=self.decimal, **options)

    @property
    def parsing(self) -> pacsv.ParseOptions:
        """How Arrow is to cut lines into values."""
        return pacsv.ParseOptions(delimiter=self.separator)


COMMAS = Dialect()


def separator_of(text: bytes) -> str:
    """What separates the values of the first line: commas, unless there is none, and another mark is there instead.

    Marks between quotes separate nothing.

    >>> [separator_of(text) for text in (b"a,b;c", b"a;b;c|d\\n1,2,3", b'"a, b"|"c;d"|e', b'a;"b, c"', b"a", b"")]
    [',', ';', '|', ';', ',', ',']
    """
    line = (text.splitlines()[:1] or [b""])[0].decode("utf-8-sig", "replace")
    unquoted = _QUOTED.sub("", line)
    counts = {mark: unquoted.count(mark) for mark in MARKS} if COMMAS.separator not in unquoted else {}
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else COMMAS.separator


def has_decimal_commas(with_points: pa.Schema, with_commas: pa.Schema) -> bool:
    """Whether numbers have decimal commas, from the types that values have if decimals are written in either way.

    One column must be numbers only with commas, and none only with points: of lists such as 1,2 beside numbers such
    as 1.5 nothing is made.
    """
    pairs = [
        (is_number(point), is_number(comma)) for point, comma in zip(with_points.types, with_commas.types, strict=True)
    ]
    return (False, True) in pairs and (True, False) not in pairs
