"""Small settings of every solver, and functions that train with them."""

from __future__ import annotations

from functools import cache
from typing import Any

from okl.data.dataset import Dataset, Schema
from okl.distributed import open_execution
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.solvers.base import Solver
from okl.solvers.online.settings import OnlineSettings
from okl.solvers.online.strategies import STRATEGIES
from okl.solvers.settings import SOLVER_NAMES, TrainSettings, solver_settings
from tests.solver_cases import bits, last_state

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
SCHEMAS = {
    task: Schema(("a", "b", "c"), "y", task, (0, 1, 2)[:n_labels])
    for task, n_labels in zip(TASKS, (2, 3, 0), strict=True)
}
SMALL = {"budget": 20, "frequencies": 30, "n_landmarks": 30, "cell_rows": 40}
SHARED = {"kernel", "bandwidth", "loss", "epsilon", "passes", "rounds", "order"}
OPTIONS = {name: frozenset(solver_settings(name).model_fields) - SHARED for name in SOLVER_NAMES}
ONLINE = [solver for solver in OPTIONS if issubclass(solver_settings(solver), OnlineSettings)]


def settings_of(solver: str, **values: Any) -> TrainSettings:
    """Return small sizes for the options that the solver has."""
    small = {name: value for name, value in SMALL.items() if name in OPTIONS[solver]}
    return settings_from(TrainSettings, {"data": "rows", "solver": solver} | small | values, "test")


def defined(solver: str) -> tuple[Task, ...]:
    """Return the tasks that a solver supports."""
    tasks: tuple[Task, ...] = getattr(STRATEGIES.get(solver), "tasks", TASKS[:2] if solver == "pegasos" else TASKS)
    return tasks


@cache
def learnt_bits(solver: Solver[Any], data: Dataset) -> Any:
    with open_execution() as execution:
        return bits(solver, last_state(solver, data, execution))[0]


def re_escaped(text: str) -> str:
    return text.replace("+", r"\+")


def make(settings: TrainSettings, schema: Schema) -> Any:
    """Make the solver for a schema, as for a source before it is read."""
    settings.check_options()
    return settings.options.build(settings, schema, None)
