"""How good a run was, and the proof: the one place that asks a learner for its regret and a model for its gap.

A proof goes into the result of a run as "certificate", with its kind; one that says nothing is not shown, and says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from okl.accelerated.hindsight import Hindsight
from okl.accelerated.solver import AcceleratedSolver
from okl.comparators import MOST_BYTES, Told, hindsights, hold_rows
from okl.execution.protocol import Execution
from okl.features.fourier import FourierFeatures
from okl.online.constrained import ConstrainedLearner
from okl.online.learner import LinearLearner
from okl.online.regret import (
    KernelSetting,
    Played,
    Steps,
    constrained_bound,
    growth_exponent,
    kernel_space_bound,
    map_space_bound,
)
from okl.online.solver import OnlineSolver, OnlineState
from okl.online.tracking import TrackingLearner
from okl.online.tracking.recipe import TrackingRecipe
from okl.piecewiseregret import PIECES, chosen_borders, compare, solve_runs
from okl.predictors import LinearPredictor
from okl.progress import NullObserver, Observer
from okl.solvers import Standing
from okl.store.dataset import Dataset, Schema
from okl.subgradient.catalogue import make_piecewise
from okl.subgradient.pegasoslearner import PegasosRecipe
from okl.subgradient.proving import Prover
from okl.subgradient.solver import SubgradientSolver


@dataclass(frozen=True)
class Proof:
    """What is proved about a run, as its result has it.

    kind : of what; figures : by name, as JSON; reason : why they mean nothing and are not shown, "" where they are
    """

    kind: Literal["duality gap", "gap over all rows", "regret", "tracking regret"]
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """The entry "certificate" of a run's result."""
        return {"kind": self.kind, "shown": not self.reason, "reason": self.reason, **self.figures}


def gap_proof(solver: AcceleratedSolver | SubgradientSolver, state: Any) -> Proof:
    """How far above the optimum a solution is at most, as the solver says of a state that has finished.

    Source: Ito et al., JMLR 18(16), 2017, section 4.4.3.
    """
    figures = solver.certificate(state)
    kind = figures["kind"]
    assert kind in ("duality gap", "gap over all rows")
    return Proof(kind, {name: value for name, value in figures.items() if name != "kind"})


def excess_proof(
    solver: OnlineSolver, state: OnlineState, data: Dataset, confidence: float, execution: Execution
) -> Proof:
    """How far above the optimum over all rows the model of Pegasos is at most, exactly or at a confidence.

    Source: as in okl.subgradient.certificate.
    """
    recipe, predictor = solver.recipe, solver.predictor(state)
    assert isinstance(recipe, PegasosRecipe)
    assert isinstance(predictor, LinearPredictor)
    prover = Prover(make_piecewise(recipe.loss.name), recipe.lam, confidence, seed=solver.seed)
    weights = predictor.weights[0] if predictor.n_outputs == 1 else predictor.weights
    bound = prover.bound(data, predictor.feature_map, weights, execution)
    sure = "" if bound.confidence is None else f" at {100.0 * bound.confidence:g}% confidence"
    figures = {
        "rows_sampled": bound.rows,
        "bytes_read": bound.bytes_read,
        "outcome": f"gap {bound.gap:.3g} over all rows{sure}",
    }
    return Proof("gap over all rows", bound.as_json() | figures)


