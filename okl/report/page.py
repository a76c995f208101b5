"""Report pages: sections made of blocks, rendered as HTML or Markdown."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby
from string import Template
from typing import NamedTuple

from okl.report.figures import DARK, LIGHT, Theme
from okl.report.tables import Table

# Blocks and sections


class Paragraph(NamedTuple):
    """Paragraph of text."""

    text: str


class Subheading(NamedTuple):
    """Subheading within a section."""

    text: str


class WarningBlock(NamedTuple):
    """Warning: a highlighted paragraph."""

    text: str


class Tiles(NamedTuple):
    """Names and values of the main metrics, the most important first."""

    tiles: Sequence[tuple[str, str]]


class TableBlock(NamedTuple):
    """Table of text with a header; without a header, a table of names and texts.

    Parameters
    ----------
    folded : closed until the reader opens it, in HTML
    wide : uses the full width
    words : cells are text, not numbers
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False
    wide: bool = False
    words: bool = False


class FigureBlock(NamedTuple):
    """Figure to draw in a theme, with a caption that is also its alternative text.

    Parameters
    ----------
    wide : uses the full width, with horizontal scrolling on narrow screens
    """

    title: str
    draw: Callable[[Theme], bytes]
    told: str = ""
    wide: bool = False


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
    told: str = ""


class CodeBlock(NamedTuple):
    """Lines of code, and their purpose."""

    title: str
    lines: Sequence[str]


class Link(NamedTuple):
    """Link to a file in the folder of the page."""

    file: str
    text: str
    more: str = ""


Block = Paragraph | Subheading | WarningBlock | Tiles | TableBlock | FigureBlock | BarChart | CodeBlock | Link


class Section(NamedTuple):
    """Section with a heading and blocks; key : its anchor in the page."""

    key: str
    title: str
    blocks: Sequence[Block]


def cut(rows: Sequence[Sequence[str]], most: int) -> list[Sequence[str]]:
    """Return the first rows of a table, and a row with the number of the others.

    >>> cut([["a", "1"], ["b", "2"], ["c", "3"]], 1)
    [['a', '1'], ['and 2 more', '']]
    """
    if len(rows) <= most:
        return [*rows]
    return [*rows[:most], [f"and {len(rows) - most:,} more", *[""] * (len(rows[0]) - 1)]]


def grid(table: Table, header: Sequence[str] = (), folded: bool = False) -> TableBlock:
    """Return a table as a block."""
    return TableBlock(table.title, header, table.rows, folded=folded)


# Style and frame of a self-contained page, which loads no external files

