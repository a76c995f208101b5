"""A model's set, spread over the rows of a shard: each answers sums at candidate multipliers, and takes the prox."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.barriers import EntropyBarrier, RootsBarrier
from okl.accelerated.regions import Box, BoxHyperplane, Region, SimplexPair
from okl.compiled.proximal import entropy_prox, entropy_sum, roots_prox, roots_sum
from okl.compiled.shardsums import clip_by_sign, clipped_sums
from okl.errors import ConfigError
from okl.types import FloatArray, IntArray

Sums = NDArray[np.float64]


class ShardRegion(Protocol):
    """The part of a set, or of a barrier on one, that the rows of a shard are.

    sums : (n_multipliers, K, 3) at candidates (n_multipliers, K): the hyperplane's sum, how fast it falls as the
        multiplier grows, and the size of its terms
    prox : overwrite out (m,) at multipliers (n_multipliers,)
    """

    def value(self, point: FloatArray) -> float: ...

    def sums(self, point: FloatArray, lipschitz: float, candidates: FloatArray) -> Sums: ...

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None: ...


@dataclass(frozen=True, eq=False)
class Clipped:
    """0 <= a_i <= upper_i, with hyperplanes of normals (n_multipliers, 2), one number a sign, +1 first.

    signs, upper : (m,)
    """

    signs: FloatArray
    upper: FloatArray
    normals: FloatArray

    def value(self, point: FloatArray) -> float:
        """0."""
        return 0.0

    def sums(self, point: FloatArray, lipschitz: float, candidates: FloatArray) -> Sums:
        """Each normal's sum: entries with the sign +1 and -1 count by their number in it."""
        found = np.zeros((len(self.normals), candidates.shape[1], 3))
        for k, normal in enumerate(self.normals):
            sums = np.zeros((2, candidates.shape[1], 2))
            thresholds = np.ascontiguousarray(normal[:, np.newaxis] * candidates[k])
            clipped_sums(sums, point, self.signs, self.upper, thresholds)
            found[k, :, 0] = normal @ sums[:, :, 0]
            found[k, :, 1] = np.square(normal) @ sums[:, :, 1]
            found[k, :, 2] = np.abs(normal) @ sums[:, :, 0]
        return found

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None:
        """Subtract the multipliers' share of each sign and clip."""
        plus, minus = multipliers @ self.normals if len(self.normals) else (0.0, 0.0)
        clip_by_sign(out, point, self.signs, self.upper, float(plus), float(minus))


@dataclass(frozen=True, eq=False)
class EntropyPart:
    """The entropy of 0 <= a_i <= upper_i, whose signed sum is bound; see EntropyBarrier."""

    signs: FloatArray
    upper: FloatArray

    def value(self, point: FloatArray) -> float:
        """The sum of entropies."""
        return float(entropy_sum(point, self.upper))

    def sums(self, point: FloatArray, lipschitz: float, candidates: FloatArray) -> Sums:
        """The signed sum."""
        tried = [self._at(self._room, point, lipschitz, float(multiplier)) for multiplier in candidates.ravel()]
        return np.array(tried).reshape(*candidates.shape, 3)

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None:
        """At one multiplier, or none."""
        self._at(out, point, lipschitz, float(multipliers[0]) if len(multipliers) else 0.0)

    def _at(
        self, out: FloatArray, point: FloatArray, lipschitz: float, multiplier: float
    ) -> tuple[float, float, float]:
        # afresh: what comes out must not depend on which multipliers were tried before
        return entropy_prox(out, self._logits, point, self.signs, self.upper, lipschitz, multiplier, True)

    @cached_property
    def _logits(self) -> FloatArray:
        return np.empty(len(self.signs))

    @cached_property
    def _room(self) -> FloatArray:
        return np.empty(len(self.signs))


@dataclass(frozen=True, eq=False)
class RootsPart:
    """The roots -2 sqrt(scale_i a_i) over 0 <= a_i <= upper_i, whose signed sum is bound; see RootsBarrier."""

    signs: FloatArray
    scales: FloatArray
    upper: FloatArray

    def value(self, point: FloatArray) -> float:
        """The sum of roots."""
        return float(roots_sum(point, self.scales))

    def sums(self, point: FloatArray, lipschitz: float, candidates: FloatArray) -> Sums:
        """The signed sum."""
        tried = [self._at(self._room, point, lipschitz, float(multiplier)) for multiplier in candidates.ravel()]
        return np.array(tried).reshape(*candidates.shape, 3)

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None:
        """At one multiplier, or none."""
        self._at(out, point, lipschitz, float(multipliers[0]) if len(multipliers) else 0.0)

    def _at(
        self, out: FloatArray, point: FloatArray, lipschitz: float, multiplier: float
    ) -> tuple[float, float, float]:
        return roots_prox(out, point, self.signs, self.scales, self.upper, lipschitz, multiplier)

    @cached_property
    def _room(self) -> FloatArray:
        return np.empty(len(self.signs))


def spread(values: float | FloatArray, groups: IntArray) -> NDArray[np.float64]:
    """A number, or one a group, as one a row (m,); groups (m,) are those of the rows."""
    given = np.ravel(np.asarray(values, dtype=np.float64))
    if len(given) == 1:
        return np.full(len(groups), given[0])
    values_of_rows: NDArray[np.float64] = given[groups]
    return values_of_rows


def normals_of(region: Region) -> tuple[FloatArray, FloatArray]:
    """Normals (n_multipliers, 2) by sign of the hyperplanes of a prototype's region, +1 first; the sums they bind.

    Raises
    ------
    ConfigError : no shard knows how to project onto such a region
    """
    if isinstance(region, BoxHyperplane):
        return np.asarray(region.signs[:2], dtype=np.float64).reshape(1, 2), np.array([region.total])
    if isinstance(region, SimplexPair):
        return np.eye(2), np.array([region.plus, region.minus])
    if isinstance(region, EntropyBarrier | RootsBarrier) and region.hyperplane:
        return np.array([[1.0, -1.0]]), np.zeros(1)
    if isinstance(region, Box | EntropyBarrier | RootsBarrier):
        return np.empty((0, 2)), np.empty(0)
    raise ConfigError(f"Shards cannot project onto {type(region).__name__}; train this model in memory.")


def upper_of(region: Region) -> NDArray[np.float64]:
    """The largest entry of a row of each group (n_groups,), or (1,), of a region that `normals_of` takes."""
    assert isinstance(region, Box | BoxHyperplane | SimplexPair | EntropyBarrier | RootsBarrier)
    return np.ravel(np.asarray(region.upper, dtype=np.float64))


def part_of(region: Region, signs: FloatArray, groups: IntArray) -> ShardRegion:
    """A prototype's region, spread over rows of these signs and groups."""
    upper = spread(upper_of(region), groups)
    if isinstance(region, EntropyBarrier):
        return EntropyPart(signs, upper)
    if isinstance(region, RootsBarrier):
        return RootsPart(signs, spread(region.scales, groups), upper)
    return Clipped(signs, upper, normals_of(region)[0])
