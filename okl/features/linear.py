"""No kernel at all: standardised inputs and a constant column, or sparse inputs as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.data.dataset import Schema
from okl.features.base import check_inputs, precision_of
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision


@stored("standardised-linear-features")
@dataclass(frozen=True, eq=False)
class StandardisedLinear:
    """The map z(x) = ((x - shift) * factor, constant), whose rows have a mean squared norm of about 1.

    shift, factor : (n_inputs,), float32 or float64, in units of the input and per unit of it; factor 0 ignores a column
    constant : the last column of every row
    Raises ConfigError : shift and factor do not have one shape and precision
    """

    shift: FloatArray
    factor: FloatArray
    constant: float

    def __post_init__(self) -> None:
        precision_of(self.factor)
        if self.shift.shape != self.factor.shape or self.shift.ndim != 1 or self.shift.dtype != self.factor.dtype:
            raise ConfigError(
                f"shift {self.shift.shape} {self.shift.dtype} and factor {self.factor.shape} {self.factor.dtype} must "
                "be two vectors of one length and precision."
            )

    @classmethod
    def of_columns(
        cls, means: FloatArray, standard_deviations: FloatArray, precision: Precision = "float32"
    ) -> StandardisedLinear:
        """Return the map of inputs with these means and standard deviations (n_inputs,), ignoring constant columns."""
        deviations = np.asarray(standard_deviations, dtype=np.float64)
        constant = (np.count_nonzero(deviations > 0) + 1) ** -0.5
        factor = np.divide(constant, deviations, out=np.zeros_like(deviations), where=deviations > 0)
        return cls(np.asarray(means).astype(precision), factor.astype(precision), float(constant))

    @classmethod
    def of_schema(cls, schema: Schema, precision: Precision = "float32") -> StandardisedLinear:
        """Return the map of a data set's inputs, after its scaling, by the statistics of its TRAIN rows."""
        shift, factor = schema.shift_and_factor
        columns = schema.input_statistics
        means = np.array([column.mean for column in columns])
        # rounding may leave a constant column a tiny deviation, whose inverse would swamp all other columns
        deviations = np.array([0.0 if column.constant else column.standard_deviation for column in columns])
        return cls.of_columns((means - shift) * factor, deviations * np.abs(factor), precision)

    @property
    def n_inputs(self) -> int:
        return int(self.factor.shape[0])

    @property
    def n_columns(self) -> int:
        """Return the number of columns of the features: the inputs and the constant."""
        return self.n_inputs + 1

    @property
    def precision(self) -> Precision:
        return precision_of(self.factor)

    def transform(self, inputs: FloatArray) -> FloatArray:
        inputs = np.asarray(inputs, dtype=self.factor.dtype)
        check_inputs(self, inputs)
        features = np.empty((len(inputs), self.n_columns), dtype=self.factor.dtype)
        np.subtract(inputs, self.shift, out=features[:, :-1])
        features[:, :-1] *= self.factor
        features[:, -1] = self.constant
        return features

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"shift": self.shift, "factor": self.factor}

    def describe(self) -> dict[str, Any]:
        return {"kind": "standardised-linear", "constant": self.constant}


@stored("sparse-inputs")
@dataclass(frozen=True)
class SparseInputs:
    """The map z(x) = x, or (x, constant), of sparse rows, which stay sparse.

    n_inputs : int >= 1; precision : of the rows
    constant : the last column of every row, for learners without a bias; 0 for none
    """

    n_inputs: int
    precision: Precision = "float32"
    constant: float = 0.0

    @property
    def n_columns(self) -> int:
        return self.n_inputs + (self.constant != 0.0)

    def transform(self, inputs: Any) -> Any:
        """Return sparse rows (rows, n_inputs) in this precision, also of dense ones; DataError for other columns."""
        check_inputs(self, inputs)
        rows = sparse.csr_array(inputs, dtype=self.precision)
        if not self.constant:
            return rows
        ends, starts = rows.indptr[1:], rows.indptr + np.arange(len(rows.indptr), dtype=rows.indptr.dtype)
        columns, values = np.insert(rows.indices, ends, self.n_inputs), np.insert(rows.data, ends, self.constant)
        return sparse.csr_array((values, columns, starts), shape=(rows.shape[0], self.n_columns))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    def describe(self) -> dict[str, Any]:
        described = {"kind": "sparse-inputs", "n_inputs": self.n_inputs, "precision": self.precision}
        return described | ({"constant": self.constant} if self.constant else {})
