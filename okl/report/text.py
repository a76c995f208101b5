"""Text of reports on memory, drift, time, regret and constraints: sentences, tables, and lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from okl.report.figures import Theme, figure_with_axes, large_numbers, legend, lines_across, percents, png
from okl.report.format import number
from okl.report.tables import Table

# Memory

MIB = 2**20


def memory_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the line on planned memory for a terminal; empty without a plan.

    >>> plan = {"worker_bytes": 600 * MIB, "held_bytes": 256 * MIB, "read_again_share": 0.25}
    >>> memory_facts({"memory_plan": plan | {"worker_limit_bytes": 1024 * MIB}, "workers": 2})
    [['Memory', 'planned: at most 600 of 1,024 MiB per worker; 25% of its rows are read again in each round']]
    >>> memory_facts({"memory_plan": plan | {"worker_limit_bytes": None, "read_again_share": 0.0}})
    [['Memory', 'planned: at most 600 MiB']]
    """
    plan: Mapping[str, Any] = result.get("memory_plan") or {}
    if not plan:
        return []
    limit = plan.get("worker_limit_bytes")
    of_limit = f" of {limit / MIB:,.0f}" if limit else ""
    per_worker = " per worker" if result.get("workers") else ""
    text = f"planned: at most {plan['worker_bytes'] / MIB:,.0f}{of_limit} MiB{per_worker}"
    again = plan.get("read_again_share") or 0.0
    if again > 0.0:
        text += f"; {100 * again:.0f}% of {'its' if per_worker else 'the'} rows are read again in each round"
    return [["Memory", text]]


def memory_sentence(result: Mapping[str, Any]) -> str | None:
    """Return sentences on planned and used memory for the report; None without a plan.

    A worker's plan covers passes over rows during training; the driver, which adds up and solves, has a separate plan.
    The peak covers the whole process and may exceed both.

    >>> plan = {"worker_bytes": 650 * MIB, "driver_bytes": 1200 * MIB, "process_bytes": 360 * MIB}
    >>> print(memory_sentence({"memory_plan": plan, "peak_memory_bytes": 855 * MIB}))
    Memory planned: at most 650 MiB for passes over rows. For sums and the solution, at most 1,200 MiB (each includes \
360 MiB for Python and its libraries). Peak memory of this process: 855 MiB, including ingestion and evaluation.
    """
    facts = memory_facts(result)
    if not facts:
        return None
    plan, peak = result["memory_plan"], result.get("peak_memory_bytes")
    text = f"Memory {facts[0][1]}"
    if driver := plan.get("driver_bytes"):
        text += (
            f" for passes over rows. For sums and the solution, at most {driver / MIB:,.0f} MiB (each includes "
            f"{plan['process_bytes'] / MIB:,.0f} MiB for Python and its libraries)"
        )
    if peak:
        text += f". Peak memory of this process: {peak / MIB:,.0f} MiB, including ingestion and evaluation"
    return f"{text}."


# Drift

MAX_SIGNALS = 3  # maximum number of signals in a sentence


def drift_sentence(result: Mapping[str, Any]) -> str:
    """Return the sentence on drift in the windows of a run; "" without windows."""
    drift = result.get("drift")
    if not drift or not drift["windows"]:
        return ""
    windows = f"{number(drift['windows'])} windows of {number(result['windows']['rows'])} rows or more"
    signals = drift["signals"]
    chance = f"without drift, at most {_share(drift['level'])} windows signals by chance"
    if not signals:
        return f"No drift: in none of {windows} did the error rise by more than chance ({chance})."
    listed = "; ".join(_signal(signal) for signal in signals[:MAX_SIGNALS])
    more = f"; and {number(len(signals) - MAX_SIGNALS)} more" if len(signals) > MAX_SIGNALS else ""
    models = ", measured with frozen models" if drift["of_kept_models"] else ""
    return f"Drift: {number(len(signals))} of {windows} signal a higher error{models} ({chance}): {listed}{more}."


