"""The methods of the paper, each on the kernel matrix of the same rows, watched as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from okl.kernels import Gaussian
from okl.reproduction.zhang2024.cases import Doubles, Split
from okl.subgradient.dualdescent import DualDescent
from okl.subgradient.fitting import GeometricGrowth
from okl.subgradient.kernelspace import KernelRows
from okl.subgradient.paper import PaperGrowth
from okl.subgradient.pegasos import Pegasos
from okl.subgradient.scs import Scs
from okl.subgradient.sources import KernelSource
from okl.subgradient.wolfe import Wolfe
from okl.types import FloatArray

WOLFE, PEGASOS, EQUAL_SAMPLES, SCS = "Wolfe", "Pegasos", "Pegasos, equal samples", "SCS"
PRINTED_GROWTH, ABLATION, EXACT = "SCS, paper's growth", "SCS, lambda* = 0", "dual coordinate descent"
ALGORITHMS = (WOLFE, PEGASOS, EQUAL_SAMPLES, SCS, PRINTED_GROWTH, ABLATION, EXACT)
GAP = 1e-4  # of the objective, certified, at which a method stops that knows it
EXACT_GAP = 1e-7  # relative
STEP_ROWS, MOST_ITERATIONS = 16, 500


@dataclass(eq=False)
class Track:
    """Points of a run, and when each was there: the clock stands still while one is kept.

    kept : number of the iteration, rows drawn, seconds, coefficients of the first rows; all, or the last one only
    """

    everything: bool
    kept: list[tuple[int, int, float, Doubles]] = field(default_factory=list)
    _spent: float = 0.0
    _number: int = 0
    _since: float = field(default_factory=time.perf_counter)

    def note(self, coefficients: FloatArray, drawn: int, number: int | None = None) -> None:
        """Keep a point; number : of its iteration, None for the next one."""
        self._spent += time.perf_counter() - self._since
        self._number = self._number + 1 if number is None else number
        if not self.everything:
            self.kept.clear()
        self.kept.append((self._number, drawn, self._spent, np.array(coefficients, dtype=np.float64)))
        self._since = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Of the last point."""
        return self.kept[-1][2]

    @property
    def drawn(self) -> int:
        """Rows drawn up to the last point."""
        return self.kept[-1][1]


