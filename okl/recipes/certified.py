"""Which solver the settings mean where learning ends with a proof: models, cuts, kernel least squares."""

from __future__ import annotations

from dataclasses import replace

from okl.accelerated.catalogue import parameter_of
from okl.accelerated.fapg import Fapg
from okl.accelerated.sharded.task import Task
from okl.accelerated.solver import AcceleratedSolver
from okl.accelerated.stochastic import StochasticStart
from okl.applicable import check_options
from okl.configuration import TrainSettings
from okl.online.maps import InputsChoice, LinearChoice
from okl.recipes.parts import check_epsilon, class_weights, map_of, number_of
from okl.ridge.solver import RidgeSolver
from okl.store.dataset import Schema
from okl.subgradient.catalogue import DEFAULT_LOSS as DEFAULT_PIECEWISE
from okl.subgradient.catalogue import make_piecewise
from okl.subgradient.exact import ExactChoice
from okl.subgradient.solver import SubgradientSolver
from okl.subgradient.weighted import weigh

Certified = AcceleratedSolver | SubgradientSolver | RidgeSolver
BASELINE_TOLERANCE = 1e-3


def make_accelerated(settings: TrainSettings, schema: Schema) -> AcceleratedSolver:
    """The solver of one of the models that are solved to a certified gap.

    Raises
    ------
    ConfigError : settings that do not fit each other or the data
    """
    check_options(settings)
    assert settings.bias != "regularised", "options were checked"
    assert settings.bias != "free", "options were checked"
    return AcceleratedSolver(
        task=Task(settings.solver, number_of(getattr(settings, parameter_of(settings.solver))), settings.fit_intercept),
        maps=map_of(settings),
        class_weights=class_weights(settings, schema),
        bias=settings.bias,
        method=Fapg(tolerance=settings.tol, max_iterations=settings.max_iterations),
        seed=settings.seed,
        precision=settings.precision,
        stochastic=StochasticStart(seed=settings.seed) if settings.start == "stochastic" else None,
    )


def make_subgradient(settings: TrainSettings, schema: Schema) -> SubgradientSolver:
    """The solver by cuts, of samples or of all rows.

    Raises
    ------
    ConfigError : settings that do not fit each other or the data
    """
    check_options(settings)
    check_epsilon(settings, schema)
    name = DEFAULT_PIECEWISE[schema.task] if settings.loss == "auto" else settings.loss
    return SubgradientSolver(
        loss=weigh(make_piecewise(name, settings.epsilon), class_weights(settings, schema)),
        maps=_exact(settings) if settings.map == "exact" else map_of(settings),
        lam=settings.lam,
        gap=settings.gap,
        confidence=settings.confidence,
        first_sample=None if settings.first_sample == "auto" else settings.first_sample,
        all_rows=settings.solver == "wolfe",
        bundle_size=settings.bundle_size,
        conjugate=settings.solver == "wolfe",
        constant=settings.bias == "regularised",
        max_iterations=settings.max_iterations,
        seed=settings.seed,
        precision=settings.precision,
    )


def make_ridge(settings: TrainSettings, schema: Schema) -> RidgeSolver:
    """The solver of kernel least squares.

    Raises
    ------
    ConfigError : settings that do not fit each other or the data
    """
    check_options(settings)
    return RidgeSolver(
        kernel=settings.kernel,
        bandwidth=number_of(settings.bandwidth),
        n_landmarks=None if settings.n_landmarks == "auto" else settings.n_landmarks,
        landmarks="uniform" if settings.landmarks == "supports" else settings.landmarks,
        penalty=number_of(settings.penalty),
        degree=settings.degree,
        offset=settings.offset,
        class_weights=class_weights(settings, schema),
        fit_intercept=settings.fit_intercept,
        seed=settings.seed,
        precision=settings.precision,
    )


def linear_alternative(solver: Certified) -> Certified | None:
    """The same model of standardised inputs, what a kernel must beat; None where it has no kernel itself."""
    if isinstance(solver, RidgeSolver):
        linear = replace(solver, kernel="linear", bandwidth=None, n_landmarks=None, penalty=None, standardise=True)
        return None if solver.kernel == "linear" else linear
    if isinstance(solver.maps, InputsChoice):
        return None
    if isinstance(solver, SubgradientSolver):
        return replace(solver, maps=LinearChoice(), gap=max(solver.gap, BASELINE_TOLERANCE))
    method = replace(solver.method, tolerance=max(solver.method.tolerance, BASELINE_TOLERANCE))
    return replace(solver, maps=LinearChoice(), method=method)


def _exact(settings: TrainSettings) -> ExactChoice:
    return ExactChoice(settings.kernel, number_of(settings.bandwidth), settings.degree, settings.offset)
