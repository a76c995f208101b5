"""Pictures of a run as PNG: the learning curve, the confusion matrix, residuals, predicted against true.

Drawn with matplotlib's objects (no pyplot, no state that lives on), twice for a page: on light and on dark ground. The
same figures give the same bytes. Text from the data is drawn as it is, never read as mathematics; a character that the
font lacks becomes a box.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 160
LARGE = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from where on, of what, and its letter
WIDE_RANGE = 0.2  # of the larger end
LONGEST_LABEL = 14
MOST_COUNTED = 12
"""Classes up to which a confusion matrix shows counts in its cells; with more, percents, on a wide picture."""


@dataclass(frozen=True)
class Theme:
    """Colours of a picture."""

    ground: str
    ink: str
    faint: str
    line: str
    soft: str
    other: str


LIGHT = Theme(ground="#ffffff", ink="#1c2430", faint="#d8dee6", line="#1f6fb2", soft="#9cc3e4", other="#b4572a")
DARK = Theme(ground="#171c24", ink="#e3e8ef", faint="#39424f", line="#6cb2ee", soft="#35618a", other="#e99a6c")


def learning_curve(curve: Sequence[Sequence[float]], error: str, baseline: str, theme: Theme) -> bytes:
    """Draw the error against the rows seen.

    Parameters
    ----------
    curve : points [rows seen, error so far, error of the last window, baseline's error so far], at least one; None for
        what is not known
    error : what the errors are: a title in words
    baseline : name of the baseline
    """
    points = np.array([[np.nan if value is None else value for value in point] for point in curve], dtype=np.float64)
    figure, axes = _figure(4.6, 3.1, theme)
    seen = points[:, 0]
    marker = "o" if len(points) < 3 else ""
    axes.plot(seen, points[:, 2], color=theme.soft, linewidth=1.2, label="last window", marker=marker)
    axes.plot(seen, points[:, 1], color=theme.line, linewidth=2.0, label="so far", marker=marker)
    axes.plot(seen, points[:, 3], color=theme.other, linewidth=1.4, linestyle="--", label=f"{baseline} so far")
    axes.set_ylim(0.0, _highest(points[:, 1:]))
    axes.set_xlim(0.0, float(seen.max()))
    axes.xaxis.set_major_formatter(large_numbers)
    axes.set_xlabel("rows seen")
    _title(axes, error)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    axes.legend(
        frameon=False,
        labelcolor=theme.ink,
        fontsize=8.5,
        ncols=3,
        handlelength=1.3,
        columnspacing=1.0,
        loc="upper right",
    )
    return png(figure)


def convergence_curve(points: Sequence[Sequence[float]], theme: Theme) -> bytes:
    """Draw the relative duality gap against the iterations, on a logarithmic scale.

    Parameters
    ----------
    points : [iterations, relative gap, ...] each; a gap that is not above 0 is left out
    """
    figure, axes = _figure(4.6, 3.1, theme)
    done, gaps = np.array([[point[0], point[1]] for point in points], dtype=np.float64).T
    shown = gaps > 0.0
    marker = "o" if np.count_nonzero(shown) < 3 else ""
    axes.plot(done[shown], gaps[shown], color=theme.line, linewidth=2.0, marker=marker)
    axes.set_yscale("log")
    axes.set_xlim(0.0, max(1.0, float(done.max())))
    axes.xaxis.set_major_formatter(large_numbers)
    axes.set_xlabel("iterations")
    _title(axes, "Relative duality gap")
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    return png(figure)


def confusion_matrix(confusion: Sequence[Sequence[int]], labels: Sequence[object], theme: Theme) -> bytes:
    """Draw how the rows of each true class (across a line) were predicted: shaded by share, with counts or percents."""
    counts = np.array(confusion, dtype=np.float64)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    n_classes = len(counts)
    side = 1.3 + 0.5 * n_classes if n_classes <= MOST_COUNTED else 1.0 + 0.27 * n_classes
    side = min(max(3.6, side), 16.0)
    figure, axes = _figure(side, side * 0.92, theme)
    colours = axes.imshow(share, cmap=_shades(theme), vmin=0.0, vmax=1.0).to_rgba(share)
    small = 9 if n_classes <= MOST_COUNTED else 8
    names = [_label(label) for label in labels]
    long_names = n_classes > 3 and max(len(name) for name in names) > 4
    axes.set_xticks(range(n_classes), names, rotation=90 if long_names else 0, fontsize=small, parse_math=False)
    axes.set_yticks(range(n_classes), names, fontsize=small, parse_math=False)
    axes.tick_params(length=0)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    _title(axes, "Rows (shade: share of the class)" if n_classes <= MOST_COUNTED else "Percent of each true class")
    for i, j in np.ndindex(n_classes, n_classes):
        text = _count(float(counts[i, j])) if n_classes <= MOST_COUNTED else _percent(float(share[i, j]))
        ink = _readable(colours[i, j].tolist(), theme)
        axes.text(j, i, text, ha="center", va="center", fontsize=small - 0.5, color=ink)
    return png(figure)


def residual_histogram(edges: Sequence[float], counts: Sequence[int], target: str, theme: Theme) -> bytes:
    """Draw rows by residual; the first and last counts, beyond the edges, are told in the title."""
    figure, axes = _figure(4.6, 3.1, theme)
    axes.stairs(np.array(counts[1:-1]), np.array(edges), fill=True, color=theme.line)
    axes.axvline(0.0, color=theme.other, linewidth=1.2)
    beyond = int(counts[0] + counts[-1])
    _title(axes, f"Rows by residual ({beyond:,} beyond the edges)" if beyond else "Rows by residual")
    axes.set_xlabel(f"predicted - true, in units of {_label(target, 24)}", parse_math=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(large_numbers)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    return png(figure)


def predicted_against_true(
    bounds: Sequence[float], counts: Sequence[Sequence[int]], target: str, theme: Theme
) -> bytes:
    """Draw rows by true value (across) and predicted value (up), shaded by the logarithm of their count."""
    figure, axes = _figure(4.4, 4.1, theme)
    shade = np.log1p(np.array(counts, dtype=np.float64).T)
    low, high = float(bounds[0]), float(bounds[1])
    axes.imshow(shade, cmap=_shades(theme), origin="lower", extent=(low, high, low, high), aspect="equal")
    axes.plot([low, high], [low, high], color=theme.other, linewidth=1.0)
    if high - low > WIDE_RANGE * max(abs(low), abs(high)):  # else rounded marks would be the same
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(large_numbers)
    axes.set_xlabel(f"true {_label(target, 24)}", parse_math=False)
    axes.set_ylabel(f"predicted {_label(target, 24)}", parse_math=False)
    _title(axes, "Rows by true and predicted value")
    return png(figure)


def _figure(width: float, height: float, theme: Theme) -> tuple[Figure, Axes]:
    """A figure of one set of axes, width and height in inches, in the theme's colours."""
    figure = empty_figure(width, height, theme)
    return figure, add_axes(figure, theme)


def empty_figure(width: float, height: float, theme: Theme) -> Figure:
    """A figure without axes, width and height in inches, on the theme's ground."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained", facecolor=theme.ground)
    FigureCanvasAgg(figure)
    return figure


def add_axes(figure: Figure, theme: Theme, place: tuple[int, int, int] = (1, 1, 1)) -> Axes:
    """Add axes in the theme's colours; place : rows, columns and number of the place, as matplotlib counts."""
    axes: Axes = figure.add_subplot(*place)
    axes.set_facecolor(theme.ground)
    axes.tick_params(colors=theme.ink, labelsize=9)
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set_color(theme.ink)
        text.set_fontsize(9)
    for name, spine in axes.spines.items():
        spine.set_color(theme.faint)
        spine.set_visible(name in ("left", "bottom"))
    return axes


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10, color=axes.xaxis.label.get_color())


