"""The rows of a path of bounds: those of a comparison, and the columns beside them that constraints look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.comparison.sample import Sample
from okl.execution.resident import resident
from okl.online.constraints.columns import Columns, sample_side


@dataclass(frozen=True, eq=False)
class SideSample(Sample):
    """A sample whose rows have some more columns.

    names : of the columns, which are inputs or keys of the data set
    """

    names: tuple[str, ...] = ()

    def sides(self, number: int) -> tuple[Columns, Columns]:
        """The columns of a part: of the rows to learn, and of those to be judged on."""
        learnt = self.tested() != number
        ordered = self.columns()
        train = {name: column[learnt] for name, column in ordered.items()}
        if self.holdout == "test":
            return train, sample_side(self.data, "test", self.rows, self.seed, self.names)
        return train, {name: column[~learnt] for name, column in ordered.items()}

    def columns(self) -> Columns:
        """The columns of all sampled training rows."""

        def load() -> tuple[NDArray[Any], ...]:
            columns, order = sample_side(self.data, "train", self.rows, self.seed, self.names), self.order()
            return tuple(np.ascontiguousarray(columns[name][order]) for name in self.names)

        return dict(zip(self.names, resident((*self.key, "side", self.names), load), strict=True))