def drift_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the line on drift for a terminal; empty without windows."""
    drift = result.get("drift")
    if not drift or not drift["windows"]:
        return []
    signals, windows = drift["signals"], f"{number(drift['windows'])} windows"
    if not signals:
        return [["Drift", f"no signal in {windows}"]]
    clearest = min(signals, key=lambda signal: signal["p_value"])
    return [["Drift", f"{number(len(signals))} of {windows} signal a higher error; clearest: {_signal(clearest)}"]]


def window_curve(result: Mapping[str, Any], error: str, baseline: str, theme: Theme, shares: bool = False) -> bytes:
    """Draw the error and the baseline's error of each window, with markers for drift signals.

    Parameters
    ----------
    result : result with windows
    error, baseline : names of the error and of the baseline
    theme : colours
    shares : whether errors are shares of rows
    """
    points: Sequence[Sequence[float]] = result["windows"]["points"]
    rows = [first + count / 2.0 for first, count, _, _ in points]
    figure, axes = figure_with_axes(theme)
    axes.plot(rows, [point[3] for point in points], color=theme.other, linewidth=1.2, linestyle="--", label=baseline)
    axes.plot(rows, [point[2] for point in points], color=theme.line, linewidth=1.4, label="okl")
    signals = (result.get("drift") or {}).get("signals")
    if signals:
        errors = {point[0]: point[2] for point in points}
        centres = [(signal["first_row"] + signal["last_row"] + 1) / 2.0 for signal in signals]
        heights = [errors[signal["first_row"]] for signal in signals]
        axes.plot(centres, heights, "v", color=theme.ink, markersize=6, label="drift signal")
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


def _signal(signal: Mapping[str, Any]) -> str:
    last, first = number(signal["last_row"] + 1), number(signal["first_row"] + 1)
    return f"rows {first} to {last}, error {_percent(signal['rate'])}, before {_percent(signal['past_rate'])}"


def _percent(rate: float) -> str:
    return f"{100.0 * rate:.1f}%"


def _share(level: float) -> str:
    return f"one in {number(round(1.0 / level))}"


# Time

LEAST_SHARE = 0.005


def timeline_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the line on shares of training time by phase for a terminal; empty without a timeline.

    >>> shares = {"driver": {"wait": 1.0}, "workers": {"read": 0.196, "learn": 0.8, "wait": 0.004}}
    >>> timeline_facts({"timeline": {"shares": shares, "workers": 2}, "workers": 2})
    [['Workers', '80% learn, 20% read']]
    """
    shares = _shares(result)
    return [[_time_of(result), _phases(shares)]] if shares else []


def timeline_sentence(result: Mapping[str, Any]) -> str | None:
    """Return the sentence on shares of training time by phase; None without a timeline."""
    shares = _shares(result)
    if not shares:
        return None
    count = (result.get("timeline") or {}).get("workers") or 0
    singular = "worker" if _time_of(result) == "Workers" else "thread"
    owner = f"{count} {singular}{'s' if count != 1 else ''}"
    owner = "this process" if _time_of(result) == "Time" else owner
    return (
        f"Training time of {owner}: {_phases(shares)}. If one compiled loop maps and trains, the time of the map "
        "counts as learn."
    )


def _shares(result: Mapping[str, Any]) -> Mapping[str, float]:
    shares = (result.get("timeline") or {}).get("shares") or {}
    of_workers: Mapping[str, float] = shares.get("workers") or shares.get("driver") or {}
    return of_workers


def _time_of(result: Mapping[str, Any]) -> str:
    if not (result.get("timeline") or {}).get("shares", {}).get("workers"):
        return "Time"
    return "Workers" if result.get("workers") else "Threads"


def _phases(shares: Mapping[str, float]) -> str:
    """Return shares as text, largest first.

    >>> _phases({"learn": 0.61, "read": 0.2, "wait": 0.19})
    '61% learn, 20% read, 19% wait'
    """
    named = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{100 * share:.0f}% {phase}" for phase, share in named if share >= LEAST_SHARE)


# Tracking regret, against models that change

TRACKING_HEADER = (
    "Changes at most",
    "Comparator's loss",
    "Regret",
    "Regret at most",
    "At any rows, at most",
    "Changes at",
)


