"""Slow, obvious twins of okl/compiled/expertmaps.py: every sine by itself."""

from __future__ import annotations

import numpy as np

from okl.compiled.blocks import Block
from okl.compiled.expertmaps import Teams
from okl.types import FloatArray
from tests.naive.projection import unpacked


def mapped(inputs: FloatArray, teams: Teams, m: int, n_frequencies: int) -> Block:
    """Features of a multiple of a base map, each sine by itself."""
    half_turns = unpacked(teams.panels[teams.base[m]], n_frequencies).astype(np.float64) * 2.0 ** teams.octave[m]
    angles = np.pi * (inputs.astype(np.float64) @ half_turns)
    return Block(teams.amplitude * np.sin(angles), teams.amplitude * np.cos(angles))


def double_angles(sines: FloatArray, cosines: FloatArray, amplitude: float) -> None:
    angles = 2 * np.arctan2(sines.astype(np.float64), cosines.astype(np.float64))
    sines[...], cosines[...] = amplitude * np.sin(angles), amplitude * np.cos(angles)
