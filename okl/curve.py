"""The curve of a run, at a bounded number of points however long the run is."""

from __future__ import annotations

from dataclasses import dataclass, field

from okl.solvers import Convergence, Standing

MOST_POINTS = 400


@dataclass
class LearningCurve:
    """Progressive errors as rows go by; when it is full every other point goes, so that memory stays bounded."""

    standings: list[Standing] = field(default_factory=list)
    _stride: int = 1
    _seen: int = 0

    def add(self, standing: Standing) -> None:
        """Note where the solver stands."""
        self._seen += 1
        if self._seen % self._stride == 0:
            self.standings.append(standing)
        if len(self.standings) > MOST_POINTS:
            self.standings = self.standings[1::2]
            self._stride *= 2
        self._last = standing

    def known(self) -> list[Standing]:
        """Where the solver stood, as far as that is kept, and where it stands."""
        if self._seen and self.standings[-1:] != [self._last]:
            return [*self.standings, self._last]
        return self.standings

    def points(self) -> list[list[float]]:
        """A list of [rows seen, error so far, error since the point before, baseline's error so far]."""
        standings = self.known()
        points: list[list[float]] = []
        rows, total = 0, 0.0
        for standing in standings:
            grown = standing.done_rows - rows
            error_sum = standing.error * standing.done_rows
            recent = (error_sum - total) / grown if grown else standing.error
            points.append([standing.done_rows, standing.error, recent, standing.baseline_error])
            rows, total = standing.done_rows, error_sum
        return points

    def violations(self) -> list[list[float]]:
        """A list of [rows seen, violation a row so far, a row since the point before]; empty without constraints."""
        points: list[list[float]] = []
        rows, total = 0, 0.0
        for standing in self.known():
            if standing.violation is not None and standing.done_rows > rows:
                recent = (standing.violation - total) / (standing.done_rows - rows)
                points.append([standing.done_rows, standing.violation / standing.done_rows, recent])
                rows, total = standing.done_rows, standing.violation
        return points


@dataclass
class ConvergenceCurve:
    """The gap as iterations go by; a check comes every ten to a hundred of them, so that there are not many."""

    standings: list[Convergence] = field(default_factory=list)

    def add(self, standing: Convergence) -> None:
        """Note where the solver stands."""
        if standing.iterations or not self.standings:
            self.standings.append(standing)

    def points(self) -> list[list[float]]:
        """A list of [iterations, relative gap, objective, dual objective], the last one always among them."""
        stride = -(-len(self.standings) // MOST_POINTS)
        return [
            [standing.iterations, standing.relative_gap, standing.objective, standing.dual_objective]
            for standing in self.standings[::-1][:: max(1, stride)][::-1]
        ]
