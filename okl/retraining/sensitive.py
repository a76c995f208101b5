"""Columns that constraints look at: keys of every shard, so that nothing learns from them, unless that is asked for.

What is an input and what is a key is settled once, when a model is begun, and holds for its shards, its versions and
the rows that they predict. So constraints that came later look at keys, too, or are refused.
"""

from __future__ import annotations

from okl.applicable import check_constraints
from okl.configuration import IngestSettings, TrainSettings
from okl.errors import ConfigError
from okl.online.constraints.columns import check_columns
from okl.online.constraints.grammar import parse_constraint, parse_constraints
from okl.online.constraints.quantities import NormBound, columns_of
from okl.retraining.settings import RetrainSettings
from okl.store.dataset import Schema

OF_COLUMNS = ("constraint_margin", "constraint_gain", "learn_sensitive")


def first_ingest(settings: RetrainSettings) -> IngestSettings:
    """How the first shards are read: columns that constraints look at are keys, unless they are learnt from, too.

    Raises
    ------
    ConfigError : what `okl.applicable.check_constraints` says
    """
    check_constraints(settings.train)
    keys = dict.fromkeys((*settings.ingest.keys, *_looked_at(settings.train)))
    if settings.train.learn_sensitive or len(keys) == len(settings.ingest.keys):
        return settings.ingest
    return settings.ingest.model_copy(update={"keys": tuple(keys)})


def check_constrained(settings: RetrainSettings, reference: Schema) -> None:
    """Hold constraints to what a model's columns are; reference : schema that all its shards are held to.

    Raises
    ------
    ConfigError : a constraint looks at an input, which is not to be learnt from, or none at what is to be; and what
        `okl.applicable.check_constraints` says
    DataError : a column that is neither an input nor a key
    """
    check_constraints(settings.train)
    constraints, _ = parse_constraints(settings.train.constraints)
    names, where = columns_of(constraints), f"the shards of {settings.name}"
    inputs = [name for name in names if name in (*reference.features, *reference.source_columns)]
    if settings.train.learn_sensitive:
        check_columns(reference, constraints, where)
        if names and not inputs:
            raise ConfigError(
                f"learn_sensitive was given, but {settings.name} was begun with {', '.join(map(repr, names))} as a "
                "key, which is never learnt. Leave it out, or begin a model of another name with it."
            )
    elif inputs:
        raise ConfigError(
            f"A constraint looks at {inputs[0]!r}, which {settings.name} was begun with as an input: a retraining "
            "would learn from it. Begin a model of another name with the constraint, which makes the column a key, "
            "or set --learn-sensitive to learn from it all the same."
        )
    else:
        check_columns(reference, constraints, where)


def without_constraints(train: TrainSettings) -> TrainSettings:
    """The same in the same ball, without limits on columns: a single shard may not hold every group."""
    norms = tuple(text for text in train.constraints if isinstance(parse_constraint(text), NormBound))
    if norms == train.constraints:
        return train
    usual = {name: TrainSettings.model_fields[name].default for name in OF_COLUMNS}
    return train.model_copy(update={"constraints": norms, **usual})


def _looked_at(train: TrainSettings) -> tuple[str, ...]:
    return columns_of(parse_constraints(train.constraints)[0])