def tracking_proof_of(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the certificate of tracking regret; None for other runs."""
    proof: Mapping[str, Any] = result.get("certificate") or {}
    return proof if proof.get("kind") == "tracking regret" else None


def tracking_sentences(proof: Mapping[str, Any]) -> list[str]:
    """Return sentences on the comparison and its result."""
    if not proof.get("shown"):
        return [f"No regret is shown. {proof.get('reason')}"]
    windows, first = len(proof["borders"]) - 1, proof["comparisons"][0]
    return [
        f"Total {proof['loss_name']} loss over {number(proof['rows'])} rows: {number(proof['loss'])}, with "
        f"{number(proof['mistakes'])} mistakes. This is {_than(first['regret'])} than that of the best fixed weights.",
        f"Comparators are weights in the ball of radius {number(proof['radius'])} on the same map that change at most "
        f"the given number of times, at borders of {windows} windows.",
        "Column 4 is an upper bound of the regret for changes at these borders. Column 5 is an upper bound for changes "
        "at any row, where the comparator's loss counts as 0 in a window with a change.",
    ]


def tracking_table(proof: Mapping[str, Any]) -> Table | None:
    """Return the table with a row for each number of changes, under PIECE_HEADER."""
    if not proof.get("shown"):
        return None
    return Table("Regret against models that change", [_comparison_row(line) for line in proof["comparisons"]])


def tracking_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the line on tracking regret for a terminal; empty for other runs."""
    proof = tracking_proof_of(result)
    if proof is None:
        return []
    if not proof.get("shown"):
        return [["Regret", f"not shown: {proof.get('reason')}"]]
    regrets = [f"{number(line['regret'])} ({line['changes']})" for line in proof["comparisons"]]
    return [["Regret (changes)", f"{', '.join(regrets)}; total loss {number(proof['loss'])}"]]


def _comparison_row(line: Mapping[str, Any]) -> list[str]:
    names = ("comparator_loss", "regret", "regret_at_most", "regret_at_most_anywhere")
    rows = ", ".join(number(row + 1) for row in line["rows"]) or "-"
    return [number(line["changes"]), *(number(line[name]) for name in names), rows]


def _than(regret: float) -> str:
    return f"{number(abs(regret))} {'more' if regret >= 0 else 'less'}"


# Regret, against fixed weights

REGRET_HEADER = ("Rows", "Regret", "Per row", "Bound", "Bound / regret", "Loss", "Comparator's gap")


class RegretSection(NamedTuple):
    """Sentences on regret, and a table with its header; None if there is no table."""

    sentences: list[str]
    table: Table | None
    header: Sequence[str] = REGRET_HEADER


def regret_section(result: Mapping[str, Any]) -> RegretSection | None:
    """Return the section on regret, or on the reason why there is none; None without a certificate."""
    if (pieces := tracking_proof_of(result)) is not None:
        return RegretSection(tracking_sentences(pieces), tracking_table(pieces), TRACKING_HEADER)
    proof = _regret_of(result)
    if proof is None:
        return None
    if not proof.get("shown"):
        return RegretSection([f"No regret is shown. {proof.get('reason')}"], None)
    sentences = [_loss_sentence(proof), _bound_sentence(proof), *filter(None, [_kernel_bound_sentence(proof)])]
    rows = [_horizon_row(horizon) for horizon in proof["horizons"]]
    return RegretSection(sentences, Table("Regret at each horizon", rows))


def regret_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the lines on regret for a terminal; empty without a certificate."""
    proof = _regret_of(result)
    if proof is None:
        return tracking_facts(result)
    if not proof.get("shown"):
        return [["Regret", f"not shown: {_uncapitalised(str(proof.get('reason')))}"]]
    exponent = proof.get("growth_exponent")
    growth = f", grows as rows^{exponent:.2f}" if exponent is not None else ""
    facts = [
        [
            "Regret",
            f"{number(proof['regret'])}, at most {number(proof['regret_at_most'])} "
            f"({number(proof['average_regret'])} per row; bound {number(proof['bound'])}{growth})",
        ]
    ]
    if kernel := proof.get("kernel_bound"):
        note = "vacuous: larger than the total loss" if kernel["vacuous"] else f"probability {kernel['probability']:g}"
        facts.append(["Kernel bound", f"{number(kernel['bound'])} by Theorem 1 ({note})"])
    return facts


def regret_horizons(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the horizons with positive regret, for logarithmic axes; empty if there are fewer than two."""
    proof = _regret_of(result) or {}
    shown = [horizon for horizon in proof.get("horizons") or [] if horizon["regret"] > 0.0]
    return shown if len(shown) > 1 else []


def growth_exponent(result: Mapping[str, Any]) -> float | None:
    """Return the growth exponent of regret in the number of rows; None if regret was not positive."""
    return (_regret_of(result) or {}).get("growth_exponent")


def _regret_of(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    proof: Mapping[str, Any] = result.get("certificate") or {}
    return proof if proof.get("kind") == "regret" else None


def _loss_sentence(proof: Mapping[str, Any]) -> str:
    regret, comparator = proof["regret"], proof["comparator"]
    # on changing data an online solver may beat all fixed weights
    drift = "" if regret >= 0 else " A negative regret is possible if the data change over time."
    return (
        f"Total loss over {number(proof['rows'])} rows: {number(proof['loss'])}, {_than(regret)} than that of the best "
        f"fixed weights in the ball of radius {number(comparator['radius'])} "
        f"({number(abs(proof['average_regret']))} per row). The comparator's relative gap is "
        f"{_regret_percent(comparator['relative_gap'])}, so the regret is at most {number(proof['regret_at_most'])}."
        f"{drift}"
    )


def _bound_sentence(proof: Mapping[str, Any]) -> str:
    exponent, regret = proof.get("growth_exponent"), proof["regret"]
    if exponent is None:
        growth = "No growth rate is given, because the regret is not positive at two or more horizons."
    else:
        trend = "decreases" if exponent < 1.0 else "does not decrease"
        growth = f"The regret grows as rows^{exponent:.3f}, so the regret per row {trend}."
    if proof["bound"] is None:
        return f"No theoretical bound holds for these settings. {growth}"
    times = f", {number(proof['bound'] / regret)} times as large" if regret > 0 else ""
    return f"The theoretical bound of the regret is {number(proof['bound'])}{times}. {growth}"


def _kernel_bound_sentence(proof: Mapping[str, Any]) -> str:
    kernel = proof.get("kernel_bound")
    if not kernel:
        return ""
    text = (
        f"Against functions of the kernel itself, the regret is at most {number(kernel['bound'])} by Theorem 1 of Lu "
        f"et al. (JMLR 17, 2016), with coefficient sum {number(kernel['l1_norm'])} and kernel error "
        f"{number(kernel['epsilon'])} (probability {kernel['probability']:g})"
    )
    if kernel["vacuous"]:
        return f"{text}. This bound is vacuous: the total loss is {number(proof['loss'])}."
    return f"{text}."


def _horizon_row(horizon: Mapping[str, Any]) -> list[str]:
    regret, bound = horizon["regret"], horizon["bound"]
    ratio = number(bound / regret) if regret > 0 and bound is not None else "-"
    figures = [number(horizon[name]) for name in ("regret", "average_regret", "bound")]
    return [
        number(horizon["rows"]),
        *figures,
        ratio,
        number(horizon["loss"]),
        _regret_percent(horizon["comparator"]["relative_gap"]),
    ]


def _regret_percent(share: float) -> str:
    return f"{100 * share:.2g}%"


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


# Constraints

CONSTRAINT_HEADER = ("Constraint", "Training rows", "Test rows", "Decisions, training", "Decisions, test")
RATES = {
    "positive_rate": "positive rate",
    "positive_rate_difference": "positive rates differ by",
    "decision_covariance": "covariance",
}


def constraint_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on the constraints, their violation, and what they do not cover; empty without constraints."""
    constraints = result.get("constraints")
    if not constraints:
        return []
    met = "satisfies every constraint" if constraints["met"] else "does NOT satisfy every constraint"
    rows = number(constraints["rows"])
    return [
        f"On all {rows} training rows, the model {met} (safety margin {number(constraints['margin'])}). Values may "
        "differ on new rows: those on test rows are shown with two standard errors.",
        f"During training, the average violation per row was {number(constraints['violation_a_row'])} in units of the "
        f"constraints. The final projection removed a violation of {number(constraints['violation_as_learnt'])}. "
        f"{constraints['theorem']}",
        "The constraints limit mean scores, not decisions. Positive rates of the decisions are shown for comparison.",
    ]


def constraint_table(result: Mapping[str, Any]) -> Table | None:
    """Return the table with a row for each constraint, under CONSTRAINT_HEADER."""
    constraints = result.get("constraints")
    if not constraints:
        return None
    rows = [
        [limit["constraint"], _value(limit["train"], False), _value(limit.get("test"), True)]
        + [_rate(limit.get(split)) for split in ("train", "test")]
        for limit in constraints["limits"]
    ]
    return Table("Constraints", rows)


def constraint_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Return a line for each constraint for a terminal."""
    constraints = result.get("constraints") or {}
    facts = []
    for limit in constraints.get("limits") or []:
        text = f"{_value(limit['train'], False)} on training rows"
        if limit.get("test"):
            text += f", {_value(limit['test'], True)} on test rows"
        facts.append([limit["constraint"], f"{text}; {_rate(limit['train'])}"])
    return facts


def violation_curve(points: Sequence[Sequence[float]], theme: Theme) -> bytes:
    """Draw the average violation of the constraints against the rows seen.

    Parameters
    ----------
    points : each [rows seen, average per row so far, average per row since the last point]
    theme : colours
    """
    figure, axes = figure_with_axes(theme)
    seen, so_far, recent = zip(*points, strict=True)
    marker = "o" if len(points) < 3 else ""
    axes.plot(seen, recent, color=theme.soft, linewidth=1.2, label="last window", marker=marker)
    axes.plot(seen, so_far, color=theme.line, linewidth=2.0, label="so far", marker=marker)
    axes.set_ylim(0.0, 1.25 * max(*so_far, *recent, 1e-12))  # room for the legend above the lines
    axes.set_xlim(0.0, float(max(seen)))
    axes.xaxis.set_major_formatter(large_numbers)
    axes.yaxis.set_major_formatter(large_numbers)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("rows seen")
    axes.set_ylabel("violation per row")
    lines_across(axes, theme)
    legend(axes, theme)
    return png(figure)


def _value(figures: Mapping[str, Any] | None, with_error: bool) -> str:
    if not figures:
        return "-"
    error = figures["standard_error"]
    return number(figures["value"]) + (f" ± {number(2.0 * error)}" if with_error and error is not None else "")


def _rate(figures: Mapping[str, Any] | None) -> str:
    name = next((name for name in RATES if name in (figures or {})), None)
    return "-" if name is None or figures is None else f"{RATES[name]} {number(figures[name])}"
