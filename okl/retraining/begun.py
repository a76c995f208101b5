"""What a model was begun with holds for all its shards: settings that say otherwise later are refused."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from okl.configuration import IngestSettings
from okl.errors import ConfigError, DataError, PlaceError
from okl.retraining.sensitive import check_constrained
from okl.retraining.settings import RetrainSettings
from okl.store.dataset import Schema
from okl.store.dateparts import is_date
from okl.store.places import Place
from okl.store.reference import open_by

SETTLED = ("target", "task", "scale", "scale_target", "missing")
NEVER_LEARNT = {"keys": "a key", "drop": "left out"}
KINDS = {"number": "a number", "date": "a date", "timestamp": "a time"}
ANOTHER = "Leave it out, or begin a model of another name with it."


def check_begun(settings: RetrainSettings, reference: Schema, places: Iterable[Place] = ()) -> None:
    """Hold what is asked for to what a model's inputs and target are; what is as usual need not be given again.

    Parameters
    ----------
    reference : schema that all shards of the model are held to
    places : of files; the first that can be opened tells whether there are dates that were left out

    Raises
    ------
    ConfigError : another target, task, scaling or policy of missing values; inputs that are to be made of columns
        otherwise, or not to be learnt
    DataError : a constraint of a column that is neither an input nor a key
    """
    ingest, name = settings.ingest, settings.name
    for field in SETTLED:
        _check_same(settings, field, getattr(reference, field))
    for field, use in NEVER_LEARNT.items():
        if learnt := [column for column in getattr(ingest, field) if column in reference.source_columns]:
            raise ConfigError(
                f"The column {learnt[0]!r} is to be {use}, but {name} was begun with it as an input, and learns from "
                f"it. {ANOTHER}"
            )
    _check_categories(settings, reference)
    _check_dates(settings, reference, places)
    folding = reference.svmlight
    if folding is not None:  # other files have no such indices, and are begun with whatever is said of them
        _check_same(settings, "svmlight_index", str(folding.first_index))
    _check_same(settings, "hash_columns", (folding.hashed if folding else 0) or None)
    check_constrained(settings, reference)


def _check_same(settings: RetrainSettings, field: str, held: object) -> None:
    asked = getattr(settings.ingest, field)
    if asked not in (held, IngestSettings.model_fields[field].default):
        raise _otherwise(settings, field, repr(held))


def _otherwise(settings: RetrainSettings, field: str, held: str) -> ConfigError:
    return ConfigError(
        f"{field} = {getattr(settings.ingest, field)!r} was given, but {settings.name} was begun with {held}, which "
        f"holds for all its shards. {ANOTHER}"
    )


def _check_categories(settings: RetrainSettings, reference: Schema) -> None:
    """Refuse categories that are none, and another number of values that get an input each.

    A column with more values than that has the input of all others, and so tells the number; columns without tell
    only the least that it was.
    """
    kinds = {encoding.column: encoding.kind for encoding in reference.encodings}
    for column in settings.ingest.categories:
        if (kind := kinds.get(column, "number")) == "category":
            continue
        held = f"with it as {KINDS[kind]}, and learns from it so"
        if column not in reference.source_columns:
            as_key = "with it as a key" if column in reference.keys else "without it"
            held = f"{as_key}, and never learns from it"
        raise ConfigError(f"The column {column!r} is to be a category, but {settings.name} was begun {held}. {ANOTHER}")
    asked = settings.ingest.max_categories
    if asked == IngestSettings.model_fields["max_categories"].default:
        return
    made = [(len(one.categories), one.other) for one in reference.encodings if one.kind == "category"]
    if full := [number for number, other in made if other and number != asked]:
        raise _otherwise(settings, "max_categories", str(full[0]))
    if (least := max((number for number, _ in made), default=0)) > asked:
        raise _otherwise(settings, "max_categories", f"{least} or more")


def _check_dates(settings: RetrainSettings, reference: Schema, places: Iterable[Place]) -> None:
    """Refuse to leave out dates that are learnt, and to learn others: only files tell those from none at all."""
    asked, name = settings.ingest.dates, settings.name
    split = any(encoding.kind in ("date", "timestamp") for encoding in reference.encodings)
    if asked == "drop" and split:
        raise _otherwise(settings, "dates", repr("parts"))
    if asked != "parts" or split:
        return
    apart = {*reference.source_columns, *reference.keys, reference.target, *settings.ingest.keys, *settings.ingest.drop}
    left = next((column for column in _dates(reference, places) if column not in apart), None)
    if left is not None:
        raise ConfigError(
            f"dates = 'parts' was given, but {name} was begun without {left!r}, which holds dates, and never learns "
            f"from it. Leave it out, or --drop {quote(left)}, or begin a model of another name with it."
        )


def _dates(reference: Schema, places: Iterable[Place]) -> list[str]:
    """Columns of dates of the first file that can be opened; what is wrong with the others the contract tells."""
    for place in places:
        try:
            schema = open_by(reference, place).schema
        except PlaceError:
            raise
        except (DataError, OSError):
            continue
        return [column for column, kind in zip(schema.names, schema.types, strict=True) if is_date(kind)]
    return []
