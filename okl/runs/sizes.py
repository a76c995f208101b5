"""Training of larger and larger models of the automatic choice, until more buys nothing; the best one is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.data.dataset import Dataset, Shard
from okl.data.executor import Execution, Rows
from okl.data.reading import read_rows
from okl.foundation.errors import DivergedError
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Criterion, Precision
from okl.metrics.criterion import criterion_error, standard_error
from okl.models.inputs import class_indices
from okl.runs.checkpoint import MAIN, LoopCheckpoints
from okl.runs.loop import TrainedSolver, run_loop
from okl.runs.select import MOST_LANDMARKS, Choice, Size, named_error
from okl.solvers.factory import make_solver
from okl.solvers.ridge.path import SAMPLE_ROWS, apart
from okl.solvers.ridge.solver import RidgeState
from okl.solvers.settings import TrainSettings

Groups = tuple[tuple[Shard, int], ...]
"""Row groups: the shard of each, and its number."""

WORTH = 0.02  # relative gain by a larger size that counts, where the error has no standard error of its own
_DEVIATIONS = 2.0  # a gain counts that is so many times beyond chance: the next one is about half as large
HELD_ROWS, HELD_SHARE = 32_768, 0.05  # of the training rows: held out at most to compare online models


@dataclass(frozen=True, eq=False)
class BestSize:
    """Trained model of the best size: its settings, the solver, and the record of the choice with all sizes."""

    settings: TrainSettings
    trained: TrainedSolver
    record: dict[str, Any]


def train_sizes(
    choice: Choice,
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
    checkpoints_of: Callable[[str], LoopCheckpoints] | None = None,
    elapsed: Callable[[], float] = time.perf_counter,
) -> BestSize:
    """Train the models of a choice one after the other, and return the best one by the criterion.

    Least squares are compared by the leave-one-out errors of sampled training rows. Where online models are among
    them, the last row groups of some shards are held out from all of them, which are compared on these. A solver has no
    larger size trained once a size did not reduce the error by more than chance. All of this depends on the data and
    the settings alone: a budget that allows more sizes adds candidates, and takes none away.

    Parameters
    ----------
    checkpoints_of : returns the checkpoints of a loop by its name; None: none are written
    elapsed : returns the seconds since the run started, for the record

    Raises
    ------
    DivergedError : the first model diverged; a later one that does only ends the sizes of its solver
    """
    observer, criterion = observer or NullObserver(), choice.record["criterion"]
    models, held = choice.models, Groups()
    if any(settings.solver == "fogd" for settings, _ in models):
        held = held_groups(data)
        models = models if held else models[-1:]
    training, n_threads = without_groups(data, held), execution.n_threads
    best: tuple[TrainSettings, TrainedSolver] | None = None
    tried: list[tuple[Size, Judgement]] = []
    answers, ended, seconds = list[dict[str, Any]](), set[str](), 0.0
    for number, (settings, size) in enumerate(models):
        if settings.solver in ended:
            continue
        solver = make_solver(settings, training)
        loop = LoopCheckpoints() if checkpoints_of is None else checkpoints_of(f"size{number}" if number else MAIN)
        try:
            begin = loop.last() or solver.start(training, execution)
            trained = run_loop(solver, begin, training, execution, observer, loop)
        except DivergedError:
            if best is None:
                raise
            ended.add(settings.solver)
            continue
        seconds += trained.seconds
        if len(models) == 1:
            sentence = "Sizes were not compared, because no row group of all classes is small enough to be held out."
            return BestSize(settings, trained, choice.record | {"why": [*choice.record["why"], sentence]})
        judged = _judged(trained, settings, data, held, criterion, n_threads)
        if best is None or judged.error < min(other.error for _, other in tried):
            best = settings, trained
        assert size is not None, "a model without a size is alone"
        before = [other for of, other in tried if of.solver == size.solver]
        if before and before[-1].error - judged.error <= judged.worth:
            ended.add(settings.solver)
        tried.append((size, judged))
        answers.append({"name": size.name, "score": 1.0 - judged.error, "seconds": elapsed()})
        observer.advance(number + 1, len(models), {"score": max(answer["score"] for answer in answers)})
    assert best is not None, "a choice has models"
    why = [*choice.record["why"], _why(tried, bool(held), ended, choice.record["budget_seconds"], criterion)]
    record = choice.record | {"answers": answers, "why": why}
    return BestSize(best[0], replace(best[1], seconds=seconds), record)


@dataclass(frozen=True)
class Judgement:
    """Error of a model by the criterion, and the least reduction of it by a larger size that counts."""

    error: float
    worth: float


def _judged(
    trained: TrainedSolver,
    settings: TrainSettings,
    data: Dataset,
    held: Groups,
    criterion: Criterion,
    n_threads: int,
) -> Judgement:
    """Return the judgement of a model by its leave-one-out errors, or on the row groups that were held out."""
    if held:
        return _judged_on(trained, read_groups(data, held, settings.precision), data, criterion, n_threads)
    assert isinstance(trained.state, RidgeState), "others are compared on held-out rows"
    solution = trained.state.solution
    assert solution is not None, "it has finished"
    found = solution.best
    assert found is not None, "no penalty is given to several sizes"
    chance = found.chance
    if criterion == "accuracy":
        chance = apart(found.error, min(SAMPLE_ROWS, data.rows("train")))
    return Judgement(found.error, _DEVIATIONS * chance or WORTH * found.error)


def _judged_on(trained: TrainedSolver, rows: Rows, data: Dataset, criterion: Criterion, n_threads: int) -> Judgement:
    scores = np.asarray(trained.predictor.scores(rows.inputs, n_threads), dtype=np.float64)
    if criterion == "squared-error":
        error = float(np.square(scores - rows.targets).mean() / max(rows.targets.var(), np.finfo(np.float64).tiny))
        return Judgement(error, WORTH * error)
    classes = class_indices(data.schema, rows.targets)
    error = criterion_error(criterion, scores, classes)
    if criterion == "accuracy":
        return Judgement(error, _DEVIATIONS * apart(error, len(classes)))
    counts = np.bincount(classes, minlength=len(data.schema.labels)).tolist()
    spread = standard_error(criterion, error, counts) * min(1.0, 1000 / len(classes)) ** 0.5
    return Judgement(error, _DEVIATIONS * spread or WORTH * error)


def held_groups(data: Dataset) -> Groups:
    """Return the last row groups of training shards that are spread evenly over the data set, to be held out.

    They hold at most 5% of the rows; empty if a class has no row in them, or no group is small enough.
    """
    shards = [shard for shard in data.split("train") if len(shard.row_groups) > 1]
    most, rows, chosen = HELD_SHARE * data.rows("train"), 0, list[tuple[Shard, int]]()
    for position in _spread_order(len(shards)):
        size = shards[position].row_groups[-1]
        if rows + size <= most and rows < HELD_ROWS:
            chosen.append((shards[position], len(shards[position].row_groups) - 1))
            rows += size
    held = tuple(sorted(chosen, key=lambda group: group[0].index))
    if held and data.schema.task != "regression":
        targets = read_groups(data, held, "float32").targets
        if len(np.unique(targets)) < len(data.schema.labels):
            return ()
    return held


def _spread_order(n: int) -> list[int]:
    """Return 0 .. n - 1 in an order whose first members are spread: by the reversed bits of the numbers.

    >>> _spread_order(5)
    [0, 4, 2, 1, 3]
    """
    bits = max(1, (n - 1).bit_length())
    return sorted(range(n), key=lambda number: int(f"{number:0{bits}b}"[::-1], 2))


def without_groups(data: Dataset, held: Groups) -> Dataset:
    """Return a data set without the last row groups of some shards."""
    shorter = {shard.index: replace(shard, row_groups=shard.row_groups[:group]) for shard, group in held}
    return replace(data, shards=tuple(shorter.get(shard.index, shard) for shard in data.shards)) if held else data


def read_groups(data: Dataset, groups: Groups, precision: Precision) -> Rows:
    """Return the rows of some row groups."""
    parts = [read_rows(data, shard, (group,), precision) for shard, group in groups]
    return Rows(np.concatenate([part.inputs for part in parts]), np.concatenate([part.targets for part in parts]))


def _why(
    tried: list[tuple[Size, Judgement]], held: bool, ended: set[str], budget_seconds: float, criterion: Criterion
) -> str:
    """Return the sentence on the sizes that were trained."""
    on, last = "held-out training rows" if held else "leave-one-out", tried[-1][0]
    sizes = ", ".join(f"{named_error(criterion, judged.error)} with {size.name}" for size, judged in tried)
    end = f"A larger size needs more than the budget of {budget_seconds:g} s on a machine with two cores."
    if last.solver in ended:
        end = "The last one was not better by more than chance, so no larger size was trained."
    elif last.options.get("n_landmarks") == MOST_LANDMARKS:
        end = "That is the largest size."
    return f"Sizes ({on}): {sizes}. {end}"
