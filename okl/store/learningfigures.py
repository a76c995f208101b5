"""Pictures of how a run learnt: the error as rows came by, the gap as it closed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from okl.store.figures import Theme, large_numbers, legend, lines_across, one_picture, percents, png


def learning_curve(
    curve: Sequence[Sequence[float]], error: str, baseline: str, theme: Theme, shares: bool = False
) -> bytes:
    """Draw the error against the rows seen.

    Parameters
    ----------
    curve : points [rows seen, error so far, error of the last window, baseline's error so far], at least one; None for
        what is not known
    error : what the errors are; baseline : name of the baseline; shares : whether errors are shares of rows
    """
    points = np.array([[np.nan if value is None else value for value in point] for point in curve], dtype=np.float64)
    figure, axes = one_picture(theme)
    seen = points[:, 0]
    marker = "o" if len(points) < 3 else ""
    axes.plot(seen, points[:, 2], color=theme.soft, linewidth=1.2, label="last window", marker=marker)
    axes.plot(seen, points[:, 1], color=theme.line, linewidth=2.0, label="so far", marker=marker)
    axes.plot(seen, points[:, 3], color=theme.other, linewidth=1.4, linestyle="--", label=f"{baseline} so far")
    axes.set_ylim(0.0, _highest(points[:, 1:]))
    axes.set_xlim(0.0, float(seen.max()))
    axes.xaxis.set_major_formatter(large_numbers)
    axes.yaxis.set_major_formatter(percents if shares else large_numbers)
    axes.locator_params(axis="x", nbins=6)
    if shares:  # no more than all of them are wrong, though the legend takes room above
        top = min(1.0, axes.get_ylim()[1])
        axes.set_yticks([mark for mark in axes.get_yticks() if 0.0 <= mark <= top])
    axes.set_xlabel("rows seen")
    axes.set_ylabel(error, parse_math=False)
    lines_across(axes, theme)
    legend(axes, theme)
    return png(figure)


def convergence_curve(points: Sequence[Sequence[float]], asked: float | None, theme: Theme) -> bytes:
    """Draw the relative duality gap against the iterations, on a logarithmic scale.

    Parameters
    ----------
    points : [iterations, relative gap, ...] each; a gap that is not above 0 is left out
    asked : the relative gap to stop at, if there is one
    """
    figure, axes = one_picture(theme)
    done, gaps = np.array([[point[0], point[1]] for point in points], dtype=np.float64).T
    shown = gaps > 0.0
    marker = "o" if np.count_nonzero(shown) < 3 else ""
    axes.plot(done[shown], gaps[shown], color=theme.line, linewidth=2.0, marker=marker, label="proved gap")
    if asked and math.isfinite(asked):
        axes.axhline(asked, color=theme.other, linewidth=1.4, linestyle="--", label="asked for")
        legend(axes, theme)
    axes.set_yscale("log")
    axes.set_xlim(0.0, max(1.0, float(done.max())))
    axes.xaxis.set_major_formatter(large_numbers)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("iterations")
    axes.set_ylabel("gap, share of the objective")
    lines_across(axes, theme)
    return png(figure)


def _highest(errors: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Top of the axis: the first rows' errors may be large and say little, the later half of the curve must fit."""
    later = errors[len(errors) // 2 :]
    finite = later[np.isfinite(later)]
    top = float(finite.max()) if len(finite) else 0.0
    # room for the legend above the lines
    return 1.3 * top if top > 0 else 1.0
