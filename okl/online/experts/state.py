"""What evolves while experts see rows: their weights, what they have lost, and how their mixture did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from okl.compiled.experts import AVERAGED, age_of
from okl.online.progress import Progress
from okl.types import FloatArray

Kind = Literal["fourier", "linear", "linear-adagrad"]


@dataclass(frozen=True, eq=False)
class Group:
    """Learners of one kind: M maps with T step sizes each.

    candidates : (base, octave) of each Fourier map; one pair of zeros for a linear map
    steps : (M, T); weights, pulls : (M, T, n_outputs, n_columns); squares : the same, or (M, 0, 0, 0) without AdaGrad
    """

    kind: Kind
    candidates: tuple[tuple[int, int], ...]
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
        arrays = (self.weights.copy(), self.pulls.copy(), self.squares.copy())
        return Group(self.kind, self.candidates, self.steps.copy(), *arrays)

    def kept(self, maps: list[int], steps: list[list[int]]) -> Group:
        """Some maps, and of each as many of its step sizes."""
        rows, columns = np.array(maps)[:, None], np.array(steps)
        squares = self.squares[rows, columns] if self.squares.size else self.squares[maps]
        return Group(
            self.kind,
            tuple(self.candidates[m] for m in maps),
            np.ascontiguousarray(self.steps[rows, columns]),
            np.ascontiguousarray(self.weights[rows, columns]),
            np.ascontiguousarray(self.pulls[rows, columns]),
            np.ascontiguousarray(squares),
        )

    def expert_weights(self, m: int, t: int, which: int, seen: int) -> FloatArray:
        """Last or averaged weights (n_outputs, n_columns) of a learner after `seen` rows."""
        last = self.weights[m, t]
        if which != AVERAGED or seen == 0:
            return last.copy()
        averaged: FloatArray = (last - self.pulls[m, t].astype(np.float64) / age_of(seen)).astype(last.dtype)
        return averaged


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