STYLE = """
:root {
  --ground: #f4f6f9; --card: #ffffff; --ink: #1c2430; --soft: #566272; --rule: #d8dee6; --bar: #9cc3e4; --mark: #1a649f;
  --bad: #8c2f17; --bad-ground: #fdeee8;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #0f131a; --card: #171c24; --ink: #e3e8ef; --soft: #a3afbf; --rule: #39424f; --bar: #35618a;
    --mark: #6cb2ee; --bad: #f5b79f; --bad-ground: #3a1f17;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 74rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word;
}
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.4rem 0 .5rem; scroll-margin-top: 1rem; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .3rem; }
p { margin: .45rem 0; max-width: 44rem; }
a { color: var(--mark); }
nav { margin: 1rem 0 0; font-size: .92rem; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; }
nav a { padding: .25rem 0; }
.warning {
  background: var(--bad-ground); color: var(--bad); border-left: 4px solid currentColor; border-radius: 4px;
  padding: .6rem .9rem; margin: .75rem 0; max-width: none;
}
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); gap: .75rem; margin: .9rem 0; }
.tiles div, figure, .scroll, details, pre {
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
}
.tiles div { padding: .6rem .8rem; display: flex; flex-direction: column; }
.tiles span { color: var(--soft); font-size: .875rem; line-height: 1.35; }
.tiles b {
  margin-top: auto; padding-top: .15rem; font-size: 1.4rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums; overflow-wrap: normal;
}
.tiles div:first-child b { color: var(--mark); }
.row, .figures, .tables {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); align-items: start;
  gap: .75rem; margin: .75rem 0;
}
.row > *, .figures > *, .tables > * { min-width: 0; margin: 0; }
.row > .wide, .figures > .wide { grid-column: 1 / -1; }
figure { margin: 0; padding: .7rem .8rem .8rem; }
figcaption { font-size: .92rem; color: var(--soft); line-height: 1.4; margin-bottom: .4rem; }
figcaption b, caption b { display: block; color: var(--ink); font-weight: 600; font-size: 1rem; }
figure img { display: block; width: 100%; max-width: 34rem; height: auto; margin: 0 auto; }
figure.wide { overflow-x: auto; }
figure.wide img { min-width: 40rem; max-width: 60rem; }
.scroll { overflow-x: auto; break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .7rem .8rem .35rem; color: var(--soft); font-size: .92rem; line-height: 1.4; }
th, td { text-align: right; padding: .32rem .8rem; border-top: 1px solid var(--rule); vertical-align: top; }
tr:first-child > * { border-top: 0; }
tr:first-child th[scope=col] { vertical-align: bottom; }
th { font-weight: 500; color: var(--soft); }
th:first-child, td:first-child, table.facts td { text-align: left; }
caption span { display: inline-block; position: sticky; left: .8rem; max-width: min(44rem, calc(100vw - 3.5rem)); }
.metrics td { white-space: nowrap; }
.words td { text-align: left; white-space: normal; }
.metrics th, .metrics td { overflow-wrap: normal; }
.ours td:nth-child(2) { font-weight: 600; }
.facts th { width: 14rem; }
.facts td { overflow-wrap: anywhere; }
.bars { margin-bottom: .5rem; }
.bars th, .bars td { border-top: 0; vertical-align: middle; }
.bars th { min-width: 7rem; }
.bars td:nth-child(2) { width: 50%; padding: 0; }
.bars i { display: block; height: 1.1rem; border-radius: 0 3px 3px 0; background: var(--mark); }
.bars i.weak { background: var(--bar); }
.bars td:last-child { text-align: left; white-space: nowrap; }
.bars.long tr { display: grid; grid-template-columns: minmax(0, 1fr) 11rem; }
.bars.long th { grid-column: 1 / -1; padding-bottom: 0; }
.bars.long td:nth-child(2) { width: auto; padding: .1rem 0 .3rem .8rem; }
.bars.long td:last-child { padding-top: 0; }
details { margin: .6rem 0; break-inside: avoid-page; }
details .scroll { border: 0; border-radius: 0 0 8px 8px; }
details caption { display: none; }
summary { cursor: pointer; padding: .6rem .8rem; font-weight: 600; }
summary span { color: var(--soft); font-weight: 400; }
pre { margin: .3rem 0 .8rem; padding: .6rem .8rem; overflow-x: auto; font: .875rem/1.5 ui-monospace, monospace; }
@media (max-width: 40rem) {
  body { padding: 1rem .75rem 2rem; }
  h1 { font-size: 1.4rem; }
  h2 { margin-top: 2rem; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem; }
  .tiles b { font-size: 1.2rem; }
  .row, .figures, .tables { gap: .6rem; }
  figure { padding: .6rem .5rem; }
  figcaption { padding: 0 .2rem; }
  th, td { padding: .32rem .5rem; }
  caption, summary { padding-left: .5rem; padding-right: .5rem; }
  table { font-size: .875rem; }
  .bars.long td:nth-child(2) { padding-left: .5rem; }
  .facts th { width: 40%; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
@media print {
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  :root { --ground: #ffffff; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  nav { display: none; }
  h2 { break-after: avoid; }
  figure, .tiles div, tr { break-inside: avoid; }
  .row { grid-template-columns: 1fr 1fr; }
  .scroll { overflow: visible; break-inside: auto; }
  pre { white-space: pre-wrap; }
  details::details-content { content-visibility: visible; display: block; }
}
"""

