"""Construction of solvers from settings."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from okl.data.dataset import Dataset, Schema
from okl.data.executor import Rows
from okl.features.fourier import DRAWS
from okl.features.landmarks import MOST_ROWS
from okl.foundation.errors import ConfigError
from okl.foundation.settings import TrainSettings
from okl.losses import DEFAULT_LOSS, ExtensionLoss, Loss, make_loss
from okl.solvers.accelerated.fitting import ModelTask
from okl.solvers.accelerated.method import Fapg
from okl.solvers.accelerated.models import is_model, parameter_of
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.base import SolverMap
from okl.solvers.online.base import SEGMENTS, BuildContext, LearnerFactory, Mode, balanced_class_weights, check_loss
from okl.solvers.online.constrained import ConstrainedFactory
from okl.solvers.online.constraints import check_columns, columns_of, parse_constraints, without_features
from okl.solvers.online.drift import TrackingFactory
from okl.solvers.online.experts import ExpertFactory
from okl.solvers.online.linear import LinearFactory, check_ball
from okl.solvers.online.maps import ExtensionChoice, FourierChoice, InputsChoice, LinearChoice, NystromChoice
from okl.solvers.online.nystrom import NOGDFactory
from okl.solvers.online.solver import SAMPLE_ROWS, OnlineSolver, check_mode
from okl.solvers.online.strategies import STRATEGIES, BudgetFactory
from okl.solvers.options import IN_MAPS, check_constraints, check_options, mode_of
from okl.solvers.ridge.solver import RidgeSolver
from okl.solvers.subgradient.losses import CUTTING_NAMES, make_piecewise, weigh
from okl.solvers.subgradient.losses import DEFAULT_LOSS as DEFAULT_PIECEWISE
from okl.solvers.subgradient.pegasos import PegasosFactory
from okl.solvers.subgradient.solver import SubgradientSolver
from okl.solvers.subgradient.spaces import ExactChoice

# Common parts: losses, class weights and maps.


def loss_of(settings: TrainSettings, schema: Schema) -> Loss:
    """Return the loss that the settings mean for a data set, or ConfigError."""
    loss = make_loss(DEFAULT_LOSS[schema.task] if settings.loss == "auto" else settings.loss, settings.epsilon)
    check_loss(loss, schema)
    return loss


def class_weights(settings: TrainSettings, schema: Schema) -> tuple[float, ...] | None:
    """Weight of each class, in the order of the labels; None for all equal."""
    given = settings.class_weights
    if given == "none":
        return None
    if schema.task == "regression":
        raise ConfigError("class_weights is for classification, but this is a regression task. Remove it.")
    if given == "balanced":
        return balanced_class_weights(schema)
    names = [str(label) for label in schema.labels]
    if unknown := sorted(set(given) - set(names)):
        raise ConfigError(f"class_weights names {unknown}, but the labels are {names}.")
    if bad := {name: weight for name, weight in given.items() if not 0 < weight < float("inf")}:
        raise ConfigError(f"class_weights holds {bad}; expected finite numbers above 0.")
    return tuple(float(given.get(name, 1.0)) for name in names)


def map_of(settings: TrainSettings) -> SolverMap:
    """Return the map that the settings mean: of a linear kernel the inputs themselves."""
    if settings.kernel == "linear":
        return InputsChoice()
    return solver_map(settings)


def solver_map(settings: TrainSettings) -> SolverMap:
    """Return the map of random frequencies, or of an extension, that the settings name, whatever the kernel is."""
    shape = settings.kernel, number_of(settings.bandwidth), settings.frequencies
    if settings.map in (*DRAWS, "auto", "exact"):  # exact has been refused, or is no map
        return FourierChoice(*shape, settings.map)
    return ExtensionChoice(settings.map, *shape)


def check_epsilon(settings: TrainSettings, schema: Schema) -> None:
    """Refuse an epsilon where nothing has residuals."""
    if settings.epsilon != TrainSettings.model_fields["epsilon"].default and schema.task != "regression":
        raise ConfigError(
            f"epsilon = {settings.epsilon:g} is for regression, but {schema.target!r} makes this a {schema.task} task. "
            "Remove it, or ingest with --task regression."
        )


def number_of(value: float | str) -> float | None:
    """Return a number as it is; None for "auto", or what else is a word."""
    return None if isinstance(value, str) else value


# Online learners.

RANK_SHARE = 0.3  # of the budget; Lu et al., section 7.3.3 advise .2 to .4
SIZE_FREE = ("perceptron", "rbp", "projectron", "budget-perceptron")  # decisions on classes are those of any step size


def make_factory(settings: TrainSettings, schema: Schema) -> LearnerFactory:
    """Return the factory that the settings mean for data of a schema.

    Raises
    ------
    ConfigError : settings that do not fit each other or the data
    """
    check_options(settings)
    check_epsilon(settings, schema)
    if settings.solver == "pegasos":
        return _pegasos(settings, schema)
    if settings.solver == "fogd":
        return _fogd(settings, schema)
    if settings.solver == "nogd":
        return _nogd(settings, schema)
    return _budget(settings, schema)


def check_factory(factory: LearnerFactory, schema: Schema, rows: int | None) -> None:
    """Refuse what a factory would refuse of any data of this size, before a row is read: tasks, kernels, budgets.

    rows : training rows, None if unknown

    Raises
    ------
    ConfigError : as raised by the factory
    """
    if isinstance(factory, LinearFactory) and isinstance(factory.maps, NystromChoice) and rows is not None:
        _check_landmarks(factory.maps, min(rows, SAMPLE_ROWS))
    if isinstance(factory, BudgetFactory):
        factory = replace(factory, race=False)
    elif isinstance(factory, NOGDFactory):
        factory = replace(factory, step_size=factory.step_size or 1.0)
    else:
        return
    made_up = Rows(np.eye(2, schema.n_features, dtype=np.float32), np.zeros(2))
    factory.build(BuildContext(schema, made_up, rows, 1, "stream", 0, "float32"))


def linear_baseline(settings: TrainSettings, schema: Schema) -> LearnerFactory:
    """Return a linear model of standardised inputs, learned the same way, within the same limits.

    What a kernel must beat.
    """
    learning = _linear(settings, schema)
    constraints, _ = parse_constraints(settings.constraints)
    if not constraints:
        return LinearFactory(LinearChoice(), name="linear", **learning)
    del learning["adaptive"]
    radius = check_constraints(settings)
    assert radius is not None, "options were checked"
    return ConstrainedFactory(
        LinearChoice(),
        constraints=constraints,
        radius=radius,
        margin=settings.constraint_margin,
        gain=number_of(settings.constraint_gain),
        name="linear",
        race=True,  # rows are longer than those of a map: the step of the radius would be too long
        **learning,
    )


def _fogd(settings: TrainSettings, schema: Schema) -> LearnerFactory:
    maps = solver_map(settings)
    learning = _linear(settings, schema)
    if settings.track:
        _check_own(settings, learning["loss"])
        check_ball(settings.radius, False, learning["loss"])
        return TrackingFactory(maps, learning["loss"], learning["class_weights"], settings.radius)
    # experts predict by last or averaged weights, as one or the other leads: who wants no average wants no experts
    radius = check_constraints(settings)
    untold = settings.bandwidth == settings.step_size == "auto" and settings.average and radius is None
    # and they weigh the losses of the table
    if untold and settings.map == "independent" and not isinstance(learning["loss"], ExtensionLoss):
        return ExpertFactory(kernel=settings.kernel, n_frequencies=settings.frequencies, **learning)
    check_ball(radius, settings.step_rule == "sqrt", learning["loss"])
    ball: dict[str, Any] = {"radius": radius, "decaying": settings.step_rule == "sqrt"}
    constraints, _ = parse_constraints(settings.constraints)
    if constraints:
        del learning["adaptive"]
        options: dict[str, Any] = {
            "constraints": constraints,
            "margin": settings.constraint_margin,
            "gain": number_of(settings.constraint_gain),
        }
        return ConstrainedFactory(maps, step_size=number_of(settings.step_size), **options, **ball, **learning)
    return LinearFactory(maps, step_size=number_of(settings.step_size), **ball, **learning)


def _pegasos(settings: TrainSettings, schema: Schema) -> PegasosFactory:
    return PegasosFactory(
        map_of(settings),
        loss_of(settings, schema),
        lam=settings.lam,
        batch=settings.batch,
        project=settings.project,
        average="later" if settings.average else "none",
    )


def _check_own(settings: TrainSettings, loss: Loss) -> None:
    """Refuse to track by what knows only okl's own losses and Fourier maps."""
    if isinstance(loss, ExtensionLoss):
        raise ConfigError(f"loss = {loss.name!r} with track, which supports okl's own losses only. Remove one of them.")


