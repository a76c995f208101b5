"""Model comparison: entrants, grids, folds, search and winner."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from okl.compiled.products import multiply_rows
from okl.data.dataset import Dataset, Schema
from okl.data.executor import Execution, Rows
from okl.data.ingest.run import check_not_ingested, check_source, ingest
from okl.data.ingest.targets import MAX_LABELS
from okl.data.manifest import is_dataset, open_dataset
from okl.data.reading import sample_rows
from okl.distributed import open_for
from okl.distributed.cache import resident
from okl.distributed.opening import RunExecution
from okl.features.base import FeatureMap, transform_rows
from okl.features.linear import StandardisedLinear
from okl.features.predictors import LinearPredictor, Predictor
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.folders import run_place
from okl.foundation.locations import Place, name_after, okl_home, place_of
from okl.foundation.settings import IngestSettings, SolverName, TrainSettings
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import FloatArray, Precision
from okl.runs.compare_report import Page, html_page, markdown_page
from okl.runs.compare_settings import CompareSettings
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.fitting import Fitted, PathPoint, path, solve_problem
from okl.solvers.accelerated.method import Fapg
from okl.solvers.accelerated.models import MODEL_NAMES, has_own_bias, is_model, make_model, parameter_of
from okl.solvers.accelerated.models.mmfda import fda_kappa_max
from okl.solvers.accelerated.models.mmmpm import mpm_kappa_max
from okl.solvers.accelerated.models.nusvm import nu_max
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import ClassMoments, Moments, class_moments, error_minimising_bias, moments_of
from okl.solvers.factory import make_online_solver, make_recipe
from okl.solvers.online.base import BuildContext
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.solver import SAMPLE_ROWS
from okl.solvers.online.strategies import STRATEGIES

# Who takes part: models and solvers by name, and what each of them is.

IN_MAPS = ("fogd", "nogd")
ONLINE_NAMES = tuple(name for name in get_args(SolverName) if name in (*IN_MAPS, *STRATEGIES))
OF_FREQUENCIES = "fogd and the nine with a certificate would"
OF_A_MAP = "fogd would, and the nine with a certificate if frequencies are given"
GROUPS = {"all": MODEL_NAMES, "online": ONLINE_NAMES}


def entrants(settings: CompareSettings) -> tuple[str, ...]:
    """Return names of those who take part, in the order of asking, each once.

    Raises
    ------
    ConfigError : an unknown name, or none
    """
    names = [name for word in settings.models for name in GROUPS.get(word, (word,))]
    if unknown := [name for name in names if name not in ONLINE_NAMES and not is_model(name)]:
        raise ConfigError(
            f"models = {', '.join(unknown)}: not compared here. Name some of all ({', '.join(MODEL_NAMES)}) "
            f"or online ({', '.join(ONLINE_NAMES)}). "
            "Runs of okl train, by whichever solver, stand side by side in okl runs."
        )
    if not names:
        raise ConfigError("models is empty. Name some, or all.")
    return tuple(dict.fromkeys(names))


def is_certified(name: str) -> bool:
    """Return whether it is one of the models with a duality gap; the others are online solvers."""
    return is_model(name)


def train_settings(settings: CompareSettings, name: str) -> TrainSettings:
    """Return what `okl train --solver NAME` would be told: what the comparison says, all else as it is by default."""
    told: dict[str, Any] = {"kernel": settings.kernel, "bandwidth": settings.bandwidth}
    if name == "fogd":
        told["map"] = settings.map
        if settings.frequencies is not None:
            told["frequencies"] = settings.frequencies
    told |= {"data": settings.data, "solver": name, "seed": settings.seed, "precision": settings.precision}
    return TrainSettings(**told)


def check_entrants(settings: CompareSettings, data: Dataset) -> None:
    """Refuse what can be known to be wrong before a row is read.

    Raises
    ------
    ConfigError : names, a task that is no classification, settings that one of them does not take
    """
    names = entrants(settings)
    schema = data.schema
    if schema.task == "regression":
        raise ConfigError(
            f"{data.folder}: the target {schema.target!r} makes this a regression, but okl compare is for classes "
            "only. Run okl train once for each solver (--solver ridge, fogd, nogd, or none: a race), a source "
            "with the same --holdout; then okl runs shows them side by side. Numbers that name classes, "
            f"{MAX_LABELS:,} at most, take --task multiclass where a source is ingested."
        )
    _check_parts(settings, data)
    _check_map(settings, names, schema)


def _check_parts(settings: CompareSettings, data: Dataset) -> None:
    """Raise ConfigError if there are too few rows to be judged on."""
    if settings.holdout == "test" and not data.rows("test"):
        raise ConfigError(
            f"holdout = test, but {data.folder} has no test rows. Give a share such as --holdout 0.2, or use --folds."
        )
    smallest = min(data.schema.class_counts)
    if settings.holdout is None and smallest < settings.folds:
        raise ConfigError(
            f"folds = {settings.folds}, but the smallest class has {smallest} training rows: each fold takes one of "
            "every class. Use fewer folds, or --holdout."
        )


def map_choice(settings: CompareSettings, names: tuple[str, ...]) -> FourierChoice | None:
    """Return the map that those with a certificate learn in.

    None where they take the inputs, or none of them takes part.

    Raises
    ------
    ConfigError : a kernel without a Fourier map, or a way of drawing frequencies that is none
    """
    if settings.frequencies is None or not any(map(is_certified, names)):
        return None
    if settings.kernel in ("polynomial", "linear"):
        raise ConfigError(
            f"kernel = {settings.kernel!r} has no Fourier map. Use gaussian, laplacian, matern32 or matern52, or leave "
            "frequencies out."
        )
    bandwidth = None if settings.bandwidth == "auto" else settings.bandwidth
    return FourierChoice(settings.kernel, bandwidth, settings.frequencies, settings.map)


def _check_map(settings: CompareSettings, names: tuple[str, ...], schema: Schema) -> None:
    online = [name for name in names if not is_certified(name)]
    for name in online:
        make_recipe(train_settings(settings, name), schema)
    if map_choice(settings, names) is not None or "fogd" in names:
        return
    if len(online) == len(names):
        for name, others in (("frequencies", OF_FREQUENCIES), ("map", OF_A_MAP)):
            if _changed(settings, name):
                who = f"the solver {names[0]} takes" if len(names) == 1 else f"{_list(names)} take"
                raise ConfigError(
                    f"{_told(settings, name)}, but {who} no {name}: {others}. Leave it out, or name some in models."
                )
    for name in ("map",) if online else ("bandwidth", "kernel", "map"):
        if _changed(settings, name):
            raise ConfigError(
                f"{_told(settings, name)}, but the nine models take inputs as they are unless there is a map. Set "
                "frequencies too, or leave it out."
            )


def _told(settings: CompareSettings, name: str) -> str:
    return f"{name} = {getattr(settings, name)!r} was given"


def _list(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _changed(settings: CompareSettings, name: str) -> bool:
    return bool(getattr(settings, name) != CompareSettings.model_fields[name].default)


# The rows of a search: a seeded sample in memory, mapped, in an order whose beginning is as mixed as the whole.


class SamplePart(NamedTuple):
    """Rows to learn and rows to be judged on; inputs as they are, features as the nine models take them."""

    inputs: FloatArray
    features: FloatArray
    targets: NDArray[np.float64]
    test_inputs: FloatArray
    test_features: FloatArray
    test_targets: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Which rows, in which order, in which folds: cheap to send, read from the data set where it is used.

    Parameters
    ----------
    data : the data set; rows : of its training rows at most; seed, precision
    folds : parts of a cross validation; holdout : None, or a share, or "test": then there is one part
    feature_map : of the nine models; None: the inputs
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
        """Return the number of folds, or 1."""
        return self.folds if self.holdout is None else 1

    def part(self, number: int) -> SamplePart:
        """Return a fold to be judged on and all others to learn from, or the holdout.

        Kept in this process while it fits.
        """
        return resident((*self.key, "part", number), lambda: self._part(number))

    def train_rows(self) -> int:
        """Return rows to learn of the smallest part."""
        tested = np.bincount(self.tested()[self.tested() >= 0], minlength=self.n_parts)
        taken = min(self.rows, self.data.rows("train"))
        return taken if self.holdout == "test" else int(taken - tested.max())

    def test_rows(self, number: int) -> int:
        """Return rows that a part is judged on."""
        if self.holdout == "test":
            return len(self._holdout().targets)
        return int((self.tested() == number).sum())

    def all(self) -> Rows:
        """Return the sampled training rows in their order: any first of them has the classes' shares of the whole."""
        return Rows(*resident((*self.key, "all"), self._ordered))

    def tested(self) -> NDArray[np.int64]:
        """Return the part in which each row is tested, -1 for none; the same share of every class."""
        targets = self.all().targets
        parts = np.full(len(targets), -1)
        if self.holdout == "test":
            return parts
        first = 0
        for value in np.unique(targets):
            places = np.flatnonzero(targets == value)
            ranks = np.arange(len(places))
            if self.holdout is None:
                # where one class stops dealing the next begins, so that folds are of one size
                parts[places] = (ranks + first) % self.folds
                first += len(places)
            else:
                count = min(max(1, round(self.holdout * len(places))), len(places) - 1)
                parts[places[ranks * count // len(places) != (ranks - 1) * count // len(places)]] = 0
        return parts

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Return what tells its rows from others in a process's cache; kept, as every piece of work asks for it."""
        mapped = None if self.feature_map is None else map_digest(self.feature_map)
        told = self.data.read_sha256, self.rows, self.seed, self.precision
        return ("compare", *told, self.folds, self.holdout, mapped)

    def _ordered(self) -> tuple[FloatArray, NDArray[np.float64]]:
        rows = sample_rows(self.data, "train", self.rows, self.seed, self.precision)
        random = np.random.default_rng((self.seed, 0xC0))
        key = np.empty(len(rows.targets))
        for value in np.unique(rows.targets):
            places = np.flatnonzero(rows.targets == value)
            key[places] = (random.permutation(len(places)) + random.random(len(places))) / len(places)
        order = np.argsort(key, kind="stable")
        return rows.inputs[order], rows.targets[order]

    def _holdout(self) -> Rows:
        return resident(
            (*self.key, "test"), lambda: sample_rows(self.data, "test", self.rows, self.seed, self.precision)
        )

    def _part(self, number: int) -> SamplePart:
        rows, tested = self.all(), self.tested()
        learnt = tested != number
        held = self._holdout() if self.holdout == "test" else Rows(rows.inputs[~learnt], rows.targets[~learnt])
        inputs = rows.inputs[learnt]
        return SamplePart(
            inputs, self.mapped(inputs), rows.targets[learnt], held.inputs, self.mapped(held.inputs), held.targets
        )

    def mapped(self, inputs: FloatArray) -> FloatArray:
        """Return inputs as the nine models take them."""
        return inputs if self.feature_map is None else transform_rows(self.feature_map, inputs)


def map_digest(feature_map: FeatureMap) -> str:
    """Digest of all that makes a map, hexadecimal: its kind, kernel and sizes, and every number of its arrays."""
    digest = hashlib.sha256(json.dumps(feature_map.describe(), sort_keys=True).encode())
    for name, array in sorted(feature_map.arrays().items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# What came of one value in one part: how many rows were named rightly, by either bias, and what proves the fit.

Bias = Literal["own", "none", "error-minimising"]
Signs = list[NDArray[np.float64]]


@dataclass(frozen=True)
class Trial:
    """A fit and its judgement on rows that it has not seen.

    right : for each bias, which test rows were named rightly, packed into bytes; n_rows : how many there are
    value : of the parameter, None for online solvers and for several classes, each of which has its own
    relative_gap : certified, None for online solvers; iterations; seconds : of the fit
    failure : why there is nothing, else ""
    """

    right: dict[str, bytes]
    n_rows: int
    value: float | None = None
    relative_gap: float | None = None
    iterations: int = 0
    seconds: float = 0.0
    failure: str = ""

    def rightly(self, bias: str) -> NDArray[np.bool_]:
        """Return which rows were named rightly, (n_rows,)."""
        packed = np.frombuffer(self.right[bias], dtype=np.uint8)
        return np.unpackbits(packed, count=self.n_rows).astype(bool)

    def accuracy(self, bias: str) -> float:
        """Return the share of rows named rightly."""
        return float(self.rightly(bias).mean())


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Weights (n_columns,) of each class against the rest, and the bias of each kind for each class; <w, x> - bias."""

    weights: list[FloatArray]
    biases: dict[str, list[float]]


def signs_of_classes(targets: NDArray[np.float64], n_classes: int) -> Signs:
    """Return signs (rows,) of each class against the rest; of two classes one array, the targets themselves."""
    if n_classes == 2:
        return [np.asarray(targets, dtype=np.float64)]
    return [np.where(targets == index, 1.0, -1.0) for index in range(n_classes)]


def raw_scores(features: FloatArray, weights: FloatArray) -> NDArray[np.float64]:
    """Return <w, x> of every row, summed in float64."""
    scores = np.empty(len(features))
    multiply_rows(scores, features, np.ones(len(features)), weights)
    return scores


def with_biases(
    weights: list[FloatArray], own: list[float], has_own: bool, features: FloatArray, signs: Signs
) -> ModelScores:
    """Return weights with both biases.

    The model's own (or none), and the one of fewest errors on these training rows.
    """
    minimising = [
        error_minimising_bias(raw_scores(features, some), sign) for some, sign in zip(weights, signs, strict=True)
    ]
    return ModelScores(weights, {"own" if has_own else "none": own, "error-minimising": minimising})


def judged(fitted: ModelScores, features: FloatArray, targets: NDArray[np.float64]) -> dict[str, bytes]:
    """Return the rows that are classified correctly for each bias, packed."""
    raw = [raw_scores(features, weights) for weights in fitted.weights]
    return {
        name: packed_right([some - bias for some, bias in zip(raw, biases, strict=True)], targets)
        for name, biases in fitted.biases.items()
    }


def packed_right(scores: Sequence[FloatArray], targets: NDArray[np.float64]) -> bytes:
    """Return which rows are named rightly by scores of each class (rows,), one array for two classes; 0 is the second
    one.
    """
    if len(scores) == 1:
        right = (scores[0] >= 0.0) == (targets > 0.0)
    else:
        right = np.argmax(np.column_stack(scores), axis=1) == targets
    return np.packbits(right).tobytes()


# Values of each model's parameter: over its valid range, in units of the data, the easiest problem first.

COST = (1e-2, 300.0)  # C, for rows of length 1
SPARSE_COST = (2.0, 2e3)  # C, in units of the least one that leaves a weight
MARGIN = (1.0, 0.01)  # of DWD, where 1 / z gives way to its tangent, for rows of length 1
LEAST_SHARE = 0.03  # of the range of nu
GRID_SAMPLE_ROWS = 4000  # of the planes that tell where the range of nu begins
PLANES = 4
ROUGHLY = Fapg(tolerance=1e-2, max_iterations=200)

Kind = Literal["value", "share", "margin"]


@dataclass(frozen=True)
class ComparedGrid:
    """Places of one parameter, in the order in which a path takes them: from much regularisation to little.

    Parameters
    ----------
    model : name; places : in the unit of the kind
    kind : "value": C itself; "share": of the open valid range, of each class against the rest; "margin": sqrt(m nu)
    ranges : (low, high) of each class against the rest; one for two classes
    """

    model: str
    places: tuple[float, ...]
    kind: Kind
    ranges: tuple[tuple[float, float], ...] = ((0.0, math.inf),)

    @property
    def parameter(self) -> str:
        """Return C, nu or kappa."""
        return parameter_of(self.model)

    def high(self, rows: DenseRows) -> float:
        """Return where the range of these rows ends, if it ends by their labels: nu_max; else infinite."""
        return _nu_max(rows.signs) if self.model == "nu-svm" else math.inf

    def value(self, place: float, class_index: int = 0, n_rows: int = 1, high: float = math.inf) -> float:
        """Return the parameter at a place, for rows whose own range ends at `high`."""
        if self.kind == "value":
            return place
        if self.kind == "margin":
            return place**2 / n_rows
        low, end = self.ranges[class_index]
        return min(low + place * (min(end, high) - low), high)


def make_grid(model: str, features: FloatArray, signs: Sequence[FloatArray], n: int) -> ComparedGrid:
    """Return the grid of a model.

    Parameters
    ----------
    model : name; n : places
    features : (rows, n_columns), a sample of rows; signs : -1 or +1 a row, for each class against the rest
    """
    rows = DenseRows(features, signs[0])
    length = math.sqrt(max(float(rows.squared_lengths().mean()), float(np.finfo(np.float32).tiny)))
    if model == "dwd":
        return ComparedGrid(model, _spread(MARGIN, n, length), "margin")
    if parameter_of(model) == "kappa":
        # dense towards the end, where MM-FDA becomes Fisher's discriminant
        return ComparedGrid(model, tuple((1.0 - (1.0 - np.arange(1, n + 1) / (n + 1)) ** 2).tolist()), "share")
    if parameter_of(model) == "nu":
        return ComparedGrid(model, _spread((1.0, LEAST_SHARE), n), "share", _ranges_of_nu(features, signs))
    if model.startswith("l1-"):
        least = min(_least_cost(model, DenseRows(features, sign)) for sign in signs)
        return ComparedGrid(model, _spread(SPARSE_COST, n, least), "value")
    return ComparedGrid(model, _spread(COST, n, 1.0 / length**2), "value")


def on_rows(grid: ComparedGrid, features: FloatArray, signs: Sequence[FloatArray]) -> ComparedGrid:
    """Return the same places in the ranges of other rows.

    A nu above nu_min for a sample may lie below that of all rows.

    features, signs : as of make_grid
    """
    return replace(grid, ranges=_ranges_of_nu(features, signs)) if grid.model == "nu-svm" else grid


def _ranges_of_nu(features: FloatArray, signs: Sequence[FloatArray]) -> tuple[tuple[float, float], ...]:
    return tuple((least_known_nu(features, sign), _nu_max(sign)) for sign in signs)


def least_known_nu(features: FloatArray, signs: FloatArray) -> float:
    """Return a nu just above nu_min, the least mean hinge loss of all planes: that of the best of a few C-SVMs.

    The linear program that gives nu_min itself takes minutes where this takes a second; any plane's loss is a bound.

    features : (rows, n_columns); signs : (rows,); the planes are those of rows evenly spread, the losses of all
    """
    spread = np.linspace(0, len(signs) - 1, min(len(signs), GRID_SAMPLE_ROWS)).astype(np.int64)
    few = DenseRows(features[spread], signs[spread])
    length = math.sqrt(max(float(few.squared_lengths().mean()), float(np.finfo(np.float32).tiny)))
    points = path("c-svm", few, _spread(COST, PLANES, 1.0 / length**2), ROUGHLY)
    losses = []
    for point in points:
        margins = signs * (raw_scores(features, point.solution.weights) - point.solution.bias)
        losses.append(float(np.maximum(0.0, 1.0 - margins).mean()))
    return min(*losses, _nu_max(signs))


def _nu_max(signs: FloatArray) -> float:
    return nu_max(signs, np.ones(len(signs)))


def _least_cost(model: str, rows: DenseRows) -> float:
    """Return the C up to which all weights of a model with an l1 penalty are 0.

    Source: Yuan, Chang, Hsieh & Lin, JMLR 11, 2010, section 2.
    """
    problem = make_model(model, C=1.0).problem(rows)
    steepness = np.empty(rows.n_image)
    problem.pull(steepness, np.zeros(rows.n_points))
    return 1.0 / max(float(np.abs(steepness).max()), float(np.finfo(np.float32).tiny))


def _spread(ends: tuple[float, float], n: int, unit: float = 1.0) -> tuple[float, ...]:
    """Return n values from one end to the other with a constant ratio; the middle one if n is 1."""
    first, last = unit * ends[0], unit * ends[1]
    return tuple(np.geomspace(first, last, n).tolist()) if n > 1 else (math.sqrt(first * last),)


# Minimax models along their grid: all they know of rows are moments, added up once for all folds and all values.

BLOCK_ROWS = 4096


def minimax_path(
    model: str,
    sample: Sample,
    part: int,
    class_index: int,
    n_classes: int,
    shares: Sequence[float],
    method: Fapg,
) -> list[PathPoint]:
    """Solve for shares of the valid range (0, kappa_max) of a part's training rows, each warm-started.

    class_index : of the class against the rest, 0 for two classes
    """
    moments = merged_moments(sample, part, class_index, n_classes)
    return path_of_moments(model, moments, shares, method)


def path_of_moments(model: str, moments: ClassMoments, shares: Sequence[float], method: Fapg) -> list[PathPoint]:
    """Return the same of moments."""
    largest = kappa_max(model, moments)
    problem: MinimaxProblem | None = None
    points: list[PathPoint] = []
    found: Fitted | None = None
    for share in shares:
        begun = time.perf_counter()
        kappa = kappa_at(share, largest, moments)
        if problem is None:
            made: Any = make_model(model, kappa=kappa)
            problem = made.problem_of(moments)
        problem = replace(problem, kappa=kappa)
        found = solve_problem(problem, method, None if found is None else found.point)
        points.append(PathPoint(kappa, found, time.perf_counter() - begun, found.iterations))
    return points


def kappa_max(model: str, moments: ClassMoments) -> float:
    """Return the open end of the valid range of a minimax model."""
    return fda_kappa_max(moments) if model == "mm-fda" else mpm_kappa_max(moments)


def kappa_at(share: float, largest: float, moments: ClassMoments) -> float:
    """Return the kappa at a share of (0, kappa_max).

    Where the means differ in a direction without spread there is no end: the unit is then the distance of the means in
    standard deviations along it, and shares go on to infinity.
    """
    if math.isfinite(largest):
        return share * largest
    apart = moments.difference
    spread = math.sqrt(float(apart @ (moments.positive.covariance + moments.negative.covariance) @ apart))
    unit = float(apart @ apart) / spread if spread > 0.0 else 1.0
    return unit * share / (1.0 - share)


def merged_moments(sample: Sample, part: int, class_index: int, n_classes: int) -> ClassMoments:
    """Return moments of a part's training rows.

    Those of all other folds together, each added up once in this process.
    """
    if sample.holdout is not None:
        learnt = sample.part(part)
        return _class_moments(learnt.features, signs_of_classes(learnt.targets, n_classes)[class_index])
    folds = [number for number in range(sample.n_parts) if number != part]
    found = [_fold_moments(sample, number, class_index, n_classes) for number in folds]
    positive, negative = found[0]
    for more in found[1:]:
        positive, negative = positive.merged(more[0]), negative.merged(more[1])
    return ClassMoments(positive, negative)


def _fold_moments(sample: Sample, number: int, class_index: int, n_classes: int) -> tuple[Moments, Moments]:
    def load() -> tuple[Any, ...]:
        held = sample.part(number)
        sign = signs_of_classes(held.test_targets, n_classes)[class_index]
        return tuple(_arrays(_moments(held.test_features, sign, value)) for value in (1.0, -1.0))

    positive, negative = resident((*sample.key, "moments", number, class_index), load)
    return _from_arrays(positive), _from_arrays(negative)


def _class_moments(features: Any, signs: Any) -> ClassMoments:
    return ClassMoments(_moments(features, signs, 1.0), _moments(features, signs, -1.0))


def _moments(features: Any, signs: Any, value: float) -> Moments:
    total = moments_of(features[:0])
    for first in range(0, len(features), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        total = total.merged(moments_of(features[block][signs[block] == value]))
    return total


def _arrays(moments: Moments) -> tuple[Any, ...]:
    """Return the arrays, whose bytes the cache counts."""
    return np.array([moments.count], dtype=np.float64), moments.mean, moments.scatter


def _from_arrays(arrays: tuple[Any, ...]) -> Moments:
    count, mean, scatter = arrays
    return Moments(float(count[0]), mean, scatter)


# One item of the search: a model along its grid on a part of the rows, each solution the start of the next.


@dataclass(frozen=True)
class PathItem:
    """Fit and judge some places of a grid.

    part : number of it; n_rows : the first of its training rows, which are learnt
    grid : of the model; chosen : indices of its places, rising
    method : of every fit; n_classes
    """

    part: int
    n_rows: int
    grid: ComparedGrid
    chosen: tuple[int, ...]
    method: Fapg
    n_classes: int

    @property
    def entrant(self) -> str:
        """Return the model's name."""
        return self.grid.model

    @property
    def cost(self) -> int:
        """Return rows times places."""
        return self.n_rows * len(self.chosen)

    def run(self, sample: Sample) -> list[Trial]:
        """Return a trial for each of the places."""
        part = sample.part(self.part)
        features, targets = part.features[: self.n_rows], part.targets[: self.n_rows]
        signs = signs_of_classes(targets, self.n_classes)
        paths = [self._path(sample, DenseRows(features, sign), index) for index, sign in enumerate(signs)]
        trials = []
        for points in zip(*paths, strict=True):
            solutions = [point.solution for point in points]
            weights, own = [found.weights for found in solutions], [found.bias for found in solutions]
            fitted = with_biases(weights, own, has_own_bias(self.entrant), features, signs)
            trials.append(
                Trial(
                    judged(fitted, part.test_features, part.test_targets),
                    len(part.test_targets),
                    points[0].parameter if len(points) == 1 else None,
                    max(found.certificate.relative_gap for found in solutions),
                    sum(point.iterations for point in points),
                    sum(point.seconds for point in points),
                )
            )
        return trials

    def _path(self, sample: Sample, rows: DenseRows, class_index: int) -> list[PathPoint]:
        places = [self.grid.places[index] for index in self.chosen]
        if self.grid.parameter == "kappa":
            return minimax_path(self.entrant, sample, self.part, class_index, self.n_classes, places, self.method)
        high = self.grid.high(rows)
        values = [self.grid.value(place, class_index, rows.n_points, high) for place in places]
        return path(self.entrant, rows, values, self.method)


# One item of the search: an online solver learns the training rows of a part once, as `okl train` would.


@dataclass(frozen=True)
class OnlineItem:
    """Learn and be judged.

    settings : of the solver; part : number of it; n_rows : training rows
    """

    settings: TrainSettings
    part: int
    n_rows: int

    @property
    def entrant(self) -> str:
        """Return the solver's name."""
        return self.settings.solver

    @property
    def cost(self) -> int:
        """Return rows."""
        return self.n_rows

    @property
    def chosen(self) -> tuple[int, ...]:
        """Return the one place of a grid of one."""
        return (0,)

    def run(self, sample: Sample) -> list[Trial]:
        """Return one trial; a failure where the solver diverged."""
        part, schema = sample.part(self.part), sample.data.schema
        rows = Rows(part.inputs[: self.n_rows], part.targets[: self.n_rows])
        begun = time.perf_counter()
        try:
            predictor = learn(self.settings, schema, rows)
        except DivergedError as error:
            return [Trial({}, len(part.test_targets), failure=str(error))]
        seconds = time.perf_counter() - begun
        scores = predictor.scores(part.test_inputs)
        columns = [scores] if scores.ndim == 1 else list(scores.T)
        return [Trial({"own": packed_right(columns, part.test_targets)}, len(part.test_targets), seconds=seconds)]


def learn(settings: TrainSettings, schema: Schema, rows: Rows) -> Predictor:
    """Settle the solver on the first of the rows, and learn all of them in their order, which is mixed already."""
    few = Rows(rows.inputs[:SAMPLE_ROWS], rows.targets[:SAMPLE_ROWS])
    situation = BuildContext(schema, few, len(rows.targets), 1, "stream", settings.seed, settings.precision)
    learner = make_recipe(settings, schema).settle(situation).learner
    return learner.predictor(learner.learn(learner.start(), rows))


# Whether one model is better than another: tests of pairs, over folds or over the rows of a holdout.

CORRECTED = "corrected resampled t-test (Nadeau & Bengio, 2003)"
MCNEMAR = "exact McNemar test"


def corrected_resampled_t(differences: Sequence[float], test_share: float) -> float:
    """Return the two-sided p-value of a mean difference over folds whose training rows overlap.

    t = mean / sqrt((1 / k + test_share) variance), with k - 1 degrees of freedom, k folds.

    Parameters
    ----------
    differences : of a measure, one a fold, at least two
    test_share : test rows over training rows of a fold, 1 / (k - 1) for k folds

    Source: Nadeau & Bengio, Machine Learning 52, 2003, section 3, the corrected resampled t-test; the folds of one
    cross validation take the place of random splits, as in Bouckaert & Frank, PAKDD 2004.

    >>> round(corrected_resampled_t([0.02, 0.03, 0.01, 0.02, 0.02], 0.25), 4)
    0.0135
    """
    k, mean, spread = len(differences), fmean(differences), variance(differences)
    if spread <= 1e-30:  # all folds alike: rounding is no spread
        return 1.0 if abs(mean) <= 1e-15 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / math.sqrt((1.0 / k + test_share) * spread), k - 1))


def exact_mcnemar(right: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Return the two-sided p-value of two classifiers being right equally often on the same rows, (rows,) each.

    Of the rows that just one of them names rightly, each of them names half: a binomial test.

    Source: McNemar, Psychometrika 12, 1947; exact as in Dietterich, Neural Computation 10, 1998, section 3.1.
    """
    mine, theirs = int((right & ~other).sum()), int((other & ~right).sum())
    return 1.0 if mine + theirs == 0 else float(stats.binomtest(mine, mine + theirs).pvalue)


# The search: all values on a share of the rows, the better half of them on twice as many, until all rows are in.

LEAST_ROWS = 1000  # of the first rung
ROUGH = 10.0  # times the tolerance, before the last rung: ranks of values need no more
SINGLE = ComparedGrid("", (0.0,), "value")


class ComparedItem(Protocol):
    """A frozen, picklable piece of work: one entrant, one part, some places of its grid."""

    @property
    def entrant(self) -> str: ...

    @property
    def part(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def chosen(self) -> tuple[int, ...]: ...

    @property
    def cost(self) -> int: ...

    def run(self, sample: Sample) -> list[Trial]: ...


@dataclass(frozen=True)
class CompareWork:
    """Runs items wherever it is called."""

    sample: Sample

    def __call__(self, item: ComparedItem) -> list[Trial]:
        """Return the trials of an item."""
        return item.run(self.sample)


@dataclass(eq=False)
class Entrant:
    """An entrant on its way through the rungs.

    grid : its places, one for a solver without any; alive : indices of places that are still tried
    trials : by place, those of all parts on the most rows it was tried on; tried_rows : how many of the smallest part
    seconds : of all fits
    """

    name: str
    grid: ComparedGrid
    alive: tuple[int, ...]
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    tried_rows: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def biases(self) -> tuple[str, ...]:
        """Return the kinds of bias that are tested."""
        return next((tuple(t.right) for trials in self.trials.values() for t in trials if t.right), ())

    @property
    def failure(self) -> str:
        """Why it has no result, else ""."""
        return next((trial.failure for index in self.alive for trial in self.trials[index] if trial.failure), "")

    def mean(self, place: int, bias: str) -> float:
        """Return the mean accuracy over the parts; minus infinity where a part failed."""
        trials = self.trials[place]
        if any(trial.failure for trial in trials):
            return -math.inf
        # rounded: equal counts in another order are equal
        return round(fmean(trial.accuracy(bias) for trial in trials), 12)

    def best_mean(self, place: int) -> float:
        """Return the best mean of the better bias."""
        return max((self.mean(place, bias) for bias in self.biases), default=-math.inf)

    def halve(self) -> None:
        """Keep the better half of the places; of equals the first, which is the one of more regularisation."""
        ranked = sorted(self.alive, key=lambda place: (-self.best_mean(place), place))
        self.alive = tuple(sorted(ranked[: -(-len(ranked) // 2)]))

    def choice(self) -> tuple[int, str]:
        """Return the place and the kind of bias of the best mean; of equals the first, and the model's own bias."""
        pairs = [(place, bias) for place in self.alive for bias in self.biases]
        return max(pairs, key=lambda pair: self.mean(*pair))


def rungs(train_rows: int, grid: int, halving: bool) -> tuple[int, ...]:
    """Return the training rows of each rung, the last one all of them; one rung where rows or values are few.

    >>> rungs(8000, 10, True), rungs(8000, 10, False), rungs(900, 10, True)
    ((1000, 2000, 4000, 8000), (8000,), (900,))
    """
    doublings = int(math.log2(max(1.0, train_rows / LEAST_ROWS))) if halving else 0
    doublings = min(doublings, math.ceil(math.log2(grid)))
    return tuple(-(-train_rows // 2**k) for k in range(doublings, -1, -1))


@dataclass(frozen=True)
class ModelSearch:
    """Who is tried on what.

    grids : of the nine models that take part, by name; names : of all entrants, in their order
    """

    settings: CompareSettings
    sample: Sample
    names: tuple[str, ...]
    grids: dict[str, ComparedGrid]
    n_classes: int

    def entrants(self) -> list[Entrant]:
        """Return all of them before the first rung."""
        grids = [self.grids.get(name, SINGLE) for name in self.names]
        return [
            Entrant(name, grid, tuple(range(len(grid.places)))) for name, grid in zip(self.names, grids, strict=True)
        ]

    def steps(self) -> tuple[int, ...]:
        """Return rows of the rungs."""
        return rungs(self.sample.train_rows(), self.settings.grid, self.settings.halving)

    def run(self, execution: Execution, tell: Callable[[int, int, dict[str, float]], None]) -> list[Entrant]:
        """Return all rungs; the outcome depends on no order of finishing.

        tell : is told rows learnt, rows to learn over all fits, and the best accuracy so far
        """
        found = self.entrants()
        by_name = {entrant.name: entrant for entrant in found}
        total, done = self.total(), 0
        tell(done, total, {})
        for step, n_rows in enumerate(self.steps()):
            items = self._items(found, step)
            for item, trials in self._map(items, execution):
                _note(by_name[item.entrant], item, trials)
                done += item.cost
                tell(done, total, {})
            if n_rows != self.steps()[-1]:
                for entrant in found:
                    if entrant.trials:
                        entrant.halve()
            tell(done, total, {"best_accuracy": _best(found)})
        return found

    def total(self) -> int:
        """Return rows to learn, over all fits."""
        found = 0
        entrants = self.entrants()
        for step in range(len(self.steps())):
            found += sum(item.cost for item in self._items(entrants, step))
            for entrant in entrants:
                if self._climbs(entrant.name):
                    entrant.alive = entrant.alive[: -(-len(entrant.alive) // 2)]
        return found

    def _climbs(self, name: str) -> bool:
        """Return whether it starts on few rows: not a minimax model, whose fits cost the same, nor an online solver."""
        return name in self.grids and self.grids[name].parameter != "kappa"

    def _items(self, found: Sequence[Entrant], step: int) -> list[ComparedItem]:
        steps = self.steps()
        last = step == len(steps) - 1
        items: list[ComparedItem] = []
        for entrant in found:
            if not last and not self._climbs(entrant.name):
                continue
            for part in range(self.sample.n_parts):
                if is_certified(entrant.name):
                    method = self._method(last)
                    items.append(PathItem(part, steps[step], entrant.grid, entrant.alive, method, self.n_classes))
                else:
                    items.append(OnlineItem(train_settings(self.settings, entrant.name), part, steps[step]))
        return items

    def _method(self, last: bool) -> Fapg:
        settings = self.settings
        exact = Fapg(tolerance=settings.tolerance, max_iterations=settings.iterations)
        return exact if last else replace(exact, tolerance=min(ROUGH * settings.tolerance, 0.1))

    def _map(self, items: list[ComparedItem], execution: Execution) -> Iterator[tuple[ComparedItem, list[Trial]]]:
        return zip(items, execution.map(CompareWork(self.sample), items), strict=True)


def _note(entrant: Entrant, item: ComparedItem, trials: list[Trial]) -> None:
    for place, trial in zip(item.chosen, trials, strict=True):
        if item.part == 0:
            entrant.trials[place] = []
            entrant.tried_rows[place] = item.n_rows
        entrant.trials[place].append(trial)
        entrant.seconds += trial.seconds


def _best(found: Sequence[Entrant]) -> float:
    scored = [entrant.best_mean(place) for entrant in found for place in entrant.trials]
    return max((value for value in scored if math.isfinite(value)), default=0.0)


# The table of a comparison: a row for each entrant, with its spread, its proof, and whether the best one is better.

BIASES = ("own", "none", "error-minimising")


def winner_of(entrants: Sequence[Entrant]) -> Entrant | None:
    """Return the entrant of the best mean accuracy; of equals the first; None if all failed."""
    measured = [entrant for entrant in entrants if not entrant.failure]
    return max(measured, key=lambda entrant: entrant.mean(*entrant.choice()), default=None)


def table_of(entrants: Sequence[Entrant], test_share: float) -> list[dict[str, Any]]:
    """Return a row for each entrant, the best first, those that failed last.

    test_share : test rows over training rows of a fold
    """
    best = winner_of(entrants)
    rows = [_row(entrant, best, test_share) for entrant in entrants]
    return sorted(rows, key=lambda row: (row["mean"] is None, -(row["mean"] or 0.0)))


def test_name(n_parts: int) -> str:
    """Return the name of the paired test against the best."""
    return CORRECTED if n_parts > 1 else MCNEMAR


def _row(entrant: Entrant, best: Entrant | None, test_share: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": entrant.name,
        "kind": "certified" if is_certified(entrant.name) else "online",
        "status": "failed" if entrant.failure else "measured",
        "note": entrant.failure,
        "parameter": entrant.grid.parameter if is_certified(entrant.name) else None,
        "seconds": entrant.seconds,
        "best": entrant is best,
        "mean": None,
        "path": _path(entrant),
    }
    if entrant.failure or best is None:
        return row
    place, bias = entrant.choice()
    trials = entrant.trials[place]
    own = accuracies(trials, bias)
    by_bias = {name: _of_bias(entrant, name) for name in BIASES if name in entrant.biases}
    return row | {
        "mean": entrant.mean(place, bias),
        "spread": spread(own),
        "accuracies": own,
        "bias": bias,
        "biases": by_bias,
        "place": entrant.grid.places[place] if is_certified(entrant.name) else None,
        "value": mean_value(trials),
        "tried": len(entrant.grid.places),
        "relative_gap": _largest([trial.relative_gap for trial in trials]),
        "iterations": max(trial.iterations for trial in trials),
        "difference": entrant.mean(place, bias) - best.mean(*best.choice()),
        "p_value": 1.0 if entrant is best else _p_value(trials, bias, best, test_share),
    }


def accuracies(trials: Sequence[Trial], bias: str) -> list[float]:
    """Return the accuracy in each part."""
    return [trial.accuracy(bias) for trial in trials]


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation, with n - 1 in the denominator; None of one value."""
    return stdev(values) if len(values) > 1 else None


def mean_value(trials: Sequence[Trial]) -> float | None:
    """Return the parameter, on average over the parts: their valid ranges differ a little."""
    values = [trial.value for trial in trials if trial.value is not None]
    return fmean(values) if values else None


def _of_bias(entrant: Entrant, bias: str) -> dict[str, float | None]:
    """Return the mean and spread of the best place of one kind of bias."""
    place = max(entrant.alive, key=lambda some: entrant.mean(some, bias))
    found = accuracies(entrant.trials[place], bias)
    return {"mean": fmean(found), "spread": spread(found), "value": mean_value(entrant.trials[place])}


def _path(entrant: Entrant) -> list[dict[str, Any]]:
    """Return the accuracy by the better bias at each place, on the most rows it was tried on."""
    found = []
    for place in sorted(entrant.trials):
        trials = entrant.trials[place]
        if any(trial.failure for trial in trials) or not is_certified(entrant.name):
            continue
        bias = max(entrant.biases, key=lambda name: entrant.mean(place, name))
        found.append(
            {
                "place": entrant.grid.places[place],
                "value": mean_value(trials),
                "rows": entrant.tried_rows[place],
                "mean": entrant.mean(place, bias),
                "relative_gap": _largest([trial.relative_gap for trial in trials]),
            }
        )
    return found


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _p_value(trials: Sequence[Trial], bias: str, best: Entrant, test_share: float) -> float:
    place, best_bias = best.choice()
    theirs = best.trials[place]
    if len(trials) == 1:
        return exact_mcnemar(_rightly(theirs, best_bias), _rightly(trials, bias))
    pairs = zip(accuracies(theirs, best_bias), accuracies(trials, bias), strict=True)
    return corrected_resampled_t([one - other for one, other in pairs], test_share)


def _rightly(trials: Sequence[Trial], bias: str) -> NDArray[np.bool_]:
    return np.concatenate([trial.rightly(bias) for trial in trials])


# Where a comparison is kept.


def folder_of(settings: CompareSettings) -> Place:
    """Return where the run is kept: `out`, or a new folder in okl's home folder."""
    if settings.out is not None:
        return place_of(settings.out).absolute()
    name = settings.name or name_after(settings.data)
    return okl_home() / "runs" / f"compare-{name}-{datetime.now():%Y%m%d-%H%M%S-%f}-{os.getpid()}"


# The data of a comparison: a data set, or a source that is ingested into the run's folder.


def check_data(settings: CompareSettings) -> None:
    """Refuse what can be known to be wrong before a row is read.

    Of a source that is less than of a data set; `open_data` looks at the rest once it is ingested.

    Raises
    ------
    DataError : no such data, or no such columns; ConfigError : settings that do not suit them
    """
    if not is_dataset(settings.data):
        check_source(settings.data, settings.ingest or IngestSettings())
        return
    check_not_ingested(settings.data, settings.ingest)
    _check_suited(settings, open_dataset(settings.data))


def open_data(
    settings: CompareSettings, here: Path, progress: Callable[[int, int | None], None], execution: Execution
) -> Dataset:
    """Open the data set, or make one of the source, on the workers if there are any.

    here : folder to be, of a data set that is made; raises as `check_data` and `ingest` do
    """
    if is_dataset(settings.data):
        return open_dataset(settings.data)
    asked = settings.ingest or IngestSettings()
    made = ingest(settings.data, here, asked, progress=progress, execution=execution).dataset
    _check_suited(settings, replace(made, folder=place_of(settings.data)))  # errors name what was given
    return made


def _check_suited(settings: CompareSettings, data: Dataset) -> None:
    check_entrants(settings, data)


# What a run of `okl compare` needs beside its stages: its folder, workers, the result and the report.


@dataclass(eq=False)
class RecordedRun(ABC):
    """One run: call its stages in order, the last is `report`; then `close`, whatever happened, removes leftovers."""

    settings: CompareSettings
    observer: Observer = field(default_factory=NullObserver)

    def __post_init__(self) -> None:
        self._place = run_place(folder_of(self.settings))
        self._begun = time.perf_counter()
        self._running = RunExecution(lambda: open_for(self.settings))
        self._result: dict[str, Any] = {}

    @abstractmethod
    def summary(self) -> str:
        """Return the plain summary for a terminal."""

    @abstractmethod
    def _page(self) -> Page:
        """Return what the report says."""

    @abstractmethod
    def _collect(self) -> dict[str, Any]:
        """Return the result, from what the stages have found."""

    def report(self) -> dict[str, Any]:
        """Write result.json and report.html, and give the run's folder its name: from here on it is complete."""
        self._result = self._collect()
        beside = self._place.beside
        (beside / "report.html").write_text(html_page(self._page()), encoding="utf-8")
        (beside / "result.json").write_text(json.dumps(self._result, indent=1, allow_nan=False))
        self._place.complete()
        return {"run": str(self._place.folder)}

    def close(self) -> None:
        """Free workers, and remove everything of a run that did not complete."""
        try:
            self._running.close()
        finally:
            self._place.close()

    def result(self) -> dict[str, Any]:
        """Return the object that `okl compare --json` prints."""
        return self._result

    def report_markdown(self) -> str:
        """Return the report with its pictures inline."""
        return markdown_page(self._page())

    def _open_data(self) -> Dataset:
        """Return the data set, or one made of the source in the run's folder."""

        def progress(done: int, total: int | None) -> None:
            self.observer.advance(done, total or 0, {})

        return open_data(self.settings, self._place.beside / "data", progress, self._running())

    def _data_folder(self) -> Place:
        """Return where the data are to be found once the run is complete."""
        data = self.settings.data
        return place_of(data).absolute() if is_dataset(data) else self._place.folder / "data"


# The winner, learnt again from all training rows, or from as many as fit the memory asked for.

MORE_ITERATIONS, EXACTER = 4, 0.1
WAY = (0.25, 0.5, 0.75, 1.0)  # of the grid, up to the chosen place
DUAL_BYTES = 128  # a row: the vectors of the method, float64
Tell = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True, eq=False)
class Winner:
    """What was learnt again.

    predictor; rows : that it was learnt from; chosen : the solver's own choices
    values : of the parameter, for each class against the rest; certificate : as JSON, None for online solvers
    """

    predictor: Predictor
    rows: int
    values: tuple[float, ...] = ()
    certificate: dict[str, Any] | None = None
    chosen: dict[str, Any] | None = None


def fit_winner(
    settings: CompareSettings,
    data: Dataset,
    name: str,
    grid: ComparedGrid,
    place: float,
    bias: str,
    feature_map: FeatureMap | None,
    execution: Execution,
    tell: Tell,
) -> Winner:
    """Learn again with what was chosen.

    Parameters
    ----------
    name : of the entrant; grid, place, bias : what was chosen for one of the nine
    feature_map : of the nine, None: the inputs
    tell : is told rows done, rows in all, and figures
    """
    if not is_certified(name):
        return _learn_online(settings, data, name, execution, tell)
    rows = sample_rows(data, "train", rows_that_fit(settings, data, feature_map), settings.seed, settings.precision)
    features = rows.inputs if feature_map is None else transform_rows(feature_map, rows.inputs, execution.n_threads)
    signs = signs_of_classes(rows.targets, max(2, len(data.schema.labels)))
    grid = on_rows(grid, features, signs)
    method = Fapg(tolerance=EXACTER * settings.tolerance, max_iterations=MORE_ITERATIONS * settings.iterations)
    values: list[float] = []
    fits: list[Fitted] = []
    for index, sign in enumerate(signs):
        tell(index * len(features), len(signs) * len(features), {})
        value, found = _fit(DenseRows(features, sign, execution.n_threads), grid, place, index, method)
        values.append(value)
        fits.append(found)
    weights, own = [found.weights for found in fits], [found.bias for found in fits]
    biases = with_biases(weights, own, has_own_bias(name), features, signs).biases[bias]
    predictor = affine_predictor(feature_map, np.array(weights), np.array(biases), settings)
    return Winner(predictor, len(features), tuple(values), certificate_of(fits))


def rows_that_fit(settings: CompareSettings, data: Dataset, feature_map: FeatureMap | None) -> int:
    """Return training rows of a data set that fit the memory limit, with mapped rows and vectors of the method."""
    columns = data.schema.n_features + (0 if feature_map is None else feature_map.n_columns)
    size = np.dtype(settings.precision).itemsize
    most = int(settings.memory * 2**30 / (columns * size + DUAL_BYTES))
    return max(2, min(data.rows("train"), most))


def certificate_of(fits: list[Fitted]) -> dict[str, Any]:
    """Return the proof as JSON.

    Of several classes gaps and objectives are added up, the relative gap is the largest.
    """
    certificates = [found.certificate for found in fits]
    return {
        "kind": "duality gap",
        "gap": sum(one.gap for one in certificates),
        "relative_gap": max(one.relative_gap for one in certificates),
        "objective": sum(one.primal for one in certificates),
        "dual_objective": sum(one.dual for one in certificates),
        "iterations": sum(found.iterations for found in fits),
        "outcome": "; ".join(dict.fromkeys(found.outcome.reason for found in fits)),
    }


def affine_predictor(
    feature_map: FeatureMap | None, weights: FloatArray, biases: FloatArray, settings: CompareSettings
) -> LinearPredictor:
    """Return scores <w, x> - bias; weights (n_outputs, n_columns), biases (n_outputs,)."""
    precision = settings.precision
    if feature_map is not None:
        return LinearPredictor(feature_map, weights.astype(precision), (-biases).astype(precision))
    n_inputs = weights.shape[1]
    inputs = StandardisedLinear(np.zeros(n_inputs, dtype=precision), np.ones(n_inputs, dtype=precision), 1.0)
    return LinearPredictor(inputs, np.column_stack([weights, -biases]).astype(precision))


def _fit(rows: DenseRows, grid: ComparedGrid, place: float, class_index: int, method: Fapg) -> tuple[float, Fitted]:
    if grid.parameter == "kappa":
        (point,) = path_of_moments(grid.model, class_moments(rows), [place], method)
        return point.parameter, point.solution
    # by way of easier values: a far one from scratch takes several times the iterations
    chosen = grid.places.index(place)
    steps = sorted({round(share * chosen) for share in WAY})
    values = [grid.value(grid.places[step], class_index, rows.n_points, grid.high(rows)) for step in steps]
    point = path(grid.model, rows, values, method)[-1]
    return point.parameter, point.solution


def _learn_online(settings: CompareSettings, data: Dataset, name: str, execution: Execution, tell: Tell) -> Winner:
    """Train as `okl train` does in one process: all rows, one pass, any memory limit."""
    solver = make_online_solver(train_settings(settings, name), data)
    state = solver.start(data, execution)
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
        standing = solver.standing(state)
        tell(standing.done_rows, standing.total_rows, {"mistake_rate": standing.error})
    return Winner(solver.predictor(state), data.rows("train"), chosen=solver.chosen(state))
