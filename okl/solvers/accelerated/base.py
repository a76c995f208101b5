"""The interfaces of problems, solutions and classification models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np

from okl.compiled.dual_steps import descend, extrapolate, step_sums
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.foundation.validation import check_positive

# Operators: the map from dual points to images.
#
# A dual point a has an image, which is affine in a: A a where A is explicit (what shards then add up is short), and
# A'A a where only the kernel matrix A'A is known. Either way three operations are enough for an accelerated method,
# and the image of an extrapolated point costs no read of the data.


class RowOperator(Protocol):
    """The operator of margin models, A = [s_1 z_1, ..., s_m z_m] for rows z_i of classes s_i.

    All arrays are float64 and one-dimensional; outputs are overwritten.

    n_points : entries of a dual point, m; n_image : entries of its image
    signs : (m,), -1 or +1; squared_lengths : ||z_i||^2, (m,)
    """

    @property
    def n_points(self) -> int: ...

    @property
    def n_image(self) -> int: ...

    @property
    def signs(self) -> FloatArray: ...

    def squared_lengths(self) -> Doubles: ...

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        """Compute the image of a point: one read of the data."""

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        """Return A'A a from the image of a: at most one read of the data."""

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """Return ||A a||^2 of a point or a difference of points."""

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """Return ||A (a - b)||^2 of two points, summed from the differences."""

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Scale A a: weights of columns where rows are explicit, coefficients s_i a_i of rows for a kernel."""


def signs_of(labels: FloatArray) -> Doubles:
    """Return labels as float64 signs; raise DataError unless they are -1 and +1 and both occur."""
    signs: Doubles = np.ascontiguousarray(labels, dtype=np.float64)
    values = np.unique(signs)
    if signs.ndim != 1 or not np.array_equal(values, [-1.0, 1.0]):
        shown = ", ".join(f"{value:g}" for value in values[:4])
        raise DataError(
            f"Labels hold {{{shown}}}, but this model requires both -1 and +1. Encode two classes this way, "
            "or train one class against the rest."
        )
    return signs


EPSILON = float(np.finfo(np.float64).eps)


@stored("duality-gap")
@dataclass(frozen=True)
class Certificate:
    """Quality of a solution, proved by weak duality: no solution has an objective below `dual`.

    primal : objective of the solution with its own bias, in the units of 1/2 ||w||^2 + C sum of losses
    dual : lower bound of the optimal objective, the negated dual objective of the point
    floor : the part of the gap that is due to smoothing; 0 for most models
    bias : of the solution, h(x) = <w, x> - bias
    rounding : error of the gap to expect from float64 arithmetic, in the same units

    Source: Ito et al., 2017, section 4.4.3, where (9) and (10) are negated duals: the gap is P + D.
    """

    primal: float
    dual: float
    floor: float
    bias: float
    rounding: float

    @property
    def gap(self) -> float:
        """Return primal - dual: the objective is at most this far above the optimum."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """Return the gap by the larger objective, at least the resolution of float64; 0 where both are 0."""
        size = max(abs(self.primal), abs(self.dual))
        return max(self.gap / size, EPSILON) if size > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights (n_columns,), or (m,) for f(x) = sum_i weights_i k(x_i, x), the bias, h = f - bias, and the proof."""

    weights: FloatArray
    bias: float
    certificate: Certificate


@stored("fapg-iterate")
@dataclass(frozen=True, eq=False)
class Iterate:
    """A point (n_points,) and its image (n_image,), never written into; one is empty where partitions hold it."""

    point: FloatArray
    image: FloatArray


