"""What constrained quantities come to on rows: of scores, as they are constrained, and of decisions beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.execution.protocol import Execution
from okl.online.constraints.columns import Columns, read_side
from okl.online.constraints.quantities import Constraint, Covariance, GroupMean, columns_of
from okl.online.constraints.weighings import Weighings
from okl.predictors import Predictor
from okl.store.dataset import Dataset, Shard
from okl.store.reading import read_rows
from okl.types import FloatArray, Precision

Moments = NDArray[np.float64]
"""(2, weighings, 3, 3): sums over rows of weight^a value^b, of scores and then of decisions (1 from 0 upward)."""


@dataclass(frozen=True, eq=False)
class MeasureShard:
    """Work on one shard: its moments, with a predictor that is given."""

    data: Dataset
    weighings: Weighings
    precision: Precision

    def __call__(self, shard: Shard, predictor: Predictor) -> Moments:
        """Moments of a shard, row group by row group."""
        names = columns_of(self.weighings.constraints)
        total = np.zeros((2, len(self.weighings.all), 3, 3))
        for group in range(len(shard.row_groups)):
            columns = read_side(self.data, shard, group, names)
            rows = read_rows(self.data, shard, (group,), self.precision)
            where = f"{shard.path}, row group {group}"
            total += moments_of(self.weighings, columns, predictor.scores(rows.inputs), where)
        return total


def moments_of(weighings: Weighings, columns: Columns, scores: FloatArray, where: str) -> Moments:
    """Moments of rows in memory: scores (rows,), and the columns beside them."""
    scores = scores.astype(np.float64)
    weights = weighings.of(columns, len(scores), where)
    total = np.zeros((2, len(weights), 3, 3))
    for place, values in enumerate((scores, (scores >= 0.0).astype(np.float64))):
        powers = np.stack([np.ones(len(values)), values, values**2], axis=1)
        for power in range(3):
            total[place, :, power] += weights**power @ powers
    return total


def add_moments(parts: Sequence[Moments]) -> Moments:
    """Add parts up in the order given."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def measure_constraints(
    data: Dataset,
    shards: Sequence[Shard],
    constraints: tuple[Constraint, ...],
    predictor: Predictor,
    precision: Precision,
    execution: Execution,
) -> list[dict[str, Any]]:
    """Each constraint on all rows of some shards, in one pass by the verb `sum`, as JSON.

    Returns
    -------
    a dict a constraint: value, of scores; standard_error, of the value for fresh rows; excess, outside the limits; and
    of decisions positive_rate of a group, positive_rate_difference between two, or decision_covariance with a column
    that holds more than 0 and 1; None where a group has no rows
    """
    work = MeasureShard(data, Weighings(constraints), precision)
    return figures_of(constraints, execution.sum(work, shards, predictor, add_moments))


def figures_of(constraints: tuple[Constraint, ...], moments: Moments) -> list[dict[str, Any]]:
    """Each constraint from the moments of its weighings, as `measure_constraints` gives it."""
    scores, decisions = moments
    places = {weighing: index for index, weighing in enumerate(Weighings(constraints).all)}
    found = []
    for one in constraints:
        value, error = _value(one, scores, places)
        decided, _ = _value(one, decisions, places)
        excess = None if value is None else max(0.0, value - one.high, one.low - value)
        figures = {"value": value, "standard_error": error, "excess": excess}
        found.append(figures | _of_decisions(one, decided, scores, places))
    return found


def _value(one: Constraint, moments: Moments, places: dict[Any, int]) -> tuple[float | None, float | None]:
    """The quantity of scores or of decisions, and its standard error."""
    quantity = one.quantity
    if isinstance(quantity, Covariance):
        return _covariance(moments[places[quantity]])
    if isinstance(quantity, GroupMean):
        mean, variance = _mean(moments[places[quantity.group]])
        return mean, None if variance is None else math.sqrt(variance)
    (first, of_first), (second, of_second) = (
        _mean(moments[places[group]]) for group in (quantity.first, quantity.second)
    )
    if first is None or second is None or of_first is None or of_second is None:
        return None, None
    return first - second, math.sqrt(of_first + of_second)


def _covariance(sums: Moments) -> tuple[float, float]:
    """Sums (3, 3) of weight^a value^b; the error is that of a mean of products of what is left of means."""
    rows = sums[0, 0]
    mean = sums / rows
    weight, value = mean[1, 0], mean[0, 1]
    covariance = mean[1, 1] - weight * value
    taken = np.array([[weight**2], [-2.0 * weight], [1.0]]) @ np.array([[value**2, -2.0 * value, 1.0]])
    spread = float((taken * mean).sum()) - covariance**2
    return float(covariance), math.sqrt(max(spread, 0.0) / rows)


def _mean(sums: Moments) -> tuple[float | None, float | None]:
    """Mean of a group and the variance of that; None without rows."""
    rows = sums[1, 0]
    if rows == 0.0:
        return None, None
    mean = sums[1, 1] / rows
    return float(mean), float(max(sums[1, 2] / rows - mean**2, 0.0) / rows)


def _of_decisions(
    one: Constraint, decided: float | None, scores: Moments, places: dict[Any, int]
) -> dict[str, float | None]:
    quantity = one.quantity
    if isinstance(quantity, GroupMean):
        return {"positive_rate": decided}
    if not isinstance(quantity, Covariance):
        return {"positive_rate_difference": decided}
    sums = scores[places[quantity]]
    share = sums[1, 0] / sums[0, 0]
    if sums[2, 0] != sums[1, 0] or not 0.0 < share < 1.0 or decided is None:
        return {"decision_covariance": decided}
    # of a column of 0 and 1 a covariance is the difference of two means, times share (1 - share)
    return {"positive_rate_difference": float(decided / (share * (1.0 - share)))}
