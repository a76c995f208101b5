"""Subgradient solvers by name."""

from __future__ import annotations

from okl.foundation.errors import ConfigError
from okl.foundation.types import Task
from okl.solvers.subgradient.losses import ClassesHinge, Hinge, Insensitive, PiecewiseLinear

CUTTING_NAMES = ("scs", "wolfe")
ONLINE_NAMES = ("pegasos",)
DEFAULT_LOSS: dict[Task, str] = {
    "binary": "hinge",
    "multiclass": "multiclass-hinge",
    "regression": "epsilon-insensitive",
}


def make_piecewise(name: str, epsilon: float = 0.1) -> PiecewiseLinear:
    """The piecewise linear loss of a name.

    Raises
    ------
    ConfigError : another loss, or an epsilon below 0
    """
    losses: dict[str, PiecewiseLinear] = {"hinge": Hinge(), "multiclass-hinge": ClassesHinge()}
    losses |= {"absolute": Insensitive(0.0), "epsilon-insensitive": Insensitive(epsilon)}
    if name not in losses:
        raise ConfigError(f"loss = {name!r}, but cuts are made of a piecewise linear one: {', '.join(losses)}.")
    return losses[name]