def png(figure: Figure) -> bytes:
    """The figure as PNG; the same figure gives the same bytes."""
    out = io.BytesIO()
    figure.savefig(out, format="png", facecolor=figure.get_facecolor(), metadata={"Software": None})
    return out.getvalue()


def _shades(theme: Theme) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", [theme.ground, theme.soft, theme.line])


def _readable(ground: Sequence[float], theme: Theme) -> str:
    """Ink or ground of the theme, whichever stands out more from a colour (red, green, blue in [0, 1])."""
    from matplotlib.colors import to_rgb

    def brightness(colour: Sequence[float]) -> float:
        return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]

    return max(theme.ink, theme.ground, key=lambda ink: abs(brightness(to_rgb(ink)) - brightness(ground)))


def _highest(errors: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Top of the axis: the first rows' errors may be large and say little, the later half of the curve must fit."""
    later = errors[len(errors) // 2 :]
    finite = later[np.isfinite(later)]
    top = float(finite.max()) if len(finite) else 0.0
    # room for the legend above the lines
    return 1.45 * top if top > 0 else 1.0


def large_numbers(value: float, _position: float = 0.0) -> str:
    """Mark of an axis, for matplotlib, which gives its place as well.

    >>> large_numbers(12500), large_numbers(-2e5), large_numbers(0.25)
    ('12.5k', '-200k', '0.25')
    """
    size, letter = next(((size, letter) for least, size, letter in LARGE if abs(value) >= least), (1.0, ""))
    return f"{value / size:.4g}{letter}"


def _count(value: float) -> str:
    """A count in at most four characters or so: 950, 12k, 3.4M."""
    for least, size, letter in LARGE:
        if abs(value) >= least:
            scaled = value / size
            return f"{scaled:.0f}{letter}" if scaled >= 10 or scaled == int(scaled) else f"{scaled:.1f}{letter}"
    return f"{value:.0f}"


def _percent(share: float) -> str:
    """A share in percent, in at most three characters; nothing for less than half a percent."""
    return f"{100 * share:.0f}" if share >= 0.005 else ""


def _label(label: object, longest: int = LONGEST_LABEL) -> str:
    """A label short enough for an axis, in characters that the font has, on one line."""
    text = "".join(c if ord(c) in _font_characters() else "\N{REPLACEMENT CHARACTER}" for c in str(label))
    return text if len(text) <= longest else text[: longest - 1] + "…"


@cache
def _font_characters() -> frozenset[int]:
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(code for code in font.get_charmap() if code >= 32)
