"""The pair of pictures of a certificate of regret: what was lost in all and a row, each beside its bound, log-log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from okl.store.figures import Theme, add_axes, empty_figure, large_numbers, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def regret_curve(horizons: Sequence[Mapping[str, Any]], growth: float | None, theme: Theme) -> bytes:
    """Draw regret against rows with the line of its slope, up to what it can be at most, and the bound.

    Parameters
    ----------
    horizons : of a certificate, at least two, each with a regret above 0; growth : slope of the logarithms, if known
    """
    rows = _column(horizons, "rows")
    regret = _column(horizons, "regret")
    figure = empty_figure(4.6, 3.1, theme)
    axes = add_axes(figure, theme)
    above = np.maximum(_column(horizons, "regret_at_most") - regret, 0.0)
    bars = [np.zeros(len(rows)), above]
    axes.errorbar(
        rows,
        regret,
        yerr=bars,
        fmt="o",
        markersize=5,
        color=theme.line,
        ecolor=theme.soft,
        elinewidth=3,
        label="regret",
    )
    if growth is not None:
        # the line of least squares goes through the means of the logarithms
        logs = np.log(rows)
        fitted = np.exp(np.log(regret).mean() + growth * (logs - logs.mean()))
        axes.plot(rows, fitted, color=theme.line, linewidth=1.4, label=f"slope {growth:.2f}")
    axes.plot(rows, _column(horizons, "bound"), color=theme.other, linewidth=1.4, linestyle="--", label="bound")
    _finish(axes, rows, "Regret against rows", theme)
    return png(figure)


def average_regret_curve(horizons: Sequence[Mapping[str, Any]], growth: float | None, theme: Theme) -> bytes:
    """Draw regret divided by rows, and the bound likewise; parameters as of `regret_curve`."""
    rows = _column(horizons, "rows")
    figure = empty_figure(4.6, 3.1, theme)
    axes = add_axes(figure, theme)
    slope = "" if growth is None else f", slope {growth - 1.0:.2f}"
    averages = _column(horizons, "average_regret")
    axes.plot(rows, averages, color=theme.line, linewidth=1.4, marker="o", markersize=5, label=f"regret a row{slope}")
    bounds = _column(horizons, "bound") / rows
    axes.plot(rows, bounds, color=theme.other, linewidth=1.4, linestyle="--", label="bound a row")
    _finish(axes, rows, "Average regret against rows", theme)
    return png(figure)


def _column(horizons: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([one[name] for one in horizons], dtype=np.float64)


def _finish(axes: Axes, rows: NDArray[np.float64], title: str, theme: Theme) -> None:
    """Logarithmic axes, named, whose marks are the horizons and round numbers."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(rows, [large_numbers(value) for value in rows])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(large_numbers)
    axes.minorticks_off()
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.2)  # room for the legend above the lines
    axes.set_xlabel("rows seen")
    axes.set_title(title, loc="left", fontsize=10, color=theme.ink)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5, ncols=3, handlelength=1.3, loc="upper left")
