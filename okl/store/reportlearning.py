"""How a run learnt, and what it chose: curves, candidates that were raced, settings that were found or given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from okl.configuration import IngestSettings, TrainSettings
from okl.store.choices import chosen_facts, learner_sentence
from okl.store.learningfigures import convergence_curve, learning_curve
from okl.store.pageparts import Bar, Bars, Block, Grid, Picture, Section, Words, cut
from okl.store.verdict import Verdict, error_text, judge
from okl.store.wording import flat, metric_name, number, percent, seconds

MOST_DRAWN = 20  # candidates of a race
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
    drawn = [one for one in candidates if _score(one) > float("-inf") and one["kept"]][:MOST_DRAWN]
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
