"""What may be constrained: quantities that are linear in the weights, as averages of the scores of rows are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from okl.checks import check_positive
from okl.errors import ConfigError


@dataclass(frozen=True)
class Group:
    """The rows where a column has a value.

    value : as written; a number is compared as a number, text as text
    """

    column: str
    value: str

    def __str__(self) -> str:
        return f"{_quoted(self.column)}={_quoted(self.value)}"


@dataclass(frozen=True)
class Covariance:
    """Mean over rows of (score - mean score) (value - mean value) of a column of numbers, in the column's unit."""

    column: str

    def __str__(self) -> str:
        return f"covariance({_quoted(self.column)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it looks at."""
        return (self.column,)


@dataclass(frozen=True)
class GroupMean:
    """Mean score of the rows of a group."""

    group: Group

    def __str__(self) -> str:
        return f"mean({self.group})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it looks at."""
        return (self.group.column,)


@dataclass(frozen=True)
class MeanDifference:
    """Mean score of the rows of the first group, less that of the second."""

    first: Group
    second: Group

    def __str__(self) -> str:
        return f"difference({self.first}, {self.second})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it looks at."""
        return tuple(dict.fromkeys((self.first.column, self.second.column)))


Quantity = Covariance | GroupMean | MeanDifference


@dataclass(frozen=True)
class Constraint:
    """low <= quantity <= high, one of which may be infinite.

    Raises
    ------
    ConfigError : a limit that is no number, none at all, or low above high
    """

    quantity: Quantity
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        finite = math.isfinite(self.low) or math.isfinite(self.high)
        if not finite or not self.low <= self.high or self.low == math.inf or self.high == -math.inf:
            raise ConfigError(
                f"{self.quantity} is to lie in [{self.low:g}, {self.high:g}], but a constraint takes a lower limit, an "
                "upper one that is not below it, or both."
            )

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{self.quantity} >= {self.low:g}"
        if math.isinf(self.low):
            return f"{self.quantity} <= {self.high:g}"
        if self.low == -self.high:
            return f"abs({self.quantity}) <= {self.high:g}"
        return f"{self.low:g} <= {self.quantity} <= {self.high:g}"


@dataclass(frozen=True)
class NormBound:
    """||w|| <= high: the radius of the ball that weights stay in.

    Raises
    ------
    ConfigError : high is not a finite number above 0
    """

    high: float

    def __post_init__(self) -> None:
        check_positive("norm", self.high)

    def __str__(self) -> str:
        return f"norm <= {self.high:g}"


def columns_of(constraints: tuple[Constraint, ...]) -> tuple[str, ...]:
    """Columns that constraints look at, each once, in their order."""
    return tuple(dict.fromkeys(name for one in constraints for name in one.quantity.columns))


def _quoted(word: str) -> str:
    return word if word and not set(word) & set(" \t(),=<>'\"") else f'"{word}"'
