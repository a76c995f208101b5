"""Every option changes what the solvers that take it learn, and is refused by name by the others."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from okl.data.dataset import Dataset
from okl.foundation.errors import ConfigError
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.runs.plan import check
from okl.solvers.factory import training_columns
from okl.solvers.settings import SOLVER_NAMES, TrainSettings
from tests.solver_cases import make_online_solver
from tests.solvers.factory.cases import ONLINE, OPTIONS, defined, learnt_bits, make, settings_of

CONSTRAINTS = ("abs(covariance(a)) <= 0.01", "norm <= 3")
OTHER_VALUES: dict[str, dict[str, Any]] = {
    "frequencies": {"frequencies": 31},
    "map": {"map": "orthogonal"},
    "budget": {"budget": 21},
    "rank": {"rank": 7},
    "landmarks": {"landmarks": "uniform"},
    "degree": {"kernel": "polynomial", "degree": 2},
    "offset": {"kernel": "polynomial", "offset": 0.5},
    "regularisation": {"regularisation": 0.02},
    "aggressiveness": {"aggressiveness": 0.3},
    "step_size": {"step_size": 0.11},
    "class_weights": {"class_weights": {"5": 3.0}},
    "average": {"average": False},
    "method": {"method": "fapg"},
    "step_rule": {"step_rule": "plain", "mode": "sum"},
    "radius": {"radius": 0.5},
    "certify": {"certify": True},
    "constraints": {"constraints": CONSTRAINTS},
    "constraint_margin": {"constraint_margin": 0.005},
    "constraint_gain": {"constraint_gain": 0.05},
    "constraint_method": {"constraint_method": "recoo"},
    "learn_sensitive": {"learn_sensitive": True},
    "C": {"C": 0.1},
    "nu": {"nu": 0.3},
    "kappa": {"kappa": 0.01},
    "tol": {"tol": 0.05},
    "max_iterations": {"max_iterations": 3},
    "fit_intercept": {"fit_intercept": False},
    "bias": {"bias": "errors"},
    "lam": {"lam": 0.02},
    "gap": {"gap": 0.2},
    "confidence": {"confidence": 0.5},
    "first_sample": {"first_sample": 50},
    "bundle_size": {"bundle_size": 3},
    "directions": {"directions": "conjugate"},
    "batch": {"batch": 4},
    "project": {"project": True},
    "track": {"track": True},
    "n_landmarks": {"n_landmarks": 31},
    "penalty": {"penalty": 0.01},
    "cell_rows": {"cell_rows": 90},
    "partitions": {"partitions": 1},
}
REQUIRED_WITH: dict[str, dict[str, Any]] = {
    "degree": {"kernel": "polynomial"},
    "offset": {"kernel": "polynomial"},
    "step_rule": {"mode": "sum"},
    "confidence": {"certify": True},
    "constraint_margin": {"constraints": CONSTRAINTS},
    "constraint_gain": {"constraints": CONSTRAINTS},
    "constraint_method": {"constraints": CONSTRAINTS},
    "learn_sensitive": {"constraints": CONSTRAINTS},
}
CHANGES_NOTHING = ("certify", "confidence")  # certificates do not change the model


@pytest.mark.parametrize(
    ("solver", "option"), [(solver, option) for solver in ONLINE for option in sorted(OPTIONS[solver])]
)
def test_every_option_that_a_solver_takes_changes_what_it_learns(
    solver: str, option: str, data: dict[Task, Dataset]
) -> None:
    values = OTHER_VALUES[option]
    if values.get("kernel") and solver == "bsgd-merging":
        with pytest.raises(ConfigError, match="kernel"):
            check_all(settings_of(solver, **values), data["binary"])
        return
    task: Task = "multiclass" if "multiclass" in defined(solver) else "binary"
    usual = settings_of(solver, **REQUIRED_WITH.get(option, {}))
    changed = settings_of(solver, **REQUIRED_WITH.get(option, {}) | values)
    seen = [(given, training_columns(given, data[task])) for given in (usual, changed)]
    before, after = (learnt_bits(make_online_solver(given, rows), rows) for given, rows in seen)
    assert (before != after) == (option not in CHANGES_NOTHING)


MODELS = [
    *(("c-svm", option) for option in sorted(OPTIONS["c-svm"])),
    *(("dwd", "nu"), ("mm-fda", "kappa"), ("l1-logistic", "bias")),
]


@pytest.mark.parametrize(("solver", "option"), MODELS)
def test_every_option_that_a_model_takes_changes_what_it_learns(
    solver: str, option: str, data: dict[Task, Dataset]
) -> None:
    own: dict[str, Any] = {"kappa": 0.02} if option == "kappa" else {}
    changed = own | ({"class_weights": {"1": 3.0}} if option == "class_weights" else OTHER_VALUES[option])
    before, after = (
        learnt_bits(make(settings_of(solver, **values), data["binary"].schema), data["binary"])
        for values in (own, changed)
    )
    assert before != after


CUTS = [*(("scs", option) for option in sorted(OPTIONS["scs"] - {"confidence"})), ("wolfe", "lam"), ("wolfe", "gap")]


@pytest.mark.parametrize(("solver", "option"), CUTS)
def test_every_option_of_cuts_changes_what_is_learnt(solver: str, option: str, data: dict[Task, Dataset]) -> None:
    own: dict[str, Any] = {"bias": {"bias": "regularised"}, "class_weights": {"class_weights": {"1": 3.0}}}
    exact: dict[str, Any] = {"kernel": "polynomial", "map": "exact", "frequencies": 400}  # as without the option
    plain = exact if option in ("degree", "offset") else {}
    changed = plain | own.get(option, OTHER_VALUES[option])
    before, after = (
        learnt_bits(make(settings_of(solver, **values), data["binary"].schema), data["binary"])
        for values in (plain, changed)
    )
    assert before != after


LEAST_SQUARES = [
    (solver, option)
    for solver in ("ridge", "local")
    for option in sorted(OPTIONS[solver] - {"huber"} | {"kernel", "bandwidth", "seed", "precision"})
]


@pytest.mark.parametrize(("solver", "option"), LEAST_SQUARES)
def test_every_option_of_kernel_least_squares_changes_what_is_learnt(
    solver: str, option: str, data: dict[Task, Dataset]
) -> None:
    task: Task = "multiclass"
    own: dict[str, dict[str, Any]] = {
        "landmarks": {"landmarks": "kmeans"},
        "class_weights": {"class_weights": {str(data[task].schema.labels[1]): 3.0}},
        "kernel": {"kernel": "matern32"},
        "bandwidth": {"bandwidth": 0.7},
        "seed": {"seed": 1},
        "precision": {"precision": "float32"},
    }
    plain = REQUIRED_WITH.get(option, {})
    before, after = (
        learnt_bits(make(settings_of(solver, **values), data[task].schema), data[task])
        for values in (plain, plain | own.get(option, OTHER_VALUES.get(option, {})))
    )
    assert before != after


def check_all(settings: TrainSettings, data: Dataset) -> None:
    check(settings.model_copy(update={"data": str(data.folder)}))


@pytest.mark.parametrize("solver", OPTIONS)
def test_every_other_option_is_refused_by_name(solver: str) -> None:
    values = {"data": "rows", "solver": solver}
    own = settings_from(TrainSettings, values, "test")
    own.options.check(own)
    others = [option for option in OTHER_VALUES if option not in OPTIONS[solver]]
    assert len(others) > 10
    for option in others:
        refused = f"^{option} = .* is set, but the solver .* has no {option}: it belongs to "
        with pytest.raises(ConfigError, match=refused):
            settings_from(TrainSettings, values | {option: OTHER_VALUES[option][option]}, "test")
        usual = TrainSettings.defaults()[option]  # as older versions stored it
        assert settings_from(TrainSettings, values | {option: usual}, "test") == own


def test_seeds_and_orders_reach_a_budget(data: dict[Task, Dataset]) -> None:
    learning = make_online_solver(settings_of("rbp"), data["binary"])
    same = make_online_solver(settings_of("rbp"), data["binary"])
    others = replace(learning, seed=1), replace(learning, order="stored"), replace(learning, passes=2)
    here = learnt_bits(learning, data["binary"])
    assert learnt_bits(same, data["binary"]) == here
    assert all(learnt_bits(other, data["binary"]) != here for other in others)


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_settings_of_every_solver_are_pickled(solver: str) -> None:
    settings = TrainSettings.model_validate({"data": "rows", "solver": solver})
    assert pickle.loads(pickle.dumps(settings)) == settings
