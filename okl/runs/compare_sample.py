"""The rows of a search: a seeded sample in memory, mapped, in an order in which all classes are evenly spread."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from okl.data.dataset import Dataset
from okl.data.execution import Rows
from okl.data.reading import sample_rows
from okl.distributed.cache import resident
from okl.features.base import FeatureMap, transform_rows
from okl.foundation.types import Doubles, Integers, Precision

LEAST_ROWS = 1000  # of the first round of a comparison


class SamplePart(NamedTuple):
    """Training rows and validation rows: inputs as stored, and features, the columns of the certified models.

    Inputs are dense or sparse.
    """

    inputs: Any
    features: Any
    targets: Doubles
    test_inputs: Any
    test_features: Any
    test_targets: Doubles


@dataclass(frozen=True, eq=False)
class Sample:
    """Seeded sample of rows with an order and folds; small to send, as each process reads the rows itself.

    Parameters
    ----------
    folds : number of parts of a cross validation
    holdout : None, a share in (0, 1), or "test"; with a holdout there is one part
    feature_map : map of the certified models; None: they are linear in the inputs
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
        return self.folds if self.holdout is None else 1

    def part(self, number: int) -> SamplePart:
        """Return a fold as validation rows and all others as training rows, or the holdout.

        The rows are cached in this process while they fit.
        """
        return resident((*self.key, "part", number), lambda: self._part(number))

    def train_rows(self) -> int:
        tested = np.bincount(self.tested()[self.tested() >= 0], minlength=self.n_parts)
        taken = min(self.rows, self.data.rows("train"))
        return taken if self.holdout == "test" else int(taken - tested.max())

    def test_rows(self, number: int) -> int:
        """Return the number of validation rows of a part."""
        if self.holdout == "test":
            return len(self._holdout().targets)
        return int((self.tested() == number).sum())

    def all(self) -> Rows:
        """Return the sampled training rows in order: each class is spread evenly over them."""
        return Rows(*resident((*self.key, "all"), self._ordered))

    def tested(self) -> Integers:
        """Return the part in which each row is tested, (rows,), -1 for none; stratified by class."""
        targets = self._kinds(self.all().targets)
        parts = np.full(len(targets), -1)
        if self.holdout == "test":
            return parts
        first = 0
        for value in np.unique(targets):
            members = np.flatnonzero(targets == value)
            ranks = np.arange(len(members))
            if self.holdout is None:
                # each class continues where the previous one ended, so that folds have equal sizes
                parts[members] = (ranks + first) % self.folds
                first += len(members)
            else:
                count = min(max(1, round(self.holdout * len(members))), len(members) - 1)
                parts[members[ranks * count // len(members) != (ranks - 1) * count // len(members)]] = 0
        return parts

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Return the key of the rows in the cache of a process."""
        mapped = None if self.feature_map is None else map_digest(self.feature_map)
        source = self.data.read_sha256, self.rows, self.seed, self.precision
        return ("compare", *source, self.folds, self.holdout, mapped)

    def _ordered(self) -> tuple[Any, Doubles]:
        rows = sample_rows(self.data, "train", self.rows, self.seed, self.precision)
        random = np.random.default_rng((self.seed, 0xC0))
        key, kinds = np.empty(len(rows.targets)), self._kinds(rows.targets)
        for value in np.unique(kinds):
            members = np.flatnonzero(kinds == value)
            key[members] = (random.permutation(len(members)) + random.random(len(members))) / len(members)
            if len(members) * LEAST_ROWS < 4 * len(
                key
            ):  # a first round may have none of so few: two, of two folds, lead
                key[members[np.argsort(key[members])[:2]]] *= 1e-6
        order = np.argsort(key, kind="stable")
        return rows.inputs[order], rows.targets[order]

    def _kinds(self, targets: Doubles) -> Doubles:
        """Return what rows are spread by, (rows,): their class, or 0 for a regression."""
        return np.zeros(len(targets)) if self.data.schema.task == "regression" else targets

    def _holdout(self) -> Rows:
        return resident(
            (*self.key, "test"), lambda: sample_rows(self.data, "test", self.rows, self.seed, self.precision)
        )

    def _part(self, number: int) -> SamplePart:
        rows, tested = self.all(), self.tested()
        training = tested != number
        test_rows = self._holdout() if self.holdout == "test" else Rows(rows.inputs[~training], rows.targets[~training])
        inputs = rows.inputs[training]
        return SamplePart(
            inputs,
            self.mapped(inputs),
            rows.targets[training],
            test_rows.inputs,
            self.mapped(test_rows.inputs),
            test_rows.targets,
        )

    def mapped(self, inputs: Any) -> Any:
        """Return the columns of the certified models for inputs (rows, n_inputs)."""
        return inputs if self.feature_map is None else transform_rows(self.feature_map, inputs)


def map_digest(feature_map: FeatureMap) -> str:
    """Return the hexadecimal digest of a map: its kind, kernel and sizes, and every number of its arrays."""
    digest = hashlib.sha256(json.dumps(feature_map.describe(), sort_keys=True).encode())
    for name, array in sorted(feature_map.arrays().items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
