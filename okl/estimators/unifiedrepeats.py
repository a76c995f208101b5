"""Rows that are equal count as one row of their weights' sum: fewer rows to learn, and the very same solution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.blocks import as_compiled
from okl.compiled.rowpasses import multiply_rows, multiply_sparse_rows
from okl.types import FloatArray, IntArray

_SEED = 20170418  # any fixed number: equal rows have equal keys in every run


class Merged(NamedTuple):
    """Numbers of the rows that stand for all others (kept,), and what each weighs (kept,)."""

    rows: IntArray
    weights: FloatArray


def merge_repeats(inputs: Any, labels: IntArray, weights: FloatArray | None) -> Merged | None:
    """Find the rows that differ, leaving out those without weight; their order depends on their values only.

    A weight of 3 and a row that is there three times give the same bits, in whatever order rows stand.

    Parameters
    ----------
    inputs : (rows, n_features), C-contiguous array or CSR matrix of floats
    labels : (rows,), rows of two classes are never one
    weights : (rows,), or None for 1 each

    Returns
    -------
    Merged, or None where every row is there once and weighs 1
    """
    if weights is not None and (weights == 1.0).all():
        weights = None
    keys = _keys(inputs)
    order = np.lexsort((labels, keys))
    if weights is not None:
        order = order[weights[order] > 0.0]
    repeats = np.zeros(len(order), dtype=bool)
    repeats[1:] = (np.diff(keys[order]) == 0.0) & (np.diff(labels[order]) == 0)
    candidates = np.flatnonzero(repeats)
    repeats[candidates] = _equal(inputs, order[candidates], order[candidates - 1])
    if weights is None and not repeats.any():
        return None
    first = np.flatnonzero(~repeats)
    ordered = np.ones(len(order)) if weights is None else weights[order]
    summed = np.add.reduceat(ordered, first) if len(first) else ordered
    return Merged(order[first], summed)


def _keys(inputs: Any) -> NDArray[np.float64]:
    """A random projection of every row (rows,), the same bits for equal rows wherever they stand."""
    direction = np.random.default_rng(_SEED).standard_normal(inputs.shape[1])
    keys = np.empty(inputs.shape[0])
    ones = np.ones(inputs.shape[0])
    if sparse.issparse(inputs):
        data = as_compiled(inputs.data, inputs.data.dtype)
        multiply_sparse_rows(keys, data, inputs.indices, inputs.indptr, ones, direction)
    else:
        multiply_rows(keys, as_compiled(inputs, inputs.dtype), ones, direction)
    return keys


def _equal(inputs: Any, left: IntArray, right: IntArray) -> NDArray[np.bool_]:
    """Whether rows of two lists are equal, pair by pair."""
    if sparse.issparse(inputs):
        same = np.asarray(abs(inputs[left] - inputs[right]).sum(axis=1)).ravel() == 0.0
    else:
        same = (inputs[left] == inputs[right]).all(axis=1)
    equal: NDArray[np.bool_] = same
    return equal
