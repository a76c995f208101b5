"""What evolves while experts are tracked: their weights in one map, and how much each is heard."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.online.experts.state import Group
from okl.online.progress import Progress
from okl.online.tracking.kept import Kept
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class Tracked:
    """The state of the tracking learner: a value that no method writes into.

    group : one map with T step sizes, E = 2 T experts: of each step size the last and the averaged weights
    p, mistakes : (E,), weights of the experts and sums of their losses; numbers : (2,); as in okl.compiled.fixedshare
    progress : how the mixture's predictions did
    kept : models of before, if anybody watches for change
    """

    group: Group
    p: NDArray[np.float64]
    mistakes: NDArray[np.float64]
    numbers: NDArray[np.float64]
    progress: Progress
    kept: Kept

    def copy(self) -> Tracked:
        """Arrays of its own, to be changed in place."""
        return replace(
            self,
            group=self.group.copy(),
            p=self.p.copy(),
            mistakes=self.mistakes.copy(),
            numbers=self.numbers.copy(),
        )

    def weights(self) -> FloatArray:
        """The mean of the experts' weights (n_outputs, n_columns), each as much as it is heard."""
        seen, share = self.progress.rows, self.p.reshape(-1, 2)
        first = self.group.expert_weights(0, 0, 0, seen)
        mean = np.zeros(first.shape)
        for t, which in np.ndindex(share.shape):
            if share[t, which] > 0.0:
                mean += share[t, which] * self.group.expert_weights(0, t, which, seen)
        return mean.astype(first.dtype)
