"""Windows of a stream in words and a picture: how the error went, and where rows were found to have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from okl.store.figures import Theme, large_numbers, legend, lines_across, one_picture, percents, png
from okl.store.wording import number

MOST_TOLD = 3  # signals in a sentence


def drift_sentence(result: Mapping[str, Any]) -> str:
    """What the windows of a run say of change; "" for a run without any."""
    drift = result.get("drift")
    if not drift or not drift["windows"]:
        return ""
    where = f"{number(drift['windows'])} windows of {number(result['windows']['rows'])} rows or more"
    signals = drift["signals"]
    chance = f"where nothing changes, at most {_share(drift['level'])} windows fires"
    if not signals:
        return f"In none of {where} were mistakes more than in those before it by more than chance ({chance})."
    told = "; ".join(_signal(one) for one in signals[:MOST_TOLD])
    more = f"; and {number(len(signals) - MOST_TOLD)} more" if len(signals) > MOST_TOLD else ""
    count = "One" if len(signals) == 1 else number(len(signals))
    whose = ", by the mistakes of models kept as they were" if drift["of_kept_models"] else ""
    return f"Rows change: {count} of {where} fired{whose} ({chance}): {told}{more}."


def drift_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """The same for a terminal: a name and a text, or nothing."""
    drift = result.get("drift")
    if not drift or not drift["windows"]:
        return []
    signals, windows = drift["signals"], f"{number(drift['windows'])} windows"
    if not signals:
        return [["Drift", f"no signal in {windows}"]]
    worst = min(signals, key=lambda one: one["p_value"])
    return [["Drift", f"{number(len(signals))} of {windows} fired; clearest: {_signal(worst)}"]]


def window_curve(result: Mapping[str, Any], error: str, baseline: str, theme: Theme, shares: bool = False) -> bytes:
    """Draw the error of each window, the baseline's, and where a window fired.

    error, baseline : what the two are called; shares : whether errors are shares of rows
    """
    points: Sequence[Sequence[float]] = result["windows"]["points"]
    rows = [first + count / 2.0 for first, count, _, _ in points]
    figure, axes = one_picture(theme)
    axes.plot(rows, [point[3] for point in points], color=theme.other, linewidth=1.2, linestyle="--", label=baseline)
    axes.plot(rows, [point[2] for point in points], color=theme.line, linewidth=1.4, label="okl")
    signals = (result.get("drift") or {}).get("signals")
    if signals:
        errors = {point[0]: point[2] for point in points}
        places = [(one["first_row"] + one["last_row"] + 1) / 2.0 for one in signals]
        heights = [errors[one["first_row"]] for one in signals]
        axes.plot(places, heights, "v", color=theme.ink, markersize=6, label="drift signal")
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), high + 0.2 * (high - low))  # room for the legend above the lines
    axes.xaxis.set_major_formatter(large_numbers)
    axes.yaxis.set_major_formatter(percents if shares else large_numbers)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("rows seen")
    axes.set_ylabel(error, parse_math=False)
    lines_across(axes, theme)
    legend(axes, theme, "upper left")
    return png(figure)


def _signal(one: Mapping[str, Any]) -> str:
    last, first = number(one["last_row"] + 1), number(one["first_row"] + 1)
    return f"rows {first} to {last}, wrong on {_percent(one['rate'])} after {_percent(one['past_rate'])}"


def _percent(rate: float) -> str:
    return f"{100.0 * rate:.1f}%"


def _share(level: float) -> str:
    return f"one in {number(round(1.0 / level))}"
