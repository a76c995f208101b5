"""What a run under constraints is remembered by, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from okl.curve import LearningCurve
from okl.learning import Learnt
from okl.online.constrained import ConstrainedLearner
from okl.online.solver import OnlineSolver

THEOREM = (
    "Rows came one after the other and the constraints stayed: Theorem 2 of Yi et al. (ICML 2021) bounds their sum by "
    "the rows to the power of 1/4, and the regret by their square root."
)
CONSTANT = (
    "Rows came one after the other, the constraints stayed and so did the step: Lemma 1 of Yi et al. (ICML 2021) "
    "bounds the regret; rates in the rows it gives to steps alone that are chosen by their number (Theorem 1) or decay."
)
BEYOND = (
    "The gain is above what the theorems of Yi et al. (ICML 2021) allow: no bound is claimed of violation or regret."
)
NO_THEOREM = (
    "Shards learnt apart, rows came again, or the constraints were refreshed: no theorem is claimed for their sum."
)


def constraint_figures(
    learnt: Learnt, measured: Mapping[str, list[dict[str, Any]] | None], rows: int
) -> dict[str, Any]:
    """What a run under constraints keeps to and was outside of on its way, as JSON; nothing for others.

    measured : of each split, a dict for each constraint; rows : training rows, all of which its rows come from
    """
    solver, state = learnt.solver, learnt.state
    if not isinstance(solver, OnlineSolver) or not isinstance(state.learner, ConstrainedLearner):
        return {}
    assert isinstance(learnt.curve, LearningCurve)
    learner, exact = state.learner, solver.mode == "stream" and solver.passes == 1
    kept, chosen = learner.kept, learner.chosen(state.learned)
    limits: list[dict[str, Any]] = [
        {
            "constraint": name,
            "low": float(low) if math.isfinite(low) else None,
            "high": float(high) if math.isfinite(high) else None,
            **{split: found[index] for split, found in measured.items() if found is not None},
        }
        for index, (name, low, high) in enumerate(zip(kept.names, kept.low, kept.high, strict=True))
    ]
    return {
        "constraints": {
            "rows": rows,
            "radius": kept.radius,
            "margin": float(kept.margins.max()),
            "limits": limits,
            "met": all((one["train"]["excess"] or 0.0) == 0.0 for one in limits),
            "violation_a_row": chosen["violation_a_row"],
            "violation_as_learnt": chosen["violation_as_learnt"],
            "gain": learner.gain,
            "largest_gain": learner.largest_gain,
            "theorem": _theorem(learner, exact),
            "curve": learnt.curve.violations(),
        }
    }


def _theorem(learner: ConstrainedLearner, exact: bool) -> str:
    """What is claimed of a run, in a sentence."""
    if not learner.fixed or not exact:
        return NO_THEOREM
    if not learner.covered:
        return BEYOND
    return THEOREM if learner.decaying else CONSTANT
