"""Rows of a feature map that are mapped again in every read: for more rows than memory holds features of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators.dense import rows_of_segment
from okl.accelerated.operators.protocol import signs_of
from okl.compiled.blocks import as_compiled, run_threads
from okl.compiled.door import one_blas_thread
from okl.compiled.rowpasses import add_rows, multiply_rows
from okl.compiled.steps import inner, squared_distance
from okl.features.protocol import FeatureMap, check_inputs
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class MappedInputs:
    """A = [s_1 z(x_1), ..., s_m z(x_m)] of inputs in memory and a map: slower reads than DenseRows', of the same bits.

    Parameters
    ----------
    inputs : (m, n_inputs), finite; labels : (m,), -1 or +1
    feature_map : z; n_threads : int >= 1; the same bits for any

    Raises
    ------
    DataError : inputs that are not of the map, labels that are not both -1 and +1
    """

    inputs: FloatArray
    labels: FloatArray
    feature_map: FeatureMap
    n_threads: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", as_compiled(self.inputs, self.feature_map.precision))
        object.__setattr__(self, "labels", signs_of(self.labels))
        check_inputs(self.feature_map, self.inputs)

    @property
    def signs(self) -> FloatArray:
        """The labels, (m,)."""
        return self.labels

    @property
    def n_points(self) -> int:
        """Rows."""
        return len(self.inputs)

    @property
    def n_image(self) -> int:
        """Columns of the map."""
        return self.feature_map.n_columns

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (n_columns,) by A a, summed segment by segment."""
        parts = self._parts

        def work(index: int, cut: slice, features: FloatArray) -> None:
            parts[index] = 0.0
            add_rows(parts[index], features, self.signs[cut], point[cut])

        self._by_segments(work)
        out[:] = 0.0
        for part in parts:  # in order of the segments, whoever summed them
            out += part

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m,) by A'v."""
        self._by_segments(lambda _, cut, features: multiply_rows(out[cut], features, self.signs[cut], image))

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """||v||^2."""
        return float(inner(image, image))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """||v - v'||^2."""
        return float(squared_distance(image, other_image))

    def squared_lengths(self) -> NDArray[np.float64]:
        """||z_i||^2, (m,)."""
        lengths = np.empty(self.n_points)

        def work(index: int, cut: slice, features: FloatArray) -> None:
            lengths[cut] = np.einsum("ij,ij->i", features, features, dtype=np.float64)

        self._by_segments(work)
        return lengths

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """w = scale v, (n_columns,)."""
        return scale * image

    @cached_property
    def _parts(self) -> NDArray[np.float64]:
        return np.zeros((-(-self.n_points // rows_of_segment(self.n_points)), self.n_image))

    def _by_segments(self, work: Callable[[int, slice, FloatArray], None]) -> None:
        n_segments, rows = len(self._parts), rows_of_segment(self.n_points)
        n_threads = min(self.n_threads, n_segments)

        def run(thread: int) -> None:
            for index in range(thread, n_segments, n_threads):
                cut = slice(index * rows, (index + 1) * rows)
                work(index, cut, self.feature_map.transform(self.inputs[cut]))

        with one_blas_thread():
            run_threads(n_threads, run)
