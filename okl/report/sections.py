"""Sections of the report of a training run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from pydantic import BaseModel

from okl.foundation.settings import IngestSettings, TrainSettings
from okl.report import figures
from okl.report.assessment import MEASURED, Verdict, error_text, judge
from okl.report.figures import (
    MOST_DRAWN,
    confusion_matrix,
    convergence_curve,
    learning_curve,
    predicted_against_true,
    reliability_curve,
    residual_histogram,
    timeline_picture,
)
from okl.report.format import (
    BASELINE_NAMES,
    SPLIT_NAMES,
    chosen_facts,
    flat,
    learner_sentence,
    metric_name,
    number,
    percent,
    rate,
    seconds,
)
from okl.report.page import Bar, Bars, Block, Code, Grid, Head, Link, Picture, Section, Tiles, Words, cut, grid
from okl.report.tables import ROOT, baseline_names, headline, metric_tables
from okl.report.text import (
    CONSTRAINT_HEADER,
    MIB,
    constraint_sentences,
    constraint_table,
    drift_sentence,
    growth_of,
    memory_sentence,
    regret_horizons,
    regret_section,
    timeline_sentence,
    violation_curve,
    window_curve,
)

# What is other than in the version before, where a run has one.

PARTS = {"metrics": "Metrics", "data": "Data", "settings": "Settings"}
MOST_ROWS = 40


def changes(before: Mapping[str, Any] | None) -> Section | None:
    """Tables of figures, data and settings of two versions, as far as they differ; None where there was none before.

    before : name of that version; what it is; same_rows: whether both were measured on the same; and of metrics, data
        and settings both values by name, that of the version before in front
    """
    if not before:
        return None
    blocks: list[Block] = [Words(_beside(before))]
    for part, title in PARTS.items():
        if part not in before:  # told elsewhere
            continue
        rows = [
            [_plain(name), number(old), number(new), difference(old, new)] for name, (old, new) in before[part].items()
        ]
        header = ("", str(before["name"]), "this one", "change")
        blocks.append(
            Grid(title, header, cut(rows, MOST_ROWS)) if rows else Words(f"{title}: no difference is recorded.")
        )
    return Section("changed", f"What changed since {before['name']}?", blocks)


def difference(old: object, new: object) -> str:
    """What a number grew by; "" for what is no number.

    >>> difference(0.25, 0.2), difference(10, 15), difference("a", "b"), difference(None, 1)
    ('-0.0500', '+5', '', '')
    """
    if isinstance(old, bool) or isinstance(new, bool):
        return ""
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return ""
    return ("+" if new > old else "") + number(new - old)


def _beside(before: Mapping[str, Any]) -> str:
    rows = (
        "Both were measured on the same rows."
        if before.get("same_rows")
        else "Each was measured on rows of its own data, so that a difference of figures may be one of rows, too."
    )
    return f"{before['name']} is {before.get('what') or 'the version before'}. {rows}"


def _plain(name: str) -> str:
    *place, last = name.split(".")
    return " ".join([*place, metric_name(last)]).replace("_", " ")


# What a run cost, and how its model is put to use.


def cost(result: Mapping[str, Any]) -> Section:
    """Time, memory, bytes on the network, and who did what when."""
    peak = result.get("peak_memory_bytes")
    sent = (result.get("bytes_sent") or 0) + (result.get("bytes_received") or 0)
    passes = (result.get("settings") or {}).get("passes", 1)
    tiles = [
        ("Learning", seconds(result.get("seconds"))),
        ("Everything together", seconds(result.get("total_seconds"))),
        ("Rows learnt" if passes == 1 else f"Rows learnt, {passes} passes", number(result.get("rows"))),
        ("Rows a second", number(result.get("rows_per_second"))),
        *([("Memory of this process, peak", f"{number(round(peak / MIB))} MiB")] if peak else []),
        *([("Sent and received", f"{sent / MIB:,.1f} MiB")] if sent else []),
    ]
    words = [text for text in (timeline_sentence(result), memory_sentence(result)) if text]
    blocks: list[Block] = [Tiles(tiles), *map(Words, words)]
    if (timeline := result.get("timeline")) and result.get("workers"):  # of one process, a sentence tells it all
        told = "What this process and each worker did in each moment; lines: where a stage begins."
        blocks.append(Picture("Where the time went", partial(timeline_picture, timeline), told))
    if beside := result.get("cluster_report"):
        blocks.append(
            Link(str(beside), "Dask's own performance report", ": tasks, profiles and memory of all workers.")
        )
    return Section("cost", "What did it cost?", blocks)


def use(result: Mapping[str, Any]) -> Section | None:
    """Lines to type; None where no model was saved."""
    if not result.get("model"):
        return None
    model, run = (_typed(result.get(name) or "") for name in ("model", "run"))
    columns = number((result.get("dataset") or {}).get("features"))
    return Section(
        "use",
        "How do I use it?",
        [
            Code(
                f"Score rows that have the columns it learnt from ({columns} inputs); see which columns it leans on; "
                "make it the champion of a name:",
                [
                    f"okl predict {model} ROWS --out SCORES",
                    f"okl explain {model}",
                    f"okl models publish NAME {run} --promote",
                ],
            ),
            Code(
                "From Python, on an array or a table of raw rows:",
                ["import okl", f"labels = okl.load({_one_line(result['model'])!r}).predict(rows)"],
            ),
        ],
    )


def _typed(path: object) -> str:
    return shlex.quote(_one_line(path))


def _one_line(path: object) -> str:
    return " ".join(str(path).splitlines())


# How a run learnt, and what it chose: curves, candidates that were raced, settings that were found or given.

MOST_CANDIDATES_DRAWN = 20  # candidates of a race
MOST_LISTED = 40
ROUNDING = 1e-9  # a relative gap that says nothing
DIRECT = "Its equations were solved directly, to within rounding: there was nothing to watch on the way."
PLACES = ("data", "out", "name")


def learning(result: Mapping[str, Any]) -> Section | None:
    """The error while rows came by, or the gap while it closed; None where neither was noted."""
    blocks: list[Block] = []
    if curve := result.get("curve"):
        verdict = judge({**result, "test": None})
        error, shares = metric_name(verdict.metric), verdict.metric == "mistake_rate"
        draw = partial(learning_curve, curve, error.lower(), verdict.constant_name, shares=shares)
        again = (
            f"; from the second of {verdict.passes} passes on, it has been learnt before" if verdict.passes > 1 else ""
        )
        told = f"Each row is predicted before it is learnt{again}.{_ends(curve, verdict)}"
        blocks.append(Picture(f"Learning curve: {error.lower()} against rows seen", draw, told))
    if convergence := result.get("convergence"):
        asked = (result.get("settings") or {}).get("tol") if _is_relative(result) else None
        first, last = convergence[0], convergence[-1]
        begun = f"from {percent(first[1], 2)} after {number(first[0])} iterations to " if len(convergence) > 1 else ""
        told = (
            f"How far the solution is from the best one at most, as a share of its objective: {begun}"
            f"{percent(last[1], 2)} after {number(last[0])} iterations."
        )
        drawn = Picture("Relative duality gap", partial(convergence_curve, convergence, asked), told)
        blocks.append(drawn if len(convergence) > 1 else Words(told if last[1] > ROUNDING else DIRECT))
    return Section("learning", "How did it learn?", blocks) if blocks else None


def choice(result: Mapping[str, Any]) -> Section | None:
    """What the model is; the race that it won; what was found while learning, and which settings were given."""
    told = learner_sentence(result)
    blocks: list[Block] = [Words(told)] if told else []
    blocks += _race(result.get("choice") or {}, (result.get("dataset") or {}).get("task") == "regression")
    facts = chosen_facts(result.get("chosen") or {})
    blocks += [Grid("Chosen", (), [[name[:1].upper() + name[1:], text] for name, text in facts])] if facts else []
    given = _given(result.get("settings") or {})
    if given:
        title = "Given, or settled by the race" if result.get("choice") else "Given"
        blocks.append(Grid(title, (), given, "Settings that are not as they are by default."))
    return Section("chosen", "What was chosen, and why?", blocks) if blocks else None


def _race(choice: Mapping[str, Any], of_variance: bool) -> list[Block]:
    """Why the winner won, and every candidate: drawn are the one that was taken, and its rivals in the last round.

    of_variance : whether scores are shares of the variance that is explained, not of rows that are named rightly
    """
    candidates = choice.get("candidates") or []
    if not candidates:
        return []
    took = f"{number(len(candidates))} candidates were raced on {number(choice.get('rows'))} rows in "
    blocks: list[Block] = [Words(f"{took}{seconds(choice.get('seconds'))}."), *map(Words, choice.get("why") or [])]
    drawn = [one for one in candidates if _score(one) > float("-inf") and one["kept"]][:MOST_CANDIDATES_DRAWN]
    if drawn:
        why = [*(choice.get("why") or []), ""][0].lower()
        # a linear model is taken before a kernel that is better by chance only
        taken = next((one for one in drawn if why.startswith(f"{one['name'].lower()}, of ")), drawn[0])
        drawn = [taken, *(one for one in drawn if one is not taken)]
        what = "Share of the variance that is left" if of_variance else "Share of mistakes"
        told = f"{what}, each on the rows that it ran on; less is better. Those of the last round."
        blocks.append(Bars("The race", [_bar(one, drawn) for one in drawn], told))
    rows = [
        [
            str(one["name"]),
            number(one["score"]),
            number(one["rows"]),
            seconds(one["seconds"]),
            "yes" if one["kept"] else "",
        ]
        for one in candidates
    ]
    header = ("Candidate", "score", "rows", "time", "kept")
    return [*blocks, Grid("All candidates", header, cut(rows, MOST_LISTED), folded=True)]


def _bar(one: Mapping[str, Any], drawn: Sequence[Mapping[str, Any]]) -> Bar:
    """What a score lacks of 1, which tells good candidates apart where scores look alike."""
    most = max(*(1.0 - _score(other) for other in drawn), 1e-12)
    text = f"{percent(1.0 - _score(one), 3)} of {number(one['rows'])} rows"
    return Bar(str(one["name"]), max(1.0 - _score(one), 0.0) / most, text, one is drawn[0])


def _score(candidate: Mapping[str, Any]) -> float:
    score = candidate.get("score")
    return float("-inf") if score is None or score != score else float(score)


def _given(settings: Mapping[str, Any]) -> list[list[str]]:
    """Names and texts of settings that differ from their default; where a run lies is told elsewhere."""
    usual = _defaults(TrainSettings) | {"ingest": _defaults(IngestSettings)}
    plain = dict(flat(usual))
    told = flat({name: value for name, value in settings.items() if name not in PLACES})
    return [[name.replace("_", " "), text] for name, text in told if text != plain.get(name, "-")]


def _defaults(settings: type[BaseModel]) -> dict[str, Any]:
    return {name: field.get_default(call_default_factory=True) for name, field in settings.model_fields.items()}


def _ends(curve: Sequence[Sequence[float]], verdict: Verdict) -> str:
    """The error at the end, beside the baseline's."""
    _, error, _, baseline = curve[-1]
    if error is None:
        return ""
    beside = "" if baseline is None else f", {verdict.constant_name} {error_text(verdict, baseline)}"
    return f" Over all {number(curve[-1][0])}: {error_text(verdict, error)}{beside}."


