"""The assessment of a run: quality, warnings and advice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from okl.report.format import number, rate, seconds

MEASURED = {"test": "on test rows", "progressive": "while learning", "train": "on training rows"}
MOST_DATA_WARNINGS = 3
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Verdict:
    """The figures that a run is judged by: on test rows if there are any, otherwise as it was learning.

    split : "test", "progressive", or "train" for a model that predicted no row on the way
    rows : how many, 0 if not known; metric : name of the error, less is better
    error, constant, linear : of the model, of the majority or mean predictor, of the linear model; None if not known
    passes : how often rows came while it learnt
    """

    split: str
    rows: int
    metric: str
    constant_name: str
    error: float | None
    constant: float | None
    linear: float | None
    passes: int = 1

    @property
    def is_of_unseen_rows(self) -> bool:
        """Whether no row that was measured had been learnt before."""
        return self.split == "test" or (self.split == "progressive" and self.passes == 1)

    @property
    def beats_constant(self) -> bool | None:
        """Whether the model makes less errors than the majority or mean predictor; None if that is not known."""
        return None if self.error is None or self.constant is None else self.error < self.constant

    @property
    def may_be_chance(self) -> bool:
        """Whether a lead in mistakes lies within two standard errors of the baseline's rate (binomial)."""
        if not self.beats_constant or self.metric != "mistake_rate" or not self.rows:
            return False
        assert self.constant is not None
        assert self.error is not None
        return self.constant - self.error <= self.chance(self.constant)

    def chance(self, error: float) -> float:
        """Two standard errors of a mistake rate (binomial); 0 for other errors, whose spread is not known."""
        known = self.metric == "mistake_rate" and self.rows and 0.0 <= error <= 1.0
        return STANDARD_ERRORS * math.sqrt(error * (1.0 - error) / self.rows) if known else 0.0


def judge(result: Mapping[str, Any]) -> Verdict:
    """Find the figures to judge a run by."""
    split = next((name for name in ("test", "progressive") if result.get(name)), "train")
    figures = result.get(split) or {}
    metric = next((name for name in ("mistake_rate", "mse", "squared_loss") if name in figures), "mistake_rate")
    baselines = result.get("baselines") or {}
    constant_name = "mean" if "mean" in baselines else "majority"
    data = result.get("dataset") or {}
    rows = data.get("test_rows") if split == "test" else result.get("rows")
    error, constant, linear = (
        _finite(((source or {}).get(split) or {}).get(metric))
        for source in (result, baselines.get(constant_name), baselines.get("linear"))
    )
    passes = int((result.get("settings") or {}).get("passes") or 1)
    return Verdict(split, int(rows or 0), metric, constant_name, error, constant, linear, passes)


def summary_sentences(result: Mapping[str, Any]) -> list[str]:
    """What was learnt, how fast, how good it is beside the simplest predictors."""
    data = result.get("dataset") or {}
    labels = data.get("labels") or []
    kind = f", one of {len(labels)} classes," if labels else ""
    told = (
        f"Learnt to predict {data.get('target', 'the target')}{kind} from {number(data.get('features'))} columns of "
        f"{number(result.get('rows'))} rows in {seconds(result.get('seconds'))} "
        f"({number(result.get('rows_per_second'))} rows a second); everything together took "
        f"{seconds(result.get('total_seconds'))}."
    )
    return [told, _quality(judge(result), result)]


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """What a reader must not overlook: a model that does not beat the simplest ones, and what ingest warned of."""
    verdict = judge(result)
    warnings = []
    against = f"{error_text(verdict, verdict.error)} against {error_text(verdict, verdict.constant)}"
    simple = "always naming the majority class" if verdict.constant_name == "majority" else "always predicting the mean"
    if verdict.beats_constant is False:
        warnings.append(
            f"This model does not beat {simple}: {against}. Do not use it as it is: scale the columns, or try "
            f"{_other_settings(result, verdict)}."
        )
    elif verdict.may_be_chance:
        warnings.append(
            f"The lead over {simple} ({against}) is within two standard errors for {verdict.rows:,} rows: "
            "it may be chance."
        )
    if verdict.error is not None and verdict.linear is not None and verdict.error > verdict.linear:
        may_be = verdict.error - verdict.linear <= verdict.chance(verdict.error)
        does = "as well, within chance" if may_be else "better"
        warnings.append(
            f"A linear model does {does}: {error_text(verdict, verdict.linear)} against "
            f"{error_text(verdict, verdict.error)}. {_why_linear_wins(result)}"
        )
    if not verdict.is_of_unseen_rows and verdict.error is not None:
        seen = "Every row was learnt: these figures are of the very rows that the model has seen"
        again = f"Rows came {verdict.passes} times: from the second time on each had been learnt before"
        warnings.append(
            f"{seen if verdict.split == 'train' else again}, and new ones may fare worse. Hold some out to know: "
            "--holdout 0.2, where a source is trained on or ingested."
        )
    of_data = [f"Data: {warning}" for warning in (result.get("dataset") or {}).get("warnings") or []]
    if len(of_data) > MOST_DATA_WARNINGS:
        more = len(of_data) - MOST_DATA_WARNINGS
        of_data = [*of_data[:MOST_DATA_WARNINGS], f"Data: {more:,} more warnings; `okl describe` shows them."]
    return warnings + of_data