def regret_proof(
    solver: OnlineSolver,
    state: OnlineState,
    standings: Sequence[Standing],
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
) -> Proof:
    """Regret of a learner in a ball, against the best weights of that ball and the same map in hindsight.

    Parameters
    ----------
    solver, state : of an exact run of one pass that has finished; standings : on its way, the last one at its end
    observer : told of rows read and of rows whose horizon is certified, which are counted once a horizon

    Returns
    -------
    regret, average_regret, bound and comparator of all rows, the same at five horizons, and how regret grew; without a
    ball, or with more rows than memory holds, only the reason why there is none
    """
    learner = state.learner
    if not isinstance(learner, LinearLearner) or learner.radius is None:
        return Proof(
            "regret",
            reason="Nothing keeps the weights within a class to compare them with, so that a regret would mean "
            "nothing: give a radius, and they stay in its ball.",
        )
    told = Told.of(observer or NullObserver(), standings)
    if (held := hold_rows(learner, state, data, execution, told)) is None:
        return Proof(
            "regret",
            reason=f"The best weights in hindsight take the inputs of all {data.rows('train'):,} rows in memory, "
            f"which are more than {MOST_BYTES / 2**30:g} GiB.",
        )
    horizons = [_Horizon.of(one, learner, hindsight) for one, hindsight in hindsights(learner, held, standings, told)]
    last = horizons[-1]
    grown = growth_exponent(np.array([one.played.rows for one in horizons]), np.array([one.regret for one in horizons]))
    return Proof(
        "regret",
        last.figures()
        | {
            "comparator": last.comparator(),
            "horizons": [one.figures() | {"comparator": one.comparator()} for one in horizons],
            "growth_exponent": grown,
            "kernel_bound": last.kernel_bound(data.schema),
        },
    )


