"""Rows with their labels as class numbers and what each weighs: by the user, by its class, by how often it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from okl.errors import DataError
from okl.estimators.unifiedrepeats import merge_repeats
from okl.estimators.unifiedspaces import Inputs
from okl.types import FloatArray, IntArray, Precision


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows to learn.

    inputs : (rows, n_features), array or CSR; codes : (rows,), numbers of their classes
    weights : (rows,) > 0, or None for 1 each; numbers : (rows,), of the rows among those that came
    """

    inputs: Inputs
    codes: IntArray
    weights: FloatArray | None
    numbers: IntArray

    @property
    def n_rows(self) -> int:
        """Rows that differ."""
        return int(self.inputs.shape[0])

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.inputs.shape[1])

    @property
    def precision(self) -> Precision:
        """Of the inputs."""
        return "float32" if self.inputs.dtype == np.float32 else "float64"

    def part(self, numbers: IntArray) -> Labelled:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[numbers]
        return Labelled(self.inputs[numbers], self.codes[numbers], weights, self.numbers[numbers])


def label_rows(
    inputs: Inputs, labels: NDArray[Any], classes: NDArray[Any], sample_weight: ArrayLike | None, class_weight: Any
) -> Labelled:
    """Weigh rows and merge those that are equal.

    Parameters
    ----------
    inputs : (rows, n_features), array or CSR, validated; labels : (rows,), all among classes, which are sorted
    sample_weight : (rows,) or None; class_weight : None, "balanced", or by label

    Raises
    ------
    DataError : a class has no weight; ValueError of scikit-learn : weights that are negative, or of other rows
    """
    codes = np.searchsorted(classes, labels)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
    if class_weight is not None:
        given = np.ones(len(labels)) if weights is None else weights
        by_class = compute_class_weight(class_weight, classes=classes, y=labels, sample_weight=given)
        weights = given * by_class[codes]
    if sparse.issparse(inputs) and not inputs.has_canonical_format:
        inputs = inputs.copy()  # the user's own, perhaps
        inputs.sum_duplicates()
    merged = merge_repeats(inputs, codes, weights)
    if merged is None:
        return Labelled(inputs, codes, None, np.arange(len(codes)))
    found = Labelled(inputs[merged.rows], codes[merged.rows], merged.weights, merged.rows)
    missing = np.setdiff1d(np.arange(len(classes)), found.codes)
    if len(missing):
        raise DataError(
            f"Every row of class {classes[missing[0]].item()!r} weighs 0: give some row of each a weight above 0."
        )
    return found
