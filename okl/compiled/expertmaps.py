"""Teams of experts in Fourier maps that are multiples of a few: threads map blocks ahead and learn them in turns.

Every map has a turn of its own: while one thread learns a block in the second map, another may learn the next block in
the first.

Legend: M maps, T step sizes, K outputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.door import compiled
from okl.compiled.experts import ExpertRule, Said, Team
from okl.compiled.expertsteps import learn_steps, new_room
from okl.compiled.hedge import Hedge
from okl.compiled.mixing import Counted, Memo, mix_rows
from okl.compiled.projection import project
from okl.compiled.turns import claim_block, pass_turn, wait_turn
from okl.compiled.waves import sines_and_cosines
from okl.types import FloatArray


class Teams(NamedTuple):
    """Teams of M Fourier maps whose frequencies are multiples of a few base ones: (M, T, K, H, n) and (M, T).

    squares : (M, 0, 0, 0, 0), steps are of fixed size
    base, octave : (M,) int64: the map's frequencies are those of panels[base] times 2^octave; sorted by both
    panels : (bases, ...), packed frequencies over pi; n_frequencies, amplitude : as in Waves
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: NDArray[np.float64]
    base: NDArray[np.int64]
    octave: NDArray[np.int64]
    panels: FloatArray
    n_frequencies: int
    amplitude: np.floating[Any]


class Mixture(NamedTuple):
    """What `mix_rows` changes; complete : whether one team is all there is, so that its words can be mixed at once."""

    counted: Counted
    hedge: Hedge
    memo: Memo
    complete: bool


@compiled
def double_angles(sines: FloatArray, cosines: FloatArray, amplitude: np.floating[Any]) -> None:
    """Overwrite amplitude * sine and amplitude * cosine of angles by those of twice the angles."""
    factor = sines.dtype.type(2) / amplitude
    for row in range(sines.shape[0]):
        sine, cosine = sines[row], cosines[row]
        for j in range(sines.shape[1]):
            s, c = sine[j], cosine[j]
            sine[j] = factor * s * c
            cosine[j] = amplitude - factor * s * s


@compiled
def blank_beyond(block: Block, n_frequencies: int) -> None:
    """Overwrite what fills the rows of a block to whole cache lines by zeros."""
    for part in block:
        for row in range(part.shape[0]):
            part[row, n_frequencies:] = 0


@compiled
def learn_teams(
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    teams: Teams,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    mixture: Mixture,
) -> bool:
    """All teams learn rows; words (M, rows, T, 2), stepped (M, rows), teams, turns and block change in place.

    The sines of a base map are computed once a block; those of its multiples follow by doubling angles, in the same way
    whichever teams are there. Returns False if another thread failed.

    turns : (M + 1, 8), a turn for each map and for the mixture; threads claim blocks from the first
    block : halves as wide as weights; mixture : of all experts if these are all, mixed a block after the other
    """
    size, n_rows = block.left.shape[0], inputs.shape[0]
    cautions, room = np.ones(size), new_room(teams.weights[0])
    index = claim_block(turns[0])
    while index * size < n_rows:
        first, last = index * size, min((index + 1) * size, n_rows)
        part, y = Block(block.left[: last - first], block.right[: last - first]), targets[first:last]
        base, octave = -1, 0
        for m in range(teams.weights.shape[0]):
            if teams.base[m] != base:
                base, octave = teams.base[m], 0
                project(part.left, inputs[first:last], teams.panels[base])
                sines_and_cosines(part.left, part.right, teams.amplitude)
            while octave < teams.octave[m]:
                double_angles(part.left, part.right, teams.amplitude)
                octave += 1
            blank_beyond(part, teams.n_frequencies)
            team = Team(teams.weights[m], teams.pulls[m], teams.squares[m], teams.steps[m])
            said = Said(words[m, first:last], stepped[m, first:last])
            if not wait_turn(turns[m], index):
                return False
            learn_steps(said, team, room, part, y, cautions, rule, seen + first)
            pass_turn(turns[m], index + 1)
        if mixture.complete:
            if not wait_turn(turns[-1], index):
                return False
            here = words[0, first:last].reshape(last - first, words.shape[2] * words.shape[3])
            mix_rows(
                mixture.counted,
                mixture.hedge,
                mixture.memo,
                here,
                stepped[0, first:last],
                y,
                rule.class_weights,
                rule.code,
            )
            pass_turn(turns[-1], index + 1)
        index = claim_block(turns[0])
    return True