def _nogd(settings: TrainSettings, schema: Schema) -> LearnerFactory:
    rank = max(1, round(RANK_SHARE * settings.budget)) if settings.rank == "auto" else settings.rank
    kernel: dict[str, Any] = {
        "kernel": settings.kernel,
        "bandwidth": number_of(settings.bandwidth),
        "degree": settings.degree,
        "offset": settings.offset,
    }
    learning = _linear(settings, schema) | {"step_size": number_of(settings.step_size), "name": "nogd"}
    if settings.landmarks == "supports":
        return NOGDFactory(budget=settings.budget, rank=rank, **kernel, **learning)
    maps = NystromChoice(n_landmarks=settings.budget, rank=rank, landmarks=settings.landmarks, **kernel)
    return LinearFactory(maps, **learning)


def _budget(settings: TrainSettings, schema: Schema) -> BudgetFactory:
    strategy: Any = STRATEGIES[settings.solver]()
    has = {field.name for field in fields(strategy)}
    given = {name: number_of(getattr(settings, name)) for name in ("step_size", "regularisation", "aggressiveness")}
    strategy = replace(strategy, **{name: value for name, value in given.items() if value is not None})
    size_free = settings.solver in SIZE_FREE and schema.task != "regression"
    return BudgetFactory(
        strategy,
        loss_of(settings, schema),
        settings.kernel,
        number_of(settings.bandwidth),
        settings.budget,
        race="step_size" in has and settings.step_size == "auto" and not size_free,
        degree=settings.degree,
        offset=settings.offset,
    )


