"""The fast accelerated proximal gradient method (FAPG)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray, IntArray
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.solvers.accelerated.base import ActiveRows, Certificate, Iterate, Iterates, Problem, Solution, StepOutcome
from okl.solvers.base import Outcome

# What a run of the accelerated method has recorded: the numbers that its figures plot.


@stored("fapg-record")
@dataclass(frozen=True)
class FapgRecord:
    """The method at one of its checks.

    iteration : iterations done; objective : F there; certificate : its gap
    residual : lipschitz * ||T(x) - x||, the violation of the optimality condition
    lipschitz : the estimate in use; restarts : so far
    reads : of the data so far, by `apply` and `adjoint`; level : of smoothing
    """

    iteration: int
    objective: float
    certificate: Certificate
    residual: float
    lipschitz: float
    restarts: int
    reads: int
    level: int


# The scalars of the accelerated method: momentum, Lipschitz estimate and restarts; no vector in sight.
#
# Legend: L Lipschitz estimate, t acceleration, K iterations without restart (paper's letters).


@dataclass(frozen=True)
class Switches:
    """Switches of the parts of the method, by the paper's names.

    bt : backtracking, the Lipschitz estimate grows until the step is proven good
    dec : the estimate shrinks after every iteration; re : momentum is dropped where the step would go uphill
    mt : no restart for K iterations after one, K doubling each time
    st : each restart lets the estimate shrink more slowly
    """

    bt: bool = True
    dec: bool = True
    re: bool = True
    mt: bool = True
    st: bool = True


# eta_u, by more where a step shows that it takes more; eta_d at first; delta; K_1, iterations
GROWTH, _SHRINK, _CALMING, _FIRST_PAUSE = 1.1, 1.1, 0.8, 2
_HELD = 10  # iterations after a refused step in which a practical method does not shrink its estimate


@stored("fapg-step-sizes")
@dataclass(frozen=True)
class StepState:
    """Step-size state before an iteration.

    iteration : of the next step, from 1; lipschitz, before_lipschitz : L_k and L_(k-1)
    acceleration, before_acceleration : t_k and t_(k-1)
    shrink : eta_d; pause : K_i; restarted_at : the iteration of the last restart, 0 if none; restarts : so far
    least : the estimate never falls below it
    objective : F of the current point; ceiling : F at the last restart, which Lemma 5 forbids to rise above;
        infinite after a change of objective, until a step is kept
    distrusted : whether the last step rose above it, so that the next one must prove itself
    refused_at : the iteration of the last step that was refused at first, 0 if none
    """

    iteration: int
    lipschitz: float
    before_lipschitz: float
    acceleration: float
    before_acceleration: float
    shrink: float
    pause: int
    restarted_at: int = 0
    restarts: int = 0
    least: float = 0.0
    objective: float = math.inf
    ceiling: float = math.inf
    distrusted: bool = False
    refused_at: int = 0

    @property
    def momentum(self) -> float:
        """Return (t_(k-1) - 1) / t_k, which extrapolates from the last two points to where the step starts."""
        return (self.before_acceleration - 1.0) / self.acceleration

    def steeper(self, growth: float, proven: bool) -> StepState:
        """Return the state after one backtracking round; Algorithm 3 also undoes the extrapolation, 4 does not."""
        lipschitz = self.lipschitz * growth
        if not proven:
            return replace(self, lipschitz=lipschitz, refused_at=self.iteration)
        acceleration = _next_acceleration(self.before_acceleration, lipschitz / self.before_lipschitz)
        return replace(self, lipschitz=lipschitz, acceleration=acceleration)

    def onward(self, objective: float, proven: bool, dec: bool) -> StepState:
        """Return the state after an accepted step: Steps 2 (2') and 'dec'."""
        # a step that was just refused would be refused again, which costs a read
        lipschitz = self._shrunk(dec and (proven or not self.refused_at or self.iteration > self.refused_at + _HELD))
        ratio = lipschitz / self.lipschitz if proven else 1.0
        return replace(
            self,
            iteration=self.iteration + 1,
            lipschitz=lipschitz,
            before_lipschitz=self.lipschitz,
            acceleration=_next_acceleration(self.acceleration, ratio),
            before_acceleration=self.acceleration,
            objective=objective,
            ceiling=objective if math.isinf(self.ceiling) else self.ceiling,
            distrusted=False,
        )

    def restarted(self, switches: Switches, distrusted: bool) -> StepState:
        """Return the state after a rejected step: 're' with 'mt' and 'st'."""
        lipschitz = self._shrunk(switches.dec)
        return replace(
            self,
            iteration=self.iteration + 1,
            lipschitz=lipschitz,
            before_lipschitz=self.lipschitz,
            acceleration=1.0,
            before_acceleration=0.0,
            shrink=_CALMING * self.shrink + (1.0 - _CALMING) if switches.st else self.shrink,
            pause=2 * self.pause if switches.mt else self.pause,
            restarted_at=self.iteration,
            restarts=self.restarts + 1,
            ceiling=self.objective,
            distrusted=distrusted,
        )

    def _shrunk(self, dec: bool) -> float:
        return max(self.lipschitz / self.shrink, self.least) if dec else self.lipschitz


def _next_acceleration(acceleration: float, ratio: float) -> float:
    return 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * ratio * acceleration * acceleration))


