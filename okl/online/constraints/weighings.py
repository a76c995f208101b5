"""What constraints weigh rows by: their quantities are made of sums over rows of weight times features, or scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.online.constraints.columns import Columns, members, numbers
from okl.online.constraints.quantities import Constraint, Covariance, Group, GroupMean, MeanDifference

Weighing = None | Covariance | Group
"""None: every row weighs 1; a covariance: the value of its column; a group: 1 for its rows, otherwise 0."""


@dataclass(frozen=True)
class Weighings:
    """The weighings that some constraints are made of, each once; the first is that of all rows."""

    constraints: tuple[Constraint, ...]

    @property
    def all(self) -> tuple[Weighing, ...]:
        """In a fixed order."""
        found: list[Weighing] = [None]
        for one in self.constraints:
            quantity = one.quantity
            if isinstance(quantity, Covariance):
                found.append(quantity)
            elif isinstance(quantity, GroupMean):
                found.append(quantity.group)
            else:
                found += [quantity.first, quantity.second]
        return tuple(dict.fromkeys(found))

    def of(self, columns: Columns, rows: int, where: str) -> NDArray[np.float64]:
        """Weights of rows, (weighings, rows)."""
        found = []
        for weighing in self.all:
            if weighing is None:
                found.append(np.ones(rows))
            elif isinstance(weighing, Covariance):
                found.append(numbers(weighing, columns, where))
            else:
                found.append(members(weighing, columns))
        return np.array(found)

    def combined(self, products: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
        """The quantities of the constraints, (constraints, ...), from sums of weight times what is averaged.

        products : (weighings, ...), sums of weight times value; totals : (weighings,), sums of weights
        """
        places = {weighing: index for index, weighing in enumerate(self.all)}
        mean, rows = products[0] / totals[0], totals[0]

        def of_group(group: Group) -> NDArray[np.float64]:
            index = places[group]
            found: NDArray[np.float64] = products[index] / totals[index]
            return found

        found = []
        for one in self.constraints:
            quantity = one.quantity
            if isinstance(quantity, Covariance):
                index = places[quantity]
                found.append(products[index] / rows - totals[index] / rows * mean)
            elif isinstance(quantity, MeanDifference):
                found.append(of_group(quantity.first) - of_group(quantity.second))
            else:
                found.append(of_group(quantity.group))
        return np.array(found)
