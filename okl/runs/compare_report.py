"""Report of a comparison: table, summary, figures and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from okl.foundation.locations import typed_model
from okl.report import page as report_page
from okl.report.figures import Theme, add_axes, empty_figure, png
from okl.report.format import aligned, duration, flatten, number
from okl.report.page import Block, FigureBlock, Paragraph, Section, TableBlock, WarningBlock

# Table and summary, made from the result only

HEADER = ("Model", "Accuracy", "Chosen", "Bias", "Gap", "Seconds", "Behind", "p")
BIAS_HEADER = ("Model", "Own bias", "Error-minimising bias (26)", "Difference")
SIGNIFICANT = 0.05
LOOSE_GAP = 10.0  # times the tolerance
MORE_ITERATIONS = 10  # times those that did not suffice
UNSOLVED = "*"


def table_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of the table under HEADER; UNSOLVED marks gaps and tests of unfinished solutions."""
    marks = [UNSOLVED if _unsolved(row, result["settings"]["tolerance"]) else "" for row in result["models"]]
    return [_table_row(row, mark, mark or marks[0]) for row, mark in zip(result["models"], marks, strict=True)]


def _unsolved(row: Mapping[str, Any], tolerance: float) -> bool:
    return (row.get("relative_gap") or 0.0) > tolerance


def _table_row(row: Mapping[str, Any], mark: str, test_mark: str) -> list[str]:
    if row["mean"] is None:
        return [row["model"], "failed", *["-"] * 3, duration(row["seconds"]), "-", "-"]
    return [
        row["model"],
        percent(row["mean"], row["spread"]),
        parameter_words(row),
        row["bias"] if row["kind"] == "certified" else "-",
        "-" if row["relative_gap"] is None else f"{row['relative_gap']:.1e}{mark}",
        duration(row["seconds"]),
        "best" if row["best"] else f"{-100 * row['difference'] + 0.0:.2f}",
        "-" if row["best"] else f"{row['p_value']:.2g}{test_mark}",
    ]