# State of a run of the accelerated method, its changes at a check, and its end.


@stored("fapg-state", renamed={"improved_at": None, "improved_gap": None, "awake": "active"})
@dataclass(frozen=True, eq=False)
class FapgState:
    """State of a run; a value.

    pace : scalars before the next iteration; current, previous : the last two points
    best : the point of least primal objective at a check, whose gap is that to the best dual one
    reads : of the data so far, or of the part that was active; history : a record a check, the last one of `current`
    standing : how firmly rows stood at the last check; active : the rows that move until the next one, None for all
    multipliers : of the last step's hyperplanes, a guess at the next one's
    """

    pace: StepState
    current: Iterate
    previous: Iterate
    best: Iterate
    best_record: FapgRecord
    reads: int
    history: tuple[FapgRecord, ...]
    standing: ActiveRows | None = None
    active: IntArray | None = None
    multipliers: tuple[float, float] = (0.0, 0.0)


def next_state(state: FapgState, pace: StepState, current: Iterate, previous: Iterate, record: FapgRecord) -> FapgState:
    """Return the state after a check; its best point has the least primal objective so far."""
    # any point's dual objective bounds the optimum: every w may take the best bound found so far
    dual = max(record.certificate.dual, state.best_record.certificate.dual)
    record, best_record = _with_dual(record, dual), _with_dual(state.best_record, dual)
    better = record.certificate.gap < best_record.certificate.gap
    return FapgState(
        pace=pace,
        current=current,
        previous=previous,
        best=current if better else state.best,
        best_record=record if better else best_record,
        reads=record.reads,
        history=(*state.history, record),
    )


def _with_dual(record: FapgRecord, dual: float) -> FapgRecord:
    return replace(record, certificate=replace(record.certificate, dual=dual))


def rounded_ending(certificate: Certificate, falls: bool, tolerance: float) -> Outcome | None:
    """Return the outcome where the gap is no larger than the error of its own arithmetic; None where it may be.

    falls : whether the last check lowered the gap: the estimate of the error is of the worst case
    """
    if certificate.gap > certificate.rounding:
        return None
    if certificate.dual <= 0.0 == certificate.primal:  # weights of 0 have it, and none has less but for rounding
        return Outcome("done", f"the optimum is 0 within rounding: it is between {certificate.dual:.2g} and 0")
    if falls:
        return None
    return Outcome(
        "not converged",
        f"numerical floor: float64 cannot resolve a relative duality gap below {certificate.relative_gap:.2g} on these "
        f"rows, above the tolerance {tolerance:g}",
    )


# The fast accelerated proximal gradient method: one for every problem, stopped by its certificate.
#
# Configuration is frozen; all that evolves is in a state value. One `advance` runs the iterations up to the next
# check, which costs one read of the data more than an iteration.

# of one step: at the numerical floor, where a step is all rounding, none would be enough
_MOST_GROWTHS, _MOST_GROWTH = 50, 10.0
_LEAST_PAUSE, _MOST_PAUSE = 10, 100  # iterations between checks, a tenth of those done
_MOST_LEVELS = 12
_ROUNDING = 1e-12  # of an objective


