"""What all step sizes in one map say of rows before they learn them: fused for a Fourier map, by blocks for others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import MOST_ROWS
from okl.compiled.crew import Crew
from okl.compiled.door import one_blas_thread
from okl.compiled.expertlearning import learn_team
from okl.compiled.expertmaps import Mixture
from okl.compiled.experts import ExpertRule, Said, Team
from okl.compiled.hedge import Hedge
from okl.compiled.mixing import Counted, new_memo
from okl.features.fourier import FourierFeatures
from okl.features.protocol import FeatureMap
from okl.features.scoring import block_of
from okl.online.experts.candidates import Candidates
from okl.online.experts.fourierturns import Words, learn_fourier
from okl.online.experts.state import Group
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class Speakers:
    """A team of step sizes in a map."""

    feature_map: FeatureMap

    @property
    def halves(self) -> tuple[int, int]:
        """How many halves the weights have, and columns of each."""
        if isinstance(self.feature_map, FourierFeatures):
            return 2, self.feature_map.n_frequencies
        return 1, self.feature_map.n_columns

    def learn(
        self,
        group: Group,
        inputs: FloatArray,
        targets: NDArray[np.float64],
        rule: ExpertRule,
        seen: int,
        n_threads: int,
        crew: Crew,
    ) -> Words:
        """Words (rows, E) and whether any weights changed (rows,); the group changes in place.

        seen : rows before these; same bits for any number of threads, and for rows cut at multiples of 256
        """
        n_rows, n_steps = len(targets), group.steps.size
        words, stepped = np.empty((1, n_rows, n_steps, 2)), np.empty((1, n_rows), dtype=np.uint8)
        if self._candidates is not None:
            learn_fourier(
                (words, stepped), group, self._candidates, inputs, targets, rule, seen, n_threads, crew, _apart(), _idle
            )
        else:
            self._learn_blocks((words, stepped), group, inputs, targets, rule, seen)
        return words.reshape(n_rows, -1), stepped[0]

    def _learn_blocks(
        self,
        heard: Words,
        group: Group,
        inputs: FloatArray,
        targets: NDArray[np.float64],
        rule: ExpertRule,
        seen: int,
    ) -> None:
        team = Team(group.weights[0], group.pulls[0], group.squares[0], group.steps[0])
        words, stepped = heard
        with one_blas_thread():
            for first in range(0, len(targets), MOST_ROWS):
                part = slice(first, first + MOST_ROWS)
                block, cautions = block_of(self.feature_map.transform(inputs[part])), np.ones(len(targets[part]))
                said = Said(words[0, part], stepped[0, part])
                learn_team(said, team, block, targets[part], cautions, rule, seen + first)

    @cached_property
    def _candidates(self) -> Candidates | None:
        return Candidates((self.feature_map,), 1) if isinstance(self.feature_map, FourierFeatures) else None


def _apart() -> Mixture:
    """A mixture that is not complete: words are mixed afterwards."""
    counted = Counted(np.zeros(5, np.int64), np.zeros(6), np.zeros(1, np.int64))
    return Mixture(counted, Hedge(np.zeros(1), np.zeros(1), np.zeros(3)), new_memo(1, 1), False)


def _idle() -> None:
    """Nothing is learnt besides."""
