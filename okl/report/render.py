"""Rendering of pages as HTML (`page.html.jinja`, `page.css`), Markdown and text."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from okl.report.blocks import BarChart, Block, Code, Figure, Heading, Page, Paragraph, Table, Tiles, WarningBlock
from okl.report.format import aligned

# HTML

MOST_BESIDE = 5  # columns of a table that has room beside another
LONGEST_BESIDE = 22  # letters of a name beside its bar; longer ones stand above


def html(page: Page) -> str:
    """Return an escaped page without external references, in light or dark colours; the same page, the same bytes."""
    text: str = _template().render(page=page)
    return text


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, keep_trailing_newline=True
    )
    environment.filters |= {"kind": lambda block: type(block).__name__, "in_rows": _in_rows, "data_uri": data_uri}
    environment.globals |= {"most_beside": MOST_BESIDE, "longest_beside": LONGEST_BESIDE}
    return environment.get_template("page.html.jinja")


def _in_rows(blocks: Sequence[Block]) -> Iterator[tuple[bool, list[Block]]]:
    """Group consecutive figures, charts and open tables, which are shown in columns if there is room."""
    for in_columns, group in groupby(
        blocks, lambda block: isinstance(block, Figure | BarChart) or (isinstance(block, Table) and not block.folded)
    ):
        yield in_columns, [*group]


def data_uri(svg: str) -> str:
    """Return an SVG image as a data URI."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii")


def markdown(page: Page) -> str:
    """Return a page as Markdown, with figures as SVG data URIs."""
    parts = [f"# {plain(page.title)}", *map(_markdown, page.lead)]
    for section in page.sections:
        parts += [f"## {plain(section.title)}", *map(_markdown, section.blocks)]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Return text on one line, escaped for Markdown and HTML."""
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _markdown(block: Block) -> str:
    match block:
        case Paragraph(text):
            return plain(text)
        case Heading(text):
            return f"### {plain(text)}"
        case WarningBlock(text):
            return f"**Warning.** {plain(text)}"
        case Tiles(tiles):
            return _markdown_table(("Figure", "Value"), tiles)  # an empty header is drawn as an empty bar
        case Figure(title, caption=caption):
            return f"{_markdown_caption(title, caption)}\n\n![{plain(title)}]({data_uri(block.svg)})"
        case BarChart(title, bars, caption):
            rows = [(bar.name, bar.text) for bar in bars]
            return f"{_markdown_caption(title, caption)}\n\n{_markdown_table(('', 'Value'), rows)}"
        case Table(title, header, rows, note):
            parts = [f"### {plain(title)}", plain(note), _markdown_table(header or ("Figure", "Value"), rows)]
            return "\n\n".join(filter(None, parts))
        case Code(title, lines):
            return "\n".join([plain(title), "", *(f"    {part}" for line in lines for part in line.splitlines())])


def _markdown_caption(title: str, caption: str) -> str:
    return f"**{plain(title)}** {plain(caption)}".rstrip()


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first, *others = [[plain(cell) for cell in row] for row in (header, *rows)]
    lines = [first, ["---", *["---:"] * (len(header) - 1)], *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# Text, for a terminal

BAR_LETTERS = 30  # of the longest bar


def text(*parts: Sequence[Block]) -> str:
    """Return blocks as lines of text without figures and links; parts are separated by an empty line."""
    lines = ["\n".join(line for block in part for line in _text(block)) for part in parts]
    return "\n\n".join(part for part in lines if part)


def _text(block: Block) -> list[str]:
    match block:
        case Paragraph(text) | Heading(text):
            return [text]
        case WarningBlock(text):
            return [f"Warning: {text}"]
        case Tiles(tiles):
            return aligned(tiles)
        case BarChart(title, bars, caption):
            rows = [[bar.name, bar.text, "#" * round(BAR_LETTERS * bar.length)] for bar in bars]
            return [*filter(None, (title, caption)), *aligned(rows)]
        case Table(title, header, rows, note):
            return [*filter(None, (title, note)), *aligned([*([header] if header else []), *rows])]
        case Code(title, lines):
            return [title, *(f"  {line}" for line in lines)]
        case _:
            return []
