"""Rows and grids of a comparison: a seeded sample in parts, and parameters over their valid ranges."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from okl.compiled.products import multiply_rows
from okl.data.dataset import Dataset
from okl.data.execution import Rows
from okl.data.manifest import group_of
from okl.data.reading import MANY_GROUPS, sample_rows, sampled_groups
from okl.distributed.cache import resident
from okl.features.base import FeatureMap, transform_rows
from okl.foundation.types import Doubles, FloatArray, Integers, Precision
from okl.solvers.accelerated.choice import MethodChoice
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.fitting import Fitted, PathPoint, path, solve_problem
from okl.solvers.accelerated.models import make_model, parameter_of
from okl.solvers.accelerated.models.minimax import MMFDA, MMMPM
from okl.solvers.accelerated.models.nusvm import nu_max
from okl.solvers.accelerated.operators import DenseRows, SparseRows, matrix_rows
from okl.solvers.accelerated.problem import ClassMoments, Moments, moments_by_class

# A seeded sample in memory, mapped, in an order in which all classes are evenly spread.

LEAST_ROWS = 1000  # of the first round of a comparison


class SamplePart(NamedTuple):
    """Training and validation rows: inputs as stored, dense or sparse, and the certified models' features."""

    inputs: Any
    features: Any
    targets: Doubles
    test_inputs: Any
    test_features: Any
    test_targets: Doubles


