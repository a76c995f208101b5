"""Estimators and the command have the same defaults: a table of all options, and models of the same rows."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import BaseEstimator

import okl
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.estimators.accelerated import UnifiedClassifier
from okl.estimators.base import OPTIONS, options_of
from okl.foundation.catalogue import STRATEGIES
from okl.foundation.settings import IngestSettings
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.fitting import ModelTask
from okl.solvers.accelerated.models import MODEL_NAMES, parameter_of
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.online.maps import InputsChoice
from okl.solvers.options import SolverSettings
from okl.solvers.settings import SOLVER_NAMES, TrainSettings, owners_of, solver_settings
from tests.solver_cases import last_state

# The table: every estimator with each of its solvers.

KINDS = [
    kind
    for kind in (getattr(okl, name) for name in okl.__all__)
    if isinstance(kind, type) and issubclass(kind, BaseEstimator)
]


def solvers_of(kind: type[Any]) -> list[dict[str, Any]]:
    """Return the parameters that choose a solver, and its name."""
    if kind is UnifiedClassifier:
        return [{"model": name} for name in MODEL_NAMES]
    if hasattr(kind, "strategy"):
        return [{"strategy": name} for name in STRATEGIES]
    return [{}]


TABLE = [pytest.param(kind, given, id=f"{kind.__name__} {given}") for kind in KINDS for given in solvers_of(kind)]

# the only different defaults, with reasons
DIFFERENT = {
    # rows in memory are few: one pass of some hundreds learns little. A pass is the call of partial_fit
    "passes": 20,
    # of the accelerated models: inputs as they are need no map, may be sparse, and coef_ has an entry for each
    "kernel": "linear",
    # constraints require a ball; the command requires its radius
    "radius": 10.0,
}
# parameters that are no options of solvers: of scikit-learn, of rows in memory, or by which a solver is chosen
OF_ESTIMATORS = {
    *("n_jobs", "random_state", "memory_budget", "scale_target", "probability", "model", "strategy", "method"),
    *("directions", "growth", "text", "verbose"),
}


def resolved(options: SolverSettings) -> dict[str, Any]:
    """Return the options of a solver with automatic values resolved."""
    values = options.model_dump()
    chosen = {"C": 1.0, "loss": "hinge"}
    return {name: chosen.get(name, value) if value == "auto" else value for name, value in values.items()}


@pytest.mark.parametrize(("kind", "given"), TABLE)
def test_settings_that_an_estimator_builds_are_the_defaults_of_the_command(
    kind: type[Any], given: dict[str, Any]
) -> None:
    solver = kind(**given).solver_name
    command = resolved(solver_settings(solver)())
    own = resolved(options_of(kind(**given)))
    assert {name: value for name, value in own.items() if value != command[name]}.items() <= DIFFERENT.items()
    for field in fields(kind):
        match OPTIONS.get(field.name, field.name):
            case "precision":
                assert field.default == solver_settings(solver).PRECISION
            case "n_columns":
                assert field.default == 2 * command["frequencies"]
            case "feature_map":
                assert field.default in (None, command["map"])
            case "class_weight":
                assert (field.default is None) == (command.get("class_weights", "none") == "none")
            case "shuffle":
                assert field.default == (command["order"] == "shuffle")
            case "optimise":
                assert field.default == TrainSettings.model_fields["optimise"].default
            case "max_categories":
                assert field.default == IngestSettings.model_fields["max_categories"].default
            case "metric":
                assert field.default == "auto"  # of the automatic choice, as of the command
            case "fit_intercept":
                assert field.default is True  # l1 models only have the bias of fewest training errors
            case option if option not in {*command, *OF_ESTIMATORS}:  # of another solver of this estimator
                others = [solver_settings(name).model_fields[option] for name in owners_of(option)]
                assert field.default in (None, others[0].default)


def test_every_solver_has_an_estimator() -> None:
    found = {kind(**given).solver_name for kind in KINDS for given in solvers_of(kind)}
    # wolfe is SCS over all rows with other directions; falkon is for rows that do not fit in memory
    assert found - {"auto"} == set(SOLVER_NAMES) - {"wolfe", "falkon"}


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
        state = last_state(solver, data, execution)
    fitted = UnifiedClassifier(model=model, tol=1e-3).fit(inputs, labels)
    own = parameter_of(model)
    assert fitted.chosen_[own] == pytest.approx(solver.chosen(state)[own], rel=1e-4)
    assert fitted.chosen_[f"{own}_reason"] == solver.chosen(state)[f"{own}_reason"]


def test_the_bias_of_fewest_errors_has_two_names() -> None:
    inputs, labels = two_clouds()
    biases: list[Any] = ["errors", "error-minimising"]
    one, other = (UnifiedClassifier(bias=bias).fit(inputs, labels).intercept_ for bias in biases)
    np.testing.assert_array_equal(one, other)
