"""Array type aliases and the names of tasks, splits, precisions, modes and criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

Task = Literal["binary", "multiclass", "regression"]
Split = Literal["train", "test"]
Precision = Literal["float32", "float64"]
Mode = Literal["stream", "mix", "sum"]
Optimise = Literal["auto", "log-loss", "auc", "average-precision", "balanced-accuracy", "accuracy"]
Criterion = Literal["log-loss", "auc", "average-precision", "balanced-accuracy", "accuracy", "squared-error"]

# quoted: settings import this module, and `okl --help` loads no numpy
FloatArray: TypeAlias = "NDArray[np.floating[Any]]"
IntArray: TypeAlias = "NDArray[np.integer[Any]]"
Doubles: TypeAlias = "NDArray[np.float64]"
Integers: TypeAlias = "NDArray[np.int64]"
