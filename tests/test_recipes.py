"""Every solver by its name: what its options do, what its model remembers, and what is refused before a row is read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from okl.accelerated.catalogue import MODEL_NAMES
from okl.accelerated.solver import AcceleratedSolver
from okl.applicable import check_options
from okl.configuration import SolverName, TrainSettings, settings_from
from okl.errors import ConfigError
from okl.execution import open_execution
from okl.online.budget.recipe import BudgetRecipe
from okl.online.budget.strategies import STRATEGIES
from okl.online.experts.recipe import ExpertRecipe
from okl.online.linear import LinearRecipe
from okl.online.solver import OnlineSolver
from okl.planning import check, learnt_columns, make_online_solver, make_solver, mode_of
from okl.recipes import make_accelerated, make_recipe, make_ridge, make_subgradient
from okl.ridge.solver import RidgeSolver
from okl.solveroptions import OPTIONS
from okl.store.dataset import Dataset, Schema
from okl.store.ingest import ingest
from okl.store.model import Model, load_model, save_model
from okl.store.reading import sample_rows
from okl.subgradient.catalogue import CUTTING_NAMES
from okl.subgradient.solver import SubgradientSolver
from okl.types import Task
from tests.rows import curved, write
from tests.solver_cases import bits, last_state
from tests.store.sources import settings as ingest_settings

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
SCHEMAS = {
    task: Schema(("a", "b", "c"), "y", task, (0, 1, 2)[:n_labels])
    for task, n_labels in zip(TASKS, (2, 3, 0), strict=True)
}
SMALL = {"budget": 20, "frequencies": 30, "n_landmarks": 30}
CONSTRAINTS = ("abs(covariance(a)) <= 0.01", "norm <= 3")
OTHERWISE: dict[str, dict[str, Any]] = {
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
    "step_rule": {"step_rule": "plain", "mode": "sum"},
    "radius": {"radius": 0.5},
    "certify": {"certify": True},
    "constraints": {"constraints": CONSTRAINTS},
    "constraint_margin": {"constraint_margin": 0.005},
    "constraint_gain": {"constraint_gain": 0.05},
    "learn_sensitive": {"learn_sensitive": True},
    "C": {"C": 0.1},
    "nu": {"nu": 0.3},
    "kappa": {"kappa": 0.01},
    "tol": {"tol": 0.05},
    "max_iterations": {"max_iterations": 3},
    "fit_intercept": {"fit_intercept": False},
    "bias": {"bias": "errors"},
    "start": {"start": "stochastic"},
    "lam": {"lam": 0.02},
    "gap": {"gap": 0.2},
    "confidence": {"confidence": 0.5},
    "first_sample": {"first_sample": 50},
    "bundle_size": {"bundle_size": 3},
    "batch": {"batch": 4},
    "project": {"project": True},
    "track": {"track": True},
    "n_landmarks": {"n_landmarks": 31},
    "penalty": {"penalty": 0.01},
}
BESIDE: dict[str, dict[str, Any]] = {
    "degree": {"kernel": "polynomial"},
    "offset": {"kernel": "polynomial"},
    "step_rule": {"mode": "sum"},
    "confidence": {"certify": True},
    "constraint_margin": {"constraints": CONSTRAINTS},
    "constraint_gain": {"constraints": CONSTRAINTS},
    "learn_sensitive": {"constraints": CONSTRAINTS},
}
TWO_CLASSES = ("radius", "certify", "constraints", "constraint_margin", "constraint_gain", "learn_sensitive")
LOOKING_ON = ("certify", "confidence")  # proofs change nothing of what is learnt; they only look at it


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    folder = tmp_path_factory.mktemp("sets")
    made: dict[Task, Dataset] = {}
    for task in TASKS:
        source = write(folder, curved(500, task), f"{task}.parquet")
        scaled = ingest_settings(task=task, scale="standard", scale_target=task == "regression", rows_per_shard=200)
        made[task] = ingest(source, folder / task, scaled).dataset
        assert len(made[task].split("train")) == 2
    return made


def settings_of(solver: str, **values: Any) -> TrainSettings:
    """Small sizes, where the solver has them."""
    small = {name: value for name, value in SMALL.items() if name in OPTIONS[solver]}
    return settings_from(TrainSettings, {"data": "rows", "solver": solver} | small | values, "test")


def defined(solver: str) -> tuple[Task, ...]:
    """Tasks that a solver is for."""
    tasks: tuple[Task, ...] = getattr(STRATEGIES.get(solver), "tasks", TASKS[:2] if solver == "pegasos" else TASKS)
    return tasks


@cache
def learnt_bits(solver: OnlineSolver, data: Dataset) -> Any:
    with open_execution() as execution:
        return bits(solver, last_state(solver, data, execution))[0]


def test_every_strategy_is_a_solver() -> None:
    assert get_args(SolverName) == tuple(dict.fromkeys(get_args(SolverName)))
    named = {"fogd", "nogd", *STRATEGIES, *MODEL_NAMES, *CUTTING_NAMES, "pegasos", "ridge"}
    assert set(get_args(SolverName)) == named == set(OPTIONS)


ONLINE = [solver for solver in OPTIONS if solver not in (*MODEL_NAMES, *CUTTING_NAMES, "ridge")]
CASES = [(solver, task) for solver in (*ONLINE, "ridge") for task in defined(solver)]


@pytest.mark.parametrize(("solver", "task"), CASES)
def test_a_stored_model_of_any_solver_scores_as_the_one_that_was_learnt(
    solver: str, task: Task, data: dict[Task, Dataset], tmp_path: Path
) -> None:
    several = {"passes": 2, "order": "stored"} if solver in ONLINE else {}
    learning = make_solver(settings_of(solver, **several), data[task])
    with open_execution() as execution:
        state = last_state(learning, data[task], execution)
    predictor, schema = learning.predictor(state), data[task].schema
    save_model(Model(schema, predictor), tmp_path / "model")
    stored = load_model(tmp_path / "model")
    inputs = sample_rows(data[task], "test", 100, 0, "float32").inputs
    scores = predictor.scores(inputs)
    np.testing.assert_array_equal(stored.predictor.scores(inputs), scores)
    assert scores.shape == ((len(inputs), 3) if task == "multiclass" else (len(inputs),))
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    assert stored.precision == predictor.precision == ("float64" if solver == "ridge" else "float32")
    if isinstance(learning, OnlineSolver):
        standing = learning.standing(state)
        assert standing.error < 1.7 * standing.baseline_error


@pytest.mark.parametrize("solver", ["nogd", "rbp", "perceptron"])
def test_precision_reaches_the_model(solver: str, data: dict[Task, Dataset]) -> None:
    task = defined(solver)[-1]
    learning = make_online_solver(settings_of(solver, precision="float64"), data[task])
    with open_execution() as execution:
        assert learning.predictor(last_state(learning, data[task], execution)).precision == "float64"


@pytest.mark.parametrize(
    ("solver", "option"), [(solver, option) for solver in ONLINE for option in sorted(OPTIONS[solver])]
)
def test_every_option_that_a_solver_takes_changes_what_it_learns(
    solver: str, option: str, data: dict[Task, Dataset]
) -> None:
    values = OTHERWISE[option]
    if values.get("kernel") and solver == "bsgd-merging":
        with pytest.raises(ConfigError, match="kernel"):
            check_all(settings_of(solver, **values), data["binary"])
        return
    task: Task = "multiclass" if "multiclass" in defined(solver) and option not in TWO_CLASSES else "binary"
    usual = settings_of(solver, **BESIDE.get(option, {}))
    changed = settings_of(solver, **BESIDE.get(option, {}) | values)
    seen = [(given, learnt_columns(given, data[task])) for given in (usual, changed)]
    before, after = (learnt_bits(make_online_solver(given, rows), rows) for given, rows in seen)
    assert (before != after) == (option not in LOOKING_ON)


MODELS = [
    *(("c-svm", option) for option in sorted(OPTIONS["c-svm"])),
    *(("dwd", "nu"), ("mm-fda", "kappa"), ("l1-logistic", "bias")),
]


@pytest.mark.parametrize(("solver", "option"), MODELS)
def test_every_option_that_a_model_takes_changes_what_it_learns(
    solver: str, option: str, data: dict[Task, Dataset]
) -> None:
    own: dict[str, Any] = {"kappa": 0.02} if option == "kappa" else {}
    changed = own | ({"class_weights": {"1": 3.0}} if option == "class_weights" else OTHERWISE[option])
    before, after = (
        model_bits(make_accelerated(settings_of(solver, **values), data["binary"].schema), data["binary"])
        for values in (own, changed)
    )
    assert before != after


CUTS = [*(("scs", option) for option in sorted(OPTIONS["scs"] - {"confidence"})), ("wolfe", "lam"), ("wolfe", "gap")]


@pytest.mark.parametrize(("solver", "option"), CUTS)
def test_every_option_of_cuts_changes_what_is_learnt(solver: str, option: str, data: dict[Task, Dataset]) -> None:
    own: dict[str, Any] = {"bias": {"bias": "regularised"}, "class_weights": {"class_weights": {"1": 3.0}}}
    exact: dict[str, Any] = {"kernel": "polynomial", "map": "exact", "frequencies": 400}  # as if it were not given
    plain = exact if option in ("degree", "offset") else {}
    changed = plain | own.get(option, OTHERWISE[option])
    before, after = (
        model_bits(make_subgradient(settings_of(solver, **values), data["binary"].schema), data["binary"])
        for values in (plain, changed)
    )
    assert before != after


@pytest.mark.parametrize("option", sorted(OPTIONS["ridge"] | {"kernel", "bandwidth", "seed", "precision"}))
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_every_option_of_kernel_least_squares_changes_what_is_learnt(
    option: str, task: Task, data: dict[Task, Dataset]
) -> None:
    own: dict[str, dict[str, Any]] = {
        "landmarks": {"landmarks": "kmeans"},
        "class_weights": {"class_weights": {str(data[task].schema.labels[1]): 3.0}},
        "kernel": {"kernel": "laplacian"},
        "bandwidth": {"bandwidth": 0.7},
        "seed": {"seed": 1},
        "precision": {"precision": "float32"},
    }
    plain = BESIDE.get(option, {})
    before, after = (
        model_bits(make_ridge(settings_of("ridge", **values), data[task].schema), data[task])
        for values in (plain, plain | own.get(option, OTHERWISE.get(option, {})))
    )
    assert before != after


@cache
def model_bits(solver: AcceleratedSolver | SubgradientSolver | RidgeSolver, data: Dataset) -> Any:
    with open_execution() as execution:
        return bits(solver, last_state(solver, data, execution))[0]


def check_all(settings: TrainSettings, data: Dataset) -> None:
    check(settings.model_copy(update={"data": str(data.folder)}))


REFUSED = [(solver, option) for solver in OPTIONS for option in OTHERWISE if option not in OPTIONS[solver]]


@pytest.mark.parametrize(("solver", "option"), REFUSED)
def test_every_other_option_is_refused_by_name(solver: str, option: str) -> None:
    given = settings_from(TrainSettings, {"data": "rows", "solver": solver} | OTHERWISE[option], "test")
    with pytest.raises(ConfigError, match=f"^{option} = .* was given, but the solver .* takes no {option}: .* would"):
        check_options(given)
    stored = TrainSettings.model_validate(given.model_dump(mode="json"))
    with pytest.raises(ConfigError, match=f"takes no {option}"):
        check_options(stored)
    check_options(settings_from(TrainSettings, {"data": "rows", "solver": solver}, "test"))


def test_experts_learn_where_neither_bandwidth_nor_step_size_is_given() -> None:
    given: dict[str, dict[str, Any]] = {
        "nothing": {},
        "a bandwidth": {"bandwidth": 2.0},
        "a step": {"step_size": 0.5},
        "a map": {"map": "auto"},
        "no average": {"average": False},
    }
    recipes = {name: make_recipe(settings_of("fogd", **values), SCHEMAS["binary"]) for name, values in given.items()}
    assert isinstance(recipes.pop("nothing"), ExpertRecipe)
    assert {type(recipe) for recipe in recipes.values()} == {LinearRecipe}


@pytest.mark.parametrize("solver", STRATEGIES)
def test_shards_of_support_vectors_are_mixed_and_gradients_not_summed(solver: str, data: dict[Task, Dataset]) -> None:
    learning = make_online_solver(settings_of(solver, mode="mix", rounds=3), data["binary"])
    with open_execution() as execution:
        state = last_state(learning, data["binary"], execution)
    held = learning.chosen(state)["support_vectors"]
    assert 0 < held <= (SMALL["budget"] if "budget" in OPTIONS[solver] else data["binary"].rows("train"))
    with pytest.raises(ConfigError, match=rf"but {re_escaped(solver)} learns in stream or mix only"):
        make_online_solver(settings_of(solver, mode="sum"), data["binary"])
    assert mode_of(settings_of(solver, workers=2)) == "mix"


def re_escaped(text: str) -> str:
    return text.replace("+", r"\+")


def test_a_step_size_that_changes_no_decision_is_not_raced() -> None:
    def race(task: Task, **values: Any) -> bool:
        recipe = make_recipe(settings_of("rbp", **values), SCHEMAS[task])
        assert isinstance(recipe, BudgetRecipe)
        return recipe.race

    assert (race("binary"), race("multiclass"), race("regression")) == (False, False, True)
    assert not race("regression", step_size=0.5)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("solver", ["perceptron", "rbp", "projectron", "budget-perceptron"])
def test_no_step_size_changes_the_decisions_of_a_perceptron(solver: str, task: Task, data: dict[Task, Dataset]) -> None:
    errors = set()
    for step_size in (0.25, 1.0, 8.0):
        learning = make_online_solver(settings_of(solver, step_size=step_size), data[task])
        with open_execution() as execution:
            errors.add(learning.standing(last_state(learning, data[task], execution)).error)
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"solver": "fogd", "kernel": "polynomial"}, "'polynomial' is not shift-invariant.*solver nogd"),
        ({"solver": "nogd", "rank": 101}, "rank = 101, but a budget of 100 landmarks"),
        ({"solver": "nogd", "budget": 100_000}, "budget = 100,000, but there are only 3.. training rows"),
        ({"solver": "nogd", "landmarks": "kmeans", "budget": 100_000}, "budget = 100,000, .* from 3.. sampled rows"),
        ({"solver": "rbp", "budget": 100_000}, "budget = 100,000, but there are 3.. rows to learn from"),
        (
            {"solver": "nogd", "kernel": "linear", "bandwidth": 2.0},
            "bandwidth = 2.0 was given, but the kernel 'linear'",
        ),
        ({"solver": "nogd", "degree": 2}, "degree = 2 was given, but the kernel 'gaussian' has no degree"),
        ({"solver": "bsgd-merging", "kernel": "linear"}, "bsgd-merging .* kernel"),
        ({"solver": "rbp", "loss": "logistic"}, "loss = 'logistic', but rbp steps by the hinge loss"),
        ({"solver": "fogd", "epsilon": 0.3}, "epsilon = 0.3 is for a regression, but 'y' makes this binary"),
        ({"solver": "mm-fda", "passes": 3}, "passes = 3 was given, but mm-fda is no online learner"),
        ({"solver": "scs", "first_sample": 500}, "first_sample = 500, but there are 3.. training rows"),
        ({"solver": "scs", "order": "stored"}, "order = 'stored' was given, but scs is no online learner"),
        ({"solver": "scs", "mode": "mix"}, "mode = 'mix', but scs .* its mode is sum"),
        ({"solver": "wolfe", "bias": "errors"}, "bias = 'errors', but wolfe has none, or one that is regularised"),
        ({"solver": "scs", "loss": "absolute"}, "loss 'absolute' is for a regression task, but 'y' makes this a bin"),
        ({"solver": "scs", "loss": "logistic"}, "loss = 'logistic', but cuts are made of a piecewise linear one"),
        ({"solver": "scs", "kernel": "polynomial"}, "'polynomial' has no Fourier map: set map = 'exact'"),
        ({"solver": "scs", "bias": "free"}, "bias = 'free', but over shards scs has none, .* c-svm, whose own bias is"),
        ({"solver": "nu-svm", "bias": "free"}, "bias = 'free', but the bias of nu-svm is its own"),
        ({"solver": "scs", "map": "exact", "bias": "regularised"}, "bias = 'regularised' .* map = 'exact' has none"),
        ({"solver": "scs", "map": "exact", "frequencies": 9}, "frequencies = 9 .* with map = 'exact' there are none"),
        ({"solver": "wolfe", "map": "exact"}, "map = 'exact' was given, but wolfe does not sum over sampled rows: scs"),
        ({"solver": "fogd", "map": "exact"}, "map = 'exact' was given, but fogd does not sum over sampled rows: scs"),
        ({"solver": "pegasos", "batch": 3}, "batch = 3, but in a stream it divides 256"),
        ({"solver": "pegasos", "confidence": 0.9}, "confidence = 0.9 was given, but nothing is certified"),
        ({"solver": "c-svm", "bias": "regularised"}, "bias = 'regularised', but the bias of c-svm is its own"),
        ({"solver": "nu-svm", "nu": 0.99}, r"nu = 0.99 is outside \(0, 0\.\d+\], the valid range"),
        ({"solver": "ridge", "n_landmarks": 100_000}, "n_landmarks = 100,000, but there are 3.. training rows"),
        ({"solver": "ridge", "mode": "mix"}, "mode = 'mix', but ridge .* its mode is sum"),
        ({"solver": "ridge", "passes": 3}, "passes = 3 was given, but ridge is no online learner"),
        ({"solver": "ridge", "budget_seconds": 9.0}, "budget_seconds = 9.0 was given, but the solver ridge takes as"),
        ({"solver": "fogd", "step_rule": "plain"}, "step_rule = 'plain' belongs to the mode sum; this run's is stream"),
    ],
)
def test_what_cannot_be_learnt_is_refused_before_a_row_is_read(
    values: dict[str, Any], message: str, data: dict[Task, Dataset], tmp_path: Path
) -> None:
    place = {"data": str(data["binary"].folder), "out": str(tmp_path / "run")}
    with pytest.raises(ConfigError, match=message):
        check(settings_from(TrainSettings, place | values, "test"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("solver", "task"), [(solver, task) for solver in STRATEGIES for task in TASKS])
def test_a_strategy_is_refused_where_it_is_not_defined(
    solver: str, task: Task, data: dict[Task, Dataset], tmp_path: Path
) -> None:
    settings = settings_of(solver, data=str(data[task].folder), out=str(tmp_path / "run"))
    if task in defined(solver):
        check(settings)
    else:
        with pytest.raises(
            ConfigError, match=rf"{re_escaped(solver)} is not defined for a {task} task, but for binary"
        ):
            check(settings)


def test_seeds_and_orders_reach_a_budget(data: dict[Task, Dataset]) -> None:
    learning = make_online_solver(settings_of("rbp"), data["binary"])
    same = make_online_solver(settings_of("rbp"), data["binary"])
    others = replace(learning, seed=1), replace(learning, order="stored"), replace(learning, passes=2)
    here = learnt_bits(learning, data["binary"])
    assert learnt_bits(same, data["binary"]) == here
    assert all(learnt_bits(other, data["binary"]) != here for other in others)
