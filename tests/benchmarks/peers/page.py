"""The page of a benchmark: one self-contained file, light and dark, with losses and wins."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from okl.report.blocks import Block, Figure, Paragraph, Section, Table, Tiles, page
from okl.report.figures import COLOURS, LIGHT, SMALL, figure_with_axes, legend, lines_across, svg
from okl.report.format import number
from okl.report.render import html
from tests.benchmarks.peers.records import (
    DUEL,
    EVEN,
    NEAR_LOSS,
    NEAR_POINTS,
    Measurement,
    Subject,
    Timed,
    Verdict,
    duelled,
    swept,
)
from tests.benchmarks.peers.systems import OWN, systems

OUTCOMES = {
    "ahead": "okl is ahead",
    "even": "even",
    "behind": "okl is behind",
    "never there": "okl does not get there",
    "alone": "only okl gets there",
    "not measured": "no duel yet",
}
HEADER = ("Set", "Verdict", "Ratio", "okl, seconds", "Other, seconds", "okl", "Fastest other", "Best")
HOW = tuple(
    " ".join(part.split())
    for part in f"""
A set's best is the highest accuracy on the test rows (the least mean squared error of a regression) that any
configuration of any system reached. Near it is within half a point of accuracy, or 5% of the error. The verdict
compares okl's fastest configuration near the best with the fastest other one: seconds of the clock for a fit, medians
of several turns in which all take part one after the other, each in a warm process of its own with all threads. A
ratio within {EVEN - 1:.0%} is a tie.

All systems learn the same rows in the same order, scaled alike: standardised by the training rows, but a9a, w7a and
mnist as they are, in [0, 1]. Rows are in memory as each system wants them, dense float32 or float64, CSR, or its own;
making them so is not timed, nor are imports, compiling and a fit of some hundred rows before. Sets with few test rows
are split and fitted up to 20 times; accuracies are means, seconds medians. At most 20,000 test rows are scored.

Widths, penalties and step sizes are tried on 3,000 training rows and judged by 1,000 others, three quarters and a
quarter where rows are fewer; the best go on. Sizes
(columns of a map, landmarks, passes) are all measured on all rows. The pictures show this sweep: one thread, seconds
of the processor, so that other work on the machine matters little. scikit-learn's, LIBSVM's and ThunderSVM's kernel
machines learn at most 20,000 rows; River, whose rows are Python dictionaries, 50,000, and not mnist. On sets on which
SVC takes long, LIBSVM and ThunderSVM, which solve the same problem, are left out; so are okl's certified linear
solvers on sets that are far from linear.

Not taking part: Falkon and EigenPro, of which the package index has no distribution; anything that needs a GPU.
""".split("\n\n")
)


def measurement_line(measurement: Measurement) -> str:
    """Return a measurement as a line for a terminal."""
    subject, answer = measurement.subject, measurement.answer
    label = (
        f"{subject.stage:5} {subject.set:14} {subject.system:12} {subject.entrant:24} {configuration_words(subject)}"
    )
    if not measurement.done:
        return f"{label}: {answer.outcome}, {answer.reason}"
    cpu_text = span(answer.fit_cpu_seconds)
    return f"{label}: {answer.score or 0.0:.4f} in {span(answer.fit_seconds)}, {cpu_text} of the processor"


def configuration_words(subject: Subject) -> str:
    """Return a configuration without punctuation of JSON.

    >>> configuration_words(Subject("sweep", "german", "binary", "okl", "FOGD", '{"passes": 5, "width": 0.3}'))
    'passes 5, width 0.3'
    """
    values = json.loads(subject.configuration)
    return ", ".join(f"{name} {value}" for name, value in values.items())


def span(seconds: float | None) -> str:
    """Return seconds with three digits, milliseconds below one.

    >>> span(0.00123), span(12.345), span(None)
    ('1.23 ms', '12.3 s', '-')
    """
    if seconds is None:
        return "-"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def score_words(one: Verdict, score: float, loss: float) -> str:
    """Return the percentage right, or the error in units of the target's variance."""
    return f"{loss:.4f}" if one.task == "regression" else f"{100 * score:.2f}%"


