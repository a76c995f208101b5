"""JSON lines: one object a line, whose nested keys become columns such as address.city."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from itertools import accumulate

import pyarrow as pa
import pyarrow.json as pajson

from okl.data.ingest import csv
from okl.data.ingest.csv import ScanResult, check_text, line_blocks, merged_type, open_text
from okl.foundation.errors import DataError, first_line, quoted
from okl.foundation.locations import Place, size_of

EXPECTED = "expected JSON lines, one object a line"


def inspect(file: Place) -> pa.Schema:
    """Return the keys and the types of their values by the first 2 MiB, nested as the objects are.

    Raises DataError : the file is empty, or its lines are no objects
    """
    with open_text(file) as stream:
        text = stream.read(csv.BLOCK_BYTES)
    if not size_of(file) or not text.strip():
        raise DataError(f"{file} is empty; {EXPECTED}.")
    check_text(file, text)
    first = text.strip().removeprefix(b"\xef\xbb\xbf").splitlines()[0]
    if first.startswith(b"["):
        raise DataError(f"{file} is a JSON array; {EXPECTED}. jq -c '.[]' converts it.")
    if not (first.startswith(b"{") and first.rstrip().endswith(b"}")):
        raise DataError(
            f"{file}, line 1: {first[:60].decode('utf-8', 'replace')!r} is not a complete object; {EXPECTED}."
        )
    lines = text if len(text) < csv.BLOCK_BYTES else text[: text.rfind(b"\n") + 1]
    return _parsed(file, lines, 0, None).schema


def flat(nested: pa.Schema) -> pa.Schema:
    """Return the columns of nested keys, named by their path with points."""
    fields = list(nested)
    while any(pa.types.is_struct(field.type) for field in fields):
        fields = [
            inner for field in fields for inner in (field.flatten() if pa.types.is_struct(field.type) else [field])
        ]
    return pa.schema(fields)


def merged(first: pa.Schema, second: pa.Schema) -> pa.Schema:
    """Return the narrowest nested schema for the objects of both; text where one of them took it for times."""
    fields = {field.name: field for field in first}
    for field in second:
        known = fields.get(field.name)
        if known is None:
            fields[field.name] = field
        elif pa.types.is_struct(known.type) and pa.types.is_struct(field.type):
            inner = merged(pa.schema(known.type.fields), pa.schema(field.type.fields))
            fields[field.name] = known.with_type(pa.struct(list(inner)))
        else:
            fields[field.name] = known.with_type(merged_type(known.type, field.type))
    return pa.schema([*fields.values()])


def scan_lines(file: Place, span: tuple[int, int] | None) -> ScanResult:
    """Read a range block by block to learn keys, types and rows.

    Raises DataError : a line that is no object, or a value whose type differs from those before
    """
    schema, rows, lines_before = pa.schema([]), 0, 0
    for lines in line_blocks(file, span):
        table = _parsed(file, lines, lines_before, span)
        schema, rows, lines_before = merged(schema, table.schema), rows + len(table), lines_before + lines.count(b"\n")
    return ScanResult(schema, rows)


def read(
    file: Place,
    nested: pa.Schema,
    schema: pa.Schema,
    columns: list[str],
    batch_rows: int,
    exact: Collection[str],
    span: tuple[int, int] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows in order as batches of the columns in the given order; whole numbers become float64 unless exact.

    nested : types of the keys; schema : of the columns, all of them
    """
    lines_before = 0
    kinds = [
        pa.float64() if pa.types.is_integer(schema.field(name).type) and name not in exact else schema.field(name).type
        for name in columns
    ]
    for lines in line_blocks(file, span):
        table = _parsed(file, lines, lines_before, span, nested)
        lines_before += lines.count(b"\n")
        while any(pa.types.is_struct(kind) for kind in table.schema.types):
            table = table.flatten()
        try:
            # whole numbers beyond 2^53 are rounded, as those of CSV files
            table = table.select(columns).cast(pa.schema(list(zip(columns, kinds, strict=True))), safe=False)
        except pa.ArrowInvalid as error:  # only dates in text can fail
            raise DataError(
                f"{file}, lines up to {lines_before:,}: {first_line(error)}. Write dates such as 2026-12-31 or "
                "2026-12-31T23:59:59 in all rows."
            ) from None
        yield from table.to_batches(max_chunksize=batch_rows)


def _parsed(
    file: Place, lines: bytes, lines_before: int, span: tuple[int, int] | None, nested: pa.Schema | None = None
) -> pa.Table:
    """Parse whole lines; lines_before : lines of the range that come before."""
    # with one block, the rows of an error are those of these lines
    reading = pajson.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    parsing = pajson.ParseOptions(
        explicit_schema=nested, unexpected_field_behavior="infer" if nested is None else "ignore"
    )
    try:
        return pajson.read_json(pa.BufferReader(lines), reading, parsing)
    except pa.ArrowException as error:
        raise DataError(_explained(file, first_line(error), lines, lines_before, span)) from None


def _explained(file: Place, message: str, lines: bytes, lines_before: int, span: tuple[int, int] | None) -> str:
    message = message.removeprefix("JSON parse error: ")
    row = re.search(r" in row (\d+)$", message)
    where, line = "", ""
    if row:
        if span and span[0]:
            lines_before += sum(block.count(b"\n") for block in line_blocks(file, (0, span[0])))
        each = lines.split(b"\n")
        filled = list(accumulate(int(bool(line.strip())) for line in each))  # empty lines are no rows
        at = filled.index(int(row[1]) + 1)
        where, line = f", line {lines_before + at + 1}", each[at].decode("utf-8", "replace").strip()
    if changed := re.match(r"Column\(/(.*)\) changed from (\w+) to (\w+)", message):
        key = changed[1].replace("/", ".")
        return (
            f"{file}{where}: key {key!r} changed from {changed[2]} to {changed[3]}. Write all its values as one type, "
            "such as text in quotes."
        )
    twice = re.match(r"Column\(/(.*)\) was specified twice", message)
    fault = f"key {twice[1].replace('/', '.')!r} occurs twice" if twice else _fault(line)
    return f"{file}{where}: {fault}; {EXPECTED}."


def _fault(line: str) -> str:
    """Describe a line that is not a JSON object, without the message of the parser."""
    at = 0
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        at = error.pos
    except RecursionError:
        return "the object is nested too deeply"
    if line and at == len(line):
        return "the object does not end"
    return f"{quoted(line[at:])}{f' from character {at + 1} on' if at else ''} is not {'JSON' if at else 'an object'}"
