"""Pieces of work on made-up data: projections of random vectors, breakdowns of runs, l1 models."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.fapg import Fapg
from okl.accelerated.models.l1logistic import L1LogisticRegression
from okl.accelerated.models.l1squaredhinge import L1SquaredHinge
from okl.accelerated.models.logistic import LogisticRegression
from okl.accelerated.models.mmmpm import MMMPM
from okl.accelerated.models.nusvm import NuSVM
from okl.accelerated.operators import DenseRows
from okl.accelerated.projections import RIVALS, project_box_hyperplane_by, project_truncated_simplex_pair
from okl.accelerated.protocol import Problem
from okl.reproduction.folder import Folder
from okl.reproduction.items import Outcome
from okl.reproduction.ito2017.artificial import artificial_rows
from okl.reproduction.ito2017.liblinear import fit_liblinear
from okl.reproduction.ito2017.running import RESIDUAL, Stopwatch, compile_parts, run
from okl.reproduction.ito2017.works import PAPER_MARGIN

SEARCHES = (*RIVALS, "newton")
Breakdown = Literal["nu_svm", "logistic", "mm_mpm"]
Penalised = Literal["l1-logistic", "l1-l2-svm"]


@dataclass(frozen=True)
class SyntheticItem(ABC):
    """Work that reads no data set, told from others by its fields."""

    @property
    def name(self) -> str:
        """Readable and unique."""
        return "--".join([type(self).__name__, *(f"{value}" for value in asdict(self).values())])

    @property
    def dataset(self) -> str:
        """No file is read."""
        return ""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows, or entries."""

    @property
    def cost(self) -> float:
        """Rows."""
        return float(self.rows)

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        return asdict(self)

    @abstractmethod
    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Do the work."""


@dataclass(frozen=True)
class ProjectionItem(SyntheticItem):
    """Random vectors, uniform on [0, reach]^size, projected onto the set of nu-SVM by one of SEARCHES. Table 2."""

    size: int
    reach: float
    search: str
    trial: int

    @property
    def rows(self) -> int:
        """Entries."""
        return self.size

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Milliseconds, and iterations or passes, of the second of two projections: the first one compiles."""
        point = self.reach * np.random.default_rng((self.size, self.trial)).random(self.size)
        signs = np.where(np.arange(self.size) % 2 == 0, 1, -1).astype(np.int8)
        out = np.empty_like(point)
        for _ in range(2):
            begun = time.perf_counter()
            iterations = self.project(out, point, signs)
            seconds = time.perf_counter() - begun
        return {"milliseconds": 1e3 * seconds, "iterations": iterations, "seconds": seconds}

    def project(self, out: NDArray[np.float64], point: NDArray[np.float64], signs: NDArray[np.int8]) -> float:
        """Overwrite out by the projection; iterations, or passes over the data."""
        upper = 2.0 / self.size  # 1 / (m nu) with nu = 1/2
        if self.search == "newton":
            return project_truncated_simplex_pair(out, point, signs, 0.0, upper, 0.5, 0.5).passes
        counts = []
        for sign in (1, -1):
            chosen = signs == sign
            part = point[chosen]
            found = np.empty_like(part)
            ones = np.ones(len(part), dtype=np.int8)
            counts.append(project_box_hyperplane_by(self.search, found, part, ones, 0.0, upper, 0.5).passes)  # type: ignore[arg-type]
            out[chosen] = found
        return fmean(counts)


@dataclass(frozen=True)
class BreakdownItem(SyntheticItem):
    """A run on the artificial data under a stopwatch. Tables 3, 7 and 9."""

    model: Breakdown
    n_rows: int
    n_columns: int
    seed: int

    @property
    def rows(self) -> int:
        """Rows."""
        return self.n_rows

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Seconds, share of the whole and evaluations of each part; the whole."""
        rows = artificial_rows(self.n_rows, self.n_columns, self.seed)
        problem = self._problem(DenseRows(rows.inputs, rows.targets))
        compile_parts(problem)
        stopwatch = Stopwatch(problem)
        outcome = run(cast(Problem, stopwatch), check).outcome()
        for part, seconds in stopwatch.seconds.items():
            outcome[f"{part}_seconds"] = seconds
            outcome[f"{part}_share"] = seconds / outcome["seconds"]
            outcome[f"{part}_evaluations"] = stopwatch.evaluations[part]
        return outcome | {"total_seconds": outcome["seconds"]}

    def _problem(self, operator: DenseRows) -> Problem:
        if self.model == "nu_svm":
            return NuSVM(0.5).problem(operator)
        if self.model == "logistic":
            return LogisticRegression(10.0, margin=PAPER_MARGIN).problem(operator)
        return MMMPM(1.0).problem(operator)


@dataclass(frozen=True)
class PenalisedItem(SyntheticItem):
    """An l1 model on the artificial data, by the method or by LIBLINEAR. Appendix D."""

    model: Penalised
    solver: Literal["FAPG", "LIBLINEAR"]
    n_rows: int
    n_columns: int
    C: float
    seed: int

    @property
    def rows(self) -> int:
        """Rows."""
        return self.n_rows

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """The objective that was reached, and seconds."""
        rows = artificial_rows(self.n_rows, self.n_columns, self.seed)
        model = L1LogisticRegression(self.C) if self.model == "l1-logistic" else L1SquaredHinge(self.C)
        problem = model.problem(DenseRows(rows.inputs, rows.targets))
        if self.solver == "FAPG":
            compile_parts(problem)
            return run(problem, check, Fapg(tolerance=RESIDUAL, check_every=10)).outcome()
        weights, seconds = fit_liblinear(self.model, rows, self.C)
        margins = np.empty(problem.n_image)
        problem.image(margins, weights)
        objective = problem.smooth(weights, margins) + problem.penalty(weights)
        return {"seconds": seconds, "objective": objective}