def bias_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the best mean accuracy of each kind of bias, for models with both, under BIAS_HEADER."""
    rows = []
    for row in result["models"]:
        biases = row.get("biases") or {}
        if "own" in biases and "error-minimising" in biases:
            own, other = biases["own"], biases["error-minimising"]
            difference = f"{100 * (other['mean'] - own['mean']):+.2f}"
            cells = [percent(accuracy["mean"], accuracy["spread"]) for accuracy in (own, other)]
            rows.append([row["model"], *cells, difference])
    return rows


def parameter_words(row: Mapping[str, Any]) -> str:
    """Return the chosen parameter as text.

    >>> parameter_words({"kind": "certified", "parameter": "nu", "value": 0.25, "place": 0.4})
    'nu 0.25'
    """
    if row["kind"] != "certified":
        return "-"
    if row["value"] is not None:
        return f"{row['parameter']} {row['value']:.3g}"
    if row["parameter"] == "C":
        return f"C {row['place']:.3g}"
    return f"{row['parameter']} of each class, at {row['place']:.3g}"


def percent(mean: float, spread: float | None) -> str:
    """Return a mean and its spread as text.

    >>> percent(0.8512, 0.0034), percent(0.8512, None)
    ('85.12 ± 0.34 %', '85.12 %')
    """
    return f"{100 * mean:.2f} %" if spread is None else f"{100 * mean:.2f} ± {100 * spread:.2f} %"


def sentences(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on the comparison and its result."""
    data, settings, winner = result["dataset"], result["settings"], result["winner"]
    parts = result["parts"]
    how = f"{parts}-fold cross validation" if parts > 1 else f"{number(result['judged_rows'])} held-out rows"
    lines = [
        (
            f"{len(result['models'])} models were trained to predict {data['target']} from "
            f"{number(data['features'])} columns and validated by {how} on {_rows_of(result)} "
            f"training rows. The search took {duration(result['search_seconds'])}, the whole run "
            f"{duration(result['total_seconds'])}."
        ),
        winner_sentence(result),
        (f"It was trained again on {number(winner['rows'])} rows{_certified(result)}{_test(result)}."),
        (
            f"p: {result['test_name']} against the best model, two-sided, not corrected for "
            "multiple tests. Parameters are chosen on the same rows that the table reports, for "
            "every model. Seconds: the sum of all fits of a model, which may run in parallel."
        ),
    ]
    if any(_unsolved(row, settings["tolerance"]) for row in result["models"]):
        lines.append(
            f"Marked {UNSOLVED}: not solved to the relative gap of {settings['tolerance']:g} "
            f"within {settings['iterations']} iterations: accuracy and p are those of an "
            "unfinished solution, and may change."
        )
    if len(result["rungs"]) > 1:
        steps = ", ".join(number(rows) for rows in result["rungs"])
        lines.append(
            f"All {settings['grid']} values of a model were tried on few rows, and the better "
            f"half on twice as many each time: {steps} training rows."
        )
    return lines


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return the warnings."""
    data, winner, tolerance = result["dataset"], result["winner"], result["settings"]["tolerance"]
    warnings = []
    best = result["models"][0]
    if best["mean"] <= result["majority"]:
        warnings.append(f"The best model is not better than the majority class ({percent(result['majority'], None)}).")
    if winner["rows"] < data["train_rows"]:
        warnings.append(
            f"The winner was trained on a sample of {number(winner['rows'])} of "
            f"{number(data['train_rows'])} rows, as many as fit {result['settings']['memory']:g} "
            "GiB. Raise --memory to use more rows."
        )
    loose = [row for row in result["models"] if (row.get("relative_gap") or 0.0) > LOOSE_GAP * tolerance]
    if loose:
        names = ", ".join(f"{row['model']} ({row['relative_gap']:.1g})" for row in loose)
        advice = "Ingest with --scale standard, or raise" if data["scale"] == "none" else "Raise"
        more = MORE_ITERATIONS * result["settings"]["iterations"]
        warnings.append(
            f"Iterations ended far above the relative gap of {tolerance:g}: {names}. {advice} "
            f"--iterations, for example to {more}."
        )
    warnings += [f"{row['model']} failed: {row['note']}" for row in result["models"] if row["mean"] is None]
    return warnings


def text_summary(result: Mapping[str, Any]) -> str:
    """Return the summary as aligned lines for a terminal."""
    lines = [*aligned([list(HEADER), *table_rows(result)]), *linear_note(result)]
    prose = ["", *sentences(result), *(f"Warning: {warning}" for warning in warning_sentences(result))]
    files = [f"Model: {result['model']}", f"Report: {result['run']}/report.html"]
    return "\n".join([*lines, *prose, *files, f"To use it: okl predict {typed_model(result)} ROWS --out SCORES"])


def linear_note(result: Mapping[str, Any]) -> list[str]:
    """Return the sentence on models that are linear in the inputs; "" if all use a feature map."""
    linear = [row["model"] for row in result["models"] if row["kind"] == "certified"]
    if not linear or result["settings"]["frequencies"] is not None:
        return []
    who = "All" if len(linear) == len(result["models"]) else "Models with a gap" if len(linear) > 1 else linear[0]
    verb = "is" if who == linear[0] else "are"
    return [f"{who} {verb} linear in the inputs; --frequencies 400 compares them on random Fourier features."]


def winner_sentence(result: Mapping[str, Any]) -> str:
    """Return the sentence on the best model and the models that are significantly worse."""
    best, *others = result["models"]
    judged = [row for row in others if row["mean"] is not None]
    alike = [row["model"] for row in judged if row["p_value"] > SIGNIFICANT]
    text = f"The best model is {best['model']} with an accuracy of {percent(best['mean'], best['spread'])}"
    text += f", against {percent(result['majority'], None)} for the majority class"
    if not judged:
        return text + "."
    if not alike:
        than = "every other model" if len(judged) == len(others) else "every other model that did not fail"
        return f"{text}, and significantly better than {than} (p <= {SIGNIFICANT})."
    return f"{text}; not significantly better (p > {SIGNIFICANT}) than {', '.join(alike)}."


def _rows_of(result: Mapping[str, Any]) -> str:
    searched, available = result["search_rows"], result["dataset"]["train_rows"]
    return f"all {number(available)}" if searched == available else f"{number(searched)} of {number(available)}"


def _certified(result: Mapping[str, Any]) -> str:
    proof = result["certificate"]
    if proof is None:
        return ""
    text = f", certified within {proof['relative_gap']:.1e} of the least objective"
    tolerance = result["settings"]["tolerance"]
    if not _unsolved(proof, tolerance):
        return text
    more = MORE_ITERATIONS * result["settings"]["iterations"]
    return f"{text}, but not solved to the relative gap of {tolerance:g} (continue with --iterations {more})"


def _test(result: Mapping[str, Any]) -> str:
    test = result["test"]
    if not test:
        return ""
    rows = number(result["dataset"]["test_rows"])
    unseen = "" if result["settings"]["holdout"] == "test" else ", which were not used in the search,"
    return f"; its accuracy on the {rows} test rows{unseen} is {percent(test['accuracy'], None)}"


# Figures: accuracy of each model with its spread, and accuracy along each grid

BAR_HEIGHT, MARGIN_HEIGHT = 0.3, 1.1  # inches
COLUMNS, PANEL = 3, (3.1, 2.1)


class ComparisonPicture(NamedTuple):
    """Figure to draw in a theme."""

    title: str
    draw: Callable[[Theme], bytes]


def pictures_of(result: Mapping[str, Any]) -> list[ComparisonPicture]:
    """Return the figures of accuracies, and of grids if there are any."""
    pictures = [ComparisonPicture("Accuracy of each model", partial(draw_accuracies, result))]
    if any(len(row["path"]) > 1 for row in result["models"]):
        pictures.append(ComparisonPicture("Accuracy along each model's grid", partial(draw_paths, result)))
    return pictures


def draw_accuracies(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Draw the mean accuracy of each entrant with one standard deviation, the best on top, and the majority class."""
    rows = [row for row in result["models"] if row["mean"] is not None][::-1]
    figure = empty_figure(7.2, MARGIN_HEIGHT + BAR_HEIGHT * len(rows), theme)
    axes = add_axes(figure, theme)
    for height, row in enumerate(rows):
        colour = theme.line if row["best"] else theme.ink
        style: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 5, "capsize": 3, "linestyle": ""}
        axes.errorbar([100 * row["mean"]], [height], xerr=[100 * (row["spread"] or 0.0)], **style)
    axes.axvline(100 * result["majority"], color=theme.other, linestyle="--", linewidth=1.2, label="majority class")
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("% right")
    axes.grid(axis="x", color=theme.faint, linewidth=0.6)
    parts = result["parts"]
    text = f"mean and standard deviation over {parts} folds" if parts > 1 else "rows held out"
    axes.set_title(f"Accuracy: {text}", loc="left", fontsize=10, color=theme.ink)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5, loc="best")
    return png(figure)


