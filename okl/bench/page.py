"""The page of a benchmark: one self-contained file, light and dark, in which defeats stand beside victories."""

from __future__ import annotations

import base64
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from string import Template

from okl.bench.pictures import accuracy_against_seconds, memory
from okl.bench.roster import systems
from okl.bench.rows import Measurement
from okl.bench.verdicts import DUEL, Verdict, duelled, swept
from okl.bench.wording import HEADER, HOW, OUTCOMES, configuration_words, score_words, span, summary, verdict_rows
from okl.store.figures import DARK, LIGHT, Theme
from okl.store.page import HEAD
from okl.store.wording import number

LOST = ("behind", "never there")
PAGE = Template(
    HEAD
    + """<body>
<h1>$title</h1>
$summary
<div class="tiles">
$tiles
</div>
$verdicts
<h2>Accuracy against seconds</h2>
<div class="figures">
$figures
</div>
<h2>Duels</h2>
$duels
<h2>What was not done</h2>
$undone
<h2>Machine and versions</h2>
<div class="tables">
$facts
</div>
</body>
</html>
"""
)
Rows = Sequence[Sequence[str]]


def write_page(path: Path, measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> Path:
    """Write the page and return its path; it is there whole or not at all."""
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_text(html_page(measurements, verdicts), encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def html_page(measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> str:
    """The page, without any outside reference."""
    return PAGE.substitute(
        title="okl beside other systems",
        summary="\n".join(f"<p>{escape(sentence)}</p>" for sentence in (summary(verdicts), *HOW)),
        tiles="\n".join(_tile(words, kind, verdicts) for kind, words in OUTCOMES.items()),
        verdicts=_table("Verdicts", HEADER, verdict_rows(verdicts), [one.outcome in LOST for one in verdicts]),
        figures="\n".join(_figures(measurements, verdicts)),
        duels=_table("Every configuration that was measured in turn", DUEL_HEADER, _duel_rows(measurements, verdicts)),
        undone=_table("Time-outs and failures", ("Set", "System", "Configuration", "Outcome"), _undone(measurements)),
        facts=_table("Machine", ("", ""), _machine(measurements), kind="facts")
        + _table("Versions", ("", ""), _versions(measurements), kind="facts"),
    )


DUEL_HEADER = ("Set", "System", "Configuration", "Accuracy or error", "Fit", "Least to most", "Predict", "Peak memory")


def _duel_rows(measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> Rows:
    return [
        [
            one.set,
            f"{timed.subject.system} {timed.subject.entrant}",
            configuration_words(timed.subject),
            score_words(one, timed.score, timed.loss),
            span(timed.seconds),
            f"{span(timed.least_seconds)} to {span(timed.most_seconds)}",
            span(timed.predict_seconds),
            f"{timed.peak_memory_bytes / 2**20:,.0f} MiB",
        ]
        for one in verdicts
        for timed in sorted(duelled(measurements, one.set), key=lambda timed: timed.seconds)
    ]


def _undone(measurements: Sequence[Measurement]) -> Rows:
    return [
        [
            one.subject.set,
            f"{one.subject.system} {one.subject.entrant}",
            configuration_words(one.subject),
            f"{one.answer.outcome}: {one.answer.reason}",
        ]
        for one in measurements
        if not one.done
    ]


def _machine(measurements: Sequence[Measurement]) -> Rows:
    """Of the duels if there are any, else of all."""
    told = [one for one in measurements if one.subject.stage == DUEL] or measurements
    last = told[-1]
    return [
        ["Processor", last.processor],
        ["Cores", str(last.cores)],
        ["Memory", f"{last.memory_bytes / 2**30:.1f} GiB"],
        ["Measurements", number(len(measurements))],
        ["First and last", f"{measurements[0].time} to {max(one.time for one in measurements)}"],
        ["Load in the duels", f"{min(one.load for one in told):.1f} to {max(one.load for one in told):.1f}"],
        ["okl's commit in the duels", ", ".join(sorted({one.okl_commit for one in told})) or "-"],
    ]


def _versions(measurements: Sequence[Measurement]) -> Rows:
    found: dict[str, set[str]] = defaultdict(set)
    for one in measurements:
        if one.answer.version:
            found[one.subject.system].add(one.answer.version)
    return [[name, ", ".join(sorted(found[name])) or "not installed"] for name in systems()]


def _figures(measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> list[str]:
    drawn = [
        _picture(one.set, partial(accuracy_against_seconds, swept(measurements, one.set), one.set)) for one in verdicts
    ]
    if any(one.own and one.peer for one in verdicts):
        drawn.append(_picture("Peak memory", partial(memory, verdicts), wide=True))
    return drawn


def _tile(words: str, kind: str, verdicts: Sequence[Verdict]) -> str:
    count = sum(one.outcome == kind for one in verdicts)
    style = ' class="first"' if kind == "ahead" else ""
    return f"<div{style}><span>{escape(words)}</span><b>{count}</b></div>" if count else ""


def _picture(title: str, draw: Callable[[Theme], bytes], wide: bool = False) -> str:
    light, dark = ("data:image/png;base64," + base64.b64encode(draw(theme)).decode("ascii") for theme in (LIGHT, DARK))
    style = ' class="wide"' if wide else ""
    return (
        f"<figure{style}><picture>"
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(title)}"></picture></figure>'
    )


def _table(title: str, header: Sequence[str], rows: Rows, marked: Sequence[bool] = (), kind: str = "metrics") -> str:
    if not rows:
        return f"<p>{escape(title)}: none.</p>"
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header) if any(header) else ""
    lines = [f"<tr>{head}</tr>"] if head else []
    for index, row in enumerate(rows):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        style = ' class="worse"' if index < len(marked) and marked[index] else ""
        lines.append(f'<tr{style}><th scope="row">{escape(row[0])}</th>{cells}</tr>')
    body = "\n".join(lines)
    return f'<div class="scroll"><table class="{kind}">\n<caption>{escape(title)}</caption>\n{body}\n</table></div>'
