"""Quality of a model on labelled rows: tallies of errors, and permutation importance of its columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Protocol, runtime_checkable

import numpy as np

from okl.data.dataset import Schema, origins
from okl.features.predictors import Predictor
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Criterion, Doubles, FloatArray
from okl.metrics.calibration import log_losses, probabilities_of
from okl.metrics.criterion import criterion_error
from okl.metrics.definitions import Tally, measure, predicted_classes
from okl.metrics.ranking import confusion_from, threshold_for
from okl.models.inputs import class_indices

PICTURED = 3.0
"""Standard deviations of the target around its mean in the picture of predicted against true: about 99% of the rows."""


def tally_of(schema: Schema, scores: FloatArray, targets: FloatArray, predictor: Predictor | None = None) -> Tally:
    """Return the tally of scores and targets in the target's unit, with the predictor's probabilities if any."""
    statistics = schema.target_statistics
    extent = None
    if schema.task == "regression" and statistics is not None:
        # a few far targets would leave all others in one cell of the picture
        reach = PICTURED * statistics.standard_deviation
        extent = max(statistics.minimum, statistics.mean - reach), min(statistics.maximum, statistics.mean + reach)
    return measure(schema.task, scores, targets, schema.n_outputs, extent, logits_of(predictor, scores))


@runtime_checkable
class HasLogits(Protocol):
    """A predictor with probabilities."""

    def logits(self, scores: FloatArray) -> FloatArray | None:
        """Return log-odds of two classes (rows,), or logits (rows, n_outputs), of its scores; None of a regression."""


def logits_of(predictor: Predictor | None, scores: FloatArray) -> FloatArray | None:
    """Return log-odds or logits of the scores of a predictor; None if it has no probabilities."""
    return predictor.logits(scores) if isinstance(predictor, HasLogits) else None


def in_target_unit(schema: Schema, values: FloatArray) -> Doubles | FloatArray:
    """Return regression scores or targets in the unit of the target; other values unchanged."""
    shift, factor = schema.target_shift_and_factor
    if schema.task != "regression" or (shift, factor) == (0.0, 1.0):
        return values
    return np.asarray(values, dtype=np.float64) / (factor or 1.0) + shift


LONGEST_SHOWN = 100


class MetricValues(dict[str, Any]):
    """Metrics by name, a dictionary whose repr leaves out long values such as histograms."""

    def __repr__(self) -> str:
        texts = {name: repr(value) for name, value in self.items()}
        shown = (f"{name!r}: {text if len(text) <= LONGEST_SHOWN else '...'}" for name, text in texts.items())
        return f"{{{', '.join(shown)}}}"


def in_scaled_unit(schema: Schema, report: dict[str, Any]) -> MetricValues:
    """Return a report with squared_loss of the scaled target, as in training; mse, mae and r2 stay in its unit."""
    values = MetricValues(report)
    if values.get("squared_loss") is not None:
        factor = schema.target_shift_and_factor[1]
        # not factor**2: the square of the factor alone may overflow
        values["squared_loss"] = values["squared_loss"] * factor * factor
    return values


def check_one_threshold(threshold: float | None, recall: float | None, precision: float | None) -> None:
    """Raise ConfigError if more than one of three determines a threshold."""
    wanted = {"threshold": threshold, "recall": recall, "precision": precision}
    given = [name for name, value in wanted.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{given[0]} and {given[1]} both determine the threshold. Remove one.")


def decided(tally: Tally, recall: float | None, precision: float | None) -> tuple[Tally, float]:
    """Return a tally of two classes decided by the threshold of wanted recall or precision, and the threshold."""
    assert tally.ranking is not None, "there are two classes"
    found = threshold_for(tally.ranking, recall, precision)
    if found is None:
        wanted = f"precision {precision:g}" if recall is None else f"recall {recall:g}"
        raise ConfigError(f"No threshold has {wanted} on these rows. Lower it, or give rows of both classes.")
    chosen = float(probabilities_of(np.array([found]))[0, 1])
    return replace(tally, confusion=confusion_from(tally.ranking, found)), chosen


# Permutation importance: increase of the error when the values of a column are permuted

MOST_PERMUTED, LEAST_PERMUTED, FEW_PERMUTED = 2000, 200, 500
MOST_PRODUCTS = 10**10  # of a number of the predictor with one of a row
PERMUTED_SHARE = 0.2  # of the products of all rows' scores; training and evaluation take several times these products
REPEATS, FEWEST_REPEATS = 3, 2  # permutations of each column in a run; a spread takes two


@dataclass(frozen=True)
class Importance:
    """Mean rise of the error with a source column permuted, and its standard deviation over the permutations."""

    column: str
    rise: float
    spread: float


@dataclass(frozen=True, repr=False)
class Importances:
    """Importances of all source columns, the largest first.

    error : error by the criterion without permutation, of a regression the mean squared error; the repr shows its root
    """

    rows: int
    repeats: int
    error: float
    columns: tuple[Importance, ...]
    criterion: Criterion

    def __repr__(self) -> str:
        lines = ["    ".join(cells).rstrip() for cells in self._cells()]
        return "\n".join([f"Importance of columns on {self.rows:,} rows ({self._unit})", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{text}</td></tr>" for name, text in self._cells())
        return f"<table><caption>Rise of the error ({self._unit}), columns permuted</caption>{rows}</table>"

    @property
    def _unit(self) -> str:
        return "root mean squared error" if self.criterion == "squared-error" else self.criterion

    def _cells(self) -> list[tuple[str, str]]:
        width = max((len(item.column) for item in self.columns), default=0)
        values = [(item.rise, item.spread) for item in self.columns]
        shown = rises_of_root(self.error, values) if self.criterion == "squared-error" else values
        cells = zip(self.columns, shown, strict=True)
        return [(item.column.ljust(width), f"{rise:.3g} +- {spread:.2g}") for item, (rise, spread) in cells]

    def as_json(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in ("rows", "repeats", "criterion", "error")}
        return named | {"columns": [vars(item) for item in self.columns]}


def rises_of_root(error: float, values: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return rises of the root of an error, with their standard deviations, from those of the error itself.

    >>> rises_of_root(9.0, [(16.0, 1.0)])
    [(2.0, 0.1)]
    """
    roots = [(math.sqrt(max(0.0, error + rise)), spread) for rise, spread in values]
    return [(root - math.sqrt(error), spread / (2.0 * root or 1.0)) for root, spread in roots]


