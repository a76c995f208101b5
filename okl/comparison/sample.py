"""The rows of a search: a seeded sample in memory, mapped, in an order whose beginning is as mixed as the whole."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.execution.protocol import Rows
from okl.execution.resident import resident
from okl.features.protocol import FeatureMap
from okl.features.scoring import transform_rows
from okl.store.dataset import Dataset
from okl.store.reading import sample_rows
from okl.types import FloatArray, Precision


class Part(NamedTuple):
    """Rows to learn and rows to be judged on; inputs as they are, features as the nine models take them."""

    inputs: FloatArray
    features: FloatArray
    targets: NDArray[np.float64]
    test_inputs: FloatArray
    test_features: FloatArray
    test_targets: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Which rows, in which order, in which folds: cheap to send, read from the data set where it is used.

    Parameters
    ----------
    data : the data set; rows : of its training rows at most; seed, precision
    folds : parts of a cross validation; holdout : None, or a share, or "test": then there is one part
    feature_map : of the nine models; None: the inputs
    """

    data: Dataset
    rows: int
    seed: int
    precision: Precision
    folds: int = 5
    holdout: float | Literal["test"] | None = None
    feature_map: FeatureMap | None = None

    @property
    def n_parts(self) -> int:
        """Folds, or 1."""
        return self.folds if self.holdout is None else 1

    def part(self, number: int) -> Part:
        """A fold to be judged on and all others to learn from, or the holdout; kept in this process while it fits."""
        return resident((*self.key, "part", number), lambda: self._part(number))

    def train_rows(self) -> int:
        """Rows to learn of the smallest part."""
        tested = np.bincount(self.tested()[self.tested() >= 0], minlength=self.n_parts)
        taken = min(self.rows, self.data.rows("train"))
        return taken if self.holdout == "test" else int(taken - tested.max())

    def test_rows(self, number: int) -> int:
        """Rows that a part is judged on."""
        if self.holdout == "test":
            return len(self._holdout().targets)
        return int((self.tested() == number).sum())

    def all(self) -> Rows:
        """The sampled training rows in their order: any first of them has the classes' shares of the whole."""
        inputs, targets, _ = resident((*self.key, "all"), self._ordered)
        return Rows(inputs, targets)

    def order(self) -> NDArray[np.int64]:
        """Where each of these rows stands among those of `sample_rows`."""
        return resident((*self.key, "all"), self._ordered)[2]

    def tested(self) -> NDArray[np.int64]:
        """In which part each of these rows is judged, -1 for none; the same share of every class."""
        targets = self.all().targets
        parts = np.full(len(targets), -1)
        if self.holdout == "test":
            return parts
        first = 0
        for value in np.unique(targets):
            places = np.flatnonzero(targets == value)
            ranks = np.arange(len(places))
            if self.holdout is None:
                # where one class stops dealing the next begins, so that folds are of one size
                parts[places] = (ranks + first) % self.folds
                first += len(places)
            else:
                count = min(max(1, round(self.holdout * len(places))), len(places) - 1)
                parts[places[ranks * count // len(places) != (ranks - 1) * count // len(places)]] = 0
        return parts

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What tells its rows from others in a process's cache; kept, as every piece of work asks for it."""
        mapped = None if self.feature_map is None else map_digest(self.feature_map)
        told = self.data.read_sha256, self.rows, self.seed, self.precision
        return ("compare", *told, self.folds, self.holdout, mapped)

    def _ordered(self) -> tuple[FloatArray, NDArray[np.float64], NDArray[np.int64]]:
        rows = sample_rows(self.data, "train", self.rows, self.seed, self.precision)
        random = np.random.default_rng((self.seed, 0xC0))
        key = np.empty(len(rows.targets))
        for value in np.unique(rows.targets):
            places = np.flatnonzero(rows.targets == value)
            key[places] = (random.permutation(len(places)) + random.random(len(places))) / len(places)
        order = np.argsort(key, kind="stable")
        return rows.inputs[order], rows.targets[order], order

    def _holdout(self) -> Rows:
        return resident(
            (*self.key, "test"), lambda: sample_rows(self.data, "test", self.rows, self.seed, self.precision)
        )

    def _part(self, number: int) -> Part:
        rows, tested = self.all(), self.tested()
        learnt = tested != number
        held = self._holdout() if self.holdout == "test" else Rows(rows.inputs[~learnt], rows.targets[~learnt])
        inputs = rows.inputs[learnt]
        return Part(
            inputs, self.mapped(inputs), rows.targets[learnt], held.inputs, self.mapped(held.inputs), held.targets
        )

    def mapped(self, inputs: FloatArray) -> FloatArray:
        """Inputs as the nine models take them."""
        return inputs if self.feature_map is None else transform_rows(self.feature_map, inputs)


def map_digest(feature_map: FeatureMap) -> str:
    """Digest of all that makes a map, hexadecimal: its kind, kernel and sizes, and every number of its arrays."""
    digest = hashlib.sha256(json.dumps(feature_map.describe(), sort_keys=True).encode())
    for name, array in sorted(feature_map.arrays().items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