def _is_relative(result: Mapping[str, Any]) -> bool:
    """Whether the solver was asked for a relative gap."""
    return (result.get("certificate") or {}).get("kind") == "duality gap"


# How good a run is: the figures to see first, its error beside the simplest predictors', every metric.


def quality(result: Mapping[str, Any]) -> Section:
    """The headline, errors side by side, and the metrics of each split beside the baselines'."""
    header = ["", "okl", *baseline_names(result)]
    judged = SPLIT_NAMES[judge(result).split]
    tables = [grid(table, header)._replace(note=_units(result)) for table in metric_tables(result).values()]
    first = [table for table in tables if table.title == judged]
    others = [table._replace(folded=True) for table in tables if table.title != judged]
    return Section("good", "How good is it?", [Tiles(headline(result)), *_bars(result), *first, *others])


def target_of(result: Mapping[str, Any]) -> str:
    """What is predicted."""
    return str((result.get("dataset") or {}).get("target", "the target"))


def _bars(result: Mapping[str, Any]) -> list[Block]:
    verdict = judge(result)
    named = {"okl": verdict.error, BASELINE_NAMES["linear"]: verdict.linear}
    named[BASELINE_NAMES[verdict.constant_name]] = verdict.constant
    known = {name: error for name, error in named.items() if error is not None}
    if len(known) < 2:
        return []
    shares = verdict.metric == "mistake_rate"
    name = metric_name(verdict.metric) if shares else ROOT
    lengths = {named: error if shares else math.sqrt(error) for named, error in known.items()}
    most = max(*lengths.values(), 1e-300)
    texts = {named: _text(verdict, error) if shares else number(lengths[named]) for named, error in known.items()}
    bars = [Bar(named, lengths[named] / most, texts[named], named == "okl") for named in known]
    unit = "As a share of rows" if shares else f"In units of {_unit_of(verdict, result)}"
    chance = "; ± two standard errors, which chance may account for" if shares and verdict.rows else ""
    title = f"{name} beside the simplest predictors, {MEASURED[verdict.split]}"
    return [Bars(title, bars, f"{unit}; less is better{chance}.")]


