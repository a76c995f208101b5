"""What the recipes of several solvers have in common: losses, weights of classes, maps."""

from __future__ import annotations

from okl.accelerated.solver import MapChoice
from okl.configuration import TrainSettings
from okl.errors import ConfigError
from okl.features.drawing import DRAWS
from okl.losses import DEFAULT_LOSS, Loss, make_loss
from okl.online.maps import ExtensionChoice, FourierChoice, InputsChoice
from okl.online.recipe import balanced_class_weights, check_loss
from okl.store.dataset import Schema


def loss_of(settings: TrainSettings, schema: Schema) -> Loss:
    """The loss that the settings mean for a data set, or ConfigError."""
    loss = make_loss(DEFAULT_LOSS[schema.task] if settings.loss == "auto" else settings.loss, settings.epsilon)
    check_loss(loss, schema)
    return loss


def class_weights(settings: TrainSettings, schema: Schema) -> tuple[float, ...] | None:
    """Weight of each class, in the order of the labels; None for all equal."""
    given = settings.class_weights
    if given == "none":
        return None
    if schema.task == "regression":
        raise ConfigError("class_weights belongs to classification, but this is a regression task. Leave it out.")
    if given == "balanced":
        return balanced_class_weights(schema)
    names = [str(label) for label in schema.labels]
    if unknown := sorted(set(given) - set(names)):
        raise ConfigError(f"class_weights names {unknown}, but the labels are {names}.")
    if bad := {name: weight for name, weight in given.items() if not 0 < weight < float("inf")}:
        raise ConfigError(f"class_weights holds {bad}, but a weight is a finite number above 0.")
    return tuple(float(given.get(name, 1.0)) for name in names)


def map_of(settings: TrainSettings) -> MapChoice:
    """The map that the settings mean: of a linear kernel the inputs themselves."""
    if settings.kernel == "linear":
        return InputsChoice()
    return drawn_map(settings)


def drawn_map(settings: TrainSettings) -> MapChoice:
    """The map of random frequencies, or of an extension, that the settings name, whatever the kernel is."""
    shape = settings.kernel, number_of(settings.bandwidth), settings.frequencies
    if settings.map in (*DRAWS, "auto", "exact"):  # exact has been refused, or is no map
        return FourierChoice(*shape, settings.map)
    return ExtensionChoice(settings.map, *shape)


def check_epsilon(settings: TrainSettings, schema: Schema) -> None:
    """Refuse an epsilon where nothing has residuals."""
    if settings.epsilon != TrainSettings.model_fields["epsilon"].default and schema.task != "regression":
        raise ConfigError(
            f"epsilon = {settings.epsilon:g} is for a regression, but {schema.target!r} makes this {schema.task}. "
            "Leave it out, or ingest with --task regression."
        )


def number_of(value: float | str) -> float | None:
    """A number as it is; None for "auto", or what else is a word."""
    return None if isinstance(value, str) else value
