"""Figures of a report, drawn with matplotlib as SVG that follows a light or dark colour scheme."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.foundation.telemetry import LEARN, MAP, NETWORK, OTHER, PHASES, READ, WAIT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours, axes, tick labels and SVG output
#
# Figures use matplotlib's objects without pyplot, so no global state. The same data give the same bytes. Text from the
# data is never parsed as mathematics; characters that the font lacks become boxes.

SIZE = (4.2, 2.9)
"""Inches of a figure in a column; on a phone it shrinks to 3.3 inches, with its smallest text still readable."""

TEXT, SMALL = 10.0, 9.0  # points
LARGE = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from where on, of what, and its letter
LONGEST_LABEL = 14
Corner = Literal["upper left", "upper right", "lower left", "lower right"]


class Colours(NamedTuple):
    """Colours of a figure in one colour scheme."""

    ground: str
    ink: str
    faint: str
    line: str
    soft: str
    other: str
    network: str = "#9a7fc4"
    rest: str = "#87919e"


LIGHT = Colours("#ffffff", ink="#1c2430", faint="#d8dee6", line="#1f6fb2", soft="#9cc3e4", other="#b4572a")
DARK = Colours("#171c24", ink="#e3e8ef", faint="#39424f", line="#6cb2ee", soft="#35618a", other="#e99a6c")
ON_LINE = "#fdfdfd"  # text on an area in the colour of lines, in both schemes


def figure_with_axes(width: float = SIZE[0], height: float = SIZE[1]) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes in the colours of `LIGHT`; width and height in inches."""
    figure = empty_figure(width, height)
    return figure, add_axes(figure)


def empty_figure(width: float, height: float) -> Figure:
    """Return a figure without axes; width and height in inches."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor=LIGHT.ground)
    FigureCanvasSVG(figure)
    return figure


def add_axes(figure: Figure, position: tuple[int, int, int] = (1, 1, 1)) -> Axes:
    """Add axes; position : rows, columns and index of the subplot, as in matplotlib."""
    axes: Axes = figure.add_subplot(*position)
    axes.set_facecolor(LIGHT.ground)
    axes.tick_params(which="both", colors=LIGHT.ink, labelsize=SMALL)
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set(color=LIGHT.ink, fontsize=SMALL + 0.5)
    for name, spine in axes.spines.items():
        spine.set_color(LIGHT.faint)
        spine.set_visible(name in ("left", "bottom"))
    return axes


def legend(axes: Axes, corner: Corner = "upper right", columns: int = 3) -> None:
    """Draw the legend in a row above the lines."""
    axes.legend(
        frameon=False, labelcolor=LIGHT.ink, fontsize=SMALL, ncols=columns, handlelength=1.2, columnspacing=0.9,
        handletextpad=0.5, borderaxespad=0.2, loc=corner,
    )  # fmt: skip


def lines_across(axes: Axes, axis: Literal["x", "y", "both"] = "y") -> None:
    """Draw faint grid lines at the ticks, behind the data."""
    axes.grid(axis=axis, color=LIGHT.faint, linewidth=0.6)
    axes.set_axisbelow(True)


def finish(
    axes: Axes, x: str, y: str, shares: bool = False, corner: Corner | None = "upper right", columns: int = 3
) -> str:
    """Format the ticks of linear axes, draw labels, grid lines and the legend, and return the figure as SVG.

    shares : whether y is a share of rows; corner, columns : of the legend; None: no legend
    """
    axes.xaxis.set_major_formatter(large_numbers)
    axes.yaxis.set_major_formatter(percents if shares else large_numbers)
    axes.locator_params(axis="x", nbins=6)
    return labelled(axes, x, y, corner, columns)


def labelled(
    axes: Axes, x: str, y: str, corner: Corner | None, columns: int = 3,
    across: Literal["x", "y"] | None = "y",
) -> str:  # fmt: skip
    """Draw labels, grid lines at the ticks of an axis, and the legend in a corner; return the figure as SVG."""
    axes.set_xlabel(x, parse_math=False)
    axes.set_ylabel(y, parse_math=False)
    if across:
        lines_across(axes, across)
    if corner:
        legend(axes, corner, columns)
    return svg(axes.figure)


def svg(figure: Any) -> str:
    """Return the figure as SVG, the same text every time; colours of `LIGHT` become `DARK` on dark systems."""
    from matplotlib import rc_context

    out = io.BytesIO()
    with rc_context({"svg.hashsalt": "okl", "svg.fonttype": "none"}):
        # not savefig, which draws everything twice
        figure.canvas.print_svg(out, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = out.getvalue().decode("utf-8")
    return text.replace("</defs>", f"{_dark_style(text)}</defs>", 1)


def _dark_style(text: str) -> str:
    """Return rules of the dark scheme for an SVG; !important, because matplotlib writes colours into each element."""
    schemes = dict([*zip(LIGHT, DARK, strict=True), *zip(COLOURS, BRIGHT, strict=True)])
    rules = (
        f'[style*="{use}: {light}"]{{{use}:{dark} !important}}'
        for light, dark in schemes.items()
        for use in ("fill", "stroke")
        if light != dark and f"{use}: {light}" in text
    )
    return f"<style>@media screen and (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"


def shades() -> Any:
    """Return the colour map from transparent to the colour of lines, which serves any background."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    return LinearSegmentedColormap.from_list("shades", [to_rgba(LIGHT.line, 0.0), to_rgba(LIGHT.line, 1.0)])


