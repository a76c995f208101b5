"""Pictures of a comparison: accuracy with its spread, model by model, and accuracy along each model's grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from okl.store.figures import Theme, add_axes, empty_figure, png

BAR_HEIGHT, MARGIN_HEIGHT = 0.3, 1.1  # inches
COLUMNS, PANEL = 3, (3.1, 2.1)


class Picture(NamedTuple):
    """A picture to draw in a theme."""

    title: str
    draw: Callable[[Theme], bytes]


def pictures_of(result: Mapping[str, Any]) -> list[Picture]:
    """Accuracies, and paths where there are any."""
    found = [Picture("Accuracy of each model", partial(draw_accuracies, result))]
    if any(len(row["path"]) > 1 for row in result["models"]):
        found.append(Picture("Accuracy along each model's grid", partial(draw_paths, result)))
    return found


def draw_accuracies(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Mean accuracy of each entrant with one standard deviation over folds, the best on top; the majority class."""
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
    told = f"mean and standard deviation over {parts} folds" if parts > 1 else "rows held out"
    axes.set_title(f"Accuracy: {told}", loc="left", fontsize=10, color=theme.ink)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5, loc="best")
    return png(figure)


def draw_paths(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Accuracy against the parameter, a panel a model; hollow where a value was given up on few rows."""
    rows = [row for row in result["models"] if len(row["path"]) > 1]
    lines = -(-len(rows) // COLUMNS)
    figure = empty_figure(PANEL[0] * min(COLUMNS, len(rows)), PANEL[1] * lines + 0.3, theme)
    for place, row in enumerate(rows, start=1):
        axes = add_axes(figure, theme, (lines, min(COLUMNS, len(rows)), place))
        _draw_path(axes, row, theme)
        if (place - 1) % COLUMNS == 0:
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
