"""What a run on growing samples tells: where it stands and why it ended, what it leaves, chose and proved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from okl.expansions import KernelExpansion
from okl.predictors import LinearPredictor, Predictor
from okl.solvers import Convergence, Outcome
from okl.subgradient.certificate import exact_bound
from okl.subgradient.kerneldescent import KernelDescent
from okl.subgradient.kernelsampling import kernel_of
from okl.subgradient.state import SubgradientState
from okl.types import Precision


def outcome_of(
    state: SubgradientState, gap: float, confidence: float, max_iterations: int, full: bool
) -> Outcome | None:
    """Why a run is over, or None. gap, confidence : asked for; full : whether there is no room for a larger sample"""
    at, proof = state.descent, state.proof
    if not (math.isfinite(at.objective) and np.isfinite(at.weights).all()):
        return Outcome("diverged", f"the objective is {at.objective:g} after {at.iterations:,} iterations")
    if proof is None:
        return None
    if proof.confidence is None:
        where = f"gap {proof.gap:.3g} over all {at.n_rows:,} rows"
    else:
        where = f"gap {proof.gap:.3g} over all rows at {100.0 * confidence:g}% confidence"
    if proof.gap <= gap:
        return Outcome("done", where)
    if at.iterations >= max_iterations:
        return Outcome("out of budget", f"{where}, after {at.iterations:,} iterations")
    if proof.confidence is None:
        return Outcome("out of budget", f"{where}: with these rows float64 tells no smaller one")
    if full:
        return Outcome("out of budget", f"{where}: kernel values of a larger sample do not fit; a map would do")
    return None


def standing_of(state: SubgradientState) -> Convergence:
    """Iterations, objective and bound: over all rows once they are proved, of the sample until then."""
    at, proof = state.descent, state.proof
    objective, lower = (at.objective, at.lower_bound) if proof is None else (proof.objective, proof.lower_bound)
    size = max(abs(objective), abs(lower))
    gap = max(0.0, objective - lower) / size if size else 0.0
    return Convergence(at.iterations, gap, objective, lower, at.n_rows)


def predictor_of(state: SubgradientState, constant: bool, precision: Precision) -> Predictor:
    """The map with the weights, the last of which is a bias if there is a constant; or a sum over support vectors."""
    at = state.descent
    if isinstance(at, KernelDescent):
        supports, coefficients = at.support
        return KernelExpansion(kernel_of(state.rows), supports, coefficients.astype(precision))
    weights = np.atleast_2d(at.weights).astype(precision)
    if not constant:
        return LinearPredictor(state.rows.feature_map, weights)
    return LinearPredictor(
        state.rows.feature_map, np.ascontiguousarray(weights[:, :-1]), np.ascontiguousarray(weights[:, -1])
    )


def sample_of(state: SubgradientState) -> dict[str, Any]:
    """How large the sample came to be, and why."""
    at, run = state.descent, state.rows.design.run_rows
    why = f"{at.n_rows / state.n_all:.2%} of the rows, {'one by one' if run == 1 else f'in runs of {run}'}"
    told: dict[str, Any] = {
        "sample_rows": at.n_rows,
        "sample_rows_reason": "all of them" if state.share >= 1.0 else why,
    }
    if isinstance(at, KernelDescent):
        told["support_vectors"] = len(at.support[0])
        told["support_vectors_reason"] = "rows of the sample that a cut leans on"
    if state.one_class:
        told["one_class_samples"] = state.one_class
        told["one_class_samples_reason"] = "all rows of these had one label, so that more were drawn at once"
    return told


def certificate_of(state: SubgradientState, confidence: float, outcome: str) -> dict[str, Any]:
    """The proof, or of a sample what is known of it. confidence : of all proofs that were tried together"""
    at = state.descent
    proof = state.proof or exact_bound(at.objective, at.lower_bound)
    return {
        "kind": "gap over all rows",
        **proof.as_json(),
        "confidence": None if proof.confidence is None else confidence,
        "sample_rows": at.n_rows,
        "samples": list(state.samples),
        "sampled_objective": at.objective,
        "sampled_lower_bound": at.lower_bound,
        "rows_sampled": state.drawn_rows,
        "bytes_read": state.bytes_read,
        "attempts": state.attempts,
        "iterations": at.iterations,
        "outcome": outcome,
    }
