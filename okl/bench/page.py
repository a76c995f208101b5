"""The page of a benchmark: one self-contained file, light and dark, in which defeats stand beside victories."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from okl.bench.pictures import accuracy_against_seconds, memory
from okl.bench.roster import systems
from okl.bench.rows import Measurement
from okl.bench.verdicts import DUEL, Verdict, duelled, swept
from okl.bench.wording import HEADER, HOW, OUTCOMES, configuration_words, score_words, span, summary, verdict_rows
from okl.store.pagehtml import html_page
from okl.store.pageparts import Block, Grid, Picture, Section, Tiles, Words
from okl.store.wording import number

Rows = Sequence[Sequence[str]]


def write_page(path: Path, measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> Path:
    """Write the page and return its path; it is there whole or not at all."""
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_text(bench_page(measurements, verdicts), encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def bench_page(measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> str:
    """The page, without any outside reference."""
    counts = [(words, sum(one.outcome == kind for one in verdicts)) for kind, words in OUTCOMES.items()]
    lead: list[Block] = [Words(summary(verdicts)), Tiles([(words, str(count)) for words, count in counts if count])]
    undone = Grid("Time-outs and failures", UNDONE_HEADER, _undone(measurements), folded=True)
    duels = Grid("All that was measured in turn", DUEL_HEADER, _duel_rows(measurements, verdicts), wide=True)
    found = [
        Section("verdicts", "Who is first", [Grid("Verdicts", HEADER, verdict_rows(verdicts), wide=True)]),
        Section("pictures", "Accuracy against seconds", _pictures(measurements, verdicts)),
        Section("duels", "Duels", [duels]),
        Section("how", "How it was measured", [*(Words(told) for told in HOW), undone]),
        Section("machine", "Machine and versions", _where(measurements)),
    ]
    sections = [section for section in found if section.key != "duels" or duels.rows]
    return html_page("okl beside other systems", lead, sections)


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


def _where(measurements: Sequence[Measurement]) -> list[Block]:
    return [Grid("Machine", (), _machine(measurements)), Grid("Versions", (), _versions(measurements))]


def _pictures(measurements: Sequence[Measurement], verdicts: Sequence[Verdict]) -> list[Block]:
    drawn: list[Block] = []
    for one in verdicts:
        found = swept(measurements, one.set)
        what = "mean squared error" if one.task == "regression" else "percent right"
        told = f"{what} of {len(found)} configurations against seconds of the processor; the band is near the best."
        drawn.append(Picture(one.set, partial(accuracy_against_seconds, found), told.capitalize()))
    if any(one.own and one.peer for one in verdicts):
        told = "Of the two processes of each verdict, libraries and rows included, MiB."
        drawn.append(Picture("Peak memory", partial(memory, verdicts), told, wide=True))
    return drawn
