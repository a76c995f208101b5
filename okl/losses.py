"""Losses of classification and regression: value, derivative, conjugate, and the kinks of piecewise linear ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy.special import xlogy

from okl.compiled import bundle
from okl.compiled.extension import SLOPE, VALUE, ExtensionCode, Scalar, compiled_functions, evaluate_extension
from okl.compiled.sgd import OWN_BINARY, OWN_REGRESSION
from okl.foundation import plugins
from okl.foundation.catalogue import LOSSES, load
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, IntArray, Task
from okl.foundation.validation import check_nonnegative


@runtime_checkable
class Loss(Protocol):
    """Interface of the losses of online solvers.

    Built-in losses are compiled, too: row after row as `loss_value` and `loss_slope` of `okl.compiled.sgd`, as cuts in
    `okl.compiled.bundle`, as functions of margins in `okl.solvers.accelerated.models`. Tests compare them with these.
    """

    @property
    def name(self) -> str: ...
    @property
    def task(self) -> Task: ...
    @property
    def code(self) -> int: ...
    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray: ...
    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray: ...
    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray: ...


# Piecewise linear losses.
#
# Per-row slopes u_i, a subgradient by the scores, and their intercepts give a cut: for every v mean loss(v) >= mean_i
# (<u_i, v_i> + intercept_i), whatever point the slopes come from.


class _Pieces(NamedTuple):
    """Compiled functions of a loss: fill slopes, follow a line, fill kinks along it."""

    slopes: Callable[..., Any]
    line: Callable[..., Any]
    kinks: Callable[..., Any]


_EQUAL_WEIGHTS = np.empty(0)


@dataclass(frozen=True)
class Ray:
    """The objective along a direction, less its value at 0: mean loss(scores + t along) + slope t + curvature t^2 / 2.

    slope, curvature : of the regulariser
    """

    scores: FloatArray
    along: FloatArray
    targets: FloatArray
    slope: float
    curvature: float


class PiecewiseLinear:
    """Base of piecewise linear losses: calls their compiled functions; scores (n,) or (n, K), targets, all float64."""

    _pieces: ClassVar[_Pieces]

    @property
    def name(self) -> str:
        """Return the name of the loss."""
        raise NotImplementedError

    @property
    def task(self) -> Task:
        """Return the task of the loss."""
        raise NotImplementedError

    @property
    def _numbers(self) -> tuple[float, ...]:
        return ()

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of each row, (n,)."""
        raise NotImplementedError

    def intercepts(self, slopes: FloatArray, targets: FloatArray) -> FloatArray:
        """Return what each row's slope adds to a cut, (n,): loss(v) >= slope v + intercept for every v."""
        raise NotImplementedError

    def kinks_of_row(self, n_outputs: int) -> int:
        """Return the largest number of kinks of a row along a line."""
        raise NotImplementedError

    def slopes(self, scores: FloatArray, targets: FloatArray, along: FloatArray | None = None) -> FloatArray:
        """Return a subgradient for each row, shaped like scores; at kinks, the right-hand one along."""
        out = np.empty_like(scores, dtype=np.float64)
        self.slopes_into(out, scores, np.zeros_like(out) if along is None else along, targets)
        return out

    def slopes_into(
        self, out: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray
    ) -> tuple[float, float]:
        """Overwrite out by a subgradient of each row, the right-hand one along; sums of losses and of intercepts."""
        sums: tuple[float, float] = self._pieces.slopes(out, scores, along, targets, *self._numbers)
        return sums

    def line(self, scores: FloatArray, along: FloatArray, targets: FloatArray, step: float) -> tuple[float, float]:
        """Return the sum of losses at scores + step along, and its right-hand derivative with respect to step."""
        sums: tuple[float, float] = self._pieces.line(scores, along, targets, *self._numbers, step)
        return sums

    def kinks_into(
        self, positions: FloatArray, jumps: FloatArray, ray: Ray, longest: float, scale: float
    ) -> tuple[int, float]:
        """Overwrite positions and jumps by the kinks along; their number and the derivative of the whole at 0."""
        return self.weighted_kinks_into(positions, jumps, ray, _EQUAL_WEIGHTS, longest, scale)

    def weighted_kinks_into(
        self, positions: FloatArray, jumps: FloatArray, ray: Ray, weights: FloatArray, longest: float, scale: float
    ) -> tuple[int, float]:
        """Return the same with jumps times weights (n,), but an unweighted derivative at 0; (0,) for all 1."""
        rows, parabola = (ray.scores, ray.along, ray.targets), (ray.slope, ray.curvature)
        kinks: tuple[int, float] = self._pieces.kinks(
            positions, jumps, *rows, weights, *self._numbers, *parabola, longest, scale
        )
        return kinks


