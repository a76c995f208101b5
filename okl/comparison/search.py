"""The search: all values on a share of the rows, the better half of them on twice as many, until all rows are in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Protocol

from okl.accelerated.fapg import Fapg
from okl.comparison.entrants import is_certified, train_settings
from okl.comparison.grids import Grid
from okl.comparison.onlineitems import OnlineItem
from okl.comparison.paths import PathItem
from okl.comparison.sample import Sample
from okl.comparison.settings import CompareSettings
from okl.comparison.trials import Trial
from okl.execution.protocol import Execution

LEAST_ROWS = 1000  # of the first rung
ROUGH = 10.0  # times the tolerance, before the last rung: ranks of values need no more
SINGLE = Grid("", (0.0,), "value")


class Item(Protocol):
    """A frozen, picklable piece of work: one entrant, one part, some places of its grid."""

    @property
    def entrant(self) -> str: ...

    @property
    def part(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def chosen(self) -> tuple[int, ...]: ...

    @property
    def cost(self) -> int: ...

    def run(self, sample: Sample) -> list[Trial]: ...


@dataclass(frozen=True)
class Work:
    """Runs items wherever it is called."""

    sample: Sample

    def __call__(self, item: Item) -> list[Trial]:
        """The trials of an item."""
        return item.run(self.sample)


@dataclass(eq=False)
class Entrant:
    """An entrant on its way through the rungs.

    grid : its places, one for a solver without any; alive : indices of places that are still tried
    trials : by place, those of all parts on the most rows it was tried on; tried_rows : how many of the smallest part
    seconds : of all fits
    """

    name: str
    grid: Grid
    alive: tuple[int, ...]
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    tried_rows: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def biases(self) -> tuple[str, ...]:
        """Kinds of bias that it has been judged with."""
        return next((tuple(t.right) for trials in self.trials.values() for t in trials if t.right), ())

    @property
    def failure(self) -> str:
        """Why it has no result, else ""."""
        return next((trial.failure for index in self.alive for trial in self.trials[index] if trial.failure), "")

    def mean(self, place: int, bias: str) -> float:
        """Mean accuracy over the parts; minus infinity where a part failed."""
        trials = self.trials[place]
        if any(trial.failure for trial in trials):
            return -math.inf
        # rounded: equal counts in another order are equal
        return round(fmean(trial.accuracy(bias) for trial in trials), 12)

    def best_mean(self, place: int) -> float:
        """Of the better bias."""
        return max((self.mean(place, bias) for bias in self.biases), default=-math.inf)

    def halve(self) -> None:
        """Keep the better half of the places; of equals the first, which is the one of more regularisation."""
        ranked = sorted(self.alive, key=lambda place: (-self.best_mean(place), place))
        self.alive = tuple(sorted(ranked[: -(-len(ranked) // 2)]))

    def choice(self) -> tuple[int, str]:
        """The place and the kind of bias of the best mean; of equals the first, and the model's own bias."""
        pairs = [(place, bias) for place in self.alive for bias in self.biases]
        return max(pairs, key=lambda pair: self.mean(*pair))


def rungs(train_rows: int, grid: int, halving: bool) -> tuple[int, ...]:
    """Training rows of each rung, the last one all of them; one rung where rows or values are few.

    >>> rungs(8000, 10, True), rungs(8000, 10, False), rungs(900, 10, True)
    ((1000, 2000, 4000, 8000), (8000,), (900,))
    """
    doublings = int(math.log2(max(1.0, train_rows / LEAST_ROWS))) if halving else 0
    doublings = min(doublings, math.ceil(math.log2(grid)))
    return tuple(-(-train_rows // 2**k) for k in range(doublings, -1, -1))


@dataclass(frozen=True)
class Search:
    """Who is tried on what.

    grids : of the nine models that take part, by name; names : of all entrants, in their order
    """

    settings: CompareSettings
    sample: Sample
    names: tuple[str, ...]
    grids: dict[str, Grid]
    n_classes: int

    def entrants(self) -> list[Entrant]:
        """All of them before the first rung."""
        grids = [self.grids.get(name, SINGLE) for name in self.names]
        return [
            Entrant(name, grid, tuple(range(len(grid.places)))) for name, grid in zip(self.names, grids, strict=True)
        ]

    def steps(self) -> tuple[int, ...]:
        """Rows of the rungs."""
        return rungs(self.sample.train_rows(), self.settings.grid, self.settings.halving)

    def run(self, execution: Execution, tell: Callable[[int, int, dict[str, float]], None]) -> list[Entrant]:
        """All rungs; the outcome depends on no order of finishing.

        tell : is told rows learnt, rows to learn over all fits, and the best accuracy so far
        """
        found = self.entrants()
        by_name = {entrant.name: entrant for entrant in found}
        total, done = self.total(), 0
        tell(done, total, {})
        for step, n_rows in enumerate(self.steps()):
            items = self._items(found, step)
            for item, trials in self._map(items, execution):
                _note(by_name[item.entrant], item, trials)
                done += item.cost
                tell(done, total, {})
            if n_rows != self.steps()[-1]:
                for entrant in found:
                    if entrant.trials:
                        entrant.halve()
            tell(done, total, {"best_accuracy": _best(found)})
        return found

    def total(self) -> int:
        """Rows to learn, over all fits."""
        found = 0
        entrants = self.entrants()
        for step in range(len(self.steps())):
            found += sum(item.cost for item in self._items(entrants, step))
            for entrant in entrants:
                if self._climbs(entrant.name):
                    entrant.alive = entrant.alive[: -(-len(entrant.alive) // 2)]
        return found

    def _climbs(self, name: str) -> bool:
        """Whether it starts on few rows: not a minimax model, whose fits cost the same, nor an online solver."""
        return name in self.grids and self.grids[name].parameter != "kappa"

    def _items(self, found: Sequence[Entrant], step: int) -> list[Item]:
        steps = self.steps()
        last = step == len(steps) - 1
        items: list[Item] = []
        for entrant in found:
            if not last and not self._climbs(entrant.name):
                continue
            for part in range(self.sample.n_parts):
                if is_certified(entrant.name):
                    method = self._method(last)
                    items.append(PathItem(part, steps[step], entrant.grid, entrant.alive, method, self.n_classes))
                else:
                    items.append(OnlineItem(train_settings(self.settings, entrant.name), part, steps[step]))
        return items

    def _method(self, last: bool) -> Fapg:
        settings = self.settings
        exact = Fapg(tolerance=settings.tolerance, max_iterations=settings.iterations)
        return exact if last else replace(exact, tolerance=min(ROUGH * settings.tolerance, 0.1))

    def _map(self, items: list[Item], execution: Execution) -> Iterator[tuple[Item, list[Trial]]]:
        return zip(items, execution.map(Work(self.sample), items), strict=True)


def _note(entrant: Entrant, item: Item, trials: list[Trial]) -> None:
    for place, trial in zip(item.chosen, trials, strict=True):
        if item.part == 0:
            entrant.trials[place] = []
            entrant.tried_rows[place] = item.n_rows
        entrant.trials[place].append(trial)
        entrant.seconds += trial.seconds


def _best(found: Sequence[Entrant]) -> float:
    scored = [entrant.best_mean(place) for entrant in found for place in entrant.trials]
    return max((value for value in scored if math.isfinite(value)), default=0.0)
