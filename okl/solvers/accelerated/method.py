"""The fast accelerated proximal gradient method (FAPG)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from okl.compiled.dual_steps import descend, extrapolate, step_sums
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray, IntArray
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.solvers.accelerated.base import Certificate, CompositeProblem, Solution, SweepArguments
from okl.solvers.accelerated.dual import ActiveRows, DualProblem, active_rows_of, restricted, rows_awake
from okl.solvers.base import Outcome

# What a run of the accelerated method has recorded: the numbers that its figures plot.


@stored("fapg-record")
@dataclass(frozen=True)
class FapgRecord:
    """The method at one of its checks.

    iteration : iterations done; objective : F there; certificate : its gap
    residual : lipschitz * ||T(x) - x||, the violation of the optimality condition
    lipschitz : the estimate in use; restarts : so far
    reads : of the data so far, by images and pulls; level : of smoothing
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
    dec : the estimate shrinks after every iteration
    re : momentum is dropped where the step would go uphill
    mt : no restart for K iterations after one, K doubling each time
    st : each restart lets the estimate shrink more slowly
    """

    bt: bool = True
    dec: bool = True
    re: bool = True
    mt: bool = True
    st: bool = True


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

    @property
    def momentum(self) -> float:
        """Return (t_(k-1) - 1) / t_k, which extrapolates from the last two points to where the step starts."""
        return (self.before_acceleration - 1.0) / self.acceleration

    def steeper(self, growth: float, proven: bool) -> StepState:
        """Return the state after one backtracking round; Algorithm 3 also undoes the extrapolation, 4 does not."""
        lipschitz = self.lipschitz * growth
        if not proven:
            return replace(self, lipschitz=lipschitz)
        acceleration = _next_acceleration(self.before_acceleration, lipschitz / self.before_lipschitz)
        return replace(self, lipschitz=lipschitz, acceleration=acceleration)

    def onward(self, objective: float, proven: bool, dec: bool) -> StepState:
        """Return the state after an accepted step: Steps 2 (2') and 'dec'."""
        lipschitz = self._shrunk(dec)
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

    def restarted(self, delta: float, switches: Switches, distrusted: bool) -> StepState:
        """Return the state after a rejected step: 're' with 'mt' and 'st'."""
        lipschitz = self._shrunk(switches.dec)
        return replace(
            self,
            iteration=self.iteration + 1,
            lipschitz=lipschitz,
            before_lipschitz=self.lipschitz,
            acceleration=1.0,
            before_acceleration=0.0,
            shrink=delta * self.shrink + (1.0 - delta) if switches.st else self.shrink,
            pause=2 * self.pause if switches.mt else self.pause,
            restarted_at=self.iteration,
            restarts=self.restarts + 1,
            ceiling=self.objective,
            distrusted=distrusted,
        )

    def may_restart(self, mt: bool) -> bool:
        """Return whether the pause after the last restart is over."""
        return not mt or self.iteration > self.restarted_at + self.pause

    def _shrunk(self, dec: bool) -> float:
        return max(self.lipschitz / self.shrink, self.least) if dec else self.lipschitz


def _next_acceleration(acceleration: float, ratio: float) -> float:
    return 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * ratio * acceleration * acceleration))


# The vectors of the accelerated method in memory, behind the verbs that shards can answer, too.
#
# The method itself (okl.solvers.accelerated.method) sees scalars only: the owner of the vectors implements these verbs.
# Every vector as long as the data is touched row by row, but for the prox; images, which are short, are what shards
# add up.


@stored("fapg-iterate")
@dataclass(frozen=True, eq=False)
class Iterate:
    """A point (n_points,) and its image (n_image,), never written into."""

    point: FloatArray
    image: FloatArray


class StepOutcome(NamedTuple):
    """Scalars of a step from the extrapolated point b to a; c is the point before.

    excess : f(a) - f(b) - <g, a - b>; NaN unless requested
    squared_step : ||a - b||^2
    uphill : <g, a - c> + penalty(a) - penalty(c)
    objective : F(a)
    """

    excess: float
    squared_step: float
    uphill: float
    objective: float