@stored("thresholded-half-squared-loss")
@dataclass(frozen=True)
class ThresholdedHalfSquared:
    """Half the squared residual where it exceeds epsilon, nothing below: 1/2 (f - y)^2 [|f - y| > epsilon].

    The step of the paper's regression learner is step_size (y - f) z when |y - f| > epsilon, which is this derivative;
    the factor 1/2 is what makes them agree. Not convex at the threshold for epsilon > 0.

    epsilon : float >= 0, in units of the (scaled) target

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 5 and section 7.4.1, with |y - f| > epsilon for the printed test.
    """

    epsilon: float = 0.1
    name: str = "thresholded-half-squared"
    task: Task = "regression"
    code: int = 3

    def __post_init__(self) -> None:
        check_nonnegative("epsilon", self.epsilon)

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of each row, (rows,), in squared units of the target."""
        residual = scores - target
        return np.where(np.abs(residual) > self.epsilon, 0.5 * residual**2, 0.0)

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivative by the score, f - y beyond epsilon, (rows,)."""
        residual = scores - target
        return np.where(np.abs(residual) > self.epsilon, residual, 0.0)

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return dual y + max(epsilon |dual|, dual^2 / 2 beyond 2 epsilon), (rows,)."""
        size = np.abs(dual)
        return dual * target + np.where(size <= 2.0 * self.epsilon, self.epsilon * size, 0.5 * dual**2)


@stored("subgradient-epsilon-insensitive")
@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseLinear):
    """max(0, |s - y| - epsilon), of a number; epsilon = 0 is the absolute loss.

    epsilon : float >= 0, in units of the target
    Raises ConfigError : epsilon is negative or not finite

    Source: Drucker et al., "Support vector regression machines", NIPS 1996, with the tube's half-width epsilon.
    """

    _pieces: ClassVar[_Pieces] = _Pieces(bundle.tube_slopes, bundle.tube_line, bundle.tube_kinks)
    epsilon: float = 0.1
    task: Task = "regression"

    def __post_init__(self) -> None:
        check_nonnegative("epsilon", self.epsilon)

    @property
    def _numbers(self) -> tuple[float, ...]:
        return (self.epsilon,)

    @property
    def name(self) -> str:
        return "epsilon-insensitive" if self.epsilon > 0 else "absolute"

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.maximum(0.0, np.abs(scores - target) - self.epsilon)

    def intercepts(self, slopes: FloatArray, targets: FloatArray) -> FloatArray:
        return -(slopes * targets + self.epsilon * np.abs(slopes))

    def kinks_of_row(self, n_outputs: int) -> int:
        return 2


# Losses of classes.
#
# Targets are -1 or +1 (binary) or class indices 0 .. K - 1 (several classes).


@stored("hinge-loss", former=("subgradient-hinge",))
@dataclass(frozen=True)
class Hinge(PiecewiseLinear):
    """The hinge max(0, 1 - y f); its subgradient is -y where y f < 1, and 0 at the kink.

    Source: Lu et al., JMLR 17(47), 2016, Algorithm 1 and section 7.2.1.
    """

    _pieces: ClassVar[_Pieces] = _Pieces(bundle.hinge_slopes, bundle.hinge_line, bundle.hinge_kinks)
    name: str = "hinge"
    task: Task = "binary"
    code: int = 0

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of each row, (rows,), in units of the margin."""
        return np.maximum(0.0, 1.0 - target * scores)

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivative by the score, (rows,)."""
        return np.where(target * scores < 1.0, -target, 0.0)

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return sup_f dual f - value(f): y dual where -1 <= y dual <= 0, infinite elsewhere, (rows,)."""
        margin = target * dual
        return np.where((margin >= -1.0) & (margin <= 0.0), margin, np.inf)

    def intercepts(self, slopes: FloatArray, targets: FloatArray) -> FloatArray:
        return -targets * slopes

    def kinks_of_row(self, n_outputs: int) -> int:
        return 1


