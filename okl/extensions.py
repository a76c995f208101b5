"""Registration of losses, models and feature maps from user files.

    okl --extension my_loss.py train DATA --loss my-loss

The file runs in this process and on the workers. A package may bring the same, with an entry point in the group
`okl.extensions` whose value is the name of the module. The parts of a model are in `okl.solvers.accelerated`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import numpy as np

from okl.compiled.extension import Scalar
from okl.features.extension import Arrays, DeclaredMap
from okl.foundation.catalogue import LOSSES, SOLVERS
from okl.foundation.errors import ConfigError
from okl.foundation.plugins import Kind, declare, use_extension
from okl.foundation.settings import MapName
from okl.foundation.types import Task
from okl.kernels import Kernel
from okl.losses import DeclaredLoss
from okl.solvers.accelerated.base import Classifier, ParameterName, check_cost, weights_of
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.problem import BoxHyperplane, BoxRegion, HalfSquare, LinearTerm, Quadratic, SumOfLosses

__all__ = [
    "Arrays",
    "BoxHyperplane",
    "BoxRegion",
    "Classifier",
    "DualProblem",
    "HalfSquare",
    "Kernel",
    "LinearTerm",
    "ParameterName",
    "Quadratic",
    "SumOfLosses",
    "add_loss",
    "add_map",
    "add_model",
    "check_cost",
    "use_extension",
    "weights_of",
]

Model = TypeVar("Model", bound=type[Classifier])
_TAKEN: dict[Kind, tuple[str, ...]] = {"loss": ("auto", *LOSSES), "solver": tuple(SOLVERS), "map": get_args(MapName)}
_POINTS, _STEP, _MOST_WRONG = 48, 1e-5, 4


def add_loss(name: str, *, task: Task, value: Scalar, derivative: Scalar) -> None:
    """Add a loss: two functions of a score and a target, both floats, which are compiled.

    Parameters
    ----------
    name : for --loss; task : "binary", targets are -1 and +1, or "regression"
    value : of the loss, finite; derivative : of value by the score, any subgradient at a kink

    Raises
    ------
    ConfigError : the name is taken, the task has several classes, or derivative is not that of value
    """
    if task not in ("binary", "regression"):
        raise ConfigError(
            f"The loss {name!r} has task {task!r}; expected binary or regression, with one score for each row."
        )
    _check_name("loss", name)
    _check_slopes(name, task, value, derivative)
    declare("loss", name, DeclaredLoss(task, value, derivative), value.__module__)


def add_model(model: Model) -> Model:
    """Add an accelerated model, a Classifier, by its NAME for --solver; a decorator.

    Raises
    ------
    ConfigError : the name is taken, or it is no Classifier, or lacks something
    """
    if not (isinstance(model, type) and issubclass(model, Classifier)):
        raise ConfigError(f"{model!r:.80} is not a model. Derive its class from okl.extensions.Classifier.")
    missing = [part for part in ("NAME", "PARAMETER", "EQUATION") if not hasattr(model, part)]
    missing += sorted(getattr(model, "__abstractmethods__", ()))
    if missing:
        raise ConfigError(f"The model {model.__name__} lacks {', '.join(missing)}; see okl.extensions.Classifier.")
    if model.PARAMETER not in get_args(ParameterName):
        raise ConfigError(f"The model {model.NAME!r} has PARAMETER = {model.PARAMETER!r}; expected C, nu or kappa.")
    _check_name("solver", model.NAME)
    declare("solver", model.NAME, model, model.__module__)
    return model


def add_map(name: str, *, draw: Callable[..., Any], transform: Callable[..., Any], version: int = 1) -> None:
    """Add a feature map: a function that draws its arrays, and one that makes features of inputs by them.

    Parameters
    ----------
    name : for --map
    draw : of (kernel, n_inputs, n_columns, generator): arrays by name, all that a model file keeps of the map; floats
        in them come in the run's precision afterwards. n_columns is twice --frequencies
    transform : of (arrays, inputs (rows, n_inputs)), features (rows, n_columns), each row by its own input alone;
        rows of norm 1 or so suit the step sizes that are tried
    version : raise it when transform makes other features of the same arrays: older models are then refused

    Raises
    ------
    ConfigError : the name is taken
    """
    _check_name("map", name)
    declare("map", name, DeclaredMap(draw, transform, version), transform.__module__)


def _check_name(kind: Kind, name: str) -> None:
    if name in _TAKEN[kind]:
        raise ConfigError(f"{kind} = {name!r} is a name of okl itself. Choose another name.")


def _check_slopes(name: str, task: Task, value: Scalar, derivative: Scalar) -> None:
    """Compare a derivative with differences of the value, allowing for a few kinks."""
    rng = np.random.default_rng(0)
    scores = 3.0 * rng.standard_normal(_POINTS)
    targets = rng.standard_normal(_POINTS) if task == "regression" else np.sign(rng.standard_normal(_POINTS))
    wrong = []
    for f, y in zip(scores.tolist(), targets.tolist(), strict=True):
        given, measured = derivative(f, y), (value(f + _STEP, y) - value(f - _STEP, y)) / (2.0 * _STEP)
        if not math.isfinite(given) or not abs(given - measured) <= 1e-4 * (1.0 + abs(given)):
            wrong.append(
                f"at score {f:.3f} and target {y:.3f} the derivative is {given:.6g}, but finite differences give "
                f"{measured:.6g}"
            )
    if len(wrong) > _MOST_WRONG:
        raise ConfigError(f"The derivative of the loss {name!r} does not match its value: {wrong[0]}.")
