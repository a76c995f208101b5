"""What takes part in a race: scalings, kernels and bandwidths of kernel least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace

from okl.store.dataset import Scale

FACTORS: dict[str, tuple[float, ...]] = {
    "gaussian": (0.25, 0.5, 1.0, 2.0),
    "laplacian": (0.5, 1.0, 2.0, 4.0),
    "matern32": (0.25, 1.0, 4.0),
}
"""Of the median distance, by kernel."""

_NEXT = 2.0**0.5


@dataclass(frozen=True)
class Candidate:
    """One of a race. scale : of inputs; kernel : by name; factor : bandwidth over the median distance of the sample"""

    scale: Scale
    kernel: str
    factor: float = 1.0

    @property
    def name(self) -> str:
        """In words."""
        scaling = {"none": "unscaled inputs", "standard": "standardised inputs", "minmax": "inputs scaled to 0 .. 1"}
        if self.kernel == "linear":
            return f"linear, {scaling[self.scale]}"
        return f"{self.kernel} kernel, {self.factor:.3g} of the median distance, {scaling[self.scale]}"

    def neighbours(self) -> tuple[Candidate, ...]:
        """The same with a bandwidth 2^(1/2) times smaller, and larger: half a step, for Matern a quarter."""
        if self.kernel == "linear":
            return ()
        return replace(self, factor=self.factor / _NEXT), replace(self, factor=self.factor * _NEXT)


def field(scales: tuple[Scale, ...]) -> list[Candidate]:
    """All that start. Linear models come first: of equals the first is kept."""
    linear = [Candidate(scale, "linear") for scale in scales]
    curved = [
        Candidate(scale, kernel, factor)
        for kernel, factors in FACTORS.items()
        for factor in factors
        for scale in scales
    ]
    return linear + curved
