"""Odd files: small files as made by spreadsheets, exports and mistakes, and what okl must read from each.

`FILES` maps a file name to its content and to the expected columns, or to a pattern of the error message. Every
file has the target y, or no target at all.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq


class OddFile(NamedTuple):
    """Content of a file, the columns to read from it (or the pattern of an error), and the pattern of a note."""

    content: bytes
    expected: Mapping[str, Any] | str
    note: str = ""


FILES: dict[str, OddFile] = {}


def odd(name: str, content: str | bytes, expected: Mapping[str, Any] | str, note: str = "") -> None:
    content = content.encode() if isinstance(content, str) else content
    assert name not in FILES
    FILES[name] = OddFile(content, expected, note)


def column(name: str, words: list[str], values: list[Any] | str, note: str = "", separator: str = ",") -> None:
    """Add a CSV file with a column a of these words, quoted where they hold the separator, next to y = 0, 1, 0, ..."""
    quoted = [f'"{word}"' if separator in word else word for word in words]
    lines = [f"a{separator}y", *(f"{word}{separator}{row % 2}" for row, word in enumerate(quoted))]
    targets = [float(row % 2) for row in range(len(words))]
    expected: Mapping[str, Any] | str = values if isinstance(values, str) else {"a": values, "y": targets}
    odd(name, "\n".join(lines) + "\n", expected, note)


def parquet(name: str, columns: dict[str, pa.Array], expected: Mapping[str, Any] | str, note: str = "") -> None:
    stream = BytesIO()
    pq.write_table(pa.table(columns), stream)
    odd(name, stream.getvalue(), expected, note)


D, T = date, datetime
JANUARY_2, DECEMBER_31 = D(2026, 1, 2), D(2026, 12, 31)

# Dates: the order of day and month is decided over the column.

column("dates_iso.csv", ["2026-12-31", "2026-01-02"], [DECEMBER_31, JANUARY_2])
column("dates_day.csv", ["31/12/2026", "02/01/2026", ""], [DECEMBER_31, JANUARY_2, None], "'31/12/2026'.* day first")
column("dates_month.csv", ["12/31/2026", "01/02/2026"], [DECEMBER_31, JANUARY_2], "'12/31/2026'.* month first")
column("dates_late.csv", ["1/2/2026"] * 30 + ["31/1/2026"], [D(2026, 2, 1)] * 30 + [D(2026, 1, 31)], "day first")
column(
    "dates_mixed.csv",
    ["31/12/2026", "12/31/2026"],
    r"dates_mixed\.csv: column 'a', row 1 \(counted from 0\): expected a date written day first, such as '31/12/2026', "
    r"but it holds '12/31/2026'\. Write all dates alike, such as 2026-12-31, or use --category a or --drop a\.",
)
column(
    "dates_ambiguous.csv",
    ["01/02/2026", "03/04/2026"],
    [JANUARY_2, D(2026, 3, 4)],
    r"month first.*no value shows the order.*--date-order day",
)
column("dates_dots.csv", ["01.02.2026", "3.4.2026"], [D(2026, 2, 1), D(2026, 4, 3)], "day first")
column("dates_dots_short.csv", ["31.12.26", "01.02.99"], [DECEMBER_31, D(1999, 2, 1)], "day first")
column("dates_slashes_short.csv", ["12/31/26", "1/2/26"], [DECEMBER_31, JANUARY_2], "month first")
column("dates_dashes.csv", ["31-12-2026", "02-01-2026"], [DECEMBER_31, JANUARY_2], "day first")
column("dates_year_slashes.csv", ["2026/12/31", "2026/1/2"], [DECEMBER_31, JANUARY_2])
column("dates_names.csv", ["31 Dec 2026", "Jan 2, 2026", "2-January-2026"], [DECEMBER_31, JANUARY_2, JANUARY_2])
column("dates_iso_among_others.csv", ["31.12.2026", "2026-01-02"], [DECEMBER_31, JANUARY_2], "day first")
column(
    "dates_impossible.csv",
    ["31.12.2026", "30.02.2026", *["01.02.2026"] * 20],
    r"row 1 .*expected a date written day first, such as '31\.12\.2026', but it holds '30\.02\.2026'",
)
column("dates_na.csv", ["31.12.2026", "NA", "?", "n/a"], [DECEMBER_31, None, None, None], "day first")
column(
    "times_day.csv",
    ["31.12.2026 08:15", "1.2.2026 23:59:30"],
    [T(2026, 12, 31, 8, 15), T(2026, 2, 1, 23, 59, 30)],
    "day first",
)
column(
    "times_month_pm.csv",
    ["12/31/2026 8:15 PM", "1/2/2026 12:05 AM"],
    [T(2026, 12, 31, 20, 15), T(2026, 1, 2, 0, 5)],
    "month first",
)
column("times_fractions.csv", ["31/12/2026 08:15:00.25"] * 2, [T(2026, 12, 31, 8, 15, 0, 250000)] * 2, "day first")
column("times_alone.csv", ["08:15", "9:30 pm", "NA"], [time(8, 15), time(21, 30), None])
column("times_durations.csv", ["8:15:00", "120:30:00", "NA"], [29_700.0, 433_800.0, None])
odd(
    "dates_two_columns.csv",
    "a,b,y\n31/12/2026,01/02/2026,0\n01/02/2026,03/04/2026,1\n",
    {"a": [DECEMBER_31, D(2026, 2, 1)], "b": [D(2026, 2, 1), D(2026, 4, 3)], "y": [0.0, 1.0]},
    "'01/02/2026', day first, as in column 'a'",
)

# Numbers as spreadsheets show them.

column("decimal_commas.csv", ["1,5", "2,25", "-3"], [1.5, 2.25, -3.0], separator=";")
column("decimal_commas_quoted.csv", ["1,5", "-2,25", "3"], [1.5, -2.25, 3.0], "decimal commas")
column("decimal_commas.tsv", ["1,5", "2,25"], [1.5, 2.25], "decimal commas", "\t")
column("thousands_and_decimal_commas.csv", ["1.234,5", "-2,5"], [1234.5, -2.5], "decimal commas", ";")
odd(
    "thousands_points_beside_decimal_commas.csv",
    "a;b;y\n1,5;1.234;0\n2,5;5.678;1\n",
    {"a": [1.5, 2.5], "b": [1234.0, 5678.0], "y": [0.0, 1.0]},
    "of b is .* decimal commas",
)
odd(
    "decimal_commas_beside_points.csv",
    "a;b;y\n1,5;2.5;0\n2,5;3.5;1\n",
    {"a": [1.5, 2.5], "b": [2.5, 3.5], "y": [0.0, 1.0]},
    "Text of b is read as numbers with decimal points: '2.5' is 2.5, unlike column 'a'",
)
odd(
    "decimal_points_beside_commas.csv",
    'a,b,y\n1.5,"2,5",0\n2.5,"3,5",1\n',
    {"a": [1.5, 2.5], "b": [2.5, 3.5], "y": [0.0, 1.0]},
    "Text of b is read as numbers with decimal commas: '2,5' is 2.5, unlike column 'a'",
)
odd(
    "decimal_points_or_thousands_beside_commas.csv",
    'a,b,y\n1.500,"2,5",0\n2.5,"3,5",1\n',
    r"'b' holds numbers with decimal commas \('2,5'\), column 'a' numbers with decimal points, and '1\.500' fits b",
)
odd(
    "decimal_commas_or_thousands_beside_points.csv",
    'a;b;c;y\n1,5;2.5;"1,250";0\n2,5;3.5;"2,750";1\n',
    r"'b' holds numbers with decimal points \('2\.5'\), column 'a' numbers with decimal commas, and '1,250' fits b",
)
column("thousands.csv", ["1,234", "12,345,678", "5"], [1234.0, 12345678.0, 5.0], "decimal points")
column(
    "thousands_or_decimals.csv",
    ["1,234", "5,678"],
    [1234.0, 5678.0],
    r"'1,234' is 1234.*no value shows.*--decimal comma",
)
column("thousands_or_decimals.tsv", ["1,234", "5,678"], [1234.0, 5678.0], "--decimal comma", "\t")
column("decimals_with_semicolons.csv", ["1,234", "5,678"], [1.234, 5.678], "", ";")
column("thousands_spaces.csv", ["1 234", "12 345 678,5"], [1234.0, 12345678.5], "decimal commas", ";")
column("thousands_apostrophes.csv", ["1'234.50", "12'345"], [1234.5, 12345.0])
column("thousands_india.csv", ["1,23,456.5", "12,34,567"], [123456.5, 1234567.0])
column("dollars.csv", ["$1,234.5", "-$2", "($3.25)", "$-4"], [1234.5, -2.0, -3.25, -4.0], r"'\$1,234\.5' is 1234\.5")
column("euros.csv", ["1.234,50 €", "5 €"], [1234.5, 5.0], "decimal commas", ";")
column("pounds.csv", ["£12.5", "£1,000"], [12.5, 1000.0])
column("currency_words.csv", ["USD 12.5", "7 USD"], [12.5, 7.0])
column(
    "two_currencies.csv", ["$5", "€6"], r"column 'a', row 1 .*expected a number with \$, such as '\$5', .*holds '€6'"
)
column("percent.csv", ["12%", "7.5 %", "0%", ""], [12.0, 7.5, 0.0, None], "'12%' is 12")
column("percent_and_shares.csv", ["12%", "0.12"], r"row 1 .*expected a number with %, such as '12%', .*holds '0\.12'")
column("money_na.csv", ["$5", "NA", "null"], [5.0, None, None])
column(
    "money_and_a_word.csv",
    ["$5"] * 30 + ["unknown"],
    r"row 30 .*expected a number with \$, such as '\$5', but it holds 'unknown'\. Correct the value, or use "
    r"--category a or --drop a\.",
)
column(
    "number_and_a_word.csv",
    ["5"] * 30 + ["unknown"],
    r"column 'a', row 30 .*expected a number, such as '5', but it holds 'unknown'\. Correct the value",
)
column("ranges.csv", ["10-20", "20-30"], ["10-20", "20-30"])
column("versions.csv", ["3.11.2", "3.12.10"], ["3.11.2", "3.12.10"])
column("addresses.csv", ["10.0.0.1", "10.0.12.31"], ["10.0.0.1", "10.0.12.31"])
column("lists.csv", ["1,2,3", "4,5"], ["1,2,3", "4,5"])
column("lists_mostly.csv", ["1,2", "4,5", "1,2,3"], ["1,2", "4,5", "1,2,3"])
column("scientific.csv", ["1e3", "-2.5E-3", "1E+06"], [1000.0, -0.0025, 1e6])
column("scientific_commas.csv", ["1,5e3", "2,5E-3"], [1500.0, 0.0025], "", ";")
column("plus_signs.csv", ["+5", "+1.5", "2"], [5.0, 1.5, 2.0])
column("nan_words.csv", ["1.5", "nan", "NaN", "NA", "", "null", "N/A", "?"], [1.5, *[None] * 7])
column("infinite.csv", ["1.5", "inf", "-inf"], [1.5, float("inf"), float("-inf")])
column("dashes_for_missing.csv", ["1.5"] * 30 + ["-"], r"column 'a', row 30 .*expected a number, .*but it holds '-'\.")
column("beyond_int64.csv", ["18446744073709551616", "5"], [18446744073709551616.0, 5.0])
column("fractions_late.csv", ["1"] * 40 + ["0.5"], [1.0] * 40 + [0.5])
column("leading_zeros.csv", ["00501", "20710", ""], ["00501", "20710", ""])
column("leading_zeros_of_numbers.csv", ["007.5", "0", "05"], [7.5, 0.0, 5.0])
column("leading_zeros_of_all.csv", [f"{row:03}" for row in range(40)], [float(row) for row in range(40)])
column("padded.csv", ["  1.5", " 2"], [1.5, 2.0])
column("hexadecimal.csv", ["0x1A", "0xFF"], r"column 'a', row 0 .*holds '0x1A', but is read as double")
column("phones.csv", ["+49 30 123456", "+49 40 654321"], ["+49 30 123456", "+49 40 654321"])

# Booleans and words.

column("booleans.csv", ["true", "False", "TRUE", ""], [True, False, True, None])
column("booleans_yes.csv", ["yes", "No", "YES"], ["yes", "No", "YES"])
column("booleans_letters.csv", ["T", "F", "t"], ["T", "F", "t"])
column("unicode.csv", ["Zürich", "東京", "🙂"], ["Zürich", "東京", "🙂"])
column("quotes.csv", ['"say ""hi"""', '"a, b"'], ['say "hi"', "a, b"], separator=";")
column("inches.csv", ['5" pipe', '3" pipe', "bolt"], ['5" pipe', '3" pipe', "bolt"])
column("long.csv", ["x" * 100_000, "y"], ["x" * 100_000, "y"])
odd("unicode_names.csv", "größe,価格,y\n1,2,0\n3,4,1\n", {"größe": [1.0, 3.0], "価格": [2.0, 4.0], "y": [0.0, 1.0]})

