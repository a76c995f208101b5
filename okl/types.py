"""Names for the arrays that cross module borders, and the two words for what a model predicts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Task = Literal["binary", "multiclass", "regression"]
Split = Literal["train", "test"]
Precision = Literal["float32", "float64"]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
