"""A sample in the space of an exact kernel, solved: where a run stands that has no map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from okl.execution.protocol import Rows
from okl.subgradient.vectors import Vector, inner_product
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class KernelDescent:
    """A sample that was solved as far as it is worth; a value.

    shares : through which the sample grew; sample : its rows, inputs (n, n_inputs)
    vector : coefficients (n,) or (n, n_outputs) of the rows, and K coefficients
    objective, lower_bound : the sampled optimum lies between; iterations : of all samples
    exhausted : whether rounding leaves no smaller gap
    """

    shares: tuple[float, ...]
    sample: Rows
    vector: Vector
    objective: float
    lower_bound: float
    iterations: int
    exhausted: bool

    @property
    def n_rows(self) -> int:
        """In the sample."""
        return len(self.sample.targets)

    @property
    def weights(self) -> FloatArray:
        """The coefficients."""
        return self.vector.coefficients

    @property
    def gap(self) -> float:
        """Of the sampled problem, >= 0."""
        return max(0.0, self.objective - self.lower_bound)

    @property
    def squared_length(self) -> float:
        """Of the point."""
        return inner_product(self.vector, self.vector)

    @cached_property
    def support(self) -> tuple[FloatArray, FloatArray]:
        """Rows with coefficients, (n_supports, n_inputs), and these, (n_outputs, n_supports)."""
        coefficients = self.vector.coefficients.reshape(self.n_rows, -1)
        supports = np.flatnonzero((coefficients != 0.0).any(axis=1))
        return self.sample.inputs[supports], np.ascontiguousarray(coefficients[supports].T)