@stored("logistic-loss")
@dataclass(frozen=True)
class Logistic:
    """The logistic loss log(1 + exp(-y f)).

    Source: Lu et al., JMLR 17(47), 2016, section 3.1 (any convex loss); the conjugate is the negative entropy.
    """

    name: str = "logistic"
    task: Task = "binary"
    code: int = 1

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of each row, (rows,), in nats."""
        return np.logaddexp(0.0, -target * scores)

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivative by the score, -y / (1 + exp(y f)), (rows,)."""
        # tanh does not overflow for scores of any size, 1 / (1 + exp) does
        return -target * 0.5 * (1.0 - np.tanh(0.5 * target * scores))

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return p log p + (1 - p) log(1 - p) with p = -y dual in [0, 1], infinite elsewhere, (rows,)."""
        share = -target * dual
        inside = (share >= 0.0) & (share <= 1.0)
        p = np.clip(share, 0.0, 1.0)
        entropy = xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)  # 0 at both ends
        return np.where(inside, entropy, np.inf)


@stored("multiclass-hinge-loss", former=("subgradient-multiclass-hinge",))
@dataclass(frozen=True)
class MulticlassHinge(PiecewiseLinear):
    """The multi-class hinge max(0, 1 - (f_y - max_{k != y} f_k)).

    Its subgradient touches two classes only: -1 for the true one, +1 for the best wrong one (the first on a tie).

    Source: Lu et al., JMLR 17(47), 2016, section 5.1 and Algorithm 3; Crammer & Singer, JMLR 3, 2003.
    """

    _pieces: ClassVar[_Pieces] = _Pieces(bundle.classes_slopes, bundle.classes_line, bundle.classes_kinks)
    name: str = "multiclass-hinge"
    task: Task = "multiclass"
    code: int = 2

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of each row, (rows,); scores (rows, K), target class indices (rows,)."""
        true, wrong = self._true_and_best_wrong(scores, target)
        rows = np.arange(len(scores))
        return np.maximum(0.0, 1.0 - (scores[rows, true] - scores[rows, wrong]))

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivative by the scores, (rows, K)."""
        true, wrong = self._true_and_best_wrong(scores, target)
        rows = np.arange(len(scores))
        active = scores[rows, true] - scores[rows, wrong] < 1.0
        slopes: FloatArray = np.zeros_like(scores)
        slopes[rows[active], true[active]] = -1.0
        slopes[rows[active], wrong[active]] = 1.0
        return slopes

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Return dual_y (rows,) where the dual sums to 0 and its wrong entries are >= 0, sum <= 1; else infinity."""
        true = np.asarray(target, dtype=np.int64)
        rows = np.arange(len(dual))
        wrong = dual.copy()
        wrong[rows, true] = 0.0
        feasible = (np.abs(dual.sum(axis=1)) < 1e-9) & (wrong >= 0.0).all(axis=1) & (wrong.sum(axis=1) <= 1.0 + 1e-9)
        return np.where(feasible, dual[rows, true], np.inf)

    def intercepts(self, slopes: FloatArray, targets: FloatArray) -> FloatArray:
        return -slopes[np.arange(len(slopes)), np.asarray(targets, dtype=np.int64)]

    def kinks_of_row(self, n_outputs: int) -> int:
        return n_outputs - 1

    @staticmethod
    def _true_and_best_wrong(scores: FloatArray, target: FloatArray) -> tuple[IntArray, IntArray]:
        true = np.asarray(target, dtype=np.int64)
        others = np.array(scores, dtype=np.float64)
        others[np.arange(len(scores)), true] = -np.inf
        return true, np.argmax(others, axis=1)


# Losses of one number that are two functions: those of extensions, and of okl itself where compiled code has no table.


