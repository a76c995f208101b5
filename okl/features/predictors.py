"""Predictors that score blocks of rows: linear models in a feature map, and kernel expansions, also in cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.fourier import fourier_scores, score_block
from okl.compiled.jit import aligned_empty, as_compiled, one_blas_thread
from okl.compiled.kernels import KernelRule, add_kernel_sums
from okl.compiled.products import panels_of
from okl.compiled.threads import MOST_ROWS, Block, borrowed_block, run_tasks, run_threads
from okl.features.base import FeatureMap, as_inputs, check_inputs, check_weights, precision_of
from okl.features.cells import CellTree
from okl.features.extension import KIND, extension_map_from_stored
from okl.features.fourier import FourierFeatures, StructuredFeatures
from okl.features.linear import SparseInputs, StandardisedLinear
from okl.features.nystrom import NystromFeatures, landmarks_from_stored
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError, ModelError, OklError
from okl.foundation.telemetry import memory_bytes
from okl.foundation.types import Doubles, FloatArray, Integers, Precision
from okl.kernels import Kernel, describe_kernel, kernel_from_description
from okl.metrics.calibration import LOG_ODDS, ScoreCalibration, probabilities_of


def map_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Rebuild a map from its `describe()` and `arrays()`; ModelError if something is unknown, missing or unfit."""
    kind = description.get("kind")
    try:
        if kind == KIND:
            return extension_map_from_stored(description, arrays)
        if kind == "fourier":
            return FourierFeatures(kernel_from_description(description["kernel"]), arrays["frequencies"])
        if kind == "nystrom":
            kernel = kernel_from_description(description["kernel"])
            return NystromFeatures(kernel, landmarks_from_stored(description, arrays), arrays["projection"])
        if kind == "structured":
            kernel = kernel_from_description(description["kernel"])
            return StructuredFeatures(kernel, int(description["n_inputs"]), arrays["signs"], arrays["radii"])
        if kind == "standardised-linear":
            return StandardisedLinear(arrays["shift"], arrays["factor"], float(description["constant"]))
        if kind == "sparse-inputs":
            constant = float(description.get("constant", 0.0))
            return SparseInputs(int(description["n_inputs"]), description["precision"], constant)
    except ModelError:
        raise
    except (OklError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The stored {kind} map cannot be rebuilt ({error!r}). The model is damaged; train it again."
        ) from None
    raise ModelError(f"Unknown kind of feature map: {kind!r}. Use the okl version that wrote the model.")


# Scores of rows in a feature map, block by block, on any number of threads with the same bits.