def large_numbers(value: float, _position: float = 0.0) -> str:
    """Return the tick label of a number; matplotlib also passes its position.

    >>> large_numbers(12500), large_numbers(-2e5), large_numbers(0.25)
    ('12.5k', '-200k', '0.25')
    """
    size, letter = next(((size, letter) for least, size, letter in LARGE if abs(value) >= least), (1.0, ""))
    return f"{value / size:.4g}{letter}"


def percents(value: float, _position: float = 0.0) -> str:
    """Return the tick label of a share.

    >>> percents(0.05), percents(0.125), percents(1.0)
    ('5%', '12.5%', '100%')
    """
    return f"{100.0 * value:.3g}%"


def label(text: object, longest: int = LONGEST_LABEL) -> str:
    """Return a label shortened for an axis, in characters of the font, on one line."""
    printable = "".join(c if ord(c) in _font_characters() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return printable if len(printable) <= longest else printable[: longest - 1] + "…"


@cache
def _font_characters() -> frozenset[int]:
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(code for code in font.get_charmap() if code >= 32)


# Training: learning curve, error by window, violation of constraints, convergence

Points = Sequence[Sequence[float]]


def learning_curve(curve: Points, error: str, baseline: str, shares: bool = False) -> str:
    """Draw the error against the rows seen; error, baseline : their names; shares : whether they are shares of rows.

    curve : points [rows seen, error so far, of the last window, baseline's error so far], some None
    """
    points = np.array([[np.nan if value is None else value for value in point] for point in curve], dtype=np.float64)
    _, axes = figure_with_axes()
    seen = points[:, 0]
    _window_and_total(axes, seen, points[:, 2], points[:, 1])
    axes.plot(seen, points[:, 3], color=LIGHT.other, linewidth=1.4, linestyle="--", label=f"{baseline} so far")
    axes.set_ylim(0.0, _highest(points[:, 1:]))
    if shares:  # no mark above 100%, though the legend takes room above
        top = min(1.0, axes.get_ylim()[1])
        axes.set_yticks([mark for mark in axes.get_yticks() if 0.0 <= mark <= top])
    return finish(axes, "rows seen", error, shares=shares)


def violation_curve(points: Points) -> str:
    """Draw the average violation against rows seen; points : [rows seen, average so far, since the last point]."""
    _, axes = figure_with_axes()
    seen, so_far, recent = zip(*points, strict=True)
    _window_and_total(axes, seen, recent, so_far)
    axes.set_ylim(0.0, 1.25 * max(*so_far, *recent, 1e-12))  # room for the legend above the lines
    return finish(axes, "rows seen", "violation per row")


def _window_and_total(axes: Axes, seen: Any, window: Any, total: Any) -> None:
    """Draw the values of the last window and of all rows so far, with markers if there are few points."""
    marker = "o" if len(seen) < 3 else ""
    axes.plot(seen, window, color=LIGHT.soft, linewidth=1.2, label="last window", marker=marker)
    axes.plot(seen, total, color=LIGHT.line, linewidth=2.0, label="so far", marker=marker)
    axes.set_xlim(0.0, float(max(seen)))


def window_curve(
    points: Points, signals: Sequence[Mapping[str, Any]], error: str, baseline: str, shares: bool = False
) -> str:
    """Draw the error and the baseline's error of each window, with markers for drift signals.

    points : each [first row, rows, error, baseline's error]; signals : of drift, each with first_row and last_row
    """
    rows = [first + count / 2.0 for first, count, _, _ in points]
    _, axes = figure_with_axes()
    axes.plot(rows, [point[3] for point in points], color=LIGHT.other, linewidth=1.2, linestyle="--", label=baseline)
    axes.plot(rows, [point[2] for point in points], color=LIGHT.line, linewidth=1.4, label="okl")
    if signals:
        errors = {point[0]: point[2] for point in points}
        centres = [(signal["first_row"] + signal["last_row"] + 1) / 2.0 for signal in signals]
        heights = [errors[signal["first_row"]] for signal in signals]
        axes.plot(centres, heights, "v", color=LIGHT.ink, markersize=6, label="drift signal")
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), high + 0.2 * (high - low))  # room for the legend above the lines
    return finish(axes, "rows seen", error, shares=shares, corner="upper left")


