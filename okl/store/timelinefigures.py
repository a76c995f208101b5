"""The picture of a timeline: for each lane, the shares of its phases in each bucket, one above the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from okl.store.figures import SIZE, Theme, add_axes, empty_figure, png
from okl.timeline import LEARN, MAP, NETWORK, OTHER, PHASES, READ, WAIT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LANE_HEIGHT, REST_HEIGHT = 0.5, 1.15  # inches
NAMED_SHARE = 0.17  # of the picture's width, which a stage must take for its name to stand above it


def colours(theme: Theme) -> dict[str, str]:
    """A colour for each phase."""
    return {
        LEARN: theme.line, MAP: theme.soft, READ: theme.other, NETWORK: "#9a7fc4", WAIT: theme.faint, OTHER: "#87919e",
    }  # fmt: skip


def timeline_picture(timeline: Mapping[str, Any], theme: Theme) -> bytes:
    """Draw a timeline.

    Parameters
    ----------
    timeline : bucket_seconds, stages and lanes, as `okl.store.timelines.describe_timeline` returns them
    """
    lanes, width = timeline["lanes"], float(timeline["bucket_seconds"])
    figure = empty_figure(SIZE[0], REST_HEIGHT + LANE_HEIGHT * len(lanes), theme)
    ended = max(float(stage[2]) for stage in timeline["stages"])
    drawn: dict[str, Any] = {}
    for number, lane in enumerate(lanes, 1):
        axes = add_axes(figure, theme, (len(lanes), 1, number))
        present = {phase: np.array(lane[phase], dtype=np.float64) for phase in PHASES if phase in lane}
        floor = np.zeros(max(map(len, present.values()), default=0))
        ends = np.minimum(width * np.arange(len(floor) + 1), ended)  # the last bucket ends with the run
        for phase, seconds in present.items():
            top = floor + seconds / np.maximum(np.diff(ends), 1e-9)
            # areas, not bars: a hundred times fewer things to draw
            area = axes.fill_between(
                ends, np.append(floor, 0.0), np.append(top, 0.0), step="post", color=colours(theme)[phase], linewidth=0
            )
            drawn[phase], floor = area, top
        axes.set(xlim=(0.0, max(ended, width)), ylim=(0.0, 1.0), yticks=[])
        axes.spines["left"].set_visible(False)
        axes.set_ylabel(lane["name"], rotation=0, ha="right", va="center", parse_math=False)
        _mark_stages(axes, timeline["stages"], ended if number == 1 else 0.0, theme)
        if number < len(lanes):
            axes.set_xticks([])
    axes.set_xlabel("seconds since the run began")
    shown = [phase for phase in PHASES if phase in drawn]
    figure.legend(
        [drawn[phase] for phase in shown], shown, loc="outside upper right", ncols=len(shown), frameon=False,
        labelcolor=theme.ink, fontsize=9, handlelength=1.0, columnspacing=0.7,
        handletextpad=0.4,
    )  # fmt: skip
    return png(figure)


def _mark_stages(axes: Axes, stages: Sequence[Sequence[Any]], ended: float, theme: Theme) -> None:
    """A line where each stage begins, and its name above it if it takes a share of the seconds in all; 0: no names."""
    for name, begun, stopped in stages:
        axes.axvline(begun, color=theme.ink, linewidth=0.7)
        if ended and stopped - begun > NAMED_SHARE * ended:
            axes.text(begun, 1.06, f" {name}", fontsize=9, color=theme.ink, va="bottom")
