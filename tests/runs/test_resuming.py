"""Every solver gives the same bits and history when interrupted after its steps and resumed from disk."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.runs.checkpoint import Origin, Position, RunCheckpoints
from okl.runs.loop import TrainedSolver, run_loop
from okl.solvers import worker_rounds
from okl.solvers.accelerated.newton_problem import held_arrays
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.factory import make_solver, training_columns
from okl.solvers.settings import TrainSettings
from tests.runs.checkpoint_cases import ONLINE, TO_AN_OPTIMUM, Case

STEPS = {"dwd": 1, "logistic": 1}  # steps of the solver before its process ends; default: 2


class GoneError(Exception):
    """Simulated end of the process."""


@dataclass(eq=False)
class FailingCheckpoints(RunCheckpoints):
    """Checkpoints that keep every step and end the process after some."""

    left: int = 2

    def write(self, loop: str, position: Position, execution: Execution) -> None:
        super().write(loop, position, execution)
        self.left -= 1
        if self.left == 0:
            raise GoneError


def solver_of(settings: TrainSettings, data: Dataset, scratch: Path | None) -> Any:
    solver = make_solver(settings, data)
    return replace(solver, scratch=scratch) if isinstance(solver, AcceleratedSolver) else solver


def run_record(learnt: TrainedSolver) -> tuple[Any, ...]:
    """Return the results and the history of a run, to the last bit."""
    arrays = {name: array.tobytes() for name, array in learnt.predictor.arrays().items()}
    watched = learnt.watch and learnt.watch.as_json()
    return arrays, learnt.progress, learnt.curve.points(), watched, learnt.solver.chosen(learnt.state)


def interrupted_run(
    settings: TrainSettings, data: Dataset, execution: Execution, folder: Path
) -> tuple[TrainedSolver, int]:
    """Train in processes that end after some steps, each with its own vector folder; return their number, too."""
    for number in itertools.count(1):
        worker_rounds.held_vectors.forget()  # data that another process does not have
        held_arrays.forget()
        scratch = folder / f"vectors-{number}"
        scratch.mkdir()
        shared = {"data": data, "scratch": scratch}
        checkpoints = FailingCheckpoints(folder, Origin.of(settings, data), 0.0, 1, shared, scratch)
        checkpoints.left = STEPS.get(settings.solver, 2)
        solver = solver_of(settings, data, scratch)
        try:
            begin = checkpoints.resume() or solver.start(data, execution)
            return run_loop(solver, begin, data, execution, checkpoints=checkpoints.of("model")), number
        except GoneError:
            shutil.rmtree(scratch)
    raise AssertionError


@pytest.mark.parametrize("case", [*ONLINE.values(), *TO_AN_OPTIMUM.values()], ids=[*ONLINE, *TO_AN_OPTIMUM])
def test_a_resumed_run_gives_the_same_bits(
    case: Case, learnable: dict[Task, Dataset], here: Execution, tmp_path: Path
) -> None:
    task, values = case
    settings = settings_from(TrainSettings, {"data": str(learnable[task].folder), "threads": 2} | values, "test")
    data = training_columns(settings, learnable[task])
    solver = solver_of(settings, data, None)
    whole = run_loop(solver, solver.start(data, here), data, here)
    resumed, n_processes = interrupted_run(settings, data, here, tmp_path)
    assert n_processes > 1
    assert run_record(resumed) == run_record(whole)