def convergence_curve(points: Points, tolerance: float | None) -> str:
    """Draw the gaps of points [iterations, gap, ...] on a logarithmic scale, with the tolerance, if any."""
    _, axes = figure_with_axes()
    done, gaps = np.array([[point[0], point[1]] for point in points], dtype=np.float64).T
    shown = gaps > 0.0
    marker = "o" if np.count_nonzero(shown) < 3 else ""
    axes.plot(done[shown], gaps[shown], color=LIGHT.line, linewidth=2.0, marker=marker, label="proven gap")
    corner: Corner | None = None
    if tolerance and math.isfinite(tolerance):
        corner = "upper right"
        axes.axhline(tolerance, color=LIGHT.other, linewidth=1.4, linestyle="--", label="tolerance")
    axes.set_yscale("log")  # before any limit or locator: these would fix a view that holds 0
    axes.set_xlim(0.0, max(1.0, float(done.max())))
    axes.xaxis.set_major_formatter(large_numbers)
    axes.locator_params(axis="x", nbins=6)
    return labelled(axes, "iterations", "gap, share of the objective", corner)


def _highest(errors: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the top of the axis: the second half of the curve must fit, large errors of the first rows need not."""
    later = errors[len(errors) // 2 :]
    finite = later[np.isfinite(later)]
    top = float(finite.max()) if len(finite) else 0.0
    # room for the legend above the lines
    return 1.3 * top if top > 0 else 1.0


# Rows ranked by score: ROC curve, precision and recall


def roc_curve(false_rates: Sequence[float], hit_rates: Sequence[float], used: Sequence[float]) -> str:
    """Draw the ROC curve, chance, and the point of the threshold in use, (false positive rate, true positive rate)."""
    _, axes = figure_with_axes()
    axes.plot([0.0, 1.0], [0.0, 1.0], color=LIGHT.other, linewidth=1.2, linestyle="--", label="chance")
    axes.plot([0.0, *false_rates], [0.0, *hit_rates], color=LIGHT.line, linewidth=2.0, label="okl")
    axes.plot(*used, "o", color=LIGHT.ink, markersize=6, label="threshold in use")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.02)
    return _of_shares(axes, "false positive rate", "recall", "lower right")


def precision_recall_curve(
    recalls: Sequence[float], precisions: Sequence[float], used: Sequence[float], base: float
) -> str:
    """Draw precision against recall, the share of positive rows, and the point of the threshold in use, if any."""
    _, axes = figure_with_axes()
    axes.axhline(base, color=LIGHT.other, linewidth=1.2, linestyle="--", label="chance")
    axes.plot(recalls, precisions, color=LIGHT.line, linewidth=2.0, label="okl")
    if len(used):
        axes.plot(*used, "o", color=LIGHT.ink, markersize=6, label="threshold in use")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.25)  # room for the legend above the lines
    return _of_shares(axes, "recall", "precision", "upper right")


def _of_shares(axes: Axes, x: str, y: str, corner: Corner) -> str:
    """Finish a figure whose axes are both shares."""
    axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(percents)
    return labelled(axes, x, y, corner, 1 if corner == "lower right" else 3)


# Errors: confusion matrix, residuals, predicted against true

WIDE_RANGE = 0.2  # of the larger end
MOST_COUNTED = 10
"""Maximum number of classes of a confusion matrix with counts in its cells."""
MOST_DRAWN = 30
"""Maximum number of classes of a drawn confusion matrix; with more, cells are too small on a phone."""


def confusion_matrix(confusion: Sequence[Sequence[int]], labels: Sequence[object]) -> str:
    """Draw a confusion matrix: each row is a true class, shaded by the share of its rows, with counts if they fit."""
    counts = np.array(confusion, dtype=np.float64)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    n_classes = len(counts)
    counted = n_classes <= MOST_COUNTED
    side = 3.4 if n_classes == 2 else SIZE[0] if counted else 5.6
    _, axes = figure_with_axes(side, 0.95 * side)
    axes.imshow(share, cmap=shades(), vmin=0.0, vmax=1.0)
    names = [label(text) for text in labels]
    small = SMALL if counted else 8.0
    long_names = n_classes > 2 and max(map(len, names)) * n_classes > 36
    axes.set_xticks(range(n_classes), names, rotation=90 if long_names else 0, fontsize=small, parse_math=False)
    axes.set_yticks(range(n_classes), names, fontsize=small, parse_math=False)
    axes.tick_params(length=0)
    if counted:
        for i, j in np.ndindex(n_classes, n_classes):
            ink = ON_LINE if share[i, j] > 0.5 else LIGHT.ink
            text = _count(float(counts[i, j]))
            axes.text(j, i, text, ha="center", va="center", fontsize=SMALL if n_classes < 8 else 8.0, color=ink)
    return labelled(axes, "predicted class", "true class", None, across=None)


def residual_histogram(edges: Sequence[float], counts: Sequence[int], target: str) -> str:
    """Draw the histogram of residuals, without the first and last counts, which are beyond the edges."""
    _, axes = figure_with_axes()
    axes.stairs(np.array(counts[1:-1]), np.array(edges), fill=True, color=LIGHT.line)
    axes.axvline(0.0, color=LIGHT.other, linewidth=1.2)
    return finish(axes, f"predicted - true, in units of {label(target, 24)}", "rows", corner=None)


def predicted_against_true(bounds: Sequence[float], counts: Sequence[Sequence[int]], target: str) -> str:
    """Draw rows by predicted (x) and true value (y), shaded by the logarithm of their count, with the mean.

    counts : rows by cell of (true, predicted); the mean of the true values is drawn for each predicted one: it lies on
        the diagonal for unbiased predictions
    """
    _, axes = figure_with_axes(height=3.7)
    rows = np.array(counts, dtype=np.float64)
    low, high = float(bounds[0]), float(bounds[1])
    extent = (low, high, low, high)
    axes.imshow(np.log1p(rows), cmap=shades(), origin="lower", extent=extent, aspect="equal")
    axes.plot([low, high], [low, high], color=LIGHT.ink, linewidth=0.9, linestyle=":", label="equal")
    middles = low + (high - low) * (np.arange(len(rows)) + 0.5) / len(rows)
    rows_per_bin = rows.sum(axis=0)
    shown = rows_per_bin >= max(5.0, 0.001 * rows_per_bin.sum())  # of few rows a mean says little
    means = (middles[:, None] * rows).sum(axis=0)[shown] / rows_per_bin[shown]
    axes.plot(middles[shown], means, color=LIGHT.other, linewidth=1.6, label="mean true value")
    if high - low > WIDE_RANGE * max(abs(low), abs(high)):  # else rounded marks would be the same
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(large_numbers)
    axes.locator_params(nbins=5)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    name = label(target, 24)
    return labelled(axes, f"predicted {name}", f"true {name}", "upper left", 1, across=None)


def _count(value: float) -> str:
    """Return a count in about four characters: 950, 12k, 3.4M."""
    for least, size, letter in LARGE:
        if abs(value) >= least:
            scaled = value / size
            return f"{scaled:.0f}{letter}" if scaled >= 10 or scaled == int(scaled) else f"{scaled:.1f}{letter}"
    return f"{value:.0f}"


# Regret: total and per row, with bounds, on logarithmic axes


def regret_curve(horizons: Sequence[Mapping[str, Any]], growth: float | None, per_row: bool = False) -> str:
    """Draw regret, or regret per row, at two or more horizons, with its bound; growth : fitted slope, or None."""
    from matplotlib.ticker import LogLocator

    rows, regret, most, bound = (
        np.array([horizon[name] for horizon in horizons], dtype=np.float64)
        for name in ("rows", "regret", "regret_at_most", "bound")
    )
    _, axes = figure_with_axes()
    if per_row:
        slope = "" if growth is None else f", slope {growth - 1.0:.2f}"
        axes.plot(
            rows, regret / rows, color=LIGHT.line, linewidth=1.4, marker="o", markersize=5, label=f"per row{slope}"
        )
        bound = bound / rows
    else:
        axes.errorbar(
            rows, regret, yerr=[np.zeros(len(rows)), np.maximum(most - regret, 0.0)], fmt="o", markersize=5,
            color=LIGHT.line, ecolor=LIGHT.soft, elinewidth=3, label="regret",
        )  # fmt: skip
        if growth is not None:
            # the line of least squares goes through the means of the logarithms
            logs = np.log(rows)
            fitted = np.exp(np.log(regret).mean() + growth * (logs - logs.mean()))
            axes.plot(rows, fitted, color=LIGHT.line, linewidth=1.4, label=f"slope {growth:.2f}")
    axes.plot(rows, bound, color=LIGHT.other, linewidth=1.4, linestyle="--", label="bound")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(rows, [large_numbers(float(f"{value:.3g}")) for value in rows])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(large_numbers)
    axes.minorticks_off()
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.2)  # room for the legend above the lines
    y = "regret per row" if per_row else "regret, in units of the loss"
    return labelled(axes, "rows seen", y, "upper left")


# Timeline: for each lane, the stacked shares of its phases in each bucket

LANE_HEIGHT, REST_HEIGHT = 0.5, 1.15  # inches
NAMED_SHARE = 0.17  # of the picture's width, from which the name of a stage is drawn above it


PHASE_COLOURS = {
    LEARN: LIGHT.line, MAP: LIGHT.soft, READ: LIGHT.other, NETWORK: LIGHT.network, WAIT: LIGHT.faint, OTHER: LIGHT.rest,
}  # fmt: skip


def timeline_picture(timeline: Mapping[str, Any]) -> str:
    """Draw a timeline, as `okl.report.timeline.describe_timeline` returns it."""
    lanes, width = timeline["lanes"], float(timeline["bucket_seconds"])
    figure = empty_figure(SIZE[0], REST_HEIGHT + LANE_HEIGHT * len(lanes))
    ended = max(float(stage[2]) for stage in timeline["stages"])
    drawn: dict[str, Any] = {}
    for number, lane in enumerate(lanes, 1):
        axes = add_axes(figure, (len(lanes), 1, number))
        present = {phase: np.array(lane[phase], dtype=np.float64) for phase in PHASES if phase in lane}
        floor = np.zeros(max(map(len, present.values()), default=0))
        ends = np.minimum(width * np.arange(len(floor) + 1), ended)  # the last bucket ends with the run
        for phase, seconds in present.items():
            top = floor + seconds / np.maximum(np.diff(ends), 1e-9)
            # areas, not bars: a hundred times fewer things to draw
            area = axes.fill_between(
                ends, np.append(floor, 0.0), np.append(top, 0.0), step="post", color=PHASE_COLOURS[phase], linewidth=0
            )
            drawn[phase], floor = area, top
        axes.set(xlim=(0.0, max(ended, width)), ylim=(0.0, 1.0), yticks=[])
        axes.spines["left"].set_visible(False)
        axes.set_ylabel(lane["name"], rotation=0, ha="right", va="center", parse_math=False)
        for name, started, stopped in timeline["stages"]:  # with a name above the first lane, where there is room
            axes.axvline(started, color=LIGHT.ink, linewidth=0.7)
            if number == 1 and stopped - started > NAMED_SHARE * ended:
                axes.text(started, 1.06, f" {name}", fontsize=9, color=LIGHT.ink, va="bottom")
        if number < len(lanes):
            axes.set_xticks([])
    axes.set_xlabel("seconds since the run began")
    shown = [phase for phase in PHASES if phase in drawn]
    figure.legend(
        [drawn[phase] for phase in shown], shown, loc="outside upper right", ncols=len(shown), frameon=False,
        labelcolor=LIGHT.ink, fontsize=9, handlelength=1.0, columnspacing=0.7,
        handletextpad=0.4,
    )  # fmt: skip
    return svg(figure)


# Reliability: the share of correct or positive rows against the score

SURE = 2.0  # standard errors


def reliability_curve(bins: Sequence[Mapping[str, Any]], value_name: str, axes_named: tuple[str, str]) -> str:
    """Draw the share of hits of each bin, with its confidence interval.

    bins : of `okl.metrics.calibration.reliability`, at least one
    value_name : "probability", which is to equal the share, or "mean" of the scores or leads
    axes_named : labels of x and y
    """
    _, axes = figure_with_axes()
    rows, hits, values = (
        np.array([entry[name] for entry in bins], dtype=np.float64) for name in ("rows", "hits", value_name)
    )
    share = hits / rows
    low, high = wilson(hits, rows)
    bars = np.stack([np.maximum(share - low, 0.0), np.maximum(high - share, 0.0)])
    axes.errorbar(
        values, share, yerr=bars, color=LIGHT.line, ecolor=LIGHT.soft, elinewidth=3.0, marker="o", markersize=4.5,
        linewidth=1.2, label="observed",
    )  # fmt: skip
    probabilities = value_name == "probability"
    if probabilities:
        style: dict[str, Any] = {"color": LIGHT.other, "linewidth": 1.3, "linestyle": "--"}
        axes.plot([0.0, 1.0], [0.0, 1.0], label="perfectly calibrated", **style)
        axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    x, y = axes_named[0], label(axes_named[1], 40)
    return finish(axes, x, y, shares=True, corner="upper left" if probabilities else None, columns=1)


def wilson(hits: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the interval of a share at two standard errors. Source: Wilson, JASA 22, 1927."""
    share, square = hits / rows, SURE**2
    middle = (share + square / (2.0 * rows)) / (1.0 + square / rows)
    half = SURE * np.sqrt(share * (1.0 - share) / rows + square / (4.0 * rows**2)) / (1.0 + square / rows)
    return middle - half, middle + half


# Comparison: score of each model, and along each grid

BAR_HEIGHT, MARGIN_HEIGHT = 0.3, 0.7  # inches
COLUMNS, PANEL_HEIGHT = 2, 1.75


def compared_scores(result: Mapping[str, Any], drawn: Mapping[str, Any]) -> str:
    """Draw the mean score of each model with one standard deviation, the best on top, and that of a constant.

    drawn : name of the score, score of the constant, and whether the value is 1 less the score, and a percentage
    """
    rows = [row for row in result["models"] if row["mean"] is not None][::-1]
    _, axes = figure_with_axes(height=MARGIN_HEIGHT + BAR_HEIGHT * len(rows))
    for height, row in enumerate(rows):
        axes.errorbar(
            [_value(row["mean"], drawn)], [height], xerr=[row["spread"] or 0.0], marker="o", markersize=5,
            capsize=3, linestyle="", color=LIGHT.line if row["best"] else LIGHT.ink,
        )  # fmt: skip
    axes.axvline(_value(drawn["constant"], drawn), color=LIGHT.other, linestyle="--", linewidth=1.2)
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.xaxis.set_major_formatter(percents if drawn["percent"] else large_numbers)
    axes.locator_params(axis="x", nbins=6)
    return labelled(axes, drawn["name"], "", None, across="x")


def _value(score: float, drawn: Mapping[str, Any]) -> float:
    return 1.0 - score if drawn["error"] else score


def score_paths(rows: Sequence[Mapping[str, Any]], drawn: Mapping[str, Any]) -> str:
    """Draw score against parameter, a panel a model; hollow : stopped early; drawn : as in `compared_scores`."""
    columns = min(COLUMNS, len(rows))
    lines = -(-len(rows) // COLUMNS)
    figure = empty_figure(SIZE[0], PANEL_HEIGHT * lines + (columns == 1))
    for panel, row in enumerate(rows):
        axes = add_axes(figure, (lines, columns, panel + 1))
        places = [float(point["place"] if point["value"] is None else point["value"]) for point in row["path"]]
        scores = [_value(point["mean"], drawn) for point in row["path"]]
        points = sorted(zip(places, scores, (point["rows"] for point in row["path"]), strict=True))
        most = max(rows for _, _, rows in points)
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], color=LIGHT.soft, linewidth=1.2)
        for x, y, rows_used in points:
            face = LIGHT.line if rows_used == most else LIGHT.ground
            axes.plot([x], [y], marker="o", markersize=4, color=LIGHT.line, markerfacecolor=face)
        if row["parameter"] != "kappa" and points[0][0] > 0.0:
            axes.set_xscale("log", subs=())
            axes.locator_params(axis="x", numticks=4)
        unit = "" if row["path"][0]["value"] is not None or row["parameter"] == "C" else ", share of its range"
        axes.set_title(row["model"], loc="left", fontsize=SMALL, color=LIGHT.ink)
        axes.set_xlabel(f"{row['parameter']}{unit}", fontsize=8.5)
        axes.yaxis.set_major_formatter(percents if drawn["percent"] else large_numbers)
        axes.locator_params(axis="y", nbins=5)
        axes.tick_params(which="both", labelsize=8)
        lines_across(axes)
    return svg(figure)


