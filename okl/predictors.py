"""What is left of a solver after learning: something that scores blocks of inputs and knows how to be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from okl.compiled.linear import score_rows
from okl.errors import ModelError
from okl.features.protocol import FeatureMap
from okl.features.stored import map_from_stored
from okl.types import FloatArray


class Predictor(Protocol):
    """Scores blocks; all else is in the schema of the model that holds it."""

    @property
    def n_inputs(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray: ...

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]: ...

    def describe(self) -> dict[str, Any]: ...
