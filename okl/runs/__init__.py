"""Runs: training, comparison, evaluation, prediction and explanation. `okl.runs()` lists the past ones."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Runs(ModuleType):
    """This package, which can be called: it has the name of the command that lists runs."""

    def __call__(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return complete runs in okl's home folder, newest first; see `okl.runs.history.past_runs`."""
        from okl.runs.history import past_runs

        return past_runs(most)


sys.modules[__name__].__class__ = _Runs
