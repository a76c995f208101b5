"""Kernel expansions f(x) = sum_s a_s k(s, x) + b: what learners with support vectors leave to score rows with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import MOST_ROWS, aligned_empty, as_compiled, run_threads
from okl.compiled.kernelrule import KernelRule
from okl.compiled.kernelsums import add_kernel_sums
from okl.compiled.projection import panels_of
from okl.errors import ConfigError, DataError, ModelError
from okl.kernels import Kernel, describe_kernel, kernel_from_description
from okl.types import FloatArray, Precision

CHUNK = 512  # supports whose kernel values with a block of rows stay in the second-level cache


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """A predictor: scores are sums of kernel values with support vectors.

    Parameters
    ----------
    kernel : with a rule for compiled code
    supports : (n_supports, n_inputs), float32 or float64; n_supports may be 0: all scores are then 0
    coefficients : (n_outputs, n_supports) of that precision; one output for two classes and for regression
    offsets : (n_outputs,) of that precision; None: 0

    Raises
    ------
    ConfigError : supports and coefficients do not fit together, or the kernel has no rule
    """

    kernel: Kernel
    supports: FloatArray
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
        if self.kernel.rule is None:
            raise ConfigError(f"The kernel {self.kernel.name!r} has no rule for compiled code; use another one.")

    @property
    def n_inputs(self) -> int:
        """Columns of the inputs."""
        return int(self.supports.shape[1])

    @property
    def n_outputs(self) -> int:
        """Scores a row."""
        return int(self.coefficients.shape[0])

    @property
    def precision(self) -> Precision:
        """Of its supports, and so of its inputs."""
        return "float32" if self.supports.dtype == np.float32 else "float64"

    @property
    def n_supports(self) -> int:
        """Support vectors."""
        return int(self.supports.shape[0])

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Scores before any link, (rows,) for one output, (rows, n_outputs) for several, of inputs (rows, n_inputs).

        The same bits for a row in any block and for any number of threads.

        Raises
        ------
        DataError : the inputs have other columns
        """
        inputs = as_compiled(inputs, self.supports.dtype)
        if inputs.ndim != 2 or inputs.shape[1] != self.n_inputs:
            raise DataError(
                f"The expansion takes inputs of shape (rows, {self.n_inputs}), but {inputs.shape} came. "
                "Give it the columns it was learnt from."
            )
        scores = np.empty((len(inputs), self.n_outputs), dtype=self.supports.dtype)
        n_threads = max(1, min(n_threads, -(-len(inputs) // MOST_ROWS)))

        def score(thread: int) -> None:
            values = aligned_empty((MOST_ROWS, min(CHUNK, max(1, self.n_supports))), self.supports.dtype)
            for first in range(thread * MOST_ROWS, len(inputs), n_threads * MOST_ROWS):
                block = inputs[first : first + MOST_ROWS]
                scores[first : first + MOST_ROWS] = kernel_sums(block, self._chunks, self._rule, values)

        run_threads(n_threads, score)
        if self.offsets is not None:
            scores += self.offsets
        return scores[:, 0] if self.n_outputs == 1 else scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store, by name."""
        offsets = {} if self.offsets is None else {"offsets": self.offsets}
        return {"supports": self.supports, "coefficients": self.coefficients, **offsets}

    def describe(self) -> dict[str, Any]:
        """The rest of it, as JSON, or ConfigError for a kernel of the user's own."""
        return {"kind": "expansion", "kernel": describe_kernel(self.kernel)}

    @property
    def _rule(self) -> KernelRule:
        assert self.kernel.rule is not None
        return self.kernel.rule

    @cached_property
    def _chunks(self) -> list[tuple[FloatArray, FloatArray]]:
        return [
            pack_chunk(self.supports[first : first + CHUNK], self.coefficients[:, first : first + CHUNK])
            for first in range(0, self.n_supports, CHUNK)
        ]


def pack_chunk(supports: FloatArray, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Supports (n, n_inputs) and coefficients (n_outputs, n) as `kernel_sums` takes them."""
    return panels_of(supports.T), as_compiled(coefficients, coefficients.dtype)


def kernel_sums(
    inputs: FloatArray, chunks: list[tuple[FloatArray, FloatArray]], rule: KernelRule, buffer: FloatArray
) -> NDArray[np.float64]:
    """Sums over the supports of all chunks, (rows, n_outputs), of inputs (rows, n_inputs).

    buffer : (at least rows, CHUNK) or as many columns as the widest chunk has; changed
    """
    n_outputs = chunks[0][1].shape[0] if chunks else 1
    sums = np.zeros((len(inputs), n_outputs))
    for panels, coefficients in chunks:
        n_values = len(inputs) * coefficients.shape[1]
        values = buffer.reshape(-1)[:n_values].reshape(len(inputs), coefficients.shape[1])
        add_kernel_sums(sums, values, inputs, panels, coefficients, rule)
    return sums


def expansion_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str) -> KernelExpansion:
    """Rebuild an expansion from `describe()` and `arrays()`, or raise ModelError; runs no stored code."""
    try:
        kernel = kernel_from_description(description["kernel"])
        return KernelExpansion(kernel, arrays["supports"], arrays["coefficients"], arrays.get("offsets"))
    except (KeyError, ConfigError) as error:
        raise ModelError(f"{where}: the kernel expansion is damaged ({error}). Train the model again.") from None
