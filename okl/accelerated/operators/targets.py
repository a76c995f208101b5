"""Rows with a target each, for regression: any operator of signed rows, with the signs taken back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.accelerated.operators.dense import DenseRows
from okl.accelerated.operators.kernelmatrix import KernelMatrix
from okl.accelerated.operators.protocol import RowOperator
from okl.accelerated.operators.sparse import SparseRows
from okl.errors import DataError
from okl.kernels import Kernel
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class TargetRows:
    """A = [z_1, ..., z_m] of the rows of another operator, whatever signs they have there.

    Parameters
    ----------
    rows : operator; its s_i undo themselves, as s_i s_i = 1
    targets : (m,), finite
    signs : (m,), all 1

    Raises
    ------
    DataError : as many targets as rows did not come, or they are not finite
    """

    rows: RowOperator
    targets: FloatArray
    signs: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        targets = np.ascontiguousarray(self.targets, dtype=np.float64)
        if targets.shape != (self.rows.n_points,) or not np.isfinite(targets).all():
            raise DataError(
                f"Targets of shape {targets.shape} came for {self.rows.n_points} rows: give one finite number a row."
            )
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "signs", np.ones(len(targets)))

    @property
    def n_points(self) -> int:
        """Rows."""
        return self.rows.n_points

    @property
    def n_image(self) -> int:
        """That of the operator."""
        return self.rows.n_image

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out by that of sum_i a_i z_i."""
        self.rows.image(out, self.rows.signs * point)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m,) by <z_i, sum_j a_j z_j>."""
        self.rows.pull(out, image)
        out *= self.rows.signs

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """||A a||^2."""
        return self.rows.squared_norm(self.rows.signs * point, image)

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """||A (a - b)||^2."""
        return self.rows.squared_gap(self.rows.signs * point, image, self.rows.signs * other, other_image)

    def squared_lengths(self) -> NDArray[np.float64]:
        """||z_i||^2, (m,)."""
        return self.rows.squared_lengths()

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Scale A a, or coefficients scale a_i."""
        return self.rows.weights(self.rows.signs * point, image, scale)


def target_rows(inputs: Any, targets: FloatArray, kernel: Kernel | None = None, n_threads: int = 1) -> TargetRows:
    """Rows of a regression: (m, n) dense or scipy.sparse, m >= 2, explicit or known by a kernel."""
    if len(targets) < 2:
        raise DataError(f"{len(targets)} rows came, but a regression takes at least two.")
    # signs that come in pairs are asked for, and undone
    signs = np.where(np.arange(len(targets)) % 2 == 0, 1.0, -1.0)
    if kernel is not None:
        return TargetRows(KernelMatrix(kernel, inputs, signs), targets)
    if sparse.issparse(inputs):
        return TargetRows(SparseRows(inputs, signs), targets)
    return TargetRows(DenseRows(inputs, signs, n_threads), targets)
