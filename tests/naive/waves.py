"""Slow, obvious twin of okl/compiled/waves.py."""

from __future__ import annotations

import numpy as np

from okl.types import FloatArray


def sines_and_cosines(sines: FloatArray, cosines: FloatArray, amplitude: float) -> None:
    """Overwrite angles in half turns by their sines, and cosines by their cosines; exact reduction, longest format."""
    pi = np.longdouble("3.14159265358979323846264338327950288")
    turns = sines.astype(np.longdouble)
    angles = pi * (turns - 2 * np.rint(turns / 2))
    cosines[...] = amplitude * np.cos(angles)
    sines[...] = amplitude * np.sin(angles)