def _quality(verdict: Verdict, result: Mapping[str, Any]) -> str:
    where = f"On {verdict.rows:,} test rows"
    if verdict.split != "test":
        where = f"There are no test rows; {_seen(verdict)},"
    if verdict.metric == "mistake_rate":
        right = [_right(error) for error in (verdict.error, verdict.constant, verdict.linear)]
        linear = "" if verdict.linear is None else f", a linear model learnt the same way in {right[2]}"
        return (
            f"{where} it names the right class in {right[0]} of cases; always naming the majority class is right in "
            f"{right[1]}{linear}."
        )
    r2 = (result.get(verdict.split) or {}).get("r2")
    explained = f" (R2 {number(r2)})" if r2 is not None else ""
    linear = "" if verdict.linear is None else f", a linear model learnt the same way {number(verdict.linear)}"
    return (
        f"{where} its mean squared error is {number(verdict.error)}{explained}; always predicting the mean gives "
        f"{number(verdict.constant)}{linear}."
    )


def _seen(verdict: Verdict) -> str:
    if verdict.split == "train":
        return "on the rows it learnt from"
    return (
        "on each row before it learnt it"
        if verdict.passes == 1
        else f"on each row as it came by, {verdict.passes} times"
    )


def _why_linear_wins(result: Mapping[str, Any]) -> str:
    """What to make of a linear model that does better; where a linear map leads, no kernel is to blame."""
    if (result.get("chosen") or {}).get("map") != "linear":
        return f"The kernel does not pay here, or its bandwidth or step size does not fit{_unscaled(result)}."
    advice = "" if result.get("choice") else " Try okl train without --solver: a race of maps and models chooses."
    return f"The map that leads here is linear, too.{advice}"


def _unscaled(result: Mapping[str, Any]) -> str:
    """The usual reason why a bandwidth does not fit: one distance for columns of very different sizes."""
    settings, data = result.get("settings") or {}, result.get("dataset") or {}
    chosen = result.get("chosen") or {}
    one_bandwidth = "bandwidth" in chosen or settings.get("bandwidth", "auto") != "auto"
    rescaled = settings.get("rescale", "stored") not in ("stored", "none")
    plain = data.get("scale") == "none" and not rescaled and "maps" not in chosen  # maps: some of them standardise
    return "; columns of very different sizes take --rescale standard" if one_bandwidth and plain else ""


def _other_settings(result: Mapping[str, Any], verdict: Verdict) -> str:
    chosen = result.get("chosen") or {}
    if "support_vectors" in chosen:
        return "another bandwidth or a larger budget" if "budget" in chosen else "another bandwidth, fogd or nogd"
    return (
        "another bandwidth, step size or class weights"
        if verdict.constant_name == "majority"
        else "another bandwidth or step size"
    )


def error_text(verdict: Verdict, error: float | None) -> str:
    """An error in words."""
    if verdict.metric != "mistake_rate":
        return f"a mean squared error of {number(error)}"
    return "-" if error is None else f"{rate(error)} mistakes"


def _right(error: float | None) -> str:
    return "-" if error is None else f"{100 * (1 - error):.1f}%"


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