def tracking_proof(
    solver: OnlineSolver,
    state: OnlineState,
    standings: Sequence[Standing],
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
) -> Proof:
    """Regret of a tracker, against models of a ball in the same map that change at most 0, 1, 2, 4, ... times.

    Parameters
    ----------
    solver, state, standings, observer : as of `regret_proof`

    Returns
    -------
    loss (of the mean of scores that is predicted with, by the loss that its experts step by), mistakes and, for each
    number of changes, the comparator's loss and what the regret is at most; or only the reason why there is none
    """
    learner, recipe = state.learner, solver.recipe
    assert isinstance(learner, TrackingLearner)
    assert isinstance(recipe, TrackingRecipe)
    if recipe.radius is None:
        return Proof(
            "tracking regret",
            reason="Nothing says which models to compare with: give a radius, that of the ball their weights lie in.",
        )
    rows = standings[-1].done_rows
    # rows are read once, and those of every run of windows are solved
    told = Told(observer or NullObserver(), rows + rows * (PIECES + 1) * (PIECES + 2) // 6)
    alone = LinearLearner(learner.feature_map, learner.loss, 1.0, 1, learner.class_weights, radius=recipe.radius)
    if (held := hold_rows(alone, state, data, execution, told)) is None:
        return Proof(
            "tracking regret",
            reason=f"The best models in hindsight take the inputs of all {data.rows('train'):,} rows in memory, "
            f"which are more than {MOST_BYTES / 2**30:g} GiB.",
        )
    if not (borders := chosen_borders(standings, held.labels)):
        return Proof("tracking regret", reason="All rows are of one class: there is nothing to compare.")
    runs = solve_runs(held, borders, recipe.radius, told)
    progress = state.learned.progress
    return Proof(
        "tracking regret",
        {
            "rows": progress.rows,
            "loss": progress.surrogate,
            "loss_name": learner.loss.name,
            "mistakes": progress.mistakes,
            "radius": recipe.radius,
            "borders": runs.borders.tolist(),
            "comparisons": [one.as_json(progress.surrogate) for one in compare(runs)],
        },
    )


@dataclass(frozen=True, eq=False)
class _Horizon:
    """Learner and comparator on the first rows."""

    played: Played
    learner: LinearLearner
    hindsight: Hindsight

    @classmethod
    def of(cls, standing: Standing, learner: LinearLearner, hindsight: Hindsight) -> _Horizon:
        sums = standing.surrogate, standing.squared_gradients, standing.stepped_gradients
        return cls(Played(standing.done_rows, *sums), learner, hindsight)

    @property
    def regret(self) -> float:
        return self.played.loss - self.hindsight.certificate.primal

    @property
    def steps(self) -> Steps:
        return Steps(self.learner.step_size, self.learner.decaying)

    @property
    def radius(self) -> float:
        assert self.learner.radius is not None
        return self.learner.radius

    def _bound(self, norm: float) -> float | None:
        """What theory puts on the regret against weights of a norm, None where it claims nothing."""
        if not isinstance(self.learner, ConstrainedLearner):
            return map_space_bound(self.played, self.steps, self.radius, norm)
        return constrained_bound(self.played, self.steps, self.radius, norm) if self.learner.covered else None

    def figures(self) -> dict[str, Any]:
        """The regret is against the weights found; against the best ones it is at most regret_at_most."""
        norm = float(np.linalg.norm(self.hindsight.weights))
        return {
            "rows": self.played.rows,
            "loss": self.played.loss,
            "regret": self.regret,
            "regret_at_most": self.played.loss - self.hindsight.certificate.dual,
            "average_regret": self.regret / self.played.rows,
            "bound": self._bound(norm),
        }

    def comparator(self) -> dict[str, Any]:
        proof = self.hindsight.certificate
        return {
            "objective": proof.primal,
            "dual_objective": proof.dual,
            "relative_gap": proof.relative_gap,
            "radius": self.radius,
            "norm": float(np.linalg.norm(self.hindsight.weights)),
            "iterations": self.hindsight.iterations,
            "reason": self.hindsight.reason,
        } | self._limits()

    def _limits(self) -> dict[str, Any]:
        """What the quantities of constraints come to for the comparator; nothing without constraints."""
        if not isinstance(self.learner, ConstrainedLearner):
            return {}
        kept = self.learner.kept
        return {
            "values": kept.values(self.hindsight.weights).tolist(),
            "excess": float(kept.excess(self.hindsight.weights).max()),
        }

    def kernel_bound(self, schema: Schema) -> dict[str, Any] | None:
        """Theorem 1 against f = sum_t alpha_t k(x_t, .) with the comparator's own alpha; None for other maps."""
        feature_map = self.learner.feature_map
        if not isinstance(feature_map, FourierFeatures) or isinstance(self.learner, ConstrainedLearner):
            return None
        setting = KernelSetting(
            n_inputs=feature_map.n_inputs,
            n_frequencies=feature_map.n_frequencies,
            diameter=_diameter(schema),
            second_moment=_second_moment(feature_map),
            lipschitz=max(self.learner.class_weights or (1.0,)),
            l1_norm=self.hindsight.l1_norm,
        )
        step = self.steps.at(self.played.rows)
        bound = kernel_space_bound(self.played, step, setting)
        return {
            "theorem": "Lu et al., JMLR 17(47), 2016, Theorem 1",
            "bound": bound.bound,
            "epsilon": bound.epsilon,
            "probability": bound.probability,
            "step": step,
            "l1_norm": setting.l1_norm,
            "diameter": setting.diameter,
            "second_moment": setting.second_moment if math.isfinite(setting.second_moment) else None,
            "vacuous": bound.vacuous,
        }


def _diameter(schema: Schema) -> float:
    """Of the box that holds the training rows' inputs."""
    _, factors = schema.shift_and_factor
    sides = np.array([column.maximum - column.minimum for column in schema.feature_statistics]) * factors
    return float(np.linalg.norm(sides))


def _second_moment(feature_map: FourierFeatures) -> float:
    """E ||u||^2 of the kernel's frequencies u; infinite for the Laplacian kernel, whose frequencies are Cauchy."""
    degrees = {"gaussian": math.inf, "matern52": 5.0, "matern32": 3.0}.get(feature_map.kernel.name, 0.0)
    if degrees <= 2.0:
        return math.inf
    # normal frequencies, or Student's of these degrees of freedom, whose variance is degrees / (degrees - 2)
    spread = 1.0 if math.isinf(degrees) else degrees / (degrees - 2.0)
    return spread * feature_map.n_inputs / float(feature_map.kernel.bandwidth) ** 2  # type: ignore[attr-defined]
