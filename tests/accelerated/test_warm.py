from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.accelerated.solver import AcceleratedSolver
from okl.configuration import IngestSettings, TrainSettings
from okl.execution import open_execution
from okl.execution.protocol import Execution
from okl.features.protocol import FeatureMap
from okl.learning import learn
from okl.planning import make_solver
from okl.predictors import LinearPredictor
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.subgradient.solver import SubgradientSolver
from tests.conftest import learnable_table

ROWS = 1500
Windows = dict[str, tuple[Dataset, Dataset]]


@dataclass(frozen=True)
class Kept:
    """A map that is there already."""

    feature_map: FeatureMap

    def draw(self, *_: Any) -> tuple[FeatureMap, dict[str, Any]]:
        return self.feature_map, {}


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Windows:
    """Of each task two windows that share nine tenths of their rows."""
    folder, made = tmp_path_factory.mktemp("windows"), {}
    for task in ("binary", "multiclass"):
        table = learnable_table(task, ROWS + ROWS // 10).drop_columns(["split"])
        settings = IngestSettings(scale="standard", rows_per_group=256, task=task)
        found: list[Dataset] = []
        for number, first in enumerate((0, ROWS // 10)):
            path = folder / f"{task}{number}.parquet"
            pq.write_table(table.slice(first, ROWS), path)
            reference = found[0].schema if found else None
            found.append(ingest(path, folder / f"{task}{number}", settings, reference=reference).dataset)
        made[task] = (found[0], found[1])
    return made


def solved(settings: TrainSettings, data: Dataset, execution: Execution) -> tuple[Any, LinearPredictor]:
    solver = make_solver(settings, data)
    assert isinstance(solver, AcceleratedSolver | SubgradientSolver)
    found = learn(solver, solver.start(data, execution), data, execution).predictor
    assert isinstance(found, LinearPredictor)
    return solver, found


CASES = [
    ("c-svm", "binary"),
    ("l2-svm", "binary"),
    ("logistic", "binary"),
    ("l1-logistic", "binary"),
    ("c-svm", "multiclass"),
]


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_warm_start_is_nearer_and_reaches_the_same_optimum(name: str, task: str, windows: Windows) -> None:
    first, second = windows[task]
    settings = TrainSettings.model_validate({"data": "none", "solver": name, "frequencies": 20, "tol": 2e-2})
    with open_execution(threads=1) as execution:
        solver, before = solved(settings, first, execution)
        cold = replace(solver, maps=Kept(before.feature_map))
        begins = [cold.start(second, execution), *(solver.start(second, execution, before) for _ in range(2))]
        ends = [learn(solver, begin, second, execution).state for begin in begins]
    proofs = [solver.certificate(end) for end in ends]
    assert all(proof["relative_gap"] <= 2e-2 for proof in proofs)
    assert abs(proofs[0]["objective"] - proofs[1]["objective"]) <= proofs[0]["gap"] + proofs[1]["gap"]
    best = min(end.solved[0].fapg.best_record.objective for end in ends)
    above = [begin.current.fapg.history[0].objective - best for begin in begins]
    assert above[1] < 0.5 * above[0]
    for key, array in solver.predictor(ends[1]).arrays().items():
        np.testing.assert_array_equal(solver.predictor(ends[2]).arrays()[key], array)


def test_a_warm_start_that_is_worse_than_the_models_own_is_not_taken(windows: Windows) -> None:
    data = windows["binary"][0]
    settings = TrainSettings.model_validate({"data": "none", "solver": "logistic", "frequencies": 20, "tol": 1e-4})
    with open_execution(threads=1) as execution:
        solver, before = solved(settings, data, execution)
        contrary = solver.start(data, execution, replace(before, weights=-1000 * before.weights))
        own = replace(solver, maps=Kept(before.feature_map)).start(data, execution)
        again = solver.start(data, execution, before)
    begun = [one.current.fapg.history[0].objective for one in (contrary, own, again)]
    assert begun[0] == begun[1] > begun[2]


@pytest.mark.parametrize("bias", ["own", "regularised"])
def test_cuts_begin_at_the_weights_that_are_given(bias: str, windows: Windows) -> None:
    first, second = windows["binary"]
    given = {"data": "none", "solver": "scs", "frequencies": 20, "gap": 1e-2, "bias": bias}
    with open_execution(threads=1) as execution:
        solver, before = solved(TrainSettings.model_validate(given), first, execution)
        cold = replace(solver, maps=Kept(before.feature_map)).start(second, execution)
        warm = solver.start(second, execution, before)
        end = learn(solver, warm, second, execution).state
    assert warm.descent.objective < cold.descent.objective
    assert solver.certificate(end)["gap"] <= 1e-2
