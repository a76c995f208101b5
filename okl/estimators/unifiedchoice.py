"""Which space a model is learnt in, once its rows are there: by the names that people give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.checks import check_choice
from okl.errors import ConfigError
from okl.estimators.parameters import whole_number
from okl.estimators.unifiedspaces import ColumnSpace, KernelSpace
from okl.features.bandwidth import suit_kernel
from okl.features.protocol import FeatureMap
from okl.kernels import Kernel
from okl.online.maps import FourierChoice, LinearChoice, NystromChoice
from okl.store.dataset import Schema
from okl.types import FloatArray, Precision

# names of maps, and of how a Fourier map is drawn
_DRAWS = {"fourier": "independent", "orthogonal": "orthogonal", "quasi": "quasi", "structured": "structured"}
MAP_NAMES = (*_DRAWS, "nystrom")
MapGiven = str | FeatureMap | FourierChoice | NystromChoice | LinearChoice | None


@dataclass(frozen=True)
class SpaceChoice:
    """What was asked for: a kernel and a map, either of which may be none; parameters as in UnifiedClassifier."""

    kernel: str | Kernel
    bandwidth: float | None
    degree: int
    offset: float
    feature_map: MapGiven
    n_columns: int
    memory_budget: int

    @property
    def is_plain(self) -> bool:
        """Whether inputs stay as they are, which may then be sparse."""
        return isinstance(self.kernel, str) and self.kernel == "linear" and self.feature_map is None

    @property
    def is_exact_kernel(self) -> bool:
        """Whether rows are known by a kernel matrix alone."""
        return self.feature_map is None and not self.is_plain

    def settle(
        self, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[ColumnSpace | KernelSpace, dict[str, Any]]:
        """The space, and what was chosen by a sample of the inputs (rows, n_features), with the reason.

        Raises
        ------
        ConfigError : an unknown name, a parameter out of range or without effect, a map that does not take the kernel
        """
        if self.is_plain:
            self._refuse_beside("the linear kernel", self.bandwidth is not None)
            return ColumnSpace(), {}
        if self.feature_map is None:
            kernel, chosen = self._kernel(sample)
            return KernelSpace(kernel, whole_number("memory_budget", self.memory_budget)), chosen
        choice = self._map_choice(len(sample))
        if not isinstance(choice, FourierChoice | NystromChoice | LinearChoice):
            return ColumnSpace(_checked_map(choice, sample.shape[1])), {}
        features = tuple(f"x{index}" for index in range(sample.shape[1]))
        drawn, chosen = choice.draw(Schema(features, "y", "binary", (0, 1)), sample, seed, precision)
        return ColumnSpace(drawn), chosen

    def _kernel(self, sample: FloatArray) -> tuple[Kernel, dict[str, Any]]:
        if isinstance(self.kernel, str):
            return suit_kernel(self.kernel, self.bandwidth, sample, self.degree, self.offset)
        self._refuse_beside(f"the kernel {self.kernel.name!r}, which has its own", self.bandwidth is not None)
        return self.kernel, {}

    def _map_choice(self, n_sampled: int) -> Any:
        if not isinstance(self.feature_map, str):
            other = self.kernel != "linear" or self.bandwidth is not None
            self._refuse_beside("a feature map that has a kernel of its own", other)
            return self.feature_map
        name = check_choice("feature_map", self.feature_map, MAP_NAMES)
        n_columns = whole_number("n_columns", self.n_columns)
        if name == "nystrom":
            held = min(n_columns, n_sampled)  # fewer rows than landmarks: as many as there are
            shape: dict[str, Any] = {"degree": self.degree, "offset": self.offset, "landmarks": "kmeans"}
            return NystromChoice(self.kernel, self.bandwidth, n_landmarks=held, rank=held, **shape)
        if not isinstance(self.kernel, str):
            raise ConfigError(f'feature_map = {name!r} takes a kernel by name; use "nystrom" for one of your own.')
        # a frequency makes two columns
        return FourierChoice(self.kernel, self.bandwidth, max(1, n_columns // 2), _DRAWS[name])

    def _refuse_beside(self, what: str, given: bool) -> None:
        if given:
            raise ConfigError(
                f"kernel = {self.kernel!r} and bandwidth = {self.bandwidth!r} came beside {what}: leave out what has "
                "no effect."
            )


def _checked_map(given: Any, n_features: int) -> FeatureMap:
    n_inputs = getattr(given, "n_inputs", None)
    if n_inputs is None or not callable(getattr(given, "transform", None)):
        raise ConfigError(
            f"feature_map = {given!r}, but it takes a map of okl.features, or one of {', '.join(MAP_NAMES)}."
        )
    if n_inputs != n_features:
        raise ConfigError(f"The feature map takes {n_inputs} inputs, but rows have {n_features}: draw it for these.")
    feature_map: FeatureMap = given
    return feature_map
