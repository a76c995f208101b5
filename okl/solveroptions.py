"""Which options each solver takes, of those that only some take."""

from __future__ import annotations

from dataclasses import fields

from okl.accelerated.catalogue import MODEL_NAMES, has_own_bias, parameter_of
from okl.online.budget.strategies import STRATEGIES
from okl.online.budget.strategy import BudgetStrategy

IN_A_MAP = frozenset({"step_size", "class_weights", "average", "step_rule"})
OF_KERNELS = frozenset({"degree", "offset"})
OF_STRATEGIES = frozenset({"step_size", "regularisation", "aggressiveness"})
OF_MODELS = frozenset({"frequencies", "map", "tol", "max_iterations", "bias", "start"})
OF_CUTS = frozenset({"frequencies", "map", "max_iterations", "bias", "lam", "gap", "class_weights"})
OF_CONSTRAINTS = frozenset({"constraints", "constraint_margin", "constraint_gain", "learn_sensitive"})


def _of_model(name: str) -> frozenset[str]:
    """Of one of the models; moments of a class are the same whatever each of its rows weighs."""
    parameter = parameter_of(name)
    own = {parameter} | ({"fit_intercept"} if has_own_bias(name) else set())
    return OF_MODELS | own | ({"class_weights"} if parameter != "kappa" else set())


OPTIONS: dict[str, frozenset[str]] = (
    {
        "fogd": IN_A_MAP | {"frequencies", "map", "radius", "certify", "track"} | OF_CONSTRAINTS,
        "nogd": IN_A_MAP | OF_KERNELS | {"budget", "rank", "landmarks"},
    }
    | {
        name: OF_KERNELS
        | (OF_STRATEGIES & {field.name for field in fields(strategy)})
        | ({"budget"} if issubclass(strategy, BudgetStrategy) else set())
        for name, strategy in STRATEGIES.items()
    }
    | {name: _of_model(name) for name in MODEL_NAMES}
    | {
        "scs": OF_CUTS | OF_KERNELS | {"confidence", "first_sample", "bundle_size"},
        "wolfe": OF_CUTS,
        "ridge": OF_KERNELS | {"n_landmarks", "landmarks", "penalty", "class_weights", "fit_intercept"},
        "pegasos": frozenset({"frequencies", "map", "lam", "batch", "project", "average", "certify", "confidence"}),
    }
)
"""Of the options that only some solvers take, those that each of okl's own takes."""


def options_of(solver: str) -> frozenset[str]:
    """Of the options that only some solvers take, those that one takes, okl's own or an extension's model."""
    if solver == "auto":
        return frozenset()
    return OPTIONS[solver] if solver in OPTIONS else _of_model(solver)
