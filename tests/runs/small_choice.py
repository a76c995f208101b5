"""A small automatic choice, for tests of something else than the size of its models."""

from __future__ import annotations

import pytest

from okl.estimators import automatic
from okl.runs import candidates, model_sizes

ROWS, LANDMARKS = 600, 128


def make_choice_small(patch: pytest.MonkeyPatch) -> None:
    """Let the choice try few kernels in one round, and train one size of few landmarks."""
    patch.setattr(candidates, "FACTORS", {"gaussian": (0.5, 1.0), "laplacian": (1.0,)})
    for name in ("LEAST_LANDMARKS", "ENOUGH_LANDMARKS", "MOST_LANDMARKS"):
        patch.setattr(model_sizes, name, LANDMARKS)
    patch.setattr(model_sizes, "ROUNDS", ((ROWS, LANDMARKS),) * 3)
    patch.setattr(automatic, "ENOUGH_LANDMARKS", LANDMARKS)
    patch.setattr(model_sizes, "_LOCAL", ())
