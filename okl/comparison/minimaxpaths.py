"""Minimax models along their grid: all they know of rows are moments, added up once for all folds and all values."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from okl.accelerated.catalogue import make_model
from okl.accelerated.fapg import Fapg
from okl.accelerated.fitting import Fitted, solve_problem
from okl.accelerated.minimax import MinimaxProblem
from okl.accelerated.models.mmfda import fda_kappa_max
from okl.accelerated.models.mmmpm import mpm_kappa_max
from okl.accelerated.moments import ClassMoments, Moments, moments_of
from okl.accelerated.paths import PathPoint
from okl.comparison.sample import Sample
from okl.comparison.trials import signs_of_classes
from okl.execution.resident import resident

BLOCK_ROWS = 4096


def minimax_path(
    model: str,
    sample: Sample,
    part: int,
    class_index: int,
    n_classes: int,
    shares: Sequence[float],
    method: Fapg,
) -> list[PathPoint]:
    """Solutions for shares of the valid range (0, kappa_max) of a part's training rows, each from the one before.

    class_index : of the class against the rest, 0 for two classes
    """
    moments = merged_moments(sample, part, class_index, n_classes)
    return path_of_moments(model, moments, shares, method)


def path_of_moments(model: str, moments: ClassMoments, shares: Sequence[float], method: Fapg) -> list[PathPoint]:
    """The same of moments."""
    largest = kappa_max(model, moments)
    problem: MinimaxProblem | None = None
    points: list[PathPoint] = []
    found: Fitted | None = None
    for share in shares:
        begun = time.perf_counter()
        kappa = kappa_at(share, largest, moments)
        if problem is None:
            made: Any = make_model(model, kappa=kappa)
            problem = made.problem_of(moments)
        problem = replace(problem, kappa=kappa)
        found = solve_problem(problem, method, None if found is None else found.point)
        points.append(PathPoint(kappa, found, time.perf_counter() - begun, found.iterations))
    return points


def kappa_max(model: str, moments: ClassMoments) -> float:
    """The open end of the valid range of a minimax model."""
    return fda_kappa_max(moments) if model == "mm-fda" else mpm_kappa_max(moments)


def kappa_at(share: float, largest: float, moments: ClassMoments) -> float:
    """The kappa at a share of (0, kappa_max).

    Where the means differ in a direction without spread there is no end: the unit is then the distance of the means in
    standard deviations along it, and shares go on to infinity.
    """
    if math.isfinite(largest):
        return share * largest
    apart = moments.difference
    spread = math.sqrt(float(apart @ (moments.positive.covariance + moments.negative.covariance) @ apart))
    unit = float(apart @ apart) / spread if spread > 0.0 else 1.0
    return unit * share / (1.0 - share)


def merged_moments(sample: Sample, part: int, class_index: int, n_classes: int) -> ClassMoments:
    """Moments of a part's training rows: those of all other folds together, each added up once in this process."""
    if sample.holdout is not None:
        learnt = sample.part(part)
        return _class_moments(learnt.features, signs_of_classes(learnt.targets, n_classes)[class_index])
    folds = [number for number in range(sample.n_parts) if number != part]
    found = [_fold_moments(sample, number, class_index, n_classes) for number in folds]
    positive, negative = found[0]
    for more in found[1:]:
        positive, negative = positive.merged(more[0]), negative.merged(more[1])
    return ClassMoments(positive, negative)


def _fold_moments(sample: Sample, number: int, class_index: int, n_classes: int) -> tuple[Moments, Moments]:
    def load() -> tuple[Any, ...]:
        held = sample.part(number)
        sign = signs_of_classes(held.test_targets, n_classes)[class_index]
        return tuple(_arrays(_moments(held.test_features, sign, value)) for value in (1.0, -1.0))

    positive, negative = resident((*sample.key, "moments", number, class_index), load)
    return _from_arrays(positive), _from_arrays(negative)


def _class_moments(features: Any, signs: Any) -> ClassMoments:
    return ClassMoments(_moments(features, signs, 1.0), _moments(features, signs, -1.0))


def _moments(features: Any, signs: Any, value: float) -> Moments:
    total = moments_of(features[:0])
    for first in range(0, len(features), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        total = total.merged(moments_of(features[block][signs[block] == value]))
    return total


def _arrays(moments: Moments) -> tuple[Any, ...]:
    """As arrays, whose bytes the cache counts."""
    return np.array([moments.count], dtype=np.float64), moments.mean, moments.scatter


def _from_arrays(arrays: tuple[Any, ...]) -> Moments:
    count, mean, scatter = arrays
    return Moments(float(count[0]), mean, scatter)
