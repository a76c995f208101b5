"""Which maps take part: Fourier maps of several bandwidths and scalings that share frequencies, and a linear one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from okl.checks import check_at_least
from okl.errors import ConfigError, DataError
from okl.features.bandwidth import median_distance
from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.features.protocol import FeatureMap
from okl.kernels import ShiftInvariantKernel, kernel_from_description, kernel_parameters
from okl.types import FloatArray, Precision

WIDEST_OCTAVE, N_OCTAVES = 1, 5
_ALIKE = 1.05


@dataclass(frozen=True, eq=False)
class Candidates:
    """Maps that take part in a race.

    Parameters
    ----------
    bases : Fourier maps of the widest bandwidth, one for each scaling of the inputs, of one shape; may be empty
    n_octaves : int >= 1: each base comes with its bandwidth divided by 1, 2, 4, ...
    linear : a linear map, or None

    Raises
    ------
    ConfigError : there is no map at all, the maps differ in inputs or precision, or a kernel has no bandwidth
    """

    bases: tuple[FourierFeatures, ...]
    n_octaves: int = N_OCTAVES
    linear: StandardisedLinear | None = None

    def __post_init__(self) -> None:
        check_at_least("n_octaves", self.n_octaves, 1)
        every: list[FeatureMap] = [*self.bases, *([] if self.linear is None else [self.linear])]
        if not every:
            raise ConfigError("The grid of experts is empty. Give it a bandwidth, or a linear map.")
        shapes = {(candidate.n_inputs, candidate.precision) for candidate in every}
        if len(shapes) > 1 or len({base.n_columns for base in self.bases}) > 1:
            raise ConfigError(f"Experts take maps of one shape and precision, but these came: {sorted(shapes)}.")
        if any("bandwidth" not in vars(base.kernel) for base in self.bases):
            raise ConfigError("Experts of several bandwidths take kernels that have one.")

    @property
    def n_inputs(self) -> int:
        """Columns of the inputs."""
        return self._any.n_inputs

    @property
    def precision(self) -> Precision:
        """Of features and weights."""
        return self._any.precision

    def fourier(self, base: int, octave: int) -> FourierFeatures:
        """The base map with its bandwidth divided by 2^octave; what is packed for compiled code is kept."""
        return self._maps[base][octave]

    @cached_property
    def panels(self) -> FloatArray:
        """Packed frequencies of all bases, (bases, ...), as compiled code takes them."""
        return np.stack([self.fourier(base, 0).waves.panels for base in range(len(self.bases))])

    @cached_property
    def _maps(self) -> list[list[FourierFeatures]]:
        return [[narrowed(base, octave) for octave in range(self.n_octaves)] for base in self.bases]

    @property
    def _any(self) -> FeatureMap:
        if self.linear is not None:
            return self.linear
        return self.bases[0]


def narrowed(base: FourierFeatures, octave: int) -> FourierFeatures:
    """The map of a bandwidth 2^octave times narrower: frequencies times 2^octave, exactly."""
    factor = 2.0**octave
    bandwidth = float(vars(base.kernel)["bandwidth"]) / factor
    kernel = replace(base.kernel, bandwidth=bandwidth)  # type: ignore[type-var]
    return FourierFeatures(kernel, base.frequencies * base.frequencies.dtype.type(factor))


def draw_candidates(
    sample: FloatArray,
    n_frequencies: int,
    seed: int,
    precision: Precision = "float32",
    kernel: str = "gaussian",
    bandwidth: float | None = None,
) -> Candidates:
    """Maps whose bandwidths lie around the median distance, for inputs as they come and for standardised ones.

    Standardising is part of the frequencies: those of a column are divided by its standard deviation; a shift of the
    inputs changes no kernel of x - x'. Inputs of like spread get no map of their own for it.

    Parameters
    ----------
    sample : (rows, n_inputs), at random from the data
    n_frequencies : of each map; seed : the maps share one draw of frequencies
    kernel : name of a shift-invariant kernel
    bandwidth : in units of the inputs, None for the median distances; one that is given is the only one

    Raises
    ------
    ConfigError : the kernel has no spectral density, or a number is out of range
    DataError : the sample is empty
    """
    if "bandwidth" not in kernel_parameters(kernel):
        raise ConfigError(f"kernel = {kernel!r} has no bandwidth to choose. Use a shift-invariant kernel.")
    if sample.ndim != 2 or len(sample) == 0:
        raise DataError(f"Bandwidths are chosen from sampled rows, but a sample of shape {sample.shape} came.")
    deviations = sample.std(axis=0, dtype=np.float64)
    deviations[_constant(sample, deviations)] = 0.0
    linear = StandardisedLinear.of_columns(sample.mean(axis=0, dtype=np.float64), deviations, precision)
    if bandwidth is not None:
        base = draw_fourier_map(_kernel(kernel, bandwidth), sample.shape[1], n_frequencies, seed, precision)
        return Candidates((base,), 1, linear)
    factors = [np.ones(len(deviations))]
    if not _alike(deviations):
        factors.append(np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0))
    bases = (_scaled_map(kernel, sample, factor, n_frequencies, seed, precision) for factor in factors)
    return Candidates(tuple(bases), N_OCTAVES, linear)


def _kernel(name: str, bandwidth: float) -> ShiftInvariantKernel:
    kernel = kernel_from_description({"name": name, "bandwidth": bandwidth})
    assert isinstance(kernel, ShiftInvariantKernel)
    return kernel


def _scaled_map(
    kernel: str, sample: FloatArray, factor: FloatArray, n_frequencies: int, seed: int, precision: Precision
) -> FourierFeatures:
    widest = median_distance(sample * factor) * 2.0**WIDEST_OCTAVE
    drawn = draw_fourier_map(_kernel(kernel, widest), len(factor), n_frequencies, seed, "float64")
    return FourierFeatures(drawn.kernel, (drawn.frequencies * factor[:, None]).astype(precision))


def _constant(sample: FloatArray, deviations: FloatArray) -> Sequence[bool]:
    # rounding may leave a constant column a tiny deviation, whose inverse would swamp all other columns
    constant: Sequence[bool] = deviations <= 1e-7 * np.abs(sample).max(axis=0, initial=0.0)
    return constant


def _alike(deviations: FloatArray) -> bool:
    varying = deviations[deviations > 0]
    return len(varying) == 0 or float(varying.max()) <= _ALIKE * float(varying.min())
