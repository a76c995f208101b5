"""What a report is made of, whatever it is written as: sections, and in them words, figures, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from okl.store.figures import Theme
from okl.store.tables import Table


class Words(NamedTuple):
    """A paragraph."""

    text: str


class Head(NamedTuple):
    """What the blocks below it are about, within a section."""

    text: str


class Warned(NamedTuple):
    """A paragraph that must not be overlooked."""

    text: str


class Tiles(NamedTuple):
    """Names and values of a few figures to see first, the one that counts in front."""

    tiles: Sequence[tuple[str, str]]


class Grid(NamedTuple):
    """A table of text under a header; without one it is names and texts.

    folded : to be opened by who wants it, where that can be; wide : has no neighbour; words : its cells are no numbers
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False
    wide: bool = False
    words: bool = False


class Picture(NamedTuple):
    """A picture to draw in a theme, and what is seen in it, for those who look and those who cannot.

    wide : has no neighbour, and is moved sideways where it does not fit
    """

    title: str
    draw: Callable[[Theme], bytes]
    told: str = ""
    wide: bool = False


class Bar(NamedTuple):
    """A named length in [0, 1], and what stands behind it; strong : one of those that count."""

    name: str
    length: float
    text: str
    strong: bool = True


class Bars(NamedTuple):
    """A few lengths below each other, drawn by the page itself."""

    title: str
    bars: Sequence[Bar]
    told: str = ""


class Code(NamedTuple):
    """Lines to type, and what they do."""

    title: str
    lines: Sequence[str]


class Link(NamedTuple):
    """A file beside the page."""

    file: str
    text: str
    more: str = ""


Block = Words | Head | Warned | Tiles | Grid | Picture | Bars | Code | Link


class Section(NamedTuple):
    """A question of the reader's, and what answers it; key : its place in the page."""

    key: str
    title: str
    blocks: Sequence[Block]


def cut(rows: Sequence[Sequence[str]], most: int) -> list[Sequence[str]]:
    """The first rows of a table, and how many more there are.

    >>> cut([["a", "1"], ["b", "2"], ["c", "3"]], 1)
    [['a', '1'], ['and 2 more', '']]
    """
    if len(rows) <= most:
        return [*rows]
    return [*rows[:most], [f"and {len(rows) - most:,} more", *[""] * (len(rows[0]) - 1)]]


def grid(table: Table, header: Sequence[str] = (), folded: bool = False) -> Grid:
    """A titled table under a header."""
    return Grid(table.title, header, table.rows, folded=folded)
