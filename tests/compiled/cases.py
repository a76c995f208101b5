"""Rows, maps and rules that the tests of compiled functions share; none of them is degenerate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.fourier import Waves, as_waves
from okl.compiled.sgd import MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED, LearnerArrays, SummedGradients, UpdateRule
from okl.compiled.threads import Block
from okl.foundation.types import FloatArray, Precision

PRECISIONS: tuple[Precision, ...] = ("float32", "float64")
TOLERANCE = {"float32": 2e-4, "float64": 1e-10}
N_CLASSES = 4


class Case(NamedTuple):
    inputs: FloatArray
    targets: NDArray[np.float64]
    waves: Waves
    rule: UpdateRule


def make_case(code: int, precision: Precision, rows: int = 90, n_inputs: int = 5, n_frequencies: int = 23) -> Case:
    """Return a noisy problem for a loss; 23 frequencies are not a multiple of any vector width."""
    rng = np.random.default_rng([code, rows])
    inputs = rng.standard_normal((rows, n_inputs))
    signal = np.sin(1.5 * inputs[:, 0]) + inputs[:, 1] + 0.3 * rng.standard_normal(rows)
    if code == MULTICLASS_HINGE:
        targets = np.digitize(signal, [-1.0, 0.0, 1.0]).astype(np.float64)
    elif code == THRESHOLDED_HALF_SQUARED:
        targets = signal
    else:
        targets = np.where(signal > 0.2, 1.0, -1.0)
    frequencies = rng.standard_normal((n_inputs, n_frequencies))
    class_weights = np.linspace(0.5, 1.5, n_labels(code))
    return Case(
        inputs.astype(precision),
        targets,
        as_waves(frequencies.astype(precision)),
        UpdateRule(code, 0.1, 0.7, class_weights, 16),
    )


def n_labels(code: int) -> int:
    return {MULTICLASS_HINGE: N_CLASSES, THRESHOLDED_HALF_SQUARED: 1}.get(code, 2)


def n_outputs(code: int) -> int:
    return N_CLASSES if code == MULTICLASS_HINGE else 1


def fresh_learnt(case: Case) -> LearnerArrays:
    shape = (n_outputs(case.rule.code), 2 * case.waves.n_frequencies)
    labels = np.zeros(n_labels(case.rule.code), dtype=np.int64)
    weights = np.zeros(shape, dtype=case.inputs.dtype)
    return LearnerArrays(weights, np.zeros(shape), np.zeros(5, dtype=np.int64), np.zeros(3), labels)


def fresh_summed(case: Case) -> SummedGradients:
    shape = (n_outputs(case.rule.code), 2 * case.waves.n_frequencies)
    return SummedGradients(np.zeros(shape), np.zeros(5, dtype=np.int64), np.zeros(1))


def some_weights(case: Case) -> FloatArray:
    shape = (n_outputs(case.rule.code), 2 * case.waves.n_frequencies)
    return np.random.default_rng(3).standard_normal(shape).astype(case.inputs.dtype)


def buffer(rows: int, case: Case) -> Block:
    shape = (rows, case.waves.n_frequencies)
    return Block(np.empty(shape, dtype=case.inputs.dtype), np.empty(shape, dtype=case.inputs.dtype))


def assert_same(left: NamedTuple, right: NamedTuple, tolerance: float) -> None:
    """Assert that all fields of two tuples of arrays agree; integers exactly."""
    for name, a, b in zip(left._fields, left, right, strict=True):
        exact = np.issubdtype(np.asarray(a).dtype, np.integer)
        scale: Any = 1.0 + np.abs(np.asarray(b, dtype=np.float64)).max()
        np.testing.assert_allclose(a, b, rtol=0, atol=0 if exact else tolerance * scale, err_msg=name)
