"""The estimators and the command have the same defaults, in the table of their settings and on the same rows."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.estimators import accelerated
from okl.estimators.accelerated import UnifiedClassifier
from okl.foundation.settings import IngestSettings
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.fitting import ModelTask
from okl.solvers.accelerated.method import Fapg
from okl.solvers.accelerated.models import MODEL_NAMES, parameter_of
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.online.maps import InputsChoice
from okl.solvers.settings import TrainSettings

# estimator : command. Two differ on purpose: the kernel of an estimator is "linear", the inputs as they are, which no
# map is needed for; and the l1 estimators have an intercept, that of fewest training errors, as scikit-learn's have.
SAME = {
    "C": "C",
    "nu": "nu",
    "kappa": "kappa",
    "bias": "bias",
    "fit_intercept": "fit_intercept",
    "bandwidth": "bandwidth",
    "degree": "degree",
    "offset": "offset",
    "tol": "tol",
    "max_iter": "max_iterations",
}
CLASSES = [
    kind
    for name, kind in vars(accelerated).items()
    if name.endswith("Classifier") and not name.startswith("_") and kind.__module__ == accelerated.__name__
]


def resolved(name: str, value: Any) -> Any:
    """A default as a number: C is 1 where it is chosen."""
    return (1.0 if name == "C" else "auto") if value in (None, "auto") else value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_defaults_are_those_of_the_command(kind: type[Any]) -> None:
    command = {name: TrainSettings.defaults()[theirs] for name, theirs in SAME.items()}
    own = {field.name: field.default for field in fields(kind) if field.name in SAME}
    assert {"tol", "max_iter", "fit_intercept"} <= set(own)
    assert {name: resolved(name, value) for name, value in own.items()} == {
        name: resolved(name, command[name]) for name in own
    }
    assert kind.n_columns == 2 * TrainSettings.defaults()["frequencies"]


def two_clouds() -> tuple[FloatArray, FloatArray]:
    random = np.random.default_rng(2)
    labels = (random.random(300) < 0.4).astype(np.float64)
    return (random.normal(size=(300, 3)) + 1.5 * labels[:, np.newaxis]).astype(np.float32), labels


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_a_parameter_that_is_not_given_is_the_same(model: str, tmp_path: Path) -> None:
    inputs, labels = two_clouds()
    columns = {f"x{index}": inputs[:, index] for index in range(3)} | {"y": labels}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    data = ingest(tmp_path / "rows.parquet", tmp_path / "data", IngestSettings()).dataset
    solver = AcceleratedSolver(ModelTask(model), InputsChoice(), method=Fapg(tolerance=1e-3, max_iterations=2000))
    with open_execution(0, threads=1) as execution:
        state = solver.start(data, execution)
        while solver.finished(state) is None:
            state = solver.advance(state, data, execution)
    fitted = UnifiedClassifier(model=model, tol=1e-3).fit(inputs, labels)
    own = parameter_of(model)
    assert fitted.chosen_[own] == pytest.approx(solver.chosen(state)[own], rel=1e-4)
    assert fitted.chosen_[f"{own}_reason"] == solver.chosen(state)[f"{own}_reason"]


def test_the_bias_of_fewest_errors_has_two_names() -> None:
    inputs, labels = two_clouds()
    biases: list[Any] = ["errors", "error-minimising"]
    one, other = (UnifiedClassifier(bias=bias).fit(inputs, labels).intercept_ for bias in biases)
    np.testing.assert_array_equal(one, other)
