"""The fast accelerated proximal gradient method: one for every problem, stopped by its certificate.

Configuration is frozen; all that evolves is in a state value. One `advance` runs the iterations up to the next check,
which costs one read of the data more than an iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from okl.accelerated.dual import DualProblem
from okl.accelerated.fapgstate import FapgState, ending_of, next_state
from okl.accelerated.history import Record
from okl.accelerated.iterates import Iterate, Iterates, MemoryIterates, StepOutcome
from okl.accelerated.pace import Pace, Switches
from okl.accelerated.protocol import Problem, Solution
from okl.accelerated.resting import PartIterates
from okl.accelerated.standing import rows_awake
from okl.checks import check_at_least, check_choice, check_positive
from okl.errors import ConfigError, DataError
from okl.solvers import Outcome
from okl.types import FloatArray

# of one step: at the numerical floor, where a step is all rounding, none would be enough
_MOST_GROWTHS, _MOST_GROWTH = 50, 10.0
_LEAST_PAUSE, _MOST_PAUSE = 10, 100  # iterations between checks, a tenth of those done
_MOST_LEVELS = 12
_ROUNDING = 1e-12  # of an objective
_FIRM = 1e9


@dataclass(frozen=True)
class Fapg:
    """Algorithms 1, 3 (proven) and 4 (practical), by their switches.

    Parameters
    ----------
    method : "proven" backtracks in every iteration, and goes back to before the extrapolation when it does; Algorithm 1
        is the proven method without restarts. "practical" backtracks in every tenth, from where it is; beyond the
        paper, a step that breaks Lemma 5 is thrown away, and the next one has to prove itself.
    tolerance : of the gap, relative to the objective; > 0
    residual_tolerance : of lipschitz ||T(x) - x||, the violation of the optimality condition; None: the gap alone
    max_iterations : int >= 1
    switches : which parts are on
    growth, shrink, calming : eta_u > 1, eta_d >= 1, delta in (0, 1); backtracking multiplies by more than eta_u where
        the step shows that it takes more. first_pause : K_1 >= 2, iterations
    first_lipschitz : L_0 > 0; None: the problem's own
    check_every : iterations between checks; None: a tenth of those done, from 10 to 100
    resting : whether rows that stand firmly at a bound are left alone between two checks, which is beyond the paper;
        only a practical method of explicit rows does

    Raises
    ------
    ConfigError : a number outside its range

    Source: Ito et al., 2017, Algorithms 1, 3 and 4 and section 5.2; Algorithm 4 backtracks where k mod 10 = 1.
    """

    method: Literal["proven", "practical"] = "practical"
    tolerance: float = 1e-6
    residual_tolerance: float | None = None
    max_iterations: int = 100_000
    switches: Switches = field(default_factory=Switches)
    growth: float = 1.1
    shrink: float = 1.1
    calming: float = 0.8
    first_pause: int = 2
    first_lipschitz: float | None = None
    check_every: int | None = None
    resting: bool = True

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("proven", "practical"))
        for name, value in (("tolerance", self.tolerance), ("residual_tolerance", self.residual_tolerance)):
            if value is not None:
                check_positive(name, value)
        if self.first_lipschitz is not None:
            check_positive("first_lipschitz", self.first_lipschitz)
        check_at_least("max_iterations", self.max_iterations, 1)
        check_at_least("first_pause", self.first_pause, 2)
        if self.check_every is not None:
            check_at_least("check_every", self.check_every, 1)
        if not (1.0 < self.growth < math.inf and 1.0 <= self.shrink < math.inf and 0.0 < self.calming < 1.0):
            raise ConfigError(
                f"growth = {self.growth}, shrink = {self.shrink}, calming = {self.calming}, but they take numbers "
                "above 1, of at least 1, and between 0 and 1."
            )

    def start(self, problem: Problem, point: FloatArray | None = None) -> FapgState:
        """State before the first iteration, checked: a warm start may be good enough already.

        point : (n_points,) to start from, brought into the problem's set; None: the problem's own start

        Raises
        ------
        DataError : the point has another length, or is not finite
        """
        lipschitz = self.first_lipschitz or problem.first_lipschitz
        first = np.array(problem.start() if point is None else point, dtype=np.float64)
        if first.shape != (problem.n_points,) or not np.isfinite(first).all():
            raise DataError(
                f"A warm start of shape {first.shape} came, but this problem takes {problem.n_points} finite numbers."
            )
        if point is not None:
            problem.prox(first, first.copy(), _FIRM * lipschitz)  # only brought into the set: a prox would move it on
        image = np.empty(problem.n_image)
        problem.image(image, first)
        here = Iterate(first, image)
        return self.begin(MemoryIterates(problem, here, here), lipschitz, here, reads=1)

    def begin(self, iterates: Iterates, lipschitz: float, here: Iterate, reads: int) -> FapgState:
        """State before the first iteration of whoever holds the vectors; `here` is what is kept of the first point."""
        pace = Pace(1, lipschitz, lipschitz, 1.0, 0.0, self.shrink, self.first_pause, least=1e-9 * lipschitz)
        record = self._record(iterates, pace, reads, 0)
        pace = replace(pace, objective=record.objective, ceiling=record.objective)
        return FapgState(pace, here, here, here, record, 0, record.certificate.gap, record.reads, (record,))

    def advance(self, state: FapgState, problem: Problem) -> FapgState:
        """The state at the next check; writes into nothing that it is given."""
        state, level = self.levelled(state)
        at_level = problem.at_level(level)
        iterates = self._awake_iterates(state, at_level)
        following = replace(self.run(state, iterates, level), multipliers=iterates.multipliers)
        if not (self.resting and self.method == "practical" and level == 0):
            return following
        standing = iterates.standing(following.pace.lipschitz)
        return replace(following, standing=standing, awake=rows_awake(standing, state.standing))

    @staticmethod
    def _awake_iterates(state: FapgState, problem: Problem) -> MemoryIterates | PartIterates:
        if state.awake is None or not isinstance(problem, DualProblem):
            return MemoryIterates(problem, state.current, state.previous, state.multipliers)
        return PartIterates(problem, state.current, state.previous, state.awake, state.multipliers)

    def levelled(self, state: FapgState) -> tuple[FapgState, int]:
        """State to go on from, without momentum where the objective is to be less smoothed, and the level to go on at.

        One level more is due where smoothing is more than half of the gap.
        """
        level = state.history[-1].level
        if state.history[-1].certificate.floor <= 0.5 * state.history[-1].certificate.gap or level >= _MOST_LEVELS:
            return state, level
        # another objective: neither momentum nor ceiling were of this one, and it is steeper
        pace = replace(state.pace, acceleration=1.0, before_acceleration=0.0, ceiling=math.inf, distrusted=True)
        return replace(state, pace=pace, previous=state.current), level + 1

    def run(self, state: FapgState, iterates: Iterates, level: int) -> FapgState:
        """Iterate up to the next check, by whoever holds the vectors of the state."""
        pace = state.pace
        last = min(self._next_check(pace.iteration - 1), self.max_iterations)
        while pace.iteration <= last:
            pace, residual = self._iterate(iterates, pace)
            if self.residual_tolerance is not None and residual <= 0.5 * self.residual_tolerance:
                break
        record = self._record(iterates, pace, state.reads, level)
        return next_state(state, pace, *iterates.kept(), record)

    def finished(self, state: FapgState) -> Outcome | None:
        """Why the run is over, or None."""
        return ending_of(state, self.tolerance, self.residual_tolerance, self.max_iterations)

    def solution(self, state: FapgState, problem: Problem) -> Solution:
        """The primal solution of least gap so far, with its certificate."""
        best = state.best
        at_level = problem.at_level(state.best_record.level)
        return at_level.solution(best.point, best.image, state.best_record.certificate)

    def _iterate(self, iterates: Iterates, pace: Pace) -> tuple[Pace, float]:
        proven, switches = self.method == "proven", self.switches
        with_excess = switches.bt and (proven or pace.distrusted or pace.iteration % 10 == 1)
        iterates.extrapolate(pace.momentum)
        step = iterates.step(pace.lipschitz, with_excess)
        growths = 0
        while with_excess and _is_too_long(step, pace) and growths < _MOST_GROWTHS:
            # what this step would have needed, which is never more than the Lipschitz constant: the bounds still hold
            needed = min(2.0 * step.excess / step.squared_step / pace.lipschitz, _MOST_GROWTH)
            pace = pace.steeper(max(self.growth, needed), proven)
            if proven:
                iterates.extrapolate(pace.momentum)
            step = iterates.step(pace.lipschitz, with_excess)
            growths += 1
        residual = pace.lipschitz * math.sqrt(step.squared_step)
        uphill = switches.re and pace.may_restart(switches.mt) and step.uphill > 0.0
        # a proven step cannot; a practical one that does took too small a Lipschitz estimate, and may diverge
        above = not (proven or step.objective <= pace.ceiling + _ROUNDING * abs(pace.ceiling))
        if uphill or (above and switches.bt):
            iterates.restart()
            return pace.restarted(self.calming, switches, above), residual
        iterates.accept()
        return pace.onward(step.objective, proven, switches.dec), residual

    def _next_check(self, done: int) -> int:
        return done + (self.check_every or min(max(done // 10, _LEAST_PAUSE), _MOST_PAUSE))

    @staticmethod
    def _record(iterates: Iterates, pace: Pace, reads: int, level: int) -> Record:
        checked = iterates.check(pace.lipschitz)
        return Record(
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


def _is_too_long(step: StepOutcome, pace: Pace) -> bool:
    """F(a) > Q(a; b), without what cancels; a step of length 0 is never too long."""
    return step.squared_step > 0.0 and step.excess > 0.5 * pace.lipschitz * step.squared_step