# Lines, quotes and separators.

ROWS = {"a": [1.0, 2.0], "b": ["u", "v"], "y": [0.0, 1.0]}
PLAIN = "a,b,y\n1,u,0\n2,v,1\n"
odd("plain.csv", PLAIN, ROWS)
odd("crlf.csv", PLAIN.replace("\n", "\r\n"), ROWS)
odd("cr.csv", PLAIN.replace("\n", "\r"), ROWS)
odd("no_last_newline.csv", PLAIN.rstrip(), ROWS)
odd("blank_lines.csv", PLAIN.replace("\n", "\n\n"), ROWS)
odd("blank_lines_first.csv", "\n\n" + PLAIN, ROWS)
odd("tabs.tsv", PLAIN.replace(",", "\t"), ROWS)
odd("tabs.csv", PLAIN.replace(",", "\t"), ROWS)
odd("pipes.csv", PLAIN.replace(",", "|"), ROWS)
odd("semicolons.csv", PLAIN.replace(",", ";"), ROWS)
odd("excel_sep_line.csv", "sep=;\n" + PLAIN.replace(",", ";"), ROWS)
odd(
    "title_line.csv",
    "Sales of May\n\na,y\n1,0\n2,1\n",
    r"row 0 .*got 2: 'a,y'\. Remove lines above the one with the names",
)
odd("excel_sep_line_ragged.csv", "sep=;\na;y\n1;0\n2\n", r"row 1 .*: expected 2 values, got 1: '2'")
odd("all_quoted.csv", '"a","b","y"\n"1","u","0"\n"2","v","1"\n', ROWS)
odd("spaces_after_commas.csv", "a, b, y\n1, u, 0\n2, v, 1\n", r"has no target column 'y'\. Did you mean ' y'")
odd("bom.csv", b"\xef\xbb\xbf" + PLAIN.encode(), ROWS)
odd("utf16.csv", PLAIN.encode("utf-16"), ROWS)
odd("utf16.txt", PLAIN.replace(",", "\t").encode("utf-16"), ROWS)  # "Unicode Text" of Excel
odd("tabs.txt", PLAIN.replace(",", "\t"), ROWS)
odd("letter.txt", "hello world\nthis is text\n", r"is not svmlight text.* Expected a line like '1 3:0\.5 7:1'")
odd("utf16_be.tsv", b"\xfe\xff" + PLAIN.replace(",", "\t").encode("utf-16-be"), ROWS)
odd(
    "latin1.csv",
    "a,b,y\n1,Zürich,0\n2,Genf,1\n".encode("latin-1"),
    r"column 'b' holds bytes that are not UTF-8 text\. Save text as UTF-8",
)
odd("latin1_names.csv", "größe,y\n1,0\n2,1\n".encode("latin-1"), r"the name of a column is not UTF-8 text")
odd("packed.csv.gz", gzip.compress(PLAIN.encode(), mtime=0), ROWS)
odd("packed.csv.bz2", bz2.compress(PLAIN.encode()), ROWS)
odd("gz_in_name_only.csv.gz", PLAIN, r"cannot be unpacked as gzip")
odd("packed_without_name.csv", gzip.compress(PLAIN.encode(), mtime=0), r"compressed as gzip.* Rename it to .*\.csv\.gz")
odd(
    "line_breaks.csv",
    'a,b,y\n1,"two\nlines",0\n2,"and\r\nmore\n\n",1\n',
    {"a": [1.0, 2.0], "b": ["two\nlines", "and\r\nmore\n\n"], "y": [0.0, 1.0]},
)
odd("line_break_in_name.csv", '"a\nb",y\n1,0\n2,1\n', {"a\nb": [1.0, 2.0], "y": [0.0, 1.0]})
odd("quote_not_closed.csv", 'a,y\n1,0\n2,"1\n3,0\n', r"a quoted value is not closed")
odd("quote_not_closed_first.csv", 'a,y\n"1,0\n2,1\n3,0\n', r"a quoted value is not closed")
odd(
    "ragged_short.csv",
    "a,b,y\n1,u,0\n\n2,1\n3,v,1\n",
    r"ragged_short\.csv, row 1 .*: expected 3 values, got 2: '2,1'\. Correct line 4; put",
)
odd(
    "truncated.csv",
    "a,b,y\n1,u,0\n\n2,1\n",
    r"truncated\.csv, row 1 .*: expected 3 values, got 2: '2,1'\. It is the last line \(4\), so the file may be trunc",
)
odd(
    "truncated_long.csv",
    f"a,b,c,y\n1,u,{'v' * 200},0\n2,u,{'v' * 200}\n",
    r"got 3: '2,u,v+'\. It is the last line \(3\), so the file may be truncated",
)
odd(
    "ragged_long.csv",
    "a,b,y\n1,u,0\n2,v,w,1\n",
    r"ragged_long\.csv, row 1 .*: expected 3 values, got 4: '2,v,w,1'\. Correct line 3; put",
)
odd("trailing_separators.csv", "a,y,\n1,0,\n2,1,\n", {"a": [1.0, 2.0], "": [None, None], "y": [0.0, 1.0]})
odd("trailing_separators_of_rows.csv", "a,y\n1,0,\n2,1,\n", r"row 0 .*: expected 2 values, got 3: '1,0,'")
odd("two_names_missing.csv", "a,y,,\n1,0,,\n2,1,,\n", r"columns 3, 4 have no name")
odd("index_column.csv", ",a,y\n0,1,0\n1,2,1\n", {"": [0.0, 1.0], "a": [1.0, 2.0], "y": [0.0, 1.0]})
odd("two_alike.csv", "a,a,y\n1,2,0\n3,4,1\n", r"more than one column is named 'a'")
odd(
    "header_missing.csv", "0.5,a,,\n1,b,,\n2,c,,\n", r"have no name .* If 0\.5 is a value, add a header line with names"
)
odd("no_header_twice.csv", "1,1,7\n2,3,4\n", r"more than one column is named '1'.* If 1 is a value, add a header line")
odd("no_header.csv", "1.5,2,0\n2.5,3,1\n", r"If 1\.5 is a value, add a header line with names")
odd(
    "comment_lines.csv",
    "# made by hand\n" + PLAIN,
    r"begins with a comment: '# made by hand'\. Remove the lines above the header",
)
odd("header_behind_a_hash.csv", "#a,b,y\n1,2,0\n3,4,1\n", {"#a": [1.0, 3.0], "b": [2.0, 4.0], "y": [0.0, 1.0]})
odd("empty.csv", "", r"empty\.csv is empty; expected a CSV file with a header line")
odd("only_newline.csv", "\n", r"only_newline\.csv holds no rows")
odd("only_header.csv", "a,b,y\n", r"only_header\.csv holds no rows")
odd("one_row.csv", "a,b,y\n1,u,0\n", {"a": [1.0], "b": ["u"], "y": [0.0]})
odd("one_column.csv", "y\n0\n1\n", r"has no input columns")
odd("nul.csv", b"a,b,y\n1,\x00,0\n2,v,1\n", r"nul\.csv.* NUL byte")
odd("binary.csv", bytes(range(256)) * 20, r"binary\.csv.* NUL byte")
odd("picture.csv", b"\x89PNG\r\n\x1a\n" + bytes(64), r"picture\.csv.* NUL byte")
odd("workbook.csv", b"PK\x03\x04" + bytes(40), r"workbook\.csv is a zip archive or an Excel workbook")
odd("parquet_inside.csv", b"", {})  # filled below
odd("page.csv", "<!DOCTYPE html>\n<html><body>Not found, sorry</body></html>\n", r"page\.csv is an HTML page")

