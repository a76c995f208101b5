"""Pictures of the studies: how a figure and seconds grow with a size, all axes logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from okl.reproduction.pictures import BRIGHT, COLOURS
from okl.store.figures import DARK, Theme, add_axes, empty_figure, png
from okl.store.wording import metric_name


def draw_growth(
    lines: Mapping[str, Sequence[Sequence[float]]], title: str, size: str, metric: str, theme: Theme
) -> bytes:
    """Draw a figure and seconds against a size.

    Parameters
    ----------
    lines : for each name points [size, figure, seconds], all above 0
    title : of the picture; size : what the sizes are; metric : what the figure is
    """
    figure = empty_figure(9.2, 3.6, theme)
    panels = [add_axes(figure, theme, (1, 2, place)) for place in (1, 2)]
    for column, (axes, words) in enumerate(zip(panels, (f"{title}: {metric_name(metric)}", "seconds"), strict=True)):
        axes.set_title(words, loc="left", fontsize=10, color=theme.ink)
        for (name, points), colour in zip(lines.items(), BRIGHT if theme is DARK else COLOURS, strict=False):
            values = np.array(points, dtype=np.float64)
            axes.plot(values[:, 0], values[:, column + 1], label=name, color=colour, marker="o", linewidth=1.5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(size)
        axes.tick_params(which="both", colors=theme.ink, labelsize=9)
        axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    legend = figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)
