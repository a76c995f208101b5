from __future__ import annotations

from functools import partial

import pytest

from okl.data.order import plan_windows
from okl.solvers.online import base, linear

SMALL_WINDOW = 4 * 4 * 700  # bytes: 700 rows of four float32 inputs


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use several windows for each pass and each shard, as for a data set larger than memory."""
    for module, window_bytes in ((base, SMALL_WINDOW), (linear, SMALL_WINDOW // 3)):
        monkeypatch.setattr(module, "plan_windows", partial(plan_windows, window_bytes=window_bytes))