def verdict_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return the cells of the table of verdicts, in the order of HEADER."""
    rows = []
    for one in verdicts:
        own, peer = _side(one, one.own), _side(one, one.peer)
        ratio = "-" if one.ratio is None else f"{one.ratio:.2f}"
        best = f"{score_words(one, one.best_score, one.best_loss)} ({one.best.system}, {one.best.entrant})"
        rows.append([one.set, OUTCOMES[one.outcome], ratio, own[1], peer[1], own[0], peer[0], best])
    return rows


def _side(one: Verdict, timed: Timed | None) -> list[str]:
    if timed is None:
        return ["-", "-"]
    subject = timed.subject
    system = "" if subject.system == "okl" else f"{subject.system} "
    description = (
        f"{system}{subject.entrant} ({configuration_words(subject)}): {score_words(one, timed.score, timed.loss)}"
    )
    return [description, f"{span(timed.seconds)} ({span(timed.least_seconds)} to {span(timed.most_seconds)})"]


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many sets have each outcome, in a sentence."""
    counts = {words: sum(OUTCOMES[one.outcome] == words for one in verdicts) for words in OUTCOMES.values()}
    counts_text = ", ".join(f"{words} on {count}" for words, count in counts.items() if count)
    return f"Of {len(verdicts)} sets: {counts_text}."


def text_summary(result: dict[str, Any]) -> str:
    """Return verdicts for a terminal, and the path of the page."""
    lines = []
    for one in result["verdicts"]:
        own, peer = (one[side]["seconds"] if one[side] else None for side in ("own", "peer"))
        ratio = "" if one["ratio"] is None else f", ratio {one['ratio']:.2f}"
        lines.append(f"{one['set']:15} okl {span(own):>9}, others {span(peer):>9}{ratio}: {OUTCOMES[one['outcome']]}")
    return "\n".join([*lines, f"{number(result['measurements'])} measurements; page: {result['page']}"])


MARKS = ("s", "^", "v", "D", "P", "X", "*")
LOWEST = 0.08  # points of accuracy below the best that are still drawn
HIGHEST_LOSS = 4.0  # times the least loss that are still drawn
MEBIBYTE = 2.0**20


def styles() -> dict[str, tuple[str, str]]:
    """Return the colour and mark of each system."""
    others = [name for name in systems() if name != OWN]
    return {OWN: (LIGHT.line, "o")} | {
        name: (COLOURS[1 + index % (len(COLOURS) - 1)], MARKS[index % len(MARKS)]) for index, name in enumerate(others)
    }


def accuracy_against_seconds(measurements: Sequence[Measurement]) -> str:
    """Draw all configurations of a sweep on one set: percent right, or the loss, against seconds of the processor.

    Results far worse than the best are left out; the band shows which are near the best.
    """
    figure, axes = figure_with_axes()
    regression = measurements[0].subject.task == "regression"
    least = min(one.answer.loss or 0.0 for one in measurements)
    most = HIGHEST_LOSS * least if regression else least + LOWEST
    bound = NEAR_LOSS * least if regression else least + NEAR_POINTS
    shown = [one for one in measurements if (one.answer.loss or 0.0) <= most]
    for name, (colour, mark) in styles().items():
        own = [one for one in shown if one.subject.system == name]
        if own:
            heights = [_height(one.answer.loss or 0.0, regression) for one in own]
            style: dict[str, Any] = {"s": 42 if name == OWN else 26, "marker": mark, "alpha": 0.85, "linewidths": 0}
            axes.scatter(
                [one.cost for one in own], heights, color=colour, label=name, zorder=3 if name == OWN else 2, **style
            )
    axes.axhspan(_height(least, regression), _height(bound, regression), color=LIGHT.soft, alpha=0.35, linewidth=0)
    axes.set_xscale("log")
    axes.set_xlabel("seconds of the processor for a fit")
    axes.tick_params(which="both", colors=LIGHT.ink)
    lines_across(axes, "both")
    if regression:
        axes.invert_yaxis()  # better is higher in every picture
    legend(axes, "lower right", columns=2)
    return svg(figure)


