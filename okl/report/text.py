"""Sentences about memory, drift, time, regret and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from okl.report.figures import Theme, large_numbers, legend, lines_across, one_picture, percents, png
from okl.report.format import number
from okl.report.tables import Table

# Words about the memory that a run was planned to take.

MIB = 2**20


def memory_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """A line for a terminal; none where nothing was planned.

    >>> plan = {"worker_bytes": 600 * MIB, "held_bytes": 256 * MIB, "read_again_share": 0.25}
    >>> memory_facts({"memory_plan": plan | {"worker_limit_bytes": 1024 * MIB}, "workers": 2})
    [['Memory', 'at most 600 of 1,024 MiB a worker planned; 25% of its rows read again every round']]
    >>> memory_facts({"memory_plan": plan | {"worker_limit_bytes": None, "read_again_share": 0.0}})
    [['Memory', 'at most 600 MiB planned']]
    """
    plan: Mapping[str, Any] = result.get("memory_plan") or {}
    if not plan:
        return []
    limit = plan.get("worker_limit_bytes")
    of_limit = f" of {limit / MIB:,.0f}" if limit else ""
    whose = " a worker" if result.get("workers") else ""
    told = f"at most {plan['worker_bytes'] / MIB:,.0f}{of_limit} MiB{whose} planned"
    again = plan.get("read_again_share") or 0.0
    if again > 0.0:
        told += f"; {100 * again:.0f}% of {'its' if whose else 'the'} rows read again every round"
    return [["Memory", told]]


def memory_sentence(result: Mapping[str, Any]) -> str | None:
    """The same for the report, with what the plan is of, beside what this process took.

    A worker's plan is of going over rows while it learns; what brings answers together and solves has a plan of its
    own. The peak is of the whole life of this process, which may exceed either.

    >>> plan = {"worker_bytes": 650 * MIB, "driver_bytes": 1200 * MIB, "process_bytes": 360 * MIB}
    >>> print(memory_sentence({"memory_plan": plan, "peak_memory_bytes": 855 * MIB}))
    Memory: at most 650 MiB planned. That is to go over rows; to add up and solve, at most 1,200 MiB are planned \
(360 of either for Python and its libraries). This process took 855 MiB at its peak, with what is not planned, too, \
such as a source's ingest, a race or the evaluation.
    """
    facts = memory_facts(result)
    if not facts:
        return None
    plan, peak = result["memory_plan"], result.get("peak_memory_bytes")
    told = f"Memory: {facts[0][1]}."
    if driver := plan.get("driver_bytes"):
        told += (
            f" That is to go over rows; to add up and solve, at most {driver / MIB:,.0f} MiB are planned "
            f"({plan['process_bytes'] / MIB:,.0f} of either for Python and its libraries)."
        )
    if peak:
        told += (
            f" This process took {peak / MIB:,.0f} MiB at its peak, with what is not planned, too, such as a source's "
            "ingest, a race or the evaluation."
        )
    return told


# Windows of a stream in words and a picture: how the error went, and where rows were found to have changed.

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


# Words about where the time of a run went.

LEAST_SHARE = 0.005


def timeline_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """A line for a terminal: whose time, and the shares of it while the run learnt; none where nothing is known.

    >>> shares = {"driver": {"wait": 1.0}, "workers": {"read": 0.196, "learn": 0.8, "wait": 0.004}}
    >>> timeline_facts({"timeline": {"shares": shares, "workers": 2}, "workers": 2})
    [['Workers', '80% learn, 20% read']]
    """
    shares = _shares(result)
    return [[_who(result), _told(shares)]] if shares else []


def timeline_sentence(result: Mapping[str, Any]) -> str | None:
    """The same for the report."""
    shares = _shares(result)
    if not shares:
        return None
    count = (result.get("timeline") or {}).get("workers") or 0
    one, several = ("worker's", "workers'") if _who(result) == "Workers" else ("thread's", "threads'")
    whose = "this process's" if _who(result) == "Time" else f"its {one}" if count == 1 else f"its {count} {several}"
    return (
        f"While the run learnt, {whose} time went to: {_told(shares)}. Where one compiled loop maps and learns, "
        "mapping counts as learn."
    )


def _shares(result: Mapping[str, Any]) -> Mapping[str, float]:
    shares = (result.get("timeline") or {}).get("shares") or {}
    found: Mapping[str, float] = shares.get("workers") or shares.get("driver") or {}
    return found


def _who(result: Mapping[str, Any]) -> str:
    if not (result.get("timeline") or {}).get("shares", {}).get("workers"):
        return "Time"
    return "Workers" if result.get("workers") else "Threads"


def _told(shares: Mapping[str, float]) -> str:
    """
    >>> _told({"learn": 0.61, "read": 0.2, "wait": 0.19})
    '61% learn, 20% read, 19% wait'
    """
    named = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{100 * share:.0f}% {phase}" for phase, share in named if share >= LEAST_SHARE)


# The certificate of a tracker in words: what it lost beside models that change, a table of how many times.

PIECE_HEADER = (
    "Changes at most",
    "Comparator's loss",
    "Regret",
    "Regret at most",
    "At any rows, at most",
    "Changes at",
)


def piece_proof(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The proof of a tracker, None for other runs."""
    proof: Mapping[str, Any] = result.get("certificate") or {}
    return proof if proof.get("kind") == "tracking regret" else None


