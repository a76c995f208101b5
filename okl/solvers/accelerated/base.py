"""The interfaces of problems, solutions and classification models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_positive

# Operators: the map from dual points to images.
#
# A dual point a has an image, which is affine in a: A a where A is explicit (what shards then add up is short), and
# A'A a where only the kernel matrix A'A is known. Either way three operations are enough for an accelerated method,
# and the image of an extrapolated point costs no read of the data.


class Operator(Protocol):
    """A linear, or affine, map of dual points; all arrays float64, one-dimensional, outputs overwritten.

    n_points : entries of a dual point; n_image : entries of its image
    """

    @property
    def n_points(self) -> int: ...

    @property
    def n_image(self) -> int: ...

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Image of a point: one read of the data."""
        ...

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Return A'A a (for an affine map A'(A a + offset)) from the image of a: at most one read of the data."""
        ...

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """Return ||A a||^2 of a point or a difference of points; with an offset ||A a + offset||^2."""
        ...

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """Return ||A (a - b)||^2 of two points, summed from the differences."""
        ...


class RowOperator(Operator, Protocol):
    """The operator of margin models, A = [s_1 z_1, ..., s_m z_m] for rows z_i of classes s_i.

    signs : (m,) float64, -1 or +1; squared_lengths : ||z_i||^2, (m,)
    """

    @property
    def signs(self) -> FloatArray: ...

    def squared_lengths(self) -> NDArray[np.float64]: ...

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Scale A a: weights of columns where rows are explicit, coefficients s_i a_i of rows for a kernel."""
        ...


def signs_of(labels: FloatArray) -> NDArray[np.float64]:
    """Return labels as float64 signs; raise DataError unless they are -1 and +1 and both occur."""
    signs: NDArray[np.float64] = np.ascontiguousarray(labels, dtype=np.float64)
    values = np.unique(signs)
    if signs.ndim != 1 or not np.array_equal(values, [-1.0, 1.0]):
        shown = ", ".join(f"{value:g}" for value in values[:4])
        raise DataError(
            f"Labels hold {{{shown}}}, but this model requires both -1 and +1. Encode two classes this way, "
            "or train one class against the rest."
        )
    return signs


# The interface between problems and the method.

_EPSILON = float(np.finfo(np.float64).eps)


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
        """Return the gap divided by the larger of the two objectives, at least the resolution of float64.

        0 where both are 0.
        """
        size = max(abs(self.primal), abs(self.dual))
        return max(self.gap / size, _EPSILON) if size > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights of columns, or coefficients of rows for a kernel, the bias, and the proof.

    weights : (n_columns,), or (m,) for a kernel: f(x) = sum_i weights_i k(x_i, x); h(x) = f(x) - bias
    """

    weights: FloatArray
    bias: float
    certificate: Certificate


class SweepArguments(NamedTuple):
    """A step in one read: what it overwrites, and where it starts.

    out (n_points,), out_image (n_image,) : the new point and its image; gradient (n_points,) : at the point; these are
        overwritten
    point, image : where the step starts
    lipschitz : of the step; multipliers : a guess at those of the hyperplanes, such as those of the last step
    """

    out: FloatArray
    out_image: FloatArray
    gradient: FloatArray
    point: FloatArray
    image: FloatArray
    lipschitz: float
    multipliers: tuple[float, float]


class SweepResult(NamedTuple):
    """Cost of a step in one read.

    multipliers : of the hyperplanes, times lipschitz: those of the next step are near; reads : of the data, rows that
        were read again with the share that they are of all
    """

    multipliers: tuple[float, float]
    reads: float


class CompositeProblem(Protocol):
    """Minimise F(x) = f(x) + g(x), f smooth and convex, g with a cheap prox; a frozen value.

    A point x (n_points,) comes with its image (n_image,), affine in x, from which `pull` (n_points,) derives what the
    gradient needs of the data: image and pull each read the data once, everything else is vector work. All float64.
    """

    @property
    def n_points(self) -> int: ...

    @property
    def n_image(self) -> int: ...

    @property
    def first_lipschitz(self) -> float:
        """Return a first guess at the Lipschitz constant of the gradient, most probably too small."""
        ...

    def start(self) -> FloatArray:
        """Return a point of finite F, a new array (n_points,)."""
        ...

    def image(self, out: FloatArray, point: FloatArray) -> None: ...

    def pull(self, out: FloatArray, image: FloatArray) -> None: ...

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """Return f(x)."""
        ...

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """Overwrite out by the gradient of f; `out` may be `pulled`."""
        ...

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        """Return f(x) - f(b) - <gradient of f at b, x - b>, without its cancellation; x is feasible, b may not be."""
        ...

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Overwrite out by the minimiser of g(x) + lipschitz / 2 ||x - point||^2."""
        ...

    def penalty(self, point: FloatArray) -> float:
        """Return g(x) of a feasible point."""
        ...

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Return the duality gap of a feasible point."""
        ...

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        """Return the primal solution of the certificate."""
        ...

    def sweep(self, given: SweepArguments) -> SweepResult | None:
        """Return pull, gradient, prox of the step from the point and its image in one read; None where it takes two."""
        ...

    def at_level(self, level: int) -> CompositeProblem:
        """Return the same problem with smoothing reduced by `level` steps.

        Return self where nothing is smoothed; certificates are exact at every level.
        """
        ...


# Sample weights.


def weights_of(rows: RowOperator, sample_weight: FloatArray | None) -> NDArray[np.float64]:
    """Return weights (m,) float64, ones if None; raise DataError unless they are valid for both classes."""
    if sample_weight is None:
        return np.ones(rows.n_points)
    weights: NDArray[np.float64] = np.array(sample_weight, dtype=np.float64)
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
    HAS_OWN_BIAS : whether the bias is part of its problem; the others take one from the training errors, or none
    OF_MOMENTS : whether its problem knows the rows by means and covariances of the classes alone
    GROWS : whether a default parameter becomes larger where all weights are 0
    DEFAULT : what the parameter is where none is given
    EQUATION : number of its formula in Ito et al., 2017, which orders the models; one beyond 100 where it is not there
    """

    NAME: ClassVar[str]
    PARAMETER: ClassVar[ParameterName]
    TAKES_KERNEL: ClassVar[bool] = True
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

    @classmethod
    def valid_range(
        cls, rows: Any, sample_weight: FloatArray | None = None, fit_intercept: bool = True
    ) -> tuple[float, float]:
        """Open lower and upper end of the parameter for these rows; the upper end of a nu is part of it."""
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

        Raises
        ------
        ConfigError : the parameter is outside the range that groups of these sizes allow
        """
        return self.problem(groups.one_row_each, np.array(groups.weights))

    def check_weights(self, certificate: Certificate, highest: float) -> None:  # noqa: B027
        """Raise ConfigError where a certificate shows that weights of 0 are best; highest : valid parameter."""

    def check(self, solution: Solution, rows: Any, sample_weight: FloatArray | None = None) -> None:  # noqa: B027
        """Raise ConfigError where a solution shows that the parameter was outside its valid range for the rows."""


def check_cost(value: float) -> float:
    """Return a C that is finite and above 0, or raise ConfigError."""
    if value == math.inf:
        raise ConfigError(
            "C = inf removes the regularisation, and weights of separable classes are then unbounded. Give a "
            "finite number above 0."
        )
    return check_positive("C", value)
