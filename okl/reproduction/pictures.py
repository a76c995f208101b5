"""Pictures of a reproduction: lines of several algorithms or data sets, error on the left and time on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from okl.store.figures import DARK, Theme, add_axes, empty_figure, png
from okl.store.wording import metric_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lines = Mapping[str, Sequence[Sequence[float]]]
COLOURS = ("#1f6fb2", "#b4572a", "#2e8b57", "#8e5ea2", "#c2a100", "#c0392b", "#17a2b8", "#7f8c8d", "#e377c2", "#5b6b1f")
BRIGHT = ("#6cb2ee", "#e99a6c", "#6fcf97", "#c39bd3", "#f2d24b", "#f1948a", "#76d7ea", "#bdc3c7", "#f5b7d8", "#b5c76b")
FEW_POINTS = 12
CONSTANT = "constant"
APART = {"linear": "--", CONSTANT: ":"}


def draw_lines(lines: Lines, title: str, x: str, metric: str, theme: Theme) -> bytes:
    """Draw error and seconds against x.

    Parameters
    ----------
    lines : for each name points [x, error, seconds] and, where there is one, the constant predictor's error
    title : of the picture; x : what x is; metric : what the error is
    """
    figure = empty_figure(9.2, 3.6, theme)
    left, right = (add_axes(figure, theme, (1, 2, place)) for place in (1, 2))
    left.set_title(f"{title}: {metric_name(metric).lower()}", loc="left", fontsize=10, color=theme.ink)
    right.set_title("seconds of learning", loc="left", fontsize=10, color=theme.ink)
    colours = cycle(BRIGHT if theme is DARK else COLOURS)
    constant: np.ndarray[Any, np.dtype[np.float64]] | None = None
    shown = []
    for name, values in lines.items():
        points = np.array(values, dtype=np.float64)
        dash = APART.get(name, "-")
        colour = theme.ink if name in APART else next(colours)
        style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.5}
        style["marker"] = "o" if len(points) < FEW_POINTS else ""
        left.plot(points[:, 0], points[:, 1], label=name, **style)
        if name not in APART:
            right.plot(points[:, 0], np.maximum(points[:, 2], 1e-6), **style)
        if points.shape[1] > 3:
            constant = points
        shown.append(points[:, 1])
    if constant is not None:
        left.plot(constant[:, 0], constant[:, 3], label=CONSTANT, color=theme.ink, linestyle=":", linewidth=1.2)
        shown.append(constant[:, 3])
    _frame(left, x, theme, _range(shown))
    right.set_yscale("log")
    _frame(right, x, theme, None)
    legend = figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)


def _frame(axes: Axes, x: str, theme: Theme, limits: tuple[float, float] | None) -> None:
    axes.set_xlabel(x)
    axes.tick_params(which="both", colors=theme.ink, labelsize=9)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    if limits is not None:
        axes.set_ylim(*limits)


def _range(errors: Sequence[np.ndarray[Any, np.dtype[np.float64]]]) -> tuple[float, float] | None:
    """Limits that show the later part of every line: the first rows' errors are large and say little."""
    later = np.concatenate([error[len(error) // 8 :] for error in errors])
    low, high = float(later.min()), float(later.max())
    room = 0.06 * (high - low) or 0.05 * max(high, 1e-6)
    return max(0.0, low - room), high + room
