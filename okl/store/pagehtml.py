"""A report as one page of HTML without any outside reference; light or dark as the reader's system is."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from itertools import groupby

from okl.store.figures import DARK, LIGHT
from okl.store.page import PAGE
from okl.store.pageparts import Bars, Block, Code, Grid, Head, Link, Picture, Section, Tiles, Warned, Words

DARK_SCREEN = "screen and (prefers-color-scheme: dark)"
MOST_BESIDE = 5  # columns of a table that has room beside another
LONGEST_BESIDE = 22  # letters of a name beside its bar: longer ones stand above
LEAST_NAMED = 3  # sections from which on the page begins with a list of them


def html_page(title: str, lead: Sequence[Block], sections: Sequence[Section]) -> str:
    """The page; the same parts give the same bytes.

    lead : what stands above all sections
    """
    named = [f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections]
    return PAGE.substitute(
        title=escape(title),
        lead=_blocks(lead),
        contents=f"<nav>{' '.join(named)}</nav>" if len(named) >= LEAST_NAMED else "",
        sections="\n".join(_section(section) for section in sections),
    )


def data_uri(png: bytes) -> str:
    """A picture as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _section(section: Section) -> str:
    return f'<section>\n<h2 id="{section.key}">{escape(section.title)}</h2>\n{_blocks(section.blocks)}\n</section>'


def _blocks(blocks: Sequence[Block]) -> str:
    """Blocks below each other; pictures and open tables that follow each other side by side, where there is room."""
    parts = []
    for beside, group in groupby(blocks, lambda block: isinstance(block, Picture | Bars | Grid) and not _folded(block)):
        written = [_block(block) for block in group]
        parts += ['<div class="row">', *written, "</div>"] if beside else written
    return "\n".join(parts)


def _folded(block: Block) -> bool:
    return isinstance(block, Grid) and block.folded


def _block(block: Block) -> str:
    match block:
        case Words(text):
            return f"<p>{escape(text)}</p>"
        case Head(text):
            return f"<h3>{escape(text)}</h3>"
        case Warned(text):
            return f'<p class="warning"><strong>Warning.</strong> {escape(text)}</p>'
        case Tiles(tiles):
            told = (f"<div><span>{escape(name)}</span><b>{escape(value)}</b></div>" for name, value in tiles)
            return '<div class="tiles">\n' + "\n".join(told) + "\n</div>"
        case Picture():
            return _picture(block)
        case Bars():
            return _bars(block)
        case Grid():
            return _grid(block)
        case Code(title, lines):
            return f"<p>{escape(title)}</p>\n<pre><code>{escape(chr(10).join(lines))}</code></pre>"
        case Link(file, text, more):
            return f'<p><a href="{escape(file)}">{escape(text)}</a>{escape(more)}</p>'


def _picture(picture: Picture) -> str:
    dark = f'<source media="{DARK_SCREEN}" srcset="{data_uri(picture.draw(DARK))}">'
    style = ' class="wide"' if picture.wide else ""
    # what is drawn is said under its title, for everybody; the title alone names the picture
    told = f" {escape(picture.told)}" if picture.told else ""
    alt = escape(f"{picture.title}. {picture.told}" if picture.told else picture.title)
    return (
        f"<figure{style}><figcaption><b>{escape(picture.title)}</b>{told}</figcaption><picture>{dark}"
        f'<img src="{data_uri(picture.draw(LIGHT))}" alt="{alt}"></picture></figure>'
    )


def _bars(block: Bars) -> str:
    lines = [
        f'<tr><th scope="row">{escape(bar.name)}</th><td><i class="{"strong" if bar.strong else "weak"}" '
        f'style="width:{100 * bar.length:.1f}%"></i></td><td>{escape(bar.text)}</td></tr>'
        for bar in block.bars
    ]
    long = max((len(bar.name) for bar in block.bars), default=0) > LONGEST_BESIDE
    return _table("bars long" if long else "bars", block.title, block.told, lines)


def _grid(block: Grid) -> str:
    style = "metrics ours" if list(block.header[1:2]) == ["okl"] else "metrics" if block.header else "facts"
    style += " words" if block.words else ""
    lines = []
    if block.header:
        lines.append("<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in block.header) + "</tr>")
    for name, *cells in block.rows:
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{values}</tr>')
    table = _table(style, block.title, block.note, lines, wide=block.wide or len(block.header) > MOST_BESIDE)
    if not block.folded:
        return table
    return f"<details><summary>{escape(block.title)} <span>({len(block.rows):,})</span></summary>{table}</details>"


def _table(style: str, title: str, note: str, lines: Sequence[str], wide: bool = False) -> str:
    more = f" {escape(note)}" if note else ""
    named = f"<caption><span><b>{escape(title)}</b>{more}</span></caption>"
    body = "\n".join([named, *lines])
    return f'<div class="scroll{" wide" if wide else ""}"><table class="{style}">\n{body}\n</table></div>'