class StepOutcome(NamedTuple):
    """Scalars of a step from the extrapolated point b to a; c is the point before.

    excess : f(a) - f(b) - <g, a - b>; NaN unless requested; squared_step : ||a - b||^2
    uphill : <g, a - c> + penalty(a) - penalty(c); objective : F(a)
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


_CHANGES = 2.0  # of a row's own gradient, and of a typical row's: less slack than both together and it stays active
_MOST_ACTIVE = 0.75  # of the rows: gathering them pays below


@stored("active-set-margins")
class ActiveRows(NamedTuple):
    """State of every row at a check.

    slopes : (m,), gradients less the multiplier of the row's class
    firm : (m,), at least the slack of a row at a bound, and not above 0 for any other
    """

    slopes: FloatArray
    firm: FloatArray

    def active_since(self, before: ActiveRows | None) -> IntArray | None:
        """Return the rows to update until the next check, or None for all; before : at the check before, if known."""
        if before is None:
            return None
        change = np.abs(self.slopes - before.slopes)
        typical = float(np.sqrt(np.mean(np.square(change))))
        active = np.flatnonzero(self.firm <= _CHANGES * (change + typical))
        return active if 2 <= len(active) <= _MOST_ACTIVE * len(change) else None


class Iterates(Protocol):
    """Owner of the vectors of a run: the verbs of a method, which sees scalars only.

    multipliers : of the last step's hyperplanes; reads : of the data so far, partial ones as their share of the rows
    """

    multipliers: tuple[float, float]

    @property
    def reads(self) -> int: ...

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous)."""

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz) and its image."""

    def accept(self) -> None:
        """Make the step the current point."""

    def restart(self) -> None:
        """Discard the step and the momentum."""

    def check(self, lipschitz: float) -> Checked:
        """Evaluate the current point; the step is lost."""

    def active_rows(self, lipschitz: float) -> ActiveRows | None:
        """Return the state of all rows right after a check, or None where rows cannot be shrunk."""

    def recent(self) -> tuple[Iterate, Iterate]:
        """Return current and previous as values; this object must not be used any more."""


class Vectors:
    """Private buffers: the last two points, the extrapolated one and the step from it, each with its image.

    A partition of the rows holds points only, or images only; what it does not hold is empty.
    """

    def __init__(self, current: Iterate, previous: Iterate) -> None:
        self.current = Iterate(current.point.copy(), current.image.copy())
        self.previous = Iterate(previous.point.copy(), previous.image.copy())
        self.extrapolated, self.new = (
            Iterate(np.empty_like(current.point), np.empty_like(current.image)) for _ in range(2)
        )

    @cached_property
    def gradient(self) -> Doubles:
        """Return the gradient where the step starts, (n_points,)."""
        return np.zeros(len(self.current.point))

    @cached_property
    def target(self) -> Doubles:
        """Return the end of a step that ignores the penalty, (n_points,)."""
        return np.zeros(len(self.current.point))

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous): no read, as images are affine."""
        current, previous, extrapolated = self.current, self.previous, self.extrapolated
        extrapolate(extrapolated.point, current.point, previous.point, momentum)
        extrapolate(extrapolated.image, current.image, previous.image, momentum)

    def accept(self) -> None:
        self.previous, self.current, self.new = self.current, self.new, self.previous

    def restart(self) -> None:
        self.previous.point[:] = self.current.point
        self.previous.image[:] = self.current.image


Swept = tuple[tuple[float, float], float]
"""Multipliers of a step's hyperplanes, times lipschitz: those of the next step are near. Reads of the data, rows that
were read again with the share that they are of all."""

_FIRM = 1e9  # times the Lipschitz constant: a prox that only brings a point into the set


class Problem(ABC):
    """A problem as methods see it, with its rows in this process or in partitions."""

    @property
    @abstractmethod
    def first_lipschitz(self) -> float:
        """Return a first guess at the Lipschitz constant of the gradient, most probably too small."""

    @abstractmethod
    def first_iterate(self, point: FloatArray | None, lipschitz: float) -> Iterate:
        """Return a point of the problem's set with its image, near a point (n_points,) or the problem's own.
        Raises DataError : the point has another length, or is not finite
        """

    @abstractmethod
    def iterates(
        self, current: Iterate, previous: Iterate, active: IntArray | None, multipliers: tuple[float, float]
    ) -> Iterates:
        """Return the owner of the vectors from two points on; active : rows to update, None for all."""

    @abstractmethod
    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        """Return the primal solution of the certificate."""

    def at_level(self, level: int) -> Self:
        """Return the same problem with smoothing reduced by `level` steps, itself where nothing is smoothed.

        Certificates are exact at every level.
        """
        return self