def permutation_importance(
    schema: Schema,
    predictor: Predictor,
    inputs: FloatArray,
    targets: FloatArray,
    criterion: Criterion,
    repeats: int = 5,
    seed: int = 0,
    n_threads: int = 1,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Importances:
    """Compute the increase of the error when the values of each source column are permuted among the rows.

    All inputs of a source column (its categories, the parts of a date) are permuted together. If two columns carry
    the same information, each alone may seem unimportant.

    inputs : (rows, n_features), scaled, of rows that were not used for training
    targets : (rows,), as in `okl.data.reading.Rows`; repeats : permutations of each column, at least 1
    seed : of the permutations; advance : called with the number of finished columns and of all columns
    Raises DataError : fewer than two rows
    Source: Breiman, Machine Learning 45, 2001, section 10; for any model as in Fisher, Rudin & Dominici, JMLR 20(177),
    2019, section 3.2.
    """
    if len(inputs) < 2:
        raise DataError(
            f"{len(inputs)} rows to explain the model on; expected at least two, as values are permuted among rows."
        )
    random, n_rows = np.random.default_rng(seed), len(inputs)
    total = _total(schema, predictor, inputs, targets, n_threads, criterion)
    source = np.array(origins(schema.features, schema.encodings))
    permuted = inputs.copy()
    importances = []
    for index, column in enumerate(schema.source_columns):
        group = np.flatnonzero(source == column)
        rises = np.empty(repeats)
        for repeat in range(repeats):
            permuted[:, group] = inputs[random.permutation(len(inputs))[:, None], group]
            rises[repeat] = _total(schema, predictor, permuted, targets, n_threads, criterion) - total
        permuted[:, group] = inputs[:, group]
        # sums of mistakes are whole numbers, so equal sums cancel to 0; means would leave 1e-17
        importances.append(Importance(column, float(rises.mean() / n_rows), float(rises.std() / n_rows)))
        advance(index + 1, len(schema.source_columns))
    importances.sort(key=lambda importance: -importance.rise)
    return Importances(n_rows, repeats, total / n_rows, tuple(importances), criterion)


def permuted_criterion(criterion: Criterion, n_rows: int, predictor: Predictor) -> Criterion:
    """Return the log loss instead of the accuracy for few rows, whose mistakes may be the same after a permutation."""
    few = n_rows < FEW_PERMUTED and isinstance(predictor, HasLogits)
    return "log-loss" if criterion == "accuracy" and few else criterion


def rows_to_permute(schema: Schema, predictor: Predictor, n_rows: int) -> tuple[int, int]:
    """Return the rows, at most MOST_PERMUTED, and repeats whose importances take a second or a tenth of a run.

    With fewer than that many rows, there are fewer repeats; 0 rows if even so there are too few.

    n_rows : all rows of the run, which are scored once
    """
    numbers = max(1, sum(array.size for array in predictor.arrays().values()))
    products = max(MOST_PRODUCTS, PERMUTED_SHARE * numbers * n_rows)
    rows = repeats = 0
    for repeats in range(REPEATS, FEWEST_REPEATS - 1, -1):
        rows = int(min(MOST_PERMUTED, products // (numbers * len(schema.source_columns) * repeats)))
        if rows == MOST_PERMUTED:
            break
    return (rows if rows >= LEAST_PERMUTED else 0), repeats


def _total(
    schema: Schema, predictor: Predictor, inputs: FloatArray, targets: FloatArray, n_threads: int, criterion: Criterion
) -> float:
    """Return the error of rows by a criterion, times their number."""
    scores = predictor.scores(inputs, n_threads)
    if criterion == "squared-error":
        return float(((in_target_unit(schema, scores) - in_target_unit(schema, targets)) ** 2).sum())
    classes = class_indices(schema, targets)
    if criterion == "accuracy":
        return float((predicted_classes(scores) != classes).sum())
    logits = logits_of(predictor, scores)
    if criterion == "log-loss" and logits is not None:
        return float(log_losses(logits, classes).sum())
    return len(classes) * criterion_error(criterion, np.asarray(scores, dtype=np.float64), classes)