def piece_sentences(proof: Mapping[str, Any]) -> list[str]:
    """What was compared, and what came out."""
    if not proof.get("shown"):
        return [f"No regret is shown. {proof.get('reason')}"]
    windows, first = len(proof["borders"]) - 1, proof["comparisons"][0]
    return [
        f"Over {number(proof['rows'])} rows the mean of scores that was predicted with lost {number(proof['loss'])} by "
        f"the {proof['loss_name']} loss, and made {number(proof['mistakes'])} mistakes. It is compared with weights in "
        f"the ball of radius {number(proof['radius'])} of the same map that are fixed but for a number of changes, at "
        f"borders of {windows} windows. Beside the best that never change it lost {_than(first['regret'])}.",
        "No weights with so many changes at these borders make the regret larger than the fourth column says; none "
        "that change at any rows larger than the fifth, where a window with a change counts as if nothing was lost.",
    ]


def piece_table(proof: Mapping[str, Any]) -> Table | None:
    """A line for each number of changes, under PIECE_HEADER."""
    if not proof.get("shown"):
        return None
    return Table("Regret against models that change", [_line(one) for one in proof["comparisons"]])


def piece_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Names and texts of the same for a terminal."""
    proof = piece_proof(result)
    if proof is None:
        return []
    if not proof.get("shown"):
        return [["Regret", f"not shown: {proof.get('reason')}"]]
    told = [f"{number(one['regret'])} ({one['changes']})" for one in proof["comparisons"]]
    return [["Regret (changes)", f"{', '.join(told)}; of a loss of {number(proof['loss'])}"]]


def _line(one: Mapping[str, Any]) -> list[str]:
    names = ("comparator_loss", "regret", "regret_at_most", "regret_at_most_anywhere")
    rows = ", ".join(number(row + 1) for row in one["rows"]) or "-"
    return [number(one["changes"]), *(number(one[name]) for name in names), rows]


def _than(regret: float) -> str:
    return f"{number(abs(regret))} {'more' if regret >= 0 else 'less'}"


# The certificate of regret of a run in words: sentences and a table for the page, two lines for a terminal.

HEADER = ("Rows", "Regret", "A row", "Bound", "Bound / regret", "Loss", "Comparator's gap")


class RegretSection(NamedTuple):
    """What a report says of regret: sentences, and a table under its header, None where there is none."""

    sentences: list[str]
    table: Table | None
    header: Sequence[str] = HEADER


def regret_section(result: Mapping[str, Any]) -> RegretSection | None:
    """What is proved about the regret of a run, or why nothing is; None for a run that was not asked."""
    if (pieces := piece_proof(result)) is not None:
        return RegretSection(piece_sentences(pieces), piece_table(pieces), PIECE_HEADER)
    proof = _regret_of(result)
    if proof is None:
        return None
    if not proof.get("shown"):
        return RegretSection([f"No regret is shown. {proof.get('reason')}"], None)
    sentences = [_lost(proof), _bounded(proof), *filter(None, [_in_kernel_space(proof)])]
    return RegretSection(sentences, Table("Regret at each horizon", [_row(one) for one in proof["horizons"]]))


def regret_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Names and texts of the same for a terminal."""
    proof = _regret_of(result)
    if proof is None:
        return piece_facts(result)
    if not proof.get("shown"):
        return [["Regret", f"not shown: {_uncapitalised(str(proof.get('reason')))}"]]
    grown = proof.get("growth_exponent")
    growth = f", grows as rows^{grown:.2f}" if grown is not None else ""
    facts = [
        [
            "Regret",
            f"{number(proof['regret'])}, at most {number(proof['regret_at_most'])} "
            f"({number(proof['average_regret'])} a row; bound {number(proof['bound'])}{growth})",
        ]
    ]
    if kernel := proof.get("kernel_bound"):
        worth = "vacuous, more than the whole loss" if kernel["vacuous"] else f"probability {kernel['probability']:g}"
        facts.append(["Kernel bound", f"{number(kernel['bound'])} by Theorem 1 ({worth})"])
    return facts


