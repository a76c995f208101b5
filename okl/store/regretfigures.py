"""The pair of pictures of a certificate of regret: what was lost in all and a row, each beside its bound, log-log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from okl.store.figures import Theme, large_numbers, legend, lines_across, one_picture, png

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
    figure, axes = one_picture(theme)
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
    _finish(axes, rows, "regret, in units of the loss", theme)
    return png(figure)


def average_regret_curve(horizons: Sequence[Mapping[str, Any]], growth: float | None, theme: Theme) -> bytes:
    """Draw regret divided by rows, and the bound likewise; parameters as of `regret_curve`."""
    rows = _column(horizons, "rows")
    figure, axes = one_picture(theme)
    slope = "" if growth is None else f", slope {growth - 1.0:.2f}"
    averages = _column(horizons, "average_regret")
    axes.plot(rows, averages, color=theme.line, linewidth=1.4, marker="o", markersize=5, label=f"a row{slope}")
    bounds = _column(horizons, "bound") / rows
    axes.plot(rows, bounds, color=theme.other, linewidth=1.4, linestyle="--", label="bound")
    _finish(axes, rows, "regret a row", theme)
    return png(figure)


def _column(horizons: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([one[name] for one in horizons], dtype=np.float64)


def _finish(axes: Axes, rows: NDArray[np.float64], named: str, theme: Theme) -> None:
    """Logarithmic axes, named, whose marks are the horizons and round numbers."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(rows, [large_numbers(float(f"{value:.3g}")) for value in rows])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(large_numbers)
    axes.minorticks_off()
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.2)  # room for the legend above the lines
    axes.set_xlabel("rows seen")
    axes.set_ylabel(named)
    lines_across(axes, theme)
    legend(axes, theme, "upper left")
