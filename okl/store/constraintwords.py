"""The constraints of a run in words: sentences and a table for the page, a line each for a terminal, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from okl.store.figures import Theme, large_numbers, legend, lines_across, one_picture, png
from okl.store.tables import Table
from okl.store.wording import number

HEADER = ("Constraint", "Training rows", "Test rows", "Decisions, training", "Decisions, test")
RATES = {
    "positive_rate": "positive rate",
    "positive_rate_difference": "positive rates differ by",
    "decision_covariance": "covariance",
}


def constraint_sentences(result: Mapping[str, Any]) -> list[str]:
    """What was asked, how it was kept on the way, and what it does not say; nothing for a run without constraints."""
    told = result.get("constraints")
    if not told:
        return []
    kept = "keeps to every limit" if told["met"] else "does NOT keep to every limit"
    rows = number(told["rows"])
    return [
        f"Rows of the constraints were added up over all {rows} training rows. On these the model {kept}; limits are "
        f"kept with a margin of {number(told['margin'])} inside. On fresh rows a value may differ: two standard errors "
        "stand beside those of the test rows.",
        f"While learning, weights were outside by {number(told['violation_a_row'])} a row on average, in the units of "
        f"the constraints; as they were learnt, before they were brought within all limits, by "
        f"{number(told['violation_as_learnt'])}. {told['theorem']}",
        "Scores are constrained, as their means are linear in the weights; decisions are not: limits of scores do not "
        "bound differences of positive rates, which therefore stand beside them.",
    ]


def constraint_table(result: Mapping[str, Any]) -> Table | None:
    """A row for each constraint, under HEADER."""
    told = result.get("constraints")
    if not told:
        return None
    rows = [
        [one["constraint"], _value(one["train"], False), _value(one.get("test"), True)]
        + [_rate(one.get(split)) for split in ("train", "test")]
        for one in told["limits"]
    ]
    return Table("Constraints", rows)


def constraint_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """A line for each constraint in a terminal."""
    told = result.get("constraints") or {}
    facts = []
    for one in told.get("limits") or []:
        words = f"{_value(one['train'], False)} on training rows"
        if one.get("test"):
            words += f", {_value(one['test'], True)} on test rows"
        facts.append([one["constraint"], f"{words}; {_rate(one['train'])}"])
    return facts


def violation_curve(points: Sequence[Sequence[float]], theme: Theme) -> bytes:
    """Draw what a row's weights were outside their limits by, against the rows seen.

    points : [rows seen, a row so far, a row since the point before] each
    """
    figure, axes = one_picture(theme)
    seen, so_far, recent = zip(*points, strict=True)
    marker = "o" if len(points) < 3 else ""
    axes.plot(seen, recent, color=theme.soft, linewidth=1.2, label="last window", marker=marker)
    axes.plot(seen, so_far, color=theme.line, linewidth=2.0, label="so far", marker=marker)
    axes.set_ylim(0.0, 1.25 * max(*so_far, *recent, 1e-12))  # room for the legend above the lines
    axes.set_xlim(0.0, float(max(seen)))
    axes.xaxis.set_major_formatter(large_numbers)
    axes.yaxis.set_major_formatter(large_numbers)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("rows seen")
    axes.set_ylabel("violation a row")
    lines_across(axes, theme)
    legend(axes, theme)
    return png(figure)


def _value(figures: Mapping[str, Any] | None, with_error: bool) -> str:
    if not figures:
        return "-"
    error = figures["standard_error"]
    return number(figures["value"]) + (f" ± {number(2.0 * error)}" if with_error and error is not None else "")


def _rate(figures: Mapping[str, Any] | None) -> str:
    name = next((name for name in RATES if name in (figures or {})), None)
    return "-" if name is None or figures is None else f"{RATES[name]} {number(figures[name])}"