# JSON lines.

odd("plain.jsonl", '{"a":1,"b":"u","y":0}\n{"a":2,"b":"v","y":1}\n', ROWS)
odd("packed.ndjson.gz", gzip.compress(b'{"a":1,"b":"u","y":0}\n{"a":2,"b":"v","y":1}\n', mtime=0), ROWS)
odd("missing_keys.jsonl", '{"a":1,"y":0}\n{"b":"v","y":1}\n', {"a": [1.0, None], "b": [None, "v"], "y": [0.0, 1.0]})
odd("other_order.jsonl", '{"a":1,"b":"u","y":0}\n{"y":1,"b":"v","a":2}\n\n', ROWS)
odd(
    "nested.jsonl",
    '{"a":{"b":1,"c":{"d":"u"}},"y":0}\n{"a":{"b":2},"y":1}\n',
    {"a.b": [1.0, 2.0], "a.c.d": ["u", None], "y": [0.0, 1.0]},
)
odd("lists.jsonl", '{"a":[1,2],"y":0}\n{"a":[3],"y":1}\n', r"column 'a' is of type list<item: int64>, but inputs are")
odd(
    "fractions.jsonl",
    '{"a":1,"y":0}\n{"a":1.5,"y":1}\n{"a":null,"y":0}\n',
    {"a": [1.0, 1.5, None], "y": [0.0, 1.0, 0.0]},
)
odd(
    "changing.jsonl",
    '{"a":1,"y":0}\n{"a":"x","y":1}\n',
    r"changing\.jsonl, line 2: key 'a' changed from number to string",
)
odd(
    "dates.jsonl",
    '{"a":"2026-12-31","y":0}\n{"a":"2026-01-02","y":1}\n',
    {"a": [T(2026, 12, 31), T(2026, 1, 2)], "y": [0.0, 1.0]},
)
odd(
    "dates_day.jsonl",
    '{"a":"31/12/2026","y":0}\n{"a":null,"y":1}\n',
    {"a": [DECEMBER_31, None], "y": [0.0, 1.0]},
    "day first",
)
odd(
    "large.jsonl",
    "".join(f'{{"a":{2**53 + step},"y":{step % 2}}}\n' for step in (1, 1_000_001)),
    {"a": [float(2**53 + 1), float(2**53 + 1_000_001)], "y": [1.0, 1.0]},
)
odd("money.jsonl", '{"a":"$1,234.5","y":0}\n{"a":"$2","y":1}\n', {"a": [1234.5, 2.0], "y": [0.0, 1.0]})
odd(
    "array.jsonl",
    '[{"a":1,"y":0},{"a":2,"y":1}]\n',
    r"array\.jsonl is a JSON array; expected JSON lines, one object a line",
)
odd("pretty.json", '{\n "a": 1,\n "y": 0\n}\n', r"pretty\.json.*line 1: .*expected JSON lines, one object a line")
odd(
    "twice.jsonl",
    '{"a":1,"y":0}\n{"a":2,"a":1}\n',
    r"twice\.jsonl, line 2: key 'a' occurs twice; expected JSON lines",
)
odd(
    "bare.jsonl",
    '{"a":1,"y":0}\n{a:2}\n',
    r"bare\.jsonl, line 2: 'a:2}' from character 2 on is not JSON; expected JSON",
)
odd("list.jsonl", '{"a":1,"y":0}\n\n[1, 2]\n', r"list\.jsonl, line 3: '\[1, 2\]' is not an object; expected JSON lines")
odd(
    "broken.jsonl",
    '{"a":1,"y":0}\n{"a":2,"y":1\n{"a":3,"y":0}\n',
    r"broken\.jsonl, line 2: the object does not end; expected JSON lines",
)
odd("empty.jsonl", "", r"empty\.jsonl is empty; expected JSON lines")
odd("booleans.jsonl", '{"a":true,"y":0}\n{"a":false,"y":1}\n', {"a": [True, False], "y": [0.0, 1.0]})
odd(
    "big.jsonl",
    '{"a":18446744073709551616,"y":0}\n{"a":NaN,"y":1}\n',
    {"a": [18446744073709551616.0, float("nan")], "y": [0.0, 1.0]},
)

