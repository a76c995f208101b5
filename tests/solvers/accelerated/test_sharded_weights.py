"""Class weights over shards equal those of the estimators, for two classes and for several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.data.reading import read_rows
from okl.distributed import open_execution
from okl.estimators.accelerated import UnifiedClassifier
from okl.foundation.settings import IngestSettings
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.models import parameter_of
from okl.solvers.accelerated.problem import error_minimising_bias
from tests.solver_cases import last_state
from tests.solvers.accelerated.sharded_cases import solver

WEIGHTS = (2.0, 0.5, 1.2)
TOLERANCE = 1e-3
# sets with a hyperplane, with two, curvatures, barriers of both kinds, an l1 penalty, and moments
MODELS = {"c-svm": 0.1, "nu-svm": 0.4, "l2-svm": 0.1, "logistic": 0.1, "dwd": 0.5, "l1-logistic": 0.1, "mm-mpm": 0.2}


def clusters(folder: Path, n_classes: int) -> Dataset:
    """Return overlapping classes of unequal size, each separable from the rest, in three shards."""
    random = np.random.default_rng(5)
    labels = random.choice(n_classes, 600, p=np.array([0.2, 0.45, 0.35])[:n_classes] / [0.65, 1.0][n_classes - 2])
    inputs = np.array([[1.5, 0.0], [-1.0, 1.3], [-1.0, -1.3]])[labels] + random.normal(size=(600, 2))
    columns = {f"x{j}": inputs[:, j].astype(np.float32) for j in range(2)} | {"y": labels}
    pq.write_table(pa.table(columns), folder / "source.parquet")
    data = ingest(folder / "source.parquet", folder / "data", IngestSettings(rows_per_shard=200)).dataset
    assert len(data.split("train")) > 1
    assert len(data.schema.class_counts) == n_classes
    return data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Dataset]:
    return {classes: clusters(tmp_path_factory.mktemp("clusters"), classes) for classes in (2, 3)}


@pytest.fixture(scope="module")
def here() -> Iterator[Execution]:
    with open_execution(0, threads=1) as execution:
        yield execution


def rows_of(data: Dataset) -> tuple[FloatArray, FloatArray]:
    parts = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split("train")]
    return np.concatenate([part.inputs for part in parts]), np.concatenate([part.targets for part in parts])


@pytest.mark.parametrize("name", MODELS)
def test_shards_and_estimators_solve_the_same_weighted_problems(
    name: str, data: dict[int, Dataset], here: Execution
) -> None:
    inputs, targets = rows_of(data[3])
    learning = solver(name, TOLERANCE, kernel=False, value=MODELS[name])
    solved = last_state(replace(learning, class_weights=WEIGHTS), data[3], here).solved
    expected, unweighted = (
        UnifiedClassifier(model=name, class_weight=dict(enumerate(weights)), tol=TOLERANCE)
        .set_params(**{parameter_of(name): MODELS[name]})
        .fit(inputs, targets)
        .objective_
        for weights in (WEIGHTS, (WEIGHTS[0], 1.0, 1.0))
    )
    np.testing.assert_allclose([one.certificate.primal for one in solved], expected, rtol=2 * TOLERANCE)
    for one, primal in zip(solved, expected, strict=True):
        assert one.certificate.dual <= primal + one.certificate.rounding
    # the problem of the first class differs if the other classes have equal weights
    assert abs(expected[0] / unweighted[0] - 1.0) > 3 * TOLERANCE


@pytest.mark.parametrize(("name", "n_classes"), [("c-svm", 2), ("l1-logistic", 2), ("l1-logistic", 3)])
def test_bias_of_fewest_errors_weighs_them_as_estimators_do(
    name: str, n_classes: int, data: dict[int, Dataset], here: Execution
) -> None:
    inputs, targets = rows_of(data[n_classes])
    weights = (9.0, 1.0, 3.0)[:n_classes]
    learning = replace(solver(name, TOLERANCE, kernel=False, bias="errors"), class_weights=weights)
    classes, codes = np.unique(targets, return_inverse=True)
    estimator = UnifiedClassifier(
        model=name,
        C=learning.task.value,
        class_weight=dict(zip(classes.tolist(), weights, strict=True)),
        bias="errors",
        tol=TOLERANCE,
    ).fit(inputs, targets)
    counted = np.array(weights)[codes]
    for index, one in enumerate(last_state(learning, data[n_classes], here).solved):
        signs = targets if n_classes == 2 else np.where(codes == index, 1.0, -1.0)
        scores = inputs @ one.weights[:-1]

        def errors(scores: FloatArray, signs: FloatArray = signs) -> float:
            return float(counted[(scores >= 0.0) != (signs > 0.0)].sum())

        estimator_errors = errors(inputs @ estimator.coef_[index] + estimator.intercept_[index])
        assert errors(scores - one.bias) == pytest.approx(estimator_errors, abs=max(weights))
        assert errors(scores - one.bias) < errors(scores - error_minimising_bias(scores, signs))
