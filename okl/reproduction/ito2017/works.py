"""Pieces of work on the data sets of the paper: a run of the method, and the constants of its problem."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.accelerated.models.logistic import LogisticRegression
from okl.accelerated.models.mmmpm import MMMPM, mpm_kappa_max
from okl.accelerated.models.nusvm import NuSVM
from okl.accelerated.moments import class_moments
from okl.accelerated.operators import DenseRows, KernelMatrix, RowOperator, SparseRows
from okl.compiled.door import one_blas_thread
from okl.execution.protocol import Rows
from okl.kernels import Gaussian
from okl.reproduction.folder import Folder
from okl.reproduction.items import Outcome
from okl.reproduction.ito2017.cases import Case
from okl.reproduction.ito2017.running import compile_parts, run
from okl.reproduction.ito2017.validation import DENSITY
from okl.types import FloatArray, Precision

KERNEL_ROWS = 10_000  # whose kernel matrix is held
PAPER_MARGIN = 1e-4  # xi, of logistic regression
_ROUNDS, _SETTLED = 500, 1e-8  # of power iteration


@dataclass(frozen=True)
class CaseItem(ABC):
    """Work on all rows of a data set, told from others by its fields."""

    case: Case
    n_rows: int
    precision: Precision

    @property
    def name(self) -> str:
        """Readable and unique."""
        return "--".join([self.case.printed, *(str(value) for value in self._own.values())])

    @property
    def dataset(self) -> str:
        """The file it reads."""
        return self.case.file

    @property
    def rows(self) -> int:
        """Rows that it learns."""
        return self.n_rows

    @property
    def cost(self) -> float:
        """Entries of the inputs."""
        return float(self.n_rows * self.case.paper_columns)

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        return {**self.case.describe(), "precision": self.precision, "rows": self.n_rows, **self._own}

    @abstractmethod
    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Do the work."""

    @property
    def _own(self) -> dict[str, Any]:
        shared = ("case", "n_rows", "precision")
        return {"work": type(self).__name__} | {k: v for k, v in asdict(self).items() if k not in shared}


@dataclass(frozen=True)
class MarginItem(CaseItem):
    """nu-SVM or logistic regression with C, as in Tables 4, 5 and 8; logistic regression keeps off its border by xi."""

    model: Literal["nu_svm", "logistic"]
    parameter: float
    kernel: Literal["linear", "rbf"] = "linear"

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """The run, and the largest eigenvalue of the dual's matrix with the labels of the paper's file."""
        rows = self.case.rows(folder, self.precision)
        operator = _operator(rows, self.kernel)
        problem = (
            NuSVM(self.parameter).problem(operator)
            if self.model == "nu_svm"
            else LogisticRegression(self.parameter, margin=PAPER_MARGIN).problem(operator)
        )
        codes = self.case.coded(rows.targets, kernel=self.kernel != "linear")
        compile_parts(problem)
        outcome = run(problem, check).outcome()
        return outcome | {"lipschitz": largest_eigenvalue(operator, codes)}


@dataclass(frozen=True)
class MinimaxItem(CaseItem):
    """MM-MPM at half of kappa_max, as in Table 10."""

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """The run, kappa_max, the largest eigenvalue of the sum of the covariances, and seconds of the moments."""
        rows = self.case.rows(folder, self.precision)
        begun = time.perf_counter()
        moments = class_moments(DenseRows(rows.inputs, rows.targets))
        kappa_max = mpm_kappa_max(moments)
        prepared = time.perf_counter() - begun
        problem = MMMPM(0.5 * kappa_max).problem_of(moments)
        with one_blas_thread():
            values = np.linalg.eigvalsh(moments.positive.covariance + moments.negative.covariance)
        compile_parts(problem)
        outcome = run(problem, check).outcome()
        return outcome | {"kappa_max": kappa_max, "lipschitz": float(values[-1]), "moment_seconds": prepared}


def largest_eigenvalue(operator: RowOperator, codes: NDArray[np.float64]) -> float:
    """Largest eigenvalue of (c_i c_j k(x_i, x_j)): exact for explicit rows, by power iteration for a kernel matrix."""
    with one_blas_thread():
        if isinstance(operator, KernelMatrix):
            return _by_power(operator.matrix, np.abs(codes).astype(operator.matrix.dtype))
        explicit = operator.rows  # type: ignore[attr-defined]
        if sparse.issparse(explicit):
            coded = explicit.astype(np.float64).multiply(codes[:, np.newaxis]).tocsr()
            gram = (coded.T @ coded).toarray()
        else:
            coded = explicit * codes[:, np.newaxis]
            gram = coded.T @ coded
        return float(np.linalg.eigvalsh(gram)[-1])


def _by_power(matrix: FloatArray, codes: FloatArray) -> float:
    # entries of a Gaussian kernel matrix are above 0, and so is its first eigenvector: signs of labels do not matter
    vector = codes / np.linalg.norm(codes)
    value = 0.0
    for _ in range(_ROUNDS):
        following = codes * (matrix @ (codes * vector))
        before, value = value, float(np.linalg.norm(following))
        vector = following / value
        if abs(value - before) <= _SETTLED * value:
            break
    return value


def _operator(rows: Rows, kernel: str) -> RowOperator:
    if kernel == "rbf":
        # LIBSVM's own width, which gives the eigenvalues that Table 5 prints
        bandwidth = math.sqrt(0.5 * rows.inputs.shape[1])
        return KernelMatrix(Gaussian(bandwidth), rows.inputs, rows.targets, precision="float32")
    if np.count_nonzero(rows.inputs) < DENSITY * rows.inputs.size:
        return SparseRows(sparse.csr_array(rows.inputs), rows.targets)
    return DenseRows(rows.inputs, rows.targets)
