"""Where a run of the accelerated method stands, what it becomes at a check, and when it is over."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from okl.accelerated.history import Record
from okl.accelerated.iterates import Iterate
from okl.accelerated.pace import Pace
from okl.accelerated.standing import Standing
from okl.solvers import Outcome
from okl.types import IntArray

_STILL_FALLING = 0.9
_FLOOR = 1e-15
_VANISHED = 1e-9  # of the objectives at first


@dataclass(frozen=True, eq=False)
class FapgState:
    """Where a run stands; a value.

    pace : scalars before the next iteration; current, previous : the last two points
    best : the point of least primal objective at a check, whose gap is that to the best dual one
    improved_at : iteration at which the least gap was last a tenth below improved_gap, the one it then became
    reads : of the data so far, or of the part that was awake; history : a record a check, the last one of `current`
    standing : how firmly rows stood at the last check; awake : the rows that move until the next one, None for all
    multipliers : of the last step's hyperplanes, a guess at the next one's
    """

    pace: Pace
    current: Iterate
    previous: Iterate
    best: Iterate
    best_record: Record
    improved_at: int
    improved_gap: float
    reads: int
    history: tuple[Record, ...]
    standing: Standing | None = None
    awake: IntArray | None = None
    multipliers: tuple[float, float] = (0.0, 0.0)


def next_state(state: FapgState, pace: Pace, current: Iterate, previous: Iterate, record: Record) -> FapgState:
    """The state after a check: its best point is that of the least primal objective so far."""
    # any point's dual objective bounds the optimum: every w may take the best bound found so far
    dual = max(record.certificate.dual, state.best_record.certificate.dual)
    record, best_record = _with_dual(record, dual), _with_dual(state.best_record, dual)
    better = record.certificate.gap < best_record.certificate.gap
    least = record if better else best_record
    falling = least.certificate.gap < _STILL_FALLING * state.improved_gap
    return FapgState(
        pace=pace,
        current=current,
        previous=previous,
        best=current if better else state.best,
        best_record=least,
        improved_at=record.iteration if falling else state.improved_at,
        improved_gap=least.certificate.gap if falling else state.improved_gap,
        reads=record.reads,
        history=(*state.history, record),
    )


def _with_dual(record: Record, dual: float) -> Record:
    return replace(record, certificate=replace(record.certificate, dual=dual))


def ending_of(
    state: FapgState, tolerance: float, residual_tolerance: float | None, max_iterations: int
) -> Outcome | None:
    """Why a run is over, or None; the limits are those of the method."""
    record, certificate = state.history[-1], state.best_record.certificate
    if not (math.isfinite(record.certificate.gap) and math.isfinite(record.objective)):
        return Outcome("diverged", f"the objective is {record.objective} after {record.iteration} iterations")
    if certificate.relative_gap <= tolerance:
        return Outcome("done", f"relative duality gap {certificate.relative_gap:.2g}, asked for {tolerance:g}")
    if residual_tolerance is not None and record.residual <= residual_tolerance:
        return Outcome("done", f"optimality residual {record.residual:.2g}, asked for {residual_tolerance:g}")
    first = state.history[0].certificate
    if certificate.dual <= 0.0 <= certificate.primal and certificate.gap <= _VANISHED * max(
        abs(first.primal), abs(first.dual)
    ):
        return Outcome("done", f"the optimum is 0: it lies between {certificate.dual:.2g} and {certificate.primal:.2g}")
    # an optimum of 0 is reached but for the rounding of what it began with
    rounding = max(certificate.rounding, _FLOOR * max(abs(first.primal), abs(first.dual)))
    if certificate.gap <= rounding or record.iteration > 2 * state.improved_at + 1000:
        return Outcome(
            "done",
            f"numerical floor: the relative duality gap stopped falling at {certificate.relative_gap:.2g}, "
            f"above the {tolerance:g} asked for",
        )
    if record.iteration >= max_iterations:
        return Outcome("out of budget", f"{record.iteration} iterations, relative gap {certificate.relative_gap:.2g}")
    return None
