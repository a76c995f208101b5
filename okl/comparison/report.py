"""The report of a comparison: a self-contained page, and markdown for an artifact; pictures are inline in both."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Any, NamedTuple

from okl.comparison.pictures import Picture, pictures_of
from okl.comparison.wording import BIAS_HEADER, HEADER, bias_rows, sentences, table_row, warning_sentences
from okl.store.figures import DARK, LIGHT
from okl.store.page import HEAD
from okl.store.wording import flat

APART = ("models",)
PAGE = Template(
    HEAD
    + """<body>
<h1>$title</h1>
$summary
$warnings
$tables
<h2>Pictures</h2>
<div class="figures">
$figures
</div>
$facts
</body>
</html>
"""
)


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
    pictures: Sequence[Picture]
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
    """Markdown, its pictures as PNG data URIs on light ground."""
    parts = [f"# {page.title}", *page.sentences]
    parts += [f"**Warning.** {sentence}" for sentence in page.warnings]
    parts += [_markdown(title, header, rows) for title, header, rows in page.tables]
    parts += [f"![{picture.title}]({_data_uri(picture.draw(LIGHT))})" for picture in page.pictures]
    return "\n\n".join(parts) + "\n"


def html_page(page: Page) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    warned = (f'<p class="warning"><strong>Warning.</strong> {escape(sentence)}</p>' for sentence in page.warnings)
    return PAGE.substitute(
        title=escape(page.title),
        summary="\n".join(f"<p>{escape(sentence)}</p>" for sentence in page.sentences),
        warnings="\n".join(warned),
        tables="\n".join(_html(title, header, rows) for title, header, rows in page.tables),
        figures="\n".join(_html_picture(picture) for picture in page.pictures),
        facts=_html("Run", ("", ""), [list(pair) for pair in flat(page.facts)]),
    )


def _tables(result: Mapping[str, Any]) -> list[TableOfPage]:
    tables: list[TableOfPage] = [("Models", HEADER, [table_row(row) for row in result["models"]])]
    if rows := bias_rows(result):
        tables.append(("Either bias, at its own best value", BIAS_HEADER, rows))
    return tables


def _markdown(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _html(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<h2>{escape(title)}</h2>\n<div class="scroll"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _html_picture(picture: Picture) -> str:
    light, dark = _data_uri(picture.draw(LIGHT)), _data_uri(picture.draw(DARK))
    return (
        '<figure class="wide"><picture>'
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(picture.title)}"></picture></figure>'
    )


def _data_uri(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