def score_rows(feature_map: FeatureMap, weights: FloatArray, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
    """Return scores z(x) @ weights' of every row: (rows, n_outputs), in the map's precision.

    weights : (n_outputs, n_columns); inputs : (rows, n_inputs); n_threads : int >= 1
    Raises DataError, ConfigError : the inputs or the weights do not have the map's columns
    """
    if isinstance(feature_map, SparseInputs):
        check_weights(feature_map, weights)
        products: FloatArray = feature_map.transform(inputs) @ weights.T.astype(feature_map.precision)
        return products
    inputs, rows = as_inputs(inputs, feature_map.precision), inputs.shape[0]
    check_inputs(feature_map, inputs)
    weights = as_compiled(weights, feature_map.precision)
    check_weights(feature_map, weights)
    scores = np.empty((rows, len(weights)), dtype=feature_map.precision)
    fused = not sparse.issparse(inputs)
    size = feature_map.rows_per_block if isinstance(feature_map, FourierFeatures) and fused else MOST_ROWS
    n_threads = max(1, min(n_threads, -(-rows // size)))

    def score(thread: int) -> None:
        if isinstance(feature_map, FourierFeatures) and fused:
            with borrowed_block(feature_map.rows_per_block, feature_map.widths, inputs.dtype) as block:
                fourier_scores(scores, block, inputs, feature_map.waves, weights, thread, n_threads)
            return
        for first in range(thread * MOST_ROWS, rows, n_threads * MOST_ROWS):
            part = slice(first, first + MOST_ROWS)
            score_block(scores[part], block_of(feature_map.transform(inputs[part])), weights)

    with one_blas_thread():
        run_threads(n_threads, score)
    return scores


def block_of(features: FloatArray) -> Block:
    """Return features (rows, n_columns) of any map as a block; the second half is empty."""
    return Block(np.ascontiguousarray(features), np.empty((len(features), 0), dtype=features.dtype))


# Kernel expansions f(x) = sum_s a_s k(s, x) + b.

CHUNK = 512  # supports whose kernel values with a block of rows stay in the second-level cache


@dataclass(frozen=True, eq=False)
class _OnSupports:
    """Common part of predictors with kernel values of supports."""

    kernel: Kernel
    supports: FloatArray

    @property
    def n_inputs(self) -> int:
        return int(self.supports.shape[1])

    @property
    def n_outputs(self) -> int:
        raise NotImplementedError

    @property
    def precision(self) -> Precision:
        return "float32" if self.supports.dtype == np.float32 else "float64"

    @property
    def n_supports(self) -> int:
        return int(self.supports.shape[0])

    def __post_init__(self) -> None:
        if self.kernel.rule is None:
            raise ConfigError(f"The kernel {self.kernel.name!r} has no compiled implementation. Use another kernel.")

    @property
    def rule(self) -> KernelRule:
        """Return the kernel for compiled code."""
        assert self.kernel.rule is not None, "it has been checked"
        return self.kernel.rule

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Return scores before any link, (rows,) or (rows, n_outputs), of inputs (rows, n_inputs); or DataError.

        The same bits for a row in any block and for any number of threads.
        """
        inputs = as_compiled(inputs, self.supports.dtype)
        if inputs.ndim != 2 or inputs.shape[1] != self.n_inputs:
            raise DataError(
                f"The expansion takes inputs of shape (rows, {self.n_inputs}), but got {inputs.shape}. "
                "Pass the columns that it was trained on."
            )
        scores = self._scores(inputs, n_threads)
        return scores[:, 0] if self.n_outputs == 1 else scores

    def _scores(self, inputs: FloatArray, n_threads: int) -> FloatArray:
        """Return scores (rows, n_outputs) in the precision of the supports."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class KernelExpansion(_OnSupports):
    """A predictor: scores are sums of kernel values with support vectors.

    kernel : with a rule for compiled code
    supports : (n_supports, n_inputs), float32 or float64; n_supports may be 0: all scores are then 0
    coefficients : (n_outputs, n_supports) of that precision; one output for two classes and for regression
    offsets : (n_outputs,) of that precision; None: 0
    Raises ConfigError : supports and coefficients do not fit together, or the kernel has no rule
    """

    coefficients: FloatArray
    offsets: FloatArray | None = None

    def __post_init__(self) -> None:
        supports, coefficients = self.supports, self.coefficients
        fits = supports.ndim == coefficients.ndim == 2 and coefficients.shape[1] == len(supports)
        if not fits or supports.dtype != coefficients.dtype or supports.dtype.name not in ("float32", "float64"):
            raise ConfigError(
                f"Coefficients {coefficients.shape} {coefficients.dtype} do not fit supports {supports.shape} "
                f"{supports.dtype}: a kernel expansion takes one column for each support, both float32 or float64."
            )
        if self.offsets is not None and (self.offsets.shape, self.offsets.dtype) != (
            (len(coefficients),),
            supports.dtype,
        ):
            raise ConfigError(
                f"Offsets {self.offsets.shape} {self.offsets.dtype} do not fit coefficients {coefficients.shape} "
                f"{coefficients.dtype}: one for each output, of one precision."
            )
        super().__post_init__()

    @property
    def n_outputs(self) -> int:
        return int(self.coefficients.shape[0])

    def _scores(self, inputs: FloatArray, n_threads: int) -> FloatArray:
        scores, rule = np.empty((len(inputs), self.n_outputs), dtype=self.supports.dtype), self.rule
        n_threads = max(1, min(n_threads, -(-len(inputs) // MOST_ROWS)))

        def score(thread: int) -> None:
            values = aligned_empty((MOST_ROWS, min(CHUNK, max(1, self.n_supports))), self.supports.dtype)
            for first in range(thread * MOST_ROWS, len(inputs), n_threads * MOST_ROWS):
                block = inputs[first : first + MOST_ROWS]
                scores[first : first + MOST_ROWS] = kernel_sums(block, self._chunks, rule, values)

        run_threads(n_threads, score)
        if self.offsets is not None:
            scores += self.offsets
        return scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store, by name."""
        offsets = {} if self.offsets is None else {"offsets": self.offsets}
        return {"supports": self.supports, "coefficients": self.coefficients, **offsets}

    def describe(self) -> dict[str, Any]:
        """Return the rest of it, as JSON, or ConfigError for a kernel of the user's own."""
        return {"kind": "expansion", "kernel": describe_kernel(self.kernel)}

    @cached_property
    def _chunks(self) -> list[tuple[FloatArray, FloatArray]]:
        return [
            pack_chunk(self.supports[first : first + CHUNK], self.coefficients[:, first : first + CHUNK])
            for first in range(0, self.n_supports, CHUNK)
        ]


def pack_chunk(supports: FloatArray, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return supports (n, n_inputs) and coefficients (n_outputs, n) as `kernel_sums` takes them."""
    return panels_of(supports.T), as_compiled(coefficients, coefficients.dtype)


def kernel_sums(
    inputs: FloatArray, chunks: list[tuple[FloatArray, FloatArray]], rule: KernelRule, buffer: FloatArray
) -> Doubles:
    """Return sums over the supports of all chunks, (rows, n_outputs); buffer (at least rows, widest chunk) changes."""
    n_outputs = chunks[0][1].shape[0] if chunks else 1
    sums = np.zeros((len(inputs), n_outputs))
    for panels, coefficients in chunks:
        n_values = len(inputs) * coefficients.shape[1]
        values = buffer.reshape(-1)[:n_values].reshape(len(inputs), coefficients.shape[1])
        add_kernel_sums(sums, values, inputs, panels, coefficients, rule)
    return sums


# Expansions in cells of neighbouring rows.

_MOST_KEPT, _SHARE_KEPT = 1 << 30, 4  # bytes of supports in the order of the cells; at most a quarter of the memory


def kept_bytes(n_bytes: int) -> int:
    """Return the bytes of supports in the order of the cells that are kept between blocks of rows: all or none."""
    return n_bytes if n_bytes <= min(_MOST_KEPT, memory_bytes() // _SHARE_KEPT) else 0


@stored("cell-partition")
@dataclass(frozen=True, eq=False)
class Partition:
    """Expansions in the cells of a tree, with supports that several partitions share.

    order : (n_members,), index of the support of each member; members are sorted by cell
    starts : (n_cells + 1,), first member of each cell
    coefficients : (n_outputs, n_members); offsets : (n_cells, n_outputs)
    """

    tree: CellTree
    order: Integers
    starts: Integers
    coefficients: FloatArray
    offsets: FloatArray

    def members(self, cell: int) -> slice:
        return slice(int(self.starts[cell]), int(self.starts[cell + 1]))


@dataclass(frozen=True, eq=False)
class LocalExpansion(_OnSupports):
    """A predictor: the mean over partitions of the kernel expansion of the cell that a row is in.

    f(x) = mean_p (b_c + sum_(s in c) a_s k(s, x)),  c the cell of x in partition p

    kernel : with a rule for compiled code; supports : (n_supports, n_inputs), float32 or float64
    partitions : at least one, with coefficients and offsets of that precision
    Raises ConfigError : partitions and supports do not fit together, or the kernel has no rule
    """

    partitions: tuple[Partition, ...]

    def __post_init__(self) -> None:
        if not self.partitions or not all(self._fits(partition) for partition in self.partitions):
            raise ConfigError(
                f"Partitions do not fit supports {self.supports.shape} {self.supports.dtype}: expected at least one, "
                "each with a tree over these inputs, members that are supports, and numbers of one precision."
            )
        super().__post_init__()

    def _fits(self, partition: Partition) -> bool:
        tree, order, starts = partition.tree, partition.order, partition.starts
        coefficients, offsets = partition.coefficients, partition.offsets
        return bool(
            tree.is_valid(self.n_inputs)
            and coefficients.shape == (self.n_outputs, len(order))
            and offsets.shape == (tree.n_cells, self.n_outputs)
            and {coefficients.dtype, offsets.dtype} == {self.supports.dtype}
            and self.supports.dtype.name in ("float32", "float64")
            and order.ndim == 1
            and order.dtype == starts.dtype == np.int64
            and starts.shape == (tree.n_cells + 1,)
            and (starts[0], starts[-1]) == (0, len(order))
            and (np.diff(starts) >= 0).all()
            and ((order >= 0) & (order < self.n_supports)).all()
        )

    @property
    def n_outputs(self) -> int:
        return int(self.partitions[0].coefficients.shape[0])

    def _scores(self, inputs: FloatArray, n_threads: int) -> FloatArray:
        total = np.zeros((len(inputs), self.n_outputs))
        for number in range(len(self.partitions)):
            total += self._scores_of(number, inputs, n_threads)
        scores: FloatArray = (total / len(self.partitions)).astype(self.supports.dtype)
        return scores

    def _scores_of(self, number: int, inputs: FloatArray, n_threads: int) -> Doubles:
        """Return scores (rows, n_outputs) of one partition."""
        partition, rule = self.partitions[number], self.rule
        cells = partition.tree.cells_of(inputs)
        order = np.argsort(cells, kind="stable")
        present, firsts = np.unique(cells[order], return_index=True)
        lasts = [*firsts[1:], len(order)]
        scores = np.empty((len(inputs), self.n_outputs))

        def score(index: int) -> None:
            cell, rows = int(present[index]), order[firsts[index] : lasts[index]]
            chunks = self._chunks_of(number, cell)
            values = aligned_empty((MOST_ROWS, CHUNK), self.supports.dtype)
            for first in range(0, len(rows), MOST_ROWS):
                some = rows[first : first + MOST_ROWS]
                scores[some] = partition.offsets[cell]
                if chunks:
                    scores[some] += kernel_sums(inputs[some], chunks, rule, values)

        run_tasks(score, len(present), n_threads)
        return scores

    def _chunks_of(self, number: int, cell: int) -> list[tuple[FloatArray, FloatArray]]:
        """Return the supports and coefficients of a cell as `kernel_sums` takes them; kept if all of them are few."""
        if (number, cell) in self._kept:
            return self._kept[number, cell]
        partition = self.partitions[number]
        members = partition.members(cell)
        chunks = []
        for first in range(members.start, members.stop, CHUNK):
            some = slice(first, min(first + CHUNK, members.stop))
            chunks.append(pack_chunk(self.supports[partition.order[some]], partition.coefficients[:, some]))
        if kept_bytes(len(self.partitions) * self.supports.nbytes):
            self._kept[number, cell] = chunks
        return chunks

    @cached_property
    def _kept(self) -> dict[tuple[int, int], list[tuple[FloatArray, FloatArray]]]:
        return {}

    def turned(self, of_weights: Callable[[FloatArray], FloatArray], offsets: Doubles) -> LocalExpansion:
        """Return the predictor of other weights, (n_outputs, n) as they are, plus offsets (n_outputs,)."""
        dtype = self.supports.dtype
        changed = [
            replace(
                each,
                coefficients=of_weights(each.coefficients).astype(dtype),
                offsets=(of_weights(each.offsets.T).T + offsets).astype(dtype),
            )
            for each in self.partitions
        ]
        return replace(self, partitions=tuple(changed))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store, by name."""
        arrays: dict[str, NDArray[Any]] = {"supports": self.supports}
        for number, each in enumerate(self.partitions):
            arrays |= {f"partition{number}.{name}": getattr(each.tree, name) for name in _OF_TREE}
            arrays |= {f"partition{number}.{name}": getattr(each, name) for name in _OF_PARTITION}
        return arrays

    def describe(self) -> dict[str, Any]:
        """Return the rest of it, as JSON, or ConfigError for a kernel of the user's own."""
        return {"kind": "local", "kernel": describe_kernel(self.kernel), "partitions": len(self.partitions)}


_OF_TREE, _OF_PARTITION = ("directions", "thresholds", "children"), ("order", "starts", "coefficients", "offsets")


def local_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]], location: str) -> LocalExpansion:
    """Rebuild a predictor from `describe()` and `arrays()`, or raise ModelError; runs no stored code."""
    try:
        partitions = []
        for number in range(int(description["partitions"])):
            tree, own = ([arrays[f"partition{number}.{name}"] for name in names] for names in (_OF_TREE, _OF_PARTITION))
            partitions.append(Partition(CellTree(*tree), *own))
        return LocalExpansion(kernel_from_description(description["kernel"]), arrays["supports"], tuple(partitions))
    except (KeyError, TypeError, ValueError, IndexError, ConfigError) as error:
        raise ModelError(f"{location}: the cells are damaged ({error!r}). Train the model again.") from None


# Predictors: they score blocks of inputs and can be stored.


class Predictor(Protocol):
    """Predictor of scores from blocks of inputs; the schema of its model describes how raw rows become inputs."""

    @property
    def n_inputs(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def precision(self) -> Precision: ...
    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Scores z(x) @ weights' + offsets for an explicit feature map z.

    feature_map : z, with n_columns columns
    weights : (n_outputs, n_columns); one output for two classes and for regression
    offsets : (n_outputs,) of the same precision; None: 0
    """

    feature_map: FeatureMap
    weights: FloatArray
    offsets: FloatArray | None = None

    @property
    def n_inputs(self) -> int:
        return self.feature_map.n_inputs

    @property
    def n_outputs(self) -> int:
        return int(self.weights.shape[0])

    @property
    def precision(self) -> Precision:
        return precision_of(self.weights)

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Return scores before any link, (rows,) or (rows, n_outputs), of inputs (rows, n_inputs)."""
        scores = score_rows(self.feature_map, self.weights, inputs, n_threads)
        if self.offsets is not None:
            scores += self.offsets
        return scores[:, 0] if self.n_outputs == 1 else scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        offsets = {} if self.offsets is None else {"offsets": self.offsets}
        mapped = {f"map.{name}": array for name, array in self.feature_map.arrays().items()}
        return {"weights": self.weights, **offsets, **mapped}

    def describe(self) -> dict[str, Any]:
        return {"kind": "linear", "map": self.feature_map.describe()}


BasePredictor: TypeAlias = LinearPredictor | KernelExpansion | LocalExpansion
"""Predictors that solvers make."""


@dataclass(frozen=True, eq=False)
class CalibratedPredictor:
    """A classifier with calibrated log-odds as scores, less shifts (by output) from which on a class is predicted.

    Two classes have one score: 0 is the threshold of the second. Several have logits, of which the largest wins.
    """

    base: BasePredictor
    calibration: ScoreCalibration
    shifts: tuple[float, ...]

    @property
    def n_inputs(self) -> int:
        return self.base.n_inputs

    @property
    def n_outputs(self) -> int:
        return self.base.n_outputs

    @property
    def precision(self) -> Precision:
        """Return the precision of its inputs and scores."""
        return self.base.precision

    @property
    def threshold(self) -> float:
        """Return the probability from which on the second of two classes is predicted."""
        return float(LOG_ODDS.probabilities(np.array(self.shifts[0])))

    def with_threshold(self, threshold: float) -> CalibratedPredictor:
        """Return the same predictor of two classes with another threshold, between 0 and 1."""
        return replace(self, shifts=(log_odds(threshold),))

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Return scores (rows,) or (rows, n_outputs) of inputs (rows, n_inputs)."""
        scores = self.base.scores(inputs, n_threads)
        # the difference first: where it is 0, scores keep their signs to the last bit
        apart = np.array(self.calibration.offsets) - np.array(self.shifts)
        wide = self.calibration.scaled(scores)
        shifted: FloatArray = (wide + (apart if scores.ndim == 2 else apart[0])).astype(scores.dtype)
        return shifted

    def logits(self, scores: FloatArray) -> Doubles:
        """Return log-odds of two classes (rows,), or logits (rows, n_outputs), of its scores."""
        logits: Doubles = np.asarray(scores, dtype=np.float64) + self._shift(scores)
        return logits

    def probabilities(self, scores: FloatArray) -> Doubles:
        """Return the probability of each class, (rows, n_classes), of its scores."""
        return probabilities_of(self.logits(scores))

    def plain(self) -> BasePredictor:
        """Return a predictor of the same scores, up to rounding, whose weights hold the calibration."""
        base, of_weights = self.base, self.calibration.of_weights
        added, shifts = np.array(self.calibration.offsets), np.array(self.shifts)
        if isinstance(base, LocalExpansion):
            return base.turned(of_weights, added - shifts)
        before = np.zeros(self.n_outputs) if base.offsets is None else base.offsets
        offsets = (of_weights(before) + added - shifts).astype(before.dtype)
        if isinstance(base, KernelExpansion):
            offsets = offsets.astype(base.coefficients.dtype)
            return replace(base, coefficients=of_weights(base.coefficients).astype(offsets.dtype), offsets=offsets)
        offsets = offsets.astype(base.weights.dtype)
        return replace(base, weights=of_weights(base.weights).astype(offsets.dtype), offsets=offsets)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.base.arrays()

    def describe(self) -> dict[str, Any]:
        calibration: dict[str, Any] = {"slope": self.calibration.slope, "offsets": list(self.calibration.offsets)}
        if self.calibration.mixing:
            calibration["mixing"] = [list(row) for row in self.calibration.mixing]
        return self.base.describe() | {"calibration": calibration | {"shifts": list(self.shifts)}}

    def _shift(self, scores: FloatArray) -> Any:
        return np.array(self.shifts) if scores.ndim == 2 else self.shifts[0]


def log_odds(probability: float) -> float:
    """Return the log-odds of a probability between 0 and 1."""
    return math.log(probability) - math.log1p(-probability)


def base_of(predictor: Predictor) -> Predictor:
    """Return the predictor of the scores that a calibration is of, or the predictor itself."""
    return predictor.base if isinstance(predictor, CalibratedPredictor) else predictor


def predictor_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str) -> Predictor:
    """Rebuild a predictor from `describe()` and `arrays()`, or raise ModelError; runs no stored code."""
    base = _base_from_stored(description, arrays, where)
    stored = description.get("calibration")
    if stored is None:
        return base
    try:
        slope, offsets, shifts = float(stored["slope"]), stored["offsets"], stored["shifts"]
        mixing = np.array(stored.get("mixing") or np.zeros((0, base.n_outputs)), dtype=np.float64)
        calibration = ScoreCalibration(slope, tuple(map(float, offsets)), tuple(map(tuple, mixing.tolist())))
        values = np.array([slope, *offsets, *shifts, *mixing.ravel()], dtype=np.float64)
        n = base.n_outputs
        fit = {len(offsets), len(shifts)} == {n} and mixing.shape in ((0, n), (n, n) if n > 1 else (0, n))
        if not np.isfinite(values).all() or slope <= 0.0 or not fit:
            raise ValueError(f"{base.n_outputs} finite offsets and shifts and a positive slope are expected")
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{where}: the calibration is damaged ({error!r}). Train the model again.") from None
    return CalibratedPredictor(base, calibration, tuple(map(float, shifts)))


def _base_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str) -> BasePredictor:
    if description.get("kind") == "local":
        return local_from_stored(description, arrays, where)
    if description.get("kind") == "expansion":
        try:
            kernel = kernel_from_description(description["kernel"])
            return KernelExpansion(kernel, arrays["supports"], arrays["coefficients"], arrays.get("offsets"))
        except (KeyError, ConfigError) as error:
            raise ModelError(f"{where}: the kernel expansion is damaged ({error}). Train the model again.") from None
    if description.get("kind") != "linear" or "weights" not in arrays:
        raise ModelError(
            f"{where}: unknown kind of predictor: {description.get('kind')!r}. Use the okl version that wrote the "
            "model."
        )
    if not isinstance(description.get("map"), dict):
        raise ModelError(f"{where}: the feature map of the weights is missing. The model is damaged; train again.")
    map_arrays = {name.removeprefix("map."): array for name, array in arrays.items() if name.startswith("map.")}
    feature_map = map_from_stored(description["map"], map_arrays)
    predictor = LinearPredictor(feature_map, arrays["weights"], arrays.get("offsets"))
    if predictor.weights.ndim != 2 or predictor.weights.shape[1] != predictor.feature_map.n_columns:
        raise ModelError(
            f"{where}: weights of shape {predictor.weights.shape} do not fit a map of "
            f"{predictor.feature_map.n_columns} columns. The model is damaged; train it again."
        )
    dtypes = {array.dtype.name for array in (predictor.weights, predictor.offsets) if array is not None}
    if dtypes != {feature_map.precision}:
        raise ModelError(
            f"{where}: weights of type {' and '.join(sorted(dtypes))} do not fit a map of {feature_map.precision}. The "
            "model is damaged; train it again."
        )
    if predictor.offsets is not None and predictor.offsets.shape != (predictor.n_outputs,):
        raise ModelError(
            f"{where}: offsets of shape {predictor.offsets.shape} do not fit {predictor.n_outputs} outputs. The model "
            "is damaged; train it again."
        )
    return predictor
