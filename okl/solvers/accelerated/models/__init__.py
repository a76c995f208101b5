"""Classification models, a file each: objective, feasible set, losses and valid parameters; and the models by name."""

from __future__ import annotations

from okl.foundation import plugins
from okl.foundation.catalogue import MODELS, load
from okl.foundation.errors import ConfigError
from okl.solvers.accelerated.base import Classifier, ParameterName

_MODELS: dict[str, type[Classifier]] = {name: load(path) for name, path in MODELS.items()}

MODEL_NAMES = tuple(_MODELS)


def is_model(name: str) -> bool:
    """Return whether a solver is one of the models, okl's own or an extension's."""
    return name in _MODELS or plugins.find("solver", name) is not None


def model_class(name: str) -> type[Classifier]:
    """Return the class of a model; raise ConfigError for an unknown name."""
    if name in _MODELS:
        return _MODELS[name]
    declared = plugins.find("solver", name)
    if declared is None:
        names = (*MODEL_NAMES, *plugins.names("solver"))
        raise ConfigError(f"model = {name!r}; expected one of {', '.join(names)}.")
    model: type[Classifier] = declared.thing
    return model


def parameter_of(name: str) -> ParameterName:
    """Return the name of the one parameter that a model takes: "C", "nu" or "kappa"."""
    return model_class(name).PARAMETER


def make_model(
    name: str,
    *,
    C: float | None = None,
    nu: float | None = None,
    kappa: float | None = None,
    fit_intercept: bool = True,
) -> Classifier:
    """Return the model of a name.

    name : one of MODEL_NAMES, or of an extension
    C, nu, kappa : the model's own parameter, or None for its default; the other two None
    fit_intercept : whether there is a bias; without effect on models that have none of their own
    Raises ConfigError : an unknown name, another model's parameter, a value that no data could make valid
    """
    given = {"C": C, "nu": nu, "kappa": kappa}
    own = parameter_of(name)
    for parameter, value in given.items():
        if parameter != own and value is not None:
            raise ConfigError(f"{parameter} = {value!r} is set, but the model {name!r} takes {own}. Set {own} instead.")
    return model_class(name).of(given[own], fit_intercept)
