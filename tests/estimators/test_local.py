"""Estimators of kernel least squares in cells: the same models as the command, from rows in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import okl
from okl.estimators.ridge import LocalRidgeClassifier, LocalRidgeRegressor
from okl.features.predictors import LocalExpansion, base_of
from okl.foundation.errors import ConfigError
from tests.estimators.cases import moons, several, waves


@pytest.mark.parametrize(
    ("made", "data", "options"),
    [
        (LocalRidgeClassifier(class_weight={0: 3.0, 1: 1.0}), moons, {"task": "binary", "class_weights": {"0": 3.0}}),
        (LocalRidgeClassifier(precision="float64"), several, {"task": "multiclass", "precision": "float64"}),
        (LocalRidgeRegressor(bandwidth=2.0), waves, {"task": "regression", "bandwidth": 2.0}),
    ],
    ids=["two classes", "four classes", "regression"],
)
def test_model_has_the_bits_of_the_command(made: Any, data: Any, options: dict[str, Any], tmp_path: Path) -> None:
    inputs, targets = data()
    fitted = made.set_params(cell_rows=100, partitions=2, random_state=3).fit(inputs, targets)
    table = pa.table({f"x{index}": column for index, column in enumerate(inputs.T)} | {"target": targets})
    pq.write_table(table, tmp_path / "rows.parquet")
    rows = okl.ingest(tmp_path / "rows.parquet", tmp_path / "data", target="target", task=options.pop("task"))
    trained = okl.train(
        rows.folder, solver="local", cell_rows=100, partitions=2, seed=3, out=tmp_path / "run", **options
    )
    predictor = base_of(trained.model.predictor)
    assert isinstance(predictor, LocalExpansion)
    assert predictor.partitions[0].tree.n_cells > 4
    for name, array in predictor.arrays().items():
        np.testing.assert_array_equal(fitted.predictor_.arrays()[name], array)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    inputs, labels = moons()
    one, two = (
        LocalRidgeClassifier(cell_rows=100, partitions=2, random_state=0, n_jobs=jobs).fit(inputs, labels)
        for jobs in (1, 2)
    )
    assert one.score(inputs, labels) > 0.97
    np.testing.assert_array_equal(two.decision_function(inputs), one.decision_function(inputs))


def test_parameters_are_checked() -> None:
    inputs, labels = moons(50)
    with pytest.raises(ConfigError, match="LocalRidgeClassifier: cell_rows = 0"):
        LocalRidgeClassifier(cell_rows=0).fit(inputs, labels)
    with pytest.raises(ConfigError, match="kernel = 'polynomial': local takes gaussian"):
        LocalRidgeClassifier(kernel="polynomial").fit(inputs, labels)
