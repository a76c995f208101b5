"""Reports as data: a page is a list of sections, a section is a list of blocks, see `okl.report.render`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from okl.report.format import number


class Paragraph(NamedTuple):
    """Paragraph of text."""

    text: str


class Heading(NamedTuple):
    """Heading within a section."""

    text: str


class WarningBlock(NamedTuple):
    """Warning: a highlighted paragraph."""

    text: str


class Tiles(NamedTuple):
    """Names and values of the main metrics, the most important first."""

    tiles: Sequence[tuple[str, str]]


class Table(NamedTuple):
    """Table of text with a header; without a header, a table of names and texts.

    folded : closed until the reader opens it, in HTML; wide : uses the full width; words : cells are text, not numbers
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False
    wide: bool = False
    words: bool = False


@dataclass(frozen=True, eq=False)
class Figure:
    """Figure that is drawn as SVG, with a caption that is also its alternative text.

    draw : returns the SVG; called once, when a page with the figure is first rendered
    wide : uses the full width, with horizontal scrolling on narrow screens
    """

    title: str
    draw: Callable[[], str]
    caption: str = ""
    wide: bool = False

    @cached_property
    def svg(self) -> str:
        """Draw the figure and return it as SVG."""
        return self.draw()


class Bar(NamedTuple):
    """Named length in [0, 1] with a text after it; strong : highlighted."""

    name: str
    length: float
    text: str
    strong: bool = True


class BarChart(NamedTuple):
    """Bar chart of a few lengths, drawn in HTML."""

    title: str
    bars: Sequence[Bar]
    caption: str = ""


class Code(NamedTuple):
    """Lines of code, and their purpose."""

    title: str
    lines: Sequence[str]


Block = Paragraph | Heading | WarningBlock | Tiles | Table | Figure | BarChart | Code


class Section(NamedTuple):
    """Section with a heading and blocks; key : its anchor in the page."""

    key: str
    title: str
    blocks: Sequence[Block]


class Page(NamedTuple):
    """Report: a title, an introduction, and sections; those without blocks are left out."""

    title: str
    lead: Sequence[Block]
    sections: Sequence[Section]


def page(title: str, lead: Sequence[Block], *sections: Section) -> Page:
    """Return a page of the sections that have blocks."""
    return Page(title, lead, [section for section in sections if section.blocks])


def paragraphs(*texts: str) -> list[Block]:
    """Return a paragraph for each text that is not empty."""
    return [Paragraph(text) for text in texts if text]


def records_table(title: str, columns: Mapping[str, str], records: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with a row for each record.

    columns : header by key of the records

    >>> records_table("Shards", {"name": "shard", "rows": "rows"}, [{"name": "a", "rows": 1200}]).rows
    [['a', '1,200']]
    """
    return Table(title, [*columns.values()], [[number(record.get(key)) for key in columns] for record in records])


def without_empty(table: Table, hidden: Sequence[str] = ()) -> Table:
    """Return a table without the hidden columns, and without those after the second that have no values.

    >>> without_empty(Table("", ("Model", "Score", "Gap"), [["ridge", "0.5", "-"]])).header
    ['Model', 'Score']
    """
    shown = [
        column
        for column, name in enumerate(table.header)
        if name not in hidden and (column < 2 or any(row[column] not in ("-", "") for row in table.rows))
    ]
    rows = [[row[column] for column in shown] for row in table.rows]
    return table._replace(header=[table.header[column] for column in shown], rows=rows)


def cut(rows: Sequence[Sequence[str]], most: int) -> list[Sequence[str]]:
    """Return the first rows of a table, and a row with the number of the others.

    >>> cut([["a", "1"], ["b", "2"], ["c", "3"]], 1)
    [['a', '1'], ['and 2 more', '']]
    """
    if len(rows) <= most:
        return [*rows]
    return [*rows[:most], [f"and {len(rows) - most:,} more", *[""] * (len(rows[0]) - 1)]]
