"""The report of a reproduction: a self-contained page, and markdown for an artifact; pictures are inline in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from okl.reproduction.tables import Picture
from okl.reproduction.wording import cell_table, sentences, side_table, tried_rows
from okl.store.pagehtml import html_page
from okl.store.pagemarkdown import markdown_page
from okl.store.pageparts import Block, Grid, Section, Words
from okl.store.pageparts import Picture as Drawn
from okl.store.wording import flat

TRIED_HEADER = ("Cell", "Error of each candidate, on an order that is not reported")


def markdown_report(result: Mapping[str, Any], pictures: Sequence[Picture]) -> str:
    """Markdown, its pictures as PNG data URIs on light ground."""
    return markdown_page(result["table"], _lead(result), _sections(result, pictures))


def html_report(result: Mapping[str, Any], pictures: Sequence[Picture]) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    facts = {name: value for name, value in result.items() if name not in ("cells", "beside")}
    told = Grid("All of it", (), [list(pair) for pair in flat(facts)], folded=True)
    sections = [*_sections(result, pictures), Section("run", "Settings and the run", [told])]
    return html_page(result["table"], _lead(result), sections)


def _lead(result: Mapping[str, Any]) -> list[Block]:
    return [Words(sentence) for sentence in sentences(result)]


def _sections(result: Mapping[str, Any], pictures: Sequence[Picture]) -> list[Section]:
    tables = [Grid(title, header, rows, wide=True) for title, header, rows in _tables(result)]
    drawn = [Drawn(picture.title, picture.draw, wide=True) for picture in pictures]
    found = [Section("tables", "In figures", tables), Section("pictures", "In pictures", drawn)]
    return [section for section in found if section.blocks]


def _tables(result: Mapping[str, Any]) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    tables: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("Cells", *cell_table(result)),
        ("Data sets", *side_table(result)),
    ]
    if tried := tried_rows(result):
        tables.append(("Candidates", TRIED_HEADER, tried))
    return tables
