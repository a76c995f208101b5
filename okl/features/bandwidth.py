"""A bandwidth from the data: the median distance of random pairs of rows; and the kernel with it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse

from okl.features.base import as_inputs
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.kernels import NamedKernel, check_bandwidth, kernel_class, kernel_parameters, make_kernel

_PAIRS, _NUMBERS = 20_000, 20_000_000  # and of dense inputs in all: distances of many inputs are alike
_SEED = 20160417  # any fixed number: the same sample gives the same bandwidth


def median_distance(sample: Any, power: Literal[1, 2] = 2) -> float:
    """Return the median Euclidean distance of pairs of different rows, in units of the inputs; 1.0 if all are equal.

    Every row is paired with rows a few random shifts away, about 20,000 pairs in all, fewer of over 1,000 inputs, so
    that every row takes part equally often. Equal rows have no information on the scale and are left out.

    sample : (rows, n_inputs), finite, dense or sparse
    power : 1 for the sum of absolute differences in place of the Euclidean distance
    Raises DataError : the sample has no rows, or is not a matrix

    Source: the median heuristic, as in Gretton et al., JMLR 13, 2012, section 8.
    """
    if sample.ndim != 2 or sample.shape[0] == 0:
        raise DataError(
            f"The sample for a bandwidth has shape {sample.shape}; expected (rows, inputs) with at least one row."
        )
    rows, n_rows = as_inputs(sample, "float64"), sample.shape[0]
    shifts = np.arange(1, n_rows)
    pairs = _PAIRS if sparse.issparse(rows) else min(_PAIRS, _NUMBERS // max(1, rows.shape[1]))
    wanted = max(1, pairs // n_rows)
    if len(shifts) > wanted:
        shifts = np.random.default_rng(_SEED).choice(shifts, size=wanted, replace=False)
    lengths = [np.zeros(1)]
    for shift in shifts:
        difference = rows - rows[np.roll(np.arange(n_rows), int(shift))]
        if sparse.issparse(difference):
            lengths.append(np.asarray((abs(difference) ** power).sum(axis=1)) ** (1.0 / power))
        elif power == 1:
            lengths.append(np.abs(difference, out=difference).sum(axis=1))
        else:
            lengths.append(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
    distances = np.concatenate(lengths)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def kernel_with_bandwidth(
    name: str, bandwidth: float | None, sample: FloatArray, degree: int = 3, offset: float = 1.0
) -> tuple[NamedKernel, dict[str, Any]]:
    """Build a kernel of KERNELS that suits a sample (rows, n_inputs); return it with its bandwidth and the reason.

    bandwidth : None for the median distance, in the kernel's own measure of it; a polynomial kernel takes it as the
        unit of the inputs, scale = bandwidth^-2; the linear kernel has none
    degree, offset : of the polynomial kernel
    Raises ConfigError : the kernel is unknown, or a parameter is out of range
    Raises DataError : the sample has no rows
    """
    if not {"bandwidth", "scale"} & set(kernel_parameters(name)):
        if bandwidth is not None:
            raise ConfigError(f"bandwidth = {bandwidth:g} is set, but the kernel {name!r} has no bandwidth. Remove it.")
        return kernel_of_bandwidth(name, 1.0), {}
    why = "as given"
    if bandwidth is None:
        bandwidth = median_distance(sample, kernel_class(name).power)
        why = f"median distance of {sample.shape[0]:,} sampled rows"
    return kernel_of_bandwidth(name, bandwidth, degree, offset), {"bandwidth": bandwidth, "bandwidth_reason": why}


def kernel_of_bandwidth(name: str, bandwidth: float, degree: int = 3, offset: float = 1.0) -> NamedKernel:
    """Return the kernel of KERNELS with a bandwidth, as far as it has one; errors as for `kernel_with_bandwidth`."""
    parameters = kernel_parameters(name)
    check_bandwidth(bandwidth)
    given = {"bandwidth": bandwidth, "scale": bandwidth**-2, "degree": degree, "offset": offset}
    return make_kernel(name, {parameter: given[parameter] for parameter in parameters})
