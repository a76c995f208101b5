"""Which online learner the settings mean."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from okl.applicable import check_constraints, check_options
from okl.configuration import TrainSettings
from okl.errors import ConfigError
from okl.execution.protocol import Rows
from okl.features.landmarks import MOST_ROWS
from okl.losses import ExtensionLoss, Loss
from okl.online.budget.recipe import BudgetRecipe
from okl.online.budget.strategies import STRATEGIES
from okl.online.constrainedrecipe import ConstrainedRecipe
from okl.online.constraints.grammar import parse_constraints
from okl.online.experts.recipe import ExpertRecipe
from okl.online.learner import check_ball
from okl.online.linear import LinearRecipe
from okl.online.maps import LinearChoice, NystromChoice
from okl.online.nogdrecipe import NOGDRecipe
from okl.online.recipe import Recipe, Situation
from okl.online.solver import SAMPLE_ROWS
from okl.online.tracking.recipe import TrackingRecipe
from okl.recipes.parts import check_epsilon, class_weights, drawn_map, loss_of, map_of, number_of
from okl.store.dataset import Schema
from okl.subgradient.pegasoslearner import PegasosRecipe

RANK_SHARE = 0.3  # of the budget; Lu et al., section 7.3.3 advise .2 to .4
SIZE_FREE = ("perceptron", "rbp", "projectron", "budget-perceptron")  # decisions on classes are those of any step size


def make_recipe(settings: TrainSettings, schema: Schema) -> Recipe:
    """The recipe that the settings mean for data of a schema.

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


def check_recipe(recipe: Recipe, schema: Schema, rows: int | None) -> None:
    """Refuse what a recipe would refuse of any data of this size, before a row is read: tasks, kernels, budgets.

    rows : training rows, None if nobody knows

    Raises
    ------
    ConfigError : what the recipe says
    """
    if isinstance(recipe, LinearRecipe) and isinstance(recipe.maps, NystromChoice) and rows is not None:
        _check_landmarks(recipe.maps, min(rows, SAMPLE_ROWS))
    if isinstance(recipe, BudgetRecipe):
        recipe = replace(recipe, race=False)
    elif isinstance(recipe, NOGDRecipe):
        recipe = replace(recipe, step_size=recipe.step_size or 1.0)
    else:
        return
    made_up = Rows(np.eye(2, schema.n_features, dtype=np.float32), np.zeros(2))
    recipe.settle(Situation(schema, made_up, rows, 1, "stream", 0, "float32"))


def linear_baseline(settings: TrainSettings, schema: Schema) -> Recipe:
    """A linear model of standardised inputs, learnt the same way, within the same limits: what a kernel must beat."""
    learning = _linear(settings, schema)
    constraints, _ = parse_constraints(settings.constraints)
    if not constraints:
        return LinearRecipe(LinearChoice(), name="linear", **learning)
    del learning["adaptive"]
    radius = check_constraints(settings)
    assert radius is not None, "options were checked"
    return ConstrainedRecipe(
        LinearChoice(),
        constraints=constraints,
        radius=radius,
        margin=settings.constraint_margin,
        gain=number_of(settings.constraint_gain),
        name="linear",
        race=True,  # rows are longer than those of a map: the step of the radius would be too long
        **learning,
    )


def _fogd(settings: TrainSettings, schema: Schema) -> Recipe:
    maps = drawn_map(settings)
    learning = _linear(settings, schema)
    if settings.track:
        _check_own(settings, learning["loss"])
        check_ball(settings.radius, False, learning["loss"])
        return TrackingRecipe(maps, learning["loss"], learning["class_weights"], settings.radius)
    # experts predict by last or averaged weights, as one or the other leads: who wants no average wants no experts
    radius = check_constraints(settings)
    untold = settings.bandwidth == settings.step_size == "auto" and settings.average and radius is None
    # and they weigh the losses of the table
    if untold and settings.map == "independent" and not isinstance(learning["loss"], ExtensionLoss):
        return ExpertRecipe(kernel=settings.kernel, n_frequencies=settings.frequencies, **learning)
    check_ball(radius, settings.step_rule == "sqrt", learning["loss"])
    ball: dict[str, Any] = {"radius": radius, "decaying": settings.step_rule == "sqrt"}
    constraints, _ = parse_constraints(settings.constraints)
    if constraints:
        del learning["adaptive"]
        kept: dict[str, Any] = {
            "constraints": constraints,
            "margin": settings.constraint_margin,
            "gain": number_of(settings.constraint_gain),
        }
        return ConstrainedRecipe(maps, step_size=number_of(settings.step_size), **kept, **ball, **learning)
    return LinearRecipe(maps, step_size=number_of(settings.step_size), **ball, **learning)


def _pegasos(settings: TrainSettings, schema: Schema) -> PegasosRecipe:
    return PegasosRecipe(
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
        raise ConfigError(
            f"loss = {loss.name!r} with track, which weighs okl's own losses only. Leave one of them out."
        )


def _nogd(settings: TrainSettings, schema: Schema) -> Recipe:
    rank = max(1, round(RANK_SHARE * settings.budget)) if settings.rank == "auto" else settings.rank
    kernel: dict[str, Any] = {
        "kernel": settings.kernel,
        "bandwidth": number_of(settings.bandwidth),
        "degree": settings.degree,
        "offset": settings.offset,
    }
    learning = _linear(settings, schema) | {"step_size": number_of(settings.step_size), "name": "nogd"}
    if settings.landmarks == "supports":
        return NOGDRecipe(budget=settings.budget, rank=rank, **kernel, **learning)
    maps = NystromChoice(n_landmarks=settings.budget, rank=rank, landmarks=settings.landmarks, **kernel)
    return LinearRecipe(maps, **learning)


def _budget(settings: TrainSettings, schema: Schema) -> BudgetRecipe:
    strategy: Any = STRATEGIES[settings.solver]()
    has = {field.name for field in fields(strategy)}
    given = {name: number_of(getattr(settings, name)) for name in ("step_size", "regularisation", "aggressiveness")}
    strategy = replace(strategy, **{name: value for name, value in given.items() if value is not None})
    size_free = settings.solver in SIZE_FREE and schema.task != "regression"
    return BudgetRecipe(
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
    looked_at = min(rows, MOST_ROWS.get(maps.landmarks, rows))
    if maps.n_landmarks > looked_at:
        raise ConfigError(
            f"budget = {maps.n_landmarks:,}, but landmarks = {maps.landmarks!r} are chosen from {looked_at:,} sampled "
            f"rows. Set a budget of at most {looked_at:,}, or landmarks = 'supports'."
        )


def _linear(settings: TrainSettings, schema: Schema) -> dict[str, Any]:
    return {
        "loss": loss_of(settings, schema),
        "class_weights": class_weights(settings, schema),
        "average": settings.average,
        "adaptive": settings.step_rule == "adagrad",
    }
