"""Sine and cosine of angles in half turns, as polynomials that LLVM turns into vector code.

Range reduction is exact: n = rint(x), r = x - n in [-1/2, 1/2], sin(pi x) = (-1)^n sin(pi r), and so for the
cosine. The coefficients interpolate sin(pi r) / r and cos(pi r) in r^2 at Chebyshev nodes of [0, 1/4]; their largest
errors are 7e-9 and 5e-8 (float32), 3e-16 and 1e-16 (float64): near or below the rounding of the format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from okl.compiled.door import compiled
from okl.compiled.intrinsics import rint
from okl.types import FloatArray


def _wave(x, a):  # type: ignore[no-untyped-def]
    """Pair of a sin(pi x) and a cos(pi x) in the precision of x: in compiled code one of the two below."""
    return a * np.sin(np.pi * x), a * np.cos(np.pi * x)


def _wave_float32(x, a):  # type: ignore[no-untyped-def]
    n = rint(x)
    r = x - n
    # a (-1)^n without integers, which would overflow for large angles
    a = a - np.float32(2) * a * abs(n - np.float32(2) * rint(np.float32(0.5) * n))
    t = r * r
    s = np.float32(-0.5982904112834275) + t * np.float32(0.07765591227601387)
    s = np.float32(-5.167710076668315) + t * (np.float32(2.550077386528912) + t * s)
    s = np.float32(3.1415926400772034) + t * s
    c = np.float32(-1.331872972787485) + t * np.float32(0.21968242357537815)
    c = np.float32(-4.934792802489459) + t * (np.float32(4.058410790762598) + t * c)
    c = np.float32(0.9999999530275123) + t * c
    return (a * r) * s, a * c


def _wave_float64(x, a):  # type: ignore[no-untyped-def]
    n = rint(x)
    r = x - n
    a = a - 2.0 * a * abs(n - 2.0 * rint(0.5 * n))
    t = r * r
    s = 0.0004659870158043378 + t * -2.113362735205297e-05
    s = 0.08214587881631043 + t * (-0.0073703643265304155 + t * s)
    s = 2.5501640398618677 + t * (-0.599264528825224 + t * s)
    s = 3.1415926535897927 + t * (-5.1677127800497855 + t * s)
    c = -0.00010456655338748738 + t * 4.149564353942586e-06
    c = -0.025806888737002202 + t * (0.0019295562724817132 + t * c)
    c = -1.335262768843447 + t * (0.23533063012953284 + t * c)
    c = -4.934802200544676 + t * (4.058712126416497 + t * c)
    c = 1.0 + t * c
    return (a * r) * s, a * c


@overload(_wave, inline="always")
def _choose_wave(x, a):  # type: ignore[no-untyped-def]
    return _wave_float32 if x == types.float32 else _wave_float64


@compiled
def sines_and_cosines(sines: FloatArray, cosines: FloatArray, amplitude: np.floating[Any]) -> None:
    """Overwrite sines, which hold angles in half turns, by amplitude * sine, and cosines by amplitude * cosine.

    sines, cosines : (rows, n_frequencies), C-contiguous, of one precision, not overlapping
    amplitude : scalar of that precision
    """
    for row in range(sines.shape[0]):
        sine, cosine = sines[row], cosines[row]
        for j in range(sines.shape[1]):
            sine[j], cosine[j] = _wave(sine[j], amplitude)  # type: ignore[no-untyped-call]