@dataclass(frozen=True)
class Fapg:
    """Algorithms 1, 3 (proven) and 4 (practical), by their switches.

    method : "proven" goes back to before the extrapolation when it backtracks, and always backtracks; Algorithm 1 is
        the proven method without restarts. "practical" backtracks from where it is; beyond the paper, a step that
        breaks Lemma 5 is thrown away, and the next one has to prove itself, and for 10 iterations after a refused step
        the estimate does not shrink, which takes a quarter off the reads.
    tolerance : of the gap, relative to the objective; > 0
    residual_tolerance : of lipschitz ||T(x) - x||, the violation of the optimality condition; None: the gap alone
    max_iterations : int >= 1; switches : which parts are on; first_lipschitz : L_0 > 0; None: the problem's own
    check_every : iterations between checks; None: a tenth of those done, from 10 to 100
    backtrack_every : iterations between those in which a practical method backtracks; 10 in the paper. Images are
        affine and carried, so that it costs no read unless the step is refused
    shrinking : whether rows that stay at a bound are skipped between two checks, an addition to the paper;
        only a practical method of explicit rows does
    Raises ConfigError : a number outside its range
    Source: Ito et al., 2017, Algorithms 1, 3 and 4 and section 5.2; Algorithm 4 backtracks where k mod 10 = 1.
    """

    method: Literal["proven", "practical"] = "practical"
    tolerance: float = 1e-6
    residual_tolerance: float | None = None
    max_iterations: int = 100_000
    switches: Switches = field(default_factory=Switches)
    first_lipschitz: float | None = None
    check_every: int | None = None
    backtrack_every: int = 1
    shrinking: bool = True

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("proven", "practical"))
        for name, value in (("tolerance", self.tolerance), ("residual_tolerance", self.residual_tolerance)):
            if value is not None:
                check_positive(name, value)
        if self.first_lipschitz is not None:
            check_positive("first_lipschitz", self.first_lipschitz)
        check_at_least("max_iterations", self.max_iterations, 1)
        check_at_least("backtrack_every", self.backtrack_every, 1)
        if self.check_every is not None:
            check_at_least("check_every", self.check_every, 1)

    def opened(self, problem: Problem, point: FloatArray | None = None) -> Problem:
        """Return the problem: the other methods take it as it is."""
        return problem

    def start(self, problem: Problem, point: FloatArray | None = None) -> FapgState:
        """Return the state before the first iteration, with a check, because a warm start may already suffice.

        point : (n_points,) to start from, brought into the problem's set; None: the problem's own start
        Raises DataError : the point has another length, or is not finite
        """
        lipschitz = self.first_lipschitz or problem.first_lipschitz
        current = problem.first_iterate(point, lipschitz)
        pace = StepState(1, lipschitz, lipschitz, 1.0, 0.0, _SHRINK, _FIRST_PAUSE, least=1e-9 * lipschitz)
        record = self._record(problem.iterates(current, current, None, (0.0, 0.0)), pace, 1, 0)
        pace = replace(pace, objective=record.objective, ceiling=record.objective)
        return FapgState(pace, current, current, current, record, record.reads, (record,))

    def advance(self, state: FapgState, problem: Problem) -> FapgState:
        state, level = self._levelled(state)
        iterates = problem.at_level(level).iterates(state.current, state.previous, state.active, state.multipliers)
        following = replace(self._run(state, iterates, level), multipliers=iterates.multipliers)
        if not (self.shrinking and self.method == "practical" and level == 0):
            return following
        standing = iterates.active_rows(following.pace.lipschitz)
        active = None if standing is None else standing.active_since(state.standing)
        return replace(following, standing=standing, active=active)

    def _levelled(self, state: FapgState) -> tuple[FapgState, int]:
        """Return the state to continue from, without momentum if smoothing is reduced, and the next smoothing level.

        One level more is due where smoothing is more than half of the gap.
        """
        level = state.history[-1].level
        if state.history[-1].certificate.floor <= 0.5 * state.history[-1].certificate.gap or level >= _MOST_LEVELS:
            return state, level
        # another objective: neither momentum nor ceiling were of this one, and it is steeper
        pace = replace(state.pace, acceleration=1.0, before_acceleration=0.0, ceiling=math.inf, distrusted=True)
        return replace(state, pace=pace, previous=state.current), level + 1

    def _run(self, state: FapgState, iterates: Iterates, level: int) -> FapgState:
        """Iterate up to the next check, through the owner of the vectors of the state."""
        pace = state.pace
        done = pace.iteration - 1
        pause = self.check_every or min(max(done // 10, _LEAST_PAUSE), _MOST_PAUSE)
        last = min(done + pause, self.max_iterations)
        while pace.iteration <= last:
            pace, residual = self._iterate(iterates, pace)
            if self.residual_tolerance is not None and residual <= 0.5 * self.residual_tolerance:
                break
        record = self._record(iterates, pace, state.reads, level)
        return next_state(state, pace, *iterates.recent(), record)

    def finished(self, state: FapgState) -> Outcome | None:
        record, certificate = state.history[-1], state.best_record.certificate
        if not (math.isfinite(record.certificate.gap) and math.isfinite(record.objective)):
            return Outcome("diverged", f"the objective is {record.objective} after {record.iteration} iterations")
        if certificate.relative_gap <= self.tolerance:
            return Outcome("done", f"relative duality gap {certificate.relative_gap:.2g}, tolerance {self.tolerance:g}")
        if self.residual_tolerance is not None and record.residual <= self.residual_tolerance:
            residual = f"optimality residual {record.residual:.2g}, tolerance {self.residual_tolerance:g}"
            return Outcome("done", residual)
        if (ending := rounded_ending(certificate, state.best_record is record, self.tolerance)) is not None:
            return ending
        if record.iteration >= self.max_iterations:
            reached = f"{record.iteration} iterations, relative gap {certificate.relative_gap:.2g}"
            return Outcome("not converged", reached)
        return None

    def solution(self, state: FapgState, problem: Problem) -> Solution:
        best = state.best
        at_level = problem.at_level(state.best_record.level)
        return at_level.solution(best.point, best.image, state.best_record.certificate)

    def _iterate(self, iterates: Iterates, pace: StepState) -> tuple[StepState, float]:
        proven, switches = self.method == "proven", self.switches
        with_excess = switches.bt and (proven or pace.distrusted or (pace.iteration - 1) % self.backtrack_every == 0)
        iterates.extrapolate(pace.momentum)
        step = iterates.step(pace.lipschitz, with_excess)
        growths = 0
        while with_excess and _is_too_long(step, pace) and growths < _MOST_GROWTHS:
            # what this step would have needed, which is never more than the Lipschitz constant: the bounds still hold
            needed = min(2.0 * step.excess / step.squared_step / pace.lipschitz, _MOST_GROWTH)
            pace = pace.steeper(max(GROWTH, needed), proven)
            if proven:
                iterates.extrapolate(pace.momentum)
            step = iterates.step(pace.lipschitz, with_excess)
            growths += 1
        residual = pace.lipschitz * math.sqrt(step.squared_step)
        rested = not switches.mt or pace.iteration > pace.restarted_at + pace.pause
        uphill = switches.re and rested and step.uphill > 0.0
        # a proven step cannot; a practical one that does took too small a Lipschitz estimate, and may diverge
        above = not (proven or step.objective <= pace.ceiling + _ROUNDING * abs(pace.ceiling))
        if uphill or (above and switches.bt):
            iterates.restart()
            return pace.restarted(switches, above), residual
        iterates.accept()
        return pace.onward(step.objective, proven, switches.dec), residual

    @staticmethod
    def _record(iterates: Iterates, pace: StepState, reads: int, level: int) -> FapgRecord:
        checked = iterates.check(pace.lipschitz)
        return FapgRecord(
            iteration=pace.iteration - 1,
            objective=checked.objective,
            certificate=checked.certificate,
            residual=pace.lipschitz * checked.movement,
            lipschitz=pace.lipschitz,
            restarts=pace.restarts,
            reads=reads + iterates.reads,
            level=level,
        )


def solve(problem: Problem, method: Fapg, point: FloatArray | None = None) -> tuple[FapgState, Outcome]:
    """Advance until the method has finished, from a point or the problem's own start."""
    state = method.start(problem, point)
    outcome = method.finished(state)
    while outcome is None:
        state = method.advance(state, problem)
        outcome = method.finished(state)
    return state, outcome


def _is_too_long(step: StepOutcome, pace: StepState) -> bool:
    """Return F(a) > Q(a; b), without what cancels; a step of length 0 is never too long."""
    return step.squared_step > 0.0 and step.excess > 0.5 * pace.lipschitz * step.squared_step