# Retraining: errors by shard, of champions before training and of both models on reserved rows

MOST_SHARDS_NAMED = 8


def champion_errors(points: Sequence[Mapping[str, Any]]) -> str:
    """Draw the errors of the champions and of a constant predictor, signals, rejected shards and new versions.

    points : a shard each, in the order of training: shard, version, error, constant, fired, rejected
    """
    _, axes = figure_with_axes(height=3.2)
    accepted = [(index, point) for index, point in enumerate(points) if not point["rejected"]]
    places = [index for index, _ in accepted]
    constant, errors = ([point[name] for _, point in accepted] for name in ("constant", "error"))
    axes.plot(places, constant, color=LIGHT.other, linewidth=1.2, linestyle="--", label="constant")
    axes.plot(places, errors, color=LIGHT.line, linewidth=1.6, marker="o", markersize=3.5, label="champion")
    fired = [(index, point["error"]) for index, point in accepted if point["fired"]]
    rejected = [(index, point["error"]) for index, point in enumerate(points) if point["rejected"]]
    for marks, marker, name in ((fired, "v", "drift signal"), (rejected, "X", "rejected")):
        if marks:
            axes.plot(*zip(*marks, strict=True), marker=marker, label=name, linestyle="", color=LIGHT.ink, markersize=7)
    for index in range(1, len(points)):
        if points[index]["version"] != points[index - 1]["version"]:
            axes.axvline(index - 0.5, color=LIGHT.faint, linewidth=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), high + 0.34 * (high - low))  # room for the legend above the lines
    ticks = range(0, len(points), -(-len(points) // MOST_SHARDS_NAMED))
    names = [_shard_label(points[index]["shard"]) for index in ticks]
    axes.set_xticks(ticks, names, rotation=30, ha="right", parse_math=False)
    axes.set_xlim(-0.5, len(points) - 0.5)
    return labelled(axes, "", "error", "upper left", 2)


def reserved_errors(tests: Mapping[str, Mapping[str, float]]) -> str:
    """Draw the errors of champion and challenger on the reserved rows of each shard, by name, the last on top."""
    _, axes = figure_with_axes(SIZE[0], 1.2 + 0.34 * len(tests))
    for height, test in enumerate(tests.values()):
        axes.plot([test["champion"], test["challenger"]], [height, height], color=LIGHT.faint, linewidth=2.0)
    for name, marker, colour in (("champion", "s", LIGHT.other), ("challenger", "o", LIGHT.line)):
        errors = [test[name] for test in tests.values()]
        axes.plot(errors, range(len(tests)), marker=marker, linestyle="", color=colour, markersize=6, label=name)
    axes.set_yticks(range(len(tests)), [_shard_label(name) for name in tests], parse_math=False)
    axes.set_ylim(-0.6, len(tests) + 0.3)
    return labelled(axes, "error on reserved rows", "", "upper right", 2, across="x")


def _shard_label(name: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in name.rpartition("/")[2])
    return plain if len(plain) <= 20 else f"{plain[:9]}...{plain[-8:]}"


# Papers: lines of several algorithms side by side

COLOURS = ("#1f6fb2", "#b4572a", "#2e8b57", "#8e5ea2", "#c2a100", "#c0392b", "#17a2b8", "#7f8c8d", "#e377c2", "#5b6b1f")
BRIGHT = ("#6cb2ee", "#e99a6c", "#6fcf97", "#c39bd3", "#f2d24b", "#f1948a", "#76d7ea", "#bdc3c7", "#f5b7d8", "#b5c76b")
BASELINES = {"linear": "--", "constant": ":"}  # predictors without a kernel, and their line styles
FEW_POINTS = 12  # drawn with markers


class Panel(NamedTuple):
    """Axes of a figure: for each name points (n, 2), or (n, 3) with the half-width of a band about them."""

    title: str
    x: str
    lines: Mapping[str, NDArray[np.float64]]
    x_scale: str = "linear"
    y_scale: str = "linear"
    limits: tuple[float, float] | None = None


def side_by_side(panels: Sequence[Panel]) -> str:
    """Draw panels side by side with one legend."""
    figure = empty_figure(9.2 if len(panels) == 2 else 11.5, 3.8)
    names = list(dict.fromkeys(name for panel in sorted(panels, key=lambda p: -len(p.lines)) for name in panel.lines))
    colours = cycle(COLOURS)
    colour = {name: LIGHT.ink if name in BASELINES else next(colours) for name in names}
    drawn: dict[str, Any] = {}
    for place, panel in enumerate(panels, start=1):
        axes = add_axes(figure, (1, len(panels), place))
        for name, points in panel.lines.items():
            style = BASELINES.get(name, "-")
            marker = "o" if len(points) < FEW_POINTS else ""
            x, y = points[:, 0], points[:, 1]
            (line,) = axes.plot(x, y, label=name, color=colour[name], linestyle=style, marker=marker, linewidth=1.5)
            drawn.setdefault(name, line)
            if points.shape[1] > 2:
                axes.fill_between(x, y - points[:, 2], y + points[:, 2], color=colour[name], alpha=0.2, linewidth=0)
        axes.set_title(panel.title, loc="left", fontsize=10, color=LIGHT.ink)
        axes.set_xlabel(panel.x)
        axes.set_xscale(panel.x_scale)
        axes.set_yscale(panel.y_scale, **({"linthresh": 0.01} if panel.y_scale == "symlog" else {}))
        axes.grid(axis="y", color=LIGHT.faint, linewidth=0.6)
        if panel.limits is not None:
            axes.set_ylim(*panel.limits)
    figure.legend(
        [drawn[name] for name in names], names, loc="outside lower center", ncols=6, frameon=False, fontsize=8.5,
        labelcolor=LIGHT.ink,
    )  # fmt: skip
    return svg(figure)
