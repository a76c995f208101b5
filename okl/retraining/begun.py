"""What a model was begun with holds for all its shards: settings that say otherwise later are refused."""

from __future__ import annotations

from okl.configuration import IngestSettings
from okl.errors import ConfigError
from okl.retraining.sensitive import check_constrained
from okl.retraining.settings import RetrainSettings
from okl.store.dataset import Schema

SETTLED = ("target", "task", "scale", "scale_target", "missing")
NEVER_LEARNT = {"keys": "a key", "drop": "left out"}


def check_begun(settings: RetrainSettings, reference: Schema) -> None:
    """Hold what is asked for to what a model's inputs and target are; what is as usual need not be given again.

    Parameters
    ----------
    reference : schema that all shards of the model are held to

    Raises
    ------
    ConfigError : another target, task, scaling or policy of missing values, or an input that is not to be learnt
    DataError : a constraint of a column that is neither an input nor a key
    """
    ingest, name = settings.ingest, settings.name
    for field in SETTLED:
        asked, held = getattr(ingest, field), getattr(reference, field)
        if asked not in (held, IngestSettings.model_fields[field].default):
            raise ConfigError(
                f"{field} = {asked!r} was given, but {name} was begun with {held!r}, which holds for all its shards. "
                "Leave it out, or begin a model of another name with it."
            )
    for field, use in NEVER_LEARNT.items():
        if learnt := [column for column in getattr(ingest, field) if column in reference.source_columns]:
            raise ConfigError(
                f"The column {learnt[0]!r} is to be {use}, but {name} was begun with it as an input, and learns from "
                "it. Leave it out, or begin a model of another name with it."
            )
    check_constrained(settings, reference)
