"""The picture of how far scores can be trusted: the share of rows that are right or positive, against the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from okl.store.figures import Theme, label, large_numbers, legend, lines_across, one_picture, percents, png

SURE = 2.0  # standard errors


def reliability_curve(bins: Sequence[Mapping[str, Any]], said: str, axes_named: tuple[str, str], theme: Theme) -> bytes:
    """Draw the share of hits of each bin, with the interval it may lie in.

    Parameters
    ----------
    bins : of `okl.reliability.reliability`, at least one
    said : "probability", which is to equal the share, or "mean" of the scores or leads
    axes_named : what is across, and what is up
    """
    figure, axes = one_picture(theme)
    rows, hits, values = (np.array([one[name] for one in bins], dtype=np.float64) for name in ("rows", "hits", said))
    share = hits / rows
    low, high = wilson(hits, rows)
    bars = np.stack([np.maximum(share - low, 0.0), np.maximum(high - share, 0.0)])
    axes.errorbar(
        values, share, yerr=bars, color=theme.line, ecolor=theme.soft, elinewidth=3.0, marker="o", markersize=4.5,
        linewidth=1.2, label="seen",
    )  # fmt: skip
    if said == "probability":
        axes.plot([0.0, 1.0], [0.0, 1.0], color=theme.other, linewidth=1.3, linestyle="--", label="as said")
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(percents)
        legend(axes, theme, "upper left", 1)
    else:
        axes.xaxis.set_major_formatter(large_numbers)
        axes.locator_params(axis="x", nbins=6)
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(percents)
    axes.set_xlabel(axes_named[0])
    axes.set_ylabel(label(axes_named[1], 40), parse_math=False)
    lines_across(axes, theme)
    return png(figure)


def wilson(hits: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Ends of the interval in which a share lies at two standard errors.

    Source: Wilson, Journal of the American Statistical Association 22, 1927.
    """
    share, square = hits / rows, SURE**2
    middle = (share + square / (2.0 * rows)) / (1.0 + square / rows)
    half = SURE * np.sqrt(share * (1.0 - share) / rows + square / (4.0 * rows**2)) / (1.0 + square / rows)
    return middle - half, middle + half
