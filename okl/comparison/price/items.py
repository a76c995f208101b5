"""One item of a path: FOGD learns the rows of a part under one bound; beside it the best weights under the same."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.hindsight import solve_in_ball
from okl.accelerated.operators import DenseRows
from okl.comparison.price.asked import Asked
from okl.comparison.price.sample import SideSample
from okl.comparison.trials import Trial, packed_right
from okl.constrainedhindsight import solve_within
from okl.execution.protocol import Rows
from okl.features.protocol import FeatureMap
from okl.losses import Hinge
from okl.online.constrained import ConstrainedLearner
from okl.online.constrainedrecipe import step_of_radius
from okl.online.constraints.columns import Columns
from okl.online.constraints.limits import LinearLimits, limits_of
from okl.online.constraints.measuring import figures_of, moments_of
from okl.online.constraints.quantities import Constraint
from okl.online.constraints.rows import rows_from, sums_of
from okl.online.constraints.weighings import Weighings
from okl.online.learner import LinearLearner
from okl.predictors import LinearPredictor
from okl.types import FloatArray

Figures = list[dict[str, Any]]


@dataclass(frozen=True)
class Priced:
    """What came of one bound in one part.

    trial : of FOGD; best : of the best weights under the bound, None if they were not asked for
    train, test : each constraint measured on the rows learnt and on those judged on, as `measure_constraints` has it
    """

    trial: Trial
    best: Trial | None
    train: Figures
    test: Figures


@dataclass(frozen=True)
class PriceItem:
    """Learn under a bound, measure, and be judged.

    part : number of it; bound : None without the constraints of the path
    """

    asked: Asked
    part: int
    bound: float | None


@dataclass(frozen=True)
class PriceWork:
    """Runs items wherever it is called."""

    sample: SideSample

    def __call__(self, item: PriceItem) -> Priced:
        """What came of an item.

        Raises
        ------
        ConfigError : limits that no weights keep to, a group without a row; DivergedError
        """
        asked, sample = item.asked, self.sample
        feature_map = sample.feature_map
        assert feature_map is not None, "FOGD learns in a Fourier map"
        part, (beside, held) = sample.part(item.part), sample.sides(item.part)
        begun = time.perf_counter()
        learner = make_learner(asked, item.bound, feature_map, part.features, beside)
        predictor = learner.predictor(learner.learn(learner.start(), Rows(part.inputs, part.targets)))
        seconds = time.perf_counter() - begun
        trial = Trial(_right(predictor, part.test_inputs, part.test_targets), len(part.test_targets), seconds=seconds)
        measured = asked.constraints if item.bound is None else asked.at(item.bound)
        return Priced(
            trial,
            best_trial(learner, Rows(part.features, part.targets), Rows(part.test_inputs, part.test_targets))
            if asked.certify
            else None,
            measure(measured, predictor, part.inputs, beside),
            measure(measured, predictor, part.test_inputs, held),
        )


def make_learner(
    asked: Asked, bound: float | None, feature_map: FeatureMap, features: FloatArray, columns: Columns
) -> LinearLearner:
    """FOGD with the steps of the theorem, in the ball, within the limits of a bound on all rows to learn.

    features : of these rows (rows, n_columns); columns : beside them
    """
    step, kept = step_of_radius(asked.radius), asked.kept(bound)
    if not kept:
        return LinearLearner(feature_map, Hinge(), step, radius=asked.radius, decaying=True)
    limits = limits_in_memory(kept, asked.radius, features, columns)
    return ConstrainedLearner(feature_map, Hinge(), step, decaying=True, limits=limits)


def limits_in_memory(
    constraints: tuple[Constraint, ...], radius: float, features: FloatArray, columns: Columns
) -> LinearLimits:
    """Limits whose rows come from all rows given.

    Raises
    ------
    ConfigError : a group without a row, or limits that no weights of the ball keep to
    """
    weighings = Weighings(constraints)
    rows = rows_from(weighings, sums_of(weighings, features, columns, "training rows"))
    return limits_of(constraints, rows, radius)


def best_trial(learner: LinearLearner, rows: Rows, held: Rows) -> Trial:
    """The weights of the least hinge loss that the learner may have, and their judgement.

    rows : features and targets of the rows to learn; held : inputs and targets of those to be judged on
    """
    begun = time.perf_counter()
    operator = DenseRows(rows.inputs, rows.targets)
    if isinstance(learner, ConstrainedLearner):
        found = solve_within(operator, "hinge", learner.kept)
    else:
        assert learner.radius is not None
        found = solve_in_ball(operator, "hinge", learner.radius)
    predictor = LinearPredictor(learner.feature_map, found.weights[None, :].astype(learner.precision))
    return Trial(
        _right(predictor, held.inputs, held.targets),
        len(held.targets),
        relative_gap=found.certificate.relative_gap,
        iterations=found.iterations,
        seconds=time.perf_counter() - begun,
    )


def measure(
    constraints: tuple[Constraint, ...], predictor: LinearPredictor, inputs: FloatArray, columns: Columns
) -> Figures:
    """Each constraint on rows in memory."""
    weighings = Weighings(constraints)
    return figures_of(constraints, moments_of(weighings, columns, predictor.scores(inputs), "rows in memory"))


def _right(predictor: LinearPredictor, inputs: FloatArray, targets: NDArray[np.float64]) -> dict[str, bytes]:
    return {"own": packed_right([predictor.scores(inputs)], targets)}
