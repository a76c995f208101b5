"""Solver options: which solver takes which option, and which combinations are refused."""

from __future__ import annotations

from dataclasses import fields

from okl.foundation.errors import ConfigError
from okl.foundation.settings import TrainSettings
from okl.kernels import kernel_parameters
from okl.solvers.accelerated.models import MODEL_NAMES, has_own_bias, is_model, parameter_of
from okl.solvers.online.base import Mode
from okl.solvers.online.budget import BudgetStrategy
from okl.solvers.online.constraints import parse_constraints
from okl.solvers.online.strategies import STRATEGIES
from okl.solvers.subgradient.losses import CUTTING_NAMES

# Options by solver.

IN_A_MAP = frozenset({"step_size", "class_weights", "average", "step_rule"})
OF_KERNELS = frozenset({"degree", "offset"})
OF_STRATEGIES = frozenset({"step_size", "regularisation", "aggressiveness"})
OF_MODELS = frozenset({"frequencies", "map", "tol", "max_iterations", "bias"})
OF_CUTS = frozenset({"frequencies", "map", "max_iterations", "bias", "lam", "gap", "class_weights"})
OF_CONSTRAINTS = frozenset({"constraints", "constraint_margin", "constraint_gain", "learn_sensitive"})


def _of_model(name: str) -> frozenset[str]:
    """Return the options of one of the models; class moments do not depend on sample weights."""
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
    """Return the options a solver takes, of those that only some solvers take, okl's own or an extension's model."""
    if solver == "auto":
        return frozenset()
    return OPTIONS[solver] if solver in OPTIONS else _of_model(solver)


# Checks of options against solver and kernel: options without effect are errors.

OF_ONLINE = ("loss", "epsilon", "passes", "rounds", "order")
OF_FOURIER_MAPS = ("frequencies", "map")
NOT_OF_CUTS = ("passes", "rounds", "order")
NOT_TRACKED = ("step_size", "average", "step_rule", "constraints")
OF_A_RACE = {
    "budget_seconds": "has no time limit: only auto has one",
    "validation": "is not compared with other solvers: only auto compares",
}
MOST_TOLD = 6
LOSSES_OF_STRATEGIES = (
    "auto",
    "hinge",
    "multiclass-hinge",
    "thresholded-half-squared",
    "absolute",
    "epsilon-insensitive",
)


def check_options(settings: TrainSettings) -> None:
    """Refuse options that would have no effect, whatever the data are.

    A value equal to the default is accepted: stored settings do not record whether it was given.

    Raises
    ------
    ConfigError : an option that the solver, the kernel or the mode does not take, or a rank above the budget
    """
    solver, taken = settings.solver, options_of(settings.solver)
    for name, why in OF_A_RACE.items():
        if solver != "auto" and _changed(settings, name):
            raise ConfigError(
                f"{_describe(settings, name)}, but the solver {solver} {why}. Remove it, or remove the solver and its "
                "options."
            )
    for name in TrainSettings.model_fields:
        others = [other for other, options in OPTIONS.items() if name in options]
        if others and name not in taken and _changed(settings, name):
            raise ConfigError(
                f"{_describe(settings, name)}, but the solver {solver} has no {name}: it belongs to "
                f"{_list(others)}. Remove it, or choose another solver."
            )
    _check_kernel(settings)
    _check_exact(settings)
    radius = check_constraints(settings)
    if settings.step_rule == "sqrt" and radius is None:
        raise ConfigError(
            "step_rule = 'sqrt' is set, but steps decay only with a bound on the weights. Remove it, or set a radius."
        )
    if settings.track:
        _check_track(settings)
    if is_model(solver):
        _check_mode(settings)
        _check_model(settings)
    elif solver in CUTTING_NAMES:
        _check_mode(settings)
        _check_cuts(settings)
    elif solver == "pegasos":
        _check_pegasos(settings)
    elif solver in ("ridge", "auto"):
        _check_mode(settings)
        _refuse(settings, OF_ONLINE)
    elif solver not in ("fogd", "nogd") and settings.loss not in LOSSES_OF_STRATEGIES:
        raise ConfigError(
            f"loss = {settings.loss!r}, but {solver} uses the hinge loss. Remove it, or use fogd or nogd."
        )
    if solver == "nogd" and settings.rank != "auto" and settings.rank > settings.budget:
        raise ConfigError(
            f"rank = {settings.rank:,}, but a budget of {settings.budget:,} landmarks allows at most "
            f"that rank. Set the rank to at most {settings.budget:,}, or raise the budget."
        )


def _check_track(settings: TrainSettings) -> None:
    for name in NOT_TRACKED:
        if _changed(settings, name):
            raise ConfigError(
                f"{_describe(settings, name)}, but track chooses step sizes and averages itself. "
                f"Remove {name} or track."
            )
    if (settings.radius is None) == settings.certify:
        given, missing = ("certify", "radius") if settings.certify else ("radius", "certify")
        raise ConfigError(
            f"{_describe(settings, given)} with track, but the certificate of tracking requires both certify and "
            f"radius. Set {missing} too, or remove {given}."
        )


