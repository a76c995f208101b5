"""Rows and weights of classes as compiled learners take them: they index by what is given and do not look."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import as_compiled
from okl.errors import ConfigError, DataError
from okl.execution.protocol import Rows
from okl.types import FloatArray, Precision, Task


def checked_rows(
    rows: Rows, task: Task, n_inputs: int, n_outputs: int, precision: Precision
) -> tuple[FloatArray, NDArray[np.float64]]:
    """Inputs (rows, n_inputs), C-contiguous in the precision, and targets (rows,) float64, or DataError.

    Targets are -1 or +1 for two classes, 0 .. n_outputs - 1 for several, any number for regression.
    """
    inputs = as_compiled(rows.inputs, precision)
    if inputs.ndim != 2 or inputs.shape[1] != n_inputs:
        raise DataError(
            f"The learner takes inputs of shape (rows, {n_inputs}), but {inputs.shape} came. "
            "Give it the columns it was made for."
        )
    targets = as_compiled(rows.targets, np.float64)
    if targets.shape != (len(inputs),):
        raise DataError(f"Targets of shape {targets.shape} came with {len(inputs)} rows; give one target a row.")
    if task == "binary" and not (np.abs(targets) == 1.0).all():
        raise DataError(f"Two classes are -1 and +1 in memory, but a target is {targets[np.abs(targets) != 1.0][0]}.")
    if task == "multiclass":
        # compiled code uses a target as an index: a wrong one would write into foreign memory
        wrong = ~((targets >= 0) & (targets < n_outputs) & (targets == np.floor(targets)))
        if wrong.any():
            raise DataError(f"Classes are 0 to {n_outputs - 1} in memory, but a target is {targets[wrong][0]}.")
    return inputs, targets


def check_class_weights(class_weights: tuple[float, ...] | None, task: Task, n_classes: int) -> None:
    """Refuse weights (n_classes,) that no step can have: a negative one would walk uphill.

    Raises
    ------
    ConfigError : a regression has none; another number of weights; one that is negative or not finite
    """
    if class_weights is None:
        return
    if task == "regression":
        raise ConfigError("class_weights were given, but a regression has no classes. Leave them out.")
    if len(class_weights) != n_classes:
        raise ConfigError(f"{len(class_weights)} class weights were given for {n_classes} classes.")
    if not all(np.isfinite(weight) and weight >= 0 for weight in class_weights):
        raise ConfigError(f"class_weights = {class_weights}, but each takes a finite number of at least 0.")