HEAD = (
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>"""
    + STYLE
    + """</style>
</head>
"""
)

PAGE = Template(
    HEAD
    + """<body>
<header>
<h1>$title</h1>
$lead
$contents
</header>
<main>
$sections
</main>
</body>
</html>
"""
)


# HTML

DARK_SCREEN = "screen and (prefers-color-scheme: dark)"
MOST_BESIDE = 5  # columns of a table that has room beside another
LONGEST_BESIDE = 22  # letters of a name beside its bar: longer ones stand above
LEAST_NAMED = 3  # sections from which on the page begins with a list of them


def html_page(title: str, lead: Sequence[Block], sections: Sequence[Section]) -> str:
    """Return the HTML page; the same parts give the same bytes.

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
    """Return a PNG image as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _section(section: Section) -> str:
    return f'<section>\n<h2 id="{section.key}">{escape(section.title)}</h2>\n{_blocks(section.blocks)}\n</section>'


def _blocks(blocks: Sequence[Block]) -> str:
    """Return the HTML of blocks; consecutive figures and open tables are shown in columns if there is room."""
    parts = []
    for in_columns, group in groupby(
        blocks, lambda block: isinstance(block, FigureBlock | BarChart | TableBlock) and not _folded(block)
    ):
        written = [_html_block(block) for block in group]
        parts += ['<div class="row">', *written, "</div>"] if in_columns else written
    return "\n".join(parts)


def _folded(block: Block) -> bool:
    return isinstance(block, TableBlock) and block.folded


def _html_block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Subheading(text):
            return f"<h3>{escape(text)}</h3>"
        case WarningBlock(text):
            return f'<p class="warning"><strong>Warning.</strong> {escape(text)}</p>'
        case Tiles(tiles):
            cells = (f"<div><span>{escape(name)}</span><b>{escape(value)}</b></div>" for name, value in tiles)
            return '<div class="tiles">\n' + "\n".join(cells) + "\n</div>"
        case FigureBlock():
            return _picture(block)
        case BarChart():
            return _bars(block)
        case TableBlock():
            return _grid(block)
        case CodeBlock(title, lines):
            return f"<p>{escape(title)}</p>\n<pre><code>{escape(chr(10).join(lines))}</code></pre>"
        case Link(file, text, more):
            return f'<p><a href="{escape(file)}">{escape(text)}</a>{escape(more)}</p>'


def _picture(picture: FigureBlock) -> str:
    dark = f'<source media="{DARK_SCREEN}" srcset="{data_uri(picture.draw(DARK))}">'
    style = ' class="wide"' if picture.wide else ""
    caption = f" {escape(picture.told)}" if picture.told else ""
    alt = escape(f"{picture.title}. {picture.told}" if picture.told else picture.title)
    return (
        f"<figure{style}><figcaption><b>{escape(picture.title)}</b>{caption}</figcaption><picture>{dark}"
        f'<img src="{data_uri(picture.draw(LIGHT))}" alt="{alt}"></picture></figure>'
    )


def _bars(block: BarChart) -> str:
    lines = [
        f'<tr><th scope="row">{escape(bar.name)}</th><td><i class="{"strong" if bar.strong else "weak"}" '
        f'style="width:{100 * bar.length:.1f}%"></i></td><td>{escape(bar.text)}</td></tr>'
        for bar in block.bars
    ]
    long = max((len(bar.name) for bar in block.bars), default=0) > LONGEST_BESIDE
    return _html_table("bars long" if long else "bars", block.title, block.told, lines)


def _grid(block: TableBlock) -> str:
    style = "metrics ours" if list(block.header[1:2]) == ["okl"] else "metrics" if block.header else "facts"
    style += " words" if block.words else ""
    lines = []
    if block.header:
        lines.append("<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in block.header) + "</tr>")
    for name, *cells in block.rows:
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{values}</tr>')
    table = _html_table(style, block.title, block.note, lines, wide=block.wide or len(block.header) > MOST_BESIDE)
    if not block.folded:
        return table
    return f"<details><summary>{escape(block.title)} <span>({len(block.rows):,})</span></summary>{table}</details>"


def _html_table(style: str, title: str, note: str, lines: Sequence[str], wide: bool = False) -> str:
    more = f" {escape(note)}" if note else ""
    named = f"<caption><span><b>{escape(title)}</b>{more}</span></caption>"
    body = "\n".join([named, *lines])
    return f'<div class="scroll{" wide" if wide else ""}"><table class="{style}">\n{body}\n</table></div>'


# Markdown, for Prefect's artifacts, with figures as PNG data URIs in light colours


def markdown_page(title: str, lead: Sequence[Block], sections: Sequence[Section]) -> str:
    """Return the same parts as Markdown."""
    parts = [f"# {plain(title)}", *map(_markdown_block, lead)]
    for section in sections:
        parts += [f"## {plain(section.title)}", *map(_markdown_block, section.blocks)]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Return text on one line, escaped for Markdown and HTML."""
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _markdown_block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return plain(text)
        case Subheading(text):
            return f"### {plain(text)}"
        case WarningBlock(text):
            return f"**Warning.** {plain(text)}"
        case Tiles(tiles):
            return _markdown_table(("", ""), tiles)
        case FigureBlock():
            caption = f"**{plain(block.title)}** {plain(block.told)}".rstrip()
            return f"{caption}\n\n![{plain(block.title)}]({data_uri(block.draw(LIGHT))})"
        case BarChart(title, bars, caption):
            rows = [(bar.name, bar.text) for bar in bars]
            return f"**{plain(title)}** {plain(caption)}".rstrip() + f"\n\n{_markdown_table(('', ''), rows)}"
        case TableBlock(title, header, rows, note):
            named = f"### {plain(title)}" + (f"\n\n{plain(note)}" if note else "")
            return f"{named}\n\n{_markdown_table(header or ('', ''), rows)}"
        case CodeBlock(title, lines):
            indented = "\n".join(f"    {line}" for line in lines)
            return f"{plain(title)}\n\n{indented}"
        case Link(_, text, more):
            return plain(f"{text}{more}")


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)]]
    body = [[plain(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*lines, *body])