class Checked(NamedTuple):
    """The point at a check: F, the gap, and ||T(x) - x||."""

    objective: float
    certificate: Certificate
    movement: float


class Iterates(Protocol):
    """Owner of the vectors of a run, in memory or with their shards: the verbs of the method."""

    @property
    def reads(self) -> int:
        """Return the number of reads of the data so far; partial reads count as their share of the rows."""
        ...

    def extrapolate(self, momentum: float) -> None: ...

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome: ...

    def accept(self) -> None: ...

    def restart(self) -> None: ...

    def check(self, lipschitz: float) -> Checked: ...

    def recent(self) -> tuple[Iterate, Iterate]: ...


class MemoryIterates:
    """Vectors of a run in private buffers: current, previous, the extrapolated one and the step from it."""

    def __init__(
        self,
        problem: CompositeProblem,
        current: Iterate,
        previous: Iterate,
        multipliers: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._problem = problem
        self._current = Iterate(current.point.copy(), current.image.copy())
        self._previous = Iterate(previous.point.copy(), previous.image.copy())
        self._extrapolated, self._new = self._empty(), self._empty()
        self._gradient, self._target = np.empty(problem.n_points), np.empty(problem.n_points)
        self._penalty = problem.penalty(self._current.point)
        self._new_penalty = self._penalty
        self._has_gradient = False
        self.multipliers = multipliers  # of the last step
        self._reads = 0.0

    @property
    def reads(self) -> int:
        """Return the number of reads of the data so far; partial reads count as their share of the rows."""
        return math.ceil(self._reads)

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous): no read."""
        current, previous, extrapolated = self._current, self._previous, self._extrapolated
        extrapolate(extrapolated.point, current.point, previous.point, momentum)
        # images are affine: that of the extrapolated point needs no read
        extrapolate(extrapolated.image, current.image, previous.image, momentum)
        self._has_gradient = False

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz) and its image: one read, or two for the first step from b."""
        extrapolated, new, problem = self._extrapolated, self._new, self._problem
        if self._has_gradient or not self._sweep(lipschitz):
            self._step_apart(lipschitz)
        squared, turn = step_sums(new.point, extrapolated.point, self._gradient, self._current.point)
        excess = (
            problem.excess(new.point, new.image, extrapolated.point, extrapolated.image) if with_excess else math.nan
        )
        self._new_penalty = problem.penalty(new.point)
        uphill = turn + self._new_penalty - self._penalty
        objective = problem.smooth(new.point, new.image) + self._new_penalty
        return StepOutcome(excess, float(squared), float(uphill), objective)

    def _sweep(self, lipschitz: float) -> bool:
        """Compute the gradient and the step in one read, if the problem supports it."""
        extrapolated, new = self._extrapolated, self._new
        into = (new.point, new.image, self._gradient)
        swept = self._problem.sweep(
            SweepArguments(*into, extrapolated.point, extrapolated.image, lipschitz, self.multipliers)
        )
        if swept is None:
            return False
        self.multipliers, self._has_gradient = swept.multipliers, True
        self._reads += swept.reads
        return True

    def _step_apart(self, lipschitz: float) -> None:
        """Take the step, after computing the gradient if there is none: a read each."""
        extrapolated, new, problem = self._extrapolated, self._new, self._problem
        if not self._has_gradient:
            problem.pull(self._gradient, extrapolated.image)
            problem.gradient(self._gradient, extrapolated.point, extrapolated.image, self._gradient)
            self._has_gradient = True
            self._reads += 1
        descend(self._target, extrapolated.point, self._gradient, 1.0 / lipschitz)
        problem.prox(new.point, self._target, lipschitz)
        problem.image(new.image, new.point)
        self._reads += 1

    def accept(self) -> None:
        """Make the step the current point."""
        self._previous, self._current, self._new = self._current, self._new, self._previous
        self._penalty = self._new_penalty

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._previous.point[:] = self._current.point
        self._previous.image[:] = self._current.image

    def check(self, lipschitz: float) -> Checked:
        """Return F, the certificate and ||T(x) - x|| of the current point: one read; the step is lost."""
        current, problem = self._current, self._problem
        pulled, stepped = self._gradient, self._new.point
        problem.pull(pulled, current.image)
        self._reads += 1
        certificate = problem.certificate(current.point, current.image, pulled)
        problem.gradient(pulled, current.point, current.image, pulled)
        descend(self._target, current.point, pulled, 1.0 / lipschitz)
        problem.prox(stepped, self._target, lipschitz)
        movement, _ = step_sums(stepped, current.point, pulled, current.point)
        objective = problem.smooth(current.point, current.image) + self._penalty
        return Checked(objective, certificate, math.sqrt(movement))

    def active_rows(self, lipschitz: float) -> ActiveRows | None:
        """Return the state of all rows right after a check."""
        return active_rows_of(self._problem, self._current.point, self._target, self._new.point, lipschitz)

    def recent(self) -> tuple[Iterate, Iterate]:
        """Current and previous, as values: this object must not be used any more."""
        return self._current, self._previous

    def _empty(self) -> Iterate:
        return Iterate(np.empty(self._problem.n_points), np.empty(self._problem.n_image))


