"""Class weights and row weights of piecewise linear losses, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.foundation.catalogue import LOSSES
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, IntArray, Task
from okl.foundation.validation import check_positive
from okl.losses import PiecewiseLinear, Ray, named_loss


@dataclass(frozen=True)
class _Weighted(PiecewiseLinear):
    """A loss times weights."""

    loss: PiecewiseLinear
    KIND: ClassVar[str] = "weighted"

    @property
    def name(self) -> str:
        return f"{self.KIND} {self.loss.name}"

    @property
    def task(self) -> Task:
        return self.loss.task

    def kinks_of_row(self, n_outputs: int) -> int:
        return self.loss.kinks_of_row(n_outputs)


@stored("class-weighted-loss")
@dataclass(frozen=True)
class ClassWeighted(_Weighted):
    """c_y loss(y, s): the loss of a row times the weight of its class.

    Rows of a class are brought together, so that the loss's own compiled functions do the rest.

    loss : of two classes or of several; weights : one for each class, in the order of the labels, above 0
    Raises ConfigError : a loss of numbers, fewer than two weights, or one that is not above 0
    """

    weights: tuple[float, ...]
    KIND: ClassVar[str] = "class-weighted"

    def __post_init__(self) -> None:
        if self.loss.task == "regression":
            raise ConfigError(
                f"The loss {self.loss.name!r} is for regression, which has no class weights. Leave them out."
            )
        if len(self.weights) < 2 or (self.loss.task == "binary" and len(self.weights) > 2):
            raise ConfigError(
                f"There are {len(self.weights)} class weights, but the loss {self.loss.name!r} requires one for "
                "each class."
            )
        for weight in self.weights:
            check_positive("class weight", weight)

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return np.array(self.weights)[self.codes(target)] * self.loss.value(scores, target)

    def intercepts(self, slopes: FloatArray, targets: FloatArray) -> FloatArray:
        return self.loss.intercepts(slopes, targets)

    def slopes_into(
        self, out: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray
    ) -> tuple[float, float]:
        losses, intercepts = 0.0, 0.0
        for weight, rows in self._classes(targets):
            slopes = np.empty((len(rows), *out.shape[1:]))
            sums = self.loss.slopes_into(slopes, scores[rows], along[rows], targets[rows])
            out[rows] = weight * slopes
            losses, intercepts = losses + weight * sums[0], intercepts + weight * sums[1]
        return losses, intercepts

    def line(self, scores: FloatArray, along: FloatArray, targets: FloatArray, step: float) -> tuple[float, float]:
        losses, derivative = 0.0, 0.0
        for weight, rows in self._classes(targets):
            line = self.loss.line(scores[rows], along[rows], targets[rows], step)
            losses, derivative = losses + weight * line[0], derivative + weight * line[1]
        return losses, derivative

    def kinks_into(
        self, positions: FloatArray, jumps: FloatArray, ray: Ray, longest: float, scale: float
    ) -> tuple[int, float]:
        total, count = ray.slope + scale * self.line(ray.scores, ray.along, ray.targets, 0.0)[1], 0
        for weight, rows in self._classes(ray.targets):
            own = ray.scores[rows], ray.along[rows], ray.targets[rows]
            # what the other classes add to the derivative at 0 goes with the parabola: the limit is that of the whole
            others = total - scale * weight * self.loss.line(*own, 0.0)[1]
            of_class = Ray(*own, others, ray.curvature)
            n_kinks, _ = self.loss.kinks_into(positions[count:], jumps[count:], of_class, longest, scale * weight)
            count += n_kinks
        return count, total

    def _classes(self, targets: FloatArray) -> Iterator[tuple[float, NDArray[np.intp]]]:
        codes = self.codes(targets)
        for code, weight in enumerate(self.weights):
            rows = np.flatnonzero(codes == code)
            if len(rows):
                yield weight, rows

    def codes(self, targets: FloatArray) -> IntArray:
        """Return the class index of each row, (n,)."""
        return (targets > 0.0).astype(np.int64) if self.task == "binary" else targets.astype(np.int64)


def weigh(loss: PiecewiseLinear, weights: tuple[float, ...] | None) -> PiecewiseLinear:
    """Return the loss with class weights; the loss itself for None, and where all are 1."""
    return loss if weights is None or set(weights) == {1.0} else ClassWeighted(loss, weights)


@dataclass(frozen=True)
class RowWeighted(_Weighted):
    """w loss(y, s) of targets (n, 2), each with its weight of at least 0. loss : of a row, without class weights"""

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        return target[:, 1] * self.loss.value(scores, target[:, 0])

    def intercepts(self, slopes: FloatArray, targets: FloatArray) -> FloatArray:
        return self.loss.intercepts(slopes, targets[:, 0])

    def slopes_into(
        self, out: FloatArray, scores: FloatArray, along: FloatArray, targets: FloatArray
    ) -> tuple[float, float]:
        self.loss.slopes_into(out, scores, along, np.ascontiguousarray(targets[:, 0]))
        out *= targets[:, 1:] if out.ndim == 2 else targets[:, 1]
        return float(self.value(scores, targets).sum()), float(self.intercepts(out, targets).sum())

    def line(self, scores: FloatArray, along: FloatArray, targets: FloatArray, step: float) -> tuple[float, float]:
        slopes = np.empty_like(scores)
        losses, _ = self.slopes_into(slopes, scores + step * along, along, targets)
        return losses, float(np.sum(slopes * along))

    def kinks_into(
        self, positions: FloatArray, jumps: FloatArray, ray: Ray, longest: float, scale: float
    ) -> tuple[int, float]:
        labels, weights = np.ascontiguousarray(ray.targets[:, 0]), np.ascontiguousarray(ray.targets[:, 1])
        total = ray.slope + scale * self.line(ray.scores, ray.along, ray.targets, 0.0)[1]
        # the loss adds its own derivative at 0, which knows no weights
        slope = total - scale * self.loss.line(ray.scores, ray.along, labels, 0.0)[1]
        labelled = replace(ray, targets=labels, slope=slope)
        return self.loss.weighted_kinks_into(positions, jumps, labelled, weights, longest, scale)[0], total


def weigh_rows(loss: PiecewiseLinear, targets: FloatArray, weights: FloatArray) -> tuple[RowWeighted, FloatArray]:
    """Return the loss with weights of rows (n,), besides those of classes, and the targets (n, 2) that it takes."""
    if isinstance(loss, ClassWeighted):
        weights, loss = weights * np.array(loss.weights)[loss.codes(targets)], loss.loss
    return RowWeighted(loss), np.column_stack([targets, weights])


def describe_loss(loss: PiecewiseLinear, labels: Sequence[Any]) -> dict[str, Any]:
    """Return the loss name, and the weight of each label where classes are weighted, as JSON."""
    if not isinstance(loss, ClassWeighted):
        return {"loss": loss.name}
    named = zip(labels, loss.weights, strict=True)
    return {"loss": loss.name, "class_weights": {str(label): weight for label, weight in named}}


# Losses by name

DEFAULT_LOSS: dict[Task, str] = {
    "binary": "hinge",
    "multiclass": "multiclass-hinge",
    "regression": "epsilon-insensitive",
}


def make_piecewise(name: str, epsilon: float = 0.1) -> PiecewiseLinear:
    """Return the piecewise linear loss of a name. Raises ConfigError (another loss, or an epsilon below 0)."""
    loss = named_loss(name, epsilon) if name in LOSSES else None
    if not isinstance(loss, PiecewiseLinear):
        able = [other for other in LOSSES if isinstance(named_loss(other), PiecewiseLinear)]
        raise ConfigError(f"loss = {name!r}; expected a piecewise linear one: {', '.join(able)}.")
    return loss
