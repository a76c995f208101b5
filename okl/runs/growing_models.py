"""Training of larger and larger models of the automatic choice until a larger one is no better; the best is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Criterion
from okl.report.format import named_error
from okl.runs.checkpoint import MAIN, LoopCheckpoints
from okl.runs.loop import TrainedSolver, run_loop
from okl.runs.model_sizes import Size, larger_budget
from okl.runs.select import Choice, ordered_reasons
from okl.solvers.base import Solver
from okl.solvers.factory import make_solver
from okl.solvers.ridge.cells import LocalState
from okl.solvers.ridge.falkon import FalkonState
from okl.solvers.ridge.penalty_path import HUBER_ROUNDS, SAMPLE_ROWS, PenaltyErrors, apart
from okl.solvers.ridge.solver import RidgeState
from okl.solvers.settings import TrainSettings

WORTH = 0.02  # relative gain by a larger size that counts, where the error has no standard error of its own
_DEVIATIONS = 2.0  # a gain counts that is so many times beyond chance: the next one is about half as large


@dataclass(frozen=True, eq=False)
class BestSize:
    """Trained model of the best size: its settings, the solver, and the record of the choice with all sizes."""

    settings: TrainSettings
    trained: TrainedSolver
    record: dict[str, Any]


def train_growing_models(
    choice: Choice,
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
    checkpoints_of: Callable[[str], LoopCheckpoints] | None = None,
    elapsed: Callable[[], float] | None = None,
    keep: Callable[[TrainSettings, Solver[Any], Any], None] = lambda settings, solver, state: None,
) -> BestSize:
    """Train the models of a choice one after the other, and return the best one by the criterion.

    Models of least squares are compared by the errors of training rows that are left out. No larger size of a solver is
    trained once a size did not reduce the error by more than chance, or once another gain as large as the last one
    would not reach the best size of another solver. All of this depends on the data and the settings alone: a budget
    that allows more sizes adds candidates, and takes none away. A single model, of any solver, is trained as it is.

    checkpoints_of : returns the checkpoints of a loop by its name; None: none are written
    elapsed : returns the seconds since the run started, for the record; None: since this call
    keep : called with settings, solver and state of the best model so far, after a size or a pass, but not the last one
    Raises DivergedError, ConfigError : the first model diverged, or rounding is in its way; a later one only ends the
        sizes
    """
    observer, criterion, started_at = observer or NullObserver(), choice.record["criterion"], time.perf_counter()
    models = choice.models
    best: tuple[TrainSettings, TrainedSolver] | None = None
    leading: tuple[Size, Judgement] | None = None  # of the best one
    tried: list[tuple[Size, Judgement]] = []
    sizes, ended, skipped, seconds = list[dict[str, Any]](), set[str](), False, 0.0
    for number, (settings, size) in enumerate(models):
        if size is not None and size.solver in ended:
            skipped = True
            continue
        solver = make_solver(settings, data)
        loop = LoopCheckpoints() if checkpoints_of is None else checkpoints_of(f"size{number}" if number else MAIN)
        try:
            begin = loop.last() or solver.start(data, execution)
            # parts of a later size may be worse than the best size so far
            passed = partial(keep, settings, solver) if best is None else None
            trained = run_loop(solver, begin, data, execution, observer, loop, passed)
        except (ConfigError, DivergedError):
            if best is None:
                raise
            break
        seconds += trained.seconds
        if len(models) == 1:
            return BestSize(settings, trained, choice.record)
        assert size is not None, "a model without a size is alone"
        judged = _judged(trained.state, data, criterion)
        if leading is None or is_better(size, judged, leading):
            best, leading = (settings, trained), (size, judged)
            if number + 1 < len(models):
                keep(settings, trained.solver, trained.state)
        tried.append((size, judged))
        ended = ended_solvers(tried)
        since_start = time.perf_counter() - started_at if elapsed is None else elapsed()
        sizes.append({"name": size.name, "score": 1.0 - judged.error, "seconds": since_start})
        least = 1.0 - max(one["score"] for one in sizes)
        clipped = "huber" in type(settings.options).model_fields and settings.options.changed("huber")
        observer.advance(number + 1, len(models), {f"{'clipped_' * clipped}error_of_the_best_size": least})
    assert best is not None, "a choice has models"
    last = _why(tried, skipped, choice.record["budget_seconds"], criterion, clipped)
    why = [*ordered_reasons(choice.record["why"], best[0]), last]
    if best[0].solver == "local" and leading is not None:  # sampled cells are smaller, and their error is larger
        size, judged = leading
        why[0] = f"{why[0].removesuffix('.')}, {named_error(criterion, judged.error)} with {size.name}."
    nominal = choice.record["nominal_seconds"] + sum(size.seconds for size, _ in tried) * (1 + clipped * HUBER_ROUNDS)
    record = choice.record | {"sizes": sizes, "why": why, "nominal_seconds": nominal}
    if last.endswith(_of_budget(choice.record["budget_seconds"])) and _still_falls(tried, leading):
        record.setdefault("hint", larger_budget(tried[-1][0]))
    return BestSize(best[0], replace(best[1], seconds=seconds), record)


@dataclass(frozen=True)
class Judgement:
    """Error of a model by the criterion, and the least reduction of it by a larger size that counts."""

    error: float
    worth: float


def is_better(size: Size, judged: Judgement, best: tuple[Size, Judgement]) -> bool:
    """Return whether a size is better than the best one so far; than one of another solver, by more than chance.

    Cells, which may be trained first as they are fast, have no such lead: their models change abruptly between cells.
    """
    return judged.error < best[1].error - (0.0 if best[0].solver in (size.solver, "local") else judged.worth)


def ended_solvers(tried: list[tuple[Size, Judgement]]) -> set[str]:
    """Return the solvers of which no larger size is trained."""
    least, ended = min(judged.error for _, judged in tried), set[str]()
    for solver in {size.solver for size, _ in tried}:
        judged = [each for size, each in tried if size.solver == solver]
        if len(judged) > 1:
            gain = judged[-2].error - judged[-1].error
            if gain <= judged[-1].worth or judged[-1].error - gain > least:
                ended.add(solver)
    return ended


def _judged(state: RidgeState | FalkonState | LocalState, data: Dataset, criterion: Criterion) -> Judgement:
    """Return the judgement by leave-one-out errors of sampled training rows, or by held-out ones."""
    found: PenaltyErrors | None
    if isinstance(state, FalkonState | LocalState):
        assert state.left_out is not None, "it has finished, and rows were held out"
        found, n_rows = state.left_out.errors, len(state.left_out.scores)
    else:
        assert state.solution is not None, "it has finished"
        found, n_rows = state.solution.best, min(SAMPLE_ROWS, data.rows("train"))
    assert found is not None, "no penalty is given to several sizes, and rows were held out"
    chance = found.chance
    if criterion == "accuracy":
        chance = apart(found.error, n_rows)
    return Judgement(found.error, _DEVIATIONS * chance or WORTH * found.error)


def _of_budget(budget_seconds: float) -> str:
    return f"A larger size needs more than the budget of {budget_seconds:g} s on a machine with two cores."


def _still_falls(tried: list[tuple[Size, Judgement]], leading: tuple[Size, Judgement] | None) -> bool:
    """Return whether the last size is the best one, and better than the last but one of its solver beyond chance."""
    errors = [judged.error for size, judged in tried if size.solver == tried[-1][0].solver]
    return (
        leading is not None
        and errors[-1] > 0.0
        and tried[-1][0] is leading[0]
        and errors[-1] + tried[-1][1].worth < min(errors[:-1], default=0.0)
    )


def _why(
    tried: list[tuple[Size, Judgement]], skipped: bool, budget_seconds: float, criterion: Criterion, clipped: bool
) -> str:
    """Return the sentence on the trained sizes; clipped : whether errors are of targets that Huber's loss clips."""
    last = tried[-1][0]
    sizes = ", ".join(f"{named_error(criterion, judged.error)} with {size.name}" for size, judged in tried)
    end = _of_budget(budget_seconds)
    if skipped or tried[-1][0].solver in ended_solvers(tried):
        end = "Larger ones were not trained where a size was not better by more than chance."
    elif not last.next_budget:
        end = "That is the largest size."
    scale = ", outliers clipped by Huber's loss, so not on the scale of the candidates" if clipped else ""
    return f"Sizes (of rows left out{scale}): {sizes}. {end}"
