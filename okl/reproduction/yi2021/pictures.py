"""Figures 1 to 4: cumulative loss and violation by round, bands of two standard errors about the means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from okl.reproduction.pictures import BRIGHT, COLOURS
from okl.store.figures import DARK, Theme, add_axes, empty_figure, png

TITLES = ("cumulative loss", "cumulative violation, logarithmic")


def draw_evolutions(lines: Mapping[str, Sequence[Sequence[float]]], title: str, theme: Theme) -> bytes:
    """Draw both figures beside each other.

    Parameters
    ----------
    lines : for each algorithm points [round, mean loss, its standard error, mean violation, its standard error]
    title : of the picture
    """
    figure = empty_figure(11.5, 4.2, theme)
    panels = [add_axes(figure, theme, (1, 2, place)) for place in (1, 2)]
    for (name, points), colour in zip(lines.items(), BRIGHT if theme is DARK else COLOURS, strict=False):
        values = np.array(points, dtype=np.float64)
        for axes, column in zip(panels, (1, 3), strict=True):
            mean, error = values[:, column], 2.0 * values[:, column + 1]
            axes.plot(values[:, 0], mean, label=name, color=colour, linewidth=1.5)
            axes.fill_between(values[:, 0], mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    panels[1].set_yscale("symlog", linthresh=0.01)
    for axes, words in zip(panels, TITLES, strict=True):
        axes.set_title(f"{title}: {words}", loc="left", fontsize=10, color=theme.ink)
        axes.set_xlabel("round")
        axes.tick_params(which="both", colors=theme.ink, labelsize=9)
        axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    legend = figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)
