"""A path of bounds as text: the cells of its tables, and what it comes to in sentences; all from the result alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.comparison.price.pictures import pictures_of
from okl.comparison.report import Page, TableOfPage
from okl.comparison.wording import percent
from okl.store.constraintwords import RATES
from okl.store.texttables import aligned
from okl.store.wording import number, seconds

HEADER = ("Bound", "FOGD", "Best under it", "Price", "p", "Training rows", "Held-out rows", "Decisions")
LIMITS_HEADER = ("Constraint", "Training rows", "Held-out rows", "Decisions, training", "Decisions, held out")
CLEAR = 0.05


def page_of(result: Mapping[str, Any]) -> Page:
    """The report as the parts of a page."""
    tables: list[TableOfPage] = [
        ("What each bound costs", HEADER, [price_row(row) for row in result["path"]]),
        ("Every constraint at every bound", LIMITS_HEADER, limit_rows(result)),
    ]
    return Page(
        title=f"{result['name']}: what a constraint costs",
        sentences=sentences(result),
        warnings=warning_sentences(result),
        tables=tables,
        pictures=pictures_of(result),
        facts={name: value for name, value in result.items() if name != "path"},
    )


def price_row(row: Mapping[str, Any]) -> list[str]:
    """A row of the table as text, a column each of HEADER."""
    best, free = row["best"], row["bound"] is None
    return [
        "none" if free else f"{row['bound']:g}",
        percent(row["mean"], row["spread"]),
        "-" if best is None else percent(best["mean"], best["spread"]),
        "-" if free else f"{100 * row['price'] + 0.0:.2f}",
        "-" if free else f"{row['p_value']:.2g}",
        number(row["train"]["value"]),
        f"{number(row['test']['value'])} ± {number(2.0 * (row['test']['standard_error'] or 0.0))}",
        number(row["test"]["decisions"]),
    ]


def limit_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """A row for each constraint at each bound, a column each of LIMITS_HEADER."""
    return [
        [one["constraint"] if one["kept"] else f"without {one['constraint']}"]
        + [number(one[split]["value"]) for split in ("train", "test")]
        + [_decisions(one[split]) for split in ("train", "test")]
        for row in result["path"]
        for one in row["limits"]
    ]


def sentences(result: Mapping[str, Any]) -> list[str]:
    """What was learnt, how it was judged, and what came of it."""
    data, parts, tightest, free = result["dataset"], result["parts"], result["path"][0], result["path"][-1]
    how = f"{parts}-fold cross validation" if parts > 1 else f"{number(result['judged_rows'])} rows held out"
    clear = "clear" if tightest["p_value"] <= CLEAR else "not clear"
    said = [
        f"FOGD learnt to predict {data['target']} from {number(data['features'])} columns, row after row, with "
        f"{' and '.join(result['swept'])} bounded ever more loosely; judged by {how} on "
        f"{number(result['search_rows'])} training rows, in {seconds(result['search_seconds'])}.",
        f"Without a bound it is right in {percent(free['mean'], free['spread'])} of cases (the majority class in "
        f"{percent(result['majority'], None)}) and comes to {number(result['without'])}. The bound "
        f"{tightest['bound']:g} costs {100 * tightest['price']:.2f} points, which is {clear} "
        f"(p {tightest['p_value']:.2g}).",
        "Values are sizes in the unit of the constraint, the largest of all constraints that take the bound, after ± "
        "two standard errors. Decisions: what positive rates differ by on held-out rows; limits of scores do not "
        "bound them. Price: points behind FOGD without the bound.",
        f"p: {result['test_name']} against no bound, two-sided, not corrected for how many there are.",
    ]
    if free["best"] is not None:
        gap = max(row["best"]["relative_gap"] for row in result["path"])
        said.append(
            "Best under it: the weights of the least hinge loss on the rows that were learnt, within the same limits "
            f"in the same ball and map, certified to {percent(gap, None)} of it at worst."
        )
    return said


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """What a reader must not overlook."""
    warnings, bounds = [], [row["bound"] for row in result["path"] if row["bound"] is not None]
    if result["without"] <= bounds[0]:
        warnings.append(
            f"No bound changes much: without any, {' and '.join(result['swept'])} comes to "
            f"{number(result['without'])} already. Give a smaller one."
        )
    if missed := [row["bound"] for row in result["path"] if row["met"] is False]:
        warnings.append(f"Limits are overstepped on the rows that were learnt at {', '.join(map(str, missed))}.")
    searched, there = result["search_rows"], result["dataset"]["train_rows"]
    if searched < there:
        warnings.append(
            f"A sample of {number(searched)} of {number(there)} training rows was learnt from; what okl train keeps to "
            "is estimated on all of them. Raise --rows for more."
        )
    return warnings


def text_summary(result: Mapping[str, Any]) -> str:
    """Aligned lines for a terminal."""
    lines = aligned([list(HEADER), *(price_row(row) for row in result["path"])])
    said = ["", *sentences(result), *(f"Warning: {warning}" for warning in warning_sentences(result))]
    return "\n".join([*lines, *said, f"Report: {result['run']}/report.html"])


def _decisions(figures: Mapping[str, Any]) -> str:
    name = next((name for name in RATES if name in figures), None)
    return "-" if name is None else f"{RATES[name]} {number(figures[name])}"