def memory(verdicts: Sequence[Verdict]) -> str:
    """Draw the peak of memory of both sides of each duel, of whole processes, including libraries and rows."""
    complete = [one for one in verdicts if one.own and one.peer]
    figure, axes = figure_with_axes(9.2, 3.4)
    places = range(len(complete))
    own = [one.own.peak_memory_bytes / MEBIBYTE for one in complete if one.own]
    peer = [one.peer.peak_memory_bytes / MEBIBYTE for one in complete if one.peer]
    axes.bar([place - 0.2 for place in places], own, 0.38, color=LIGHT.line, label="okl")
    axes.bar([place + 0.2 for place in places], peer, 0.38, color=LIGHT.other, label="fastest other")
    axes.set_xticks(list(places), [one.set for one in complete], rotation=35, ha="right", fontsize=SMALL)
    axes.tick_params(which="both", colors=LIGHT.ink)
    lines_across(axes)
    legend(axes, columns=2)
    return svg(figure)


def _height(loss: float, regression: bool) -> float:
    return loss if regression else 100.0 * (1.0 - loss)


Rows = Sequence[Sequence[str]]


def write_page(path: Path, measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> Path:
    """Write the page atomically and return its path."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        temporary.write_text(bench_page(measurements, verdicts), encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def bench_page(measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> str:
    """Return the page, without any external reference."""
    counts = [(words, sum(one.outcome == kind for one in verdicts)) for kind, words in OUTCOMES.items()]
    lead: list[Block] = [Paragraph(summary(verdicts)), Tiles([(words, str(count)) for words, count in counts if count])]
    undone = Table("Time-outs and failures", UNDONE_HEADER, _undone(measurements), folded=True)
    duels = Table("All that was measured in turn", DUEL_HEADER, _duel_rows(measurements, verdicts), wide=True)
    parts = [
        Section("verdicts", "Who is first", [Table("Verdicts", HEADER, verdict_rows(verdicts), wide=True)]),
        Section("pictures", "Accuracy against seconds", _pictures(measurements, verdicts)),
        Section("duels", "Duels", [duels]),
        Section("how", "How it was measured", [*(Paragraph(paragraph) for paragraph in HOW), undone]),
        Section("machine", "Machine and versions", _where(measurements)),
    ]
    sections = [section for section in parts if section.key != "duels" or duels.rows]
    return html(page("okl beside other systems", lead, *sections))


UNDONE_HEADER = ("Set", "System", "Configuration", "Outcome")
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
    """Return the machine of the duels if there are any, else of all measurements."""
    measured = [one for one in measurements if one.subject.stage == DUEL] or measurements
    last = measured[-1]
    return [
        ["Processor", last.processor],
        ["Cores", str(last.cores)],
        ["Memory", f"{last.memory_bytes / 2**30:.1f} GiB"],
        ["Measurements", number(len(measurements))],
        ["First and last", f"{measurements[0].time} to {max(one.time for one in measurements)}"],
        ["Load in the duels", f"{min(one.load for one in measured):.1f} to {max(one.load for one in measured):.1f}"],
        ["okl's commit in the duels", ", ".join(sorted({one.okl_commit for one in measured})) or "-"],
    ]


def _versions(measurements: Sequence[Measurement]) -> Rows:
    versions_of: dict[str, set[str]] = defaultdict(set)
    for one in measurements:
        if one.answer.version:
            versions_of[one.subject.system].add(one.answer.version)
    return [[name, ", ".join(sorted(versions_of[name])) or "not installed"] for name in systems()]


def _where(measurements: Sequence[Measurement]) -> list[Block]:
    return [Table("Machine", (), _machine(measurements)), Table("Versions", (), _versions(measurements))]


def _pictures(measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> list[Block]:
    figures: list[Block] = []
    for one in verdicts:
        sweep = swept(measurements, one.set)
        quantity = "mean squared error" if one.task == "regression" else "percent right"
        caption = (
            f"{quantity} of {len(sweep)} configurations against seconds of the processor; the band is near the best."
        )
        figures.append(Figure(one.set, partial(accuracy_against_seconds, sweep), caption.capitalize()))
    if any(one.own and one.peer for one in verdicts):
        caption = "Of the two processes of each verdict, libraries and rows included, MiB."
        figures.append(Figure("Peak memory", partial(memory, verdicts), caption, wide=True))
    return figures
