"""The certificate of a run.

A proof is stored in the result of a run as "certificate", with its kind; a vacuous one is not shown, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from okl.certificates.hindsight import MOST_BYTES, HindsightProgress, hindsights, hold_rows
from okl.certificates.regret import PIECES, RegretAtHorizon, chosen_borders, compare, growth_exponent, solve_runs
from okl.data.dataset import Dataset
from okl.data.executor import Execution
from okl.features.predictors import LinearPredictor
from okl.foundation.telemetry import NullObserver, Observer
from okl.solvers.base import CertifiedSolver, SolverProgress
from okl.solvers.online.drift import TrackingFactory, TrackingLearner
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.solver import OnlineSolver, OnlineState
from okl.solvers.subgradient.losses import make_piecewise
from okl.solvers.subgradient.pegasos import PegasosFactory
from okl.solvers.subgradient.solver import Prover


@dataclass(frozen=True)
class Certification:
    """Certificate of a run, as its result stores it.

    kind : of what; figures : by name, as JSON; reason : why they mean nothing and are not shown, "" where they are
    """

    kind: Literal["duality gap", "gap over all rows", "regret", "tracking regret"]
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the entry "certificate" of a run's result."""
        return {"kind": self.kind, "shown": not self.reason, "reason": self.reason, **self.figures}


def gap_proof(solver: CertifiedSolver[Any], state: Any) -> Certification:
    """Return the proved gap of a finished state.

    Source: Ito et al., JMLR 18(16), 2017, section 4.4.3.
    """
    figures = solver.certificate(state)
    kind = figures["kind"]
    assert kind in ("duality gap", "gap over all rows")
    reason = figures.get("reason", "")
    return Certification(
        kind, {name: value for name, value in figures.items() if name not in ("kind", "reason")}, reason
    )


def excess_proof(
    solver: OnlineSolver, state: OnlineState, data: Dataset, confidence: float, execution: Execution
) -> Certification:
    """Return the largest possible gap of a Pegasos model over all rows, exactly or at a confidence level.

    Source: as in okl.solvers.subgradient.sampling.
    """
    factory, predictor = solver.factory, solver.predictor(state)
    assert isinstance(factory, PegasosFactory)
    assert isinstance(predictor, LinearPredictor)
    prover = Prover(make_piecewise(factory.loss.name), factory.lam, confidence, seed=solver.seed)
    weights = predictor.weights[0] if predictor.n_outputs == 1 else predictor.weights
    bound = prover.bound(data, predictor.feature_map, weights, execution)
    sure = "" if bound.confidence is None else f" at {100.0 * bound.confidence:g}% confidence"
    figures = {
        "rows_sampled": bound.rows,
        "bytes_read": bound.bytes_read,
        "outcome": f"gap {bound.gap:.3g} over all rows{sure}",
    }
    return Certification("gap over all rows", bound.as_json() | figures)


def regret_proof(
    solver: OnlineSolver,
    state: OnlineState,
    standings: Sequence[SolverProgress],
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
) -> Certification:
    """Regret of a learner in a ball, against the best weights of that ball and the same map in hindsight.

    Parameters
    ----------
    solver, state : of an exact run of one pass that has finished; standings : on its way, the last one at its end
    observer : notified of rows read and of rows of certified horizons

    Returns
    -------
    regret, average_regret, bound and comparator of all rows, the same at five horizons, and how regret grew; without a
    ball, or with more rows than memory holds, only the reason why there is none
    """
    learner = state.learner
    if not isinstance(learner, LinearLearner) or learner.radius is None:
        return Certification(
            "regret",
            reason="Regret requires a comparison class, but the weights are unbounded. "
            "Set a radius, so that they stay in a ball.",
        )
    progress = HindsightProgress.of(observer or NullObserver(), standings)
    if (rows := hold_rows(learner, state, data, execution, progress)) is None:
        return Certification("regret", reason=_unheld(data.rows("train")))
    horizons = [
        RegretAtHorizon.of(horizon, learner, hindsight)
        for horizon, hindsight in hindsights(learner, rows, standings, progress)
    ]
    last = horizons[-1]
    grown = growth_exponent(
        np.array([horizon.played.rows for horizon in horizons]), np.array([horizon.regret for horizon in horizons])
    )
    return Certification(
        "regret",
        last.figures()
        | {
            "comparator": last.comparator(),
            "horizons": [horizon.figures() | {"comparator": horizon.comparator()} for horizon in horizons],
            "growth_exponent": grown,
            "kernel_bound": last.kernel_bound(data.schema),
        },
    )


def _unheld(rows: int) -> str:
    return (
        f"The best models in hindsight require the inputs of all {rows:,} rows in memory, more than "
        f"{MOST_BYTES / 2**30:g} GiB."
    )


def tracking_proof(
    solver: OnlineSolver,
    state: OnlineState,
    standings: Sequence[SolverProgress],
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
) -> Certification:
    """Regret of a tracker, against models of a ball in the same map that change at most 0, 1, 2, 4, ... times.

    Parameters
    ----------
    solver, state, standings, observer : as of `regret_proof`

    Returns
    -------
    loss (of the mean of scores that is predicted with, by the loss that its experts step by), mistakes and, for each
    number of changes, the comparator's loss and what the regret is at most; or only the reason why there is none
    """
    learner, factory = state.learner, solver.factory
    assert isinstance(learner, TrackingLearner)
    assert isinstance(factory, TrackingFactory)
    if factory.radius is None:
        return Certification(
            "tracking regret",
            reason="Regret requires a comparison class. Set a radius, that of a ball for the weights.",
        )
    rows = standings[-1].done_rows
    # rows are read once, and those of every run of windows are solved
    reporting = HindsightProgress(observer or NullObserver(), rows + rows * (PIECES + 1) * (PIECES + 2) // 6)
    alone = LinearLearner(learner.feature_map, learner.loss, 1.0, 1, learner.class_weights, radius=factory.radius)
    if (rows_in_memory := hold_rows(alone, state, data, execution, reporting)) is None:
        return Certification("tracking regret", reason=_unheld(data.rows("train")))
    if not (borders := chosen_borders(standings, rows_in_memory.labels)):
        return Certification(
            "tracking regret", reason="All rows belong to one class, so there is no model to compare with."
        )
    runs = solve_runs(rows_in_memory, borders, factory.radius, reporting)
    progress = state.learned.progress
    return Certification(
        "tracking regret",
        {
            "rows": progress.rows,
            "loss": progress.surrogate,
            "loss_name": learner.loss.name,
            "mistakes": progress.mistakes,
            "radius": factory.radius,
            "borders": runs.borders.tolist(),
            "comparisons": [comparison.as_json(progress.surrogate) for comparison in compare(runs)],
        },
    )
