"""All solvers of the contract suite, by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any, Protocol

from okl.data.dataset import Dataset
from okl.foundation.types import Mode, Task
from okl.losses import make_loss
from okl.solvers.base import Solver
from okl.solvers.factory import make_solver
from okl.solvers.online.base import LearnerFactory
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.nystrom import NOGDFactory
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.online.step_size_experts import ExpertFactory
from okl.solvers.online.strategies import (
    BSGDMerging,
    BudgetFactory,
    OnlineGradientDescent,
    Projectron,
    RandomizedBudgetPerceptron,
)
from okl.solvers.settings import TrainSettings
from okl.solvers.subgradient.pegasos import PegasosFactory

PASSES, ROUNDS = 2, 3
LOSSES: dict[str, Task] = {
    "hinge": "binary",
    "logistic": "binary",
    "multiclass-hinge": "multiclass",
    "thresholded-half-squared": "regression",
}
MODES: tuple[Mode, ...] = ("stream", "mix", "sum")


def make_online_solver(settings: TrainSettings, data: Dataset) -> OnlineSolver:
    solver = make_solver(settings, data)
    assert isinstance(solver, OnlineSolver)
    return solver


class Make(Protocol):
    """Function that makes a solver; options replace some of its settings, such as the seed."""

    def __call__(self, **options: Any) -> Solver[Any]: ...


def online(loss: str, mode: Mode, **options: Any) -> OnlineSolver:
    """Return the online learner with few frequencies, several passes and several rounds."""
    own = {field.name for field in fields(LinearFactory)}
    factory = {name: options.pop(name) for name in own & set(options)}
    settings: dict[str, Any] = {"passes": PASSES, "rounds": ROUNDS, "seed": 3} | options
    return OnlineSolver(
        LinearFactory(FourierChoice(n_frequencies=60), make_loss(loss), **factory), mode=mode, **settings
    )


def learner(factory: LearnerFactory, mode: Mode, **options: Any) -> OnlineSolver:
    """Return an online solver with any factory, several passes and several rounds."""
    settings: dict[str, Any] = {"passes": PASSES, "rounds": ROUNDS, "seed": 3} | options
    return OnlineSolver(factory, mode=mode, **settings)


SOLVERS: dict[str, tuple[Make, Task]] = {
    f"fogd-{mode}-{loss}": (partial(online, loss, mode), task) for mode in MODES for loss, task in LOSSES.items()
}
OTHERS: tuple[tuple[LearnerFactory, str, tuple[Mode, ...]], ...] = (
    (ExpertFactory(make_loss("hinge"), n_frequencies=60), "binary", ("stream",)),
    (ExpertFactory(make_loss("multiclass-hinge"), n_frequencies=60), "multiclass", ("sum",)),
    (NOGDFactory(make_loss("multiclass-hinge"), budget=40, rank=10), "multiclass", ("stream", "mix")),
    (NOGDFactory(make_loss("thresholded-half-squared"), budget=40, rank=10), "regression", ("sum",)),
    (BudgetFactory(RandomizedBudgetPerceptron(), make_loss("hinge"), budget=300), "binary", ("stream",)),
    (BudgetFactory(BSGDMerging(0.001), make_loss("multiclass-hinge"), budget=30), "multiclass", ("stream", "mix")),
    (BudgetFactory(Projectron(), make_loss("multiclass-hinge"), budget=30), "multiclass", ("mix",)),
    (BudgetFactory(OnlineGradientDescent(), make_loss("hinge"), race=True), "binary", ("stream", "mix")),
    (PegasosFactory(FourierChoice(n_frequencies=60), make_loss("hinge"), 0.001, batch=8), "binary", ("stream",)),
    (PegasosFactory(FourierChoice(n_frequencies=60), make_loss("multiclass-hinge"), 0.001), "multiclass", ("mix",)),
)
SOLVERS |= {
    f"{factory.name}-{mode}-{task}": (partial(learner, factory, mode), task)  # type: ignore[misc]
    for factory, task, modes in OTHERS
    for mode in modes
}


def states(solver: Solver[Any], data: Dataset, execution: Any) -> Iterator[Any]:
    """Yield the state at the start and after each step, until the solver has finished."""
    state = solver.start(data, execution)
    yield state
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
        yield state


def last_state(solver: Solver[Any], data: Dataset, execution: Any) -> Any:
    """Return the state of a finished solver."""
    (last,) = deque(states(solver, data, execution), maxlen=1)
    return last


def bits(solver: Solver[Any], state: Any) -> tuple[Any, ...]:
    """Return all values of a state, to the last bit."""
    arrays = solver.predictor(state).arrays()
    return {name: array.tobytes() for name, array in arrays.items()}, solver.progress(state), solver.chosen(state)