def _text(verdict: Verdict, error: float) -> str:
    chance = verdict.chance(error)
    return rate(error) + (f" ± {percent(chance, 2).rstrip('%')}" if chance else "")


def _unit_of(verdict: Verdict, result: Mapping[str, Any]) -> str:
    return "the target as it is learnt" if verdict.metric == "squared_loss" else target_of(result)


def _units(result: Mapping[str, Any]) -> str:
    if (result.get("dataset") or {}).get("task") != "regression":
        return "Rates, areas and F1 are shares of 1."
    target = target_of(result)
    return f"Absolute errors are in units of {target}, squared ones in their squares; R2 is a share of variance."


# Where a model errs: which classes it confuses, which it misses; how far off its numbers are.

MOST_CLASSES_LISTED = 12
"""Classes, and pairs of them, that a table lists: the worst."""
SHARES = (0.5, 0.9)


def mistakes(result: Mapping[str, Any]) -> Section | None:
    """Of the test rows if there are any, else of the training rows; None where nothing was counted."""
    measured = result.get("test") or result.get("train") or {}
    where = "test rows" if result.get("test") else "training rows"
    blocks: list[Block] = []
    if confusion := measured.get("confusion"):
        labels = (result.get("dataset") or {}).get("labels") or list(range(len(confusion)))
        blocks = _of_classes(confusion, labels, where)
    elif histogram := measured.get("residual_histogram"):
        blocks = _of_residuals(measured, histogram, target_of(result), where)
    return Section("mistakes", "Where are its mistakes?", blocks) if blocks else None


