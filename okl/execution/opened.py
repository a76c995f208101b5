"""The one execution of a run: opened when a stage first asks for it, closed at the run's end."""

from __future__ import annotations

from collections.abc import Callable

from okl.execution.protocol import Execution


class Opened:
    """Call it for the execution.

    Parameters
    ----------
    opening : opens it, at the first call
    """

    def __init__(self, opening: Callable[[], Execution]) -> None:
        self._opening = opening
        self._execution: Execution | None = None

    def __call__(self) -> Execution:
        """The execution, open."""
        if self._execution is None:
            self._execution = self._opening()
        return self._execution

    def close(self) -> None:
        """Free its workers, if it was opened."""
        if self._execution is not None:
            self._execution.close()
            self._execution = None
