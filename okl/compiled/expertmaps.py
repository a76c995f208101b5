"""Features for teams of experts: many maps that are multiples of a few, or one map whose blocks threads compute ahead.

Legend: M maps, T step sizes, K outputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.door import compiled
from okl.compiled.experts import ExpertRule, Said, Team, learn_team
from okl.compiled.fourier import Waves, map_block
from okl.compiled.projection import project
from okl.compiled.turns import pass_turn, wait_turn
from okl.compiled.waves import sines_and_cosines
from okl.types import FloatArray


class Teams(NamedTuple):
    """Teams of M Fourier maps whose frequencies are multiples of a few base ones: (M, T, K, H, n) and (M, T).

    squares : (M, 0, 0, 0, 0) for steps of fixed size
    base, octave : (M,) int64: the map's frequencies are those of panels[base] times 2^octave; sorted by both
    panels : (bases, ...), packed frequencies over pi; amplitude : as in Waves
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: NDArray[np.float64]
    base: NDArray[np.int64]
    octave: NDArray[np.int64]
    panels: FloatArray
    amplitude: np.floating[Any]


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
def learn_teams(
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    teams: Teams,
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    first_team: int,
    last_team: int,
) -> None:
    """Teams first_team .. last_team - 1 learn all rows; words (M, rows, T, 2), stepped (M, rows), teams, block change.

    The sines of a base map are computed once; those of its multiples follow by doubling angles, in the same way
    whichever teams are there.
    """
    size = block.left.shape[0]
    cautions = np.ones(size)
    for first in range(0, inputs.shape[0], size):
        last = min(first + size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        base, octave = -1, 0
        for m in range(first_team, last_team):
            if teams.base[m] != base:
                base, octave = teams.base[m], 0
                project(part.left, inputs[first:last], teams.panels[base])
                sines_and_cosines(part.left, part.right, teams.amplitude)
            while octave < teams.octave[m]:
                double_angles(part.left, part.right, teams.amplitude)
                octave += 1
            team = Team(teams.weights[m], teams.pulls[m], teams.squares[m], teams.steps[m])
            said = Said(words[m, first:last], stepped[m, first:last])
            learn_team(said, team, part, targets[first:last], cautions, rule, seen + first)


@compiled
def learn_team_in_turns(
    said: Said,
    team: Team,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    rule: ExpertRule,
    seen: int,
    thread: int,
    n_threads: int,
) -> bool:
    """One team learns rows, threads map its blocks; said, team, turns, block change. False if another thread failed."""
    size = block.left.shape[0]
    cautions = np.ones(size)
    for index in range(thread, (inputs.shape[0] + size - 1) // size, n_threads):
        first, last = index * size, min((index + 1) * size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        map_block(part, inputs[first:last], waves)
        if not wait_turn(turns, index):
            return False
        here = Said(said.words[first:last], said.stepped[first:last])
        learn_team(here, team, part, targets[first:last], cautions, rule, seen + first)
        pass_turn(turns, index + 1)
    return True