def check_start(point: FloatArray, n_points: int) -> None:
    """Raise DataError unless a warm start has n_points finite numbers."""
    if point.shape != (n_points,) or not np.isfinite(point).all():
        raise DataError(f"The warm start has shape {point.shape}, but this problem requires {n_points} finite numbers.")


class CompositeProblem(Problem):
    """Minimise F(x) = f(x) + g(x), f smooth and convex, g with a cheap prox; a frozen value.

    `apply` maps a point (n_points,) to its image (n_image,), affine in it; `adjoint` maps that to (n_points,), what the
    gradient needs of the data. Each reads the data once, everything else is vector work. All float64.
    """

    @property
    @abstractmethod
    def n_points(self) -> int: ...

    @property
    @abstractmethod
    def n_image(self) -> int: ...

    @abstractmethod
    def start(self) -> FloatArray:
        """Return a point of finite F, a new array (n_points,)."""

    @abstractmethod
    def apply(self, out: FloatArray, point: FloatArray) -> None: ...

    @abstractmethod
    def adjoint(self, out: FloatArray, image: FloatArray) -> None: ...

    @abstractmethod
    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """Return f(x)."""

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """Overwrite out by the gradient of f, which is what is pulled back by default; `out` may be `pulled`."""
        out[:] = pulled

    @abstractmethod
    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        """Return f(x) - f(b) - <gradient of f at b, x - b>, without its cancellation; x is feasible, b may not be."""

    @abstractmethod
    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Overwrite out by the minimiser of g(x) + lipschitz / 2 ||x - point||^2."""

    @abstractmethod
    def penalty(self, point: FloatArray) -> float:
        """Return g(x) of a feasible point."""

    @abstractmethod
    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Return the duality gap of a feasible point."""

    def sweep(self, at: Vectors, lipschitz: float, multipliers: tuple[float, float]) -> Swept | None:
        """Compute gradient, prox and image of a step from the extrapolated point in one read; None where it takes two.

        multipliers : a guess at those of the hyperplanes, such as those of the last step
        """
        return None

    def first_iterate(self, point: FloatArray | None, lipschitz: float) -> Iterate:
        """Return a point of the set with its image, one read; see `Problem`."""
        first = np.array(self.start() if point is None else point, dtype=np.float64)
        check_start(first, self.n_points)
        if point is not None:
            self.prox(first, first.copy(), _FIRM * lipschitz)  # only brought into the set: a prox would move it on
        image = np.empty(self.n_image)
        self.apply(image, first)
        return Iterate(first, image)

    def iterates(
        self, current: Iterate, previous: Iterate, active: IntArray | None, multipliers: tuple[float, float]
    ) -> Iterates:
        return MemoryIterates(self, current, previous, multipliers)

    def active_rows(self, at: Vectors, lipschitz: float) -> ActiveRows | None:
        """Return the state of all rows right after a check; None where rows cannot be shrunk."""
        return None