@dataclass(frozen=True, eq=False)
class Sample:
    """Seeded sample of rows with an order and folds; small to send, as each process reads the rows itself.

    folds : number of parts of a cross validation
    holdout : None, a share in (0, 1), or "test"; with a holdout there is one part
    feature_map : map of the certified models; None: they are linear in the inputs
    """

    data: Dataset
    rows: int
    seed: int
    precision: Precision
    folds: int = 5
    holdout: float | Literal["test"] | None = None
    feature_map: FeatureMap | None = None

    @property
    def n_parts(self) -> int:
        return self.folds if self.holdout is None else 1

    def part(self, number: int) -> SamplePart:
        """Return a fold, or the holdout, as validation rows and all others, cached in this process if they fit."""
        return resident((*self.key, "part", number), lambda: self._part(number))

    def train_rows(self) -> int:
        tested = np.bincount(self.tested()[self.tested() >= 0], minlength=self.n_parts)
        taken = min(self.rows, self.data.rows("train"))
        return taken if self.holdout == "test" else int(taken - tested.max())

    def test_rows(self, number: int) -> int:
        """Return the number of validation rows of a part."""
        if self.holdout == "test":
            return len(self._holdout().targets)
        return int((self.tested() == number).sum())

    def all(self) -> Rows:
        """Return the sampled training rows in order: each class is spread evenly over them."""
        return Rows(*resident((*self.key, "all"), self._ordered)[:2])

    def tested(self) -> Integers:
        """Return the part in which each row is tested, (rows,), -1 for none; stratified by class, or whole groups."""
        _, targets, groups = resident((*self.key, "all"), self._ordered)
        targets = self.kinds(targets)
        parts = np.full(len(targets), -1)
        if self.holdout == "test":
            return parts
        if groups is not None:
            number = int(groups.max()) + 1
            if self.holdout is None:
                return np.asarray(groups * self.folds // number)
            return np.where(groups < min(max(1, round(self.holdout * number)), number - 1), 0, -1)
        first = 0
        for value in np.unique(targets):
            members = np.flatnonzero(targets == value)
            ranks = np.arange(len(members))
            if self.holdout is None:
                # each class continues where the previous one ended, so that folds have equal sizes
                parts[members] = (ranks + first) % self.folds
                first += len(members)
            else:
                count = min(max(1, round(self.holdout * len(members))), len(members) - 1)
                parts[members[ranks * count // len(members) != (ranks - 1) * count // len(members)]] = 0
        return parts

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Return the key of the rows in the cache of a process."""
        mapped = None if self.feature_map is None else map_digest(self.feature_map)
        source = self.data.read_sha256, self.rows, self.seed, self.precision
        return ("compare", *source, self.folds, self.holdout, mapped)

    def _ordered(self) -> tuple[Any, Doubles, Integers | None]:
        rows = sample_rows(self.data, "train", self.rows, self.seed, self.precision, MANY_GROUPS)
        random = np.random.default_rng((self.seed, 0xC0))
        key, kinds = np.empty(len(rows.targets)), self.kinds(rows.targets)
        for value in np.unique(kinds):
            members = np.flatnonzero(kinds == value)
            key[members] = (random.permutation(len(members)) + random.random(len(members))) / len(members)
            # a first round may have none of so few: two, of two folds, lead
            if len(members) * LEAST_ROWS < 4 * len(key):
                key[members[np.argsort(key[members])[:2]]] *= 1e-6
        order = np.argsort(key, kind="stable")
        name = group_of(self.data)
        groups = None if name is None else sampled_groups(self.data, name, self.rows, self.seed)[order]
        return rows.inputs[order], rows.targets[order], groups

    def kinds(self, targets: Doubles) -> Doubles:
        """Return what rows are spread by, (rows,): their class, or 0 for a regression."""
        return np.zeros(len(targets)) if self.data.schema.task == "regression" else targets

    def _holdout(self) -> Rows:
        return resident(
            (*self.key, "test"),
            lambda: sample_rows(self.data, "test", self.rows, self.seed, self.precision, MANY_GROUPS),
        )

    def _part(self, number: int) -> SamplePart:
        rows, tested = self.all(), self.tested()
        training = tested != number
        test_rows = self._holdout() if self.holdout == "test" else Rows(rows.inputs[~training], rows.targets[~training])
        inputs = rows.inputs[training]
        return SamplePart(
            inputs,
            self.mapped(inputs),
            rows.targets[training],
            test_rows.inputs,
            self.mapped(test_rows.inputs),
            test_rows.targets,
        )

    def mapped(self, inputs: Any) -> Any:
        """Return the columns of the certified models for inputs (rows, n_inputs)."""
        return inputs if self.feature_map is None else transform_rows(self.feature_map, inputs)


def map_digest(feature_map: FeatureMap) -> str:
    """Return the hexadecimal digest of a map: its kind, kernel and sizes, and every number of its arrays."""
    digest = hashlib.sha256(json.dumps(feature_map.describe(), sort_keys=True).encode())
    for name, array in sorted(feature_map.arrays().items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


Signs = list[NDArray[np.float64]]


def signs_of_classes(targets: Doubles, n_classes: int) -> Signs:
    """Return signs (rows,) of each class against the rest; for two classes one array, the targets."""
    if n_classes == 2:
        return [np.asarray(targets, dtype=np.float64)]
    return [np.where(targets == index, 1.0, -1.0) for index in range(n_classes)]


def raw_scores(features: Any, weights: FloatArray) -> Doubles:
    """Return <w, x> of every row, dense or sparse, summed in float64."""
    if issparse(features):
        sums: Doubles = features @ np.asarray(weights, dtype=np.float64)
        return sums
    scores = np.empty(len(features))
    multiply_rows(scores, features, np.ones(len(features)), weights)
    return scores


# Grid of each model's parameter: over its valid range, in units of the data, the most regularised problem first.

COST = (1e-2, 300.0)  # C, for rows of length 1
SPARSE_COST = (2.0, 2e3)  # C, in units of the smallest one with a nonzero weight
MARGIN = (1.0, 0.01)  # of DWD, where its tangent replaces 1 / z, for rows of length 1
LEAST_SHARE = 0.03  # of the range of nu
GRID_SAMPLE_ROWS = 4000  # of the planes that bound the range of nu
PLANES = 4
ROUGH_METHOD = MethodChoice(tolerance=1e-2, max_iterations=200)

Kind = Literal["value", "share", "margin"]


@dataclass(frozen=True)
class ComparedGrid:
    """Grid points of one parameter, from most to least regularisation.

    points : grid points, in the unit of the kind
    kind : "value": C itself; "share": of the open valid range, of each class against the rest; "margin": sqrt(m nu)
    ranges : (low, high) of each class against the rest; one for two classes
    """

    model: str
    points: tuple[float, ...]
    kind: Kind
    ranges: tuple[tuple[float, float], ...] = ((0.0, math.inf),)

    @property
    def parameter(self) -> str:
        return parameter_of(self.model)

    def high(self, rows: DenseRows | SparseRows) -> float:
        """Return the end of the range that the labels of these rows set: nu_max, or infinity for other models."""
        return _nu_max(rows.signs) if self.model == "nu-svm" else math.inf

    def value(self, grid_point: float, class_index: int = 0, n_rows: int = 1, high: float = math.inf) -> float:
        """Return the parameter at a grid point, for rows whose own range ends at `high`."""
        if self.kind == "value":
            return grid_point
        if self.kind == "margin":
            return grid_point**2 / n_rows
        low, end = self.ranges[class_index]
        return min(low + grid_point * (min(end, high) - low), high)


def make_grid(model: str, features: Any, signs: Sequence[FloatArray], n: int) -> ComparedGrid:
    """Return the grid of a model for sampled features (rows, n_columns), and signs (rows,) of each class."""
    rows = matrix_rows(features, signs[0])
    length = math.sqrt(max(float(rows.squared_lengths().mean()), float(np.finfo(np.float32).tiny)))
    if model == "dwd":
        return ComparedGrid(model, _spread(MARGIN, n, length), "margin")
    if parameter_of(model) == "kappa":
        # dense near the end, where MM-FDA becomes Fisher's discriminant
        return ComparedGrid(model, tuple((1.0 - (1.0 - np.arange(1, n + 1) / (n + 1)) ** 2).tolist()), "share")
    if parameter_of(model) == "nu":
        return ComparedGrid(model, _spread((1.0, LEAST_SHARE), n), "share", _ranges_of_nu(features, signs))
    if model.startswith("l1-"):
        least = min(_least_cost(model, matrix_rows(features, sign)) for sign in signs)
        return ComparedGrid(model, _spread(SPARSE_COST, n, least), "value")
    return ComparedGrid(model, _spread(COST, n, 1.0 / length**2), "value")


def on_rows(grid: ComparedGrid, features: Any, signs: Sequence[FloatArray]) -> ComparedGrid:
    """Return the same grid points in the ranges of other rows: a nu may be valid for a sample and not for all rows."""
    return replace(grid, ranges=_ranges_of_nu(features, signs)) if grid.model == "nu-svm" else grid


def _ranges_of_nu(features: Any, signs: Sequence[FloatArray]) -> tuple[tuple[float, float], ...]:
    return tuple((least_nu(features, sign), _nu_max(sign)) for sign in signs)


def least_nu(features: Any, signs: FloatArray) -> float:
    """Return a nu just above nu_min, the least mean hinge loss of all planes: that of the best of a few C-SVMs.

    The linear program that gives nu_min takes minutes, this takes a second; the loss of any plane is a bound.
    features : (rows, n_columns); planes are fitted to evenly spaced rows, losses are those of all rows
    """
    spread = np.linspace(0, len(signs) - 1, min(len(signs), GRID_SAMPLE_ROWS)).astype(np.int64)
    few = matrix_rows(features[spread], signs[spread])
    length = math.sqrt(max(float(few.squared_lengths().mean()), float(np.finfo(np.float32).tiny)))
    points = path("c-svm", few, _spread(COST, PLANES, 1.0 / length**2), ROUGH_METHOD)
    losses = []
    for point in points:
        margins = signs * (raw_scores(features, point.solution.weights) - point.solution.bias)
        losses.append(float(np.maximum(0.0, 1.0 - margins).mean()))
    return min(*losses, _nu_max(signs))


def _nu_max(signs: FloatArray) -> float:
    return nu_max(signs, np.ones(len(signs)))


def _least_cost(model: str, rows: DenseRows | SparseRows) -> float:
    """Return the largest C for which all weights of a model with an l1 penalty are 0.

    Source: Yuan, Chang, Hsieh & Lin, JMLR 11, 2010, section 2.
    """
    problem = make_model(model, C=1.0).problem(rows)
    steepness = np.empty(rows.n_image)
    problem.adjoint(steepness, np.zeros(rows.n_points))
    return 1.0 / max(float(np.abs(steepness).max()), float(np.finfo(np.float32).tiny))


def _spread(ends: tuple[float, float], n: int, unit: float = 1.0) -> tuple[float, ...]:
    """Return n values from one end to the other with a constant ratio; the middle one if n is 1."""
    first, last = unit * ends[0], unit * ends[1]
    return tuple(np.geomspace(first, last, n).tolist()) if n > 1 else (math.sqrt(first * last),)


# Minimax models along their grid. They need only moments of the rows, which are summed once for all folds and values.

BLOCK_ROWS = 4096


def path_of_moments(
    model: str, moments: ClassMoments, shares: Sequence[float], method: MethodChoice
) -> list[PathPoint]:
    """Solve for shares of the valid range (0, kappa_max) of moments, each warm-started."""
    largest = kappa_max(model, moments)
    problem: MinimaxProblem | None = None
    points: list[PathPoint] = []
    fit: Fitted | None = None
    for share in shares:
        started = time.perf_counter()
        kappa = share * largest or share  # where no kappa changes the weights
        if problem is None:
            made: Any = make_model(model, kappa=kappa)
            problem = made.problem_of(moments)
        problem = replace(problem, kappa=kappa)
        fit = solve_problem(problem, method, None if fit is None else fit.point)
        points.append(PathPoint(kappa, fit, time.perf_counter() - started, fit.iterations))
    return points


def kappa_max(model: str, moments: ClassMoments) -> float:
    """Return the open end of the valid range of a minimax model."""
    return MMFDA.kappa_max(moments) if model == "mm-fda" else MMMPM.kappa_max(moments)


def merged_moments(sample: Sample, part: int, class_index: int, n_classes: int) -> ClassMoments:
    """Return moments of the training rows of a part, merged from those of folds, which this process caches."""
    if sample.holdout is not None:
        fitted = sample.part(part)
        return ClassMoments(*_moments(fitted.features, signs_of_classes(fitted.targets, n_classes)[class_index]))
    folds = [number for number in range(sample.n_parts) if number != part]
    moments = [_fold_moments(sample, number, class_index, n_classes) for number in folds]
    return ClassMoments(*(reduce(Moments.merged, of_class) for of_class in zip(*moments, strict=True)))


def _fold_moments(sample: Sample, number: int, class_index: int, n_classes: int) -> list[Moments]:
    def load() -> list[tuple[Any, ...]]:  # arrays, whose bytes the cache counts
        part = sample.part(number)
        both = _moments(part.test_features, signs_of_classes(part.test_targets, n_classes)[class_index])
        return [(np.array(moments.count), moments.mean, moments.scatter) for moments in both]

    stored = resident((*sample.key, "moments", number, class_index), load)
    return [Moments(float(count), mean, scatter) for count, mean, scatter in stored]


def _moments(features: FloatArray, signs: FloatArray) -> tuple[Moments, Moments]:
    blocks = [slice(first, first + BLOCK_ROWS) for first in range(0, len(features), BLOCK_ROWS)]
    return moments_by_class(((features[block], signs[block], None) for block in blocks), features.shape[1])
