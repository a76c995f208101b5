"""Nystrom features: a kernel's values with landmarks, turned so that inner products approximate the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.jit import as_compiled, one_blas_thread
from okl.compiled.kernels import Nystrom, as_nystrom, nystrom_transform
from okl.compiled.products import panels_of, project
from okl.compiled.threads import borrowed_block, rows_per_block
from okl.features.base import as_inputs, check_inputs, precision_of
from okl.foundation.class_tags import lasting_attributes, stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray, Precision
from okl.foundation.validation import check_at_least
from okl.kernels import Kernel, describe_kernel, kernel_diagonal, kernel_matrix


@stored("nystrom-features")
@dataclass(frozen=True, eq=False)
class NystromFeatures:
    """The map z(x) = k(x, landmarks) @ projection; `fit_nystrom_map` makes one whose z(x)'z(x') is about k(x, x').

    kernel : any positive definite kernel; one of the user's own is called through its `matrix`
    landmarks : (n_landmarks, n_inputs), in units of the input; a scipy.sparse.csr_array for sparse rows
    projection : (n_landmarks, n_columns); both float32 or both float64, which is the map's precision
    Raises ConfigError : the two are not non-empty matrices of one length and precision

    Source: Williams & Seeger, NIPS 2000, section 3; as used by Lu et al., JMLR 17(47), 2016, section 3.3.
    """

    kernel: Kernel
    landmarks: Any
    projection: FloatArray

    def __post_init__(self) -> None:
        precision_of(self.projection)
        shapes = self.landmarks.shape, self.projection.shape
        fit = all(len(shape) == 2 and 0 not in shape for shape in shapes) and shapes[0][0] == shapes[1][0]
        if not fit or self.landmarks.dtype != self.projection.dtype:
            raise ConfigError(
                f"Landmarks {shapes[0]} {self.landmarks.dtype} and projection {shapes[1]} {self.projection.dtype} must "
                "be (n_landmarks, n_inputs) and (n_landmarks, n_columns), none of them 0, in one precision."
            )

    __getstate__ = lasting_attributes

    @property
    def n_inputs(self) -> int:
        return int(self.landmarks.shape[1])

    @property
    def n_landmarks(self) -> int:
        """Return the number of rows whose kernel values with x make the features."""
        return int(self.landmarks.shape[0])

    @property
    def n_columns(self) -> int:
        """Return the number of columns of the features: the rank that was kept."""
        return int(self.projection.shape[1])

    @property
    def precision(self) -> Precision:
        return precision_of(self.projection)

    def transform(self, inputs: Any) -> FloatArray:
        """Return features of dense rows, or of sparse ones, which have sparse landmarks."""
        inputs = as_inputs(inputs, self.precision)
        if sparse.issparse(self.landmarks):
            inputs = sparse.csr_array(inputs)
        check_inputs(self, inputs)
        features = np.empty((inputs.shape[0], self.n_columns), dtype=inputs.dtype)
        if self._compiled is None:
            values = as_compiled(kernel_matrix(self.kernel, inputs, self._by_columns), inputs.dtype)
            project(features, values, self._projection_panels)
            return features
        rows = rows_per_block(self.n_landmarks, inputs.dtype.itemsize)
        with borrowed_block(rows, (self.n_landmarks, 0), inputs.dtype) as block:
            nystrom_transform(features, block.left, inputs, self._compiled, 0, 1)
        return features

    def residuals(self, inputs: FloatArray, features: FloatArray) -> Doubles:
        """Return k(x, x) - ||z(x)||^2 of rows and their features, (rows,), at least the rounding of k(x, x).

        Square roots of these are the distances of k(x, .) from the functions w'z, in the space of the kernel.
        """
        diagonal = kernel_diagonal(self.kernel, inputs)
        lengths = np.einsum("ij,ij->i", features, features, dtype=np.float64)
        residuals: Doubles = np.maximum(diagonal - lengths, np.finfo(features.dtype).eps * diagonal)
        return residuals

    @property
    def dense_landmarks(self) -> FloatArray:
        """Return the landmarks (n_landmarks, n_inputs) as an array."""
        dense: FloatArray = self.landmarks.toarray() if sparse.issparse(self.landmarks) else self.landmarks
        return dense

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return landmarks and projection: data, not a seed to choose them again."""
        if not sparse.issparse(self.landmarks):
            return {"landmarks": self.landmarks, "projection": self.projection}
        parts = zip(_PARTS, (self.landmarks.data, self.landmarks.indices, self.landmarks.indptr), strict=True)
        return {**dict(parts), "projection": self.projection}

    def describe(self) -> dict[str, Any]:
        """Return kind and kernel, or raise ConfigError for a kernel of the user's own, which cannot be stored."""
        columns = {"n_inputs": self.n_inputs} if sparse.issparse(self.landmarks) else {}
        return {"kind": "nystrom", "kernel": describe_kernel(self.kernel), **columns}

    @cached_property
    def _compiled(self) -> Nystrom | None:
        rule = self.kernel.rule
        if rule is None or sparse.issparse(self.landmarks):
            return None
        return as_nystrom(self.landmarks, rule, self.projection)

    @cached_property
    def _by_columns(self) -> Any:
        return self.landmarks.tocsc() if sparse.issparse(self.landmarks) else self.landmarks

    @cached_property
    def _projection_panels(self) -> FloatArray:
        return panels_of(self.projection)


_PARTS = ("landmark_values", "landmark_columns", "landmark_starts")


def landmarks_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the landmarks of a stored map, sparse ones by their parts."""
    if "n_inputs" not in description:
        return arrays["landmarks"]
    values, columns, starts = (arrays[name] for name in _PARTS)
    landmarks = sparse.csr_array((values, columns, starts), shape=(len(starts) - 1, int(description["n_inputs"])))
    landmarks.check_format()
    return landmarks


def fit_nystrom_map(kernel: Kernel, landmarks: Any, rank: int, precision: Precision = "float32") -> NystromFeatures:
    """Make the Nystrom map of some landmarks: their kernel matrix K has the top eigenpairs (D, V), and

    z(x) = D^(-1/2) V' k(landmarks, x),    z(x)'z(x') = k(x, landmarks) V D^(-1) V' k(landmarks, x')

    Columns come by falling eigenvalue, each with a sign that makes its largest entry positive. Eigenvalues that are not
    above n_landmarks * (rounding of `precision`) times the largest are noise that D^(-1/2) would blow up, and are left
    out: the map then has fewer columns than `rank`. Twice the same landmark does no harm.

    kernel : any positive definite kernel; landmarks : (n_landmarks, n_inputs), finite, dense or sparse
    rank : int >= 1, at most n_landmarks: the most columns of the map
    precision : of the map; eigenpairs are computed in float64
    Raises ConfigError : the rank is below 1 or above the number of landmarks
    Raises DataError : no landmarks; values that are not finite or not symmetric; or K is not positive definite, and
        fewer of its eigenvalues than the rank are above the size of its negative ones: the message states how many

    Source: Lu et al., JMLR 17(47), 2016, section 3.3 and Algorithm 2.
    """
    landmarks = as_inputs(landmarks, precision)
    if landmarks.ndim != 2 or 0 in landmarks.shape:
        raise DataError(f"Landmarks of a Nystrom map have shape (n_landmarks, n_inputs), but got {landmarks.shape}.")
    rank = check_at_least("rank", rank, 1)
    if rank > landmarks.shape[0]:
        raise ConfigError(
            f"rank = {rank}, but {landmarks.shape[0]} landmarks give a Nystrom map of at most that rank. Set the rank "
            f"to {landmarks.shape[0]} or less, or take more landmarks."
        )
    with one_blas_thread():  # bits depend on the number of threads
        eigenvalues, vectors = _top_eigenpairs(kernel, landmarks, rank, precision)
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(eigenvalues))]
    projection = vectors * (np.sign(largest) / np.sqrt(eigenvalues))
    return NystromFeatures(kernel, landmarks, np.ascontiguousarray(projection, dtype=precision))


def _top_eigenpairs(kernel: Kernel, landmarks: Any, rank: int, precision: Precision) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues (kept,), falling, and vectors (n_landmarks, kept) of the kernel matrix; 1 <= kept <= rank."""
    matrix = kernel_matrix(kernel, landmarks, landmarks)
    rounding = len(matrix) * float(np.finfo(precision).eps)
    _check_symmetric(kernel, matrix, rounding)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    noise = rounding * max(eigenvalues[0], 0.0)
    negative = -eigenvalues[-1]
    n_retained = int(np.count_nonzero(eigenvalues > max(noise, negative)))
    if n_retained == 0 or (negative > noise and n_retained < rank):
        advice = f"Set the rank to at most {n_retained}" if n_retained else "Check the landmarks"
        raise DataError(
            f"The {kernel.name!r} kernel matrix of {len(matrix)} landmarks is not positive definite: eigenvalues "
            f"reach from {eigenvalues[-1]:.3g} to {eigenvalues[0]:.3g}, which allows rank {n_retained}, not {rank}. "
            f"{advice}, or use a positive definite kernel."
        )
    n_retained = min(n_retained, rank)
    return eigenvalues[:n_retained], vectors[:, :n_retained]


def _check_symmetric(kernel: Kernel, matrix: FloatArray, rounding: float) -> None:
    if not np.isfinite(matrix).all():
        raise DataError(
            f"The kernel {kernel.name!r} has values between landmarks that are not finite. Scale the inputs, or use a "
            "kernel with smaller values."
        )
    difference = np.abs(matrix - matrix.T).max()
    if difference > rounding * np.abs(matrix).max():
        raise DataError(
            f"The kernel {kernel.name!r} is not symmetric: k(x, x') and k(x', x) of two landmarks differ by "
            f"{difference:.3g}. Use a symmetric kernel."
        )
