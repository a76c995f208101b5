"""Parameters of the accelerated classifiers that do not go together, each with the way out."""

from __future__ import annotations

from numbers import Real
from typing import Any

from okl.accelerated.catalogue import has_own_bias, parameter_of, takes_kernel
from okl.errors import ConfigError
from okl.kernels import Kernel


def float_or_auto(name: str, value: Any) -> float | None:
    """A float of any numeric type, None for "auto"; ConfigError for what is no number. Its range is not looked at."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError(f"{name} = {value!r}, but it takes a number.")
    return float(value)


def refuse_two_intercepts(model: str, bias: str, fit_intercept: bool) -> None:
    """Raise ConfigError for a bias of fewest errors where no intercept is wanted of a model that has one."""
    if bias == "error-minimising" and not fit_intercept and has_own_bias(model):
        raise ConfigError(
            'bias = "error-minimising" came with fit_intercept = False, but it is an intercept, too: leave one of them '
            "out."
        )


def refuse_without_columns(model: str, kernel: str | Kernel, start: str) -> None:
    """Raise ConfigError where an exact kernel came for what takes explicit columns."""
    if start == "stochastic":
        raise ConfigError(
            f'start = "stochastic" came with kernel = {kernel!r}, but it takes explicit columns: give a feature_map, '
            'such as "orthogonal", or leave start at "own".'
        )
    if not takes_kernel(model):
        raise ConfigError(
            f"kernel = {kernel!r} came for the model {model!r}, which takes explicit columns: give a feature_map, such "
            'as "orthogonal", or leave the kernel linear.'
        )


def refuse_idle_weights(model: str, weighting: Any) -> None:
    """Raise ConfigError for weights of two classes that a model of their moments does not see."""
    if weighting is not None and parameter_of(model) == "kappa":
        raise ConfigError(
            f"class_weight = {weighting!r} came for the model {model!r}, but mean and covariance of a class are the "
            'same whatever each of its rows weighs: leave it out, or set bias = "error-minimising", which counts '
            "errors by it."
        )
