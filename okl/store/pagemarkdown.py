"""A report as markdown, its pictures as PNG data URIs on light ground: what Prefect shows as an artifact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from okl.store.figures import LIGHT
from okl.store.pagehtml import data_uri
from okl.store.pageparts import Bars, Block, Code, Grid, Head, Link, Picture, Section, Tiles, Warned, Words


def markdown_page(title: str, lead: Sequence[Block], sections: Sequence[Section]) -> str:
    """The same parts as of a page."""
    parts = [f"# {plain(title)}", *map(_block, lead)]
    for section in sections:
        parts += [f"## {plain(section.title)}", *map(_block, section.blocks)]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text that markdown and HTML leave as it is, on one line."""
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _block(block: Block) -> str:
    match block:
        case Words(text):
            return plain(text)
        case Head(text):
            return f"### {plain(text)}"
        case Warned(text):
            return f"**Warning.** {plain(text)}"
        case Tiles(tiles):
            return _table(("", ""), tiles)
        case Picture():
            told = f"**{plain(block.title)}** {plain(block.told)}".rstrip()
            return f"{told}\n\n![{plain(block.title)}]({data_uri(block.draw(LIGHT))})"
        case Bars(title, bars, told):
            rows = [(bar.name, bar.text) for bar in bars]
            return f"**{plain(title)}** {plain(told)}".rstrip() + f"\n\n{_table(('', ''), rows)}"
        case Grid(title, header, rows, note):
            named = f"### {plain(title)}" + (f"\n\n{plain(note)}" if note else "")
            return f"{named}\n\n{_table(header or ('', ''), rows)}"
        case Code(title, lines):
            indented = "\n".join(f"    {line}" for line in lines)
            return f"{plain(title)}\n\n{indented}"
        case Link(_, text, more):
            return plain(f"{text}{more}")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)]]
    body = [[plain(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*lines, *body])