class ScalarLoss:
    """Base of losses whose value and derivative are functions of one score and one target, which are compiled.

    A subclass has a name and a task, "binary" with targets -1 and +1 or "regression", and the static methods
    `of_score` and `slope`: arithmetic, `math` and NumPy's functions of floats. Every process compiles them for itself.
    It trains by steps along the derivative, in `fogd` and `nogd`; without `conjugate` no gap is proved with it.
    """

    name: str
    task: Task

    @staticmethod
    def of_score(f: float, y: float) -> float:
        """Return the loss of a score f, target y."""
        raise NotImplementedError

    @staticmethod
    def slope(f: float, y: float) -> float:
        """Return the derivative by the score."""
        raise NotImplementedError

    @property
    def code(self) -> int:
        """Return the code of all such losses of the task."""
        return OWN_REGRESSION if self.task == "regression" else OWN_BINARY

    @property
    def address(self) -> int:
        """Return the address of its machine code in this process."""
        return compiled_functions(type(self).of_score, type(self).slope).address

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the loss of each row, (rows,)."""
        return self._evaluated(VALUE, scores, target)

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Return the derivative by the score, (rows,)."""
        return self._evaluated(SLOPE, scores, target)

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Raise ConfigError, unless overridden: the conjugate is unknown."""
        raise ConfigError(f"The loss {self.name!r} has no conjugate, so it has no certificate.")

    def _evaluated(self, which: int, scores: FloatArray, target: FloatArray) -> FloatArray:
        out = np.empty(len(scores))
        doubles = (np.ascontiguousarray(values, dtype=np.float64) for values in (scores, target))
        evaluate_extension(out, self.address, which, *doubles)
        return out


@dataclass(frozen=True)
class DeclaredLoss:
    """Loss of an extension: two scalar functions of (score, target), for two classes (-1, +1) or a regression."""

    task: Task
    value: Scalar
    derivative: Scalar


@stored("extension-loss")
@dataclass(frozen=True)
class ExtensionLoss(ScalarLoss):
    """A loss of an extension, identified by its name and origin."""

    name: str
    task: Task
    origin: str

    @property
    def address(self) -> int:
        return compiled_loss(self.name, self.origin).address


@cache
def compiled_loss(name: str, origin: str) -> ExtensionCode:
    """Return a loss of an extension as machine code of this process, or ConfigError where that cannot be made."""
    own: DeclaredLoss = plugins.exactly("loss", name, origin)
    try:
        return compiled_functions(own.value, own.derivative)
    except TypeError as error:
        raise ConfigError(
            f"The loss {name!r} of {origin} cannot be compiled: {error} Use floats, math and NumPy's functions only."
        ) from None


def own_address(loss: Loss) -> int:
    """Return the address of a loss that is two functions; 0 for one of the table of compiled code."""
    return loss.address if isinstance(loss, ScalarLoss) else 0


# Losses by their names.

DEFAULT_LOSS: dict[Task, str] = {
    "binary": "hinge",
    "multiclass": "multiclass-hinge",
    "regression": "thresholded-half-squared",
}


def absolute() -> EpsilonInsensitive:
    """Return the absolute loss."""
    return EpsilonInsensitive(0.0)


def named_loss(name: str, epsilon: float = 0.1) -> Loss | PiecewiseLinear:
    """Return a loss of LOSSES by its name; epsilon : of those that have one."""
    make = load(LOSSES[name])
    loss: Loss | PiecewiseLinear = make(epsilon=epsilon) if "epsilon" in signature(make).parameters else make()
    return loss


def online_losses(task: Task | None = None) -> tuple[str, ...]:
    """Return the names of the losses of LOSSES that online solvers take, of one task or of all."""
    losses = {name: named_loss(name) for name in LOSSES}
    return tuple(name for name, loss in losses.items() if isinstance(loss, Loss) and task in (None, loss.task))


def make_loss(name: str, epsilon: float = 0.1) -> Loss:
    """Make a loss of LOSSES that online solvers take, or of an extension, or raise ConfigError that lists the names."""
    if name in online_losses():
        loss = named_loss(name, epsilon)
        assert isinstance(loss, Loss)
        return loss
    declared = None if name in LOSSES else plugins.find("loss", name)
    if declared is None:
        known = [*online_losses(), *plugins.names("loss")]
        raise ConfigError(f"loss = {name!r}; expected one of {', '.join(known)}.")
    compiled_loss(name, declared.origin)  # what cannot be compiled is refused before anything is read
    return ExtensionLoss(name, declared.thing.task, declared.origin)
