"""Assessment of a run: its error compared with baselines, warnings, and advice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from okl.report.format import duration, mistake_rate_text, number

MEASURED_ON = {"test": "on test rows", "progressive": "during training", "train": "on training rows"}
MOST_DATA_WARNINGS = 3
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Assessment:
    """Errors of a model and its baselines, on test rows if there are any, otherwise during training.

    Parameters
    ----------
    split : "test", "progressive" (each row predicted before it is trained on), or "train"
    rows : number of rows, 0 if unknown
    metric : name of the error, less is better
    constant_name : "majority" or "mean"
    error, constant, linear : errors of the model, the constant baseline and the linear baseline; None if unknown
    passes : number of passes over the training rows
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
        """Return whether the error was measured only on rows before the model was trained on them."""
        return self.split == "test" or (self.split == "progressive" and self.passes == 1)

    @property
    def beats_constant(self) -> bool | None:
        """Return whether the error is below that of the constant baseline; None if unknown."""
        return None if self.error is None or self.constant is None else self.error < self.constant

    @property
    def may_be_chance(self) -> bool:
        """Return whether a lower mistake rate is within two binomial standard errors of the constant baseline's."""
        if not self.beats_constant or self.metric != "mistake_rate" or not self.rows:
            return False
        assert self.constant is not None
        assert self.error is not None
        return self.constant - self.error <= self.chance(self.constant)

    def chance(self, error: float) -> float:
        """Return two binomial standard errors of a mistake rate; 0 for other errors, whose variance is unknown."""
        applies = self.metric == "mistake_rate" and self.rows and 0.0 <= error <= 1.0
        return STANDARD_ERRORS * math.sqrt(error * (1.0 - error) / self.rows) if applies else 0.0


def assess(result: Mapping[str, Any]) -> Assessment:
    """Return the errors that a run is assessed by."""
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
    return Assessment(split, int(rows or 0), metric, constant_name, error, constant, linear, passes)


def summary_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the training and one on the error compared with the baselines."""
    data = result.get("dataset") or {}
    labels = data.get("labels") or []
    classes = f" ({len(labels)} classes)" if labels else ""
    training = (
        f"Trained to predict {data.get('target', 'the target')}{classes} from {number(data.get('features'))} input "
        f"columns on {number(result.get('rows'))} rows in {duration(result.get('seconds'))} "
        f"({number(result.get('rows_per_second'))} rows per second; {duration(result.get('total_seconds'))} in total)."
    )
    return [training, _quality(assess(result), result)]


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return warnings: a model that is no better than a baseline, no held-out rows, and warnings of ingestion."""
    verdict = assess(result)
    warnings = []
    errors = f"{error_text(verdict, verdict.error)}, baseline {error_text(verdict, verdict.constant)}"
    baseline = "the majority class" if verdict.constant_name == "majority" else "the mean"
    if verdict.beats_constant is False:
        warnings.append(
            f"The model is no better than always predicting {baseline}: {errors}. Scale the columns, or try "
            f"{_other_settings(result, verdict)}."
        )
    elif verdict.may_be_chance:
        warnings.append(
            f"The model may be better than always predicting {baseline} only by chance: {errors}, a difference within "
            f"two standard errors on {verdict.rows:,} rows."
        )
    if verdict.error is not None and verdict.linear is not None and verdict.error > verdict.linear:
        may_be_chance = verdict.error - verdict.linear <= verdict.chance(verdict.error)
        comparison = "as good, within chance" if may_be_chance else "better"
        warnings.append(
            f"A linear model is {comparison}: {error_text(verdict, verdict.linear)}, this model "
            f"{error_text(verdict, verdict.error)}. {_why_linear_wins(result)}"
        )
    if not verdict.is_of_unseen_rows and verdict.error is not None:
        cause = "only on training rows" if verdict.split == "train" else f"over {verdict.passes} passes of training"
        warnings.append(
            f"The error was measured {cause} and may be larger on new rows. Hold out test rows when training or "
            "ingesting a source: --holdout 0.2."
        )
    of_data = [f"Data: {warning}" for warning in (result.get("dataset") or {}).get("warnings") or []]
    if len(of_data) > MOST_DATA_WARNINGS:
        more = len(of_data) - MOST_DATA_WARNINGS
        of_data = [*of_data[:MOST_DATA_WARNINGS], f"Data: {more:,} more warnings, shown by `okl describe`."]
    return warnings + of_data


def _quality(verdict: Assessment, result: Mapping[str, Any]) -> str:
    if verdict.metric == "mistake_rate":
        right = [_right(error) for error in (verdict.error, verdict.constant, verdict.linear)]
        linear = "" if verdict.linear is None else f", linear model {right[2]}"
        return f"Accuracy {_measured_on(verdict)}: {right[0]} (majority class {right[1]}{linear})."
    r2 = (result.get(verdict.split) or {}).get("r2")
    explained = f", R2 {number(r2)}" if r2 is not None else ""
    linear = "" if verdict.linear is None else f", linear model {number(verdict.linear)}"
    return (
        f"Mean squared error {_measured_on(verdict)}: {number(verdict.error)}{explained} "
        f"(predicting the mean {number(verdict.constant)}{linear})."
    )


def _measured_on(verdict: Assessment) -> str:
    if verdict.split == "test":
        return f"on {verdict.rows:,} test rows"
    if verdict.split == "train":
        return "on the training rows (no test rows)"
    passes = "" if verdict.passes == 1 else f", over {verdict.passes} passes"
    return f"on training rows, each predicted before the update{passes} (no test rows)"


def _why_linear_wins(result: Mapping[str, Any]) -> str:
    """Return the likely reason why a linear model is better, and advice."""
    if (result.get("chosen") or {}).get("map") != "linear":
        return f"The kernel does not help here, or its bandwidth or step size is unsuitable{_unscaled(result)}."
    advice = "" if result.get("choice") else " Try okl train without --solver, which compares maps and solvers."
    return f"The chosen map is also linear.{advice}"


def _unscaled(result: Mapping[str, Any]) -> str:
    """Return advice to scale the columns, the usual reason for an unsuitable bandwidth; "" if they are scaled."""
    settings, data = result.get("settings") or {}, result.get("dataset") or {}
    chosen = result.get("chosen") or {}
    single_bandwidth = "bandwidth" in chosen or settings.get("bandwidth", "auto") != "auto"
    rescaled = settings.get("rescale", "stored") not in ("stored", "none")
    plain = data.get("scale") == "none" and not rescaled and "maps" not in chosen  # maps: some of them standardise
    return "; for columns with different ranges, use --rescale standard" if single_bandwidth and plain else ""


def _other_settings(result: Mapping[str, Any], verdict: Assessment) -> str:
    chosen = result.get("chosen") or {}
    if "support_vectors" in chosen:
        return "another bandwidth or a larger budget" if "budget" in chosen else "another bandwidth, fogd or nogd"
    return (
        "another bandwidth, step size or class weights"
        if verdict.constant_name == "majority"
        else "another bandwidth or step size"
    )


def error_text(verdict: Assessment, error: float | None) -> str:
    """Return an error as text with its name."""
    if verdict.metric != "mistake_rate":
        return f"mean squared error {number(error)}"
    return "-" if error is None else f"{mistake_rate_text(error)} mistakes"


def _right(error: float | None) -> str:
    return "-" if error is None else f"{100 * (1 - error):.1f}%"


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
