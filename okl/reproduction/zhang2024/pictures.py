"""Pictures of the figures: how far above the exact optimum each method is, by iterations, rows drawn and seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from okl.reproduction.pictures import BRIGHT, COLOURS
from okl.store.figures import DARK, Theme, add_axes, empty_figure, png

COLUMNS = ("iterations", "rows drawn", "seconds")
OPTIMUM = "optimum"
_LEAST = 1e-8


def draw_race(lines: Mapping[str, Sequence[Sequence[float]]], title: str, theme: Theme) -> bytes:
    """Draw the excess over the optimum against each of COLUMNS, logarithmic.

    Parameters
    ----------
    lines : for each method points [iteration, rows drawn, seconds, objective]; OPTIMUM has one, of the exact solution
    title : of the picture
    """
    figure = empty_figure(11.5, 3.8, theme)
    panels = [add_axes(figure, theme, (1, 3, place)) for place in (1, 2, 3)]
    optimum = lines[OPTIMUM][0][3]
    shown = [(name, np.array(points, dtype=np.float64)) for name, points in lines.items() if name != OPTIMUM]
    for column, (axes, words) in enumerate(zip(panels, COLUMNS, strict=True)):
        for (name, points), colour in zip(shown, BRIGHT if theme is DARK else COLOURS, strict=False):
            if column == 0 and (np.diff(points[:, 0]) > 1).any():
                continue  # kept at ever larger distances, of steps on single rows: they would hide the others
            excess = np.maximum(points[:, 3] - optimum, _LEAST)
            axes.plot(points[:, column], excess, label=name, color=colour, linewidth=1.5)
        axes.set_yscale("log")
        if column > 0:
            axes.set_xscale("log")
        axes.set_xlabel(words)
        axes.tick_params(which="both", colors=theme.ink, labelsize=9)
        axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    panels[0].set_title(f"{title}: above the optimum {optimum:.5g}", loc="left", fontsize=10, color=theme.ink)
    legend = figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)
