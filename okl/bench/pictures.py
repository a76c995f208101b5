"""Pictures of a benchmark: accuracy against seconds on each set, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from okl.bench.roster import OWN, systems
from okl.bench.rows import Measurement
from okl.bench.verdicts import NEAR_LOSS, NEAR_POINTS, Verdict
from okl.store.figures import DARK, SMALL, Theme, legend, lines_across, one_picture, png

COLOURS = ("#b4572a", "#2e8b57", "#8e5ea2", "#a08600", "#c0392b", "#0f8a9d", "#5b6b1f")
BRIGHT = ("#e99a6c", "#6fcf97", "#c39bd3", "#f2d24b", "#f1948a", "#76d7ea", "#b5c76b")
MARKS = ("s", "^", "v", "D", "P", "X", "*")
LOWEST = 0.08  # points of accuracy below the best that are still drawn
HIGHEST_LOSS = 4.0  # times the least loss that are still drawn
MEBIBYTE = 2.0**20


def looks(theme: Theme) -> dict[str, tuple[str, str]]:
    """Colour and mark of each system."""
    others = [name for name in systems() if name != OWN]
    colours = BRIGHT if theme is DARK else COLOURS
    return {OWN: (theme.line, "o")} | {
        name: (colours[index % len(colours)], MARKS[index % len(MARKS)]) for index, name in enumerate(others)
    }


def accuracy_against_seconds(found: Sequence[Measurement], theme: Theme) -> bytes:
    """Draw all configurations of a sweep on one set: percent right, or the loss, against seconds of the processor.

    What is far worse than the best is left out; the band is what counts as near the best.
    """
    figure, axes = one_picture(theme)
    regression = found[0].subject.task == "regression"
    least = min(one.answer.loss or 0.0 for one in found)
    most = HIGHEST_LOSS * least if regression else least + LOWEST
    bound = NEAR_LOSS * least if regression else least + NEAR_POINTS
    shown = [one for one in found if (one.answer.loss or 0.0) <= most]
    for name, (colour, mark) in looks(theme).items():
        own = [one for one in shown if one.subject.system == name]
        if own:
            heights = [_height(one.answer.loss or 0.0, regression) for one in own]
            style: dict[str, Any] = {"s": 42 if name == OWN else 26, "marker": mark, "alpha": 0.85, "linewidths": 0}
            axes.scatter(
                [one.cost for one in own], heights, color=colour, label=name, zorder=3 if name == OWN else 2, **style
            )
    axes.axhspan(_height(least, regression), _height(bound, regression), color=theme.soft, alpha=0.35, linewidth=0)
    axes.set_xscale("log")
    axes.set_xlabel("seconds of the processor for a fit")
    axes.tick_params(which="both", colors=theme.ink)
    lines_across(axes, theme, "both")
    if regression:
        axes.invert_yaxis()  # better is higher in every picture
    legend(axes, theme, "lower right", columns=2)
    return png(figure)


def memory(verdicts: Sequence[Verdict], theme: Theme) -> bytes:
    """Draw the peak of memory of both sides of each duel, of whole processes, libraries and rows included."""
    duelled = [one for one in verdicts if one.own and one.peer]
    figure, axes = one_picture(theme, 9.2, 3.4)
    places = range(len(duelled))
    own = [one.own.peak_memory_bytes / MEBIBYTE for one in duelled if one.own]
    peer = [one.peer.peak_memory_bytes / MEBIBYTE for one in duelled if one.peer]
    axes.bar([place - 0.2 for place in places], own, 0.38, color=theme.line, label="okl")
    axes.bar([place + 0.2 for place in places], peer, 0.38, color=theme.other, label="fastest other")
    axes.set_xticks(list(places), [one.set for one in duelled], rotation=35, ha="right", fontsize=SMALL)
    axes.tick_params(which="both", colors=theme.ink)
    lines_across(axes, theme)
    legend(axes, theme, columns=2)
    return png(figure)


def _height(loss: float, regression: bool) -> float:
    return loss if regression else 100.0 * (1.0 - loss)