@dataclass(frozen=True, eq=False)
class Race:
    """Rows to learn with their kernel values, which are computed before any clock begins.

    Each method returns the track of its run; everything : whether all its points are kept.
    """

    split: Split
    kernel: Gaussian
    lam: float
    seed: int
    everything: bool = False
    source: KernelSource = field(init=False)
    kernel_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        begun, rows = time.perf_counter(), self.split.learnt
        source = KernelSource(self.kernel, rows, np.arange(len(rows)))
        source.space(len(rows))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "kernel_seconds", time.perf_counter() - begun)

    @property
    def space(self) -> KernelRows:
        """All rows."""
        return self.source.space(self.source.n_rows)

    @property
    def matrix(self) -> FloatArray:
        """Kernel values of all rows, (m, m) float64."""
        return self.space.values.among(self.source.n_rows)

    def exact(self) -> tuple[Track, float]:
        """Dual coordinate descent; and its lower bound."""
        track = Track(everything=False)
        found = DualDescent(self.lam, relative_gap=EXACT_GAP, seed=self.seed).solve_matrix(self.matrix, self._targets)
        track.note(found.coefficients / (self.lam * len(found.coefficients)), found.history[-1].visits)
        return track, found.bound

    def scs(self) -> Track:
        """Samples that grow fourfold, a bundle of cuts on each; to the gap on all rows."""
        track = Track(self.everything)
        GeometricGrowth(confidence=None).fit(
            self.source,
            self._targets,
            Scs(self.lam, gap=GAP),
            lambda run: track.note(run.point.vector.coefficients, run.space.n_rows),
        )
        return track

    def paper(self, directions: str) -> Track:
        """The paper's growth by its own directions, "conjugate", or by subgradients alone, "subgradient"."""
        track = Track(self.everything)
        method = Scs(self.lam, gap=GAP, directions=directions, max_iterations=self._iterations)  # type: ignore[arg-type]
        PaperGrowth(step_rows=STEP_ROWS).fit(
            self.source, self._targets, method, lambda point, drawn: track.note(point.vector.coefficients, drawn)
        )
        return track

    def wolfe(self) -> Track:
        """All rows in every iteration."""
        track = Track(self.everything)
        rows = self.source.n_rows
        Wolfe(self.lam, gap=GAP, max_iterations=MOST_ITERATIONS).solve(
            self.space,
            self._targets,
            lambda run: track.note(run.point.vector.coefficients, rows * (1 + run.iterations)),
        )
        return track

    def pegasos_for(self, seconds: float) -> Track:
        """Single rows for a time; points are kept at ever larger distances."""
        track, method = Track(self.everything), Pegasos(self.lam, seed=self.seed)
        for state in method.run_kernel(self.matrix, self._targets):
            track.note(method.weights(state)[0], state.progress.rows, state.progress.rows)
            if track.seconds >= seconds:
                break
        return track

    def pegasos_rows(self, rows: int) -> Track:
        """As many rows as are drawn elsewhere, as many a step as the paper's growth draws."""
        track, method = Track(self.everything), Pegasos(self.lam, batch=STEP_ROWS, seed=self.seed)
        states = method.run_kernel(self.matrix, self._targets, STEP_ROWS if self.everything else max(STEP_ROWS, rows))
        for state in islice(states, max(1, rows // STEP_ROWS) if self.everything else 1):
            track.note(method.weights(state)[0], state.progress.rows)
        return track

    def objectives(self, points: list[Doubles]) -> list[float]:
        """lam / 2 |w|^2 + mean hinge on all rows to learn, of coefficients of their first rows."""
        found, many = [], 50
        for first in range(0, len(points), many):
            columns = self._columns(points[first : first + many])
            scores = self.matrix @ columns
            lost = np.maximum(0.0, 1.0 - self._targets[:, None] * scores).mean(axis=0)
            found += [float(value) for value in 0.5 * self.lam * (columns * scores).sum(axis=0) + lost]
        return found

    def accuracies(self, points: list[Doubles]) -> list[float]:
        """Shares of the test rows whose class is right; a score of 0 is the class +1."""
        columns, right, rows = self._columns(points), np.zeros(len(points)), self.split.tested
        for first in range(0, len(rows), 512):
            part = slice(first, first + 512)
            scores = self.kernel.matrix(rows[part], self.split.learnt) @ columns
            right += ((scores >= 0) == (self.split.tested_targets[part] > 0)[:, None]).sum(axis=0)
        return [float(share) for share in right / len(rows)]

    def _columns(self, points: list[Doubles]) -> Doubles:
        columns = np.zeros((self.source.n_rows, len(points)))
        for column, point in enumerate(points):
            columns[: len(point), column] = point
        return columns

    @property
    def _targets(self) -> Doubles:
        return self.split.learnt_targets

    @property
    def _iterations(self) -> int:
        return self.source.n_rows // STEP_ROWS + MOST_ITERATIONS


def run_all(race: Race, check: Callable[[], None]) -> tuple[dict[str, Track], float]:
    """Every method once, and the lower bound of the exact one; check raises if nobody waits any more."""
    exact, bound = race.exact()
    tracks = {EXACT: exact}
    runs: dict[str, Callable[[], Track]] = {
        SCS: race.scs,
        PRINTED_GROWTH: lambda: race.paper("conjugate"),
        ABLATION: lambda: race.paper("subgradient"),
        WOLFE: race.wolfe,
        PEGASOS: lambda: race.pegasos_for(tracks[SCS].seconds),
        EQUAL_SAMPLES: lambda: race.pegasos_rows(tracks[PRINTED_GROWTH].drawn),
    }
    for name, run in runs.items():
        check()
        tracks[name] = run()
    return {name: tracks[name] for name in ALGORITHMS}, bound
