"""Pieces of work of Table 1 and its figures: all methods on the rows of one data set and seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from okl.compiled.door import one_blas_thread
from okl.reproduction.folder import Folder
from okl.reproduction.items import Outcome
from okl.reproduction.zhang2024.cases import Case, Split
from okl.reproduction.zhang2024.racing import Race, Track, run_all

SHOWN = 50  # iterations, first and last
_WARM_ROWS = 64
_warm = Lock()


@dataclass(frozen=True)
class RaceItem:
    """All methods once.

    pictured : whether objectives on the way are kept, of the first and the last 50 iterations
    """

    case: Case
    seed: int
    pictured: bool = False

    @property
    def name(self) -> str:
        """Readable and unique."""
        return "--".join([self.case.printed, f"seed{self.seed}", *(["curves"] if self.pictured else [])])

    @property
    def dataset(self) -> str:
        """The file it reads."""
        return self.case.file

    @property
    def rows(self) -> int:
        """Rows that it learns."""
        return self.case.n_rows

    @property
    def cost(self) -> float:
        """Kernel values."""
        return float(self.rows) ** 2

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        return {**self.case.describe(), "seed": self.seed, "pictured": self.pictured}

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """For each method accuracy, seconds, objective on all rows to learn, its excess, rows drawn; or curves."""
        split = self.case.split(folder, self.seed)
        with one_blas_thread():
            with _warm:
                run_all(self._race(_first_rows(split)), check)  # compiles
            race = self._race(split)
            tracks, bound = run_all(race, check)
            last = [track.kept[-1][3] for track in tracks.values()]
            objectives = race.objectives(last)
            accuracies = race.accuracies(last)
        optimum = min(objectives)
        runs = {
            name: {
                "accuracy": accuracy,
                "objective": objective,
                "excess": objective - optimum,
                "drawn": track.drawn,
                "seconds": track.seconds,
            }
            for (name, track), accuracy, objective in zip(tracks.items(), accuracies, objectives, strict=True)
        }
        positive = float((split.tested_targets > 0).mean())
        found: Outcome = {"runs": runs, "optimum": optimum, "bound": bound, "seconds": race.kernel_seconds}
        found |= {"constant": max(positive, 1.0 - positive), "learnt": len(split.learnt), "tested": len(split.tested)}
        if self.pictured:
            found["curves"] = {name: _curve(race, track) for name, track in tracks.items()}
        return found

    def _race(self, split: Split) -> Race:
        return Race(split, self.case.kernel(split), self.case.lam, self.seed, self.pictured)


def _curve(race: Race, track: Track) -> dict[str, list[list[float]]]:
    """Of the first and the last iterations: number, rows drawn, seconds, objective."""
    found = {}
    for name, points in (("first", track.kept[:SHOWN]), ("last", track.kept[-SHOWN:])):
        objectives = race.objectives([coefficients for *_, coefficients in points])
        found[name] = [
            [float(number), float(drawn), seconds, objective]
            for (number, drawn, seconds, _), objective in zip(points, objectives, strict=True)
        ]
    return found


def _first_rows(split: Split) -> Split:
    few = Split(*(array[:_WARM_ROWS] for array in split))
    return few if len(set(few.learnt_targets.tolist())) == 2 else split