def mistake_tables(measured: Mapping[str, Any], labels: Sequence[object], target: str, where: str) -> list[Block]:
    """The same without pictures.

    measured : confusion, or residual_histogram; nothing of both: no table
    """
    if confusion := measured.get("confusion"):
        counts = np.array(confusion, dtype=np.int64)
        wrong = int(counts.sum() - counts.trace())
        pairs = [_pairs(counts, labels, wrong)] if len(counts) > 2 and wrong else []
        return [*pairs, _classes(counts, labels, where)]
    histogram = measured.get("residual_histogram")
    return [_quantiles(histogram, target, where)] if histogram and histogram["counts"] else []


def _of_classes(confusion: Sequence[Sequence[int]], labels: Sequence[object], where: str) -> list[Block]:
    counts = np.array(confusion, dtype=np.int64)
    n_classes, rows = len(counts), int(counts.sum())
    tables = mistake_tables({"confusion": confusion}, labels, "", where)
    if n_classes > MOST_DRAWN:
        told = f"A matrix of {n_classes} classes would be too fine to read: the worst of it stands in tables."
        return [Words(told), *tables]
    wrong = number(rows - int(counts.trace()))
    told = f"{wrong} of {number(rows)} rows are off the diagonal. Shade: share of the true class."
    return [Picture(f"Confusion matrix, {where}", partial(confusion_matrix, confusion, labels), told), *tables]


def _pairs(counts: np.ndarray[Any, np.dtype[np.int64]], labels: Sequence[object], wrong: int) -> Grid:
    off = counts - np.diag(counts.diagonal())
    order = np.argsort(-off, axis=None, kind="stable")[:MOST_CLASSES_LISTED]
    true, named = np.unravel_index(order, off.shape)
    of_class = counts.sum(axis=1)
    rows = [
        [_name(labels[i]), _name(labels[j]), number(int(off[i, j])), percent(off[i, j] / of_class[i], 3)]
        for i, j in zip(true.tolist(), named.tolist(), strict=True)
        if off[i, j]
    ]
    share = percent(sum(int(off[i, j]) for i, j in zip(true, named, strict=True)) / wrong, 3)
    header = ("True class", "named", "rows", "of the class")
    return Grid("Most confused classes", header, rows, f"These make up {share} of all mistakes.")


