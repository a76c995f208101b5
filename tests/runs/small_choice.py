"""A small automatic choice, for tests that do not depend on model sizes."""

from __future__ import annotations

import pytest

from okl.estimators import automatic
from okl.runs import candidates, model_sizes

ROWS, LANDMARKS = 600, 128


def make_choice_small(patch: pytest.MonkeyPatch) -> None:
    """Restrict the choice to few kernels in one round, and to one size of few landmarks."""
    patch.setattr(candidates, "FACTORS", {"gaussian": (0.5, 1.0), "laplacian": (1.0,)})
    for name in ("LEAST_LANDMARKS", "ENOUGH_LANDMARKS", "MOST_LANDMARKS"):
        patch.setattr(model_sizes, name, LANDMARKS)
    patch.setattr(model_sizes, "ROUNDS", ((ROWS, LANDMARKS),) * 3)
    patch.setattr(automatic, "ENOUGH_LANDMARKS", LANDMARKS)
    patch.setattr(model_sizes, "_LOCAL", ())
