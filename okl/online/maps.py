"""Which feature map a solver draws once it has seen a sample of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from okl.features.bandwidth import median_distance
from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.features.protocol import FeatureMap
from okl.kernels import make_kernel
from okl.store.dataset import Schema
from okl.types import FloatArray, Precision


class MapChoice(Protocol):
    """Frozen configuration that becomes a feature map."""

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]:
        """The map, and what was chosen from the sample (rows, n_features), with the reason."""
        ...


@dataclass(frozen=True)
class FourierChoice:
    """A random Fourier map of a shift-invariant kernel.

    kernel : name of the kernel; bandwidth : in units of the scaled inputs, None for the median distance of the sample
    n_frequencies : the map has 2 n_frequencies columns

    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; the median heuristic as in Gretton et al., JMLR 13, 2012, section 8.
    """

    kernel: str = "gaussian"
    bandwidth: float | None = None
    n_frequencies: int = 400

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]:
        """The map, and the bandwidth with its reason."""
        bandwidth = median_distance(sample) if self.bandwidth is None else self.bandwidth
        why = f"median distance of {len(sample):,} sampled rows" if self.bandwidth is None else "as given"
        kernel = make_kernel(self.kernel, {"bandwidth": bandwidth})
        drawn = draw_fourier_map(kernel, schema.n_features, self.n_frequencies, seed, precision)
        return drawn, {"bandwidth": bandwidth, "bandwidth_reason": why}


@dataclass(frozen=True)
class LinearChoice:
    """No kernel: inputs standardised by the training rows' statistics, and a constant column. The linear baseline."""

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]:
        """The map; nothing was chosen."""
        return StandardisedLinear.of_schema(schema, precision), {}