def _classes(counts: np.ndarray[Any, np.dtype[np.int64]], labels: Sequence[object], where: str) -> Grid:
    of_class, named, hits = counts.sum(axis=1), counts.sum(axis=0), counts.diagonal()
    found = hits / np.maximum(of_class, 1)
    order = np.argsort(np.where(of_class > 0, found, np.inf), kind="stable")[:MOST_CLASSES_LISTED]
    rows = [
        [
            _name(labels[i]),
            number(int(of_class[i])),
            percent(float(found[i]), 3) if of_class[i] else "-",
            percent(float(hits[i] / named[i]), 3) if named[i] else "-",
        ]
        for i in order.tolist()
    ]
    cut = f" The {MOST_CLASSES_LISTED} hardest of {len(counts)}." if len(counts) > MOST_CLASSES_LISTED else ""
    note = f"Found: how many of the class's rows are named so (recall). Right: how many so named are (precision).{cut}"
    return Grid(f"Classes, the hardest first, {where}", ("Class", "rows", "found", "right"), rows, note)


def _of_residuals(
    measured: Mapping[str, Any], histogram: Mapping[str, Sequence[Any]], target: str, where: str
) -> list[Block]:
    edges, counts = histogram["edges"], histogram["counts"]
    blocks: list[Block] = []
    if counts:
        blocks.append(_quantiles(histogram, target, where))
        beyond = int(counts[0] + counts[-1])
        seen = (
            f"Left of 0 the model says too little. {number(beyond)} of {number(sum(counts))} rows are beyond the edges."
        )
        draw = partial(residual_histogram, edges, counts, target)
        blocks.append(Picture(f"Residuals, {where}", draw, seen))
    grid = measured.get("predicted_vs_true")
    if grid and grid["range"][0] < grid["range"][1]:
        draw = partial(predicted_against_true, grid["range"], grid["counts"], target)
        told = (
            "Where the solid line leaves the dotted one, predictions of that size are too low or too high on average."
        )
        blocks.append(Picture(f"Predicted against true, {where}", draw, told))
    return blocks


def _quantiles(histogram: Mapping[str, Sequence[Any]], target: str, where: str) -> Words:
    half, most = (within(histogram["edges"], histogram["counts"], share) for share in SHARES)
    told = f"Half of the {where} are predicted within {number(half)} of the truth, nine in ten within {number(most)}"
    return Words(f"{told} (in units of {target}).")


def within(edges: Sequence[float], counts: Sequence[int], share: float) -> float:
    """The distance from 0 that a share of the rows does not exceed, as far as bins tell.

    edges : evenly spaced about 0, (n + 1,), n even; counts : (n + 2,), the first and last beyond the edges

    >>> within([-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 4, 4, 1, 0], 0.8)
    1.0
    """
    inner = np.array(counts[1:-1], dtype=np.float64)
    middle = len(inner) // 2
    reached = np.concatenate([[0.0], np.cumsum(inner[middle:] + inner[:middle][::-1])])
    return float(np.interp(share * sum(counts), reached, np.array(edges[middle:])))


