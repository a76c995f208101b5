"""Pictures of a path of bounds: accuracy against the bound, and what scores and decisions come to under it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from okl.comparison.pictures import Picture
from okl.store.figures import Theme, add_axes, empty_figure, png


def pictures_of(result: Mapping[str, Any]) -> list[Picture]:
    """Both pictures."""
    return [
        Picture("Accuracy against the bound", partial(draw_price, result)),
        Picture("What is kept, and what it does to decisions", partial(draw_kept, result)),
    ]


def draw_price(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Accuracy on held-out rows against the bound, with one standard deviation; without the bound as a line."""
    figure = empty_figure(7.2, 3.4, theme)
    axes = add_axes(figure, theme)
    bounds, rows, free = _bounds(result)
    _accuracies(axes, bounds, rows, {"color": theme.line, "marker": "o", "capsize": 3, "label": "FOGD"})
    axes.axhline(100 * free["mean"], color=theme.line, linestyle=":", linewidth=1.2, label="FOGD without the bound")
    if free["best"] is not None:
        style = {"color": theme.other, "marker": "s", "capsize": 3, "linestyle": "--", "label": "best under the bound"}
        _accuracies(axes, bounds, [row["best"] for row in rows], style)
    parts = result["parts"]
    told = f"mean and standard deviation over {parts} folds" if parts > 1 else "rows held out"
    axes.set_title(f"Accuracy: {told}", loc="left", fontsize=10, color=theme.ink)
    axes.set_ylabel("% right")
    return _finished(figure, axes, bounds, theme)


def draw_kept(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Sizes of the constrained value on rows learnt and held out, and of the difference of decisions."""
    figure = empty_figure(7.2, 3.4, theme)
    axes = add_axes(figure, theme)
    bounds, rows, _ = _bounds(result)
    axes.plot(bounds, bounds, color=theme.faint, linewidth=1.6, label="the bound")
    _sizes(axes, bounds, [row["train"]["value"] for row in rows], theme.line, "o", "scores, training rows")
    _sizes(axes, bounds, [row["test"]["value"] for row in rows], theme.soft, "D", "scores, held-out rows")
    _sizes(axes, bounds, [row["test"]["decisions"] for row in rows], theme.other, "s", "decisions, held-out rows")
    axes.set_yscale("log")
    axes.set_title("Scores are bounded, decisions are not", loc="left", fontsize=10, color=theme.ink)
    return _finished(figure, axes, bounds, theme)


def _bounds(result: Mapping[str, Any]) -> tuple[list[float], list[Mapping[str, Any]], Mapping[str, Any]]:
    rows = [row for row in result["path"] if row["bound"] is not None]
    return [row["bound"] for row in rows], rows, next(row for row in result["path"] if row["bound"] is None)


def _accuracies(axes: Any, bounds: list[float], rows: list[Any], style: dict[str, Any]) -> None:
    spreads = [100 * (row["spread"] or 0.0) for row in rows]
    axes.errorbar(bounds, [100 * row["mean"] for row in rows], yerr=spreads, markersize=4, **style)


def _sizes(axes: Any, bounds: list[float], values: list[float | None], colour: str, marker: str, label: str) -> None:
    # a size of 0 has no place on a logarithmic scale
    known = [(bound, value) for bound, value in zip(bounds, values, strict=True) if value]
    if known:
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2, "label": label}
        axes.plot(*zip(*known, strict=True), **style)


def _finished(figure: Any, axes: Any, bounds: list[float], theme: Theme) -> bytes:
    axes.set_xscale("log")
    axes.set_xticks(bounds, [f"{bound:g}" for bound in bounds])
    axes.minorticks_off()
    axes.set_xlabel("bound")
    axes.tick_params(which="both", colors=theme.ink, labelsize=8)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5, loc="best")
    return png(figure)