# State of a run of the accelerated method, its changes at a check, and its end.

_STILL_FALLING = 0.9
_FLOOR = 1e-15
_VANISHED = 1e-9  # of the objectives at first


@stored("fapg-state")
@dataclass(frozen=True, eq=False)
class FapgState:
    """State of a run; a value.

    pace : scalars before the next iteration; current, previous : the last two points
    best : the point of least primal objective at a check, whose gap is that to the best dual one
    improved_at : iteration at which the least gap was last a tenth below improved_gap, the one it then became
    reads : of the data so far, or of the part that was awake; history : a record a check, the last one of `current`
    standing : how firmly rows stood at the last check; awake : the rows that move until the next one, None for all
    multipliers : of the last step's hyperplanes, a guess at the next one's
    """

    pace: StepState
    current: Iterate
    previous: Iterate
    best: Iterate
    best_record: FapgRecord
    improved_at: int
    improved_gap: float
    reads: int
    history: tuple[FapgRecord, ...]
    standing: ActiveRows | None = None
    awake: IntArray | None = None
    multipliers: tuple[float, float] = (0.0, 0.0)


def next_state(state: FapgState, pace: StepState, current: Iterate, previous: Iterate, record: FapgRecord) -> FapgState:
    """Return the state after a check; its best point has the least primal objective so far."""
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


def _with_dual(record: FapgRecord, dual: float) -> FapgRecord:
    return replace(record, certificate=replace(record.certificate, dual=dual))


def ending_of(
    state: FapgState, tolerance: float, residual_tolerance: float | None, max_iterations: int
) -> Outcome | None:
    """Why a run is over, or None; the limits are those of the method."""
    record, certificate = state.history[-1], state.best_record.certificate
    if not (math.isfinite(record.certificate.gap) and math.isfinite(record.objective)):
        return Outcome("diverged", f"the objective is {record.objective} after {record.iteration} iterations")
    if certificate.relative_gap <= tolerance:
        return Outcome("done", f"relative duality gap {certificate.relative_gap:.2g}, tolerance {tolerance:g}")
    if residual_tolerance is not None and record.residual <= residual_tolerance:
        return Outcome("done", f"optimality residual {record.residual:.2g}, tolerance {residual_tolerance:g}")
    first = state.history[0].certificate
    if certificate.dual <= 0.0 <= certificate.primal and certificate.gap <= _VANISHED * max(
        abs(first.primal), abs(first.dual)
    ):
        return Outcome(
            "done",
            f"the optimum is 0 within rounding: it is between {certificate.dual:.2g} and {certificate.primal:.2g}",
        )
    # an optimum of 0 is reached but for the rounding of what it began with
    rounding = max(certificate.rounding, _FLOOR * max(abs(first.primal), abs(first.dual)))
    if certificate.gap <= rounding or record.iteration > 2 * state.improved_at + 1000:
        return Outcome(
            "done",
            f"numerical floor: the relative duality gap stopped falling at {certificate.relative_gap:.2g}, "
            f"above the tolerance {tolerance:g}",
        )
    if record.iteration >= max_iterations:
        return Outcome("out of budget", f"{record.iteration} iterations, relative gap {certificate.relative_gap:.2g}")
    return None