def check_constraints(settings: TrainSettings) -> float | None:
    """Return the radius of the ball that weights stay in, as given or by a constraint of the norm; None for no ball.

    Raises
    ------
    ConfigError : bad grammar, constraints without a ball, or options of constraints without any
    """
    constraints, bound = parse_constraints(settings.constraints)
    radii = [radius for radius in (settings.radius, bound) if radius is not None]
    if constraints and not radii:
        raise ConfigError("Constraints require bounded weights. Add --constraint 'norm <= 10', or --radius 10.")
    for name in ("constraint_margin", "constraint_gain", "learn_sensitive"):
        if _changed(settings, name) and not constraints:
            raise ConfigError(f"{_describe(settings, name)}, but no constraint uses a column. Remove it.")
    return min(radii, default=None)


def _check_mode(settings: TrainSettings) -> None:
    if settings.mode not in ("auto", "sum"):
        raise ConfigError(
            f"mode = {settings.mode!r}, but {settings.solver} reads all rows in every iteration: its mode is sum. "
            "Remove it."
        )


def _check_cuts(settings: TrainSettings) -> None:
    _refuse(settings, NOT_OF_CUTS)
    if settings.bias == "free":
        raise ConfigError(
            f"bias = 'free', but over shards {settings.solver} has no bias or a regularised one. Set "
            "bias = 'regularised', use c-svm, whose own bias is free, with C = 1 / (lam rows), or okl.SCSClassifier."
        )
    if settings.bias == "errors":
        raise ConfigError(
            f"bias = 'errors', but {settings.solver} has no bias or a regularised one. Remove it, "
            "or set bias = 'regularised'."
        )
    _check_no_map(settings)


def _check_pegasos(settings: TrainSettings) -> None:
    if settings.confidence != TrainSettings.model_fields["confidence"].default and not settings.certify:
        raise ConfigError(
            f"{_describe(settings, 'confidence')}, but the run has no certificate. Remove it, or set --certify."
        )
    _check_no_map(settings)


def _check_model(settings: TrainSettings) -> None:
    _refuse(settings, OF_ONLINE)
    if settings.bias in ("regularised", "free"):
        raise ConfigError(
            f"bias = {settings.bias!r}, but {settings.solver} has its own bias or that of fewest errors. Remove "
            "it out, or use scs."
        )
    if settings.bias == "errors" and not settings.fit_intercept:
        raise ConfigError(
            "bias = 'errors' is set with fit_intercept = False, but the bias of fewest errors is an intercept. "
            "Remove one of them."
        )
    _check_no_map(settings)


def _refuse(settings: TrainSettings, names: tuple[str, ...]) -> None:
    for name in names:
        if _changed(settings, name):
            raise ConfigError(
                f"{_describe(settings, name)}, but {settings.solver} is not an online solver and "
                f"has no {name}. Remove it."
            )


def _check_no_map(settings: TrainSettings) -> None:
    for name in OF_FOURIER_MAPS if settings.kernel == "linear" else ():
        if _changed(settings, name):
            raise ConfigError(f"{_describe(settings, name)}, but kernel = 'linear' uses no feature map. Remove it.")


def _check_exact(settings: TrainSettings) -> None:
    """Raise ConfigError for a kernel without a map if the solver requires one, and for options of maps with it."""
    if settings.map != "exact":
        if settings.solver == "scs" and settings.kernel == "polynomial":
            raise ConfigError("kernel = 'polynomial' has no Fourier map. Set map = 'exact', or use nogd.")
        return
    if settings.solver != "scs":
        raise ConfigError(
            f"map = 'exact' is set, but {settings.solver} does not support it. Remove it, "
            "or use scs, or a solver with a budget."
        )
    if settings.bias == "regularised":
        raise ConfigError(
            "bias = 'regularised' is set, but over shards it requires a feature map, and map = 'exact' has none. "
            "Remove one of them."
        )
    if _changed(settings, "frequencies"):
        raise ConfigError(f"{_describe(settings, 'frequencies')}, but map = 'exact' has no frequencies. Remove it.")


def _check_kernel(settings: TrainSettings) -> None:
    parameters = set(kernel_parameters(settings.kernel))
    for name in sorted(OF_KERNELS - parameters):
        if _changed(settings, name):
            raise ConfigError(
                f"{_describe(settings, name)}, but the kernel {settings.kernel!r} has no {name}. Remove it, or set "
                "kernel = 'polynomial'."
            )
    if settings.bandwidth != "auto" and not parameters & {"bandwidth", "scale"}:
        raise ConfigError(
            f"{_describe(settings, 'bandwidth')}, but the kernel {settings.kernel!r} has no bandwidth. Remove it."
        )


def _changed(settings: TrainSettings, name: str) -> bool:
    return bool(getattr(settings, name) != TrainSettings.model_fields[name].default)


def _describe(settings: TrainSettings, name: str) -> str:
    return f"{name} = {getattr(settings, name)!r} is set"


def _list(names: list[str]) -> str:
    if len(names) > MOST_TOLD:
        return f"{', '.join(names[: MOST_TOLD // 2])} and {len(names) - MOST_TOLD // 2} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


IN_MAPS = ("fogd", "nogd")  # solvers whose state is a weight vector in a feature map


def mode_of(settings: TrainSettings) -> Mode:
    """Return the mode: as set, or by default stream in one process and with workers the faster of mix and sum."""
    if settings.mode != "auto":
        return settings.mode
    if is_model(settings.solver) or settings.solver in (*CUTTING_NAMES, "ridge", "auto"):
        return "sum"
    if not (settings.workers or settings.scheduler or settings.cluster):
        return "stream"
    return "sum" if settings.solver in IN_MAPS and not settings.constraints else "mix"
