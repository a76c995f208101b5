"""What a table of a paper must offer to be reproduced; one more table is one more file and a line of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from okl.reproduction.cells import Cell
from okl.reproduction.folder import Folder, Whose
from okl.reproduction.items import Item, Outcome
from okl.store.figures import Theme
from okl.types import Precision


@dataclass(frozen=True)
class Request:
    """What is asked of a table: names are checked, and in the order of the table.

    searched : candidates for every setting that has some, even where one is stated
    """

    data: Folder
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    repeats: int
    orders: Whose = "authors"
    searched: bool = False
    precision: Precision = "float32"


@dataclass(frozen=True)
class Known:
    """Outcomes of the items that are done, by name."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    def __getitem__(self, item: Item) -> Outcome:
        return self.outcomes[item.name]


ORDERS_REMARK = (
    "Mean and standard deviation over orders of the rows; seconds of learning alone, an order on one thread, measured "
    "beside each other."
)


class Picture(NamedTuple):
    """A picture to draw in a theme."""

    title: str
    draw: Callable[[Theme], bytes]


class Table(Protocol):
    """A table or a study of a paper: what to run, and what its numbers are called."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names as printed, in the order of the paper."""
        ...

    @property
    def algorithms(self) -> tuple[str, ...]: ...

    @property
    def repeats(self) -> int:
        """As many orders as the paper took."""
        ...

    @property
    def code(self) -> tuple[str, ...]:
        """Modules and packages, by their names below okl, whose sources decide the outcome of an item."""
        ...

    @property
    def rule(self) -> str:
        """When a cell is a match, in a sentence; "" where there is nothing to compare."""
        ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on how the numbers came about."""
        ...

    def trials(self, request: Request) -> Sequence[Item]:
        """Items that must be known before `items` can say which settings are taken; none if all is settled."""
        ...

    def items(self, request: Request, known: Known) -> Sequence[Item]:
        """Items whose outcomes are reported."""
        ...

    def cells(self, request: Request, known: Known) -> list[Cell]:
        """A cell for each data set and algorithm asked for, those that could not be measured too."""
        ...

    def beside(self, request: Request, known: Known) -> list[dict[str, Any]]:
        """Flat rows about each data set: rows, what stands in for it, the constant predictor, the linear model."""
        ...

    def curves(self, request: Request, known: Known) -> dict[str, Any]:
        """The figures behind the pictures, as JSON."""
        ...

    def pictures(self, curves: Mapping[str, Any]) -> list[Picture]:
        """Pictures of these figures."""
        ...
