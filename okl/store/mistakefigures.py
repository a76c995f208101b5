"""Pictures of where a model errs: which classes it confuses, how far off its numbers are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from okl.store.figures import (
    LARGE,
    SIZE,
    SMALL,
    Theme,
    label,
    large_numbers,
    legend,
    lines_across,
    one_picture,
    png,
    readable_on,
    shades,
)

WIDE_RANGE = 0.2  # of the larger end
MOST_COUNTED = 10
"""Classes up to which a confusion matrix shows counts in its cells; with more, shades alone."""
MOST_DRAWN = 30
"""Classes up to which a confusion matrix is drawn: with more, lines are thinner than can be seen on a phone."""


def confusion_matrix(confusion: Sequence[Sequence[int]], labels: Sequence[object], theme: Theme) -> bytes:
    """Draw how the rows of each true class (across a line) were predicted: shaded by share, with counts if they fit."""
    counts = np.array(confusion, dtype=np.float64)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    n_classes = len(counts)
    counted = n_classes <= MOST_COUNTED
    side = 3.4 if n_classes == 2 else SIZE[0] if counted else 5.6
    figure, axes = one_picture(theme, side, 0.95 * side)
    image = axes.imshow(share, cmap=shades(theme), vmin=0.0, vmax=1.0)
    names = [label(text) for text in labels]
    small = SMALL if counted else 8.0
    long_names = n_classes > 2 and max(map(len, names)) * n_classes > 36
    axes.set_xticks(range(n_classes), names, rotation=90 if long_names else 0, fontsize=small, parse_math=False)
    axes.set_yticks(range(n_classes), names, fontsize=small, parse_math=False)
    axes.tick_params(length=0)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if counted:
        colours = image.to_rgba(share)
        for i, j in np.ndindex(n_classes, n_classes):
            ink = readable_on(colours[i, j].tolist(), theme)
            text = _count(float(counts[i, j]))
            axes.text(j, i, text, ha="center", va="center", fontsize=SMALL if n_classes < 8 else 8.0, color=ink)
    return png(figure)


def residual_histogram(edges: Sequence[float], counts: Sequence[int], target: str, theme: Theme) -> bytes:
    """Draw rows by residual; the first and last counts, beyond the edges, are left out."""
    figure, axes = one_picture(theme)
    axes.stairs(np.array(counts[1:-1]), np.array(edges), fill=True, color=theme.line)
    axes.axvline(0.0, color=theme.other, linewidth=1.2)
    axes.set_xlabel(f"predicted - true, in units of {label(target, 24)}", parse_math=False)
    axes.set_ylabel("rows")
    axes.locator_params(axis="x", nbins=6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(large_numbers)
    lines_across(axes, theme)
    return png(figure)


def predicted_against_true(
    bounds: Sequence[float], counts: Sequence[Sequence[int]], target: str, theme: Theme
) -> bytes:
    """Draw rows by predicted (across) and true value (up), shaded by the logarithm of their count, and the mean.

    counts : rows by cell of (true, predicted); the mean of true values is drawn for each predicted one, which for a
        prediction that can be taken at its word lies on the diagonal
    """
    figure, axes = one_picture(theme, height=3.7)
    rows = np.array(counts, dtype=np.float64)
    low, high = float(bounds[0]), float(bounds[1])
    extent = (low, high, low, high)
    axes.imshow(np.log1p(rows), cmap=shades(theme), origin="lower", extent=extent, aspect="equal")
    axes.plot([low, high], [low, high], color=theme.ink, linewidth=0.9, linestyle=":", label="equal")
    middles = low + (high - low) * (np.arange(len(rows)) + 0.5) / len(rows)
    held = rows.sum(axis=0)
    shown = held >= max(5.0, 0.001 * held.sum())  # of few rows a mean says little
    means = (middles[:, None] * rows).sum(axis=0)[shown] / held[shown]
    axes.plot(middles[shown], means, color=theme.other, linewidth=1.6, label="mean true value")
    if high - low > WIDE_RANGE * max(abs(low), abs(high)):  # else rounded marks would be the same
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(large_numbers)
    axes.locator_params(nbins=5)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_xlabel(f"predicted {label(target, 24)}", parse_math=False)
    axes.set_ylabel(f"true {label(target, 24)}", parse_math=False)
    legend(axes, theme, "upper left", 1)
    return png(figure)


def _count(value: float) -> str:
    """A count in at most four characters or so: 950, 12k, 3.4M."""
    for least, size, letter in LARGE:
        if abs(value) >= least:
            scaled = value / size
            return f"{scaled:.0f}{letter}" if scaled >= 10 or scaled == int(scaled) else f"{scaled:.1f}{letter}"
    return f"{value:.0f}"
