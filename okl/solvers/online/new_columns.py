"""Columns that appear later in a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from okl.features.base import FeatureMap
from okl.features.fourier import FourierFeatures
from okl.features.nystrom import NystromFeatures
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_at_least
from okl.kernels import Kernel, shift_invariant
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.nystrom import NOGDLearner, NOGDState, SupportSet, reopened

LEAST_UNIFORM = 2.0**-54  # a generator may give 0, whose quantile is infinite


@dataclass(frozen=True)
class ColumnwiseFourier:
    """Random Fourier maps whose frequencies of a column depend on the seed and its name only, not on other columns.

    So a map of more columns agrees with one of fewer wherever the others are 0. Frequencies are quantiles of uniform
    numbers; those that all columns of a frequency share (the length of a Matern kernel's) are drawn apart.

    Parameters
    ----------
    kernel : shift-invariant kernel; supplies the spectral density
    n_frequencies : int >= 1; a map has 2 n_frequencies columns
    seed : int >= 0; precision : of frequencies and features

    Raises
    ------
    ConfigError : a size is below 1, or the kernel is not shift-invariant

    Source: Lu et al., JMLR 17(47), 2016, section 7.5 (novel features in FOGD); drawing by column is ours.
    """

    kernel: Kernel
    n_frequencies: int
    seed: int = 0
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_at_least("n_frequencies", self.n_frequencies, 1)
        check_at_least("seed", self.seed, 0)
        shift_invariant(self.kernel, "a Fourier map that takes in new columns")

    def draw(self, columns: Sequence[str]) -> FourierFeatures:
        """Return the map of inputs with these columns, (rows, len(columns)), each name once."""
        _check_names(columns)
        kernel = shift_invariant(self.kernel, "a Fourier map that takes in new columns")
        n_shared = kernel.n_uniforms(len(columns)) - len(columns)
        own = [self._uniforms(_key(name)) for name in columns]
        shared = [self._uniforms(number) for number in range(n_shared)]
        frequencies = kernel.frequencies_at(np.stack(own + shared, axis=1))
        return FourierFeatures(kernel, np.ascontiguousarray(frequencies, dtype=self.precision))

    def _uniforms(self, key: int) -> FloatArray:
        uniforms = np.random.default_rng((self.seed, key)).random(self.n_frequencies)
        return np.maximum(uniforms, LEAST_UNIFORM)


def widen_linear(
    learner: LinearLearner, before: Sequence[str], after: Sequence[str], source: ColumnwiseFourier | None = None
) -> LinearLearner:
    """Return the learner of rows with more columns.

    Its weights stay as they are, for the map has as many columns as before.

    Parameters
    ----------
    learner : with a Fourier map of `source`, or a Nystrom map, whose landmarks get 0 in new columns
    before, after : names of the inputs, in order: as they were, and with new ones anywhere between
    source : what drew the Fourier map

    Raises
    ------
    ConfigError : names do not fit, or the map was not drawn that way
    """
    return replace(learner, feature_map=widen_map(learner.feature_map, before, after, source))


def widen_nogd(
    learner: NOGDLearner,
    state: NOGDState,
    before: Sequence[str],
    after: Sequence[str],
    extra_budget: int = 0,
    extra_rank: int = 0,
) -> tuple[NOGDLearner, NOGDState]:
    """Learner and state of rows with more columns, in which the support vectors so far are 0.

    A radial kernel of landmarks that are 0 in a column sees its square only, and the linear kernel nothing of it.
    With extra_budget, the model continues as a kernel expansion, sum_i (w M)_i k(x_i, x), until that many further
    support vectors, which have the new columns, have come; all of them then make a new map.

    Parameters
    ----------
    before, after : names of the inputs, in order: as they were, and with new ones anywhere between
    extra_budget : further support vectors; extra_rank : further columns of the map made of all

    Raises
    ------
    ConfigError : names do not fit, or a size is below 0

    Source: Lu et al., JMLR 17(47), 2016, section 7.5; taking in further support vectors is ours.
    """
    places = _places(before, after, learner.n_inputs)
    check_at_least("extra_budget", extra_budget, 0)
    check_at_least("extra_rank", extra_rank, 0)
    if extra_budget > 0:
        state = reopened(state)
    supports = SupportSet(_scattered(state.supports.inputs, places, len(after)), state.supports.coefficients)
    feature_map = state.feature_map
    if feature_map is not None:
        feature_map = _widen_nystrom(feature_map, places, len(after))
    wider = replace(learner, n_inputs=len(after), budget=learner.budget + extra_budget, rank=learner.rank + extra_rank)
    return wider, replace(state, supports=supports, feature_map=feature_map)


def widen_map(
    feature_map: FeatureMap, before: Sequence[str], after: Sequence[str], source: ColumnwiseFourier | None = None
) -> FeatureMap:
    """Return the map of inputs with more columns, which agrees with the old one wherever the new ones are 0.

    Raises
    ------
    ConfigError : names do not fit, or a Fourier map was not drawn column by column
    """
    places = _places(before, after, feature_map.n_inputs)
    if isinstance(feature_map, NystromFeatures):
        return _widen_nystrom(feature_map, places, len(after))
    if isinstance(feature_map, FourierFeatures) and source is not None:
        wider = source.draw(after)
        if np.array_equal(wider.frequencies[places], feature_map.frequencies):
            return wider
    raise ConfigError(
        "The map cannot take new columns. Expected a Nystrom map, or a Fourier map with the "
        "ColumnwiseFourier that drew it: the same kernel, seed, size and names."
    )


def _widen_nystrom(feature_map: NystromFeatures, places: list[int], n_inputs: int) -> NystromFeatures:
    return replace(feature_map, landmarks=_scattered(feature_map.landmarks, places, n_inputs))


def _scattered(inputs: FloatArray, places: list[int], n_inputs: int) -> FloatArray:
    """Return rows (n, n_inputs) that hold inputs (n, len(places)) at places, 0 elsewhere."""
    wider: FloatArray = np.zeros((len(inputs), n_inputs), dtype=inputs.dtype)
    wider[:, places] = inputs
    return wider


def _places(before: Sequence[str], after: Sequence[str], n_inputs: int) -> list[int]:
    _check_names(before)
    _check_names(after)
    if len(before) != n_inputs:
        raise ConfigError(f"{len(before)} names are given for {n_inputs} inputs. Name every column, in order.")
    removed = [name for name in before if name not in set(after)]
    if removed:
        raise ConfigError(
            f"The column {removed[0]!r} was removed, but columns can only be added. Keep it, with 0 for missing values."
        )
    index = {name: position for position, name in enumerate(after)}
    return [index[name] for name in before]


def _check_names(columns: Sequence[str]) -> None:
    if not columns or len(set(columns)) != len(columns):
        raise ConfigError(f"columns = {list(columns)}; expected at least one name, and each name once.")


def _key(name: str) -> int:
    # beyond 2^32, so that no name meets the small keys of shared numbers
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") | 1 << 64
