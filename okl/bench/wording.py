"""What a benchmark says in words: a line a measurement, a table of verdicts, the sentences of its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from okl.bench.rows import Measurement, Subject
from okl.bench.verdicts import EVEN, Timed, Verdict
from okl.store.wording import number

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


def measurement_line(one: Measurement) -> str:
    """A measurement for a terminal."""
    subject, answer = one.subject, one.answer
    told = f"{subject.stage:5} {subject.set:14} {subject.system:12} {subject.entrant:24} {configuration_words(subject)}"
    if not one.done:
        return f"{told}: {answer.outcome}, {answer.reason}"
    spent = span(answer.fit_cpu_seconds)
    return f"{told}: {answer.score or 0.0:.4f} in {span(answer.fit_seconds)}, {spent} of the processor"


def configuration_words(subject: Subject) -> str:
    """A configuration without marks.

    >>> configuration_words(Subject("sweep", "german", "binary", "okl", "FOGD", '{"passes": 5, "width": 0.3}'))
    'passes 5, width 0.3'
    """
    found = json.loads(subject.configuration)
    return ", ".join(f"{name} {value}" for name, value in found.items())


def span(seconds: float | None) -> str:
    """Seconds with three digits, milliseconds below one.

    >>> span(0.00123), span(12.345), span(None)
    ('1.23 ms', '12.3 s', '-')
    """
    if seconds is None:
        return "-"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def score_words(one: Verdict, score: float, loss: float) -> str:
    """Percent right, or the error in units of the target's variance."""
    return f"{loss:.4f}" if one.task == "regression" else f"{100 * score:.2f}%"


def verdict_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Cells of the table of verdicts, as HEADER names them."""
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
    told = f"{system}{subject.entrant} ({configuration_words(subject)}): {score_words(one, timed.score, timed.loss)}"
    return [told, f"{span(timed.seconds)} ({span(timed.least_seconds)} to {span(timed.most_seconds)})"]


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many of each outcome, in a sentence."""
    counts = {words: sum(OUTCOMES[one.outcome] == words for one in verdicts) for words in OUTCOMES.values()}
    told = ", ".join(f"{words} on {count}" for words, count in counts.items() if count)
    return f"Of {len(verdicts)} sets: {told}."


def text_summary(result: dict[str, Any]) -> str:
    """Verdicts for a terminal, and where the page is."""
    lines = []
    for one in result["verdicts"]:
        own, peer = (one[side]["seconds"] if one[side] else None for side in ("own", "peer"))
        ratio = "" if one["ratio"] is None else f", ratio {one['ratio']:.2f}"
        lines.append(f"{one['set']:15} okl {span(own):>9}, others {span(peer):>9}{ratio}: {OUTCOMES[one['outcome']]}")
    return "\n".join([*lines, f"{number(result['measurements'])} measurements; page: {result['page']}"])
