"""Permutation importance: how much worse a model gets when a column's values are dealt out to other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.errors import DataError
from okl.evaluation import in_own_unit
from okl.metrics import predicted_classes
from okl.store.dataset import Schema
from okl.store.encodings import origins
from okl.store.model import Model
from okl.types import FloatArray


@dataclass(frozen=True)
class Importance:
    """Of one source column.

    rise : mean of error with the column permuted, minus error; in mistake rate, or mean squared error in the target's
        unit squared
    spread : standard deviation of the rises over the permutations
    """

    column: str
    rise: float
    spread: float


@dataclass(frozen=True)
class Importances:
    """Of all source columns, the largest first; error : of the rows as they are."""

    rows: int
    repeats: int
    error: float
    columns: tuple[Importance, ...]

    def as_json(self) -> dict[str, Any]:
        """Rows, repeats, error, and the columns."""
        shown = [{"column": one.column, "rise": one.rise, "spread": one.spread} for one in self.columns]
        return {"rows": self.rows, "repeats": self.repeats, "error": self.error, "columns": shown}


def permutation_importance(
    model: Model,
    inputs: FloatArray,
    targets: FloatArray,
    repeats: int = 5,
    seed: int = 0,
    n_threads: int = 1,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Importances:
    """Permute the values of each source column among the rows, and see how much the error rises.

    All inputs that come of one source column (its categories, the parts of a date) move together. Of two columns that
    say the same, either alone may look useless.

    Parameters
    ----------
    inputs : (rows, n_features), scaled; targets : (rows,) as in `okl.store.reading.Rows`; rows that were not learnt
    repeats : permutations a column, at least 1; seed : of the permutations
    advance : told columns done, and all

    Raises
    ------
    DataError : fewer than two rows

    Source: Breiman, Machine Learning 45, 2001, section 10; on any model as in Fisher, Rudin & Dominici, JMLR 20(177),
    2019, section 3.2.
    """
    if len(inputs) < 2:
        raise DataError(f"{len(inputs)} rows came to be explained on, but values are dealt out among at least two.")
    schema, random, n_rows = model.schema, np.random.default_rng(seed), len(inputs)
    total = _total(model, inputs, targets, n_threads)
    source = np.array(origins(schema.features, schema.encodings))
    permuted = inputs.copy()
    found = []
    for number, column in enumerate(schema.source_columns):
        group = np.flatnonzero(source == column)
        rises = np.empty(repeats)
        for repeat in range(repeats):
            permuted[:, group] = inputs[random.permutation(len(inputs))[:, None], group]
            rises[repeat] = _total(model, permuted, targets, n_threads) - total
        permuted[:, group] = inputs[:, group]
        # counts of mistakes are whole, so what cancels is 0; means of them would leave 1e-17
        found.append(Importance(column, float(rises.mean() / n_rows), float(rises.std() / n_rows)))
        advance(number + 1, len(schema.source_columns))
    found.sort(key=lambda one: -one.rise)
    return Importances(n_rows, repeats, total / n_rows, tuple(found))


def _total(model: Model, inputs: FloatArray, targets: FloatArray, n_threads: int) -> float:
    return float(_mistakes(model.schema, model.predictor.scores(inputs, n_threads), targets).sum())


def _mistakes(schema: Schema, scores: FloatArray, targets: FloatArray) -> NDArray[Any]:
    if schema.task == "regression":
        squares: NDArray[Any] = (in_own_unit(schema, scores) - in_own_unit(schema, targets)) ** 2
        return squares
    true = targets.astype(np.int64) if schema.task == "multiclass" else (targets > 0).astype(np.int64)
    mistakes: NDArray[Any] = predicted_classes(scores) != true
    return mistakes
