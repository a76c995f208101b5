"""One item of the online tables: one algorithm learns the rows of one data set in one order, and each row counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from okl.errors import DivergedError
from okl.execution.protocol import Rows
from okl.online.protocol import RowLearner
from okl.reproduction.folder import Folder, Selection, Whose
from okl.reproduction.items import Outcome
from okl.reproduction.lu2016.algorithms import ALGORITHMS
from okl.reproduction.lu2016.cases import Sizes
from okl.reproduction.lu2016.problems import Problem
from okl.types import Precision

EXTRA_ORDER = 1000  # seed of the order on which settings are chosen; reported orders count from 0
POINTS = 40
BLOCK_ROWS = 256
WARM_ROWS = 1024
_warm: set[tuple[object, ...]] = set()
_warm_lock = Lock()


@dataclass(frozen=True)
class LearnItem:
    """An algorithm with a setting on the rows of a selection in one order.

    printed : the data set's name in the paper; n_rows : the first ones of the order take part
    setting : (name, value) pairs; point : where in a study
    order : number of the order, and seed of all that the learner draws; whose : orders these are
    """

    printed: str
    selection: Selection
    algorithm: str
    setting: tuple[tuple[str, float], ...]
    sizes: Sizes
    order: int
    n_rows: int
    whose: Whose = "seeded"
    precision: Precision = "float32"
    point: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """Readable and unique."""
        order = "extra" if self.order == EXTRA_ORDER else f"order{self.order}"
        words = [self.printed, self.algorithm, order]
        words += [f"{name}={value:g}" for name, value in (*self.point, *self.setting)]
        return "--".join(words)

    @property
    def dataset(self) -> str:
        """The file it reads."""
        return self.selection.name

    @property
    def rows(self) -> int:
        """Rows that it learns."""
        return self.n_rows

    @property
    def cost(self) -> float:
        """Rows times what one takes."""
        return self.n_rows * ALGORITHMS[self.algorithm].cost(self.sizes, self.n_rows)

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        chosen = self.selection
        return {
            "selection": [chosen.name, chosen.task, chosen.split, chosen.minmax],
            "algorithm": self.algorithm,
            "setting": dict(self.setting),
            "sizes": [self.sizes.budget, self.sizes.n_frequencies, self.sizes.rank],
            "order": [self.order, self.n_rows, self.whose],
            "precision": self.precision,
        }

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Learn the rows once; "error" is None where the learner diverged."""
        rows = self.ordered(folder)
        learner = self.learner(rows)
        self._warm_up(learner, rows)
        try:
            return learn_once(learner, rows, check)
        except DivergedError as error:
            return {"error": None, "diverged": str(error)}

    def ordered(self, folder: Folder) -> Rows:
        """The rows in their order."""
        stored = folder.rows(self.selection, self.precision)
        order = folder.order(self.dataset, len(stored.targets), self.order, self.whose)[: self.n_rows]
        return Rows(stored.inputs[order], stored.targets[order])

    def learner(self, rows: Rows) -> RowLearner[Any]:
        """What learns them."""
        problem = Problem(self.selection.task, rows, self.sizes, self.order, self.precision)
        return ALGORITHMS[self.algorithm].make(problem, dict(self.setting))

    def _warm_up(self, learner: RowLearner[Any], rows: Rows) -> None:
        """Learn some rows for nothing, once a process: machine code is loaded or made outside the measured time."""
        key = (self.algorithm, self.selection.task, self.precision)
        with _warm_lock:  # others wait: they would wait for the same machine code, in their measured time
            if key not in _warm:
                some = Rows(rows.inputs[:WARM_ROWS], rows.targets[:WARM_ROWS])
                with suppress(DivergedError):  # it will say so again
                    learner.learn(learner.start(), some)
                _warm.add(key)


def learn_once(learner: RowLearner[Any], rows: Rows, check: Callable[[], None]) -> Outcome:
    """Learn rows in their order, and note on the way how it goes.

    Returns
    -------
    error and constant_error over all rows; updates; seconds of learning alone; curve: points of [rows, error so far,
    seconds so far, constant predictor's error so far]
    """
    state, seconds, curve = learner.start(), 0.0, []
    for start, stop in segments(len(rows.targets)):
        check()
        part = Rows(rows.inputs[start:stop], rows.targets[start:stop])
        begun = time.perf_counter()
        state = learner.learn(state, part)
        seconds += time.perf_counter() - begun
        progress = state.progress
        if not np.isfinite(progress.error):
            raise DivergedError(f"Rows {start:,} to {stop - 1:,}: the error is no longer finite. Use a smaller step.")
        curve.append([progress.rows, progress.error, seconds, progress.baseline_error])
    return {
        "error": progress.error,
        "constant_error": progress.baseline_error,
        "updates": progress.updates,
        "seconds": seconds,
        "curve": curve,
    }


def segments(n_rows: int) -> list[tuple[int, int]]:
    """About 40 parts of the rows, each but the last a multiple of a block; of few rows, parts of half a block or less.

    >>> segments(30000)[:2], len(segments(30000))
    ([(0, 768), (768, 1536)], 40)
    """
    size = -(-n_rows // POINTS)
    if size > BLOCK_ROWS // 2:
        size = -(-size // BLOCK_ROWS) * BLOCK_ROWS
    return [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def mean_curve(outcomes: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Point by point the mean of several orders' curves."""
    curves = np.array([outcome["curve"] for outcome in outcomes], dtype=np.float64)
    points: list[list[float]] = curves.mean(axis=0).tolist()
    return points