class MemoryIterates(Vectors):
    """The vectors of a run in this process."""

    def __init__(
        self,
        problem: CompositeProblem,
        current: Iterate,
        previous: Iterate,
        multipliers: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(current, previous)
        self._problem = problem
        self._penalty = problem.penalty(self.current.point)
        self._new_penalty = self._penalty
        self._has_gradient = False
        self.multipliers = multipliers
        self._reads = 0.0

    @property
    def reads(self) -> int:
        return math.ceil(self._reads)

    def extrapolate(self, momentum: float) -> None:
        super().extrapolate(momentum)
        self._has_gradient = False

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz) and its image: one read, or two for the first step from b."""
        extrapolated, new, problem = self.extrapolated, self.new, self._problem
        swept = None if self._has_gradient else problem.sweep(self, lipschitz, self.multipliers)
        if swept is None:
            self._step_apart(lipschitz)
        else:
            self.multipliers, reads = swept
            self._reads += reads
        self._has_gradient = True
        squared, turn = step_sums(new.point, extrapolated.point, self.gradient, self.current.point)
        excess = (
            problem.excess(new.point, new.image, extrapolated.point, extrapolated.image) if with_excess else math.nan
        )
        self._new_penalty = problem.penalty(new.point)
        uphill = turn + self._new_penalty - self._penalty
        objective = problem.smooth(new.point, new.image) + self._new_penalty
        return StepOutcome(excess, float(squared), float(uphill), objective)

    def _step_apart(self, lipschitz: float) -> None:
        """Take the step, after computing the gradient if there is none: a read each."""
        extrapolated, new, problem = self.extrapolated, self.new, self._problem
        if not self._has_gradient:
            problem.adjoint(self.gradient, extrapolated.image)
            problem.gradient(self.gradient, extrapolated.point, extrapolated.image, self.gradient)
            self._reads += 1
        descend(self.target, extrapolated.point, self.gradient, 1.0 / lipschitz)
        problem.prox(new.point, self.target, lipschitz)
        problem.apply(new.image, new.point)
        self._reads += 1

    def accept(self) -> None:
        super().accept()
        self._penalty = self._new_penalty

    def check(self, lipschitz: float) -> Checked:
        """Return F, the certificate and ||T(x) - x|| of the current point: one read; the step is lost."""
        current, problem, pulled, stepped = self.current, self._problem, self.gradient, self.new.point
        problem.adjoint(pulled, current.image)
        self._reads += 1
        certificate = problem.certificate(current.point, current.image, pulled)
        problem.gradient(pulled, current.point, current.image, pulled)
        descend(self.target, current.point, pulled, 1.0 / lipschitz)
        problem.prox(stepped, self.target, lipschitz)
        movement, _ = step_sums(stepped, current.point, pulled, current.point)
        objective = problem.smooth(current.point, current.image) + self._penalty
        return Checked(objective, certificate, math.sqrt(movement))

    def active_rows(self, lipschitz: float) -> ActiveRows | None:
        return self._problem.active_rows(self, lipschitz)

    def recent(self) -> tuple[Iterate, Iterate]:
        return self.current, self.previous


def weights_of(rows: RowOperator, sample_weight: FloatArray | None) -> Doubles:
    """Return weights (m,) float64, ones if None; raise DataError unless they are valid for both classes."""
    if sample_weight is None:
        return np.ones(rows.n_points)
    weights: Doubles = np.array(sample_weight, dtype=np.float64)
    if weights.shape != (rows.n_points,) or not np.isfinite(weights).all() or weights.min() < 0.0:
        raise DataError(
            f"sample_weight has shape {weights.shape}, but there are {rows.n_points} rows. Give one finite "
            "number of at least 0 for each row."
        )
    if min(weights[rows.signs > 0].sum(), weights[rows.signs < 0].sum()) == 0.0:
        raise DataError(
            "Every row of one class has sample_weight 0. Give at least one row of each class a weight above 0."
        )
    return weights


# The interface of classification models.

ParameterName = Literal["C", "nu", "kappa"]


class Classifier(ABC):
    """A model of two classes: frozen configuration that makes a problem of rows.

    NAME : at the command and in estimators
    PARAMETER : the one parameter it takes
    TAKES_KERNEL : whether rows may be known by a kernel matrix alone; the others take explicit rows
    SMOOTH : whether its losses have a derivative everywhere, which bounds on some norms take
    HAS_OWN_BIAS : whether the bias is part of its problem; the others take one from the training errors, or none
    OF_MOMENTS : whether its problem knows the rows by means and covariances of the classes alone
    GROWS : whether a default parameter becomes larger where all weights are 0
    DEFAULT : what the parameter is where none is given
    EQUATION : number of its formula in Ito et al., 2017, which orders the models; one beyond 100 where it is not there
    """

    NAME: ClassVar[str]
    PARAMETER: ClassVar[ParameterName]
    TAKES_KERNEL: ClassVar[bool] = True
    SMOOTH: ClassVar[bool] = False
    HAS_OWN_BIAS: ClassVar[bool] = True
    OF_MOMENTS: ClassVar[bool] = False
    GROWS: ClassVar[bool] = False
    DEFAULT: ClassVar[str] = "the default"
    EQUATION: ClassVar[int]

    @classmethod
    def of(cls, parameter: float | None, fit_intercept: bool = True) -> Self:
        """Build the model from its parameter, or its default if None; raise ConfigError outside the range."""
        given: dict[str, Any] = {} if parameter is None else {cls.PARAMETER: parameter}
        return cls(**given, **({"fit_intercept": fit_intercept} if cls.HAS_OWN_BIAS else {}))

    @property
    def parameter(self) -> float:
        return float(getattr(self, self.PARAMETER))

    @classmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """Return the valid parameters for some rows: (low, high) of C, (nu_min, nu_max] or (0, kappa_max).

        rows : operator, of explicit rows for the models that take no kernel
        sample_weight : (m,) or None
        fit_intercept : whether there is a bias, which the range of nu depends on

        Returns low, excluded, and high, included only for a nu; high is infinite where nothing bounds the parameter
        """
        return 0.0, math.inf

    @classmethod
    def highest(cls, signs: FloatArray, weights: FloatArray, fit_intercept: bool) -> float:
        """Return the largest parameter that the weights (m,) of rows of these signs allow."""
        return math.inf

    @classmethod
    def default_value(cls, highest: float, total_weight: float, distance: Callable[[], float]) -> float | None:
        """Return the parameter where none is given; None for that of the class.

        highest : valid parameter; total_weight : of the rows; distance : of the classes, a median
        """
        return None

    @abstractmethod
    def problem(self, rows: Any, sample_weight: FloatArray | None = None) -> CompositeProblem:
        """Return the minimisation problem over rows, an operator, each weighing sample_weight (m,) or 1."""

    def prototype(self, groups: Any) -> CompositeProblem:
        """Return the problem of one row of each of ClassGroups, in which every number is that of a row of all data.

        Partitions of the rows spread these numbers over theirs.
        Raises ConfigError : the parameter is outside the range that groups of these sizes allow
        """
        return self.problem(groups.one_row_each, np.array(groups.weights))

    def check_weights(self, certificate: Certificate, highest: float) -> None:  # noqa: B027
        """Raise ConfigError where a certificate shows that weights of 0 are best; highest : valid parameter."""

    def check(self, solution: Solution, rows: Any, sample_weight: FloatArray | None = None) -> None:  # noqa: B027
        """Raise ConfigError where a solution shows that the parameter was outside its valid range for the rows."""


def differing_digits(low: float, high: float) -> tuple[str, str]:
    """Return two numbers as text, with six digits or as many as show their difference."""
    for digits in range(6, 17):
        shown = f"{low:.{digits}g}", f"{high:.{digits}g}"
        if shown[0] != shown[1]:
            break
    return shown


MOST_COST = 1e100


def check_cost(value: float) -> float:
    """Return a C that is finite and above 0, or raise ConfigError."""
    if value == math.inf:
        raise ConfigError(
            "C = inf removes the regularisation, and weights of separable classes are then unbounded. Give a "
            "finite number above 0."
        )
    if value > MOST_COST:
        raise ConfigError(f"C = {value:g} is above {MOST_COST:g}, beyond which its square is infinite. Use less.")
    return check_positive("C", value)


@dataclass(frozen=True)
class CostClassifier(Classifier):
    """Base of models with a weight C > 0 of the losses; the paper's dual point and objective are these over C."""

    PARAMETER: ClassVar[ParameterName] = "C"

    C: float = 1.0

    def __post_init__(self) -> None:
        check_cost(self.C)