def _check_landmarks(maps: NystromChoice, rows: int) -> None:
    n_sampled = min(rows, MOST_ROWS.get(maps.landmarks, rows))
    if maps.n_landmarks > n_sampled:
        raise ConfigError(
            f"budget = {maps.n_landmarks:,}, but landmarks = {maps.landmarks!r} are chosen from {n_sampled:,} sampled "
            f"rows. Set a budget of at most {n_sampled:,}, or landmarks = 'supports'."
        )


def _linear(settings: TrainSettings, schema: Schema) -> dict[str, Any]:
    return {
        "loss": loss_of(settings, schema),
        "class_weights": class_weights(settings, schema),
        "average": settings.average,
        "adaptive": settings.step_rule == "adagrad",
    }


# Solvers with a certificate.

Certified = AcceleratedSolver | SubgradientSolver | RidgeSolver
BASELINE_TOLERANCE = 1e-3


def make_accelerated(settings: TrainSettings, schema: Schema) -> AcceleratedSolver:
    """Return the solver of one of the models that are solved to a certified gap.

    Raises
    ------
    ConfigError : settings that do not fit each other or the data
    """
    check_options(settings)
    assert settings.bias != "regularised", "options were checked"
    assert settings.bias != "free", "options were checked"
    return AcceleratedSolver(
        task=ModelTask(
            settings.solver, number_of(getattr(settings, parameter_of(settings.solver))), settings.fit_intercept
        ),
        maps=map_of(settings),
        class_weights=class_weights(settings, schema),
        bias=settings.bias,
        method=Fapg(tolerance=settings.tol, max_iterations=settings.max_iterations),
        seed=settings.seed,
        precision=settings.precision,
    )


def make_subgradient(settings: TrainSettings, schema: Schema) -> SubgradientSolver:
    """Return the solver by cuts, of samples or of all rows.

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
    """Return the solver of kernel least squares.

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
    """Return the same model of standardised inputs, what a kernel must beat; None where it has no kernel itself."""
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


# Settings and a data set: its columns, the solver, its mode and rounds


MOST_ROUNDS, LEAST_ROUND_ROWS = 1024, 32  # a pass, where shards average weights in a feature map
MOST_JOINS, LEAST_JOIN_ROWS = 512, 64  # a pass, where support vectors are united and reduced to the budget
CERTIFIED_SEGMENTS = 64  # a pass: regret is computed at a sixteenth of the rows, an eighth, ...
WINDOWS = 100  # a pass in stored order: windows of the drift report


def training_columns(settings: TrainSettings, data: Dataset, named: str | None = None) -> Dataset:
    """Return the data set with the columns to train on: without columns of constraints unless learn_sensitive is set.

    Its rescaling is that of the settings.

    named : name of the data in errors, such as its source; None: its folder

    Raises
    ------
    DataError : a constraint names a column that does not exist; ConfigError : no input would be left
    """
    constraints, _ = parse_constraints(settings.constraints)
    check_columns(data.schema, constraints, named or str(data.folder))
    if settings.rescale != "stored":
        data = replace(data, schema=replace(data.schema, scale=settings.rescale))
    return data if settings.learn_sensitive else without_features(data, columns_of(constraints))


def make_solver(settings: TrainSettings, data: Dataset) -> OnlineSolver | Certified:
    """Make the solver of the settings for a data set."""
    if is_model(settings.solver):
        return make_accelerated(settings, data.schema)
    if settings.solver in CUTTING_NAMES:
        return make_subgradient(settings, data.schema)
    if settings.solver == "ridge":
        return make_ridge(settings, data.schema)
    return make_online_solver(settings, data)


def make_online_solver(settings: TrainSettings, data: Dataset) -> OnlineSolver:
    """Make the online solver of the settings for a data set."""
    schema = data.schema
    mode = mode_of(settings)
    factory = make_factory(settings, schema)
    check_mode(factory, mode)
    rounds = settings.rounds
    if rounds == "auto":
        rounds = default_rounds(settings.solver, mode, data.rows("train"))
    return OnlineSolver(
        factory=factory,
        passes=settings.passes,
        order=settings.order,
        seed=settings.seed,
        precision=settings.precision,
        mode=mode,
        rounds=rounds,
        segments=_segments(settings, mode),
    )


def _segments(settings: TrainSettings, mode: Mode) -> int:
    """Return the segments of a pass: the points where regret is computed, or the windows of the drift report."""
    if mode == "stream" and settings.order == "stored" and settings.passes == 1:
        return WINDOWS
    return CERTIFIED_SEGMENTS if settings.certify else SEGMENTS


def default_rounds(solver: str, mode: Mode, rows: int) -> int:
    """Return the default number of rounds a pass; a round has a minimum number of rows."""
    if mode == "stream":
        return 1
    most, least_rows = (MOST_ROUNDS, LEAST_ROUND_ROWS) if solver in IN_MAPS else (MOST_JOINS, LEAST_JOIN_ROWS)
    return max(1, min(most, rows // least_rows))
