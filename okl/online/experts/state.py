"""What evolves while experts see rows: their weights, what they have lost, and how their mixture did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import aligned_empty
from okl.compiled.experts import AVERAGED, age_of
from okl.online.progress import Progress
from okl.types import FloatArray

Kind = Literal["fourier", "linear", "linear-adagrad"]


CACHE_LINE_BYTES = 64


def aligned(array: FloatArray) -> FloatArray:
    """A copy whose rows, the last axis, begin at cache lines if they are whole lines long."""
    shape = array.shape
    if array.size == 0:
        return array.copy()
    copied = _aligned_room(shape, array.dtype)
    copied[...] = array
    return copied


def _picked(array: FloatArray, maps: list[int], steps: list[list[int]]) -> FloatArray:
    """An aligned copy of some maps, and of each of as many of its step sizes, copied once."""
    picked = _aligned_room((len(maps), len(steps[0]), *array.shape[2:]), array.dtype)
    for place, m in enumerate(maps):
        for t, step in enumerate(steps[place]):
            picked[place, t] = array[m, step]
    return picked


def _aligned_room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> FloatArray:
    return aligned_empty((math.prod(shape[:-1]), shape[-1]), dtype).reshape(shape)


def padded_columns(n_columns: int, itemsize: int) -> int:
    """Columns of a row of whole pairs of cache lines: vectors that straddle two, and what is left, take longer."""
    per_pair = 2 * CACHE_LINE_BYTES // itemsize
    return -(-n_columns // per_pair) * per_pair


@dataclass(frozen=True, eq=False)
class Group:
    """Learners of one kind: M maps with T step sizes each.

    candidates : (base, octave) of each Fourier map; one pair of zeros for a linear map
    steps : (M, T); n_columns : of a half
    weights, pulls : (M, T, n_outputs, H, padded), H = 2 halves of a Fourier map, 1 of a linear one; zeros pad the
        columns of a half to whole cache lines; squares : the same, or (M, 0, 0, 0, 0) without AdaGrad
    """

    kind: Kind
    candidates: tuple[tuple[int, int], ...]
    n_columns: int
    steps: NDArray[np.float64]
    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray

    @property
    def n_experts(self) -> int:
        """Two for each map and step size: the last and the averaged weights."""
        return 2 * self.steps.size

    def copy(self) -> Group:
        """Arrays of its own, to be changed in place."""
        arrays = aligned(self.weights), aligned(self.pulls), aligned(self.squares)
        return Group(self.kind, self.candidates, self.n_columns, self.steps.copy(), *arrays)

    def kept(self, maps: list[int], steps: list[list[int]]) -> Group:
        """Some maps, and of each as many of its step sizes."""
        rows, columns = np.array(maps)[:, None], np.array(steps)
        squares = _picked(self.squares, maps, steps) if self.squares.size else self.squares[maps]
        return Group(
            self.kind,
            tuple(self.candidates[m] for m in maps),
            self.n_columns,
            np.ascontiguousarray(self.steps[rows, columns]),
            _picked(self.weights, maps, steps),
            _picked(self.pulls, maps, steps),
            squares,
        )

    def expert_weights(self, m: int, t: int, which: int, seen: int) -> FloatArray:
        """Last or averaged weights (n_outputs, n_columns) of a learner after `seen` rows."""
        last = self._unpadded(self.weights[m, t])
        if which != AVERAGED or seen == 0:
            return last
        averaged = last - self._unpadded(self.pulls[m, t]).astype(np.float64) / age_of(seen)
        return averaged.astype(last.dtype)

    def _unpadded(self, halves: FloatArray) -> FloatArray:
        return np.ascontiguousarray(halves[:, :, : self.n_columns]).reshape(len(halves), -1)


@dataclass(frozen=True, eq=False)
class Experts:
    """The state of the expert learner: a value that no method writes into.

    round : number of the round of the schedule; groups : who still takes part
    losses, recent : (E,), what each expert has lost, groups one after the other: maps, step sizes, last and averaged
    numbers : (3,), as in okl.compiled.hedge; progress : how the mixture's predictions did
    """

    round: int
    groups: tuple[Group, ...]
    losses: NDArray[np.float64]
    recent: NDArray[np.float64]
    numbers: NDArray[np.float64]
    progress: Progress

    @property
    def n_maps(self) -> int:
        """Maps that take part, the linear one for each kind of step."""
        return sum(len(group.candidates) for group in self.groups)

    def copy(self) -> Experts:
        """Arrays of its own, to be changed in place."""
        return replace(
            self,
            groups=tuple(group.copy() for group in self.groups),
            losses=self.losses.copy(),
            recent=self.recent.copy(),
            numbers=self.numbers.copy(),
        )

    def per_learner(self, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Values (E,) of all experts as (M, T, 2) for each group."""
        ends = np.cumsum([group.n_experts for group in self.groups])[:-1]
        parts = np.split(values, ends)
        return [part.reshape(*group.steps.shape, 2) for part, group in zip(parts, self.groups, strict=True)]
