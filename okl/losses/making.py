"""Losses by their names."""

from __future__ import annotations

from okl import extensions
from okl.errors import ConfigError
from okl.losses.classes import Hinge, Logistic, MulticlassHinge
from okl.losses.extension import ExtensionLoss, compiled_loss
from okl.losses.protocol import Loss
from okl.losses.residuals import ThresholdedHalfSquared
from okl.types import Task

DEFAULT_LOSS: dict[Task, str] = {
    "binary": "hinge",
    "multiclass": "multiclass-hinge",
    "regression": "thresholded-half-squared",
}


def make_loss(name: str, epsilon: float = 0.1) -> Loss:
    """Make a loss of the table, or of an extension, by its name, or raise ConfigError that lists the names."""
    if name == "thresholded-half-squared":
        return ThresholdedHalfSquared(epsilon)
    losses: dict[str, Loss] = {"hinge": Hinge(), "logistic": Logistic(), "multiclass-hinge": MulticlassHinge()}
    if name in losses:
        return losses[name]
    declared = extensions.find("loss", name)
    if declared is None:
        known = [*losses, "thresholded-half-squared", *extensions.names("loss")]
        raise ConfigError(f"loss = {name!r}, but it takes one of {', '.join(known)}.")
    loss = ExtensionLoss(name, declared.thing.task, declared.origin)
    compiled_loss(name, declared.origin)  # what cannot be compiled is refused before anything is read
    return loss
