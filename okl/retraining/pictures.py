"""Pictures of a retraining: how champions did on each shard before it was learnt, and both models on reserved rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from okl.retraining.pairs import SHARD
from okl.store.figures import SIZE, Theme, legend, lines_across, one_picture, png
from okl.store.pageparts import Picture
from okl.store.wording import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED = 8  # names of shards along an axis
BAR_HEIGHT, MARGIN_HEIGHT = 0.34, 1.2  # inches


def errors_picture(result: Mapping[str, Any]) -> list[Picture]:
    """How champions did on each shard before it was learnt, where there are two or more."""
    points = points_of(result)
    if len(points) < 2:
        return []
    told = f"{points[-1]['shard']}: {number(points[-1]['error'])}, a constant {number(points[-1]['constant'])}."
    draw = partial(draw_errors, result)
    return [Picture("Error on new shards before they were learnt", draw, f"{told} Upright lines: a new version.")]


def verdicts_picture(result: Mapping[str, Any]) -> list[Picture]:
    """Both models on the reserved rows of each shard that was judged on, if any was."""
    if not shards_judged(result):
        return []
    known = "the challenger has not learnt; the champion came from a run, and may have" if result.get("apart") else ""
    told = f"The error on reserved rows of each shard, which {known or 'neither has learnt'}: further left is better."
    return [Picture("Champion and challenger on reserved rows", partial(draw_verdicts, result), told)]


def points_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A point a shard in the order of learning: shard, version, error, constant, fired, rejected."""
    drift = result["drift"]["shards"]
    now = [
        {"shard": one["shard"], "version": result["parent"], "error": one["error"], "constant": one["constant"],
         "fired": bool(drift.get(one["shard"], {}).get("fired")), "rejected": one["shard"] not in drift}
        for one in result["progressive"]
    ]  # fmt: skip
    return [*({**one, "rejected": False} for one in result["history"]), *now]


def shards_judged(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Verdicts by shard, as its name alone."""
    slices = (result["decision"] or {}).get("slices") or {}
    return {name.removeprefix(SHARD): one for name, one in slices.items() if name.startswith(SHARD)}


def draw_errors(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Errors of the champions of their days, the constant's, signals, rejected shards, and where versions change."""
    points = points_of(result)
    kept = [(place, one) for place, one in enumerate(points) if not one["rejected"]]
    figure, axes = one_picture(theme, height=3.2)
    places = [place for place, _ in kept]
    constant = [one["constant"] for _, one in kept]
    axes.plot(places, constant, color=theme.other, linewidth=1.2, linestyle="--", label="constant")
    errors = [one["error"] for _, one in kept]
    axes.plot(places, errors, color=theme.line, linewidth=1.6, marker="o", markersize=3.5, label="champion")
    fired = [(place, one["error"]) for place, one in kept if one["fired"]]
    rejected = [(place, one["error"]) for place, one in enumerate(points) if one["rejected"]]
    for marks, marker, label in ((fired, "v", "drift signal"), (rejected, "X", "rejected")):
        if marks:
            style: dict[str, Any] = {"linestyle": "", "color": theme.ink, "markersize": 7}
            axes.plot([x for x, _ in marks], [y for _, y in marks], marker=marker, label=label, **style)
    for place in range(1, len(points)):
        if points[place]["version"] != points[place - 1]["version"]:
            axes.axvline(place - 0.5, color=theme.faint, linewidth=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), high + 0.34 * (high - low))  # room for the legend above the lines
    _name_shards(axes, [one["shard"] for one in points])
    axes.set_ylabel("error")
    lines_across(axes, theme)
    legend(axes, theme, "upper left", 2)
    return png(figure)


def draw_verdicts(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Both models' errors on the reserved rows of each shard that was judged on, the newest on top."""
    judged = shards_judged(result)
    names = [name for name in result["judged_on"] if name in judged]
    figure, axes = one_picture(theme, SIZE[0], MARGIN_HEIGHT + BAR_HEIGHT * len(names))
    for height, name in enumerate(names):
        one = judged[name]
        axes.plot([one["champion"], one["challenger"]], [height, height], color=theme.faint, linewidth=2.0)
    for key, marker, colour in (("champion", "s", theme.other), ("challenger", "o", theme.line)):
        errors = [judged[name][key] for name in names]
        axes.plot(errors, range(len(names)), marker=marker, linestyle="", color=colour, markersize=6, label=key)
    axes.set_yticks(range(len(names)), [_short(name) for name in names], parse_math=False)
    axes.set_ylim(-0.6, len(names) + 0.3)
    axes.set_xlabel("error on reserved rows")
    lines_across(axes, theme, "x")
    legend(axes, theme, "upper right", 2)
    return png(figure)


def _name_shards(axes: Axes, names: Sequence[str]) -> None:
    step = -(-len(names) // MOST_NAMED)
    places = range(0, len(names), step)
    axes.set_xticks(places, [_short(names[place]) for place in places], rotation=30, ha="right", parse_math=False)
    axes.set_xlim(-0.5, len(names) - 0.5)


def _short(name: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in name.rpartition("/")[2])
    return plain if len(plain) <= 20 else f"{plain[:9]}...{plain[-8:]}"
