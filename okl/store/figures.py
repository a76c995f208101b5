"""What all pictures share: colours on light and on dark ground, figures and axes in them, marks, labels, PNG.

Drawn with matplotlib's objects (no pyplot, no state that lives on), twice for a page. The same figures give the same
bytes. Text from the data is drawn as it is, never read as mathematics; a character that the font lacks becomes a box.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 160
SIZE = (4.2, 2.9)
"""Inches of a picture beside another one: on a phone it is shrunk to 3.3, and its smallest text still read."""

TEXT, SMALL = 10.0, 9.0  # points
LARGE = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from where on, of what, and its letter
LONGEST_LABEL = 14
Corner = Literal["upper left", "upper right", "lower left", "lower right"]


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


def one_picture(theme: Theme, width: float = SIZE[0], height: float = SIZE[1]) -> tuple[Figure, Axes]:
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
    axes.tick_params(colors=theme.ink, labelsize=SMALL)
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set_color(theme.ink)
        text.set_fontsize(SMALL + 0.5)
    for name, spine in axes.spines.items():
        spine.set_color(theme.faint)
        spine.set_visible(name in ("left", "bottom"))
    return axes


def legend(axes: Axes, theme: Theme, place: Corner = "upper right", columns: int = 3) -> None:
    """Name the lines, in a row above what is drawn."""
    axes.legend(
        frameon=False,
        labelcolor=theme.ink,
        fontsize=SMALL,
        ncols=columns,
        handlelength=1.2,
        columnspacing=0.9,
        handletextpad=0.5,
        borderaxespad=0.2,
        loc=place,
    )


def lines_across(axes: Axes, theme: Theme, axis: Literal["x", "y", "both"] = "y") -> None:
    """Faint lines at the marks, below what is drawn."""
    axes.grid(axis=axis, color=theme.faint, linewidth=0.6)
    axes.set_axisbelow(True)


def png(figure: Figure) -> bytes:
    """The figure as PNG; the same figure gives the same bytes."""
    canvas: Any = figure.canvas
    out = io.BytesIO()
    # not savefig, which draws everything twice
    canvas.print_png(out, metadata={"Software": None})
    return out.getvalue()


def shades(theme: Theme) -> Any:
    """From the ground to the colour of lines."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", [theme.ground, theme.soft, theme.line])


def readable_on(ground: Sequence[float], theme: Theme) -> str:
    """Ink or ground of the theme, whichever stands out more from a colour (red, green, blue in [0, 1])."""
    from matplotlib.colors import to_rgb

    def brightness(colour: Sequence[float]) -> float:
        return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]

    return max(theme.ink, theme.ground, key=lambda ink: abs(brightness(to_rgb(ink)) - brightness(ground)))


def large_numbers(value: float, _position: float = 0.0) -> str:
    """Mark of an axis, for matplotlib, which gives its place as well.

    >>> large_numbers(12500), large_numbers(-2e5), large_numbers(0.25)
    ('12.5k', '-200k', '0.25')
    """
    size, letter = next(((size, letter) for least, size, letter in LARGE if abs(value) >= least), (1.0, ""))
    return f"{value / size:.4g}{letter}"


def percents(value: float, _position: float = 0.0) -> str:
    """Mark of an axis of shares.

    >>> percents(0.05), percents(0.125), percents(1.0)
    ('5%', '12.5%', '100%')
    """
    return f"{100.0 * value:.3g}%"


def label(text: object, longest: int = LONGEST_LABEL) -> str:
    """A label short enough for an axis, in characters that the font has, on one line."""
    known = "".join(c if ord(c) in _font_characters() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return known if len(known) <= longest else known[: longest - 1] + "…"


@cache
def _font_characters() -> frozenset[int]:
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(code for code in font.get_charmap() if code >= 32)
