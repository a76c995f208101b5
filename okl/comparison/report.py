"""The report of a comparison: a self-contained page, and markdown for an artifact; pictures are inline in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from okl.comparison.pictures import Picture as Drawn
from okl.comparison.pictures import pictures_of
from okl.comparison.wording import BIAS_HEADER, HEADER, bias_rows, sentences, table_rows, warning_sentences
from okl.store import pagehtml as html
from okl.store import pagemarkdown as markdown
from okl.store.pageparts import Block, Grid, Picture, Section, Warned, Words
from okl.store.wording import flat

APART = ("models",)


TableOfPage = tuple[str, Sequence[str], list[list[str]]]
"""Title, names of the columns, rows of text."""


class Page(NamedTuple):
    """What a report says, whatever it is written as.

    facts : names and nested values, for a last table of the page
    """

    title: str
    sentences: Sequence[str]
    warnings: Sequence[str]
    tables: Sequence[TableOfPage]
    pictures: Sequence[Drawn]
    facts: Mapping[str, Any]


def page_of(result: Mapping[str, Any]) -> Page:
    """The report of a comparison of models."""
    return Page(
        title=f"{result['name']}: which model predicts {result['dataset']['target']} best",
        sentences=sentences(result),
        warnings=warning_sentences(result),
        tables=_tables(result),
        pictures=pictures_of(result),
        facts={name: value for name, value in result.items() if name not in APART},
    )


def markdown_page(page: Page) -> str:
    """Markdown, its pictures as PNG data URIs on light ground; without the last table."""
    return markdown.markdown_page(page.title, _lead(page), _sections(page))


def html_page(page: Page) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    facts = Grid("All of it", (), [list(pair) for pair in flat(page.facts)], folded=True)
    sections = [*_sections(page), Section("run", "Settings, data and the run", [facts])]
    return html.html_page(page.title, _lead(page), sections)


def _lead(page: Page) -> list[Block]:
    return [*map(Words, page.sentences), *map(Warned, page.warnings)]


def _sections(page: Page) -> list[Section]:
    """What is drawn first, then what is told in tables, then what the page brings of its own."""
    tables = [Grid(title, header, rows, wide=True) for title, header, rows in page.tables]
    found = [
        Section("pictures", "In pictures", [Picture(one.title, one.draw, wide=True) for one in page.pictures]),
        Section("tables", "In figures", tables),
    ]
    return [section for section in found if section.blocks]


def _tables(result: Mapping[str, Any]) -> list[TableOfPage]:
    tables: list[TableOfPage] = [("Models", HEADER, table_rows(result))]
    if rows := bias_rows(result):
        tables.append(("Either bias, at its own best value", BIAS_HEADER, rows))
    return tables
