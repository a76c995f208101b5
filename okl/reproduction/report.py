"""The report of a reproduction: a self-contained page, and markdown for an artifact; pictures are inline in both."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from okl.reproduction.tables import Picture
from okl.reproduction.wording import cell_table, sentences, side_table, tried_rows
from okl.store.figures import DARK, LIGHT
from okl.store.page import HEAD
from okl.store.wording import flat

TRIED_HEADER = ("Cell", "Error of each candidate, on an order that is not reported")
PAGE = Template(
    HEAD
    + """<body>
<h1>$title</h1>
$summary
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


def markdown_report(result: Mapping[str, Any], pictures: Sequence[Picture]) -> str:
    """Markdown, its pictures as PNG data URIs on light ground."""
    parts = [f"# {result['table']}", *sentences(result)]
    parts += [_markdown(title, header, rows) for title, header, rows in _tables(result)]
    parts += [f"![{picture.title}]({_data_uri(picture.draw(LIGHT))})" for picture in pictures]
    return "\n\n".join(parts) + "\n"


def html_report(result: Mapping[str, Any], pictures: Sequence[Picture]) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    facts = {name: value for name, value in result.items() if name not in ("cells", "beside")}
    return PAGE.substitute(
        title=escape(result["table"]),
        summary="\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(result)),
        tables="\n".join(_html(title, header, rows) for title, header, rows in _tables(result)),
        figures="\n".join(_html_picture(picture) for picture in pictures),
        facts=_html("Run", ("", ""), [list(pair) for pair in flat(facts)]),
    )


def _tables(result: Mapping[str, Any]) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    tables: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("Cells", *cell_table(result)),
        ("Data sets", *side_table(result)),
    ]
    if tried := tried_rows(result):
        tables.append(("Candidates", TRIED_HEADER, tried))
    return tables


def _markdown(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _html(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "\n".join(f"<tr{_mark(row)}>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f'<h2>{escape(title)}</h2>\n<div class="scroll"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _mark(row: Sequence[str]) -> str:
    return ' class="worse"' if "worse" in row else ""


def _html_picture(picture: Picture) -> str:
    light, dark = _data_uri(picture.draw(LIGHT)), _data_uri(picture.draw(DARK))
    return (
        '<figure class="wide"><picture>'
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(picture.title)}"></picture></figure>'
    )


def _data_uri(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
