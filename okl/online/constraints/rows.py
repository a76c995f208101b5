"""Rows of constraints over a map's columns, from one pass over all training rows by the verb `sum`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import one_blas_thread
from okl.errors import ConfigError
from okl.execution.protocol import Execution
from okl.features.protocol import FeatureMap
from okl.online.constraints.columns import Columns, read_side
from okl.online.constraints.quantities import Constraint, Group, columns_of
from okl.online.constraints.weighings import Weighings
from okl.store.dataset import Dataset, Shard
from okl.store.reading import read_rows
from okl.types import FloatArray

BLOCK_ROWS = 1024  # of features that are made float64 at a time
MOST_SEEN = 8


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over rows, float64.

    products : (weighings, n_columns), of weight times features; totals, squares : (weighings,), of weights and their
        squares; counts : (weighings,), rows whose weight is not 0; seen : some values of the groups' columns
    """

    products: NDArray[np.float64]
    totals: NDArray[np.float64]
    squares: NDArray[np.float64]
    counts: NDArray[np.int64]
    seen: dict[str, tuple[str, ...]]

    def plus(self, other: RowSums) -> RowSums:
        """Both together."""
        return RowSums(
            self.products + other.products,
            self.totals + other.totals,
            self.squares + other.squares,
            self.counts + other.counts,
            {name: _some({*values, *other.seen[name]}) for name, values in self.seen.items()},
        )


def add_sums(parts: Sequence[RowSums]) -> RowSums:
    """Add parts up in the order given."""
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


def sums_of(weighings: Weighings, features: FloatArray, columns: Columns, where: str) -> RowSums:
    """Sums of rows in memory: features (rows, n_columns) and the columns beside them."""
    weights = weighings.of(columns, len(features), where)
    products = np.zeros((len(weights), features.shape[1]))
    with one_blas_thread():
        for first in range(0, len(features), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            products += weights[:, part] @ features[part].astype(np.float64)
    names = {weighing.column for weighing in weighings.all if isinstance(weighing, Group)}
    seen = {name: _some({_word(value) for value in np.unique(columns[name].astype(str))}) for name in sorted(names)}
    return RowSums(products, weights.sum(axis=1), (weights**2).sum(axis=1), np.count_nonzero(weights, axis=1), seen)


@dataclass(frozen=True, eq=False)
class SumRows:
    """Work on one shard: its part of the sums."""

    data: Dataset
    weighings: Weighings

    def __call__(self, shard: Shard, feature_map: FeatureMap) -> RowSums:
        """Sums over the rows of a shard, row group by row group."""
        names, parts = columns_of(self.weighings.constraints), []
        for group in range(len(shard.row_groups)):
            columns = read_side(self.data, shard, group, names)
            rows = read_rows(self.data, shard, (group,), feature_map.precision)
            features = feature_map.transform(rows.inputs)
            parts.append(sums_of(self.weighings, features, columns, f"{shard.path}, row group {group}"))
        return add_sums(parts)


def estimate_rows(
    data: Dataset, constraints: tuple[Constraint, ...], feature_map: FeatureMap, execution: Execution
) -> tuple[NDArray[np.float64], RowSums]:
    """Rows C (constraints, n_columns) with C w the quantities of all training rows, and the sums they come from.

    One pass; parts are added up in shard order, so that the bits do not depend on who computed them.

    Raises
    ------
    ConfigError : a group without a training row; DataError : a column that does not fit its constraint
    """
    weighings = Weighings(constraints)
    sums: RowSums = execution.sum(SumRows(data, weighings), data.split("train"), feature_map, add_sums)
    return rows_from(weighings, sums), sums


def rows_from(weighings: Weighings, sums: RowSums) -> NDArray[np.float64]:
    """The rows that sums make, or ConfigError for a group without a row."""
    for weighing, count in zip(weighings.all, sums.counts, strict=True):
        if isinstance(weighing, Group) and not count:
            seen = ", ".join(sums.seen[weighing.column])
            raise ConfigError(
                f"The group {weighing} has no training rows; column {weighing.column!r} holds {seen}. Name one of its "
                "values."
            )
    return weighings.combined(sums.products, sums.totals)


def _some(values: set[str]) -> tuple[str, ...]:
    return tuple(sorted(values)[:MOST_SEEN])


def _word(value: object) -> str:
    text = str(value)
    return text.removesuffix(".0")