# Parquet.

Y = pa.array([0.0, 1.0])
parquet(
    "decimals.parquet",
    {"a": pa.array([Decimal("1.50"), Decimal("2.25")]), "y": Y},
    {"a": [Decimal("1.50"), Decimal("2.25")], "y": [0.0, 1.0]},
)
parquet(
    "times.parquet",
    {"a": pa.array([T(2026, 12, 31, 8), None], pa.timestamp("ms")), "y": Y},
    {"a": [T(2026, 12, 31, 8), None], "y": [0.0, 1.0]},
)
parquet(
    "dictionary.parquet", {"a": pa.array(["u", "v"]).dictionary_encode(), "y": Y}, {"a": ["u", "v"], "y": [0.0, 1.0]}
)
parquet(
    "nested.parquet",
    {"a": pa.array([{"b": 1}, {"b": 2}]), "y": Y},
    r"column 'a' is of type struct<b: int64>, but inputs",
)
parquet(
    "text_dates.parquet",
    {"a": pa.array(["31/12/2026", "02/01/2026"]), "y": Y},
    {"a": [DECEMBER_31, JANUARY_2], "y": [0.0, 1.0]},
    "day first",
)
parquet(
    "text_money.parquet",
    {"a": pa.array(["$5", "$1,000"]).dictionary_encode(), "y": Y},
    {"a": [5.0, 1000.0], "y": [0.0, 1.0]},
)
parquet("text_digits.parquet", {"a": pa.array(["501", "710"]), "y": Y}, {"a": ["501", "710"], "y": [0.0, 1.0]})
parquet("bytes.parquet", {"a": pa.array([b"\xff", b"u"]), "y": Y}, r"column 'a' holds bytes")
parquet("no_rows.parquet", {"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}, r"holds no rows")
odd("truncated.parquet", FILES["times.parquet"].content[:-40], r"truncated\.parquet is a truncated Parquet file")
FILES["parquet_inside.csv"] = OddFile(FILES["dictionary.parquet"].content, {"a": ["u", "v"], "y": [0.0, 1.0]})
