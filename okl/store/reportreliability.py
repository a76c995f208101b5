"""What scores are worth: how often rows of about the same score are right, in words and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from okl.store.pageparts import Bar, Bars, Block, Picture, Words
from okl.store.trustfigures import reliability_curve
from okl.store.wording import number, percent

LOGISTIC = ("logistic", "l1-logistic")
MEASURED = {"test": "test rows", "train": "training rows (which were learnt)"}


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
    where = MEASURED[split]
    labels = (result.get("dataset") or {}).get("labels") or ["the first", "the second"]
    if measured["reliability"]["of"] == "lead":
        return _of_leads(bins, where)
    return _of_probabilities(bins, where, labels[-1]) if _says_odds(result) else _of_scores(bins, where, labels[-1])


def reliability_bars(measured: Mapping[str, Any], where: str) -> list[Block]:
    """The same as a few lengths without a picture; nothing for other models.

    measured : with what `okl.metrics.Tally.report` counts of reliability, and labels
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
    seen = f"Where probabilities can be taken at their word, dots lie on the dashed line. {_ends(bins)}"
    axes = ("probability that the model claims", f"rows that are {_short(positive)}")
    return [Words(told), _picture("Reliability of probabilities", bins, "probability", axes, seen, where)]


def _of_scores(bins: Sequence[Mapping[str, Any]], where: str, positive: object) -> list[Block]:
    told = (
        "Its scores are no probabilities, as the loss that it learnt has none; they order rows. The picture tells what "
        f"a score was worth on {where}: read it as a table from score to probability of {positive}."
    )
    axes = ("score of the model", f"rows that are {_short(positive)}")
    return [Words(told), _picture("Reliability of scores", bins, "mean", axes, _ends(bins), where)]


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


def _ends(bins: Sequence[Mapping[str, Any]]) -> str:
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