# Rows that stay at a bound are inactive between two checks: steps change the others, and read only these.
#
# At a check the gradient of all rows is known. A row at a bound has slack: what its gradient, less the multiplier of
# its hyperplane, would have to change before it left. Where that is far more than it changed since the last check,
# the row is inactive until the next one, which reads all rows again: certificates are those of the whole problem.
#
# Source: shrinking as in Joachims, Making large-scale SVM learning practical, 1999, section 11.4, for a gradient
# method.


class PartIterates:
    """The vectors of a run whose other rows rest: those of the part, and all of them for a check."""

    def __init__(
        self,
        problem: DualProblem,
        current: Iterate,
        previous: Iterate,
        awake: IntArray,
        multipliers: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self._whole, self._awake, self._current = problem, awake, current
        self._part = restricted(problem, awake, current.point[awake], current.image)
        image = np.empty(problem.n_image)
        last = previous.point[awake]
        # inactive rows have their current values in both
        self._part.image(image, last)
        active_iterate = Iterate(current.point[awake], current.image)
        self._steps = MemoryIterates(self._part, active_iterate, Iterate(last, image), multipliers)
        self._rest = problem.smooth(current.point, current.image) - self._part.smooth(*_pair(active_iterate))
        self._all: MemoryIterates | None = None

    @property
    def reads(self) -> int:
        """Return the number of reads of the data so far; partial reads count as their share of the rows."""
        return self._steps.reads + (1 + self._all.reads if self._all else 0)

    @property
    def multipliers(self) -> tuple[float, float]:
        """Return the multipliers of the active part, which shares the hyperplanes of all rows."""
        return self._steps.multipliers

    def extrapolate(self, momentum: float) -> None:
        """Extrapolate the active part."""
        self._steps.extrapolate(momentum)

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Step the active part; the objective is that of all rows."""
        outcome = self._steps.step(lipschitz, with_excess)
        return outcome._replace(objective=outcome.objective + self._rest)

    def accept(self) -> None:
        """Make the step the current point."""
        self._steps.accept()

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._steps.restart()

    def check(self, lipschitz: float) -> Checked:
        """Return F, the certificate and ||T(x) - x|| of all rows."""
        current, extrapolated = (self._with_resting(iterate) for iterate in self._steps.recent())
        # afresh: what rounding adds to an offset, check after check, would get into the certificate
        self._whole.image(current.image, current.point)
        self._all = MemoryIterates(self._whole, current, extrapolated)
        return self._all.check(lipschitz)

    def active_rows(self, lipschitz: float) -> ActiveRows | None:
        """Return the state of all rows right after a check."""
        return self._checked.active_rows(lipschitz)

    def recent(self) -> tuple[Iterate, Iterate]:
        """Current and previous of all rows, after a check."""
        return self._checked.recent()

    @property
    def _checked(self) -> MemoryIterates:
        if self._all is None:
            raise RuntimeError("The point of all rows is available only after a check. Call check first.")
        return self._all

    def _with_resting(self, iterate: Iterate) -> Iterate:
        point = self._current.point.copy()
        point[self._awake] = iterate.point
        return Iterate(point, iterate.image)


def _pair(iterate: Iterate) -> tuple[FloatArray, FloatArray]:
    return iterate.point, iterate.image


# The fast accelerated proximal gradient method: one for every problem, stopped by its certificate.
#
# Configuration is frozen; all that evolves is in a state value. One `advance` runs the iterations up to the next
# check, which costs one read of the data more than an iteration.

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
    resting : whether rows that stay at a bound are skipped between two checks, an addition to the paper;
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
                f"growth = {self.growth}, shrink = {self.shrink} and calming = {self.calming}, but they must be "
                "above 1, at least 1, and between 0 and 1."
            )

    def start(self, problem: CompositeProblem, point: FloatArray | None = None) -> FapgState:
        """Return the state before the first iteration, with a check, because a warm start may already suffice.

        point : (n_points,) to start from, brought into the problem's set; None: the problem's own start

        Raises
        ------
        DataError : the point has another length, or is not finite
        """
        lipschitz = self.first_lipschitz or problem.first_lipschitz
        first = np.array(problem.start() if point is None else point, dtype=np.float64)
        if first.shape != (problem.n_points,) or not np.isfinite(first).all():
            raise DataError(
                f"The warm start has shape {first.shape}, but this problem requires {problem.n_points} finite numbers."
            )
        if point is not None:
            problem.prox(first, first.copy(), _FIRM * lipschitz)  # only brought into the set: a prox would move it on
        image = np.empty(problem.n_image)
        problem.image(image, first)
        current = Iterate(first, image)
        return self.begin(MemoryIterates(problem, current, current), lipschitz, current, reads=1)

    def begin(self, iterates: Iterates, lipschitz: float, current: Iterate, reads: int) -> FapgState:
        """Return the state before the first iteration, for any owner of the vectors.

        current : the first point, as the state records it
        """
        pace = StepState(1, lipschitz, lipschitz, 1.0, 0.0, self.shrink, self.first_pause, least=1e-9 * lipschitz)
        record = self._record(iterates, pace, reads, 0)
        pace = replace(pace, objective=record.objective, ceiling=record.objective)
        return FapgState(pace, current, current, current, record, 0, record.certificate.gap, record.reads, (record,))

    def advance(self, state: FapgState, problem: CompositeProblem) -> FapgState:
        """Return the state at the next check, without changing its inputs."""
        state, level = self.levelled(state)
        at_level = problem.at_level(level)
        iterates = self._awake_iterates(state, at_level)
        following = replace(self.run(state, iterates, level), multipliers=iterates.multipliers)
        if not (self.resting and self.method == "practical" and level == 0):
            return following
        active = iterates.active_rows(following.pace.lipschitz)
        return replace(following, standing=active, awake=rows_awake(active, state.standing))

    @staticmethod
    def _awake_iterates(state: FapgState, problem: CompositeProblem) -> MemoryIterates | PartIterates:
        if state.awake is None or not isinstance(problem, DualProblem):
            return MemoryIterates(problem, state.current, state.previous, state.multipliers)
        return PartIterates(problem, state.current, state.previous, state.awake, state.multipliers)

    def levelled(self, state: FapgState) -> tuple[FapgState, int]:
        """State to continue from, without momentum if the objective gets less smoothing, and the next smoothing level.

        One level more is due where smoothing is more than half of the gap.
        """
        level = state.history[-1].level
        if state.history[-1].certificate.floor <= 0.5 * state.history[-1].certificate.gap or level >= _MOST_LEVELS:
            return state, level
        # another objective: neither momentum nor ceiling were of this one, and it is steeper
        pace = replace(state.pace, acceleration=1.0, before_acceleration=0.0, ceiling=math.inf, distrusted=True)
        return replace(state, pace=pace, previous=state.current), level + 1

    def run(self, state: FapgState, iterates: Iterates, level: int) -> FapgState:
        """Iterate up to the next check, through the owner of the vectors of the state."""
        pace = state.pace
        last = min(self._next_check(pace.iteration - 1), self.max_iterations)
        while pace.iteration <= last:
            pace, residual = self._iterate(iterates, pace)
            if self.residual_tolerance is not None and residual <= 0.5 * self.residual_tolerance:
                break
        record = self._record(iterates, pace, state.reads, level)
        return next_state(state, pace, *iterates.recent(), record)

    def finished(self, state: FapgState) -> Outcome | None:
        """Why the run is over, or None."""
        return ending_of(state, self.tolerance, self.residual_tolerance, self.max_iterations)

    def solution(self, state: FapgState, problem: CompositeProblem) -> Solution:
        """Return the primal solution of least gap so far, with its certificate."""
        best = state.best
        at_level = problem.at_level(state.best_record.level)
        return at_level.solution(best.point, best.image, state.best_record.certificate)

    def _iterate(self, iterates: Iterates, pace: StepState) -> tuple[StepState, float]:
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


def solve(problem: CompositeProblem, method: Fapg, point: FloatArray | None = None) -> tuple[FapgState, Outcome]:
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
