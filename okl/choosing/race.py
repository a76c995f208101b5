"""A race of candidates on a sample: rounds on more and more rows, from each of which fewer go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from okl.choosing.candidates import Candidate
from okl.execution.protocol import Rows
from okl.features.bandwidth import suit_kernel
from okl.ridge.basis import Basis, LandmarkBasis, MapBasis
from okl.ridge.folds import folds_of, leave_folds_out
from okl.ridge.gram import Outputs
from okl.ridge.path import apart, best_of
from okl.ridge.solution import fit_rows
from okl.ridge.solver import plain_inputs
from okl.store.dataset import Schema, scaling_of
from okl.types import FloatArray, IntArray, Task

Left = Literal["rows", "blocks", "fifths"]
"""What is left out at a time: a row, a fifth that lies together, or one drawn at random."""

KEPT = (8, 3)  # of the first round, of the second; neighbours of the best join the last one
_TELL = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Ran:
    """How a candidate did in its last round.

    error : mistake rate of rows by models of others, or squared error over that of the mean; squared_error : the
        latter, for classes, too; rows : of the round; landmarks : of the round, or columns of a linear one;
        bandwidth : in scaled units, None for a linear one; kept : was in the last
    """

    candidate: Candidate
    error: float
    squared_error: float
    penalty: float
    rows: int
    landmarks: int
    bandwidth: float | None
    seconds: float
    kept: bool

    def as_json(self) -> dict[str, Any]:
        """For a result: the score is the accuracy, or the share of the variance that is explained."""
        return {
            "name": self.candidate.name,
            "score": 1.0 - self.error,
            "rows": self.rows,
            "landmarks": self.landmarks,
            "seconds": self.seconds,
            "kept": self.kept,
        }


@dataclass(frozen=True)
class Race:
    """All that ran, best first.

    coarse : error with half of the landmarks of the one that led when the last round began, None if that was not tried
    """

    ran: tuple[Ran, ...]
    coarse: float | None

    @property
    def winner(self) -> Ran:
        """The best of the last round."""
        return self.ran[0]

    @property
    def best_linear(self) -> Ran:
        """The best linear one, on the same rows as the winner."""
        return next(one for one in self.ran if one.candidate.kernel == "linear")


class Track:
    """Where candidates run: sampled raw rows, shuffled, and their targets.

    places : (rows,), those of the sampled rows in the data set's order; n_threads : bits do not depend on it
    by : rows are predicted by models of all others, or of those of the other fifths of the data set
    """

    def __init__(
        self, schema: Schema, sample: Rows, places: IntArray, outputs: Outputs, n_threads: int, by: Left = "rows"
    ) -> None:
        self._schema, self._sample, self._places, self._threads = schema, sample, places, n_threads
        self.outputs, self.by = outputs, by

    def judging(self, by: Left) -> Track:
        """The same rows, where candidates are told apart by other errors."""
        return Track(self._schema, self._sample, self._places, self.outputs, self._threads, by)

    def has_folds(self, rows: int) -> bool:
        """Whether the first rows make folds: where every class has one row alone they do not."""
        targets = self._sample.targets[:rows]
        return len(np.unique(folds_of(targets, np.arange(len(targets)), self.outputs.task))) > 1

    def run(self, candidate: Candidate, rows: int, landmarks: int, kept: bool) -> Ran:
        """Fit a candidate to the first rows, and take the penalty of least error."""
        begun = time.perf_counter()
        inputs = scaled(self._schema, self._sample.inputs[:rows], candidate)
        basis, bandwidth = basis_of(candidate, inputs, landmarks)
        sample = Rows(inputs, self._sample.targets[:rows])
        if self.by == "rows":
            best = fit_rows(basis, sample, self.outputs, n_threads=self._threads).best
            assert best is not None, "no penalty was given"
        else:
            places = self._places[:rows] if self.by == "blocks" else np.arange(rows)  # these are shuffled
            folds = folds_of(sample.targets, places, self.outputs.task)
            best = best_of(leave_folds_out(basis, sample, self.outputs, folds, n_threads=self._threads), rows)
        return Ran(
            candidate,
            best.error,
            best.squared_error,
            best.penalty,
            rows,
            basis.n_columns,
            bandwidth,
            time.perf_counter() - begun,
            kept,
        )


def scaled(schema: Schema, inputs: FloatArray, candidate: Candidate) -> FloatArray:
    """Raw inputs (rows, n_inputs) under a candidate's scaling, by the training rows' statistics; float64."""
    pairs = np.array([scaling_of(candidate.scale, column) for column in schema.feature_statistics]).reshape(-1, 2)
    changed: FloatArray = np.ascontiguousarray((inputs - pairs[:, 0]) * pairs[:, 1], dtype=np.float64)
    return changed


def basis_of(candidate: Candidate, inputs: FloatArray, landmarks: int) -> tuple[Basis, float | None]:
    """Landmarks are the first rows; the bandwidth is in units of the scaled inputs."""
    if candidate.kernel == "linear":
        return MapBasis(plain_inputs(inputs.shape[1], "float64")), None
    _, chosen = suit_kernel(candidate.kernel, None, inputs)
    bandwidth = candidate.factor * float(chosen["bandwidth"])
    kernel, _ = suit_kernel(candidate.kernel, bandwidth, inputs)
    return LandmarkBasis(kernel, np.ascontiguousarray(inputs[:landmarks])), bandwidth


def race(track: Track, starters: list[Candidate], rounds: list[tuple[int, int]], tell: _TELL) -> Race:
    """Run all in the first round, the best of it in the next, and so on; the winner is the best of the last.

    rounds : sampled rows and landmarks of each; tell : called with rounds done, all of them, and the best score
    """
    running, out, outputs = list(starters), list[Ran](), track.outputs
    total = len(starters) + sum(kept + 1 for kept in KEPT[: len(rounds) - 1]) + 2
    done, coarse = 0, None
    ran: list[Ran] = []
    for number, (rows, landmarks) in enumerate(rounds):
        last = number == len(rounds) - 1
        if last and ran:
            running += [one for one in ran[0].candidate.neighbours() if one not in running]
            coarse = track.run(ran[0].candidate, rows, max(1, landmarks // 2), False).error
        if last:
            total = done + len(running)
        ran = []
        for candidate in running:
            ran.append(track.run(candidate, rows, landmarks, last))
            done += 1
            tell(done, total, 1.0 - min(one.error for one in ran))
        ran = ranked(ran, outputs.task)
        if not last:
            going = [one.candidate for one in surviving(ran, KEPT[min(number, len(KEPT) - 1)])]
            # the best linear one goes on whatever it did: it costs next to nothing, and is what a kernel has to beat
            going += [one.candidate for one in ran if one.candidate.kernel == "linear"][:1]
            going = list(dict.fromkeys(going))
            out += [one for one in ran if one.candidate not in going]
            running = going
    out.sort(key=lambda one: (-one.rows, one.error, one.squared_error))
    return Race((*ran, *out), coarse)


def ranked(ran: list[Ran], task: Task) -> list[Ran]:
    """Best first; of mistake rates that chance does not tell from the best, those of less squared error first."""
    least = min(one.error for one in ran)
    alike = least if task == "regression" else least + apart(least, ran[0].rows)
    return sorted(ran, key=lambda one: (one.error > alike, one.squared_error if one.error <= alike else one.error))


def surviving(best_first: list[Ran], number: int) -> list[Ran]:
    """As many as go on: half of them by their rank, the others by squared errors, which few rows tell more surely."""
    first = best_first[: -(-number // 2)]
    others = sorted((one for one in best_first if one not in first), key=lambda one: one.squared_error)
    return first + others[: number - len(first)]
