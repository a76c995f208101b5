"""Solver, scaling, kernel, bandwidth and size for a data set, within a budget of nominal seconds, and why."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from okl.choosing.candidates import field
from okl.choosing.costs import (
    MOST_LANDMARKS,
    RACE_SHARE,
    Shape,
    better_online,
    fogd_size,
    most_landmarks,
    rounds_of_race,
)
from okl.choosing.neighbours import LEAST_ROWS, are_test_rows_given, likeness
from okl.choosing.race import Left, Race, Ran, Track, race
from okl.configuration import TrainSettings
from okl.errors import ConfigError
from okl.execution.local import default_threads
from okl.execution.protocol import Rows
from okl.progress import NullObserver, Observer
from okl.ridge.gram import Outputs
from okl.ridge.path import apart
from okl.ridge.solver import SAMPLE_GROUPS
from okl.store.dataset import Dataset, Scale, Schema
from okl.store.reading import sample_rows
from okl.types import IntArray

ENOUGH_LANDMARKS = 2048  # where twice as many made the sampled rows no better
WORTH = 0.02  # of the error: what twice as many landmarks have to gain for more than that
_LEFT_OUT: dict[Left, str] = {
    "rows": "each predicted by a model of the others",
    "blocks": "each fifth of them, as they lie, predicted by a model of the others",
}
_SAME = 0.5  # of what chance makes of it: a linear model that close to the best is taken, as it is simpler


@dataclass(frozen=True)
class Choice:
    """Settings that say all, and the record of how they came about, as a result has it under "choice"."""

    settings: TrainSettings
    record: dict[str, Any]


def choose(settings: TrainSettings, data: Dataset, observer: Observer | None = None) -> Choice:
    """Race candidates on a sample of the training rows, and size the winner by the budget; settings.solver is auto.

    The same data, budget and seed give the same choice on any machine of one kind: time is counted in operations.

    Raises
    ------
    ConfigError : fewer than two training rows; validation is blocks, and no class has two rows
    DataError : shards that cannot be read
    """
    assert settings.solver == "auto", "there is something to choose"
    rows = data.rows("train")
    if rows < 2:
        raise ConfigError(f"{data.folder} has {rows} training rows, but a choice takes two at least. Name a solver.")
    begun, observer = time.perf_counter(), observer or NullObserver()
    shape = Shape(rows, data.schema.n_features, data.schema.n_outputs)
    result, by, said = _raced(settings, data, observer)
    update, why = _sized(result, by, shape, settings.budget_seconds, data.schema)
    if update["solver"] == "ridge":
        update["precision"] = "float64"  # as TrainSettings has it where ridge is asked for
        if by == "blocks":  # the solver's own would be that of least leave-one-out error
            update["penalty"] = result.winner.penalty if update["kernel"] != "linear" else result.best_linear.penalty
    # whoever trains with these settings again learns the same, without a race that these would belong to
    for name in ("budget_seconds", "validation"):
        update[name] = TrainSettings.model_fields[name].default
    record = {
        "validation": by,
        "rows": result.winner.rows,
        "budget_seconds": settings.budget_seconds,
        "seconds": time.perf_counter() - begun,
        "candidates": [one.as_json() for one in result.ran],
        "why": why + said,
    }
    return Choice(settings.model_copy(update=update), record)


def _raced(settings: TrainSettings, data: Dataset, observer: Observer) -> tuple[Race, Left, list[str]]:
    """The race that decides, what its candidates were judged by, and what there is to say of it."""
    rounds = rounds_of_race(settings.budget_seconds, data.rows("train"))
    sample, places = _sample(data, rounds[-1][0], settings.seed)
    by: Left = "blocks" if settings.validation == "blocks" else "rows"
    outputs = Outputs(data.schema.task, data.schema.n_outputs)
    track = Track(data.schema, sample, places, outputs, _threads(settings), by)
    starters = field(_scales(settings, data.schema))

    def tell(done: int, total: int, best: float) -> None:
        observer.advance(done, total, {"score": best})

    result = race(track, starters, rounds, tell)
    size = rounds[min(1, len(rounds) - 1)]
    if settings.validation != "auto" or rounds[-1][0] < LEAST_ROWS or not track.has_folds(size[0]):
        return result, by, []
    found = likeness(track, result.winner, size)
    if not found.told:
        return result, by, []
    if not (found.decides and are_test_rows_given(data)):
        return result, by, [found.words(blocks=False)]
    return race(track.judging("blocks"), starters, rounds, tell), "blocks", [found.words(blocks=True)]


def _sample(data: Dataset, n: int, seed: int) -> tuple[Rows, IntArray]:
    """Raw rows, shuffled, and their places in the order of the data set."""
    raw = replace(data, schema=replace(data.schema, scale="none"))
    rows = sample_rows(raw, "train", n, seed, "float64", SAMPLE_GROUPS)
    order = np.random.default_rng((seed, 0x2ACE)).permutation(len(rows.targets))[:n]
    return Rows(rows.inputs[order], rows.targets[order]), order


def _scales(settings: TrainSettings, schema: Schema) -> tuple[Scale, ...]:
    """Those to try: the one that was asked for at ingest or now, else those that suit columns of any unit."""
    if settings.rescale != "stored" or schema.scale != "none" or not schema.feature_statistics:
        return (schema.scale,)
    return tuple(scale for scale in get_args(Scale) if scale != "none")


def _threads(settings: TrainSettings) -> int:
    return default_threads() if settings.threads == "auto" else settings.threads


def _sized(
    result: Race, by: Left, shape: Shape, budget_seconds: float, schema: Schema
) -> tuple[dict[str, Any], list[str]]:
    """What the winner changes of the settings, and sentences that say why."""
    winner, linear = result.winner, result.best_linear
    taken = linear if _as_good(result, schema) else winner
    why = [_how_good(taken, len(result.ran), by, schema)]
    if taken is linear:
        curved = next(one for one in result.ran if one.candidate.kernel != "linear")
        why.append(f"The best kernel there, {curved.candidate.name} ({curved.error:.2%}), is no better but by chance.")
        return {"solver": "ridge", "kernel": "linear", "rescale": linear.candidate.scale}, why
    why.append(f"The best linear model had {linear.error:.2%} there.")
    least = min(one.error for one in result.ran if one.rows == winner.rows)
    if least < winner.error:
        why.append(f"That another had {least:.2%} may be chance: of such, the one of least squared error was taken.")
    assert winner.bandwidth is not None
    kernel = {"kernel": winner.candidate.kernel, "bandwidth": winner.bandwidth, "rescale": winner.candidate.scale}
    seconds = (1.0 - RACE_SHARE) * budget_seconds
    small = result.coarse is not None and result.coarse <= (1.0 + WORTH) * winner.error
    landmarks = most_landmarks(shape, seconds, ENOUGH_LANDMARKS if small else MOST_LANDMARKS)
    frequencies, passes = fogd_size(shape, seconds)
    classes = schema.task != "regression"
    few = landmarks is not None and classes and not small and better_online(shape, landmarks, frequencies)
    if few or (landmarks is None and shape.rows > ENOUGH_LANDMARKS):
        allowed = f"for more than {landmarks:,} landmarks" if few else "for kernel least squares"
        why.append(
            f"{shape.rows:,} rows are too many {allowed} in {budget_seconds:g} s: they are learnt online, in {passes} "
            f"passes, with {frequencies:,} frequencies of the same kernel."
        )
        return kernel | {"solver": "fogd", "frequencies": frequencies, "passes": passes}, why
    landmarks = landmarks or shape.rows
    why.append(_why_so_many(landmarks, shape, small, budget_seconds))
    return kernel | {"solver": "ridge", "n_landmarks": landmarks}, why


def _how_good(taken: Ran, of: int, by: Left, schema: Schema) -> str:
    unit = "mistakes" if schema.task != "regression" else "of the variance is left"
    return (
        f"{taken.candidate.name[0].upper()}{taken.candidate.name[1:]}, of {of} candidates: {taken.error:.2%} {unit} on "
        f"{taken.rows:,} sampled rows, {_LEFT_OUT[by]}."
    )


def _as_good(result: Race, schema: Schema) -> bool:
    """Whether a linear candidate is the best, or as good but for chance."""
    winner, linear = result.winner, result.best_linear
    if winner is linear or schema.task == "regression":
        return winner is linear
    return linear.error <= winner.error + _SAME * apart(winner.error, winner.rows)


def _why_so_many(landmarks: int, shape: Shape, small: bool, budget_seconds: float) -> str:
    if landmarks == shape.rows:
        return f"All {landmarks:,} training rows are landmarks: nothing is approximated."
    if small and landmarks == ENOUGH_LANDMARKS:
        return f"{landmarks:,} landmarks: twice as many made the sampled rows no better."
    if landmarks == MOST_LANDMARKS:
        return f"{landmarks:,} landmarks, the most that are taken."
    return f"{landmarks:,} landmarks: as many as {budget_seconds:g} s allow on a machine of two cores."