def _name(label: object) -> str:
    text = " ".join(str(label).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


# What scores are worth: how often rows of about the same score are right, in words and a picture.

LOGISTIC = ("logistic", "l1-logistic")
MEASURED_ROWS = {"test": "test rows", "train": "training rows (which were learnt)"}


def reliability_blocks(result: Mapping[str, Any]) -> list[Block]:
    """The reliability curve of a classifier, of test rows if there are any; nothing for other models."""
    split = "test" if result.get("test") else "train"
    measured = result.get(split) or {}
    if "confusion" not in measured:
        return []
    bins = (measured.get("reliability") or {}).get("bins")
    if not bins:
        return [
            Words("How often rows of about the same score are right was not counted: there is no reliability curve.")
        ]
    where = MEASURED_ROWS[split]
    labels = (result.get("dataset") or {}).get("labels") or ["the first", "the second"]
    if measured["reliability"]["of"] == "lead":
        return _of_leads(bins, where)
    return _of_probabilities(bins, where, labels[-1]) if _says_odds(result) else _of_scores(bins, where, labels[-1])


def reliability_bars(measured: Mapping[str, Any], where: str) -> list[Block]:
    """The same as a few lengths without a picture; nothing for other models.

    measured : with what `okl.metrics.counts.Tally.report` counts of reliability, and labels
    """
    told = measured.get("reliability") or {}
    if not told.get("bins"):
        return []
    what = (
        "named rightly" if told["of"] == "lead" else f"that are {_short((measured.get('labels') or ['positive'])[-1])}"
    )
    bars = [
        Bar(
            f"{number(one['lowest'])} to {number(one['highest'])}",
            share,
            f"{percent(share, 3)} of {number(one['rows'])}",
        )
        for one in told["bins"]
        for share in [one["hits"] / one["rows"]]
    ]
    across = "lead of the best score over the second" if told["of"] == "lead" else "score"
    return [Bars(f"Reliability: rows {what}, by {across}, {where}", bars, "As a share of the rows of such scores.")]


def calibration_error(bins: Sequence[Mapping[str, Any]]) -> float:
    """Mean distance of what was said from what was seen, over rows.

    Source: Naeini, Cooper & Hauskrecht, AAAI 2015, with bins of equally many rows.
    """
    rows = sum(one["rows"] for one in bins)
    return float(sum(abs(one["hits"] - one["rows"] * one["probability"]) for one in bins) / rows)


def _says_odds(result: Mapping[str, Any]) -> bool:
    """Whether a score is the logarithm of odds, as of the logistic loss."""
    settings = result.get("settings") or {}
    return settings.get("loss") == "logistic" or settings.get("solver") in LOGISTIC


def _of_probabilities(bins: Sequence[Mapping[str, Any]], where: str, positive: object) -> list[Block]:
    off = calibration_error(bins)
    told = (
        f"It learnt the logistic loss, so that 1 / (1 + exp(-score)) is the probability of {positive} that it claims. "
        f"On {where} that is off by {percent(off, 2)} on average."
    )
    seen = f"Where probabilities can be taken at their word, dots lie on the dashed line. {_extreme_bins(bins)}"
    axes = ("probability that the model claims", f"rows that are {_short(positive)}")
    return [Words(told), _picture("Reliability of probabilities", bins, "probability", axes, seen, where)]


def _of_scores(bins: Sequence[Mapping[str, Any]], where: str, positive: object) -> list[Block]:
    told = (
        "Its scores are no probabilities, as the loss that it learnt has none; they order rows. The picture tells what "
        f"a score was worth on {where}: read it as a table from score to probability of {positive}."
    )
    axes = ("score of the model", f"rows that are {_short(positive)}")
    return [Words(told), _picture("Reliability of scores", bins, "mean", axes, _extreme_bins(bins), where)]


def _of_leads(bins: Sequence[Mapping[str, Any]], where: str) -> list[Block]:
    low, high = (bins[place]["hits"] / bins[place]["rows"] for place in (0, -1))
    told = (
        "Its scores are no probabilities. The further the best class leads the second, the surer it is: on the "
        f"{where} with the smallest leads, up to {number(bins[0]['highest'])}, it is right in {percent(low, 3)}, on "
        f"those with the largest, from {number(bins[-1]['lowest'])}, in {percent(high, 3)}."
    )
    axes = ("lead of the best score over the second", "rows named rightly")
    return [Words(told), _picture("Reliability of leads", bins, "mean", axes, "", where)]


def _picture(
    title: str, bins: Sequence[Mapping[str, Any]], said: str, axes: tuple[str, str], told: str, where: str
) -> Picture:
    about = f"Each dot is {_part(len(bins))} of the rows; bars are two standard errors."
    return Picture(f"{title}, {where}", partial(reliability_curve, bins, said, axes), f"{told} {about}".strip())


def _extreme_bins(bins: Sequence[Mapping[str, Any]]) -> str:
    low, high = bins[0], bins[-1]
    return (
        f"Of rows with a score up to {number(low['highest'])}, {percent(low['hits'] / low['rows'], 3)} are positive; "
        f"from {number(high['lowest'])} on, {percent(high['hits'] / high['rows'], 3)}."
    )


def _part(bins: int) -> str:
    """One of so many, which are at most MOST_BINS."""
    article = "an" if bins in (8, 11) else "a"
    return f"{article} {({1: 'part', 2: 'half', 3: 'third'}).get(bins, f'{bins}th')}"


def _short(label: object) -> str:
    text = " ".join(str(label).split())
    return text if len(text) <= 20 else f"{text[:19]}…"


# Whether a run can be trusted: chance, rows never seen, scores and what comes of them, proofs, constraints, drift.


def trust(result: Mapping[str, Any]) -> Section | None:
    """All that speaks for or against taking the figures and scores at their word; None where nothing does."""
    blocks = [*_chance(result), *reliability_blocks(result), *_proof(result), *_constraints(result), *_drift(result)]
    return Section("trust", "Can I trust it?", blocks) if blocks else None


def _chance(result: Mapping[str, Any]) -> list[Block]:
    """How far the error may be off, and what it is on rows that were learnt."""
    verdict, told = judge(result), []
    if verdict.error is not None and (chance := verdict.chance(verdict.error)):
        told.append(
            f"An error of {rate(verdict.error)}, counted on {number(verdict.rows)} rows, may be off by "
            f"{percent(chance, 2)} of rows by chance (two standard errors)."
        )
    learnt = (result.get("train") or {}).get(verdict.metric)
    if verdict.split == "test" and learnt is not None and verdict.error is not None:
        seen, unseen = error_text(verdict, learnt), error_text(verdict, verdict.error)
        told.append(f"On the rows that it learnt from it makes {seen}, on test rows, which it never saw, {unseen}.")
    elif verdict.split == "progressive" and verdict.is_of_unseen_rows:
        told.append("Each row was predicted before it was learnt, so that this error is one on rows never seen.")
    elif verdict.split == "progressive":
        told.append(
            f"Rows came {verdict.passes} times, and from the second time on each had been learnt before: on fresh rows "
            "it will err more. Hold some out (--holdout)."
        )
    elif verdict.error is not None:
        told.append(
            "All rows it was measured on were learnt: on fresh rows it will err more. Hold some out (--holdout)."
        )
    return [Words(" ".join(told))] if told else []


def _proof(result: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = [Words(text) for text in [_gap(result)] if text]
    if (section := regret_section(result)) is not None:
        blocks += [Head("Regret"), *map(Words, section.sentences), *_regret_pictures(result)]
        blocks += [grid(section.table, section.header)] if section.table else []
    return blocks


def _gap(result: Mapping[str, Any]) -> str:
    """What a solver proved of its optimum."""
    proof = result.get("certificate") or {}
    below = proof.get("dual_objective", proof.get("lower_bound"))
    if below is None or proof.get("objective") is None:
        return ""
    confidence = proof.get("confidence")
    sure = "" if confidence is None else f", at {percent(confidence)} confidence"
    relative = proof.get("relative_gap")
    gap = f"a gap of {number(proof.get('gap'))}, or {percent(relative, 2)}"
    if relative is not None and relative < ROUNDING:
        gap = "the optimum, but for rounding"
    return (
        f"It is proved{sure} that what the solver minimises over its rows, {number(proof['objective'])} here, is at "
        f"least {number(below)} for any weights: {gap}. The rest of its errors is not the solver's, but of model, "
        "kernel, settings and noise."
    )


def _regret_pictures(result: Mapping[str, Any]) -> list[Block]:
    horizons = regret_horizons(result)
    if not horizons:
        return []
    growth = growth_of(result)
    last = horizons[-1]
    told = f"{number(last['regret'])} after {number(last['rows'])} rows, and a bound of {number(last['bound'])}."
    average = f"{number(last['average_regret'])} after {number(last['rows'])} rows; it falls if much was learnt."
    return [
        Picture("Regret against rows", partial(figures.regret_curve, horizons, growth), told),
        Picture("Average regret against rows", partial(figures.average_regret_curve, horizons, growth), average),
    ]


def _constraints(result: Mapping[str, Any]) -> list[Block]:
    if (limits := constraint_table(result)) is None:
        return []
    blocks: list[Block] = [Head("Constraints"), *map(Words, constraint_sentences(result))]
    if violations := result["constraints"].get("curve"):
        told = (
            f"By how much a row's weights were outside their limits: {number(violations[-1][1])} on average in the end."
        )
        blocks.append(Picture("Violation while learning", partial(violation_curve, violations), told))
    return [*blocks, grid(limits, CONSTRAINT_HEADER)._replace(wide=True)]


def _drift(result: Mapping[str, Any]) -> list[Block]:
    told = drift_sentence(result)
    blocks: list[Block] = [Head("Change of rows in time"), Words(told)] if told else []
    if len((result.get("windows") or {}).get("points") or []) > 1:
        verdict = judge({**result, "test": None})
        error, shares = metric_name(verdict.metric).lower(), verdict.metric == "mistake_rate"
        draw = partial(window_curve, result, error, verdict.constant_name, shares=shares)
        blocks.append(Picture("Error in each window", draw, "A mark is a window in which it rose by more than chance."))
    return blocks
