"""The feature map of an online learner, drawn from a sample of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from okl.data.dataset import Schema
from okl.features.bandwidth import kernel_of_bandwidth, kernel_with_bandwidth
from okl.features.base import FeatureMap
from okl.features.extension import draw_extension_map
from okl.features.fourier import DRAWS, draw_map, radial_kernel, suitable_draw
from okl.features.landmarks import Landmarks, choose_landmarks
from okl.features.linear import SparseInputs, StandardisedLinear
from okl.features.nystrom import fit_nystrom_map
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_at_least, check_choice
from okl.kernels import Kernel, shift_invariant
from okl.solvers.base import DrawnMap


@dataclass(frozen=True)
class FourierChoice:
    """A Fourier map of a shift-invariant kernel.

    kernel : gaussian, laplacian, matern32, matern52
    bandwidth : in units of the scaled inputs, None for the median distance of the sample
    n_frequencies : the map has 2 n_frequencies columns
    map : how frequencies are drawn: independent (the paper's), orthogonal, quasi, structured; or auto: structured from
        256 inputs where it is faster, otherwise orthogonal, or quasi for the Laplacian kernel
    Raises ConfigError : an unknown name, a kernel that is not shift-invariant, or one that the map does not take
    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; the median heuristic as in Gretton et al., JMLR 13, 2012, section 8;
    the other maps as in okl.features.fourier, quasi and structured.
    """

    kernel: str = "gaussian"
    bandwidth: float | None = None
    n_frequencies: int = 400
    map: str = "independent"

    def __post_init__(self) -> None:
        check_choice("map", self.map, {"auto", *DRAWS})
        some = shift_invariant(kernel_of_bandwidth(self.kernel, 1.0), "a Fourier map")
        if self.map in ("orthogonal", "structured"):
            radial_kernel(some, self.map)

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        """Return the map, and the bandwidth with its reason; with map auto also how it was drawn."""
        kernel, chosen = kernel_with_bandwidth(self.kernel, self.bandwidth, sample)
        if schema.sparse is not None:
            name, why = "independent", "for sparse rows: the other maps take in all columns"
        else:
            name = suitable_draw(kernel, schema.n_features, self.n_frequencies) if self.map == "auto" else self.map
            why = f"{schema.n_features:,} inputs, {self.n_frequencies:,} frequencies and the kernel {self.kernel}"
        feature_map = draw_map(name, kernel, schema.n_features, self.n_frequencies, seed, precision)
        if self.map == "auto":
            chosen |= {"map": name, "map_reason": why}
        return feature_map, chosen


@dataclass(frozen=True)
class ExtensionChoice:
    """A map that an extension has declared.

    map : its name; kernel, bandwidth : as for FourierChoice; whether they mean anything is the map's own
    n_frequencies : the map has 2 n_frequencies columns
    """

    map: str
    kernel: str = "gaussian"
    bandwidth: float | None = None
    n_frequencies: int = 400

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        kernel, chosen = kernel_with_bandwidth(self.kernel, self.bandwidth, sample)
        feature_map = draw_extension_map(self.map, kernel, schema.n_features, 2 * self.n_frequencies, seed, precision)
        return feature_map, chosen | {"map": self.map, "map_reason": f"as given, of {feature_map.origin}"}


@dataclass(frozen=True)
class NystromChoice:
    """A Nystrom map of any kernel, with landmarks from the sample, before the first row is learned.

    kernel : gaussian, laplacian, matern32, matern52, polynomial, linear; or a kernel itself, as one of the user's own
    bandwidth : in units of the scaled inputs, None for the median distance of the sample; for a polynomial kernel by
        name, (<x, x'> / bandwidth^2 + offset)^degree; none for a kernel that is given itself
    n_landmarks : at most the rows of the sample
    rank : columns of the map, at most n_landmarks; fewer where the kernel matrix cannot keep as many
    landmarks : uniform, kmeans or rpcholesky, as in okl.features.landmarks; degree, offset : of the polynomial kernel
    fewer : whether all rows of a smaller sample are taken
    Raises ConfigError : an unknown name, a rank above n_landmarks, a parameter out of range
    Source: Lu et al., JMLR 17(47), 2016, section 3.3; the landmarks as in okl.features.landmarks.
    """

    kernel: str | Kernel = "gaussian"
    bandwidth: float | None = None
    n_landmarks: int = 100
    rank: int = 20
    landmarks: Landmarks = "uniform"
    degree: int = 3
    offset: float = 1.0
    fewer: bool = False

    def __post_init__(self) -> None:
        check_choice("landmarks", self.landmarks, get_args(Landmarks))
        check_rank(self.rank, self.n_landmarks, "n_landmarks")
        refuse_bandwidth_with(self.kernel, self.bandwidth)
        if isinstance(self.kernel, str):
            kernel_of_bandwidth(self.kernel, 1.0, self.degree, self.offset)

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        """Return the map; its bandwidth, landmarks and rank with their reasons."""
        kernel, chosen = suitable_kernel(self.kernel, self.bandwidth, sample, self.degree, self.offset)
        number = min(self.n_landmarks, sample.shape[0]) if self.fewer else self.n_landmarks
        landmarks = choose_landmarks(kernel, sample, number, self.landmarks, seed)
        fitted = fit_nystrom_map(kernel, landmarks, min(self.rank, number), precision)
        why = "as given" if fitted.n_columns == self.rank else "the rank of the landmarks' kernel matrix"
        return fitted, {**chosen, "landmarks": number, "rank": fitted.n_columns, "rank_reason": why}


def check_rank(rank: int, n_landmarks: int, name: str) -> None:
    """Raise ConfigError if a map of n_landmarks, an option of this name, cannot have `rank` columns."""
    check_at_least(name, n_landmarks, 1)
    check_at_least("rank", rank, 1)
    if rank > n_landmarks:
        raise ConfigError(
            f"rank = {rank} is more than the {n_landmarks} landmarks allow. Set a rank of {n_landmarks} or less, or "
            f"a larger {name}."
        )


def suitable_kernel(
    kernel: str | Kernel, bandwidth: float | None, sample: FloatArray, degree: int, offset: float
) -> tuple[Kernel, dict[str, Any]]:
    """Return a kernel by name, for a bandwidth of None with that of a sample, or the one given; and what was chosen."""
    if isinstance(kernel, str):
        return kernel_with_bandwidth(kernel, bandwidth, sample, degree, offset)
    return kernel, {}


def refuse_bandwidth_with(kernel: str | Kernel, bandwidth: float | None) -> None:
    """Raise ConfigError for a bandwidth with a kernel that is given itself, not by name."""
    if bandwidth is not None and not isinstance(kernel, str):
        raise ConfigError(
            f"bandwidth = {bandwidth:g} is set, but the kernel {kernel.name!r} has its own. "
            "Remove it, or give the kernel by name."
        )


@dataclass(frozen=True)
class InputsChoice:
    """No kernel: inputs with the scaling of the data set; the constant column is 0, for models with a bias."""

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        if schema.sparse is not None:
            return SparseInputs(schema.n_features, precision), {}
        shift, factor = np.zeros(schema.n_features, dtype=precision), np.ones(schema.n_features, dtype=precision)
        return StandardisedLinear(shift, factor, 0.0), {}


@dataclass(frozen=True)
class LinearChoice:
    """No kernel: inputs standardised by the training rows' statistics, and a constant column. The linear baseline."""

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        return StandardisedLinear.of_schema(schema, precision), {}


@dataclass(frozen=True)
class SparseChoice:
    """Sparse rows as they are, and a constant column, for learners without a bias."""

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        return SparseInputs(schema.n_features, precision, 1.0), {}


@dataclass(frozen=True, eq=False)
class ChosenMap:
    """A map that was chosen already, with its description."""

    feature_map: FeatureMap
    chosen: dict[str, Any]

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        return self.feature_map, self.chosen
