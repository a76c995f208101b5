"""Arrays that a search uses again from call to call: touching fresh pages costs more than the search itself."""

from __future__ import annotations

from threading import local

import numpy as np
from numpy.typing import NDArray

_MOST_BYTES = 2**26  # an array; what is larger is returned to the system


class _Workspace(local):
    """Arrays of this thread by name, grown as need be."""

    def __init__(self) -> None:
        self._doubles: dict[str, NDArray[np.float64]] = {}

    def doubles(self, name: str, size: int) -> NDArray[np.float64]:
        """An array (size,), another one for every name; what it holds is undefined."""
        doubles = self._doubles.get(name)
        if doubles is None or len(doubles) < size:
            doubles = np.empty(size)
            if doubles.nbytes <= _MOST_BYTES:
                self._doubles[name] = doubles
        return doubles[:size]


workspace = _Workspace()