def regret_horizons(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The horizons that logarithmic axes can show; none if there are fewer than two."""
    proof = _regret_of(result) or {}
    shown = [one for one in proof.get("horizons") or [] if one["regret"] > 0.0]
    return shown if len(shown) > 1 else []


def growth_of(result: Mapping[str, Any]) -> float | None:
    """The power of the rows that regret grew with, None where it was not above 0 everywhere."""
    return (_regret_of(result) or {}).get("growth_exponent")


def _regret_of(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    proof: Mapping[str, Any] = result.get("certificate") or {}
    return proof if proof.get("kind") == "regret" else None


def _lost(proof: Mapping[str, Any]) -> str:
    regret, comparator = proof["regret"], proof["comparator"]
    more = f"{number(abs(regret))} {'more' if regret >= 0 else 'less'}"
    # a learner that follows rows as they change may beat any weights that stay
    drift = "" if regret >= 0 else " Rows that change as they go by favour whoever follows them."
    return (
        f"Over {number(proof['rows'])} rows the learner lost {number(proof['loss'])}: {more} than the best fixed "
        f"weights that were found in its ball of radius {number(comparator['radius'])}, "
        f"{number(abs(proof['average_regret']))} a row. No weights of that ball are better than these by more than "
        f"{_regret_percent(comparator['relative_gap'])} of their loss: the regret is "
        f"{number(proof['regret_at_most'])} at most.{drift}"
    )


def _bounded(proof: Mapping[str, Any]) -> str:
    grown, regret = proof.get("growth_exponent"), proof["regret"]
    if grown is None:
        growth = "How regret grew is not told, as it was not above zero at two horizons or more."
    else:
        share = "falls" if grown < 1.0 else "does not fall"
        growth = f"Regret grew with the rows to the power of {grown:.3f}, so that what a row adds to it {share}."
    if proof["bound"] is None:
        return f"No bound is claimed for settings like these. {growth}"
    times = f", {number(proof['bound'] / regret)} times as much" if regret > 0 else ""
    return f"Steps like these cannot lead to more regret than {number(proof['bound'])}{times}. {growth}"


def _in_kernel_space(proof: Mapping[str, Any]) -> str:
    kernel = proof.get("kernel_bound")
    if not kernel:
        return ""
    told = (
        f"Beside functions of the kernel itself, Theorem 1 of Lu et al. (JMLR 17, 2016) allows a regret of "
        f"{number(kernel['bound'])}, where the sum of coefficients is {number(kernel['l1_norm'])} and kernel values "
        f"are off by {number(kernel['epsilon'])} at most (probability {kernel['probability']:g})"
    )
    if kernel["vacuous"]:
        return f"{told}. That bound is vacuous: the learner's whole loss is {number(proof['loss'])}."
    return f"{told}."


def _row(one: Mapping[str, Any]) -> list[str]:
    ratio = number(one["bound"] / one["regret"]) if one["regret"] > 0 and one["bound"] is not None else "-"
    figures = [number(one[name]) for name in ("regret", "average_regret", "bound")]
    return [
        number(one["rows"]),
        *figures,
        ratio,
        number(one["loss"]),
        _regret_percent(one["comparator"]["relative_gap"]),
    ]


def _regret_percent(share: float) -> str:
    return f"{100 * share:.2g}%"


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


# The constraints of a run in words: sentences and a table for the page, a line each for a terminal, a picture.

CONSTRAINT_HEADER = ("Constraint", "Training rows", "Test rows", "Decisions, training", "Decisions, test")
RATES = {
    "positive_rate": "positive rate",
    "positive_rate_difference": "positive rates differ by",
    "decision_covariance": "covariance",
}


def constraint_sentences(result: Mapping[str, Any]) -> list[str]:
    """What was asked, how it was kept on the way, and what it does not say; nothing for a run without constraints."""
    told = result.get("constraints")
    if not told:
        return []
    kept = "keeps to every limit" if told["met"] else "does NOT keep to every limit"
    rows = number(told["rows"])
    return [
        f"Rows of the constraints were added up over all {rows} training rows. On these the model {kept}; limits are "
        f"kept with a margin of {number(told['margin'])} inside. On fresh rows a value may differ: two standard errors "
        "stand beside those of the test rows.",
        f"While learning, weights were outside by {number(told['violation_a_row'])} a row on average, in the units of "
        f"the constraints; as they were learnt, before they were brought within all limits, by "
        f"{number(told['violation_as_learnt'])}. {told['theorem']}",
        "Scores are constrained, as their means are linear in the weights; decisions are not: limits of scores do not "
        "bound differences of positive rates, which therefore stand beside them.",
    ]


def constraint_table(result: Mapping[str, Any]) -> Table | None:
    """A row for each constraint, under HEADER."""
    told = result.get("constraints")
    if not told:
        return None
    rows = [
        [one["constraint"], _value(one["train"], False), _value(one.get("test"), True)]
        + [_rate(one.get(split)) for split in ("train", "test")]
        for one in told["limits"]
    ]
    return Table("Constraints", rows)


def constraint_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """A line for each constraint in a terminal."""
    told = result.get("constraints") or {}
    facts = []
    for one in told.get("limits") or []:
        words = f"{_value(one['train'], False)} on training rows"
        if one.get("test"):
            words += f", {_value(one['test'], True)} on test rows"
        facts.append([one["constraint"], f"{words}; {_rate(one['train'])}"])
    return facts


def violation_curve(points: Sequence[Sequence[float]], theme: Theme) -> bytes:
    """Draw what a row's weights were outside their limits by, against the rows seen.

    points : [rows seen, a row so far, a row since the point before] each
    """
    figure, axes = one_picture(theme)
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
    axes.set_ylabel("violation a row")
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