def draw_paths(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Draw accuracy against the parameter, one panel per model; hollow markers: stopped early on few rows."""
    rows = [row for row in result["models"] if len(row["path"]) > 1]
    lines = -(-len(rows) // COLUMNS)
    figure = empty_figure(PANEL[0] * min(COLUMNS, len(rows)), PANEL[1] * lines + 0.3, theme)
    for panel, row in enumerate(rows, start=1):
        axes = add_axes(figure, theme, (lines, min(COLUMNS, len(rows)), panel))
        _draw_path(axes, row, theme)
        if (panel - 1) % COLUMNS == 0:
            axes.set_ylabel("% right")
    return png(figure)


def _draw_path(axes: Any, row: Mapping[str, Any], theme: Theme) -> None:
    points = [(_abscissa(point), 100 * point["mean"], point["rows"]) for point in row["path"]]
    points.sort()
    most = max(rows for _, _, rows in points)
    axes.plot([x for x, _, _ in points], [y for _, y, _ in points], color=theme.soft, linewidth=1.2)
    for x, y, rows in points:
        face = theme.line if rows == most else theme.ground
        axes.plot([x], [y], marker="o", markersize=4, color=theme.line, markerfacecolor=face)
    if row["parameter"] != "kappa" and points[0][0] > 0.0:
        axes.set_xscale("log")
    unit = "" if row["path"][0]["value"] is not None or row["parameter"] == "C" else ", share of its range"
    axes.set_title(f"{row['model']}: {row['parameter']}{unit}", loc="left", fontsize=9, color=theme.ink)
    axes.tick_params(which="both", colors=theme.ink, labelsize=7.5)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)


def _abscissa(point: Mapping[str, Any]) -> float:
    value = point["place"] if point["value"] is None else point["value"]
    return float(value)


# Report as HTML and Markdown

APART = ("models",)


TableOfPage = tuple[str, Sequence[str], list[list[str]]]
"""Title, column names and rows of a table."""


class Page(NamedTuple):
    """Content of a report, independent of its format.

    facts : names and nested values, for a last table of the page
    """

    title: str
    sentences: Sequence[str]
    warnings: Sequence[str]
    tables: Sequence[TableOfPage]
    pictures: Sequence[ComparisonPicture]
    facts: Mapping[str, Any]


def page_of(result: Mapping[str, Any]) -> Page:
    """Return the report of a comparison of models."""
    return Page(
        title=f"{result['name']}: which model predicts {result['dataset']['target']} best",
        sentences=sentences(result),
        warnings=warning_sentences(result),
        tables=_tables(result),
        pictures=pictures_of(result),
        facts={name: value for name, value in result.items() if name not in APART},
    )


def markdown_page(page: Page) -> str:
    """Return the report as Markdown with figures as PNG data URIs, without the last table."""
    return report_page.markdown_page(page.title, _lead(page), _sections(page))


def html_page(page: Page) -> str:
    """Return a page without external references, in light or dark colours by the preference of the reader's system."""
    facts = TableBlock("All of it", (), [list(pair) for pair in flatten(page.facts)], folded=True)
    sections = [*_sections(page), Section("run", "Settings, data and the run", [facts])]
    return report_page.html_page(page.title, _lead(page), sections)


def _lead(page: Page) -> list[Block]:
    return [*map(Paragraph, page.sentences), *map(WarningBlock, page.warnings)]


def _sections(page: Page) -> list[Section]:
    """Return the sections: figures, tables, then those of the page only."""
    tables = [TableBlock(title, header, rows, wide=True) for title, header, rows in page.tables]
    sections = [
        Section(
            "pictures",
            "In pictures",
            [FigureBlock(picture.title, picture.draw, wide=True) for picture in page.pictures],
        ),
        Section("tables", "In figures", tables),
    ]
    return [section for section in sections if section.blocks]


def _tables(result: Mapping[str, Any]) -> list[TableOfPage]:
    tables: list[TableOfPage] = [("Models", HEADER, table_rows(result))]
    if rows := bias_rows(result):
        tables.append(("Each bias rule at its own best value", BIAS_HEADER, rows))
    return tables
