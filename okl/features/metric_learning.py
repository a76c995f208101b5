"""A learnt metric: weights of the inputs from the gradients of a kernel expansion, as in recursive feature machines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from okl.compiled.jit import one_blas_thread
from okl.compiled.kernels import sign_products
from okl.compiled.threads import run_tasks
from okl.data.dataset import HOURS, Schema, origins
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.kernels import NamedKernel

BLOCK = 512  # rows whose gradients are summed in one go: fixed, so that bits depend on nothing else
INTERACTION_LEVEL = 1e-3  # of any product by chance
LEAST_WEIGHT = 1e-6  # of the largest: no input is ignored for good, as its weight would stay 0 in all later steps


@dataclass(frozen=True, eq=False)
class GradientSums:
    """Sums over rows (count) of squared partial derivatives (n_inputs,), summed over outputs."""

    count: int
    squares: Doubles


def gradient_sums(
    kernel: NamedKernel, landmarks: FloatArray, weights: FloatArray, inputs: FloatArray, n_threads: int = 1
) -> GradientSums:
    """Sum the squared gradients of f(x) = sum_j weights[k, j] k(x, l_j) over rows and outputs k.

    The time is O(rows n_landmarks n_inputs n_outputs).

    kernel : with `slopes`
    landmarks : (n_landmarks, n_inputs); weights : (n_outputs, n_landmarks); inputs : (rows, n_inputs)
    n_threads : bits do not depend on it
    Raises ConfigError : the gradient of the kernel is not known
    """
    wide = np.ascontiguousarray(landmarks, dtype=np.float64)
    transposed = np.ascontiguousarray(wide.T)
    firsts = range(0, len(inputs), BLOCK)

    def of_block(index: int) -> Doubles:
        rows = np.ascontiguousarray(inputs[firsts[index] : firsts[index] + BLOCK], dtype=np.float64)
        slopes = kernel.slopes(rows, wide)
        if slopes is None:
            raise ConfigError(f"The gradient of the kernel {kernel.name!r} is not known. Use another kernel.")
        squares = np.zeros(rows.shape[1])
        for output in weights:
            values = slopes * output
            if kernel.power == 1:
                gradients = np.empty_like(rows)
                sign_products(gradients, values, rows, transposed)
            else:
                gradients = rows * values.sum(axis=1)[:, np.newaxis] - values @ wide
            squares += np.einsum("ij,ij->j", gradients, gradients)
        return squares

    with one_blas_thread():
        parts = run_tasks(of_block, len(firsts), n_threads)
    return GradientSums(len(inputs), np.sum(parts, axis=0))


def input_groups(schema: Schema) -> IntArray:
    """Return the group (n_features,) of each input: inputs of one group share a weight.

    The inputs of the values of a text column are a group, and those of weekdays and of hours; every other input is one
    of its own.
    """
    of_values = [encoding for encoding in schema.encodings if encoding.kind == "category" and not encoding.means]
    column = {name: encoding.column for encoding in of_values for name in encoding.inputs}
    for encoding in schema.encodings:
        column |= {name: f"{encoding.column}\n{part in HOURS}" for name, part in encoding.calendar_inputs.items()}
    groups = [("category", column[name]) if name in column else ("input", name) for name in schema.features]
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return np.array([numbers[group] for group in groups], dtype=np.int64)


def learnt_metric(sums: GradientSums, metric: FloatArray, groups: IntArray, power: float = 1.0) -> tuple[float, ...]:
    """Return the next metric (n_inputs,): the diagonal of the average gradient outer product, with a mean of 1.

    Derivatives by inputs that were multiplied by sqrt(metric) are sqrt(metric) times smaller than those by the inputs.

    sums : by inputs in the current metric; metric : the current one, (n_inputs,); ones to begin with
    groups : see `input_groups`; a group has the mean of its weights
    power : of the weights, which separates inputs that matter from others in fewer steps if it is above 1
    Source: Radhakrishnan, Beaglehole, Pandit & Belkin, Science 383, 2024, Algorithm 1, with diagonal M.
    """
    diagonal = sums.squares / sums.count * metric
    means = np.bincount(groups, weights=diagonal) / np.bincount(groups)
    weights = means[groups] ** power
    if not (np.isfinite(weights).all() and weights.max() > 0.0):  # a constant solution has no gradient
        return tuple(np.asarray(metric, dtype=np.float64).tolist())
    weights = np.maximum(weights, LEAST_WEIGHT * weights.max())
    return tuple((weights / weights.mean()).tolist())


@one_blas_thread()  # bits depend on the number of threads
def interacting_inputs(inputs: FloatArray, residuals: Doubles, groups: IntArray) -> NDArray[np.bool_]:
    """Return which inputs (n_inputs,) form the products x_i x_j that residuals depend on most, if any do.

    A product without effects of its factors has no gradient in a fit that has not found it. Its sum with the residuals,
    divided by the root of its sum of squares, is about normal where it has no effect, however heavy the tails are.

    inputs : (rows, n_inputs); residuals : (rows, n_outputs); groups : see `input_groups`, no products within them
    Source: de la Pena, Lai & Shao, Self-normalized processes, 2009, for the statistic.
    """
    centred = inputs - inputs.mean(axis=0, dtype=np.float64)
    deviations = centred.std(axis=0)
    centred /= np.where(deviations > 0.0, deviations, 1.0)
    largest = np.zeros((centred.shape[1],) * 2)
    for residual in (residuals - residuals.mean(axis=0)).T:
        weighted = centred * residual[:, np.newaxis]
        sums, squares = weighted.T @ centred, np.square(weighted).T @ np.square(centred)
        largest = np.maximum(largest, np.abs(sums) / np.sqrt(np.where(squares > 0.0, squares, np.inf)))
    largest[groups[:, np.newaxis] == groups] = 0.0
    most = largest.max(axis=1)
    level = -ndtri(INTERACTION_LEVEL / max(1, largest.size * residuals.shape[1]))
    chosen: NDArray[np.bool_] = most >= max(float(level), 0.5 * float(most.max(initial=0.0)))
    return chosen


def raised_metric(metric: FloatArray, raised: NDArray[np.bool_], groups: IntArray) -> tuple[float, ...]:
    """Return a metric (n_inputs,) in which some inputs have as much weight together as all had; the mean is 1."""
    members = np.bincount(groups, weights=raised) > 0.0
    chosen = members[groups]
    weights = np.where(chosen, np.maximum(metric, metric.sum() / max(1, int(members.sum()))), metric)
    return tuple((weights / weights.mean()).tolist())


def metric_shares(schema: Schema) -> dict[str, float]:
    """Return each source column's share in the mean squared distance in the metric, largest first; empty without it."""
    if not schema.metric:
        return {}
    _, factors = schema.shift_and_factor
    deviations = np.array([0.0 if column.constant else column.standard_deviation for column in schema.input_statistics])
    squares = (factors * deviations) ** 2
    shares = dict.fromkeys(schema.source_columns, 0.0)
    for column, square in zip(origins(schema.features, schema.encodings), squares, strict=True):
        shares[column] += float(square)
    total = sum(shares.values()) or 1.0
    return dict(sorted(((column, share / total) for column, share in shares.items()), key=lambda item: -item[1]))
