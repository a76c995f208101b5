"""Quality of a model on labelled rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.data.dataset import ColumnStatistics, Schema
from okl.models.quality import tally_of


def range_and_cells(targets: NDArray[np.float64]) -> tuple[list[float], int]:
    """Return the range of the plot of predicted against true values, and its cells with 1% of the rows or more."""
    statistics = ColumnStatistics(
        len(targets), float(targets.mean()), float(targets.std()), float(targets.min()), float(targets.max())
    )
    schema = Schema(("a",), "y", "regression", target_statistics=statistics)
    picture = tally_of(schema, targets, targets).report()["predicted_vs_true"]
    counts = np.array(picture["counts"])
    assert counts.sum() == len(targets)
    return picture["range"], int((counts >= 0.01 * len(targets)).sum())


def test_a_few_outlying_targets_do_not_put_all_others_into_one_cell() -> None:
    random = np.random.default_rng(0)
    targets = np.exp(random.normal(0.0, 1.0, 10_000))
    (low, high), cells = range_and_cells(np.append(targets, 300.0))
    assert (low, cells > 10) == (targets.min(), True)
    assert np.quantile(targets, 0.98) < high < 20.0
    evenly = random.random(10_000)
    assert range_and_cells(evenly) == ([evenly.min(), evenly.max()], 40)
