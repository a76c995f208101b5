"""Checks of new settings against the lineage of a model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

from okl.data.dataset import Dataset, Scale, Schema
from okl.data.ingest.run import TermCounts, check_source, fitted_texts, ingest
from okl.foundation.errors import ConfigError, DataError, listed
from okl.foundation.locations import okl_home
from okl.foundation.settings import IngestSettings
from okl.lifecycle.contract import contract_digest, learnable
from okl.lifecycle.profile import merged_statistics
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import Arrival, ShardStore, arrivals, find_accepted, find_quarantined, prepared_as, union
from okl.metrics.criterion import criterion_of
from okl.models.registry import RegisteredModel, Registry
from okl.models.registry_log import CHAMPION
from okl.runs.calibrate import check_threshold
from okl.runs.run import Trial
from okl.solvers.online.constraints import NormBound, check_columns, columns_of, parse_constraint, parse_constraints
from okl.solvers.online.settings import OF_COLUMNS, MapLearningOptions, constraints_of
from okl.solvers.settings import TrainSettings

# The opening shards: inputs, labels and scaling.

MOST_FIRST = 20  # files that decide inputs and labels


def first_reference(
    arrivals: Sequence[tuple[Arrival, str]],
    settings: IngestSettings,
    choose: Callable[[Dataset], Schema] = lambda data: data.schema,
    default_scale: Scale = "none",
    trial: Trial | None = None,
) -> Schema:
    """Return the reference schema of all shards from now on.

    Of the first file that can be read, scaled by all of them; with the terms of texts in all of them, and as many
    sparse columns as the widest of them has.

    The first 20 files are read; files unlike the first are left to the contract.

    choose : returns the reference of the rows of these files, with a chosen scaling and metric; their warnings are
        those of the first file
    default_scale : scaling of tables whose settings have none
    trial : returns better settings of encodings, see `okl.runs.encodings`
    Raises DataError : no file can be read with these settings
    """
    given = settings.model_copy(update={"holdout": None})
    read = partial(_first_rows, arrivals, default_scale)
    with tempfile.TemporaryDirectory(dir=okl_home(), prefix=".reference-") as scratch:
        data = read(given, Path(scratch) / "given")
        if trial is not None and (better := trial(given, data, read)) != given:
            data = read(better, Path(scratch) / "better")
        return choose(data)


def _first_rows(
    arrivals: Sequence[tuple[Arrival, str]], default_scale: Scale, ingest_settings: IngestSettings, folder: Path
) -> Dataset:
    """Return the rows of the first files as one data set in a folder; see `first_reference`."""
    parts, terms = list[Dataset](), list[tuple[TermCounts, ...]]()
    read, refused = list[Arrival](), list[str]()
    for number, (arrival, _) in enumerate(arrivals[:MOST_FIRST]):
        try:
            done = ingest(
                arrival.location, folder / str(number), ingest_settings, keep_fills=True,
                default_scale=default_scale,
            )  # fmt: skip
            data, schema = done.dataset, done.dataset.schema
            if unmade := [column for column in ingest_settings.categories if column not in schema.source_columns]:
                # a later request could not be distinguished from columns that this model never uses
                raise DataError(
                    f"{arrival.name}: column {unmade[0]!r} is named as a category, but has no value in the "
                    "training rows. Remove it from the categories, or start with a file that has values."
                )
            first = parts[0].schema if parts else schema
            if not _is_like(schema, first):
                continue
            if schema.stored_labels != first.stored_labels:  # text labels are numbered as they appear in a file
                labelled = folder / f"{number}-labels"
                data = ingest(arrival.location, labelled, ingest_settings, reference=first).dataset
                data = replace(data, schema=replace(schema, stored_labels=first.stored_labels))
        except DataError as error:
            refused.append(str(error))
            continue
        parts.append(data)
        read.append(arrival)
        terms.append(done.terms)
    if not parts:
        raise DataError(f"No shard can be read to create the model. {' '.join(refused[:3])}")
    joined, warnings = _joined([part.schema for part in parts]), parts[0].warnings
    if len(parts) > 1 and any(terms):  # rows of the terms of a file become those of all terms
        counts = [reduce(TermCounts.plus, each) for each in zip(*terms, strict=True)]
        joined = replace(joined, sparse=fitted_texts(counts, ingest_settings, "the first shards"))
        parts = [
            ingest(arrival.location, folder / f"{number}-all", ingest_settings, reference=joined).dataset
            for number, arrival in enumerate(read)
        ]
    alike = [replace(part, schema=replace(joined, class_counts=part.schema.class_counts)) for part in parts]
    return replace(union(parts[0].folder.parent, alike), warnings=warnings)


def _is_like(schema: Schema, first: Schema) -> bool:
    """Return whether the rows of a file have the inputs and labels of the first one."""
    names = ("features", "labels", "task", "svmlight")
    same = all(getattr(schema, name) == getattr(first, name) for name in names)
    return same and (schema.sparse is None) == (first.sparse is None)


def _joined(parts: Sequence[Schema]) -> Schema:
    first = parts[0]
    targets = [(part.target_statistics,) for part in parts if part.target_statistics is not None]
    counts = tuple(map(sum, zip(*(part.class_counts for part in parts), strict=True)))
    sparse = first.sparse
    if sparse is not None and not sparse.texts:
        sparse = replace(sparse, n_columns=max(part.sparse.n_columns for part in parts if part.sparse is not None))
    return replace(
        first,
        sparse=sparse,
        class_counts=counts,
        feature_statistics=merged_statistics([part.feature_statistics for part in parts]),
        target_statistics=merged_statistics(targets)[0] if targets else None,
    )


# Constrained columns.
#
# What is an input and what is a key is decided once, when a model is created, and holds for its shards, its versions
# and the rows that they predict. So constraints that are added later use keys, too, or are refused.


def first_ingest(settings: RetrainSettings) -> IngestSettings:
    """Return the ingest settings of the first shards: constrained columns are keys, unless learn_sensitive is set.

    Raises ConfigError : target means; and the errors in `okl.solvers.online.settings.MapLearningOptions.check`
    """
    settings.train.check_options()
    if settings.ingest.many_values == "means":  # later rows are encoded as the first ones, whose targets are in these
        raise ConfigError("many_values = 'means' is for okl train; okl retrain makes inputs of values. Remove it.")
    constraints, _ = parse_constraints(constraints_of(settings.train.options))
    keys = dict.fromkeys((*settings.ingest.keys, *columns_of(constraints)))
    if _learns_sensitive(settings.train) or len(keys) == len(settings.ingest.keys):
        return settings.ingest
    return settings.ingest.model_copy(update={"keys": tuple(keys)})


def check_constrained(settings: RetrainSettings, reference: Schema) -> None:
    """Check constraints against the columns of a model; reference : schema of all its shards.

    Raises ConfigError : an input must (not) be used, and is not (is); and as `MapLearningOptions.check`
    Raises DataError : a column that is neither an input nor a key
    """
    settings.train.check_options()
    constraints, _ = parse_constraints(constraints_of(settings.train.options))
    names, where = columns_of(constraints), f"the shards of {settings.name}"
    inputs = [name for name in names if name in (*reference.features, *reference.source_columns)]
    learns_sensitive = _learns_sensitive(settings.train)
    if inputs and not learns_sensitive:
        raise ConfigError(
            f"A constraint uses the column {inputs[0]!r}, which is an input of the model {settings.name}. Create a "
            "model with another name, which makes the column a key, or set --learn-sensitive to train on it anyway."
        )
    check_columns(reference, constraints, where)
    if learns_sensitive and names and not inputs:
        raise ConfigError(
            f"learn_sensitive conflicts with the model {settings.name}, which was created with "
            f"{', '.join(map(repr, names))} as a key, and keys are not trained on. Remove it, or create a model with "
            "another name."
        )


def without_constraints(train: TrainSettings) -> TrainSettings:
    """Return the same in the same ball, without limits on columns: a single shard may not hold every group."""
    constraints = constraints_of(train.options)
    norms = tuple(text for text in constraints if isinstance(parse_constraint(text), NormBound))
    if norms == constraints:
        return train
    usual = {name: MapLearningOptions.model_fields[name].default for name in OF_COLUMNS}
    return train.replaced(constraints=norms, **usual)


def _learns_sensitive(train: TrainSettings) -> bool:
    return isinstance(train.options, MapLearningOptions) and train.options.learn_sensitive


# Settings that are fixed for the lifetime of a model.

SETTLED = ("target", "task", "scale", "scale_target", "missing")
NOT_INPUTS = {"keys": "a key", "drop": "a column to drop"}
KINDS = {"number": "a number", "date": "a date", "timestamp": "a time", "time": "a time of day", "text": "a text"}
ANOTHER = "Remove it, or create a model with another name."


def check_lineage_start(settings: RetrainSettings, reference: Schema) -> None:
    """Check settings against the inputs and the target of a model; defaults are always accepted.

    reference : schema of all shards of the model
    Raises ConfigError : another target, task, scaling or policy of missing values; inputs that are to be made of
        columns otherwise, or not to be learned; a criterion or threshold that does not fit the classes
    Raises DataError : a constraint of a column that is neither an input nor a key
    """
    ingest, name = settings.ingest, settings.name
    for field in SETTLED:
        _check_same(settings, field, getattr(reference, field))
    for field, use in NOT_INPUTS.items():
        if features := [column for column in getattr(ingest, field) if column in reference.source_columns]:
            raise ConfigError(
                f"The column {features[0]!r} is given as {use}, but the model {name} was created with it as an "
                f"input. {ANOTHER}"
            )
    if unknown := [column for column in ingest.keys if column not in (*reference.keys, *reference.source_columns)]:
        raise ConfigError(
            f"key = {unknown[0]!r}, but the model {name} was created without this column as a key, so its scores lack "
            f"it. {ANOTHER}"
        )
    if ingest.group not in (None, *reference.keys):
        raise ConfigError(
            f"group = {ingest.group!r}, but the model {name} was created without this column as a key. {ANOTHER}"
        )
    _check_categories(settings, reference)
    if ingest.dates == "drop" and any(encoding.parts for encoding in reference.encodings):
        raise _otherwise(settings, "dates", repr("parts"))
    if ingest.dates == "calendar":
        dates = [encoding for encoding in reference.encodings if encoding.parts]
        if not all(encoding.has_calendar for encoding in dates):
            raise _otherwise(settings, "dates", repr("parts"))
    folding = reference.svmlight
    if folding is not None:  # other files have no such indices, and any setting of them is accepted
        _check_same(settings, "svmlight_index", str(folding.first_index))
        _check_same(settings, "storage", "dense" if reference.sparse is None else "sparse")
    _check_same(settings, "many_values", "inputs")
    _check_same(settings, "missing_words", reference.missing_words)
    _check_same(settings, "hash_columns", (folding.hashed if folding else 0) or None)
    _check_sparse(settings, reference)
    for form in reference.formats:
        if form.kind == "number":
            _check_same(settings, "decimal", "comma" if form.decimal == "," else "point")
        elif form.order != "year":
            _check_same(settings, "date_order", form.order)
    check_constrained(settings, reference)
    criterion_of(settings.train.optimise, reference.task, reference.class_counts, reference.target)
    check_threshold(settings.train, reference)


def _check_sparse(settings: RetrainSettings, reference: Schema) -> None:
    """Refuse other texts, more terms than they may have, and another normalisation; least documents are not known."""
    sparse = reference.sparse
    texts = sparse.texts if sparse is not None else ()
    _check_same(settings, "text", tuple(text.column for text in texts))
    if sparse is not None and not texts:
        _check_same(settings, "normalise", "l2" if sparse.unit_length else "none")
    most = max((len(text.terms) for text in texts), default=0)
    if "max_terms" in settings.ingest.model_fields_set and most > settings.ingest.max_terms:
        raise _otherwise(settings, "max_terms", str(most))


def _check_same(settings: RetrainSettings, field: str, recorded: object) -> None:
    requested = getattr(settings.ingest, field)
    if requested not in (recorded, IngestSettings.model_fields[field].default):
        raise _otherwise(settings, field, repr(recorded))


def _otherwise(settings: RetrainSettings, field: str, recorded: str) -> ConfigError:
    return ConfigError(
        f"{field} = {getattr(settings.ingest, field)!r} conflicts with {recorded}, the value with which the model "
        f"{settings.name} was created. {ANOTHER}"
    )


def _check_categories(settings: RetrainSettings, reference: Schema) -> None:
    """Refuse categories that are none, and another number of values that get an input each.

    A column with more values than that has the input of all others, which shows the number; columns without it show
    only the least that it was.
    """
    kinds: dict[str, str] = {encoding.column: encoding.kind for encoding in reference.encodings}
    kinds |= dict.fromkeys((text.column for text in reference.sparse.texts) if reference.sparse else (), "text")
    for column in settings.ingest.categories:
        if (kind := kinds.get(column, "number")) == "category":
            continue
        recorded = f"with it as {KINDS[kind]}"
        if column not in reference.source_columns:
            as_key = "with it as a key" if column in reference.keys else "without it"
            recorded = f"{as_key}, and does not train on it"
        raise ConfigError(
            f"The column {column!r} is given as a category, but the model {settings.name} was created "
            f"{recorded}. {ANOTHER}"
        )
    requested = settings.ingest.max_categories
    if requested is None:
        return
    made = [
        (len(encoding.categories), encoding.other) for encoding in reference.encodings if encoding.kind == "category"
    ]
    if full := [number for number, other in made if other and number != requested]:
        raise _otherwise(settings, "max_categories", str(full[0]))
    if (least := max((number for number, _ in made), default=0)) > requested:
        raise _otherwise(settings, "max_categories", f"{least} or more")


def input_difference(schema: Schema, reference: Schema) -> str:
    """Return how a model's target or inputs differ from those of stored shards; "" if it can score the shards.

    Scaling and metric may differ: shards hold raw values, and each model reads them by its own.

    schema : of the model; reference : of the shards
    """
    if schema.task != reference.task or schema.target != reference.target:
        return (
            f"its target is {schema.target} ({schema.task}), that of the shards {reference.target} ({reference.task})"
        )
    if schema.labels != reference.labels:
        return f"its classes are {listed([*map(str, schema.labels)])}, not {listed([*map(str, reference.labels)])}"
    made, stored = (_input_columns(one) for one in (schema, reference))
    columns = [column for column in {**made, **stored} if made.get(column, "") != stored.get(column, "")]
    inputs = f"{schema.n_features:,} inputs, those of the shards {reference.n_features:,}"
    if columns or schema.features != reference.features or schema.sparse != reference.sparse:
        return f"its rows have {inputs}" + (f" ({listed(columns)} differ)" if columns else "")
    return ""


def _input_columns(schema: Schema) -> dict[str, object]:
    """Return what each source column becomes; fills of missing values, which shards always have, are left out."""
    made: dict[str, object] = dict.fromkeys(schema.source_columns)
    made |= {text.column: text for text in schema.texts}
    for encoding in schema.encodings:
        if encoding.kind != "number" or encoding.missing:
            made[encoding.column] = replace(encoding, fills=())
    return made


# Early checks of scheduled runs.


def check_arrivals(settings: RetrainSettings) -> None:
    """Check the location of arriving files and the columns of the first valid one, if there is any; read no row.

    One file that fits is enough; others are quarantined by the run.

    Raises ConfigError : a folder of this machine that is not there, settings that exclude each other, or that the model
        was created without
    Raises DataError : storage that does not answer; files of which none can be read by the settings, or like those
        before; a shard to release that is not quarantined or cannot be trained on, or one to exclude that is not
        accepted
    """
    arrived, *_ = arrivals(settings.source)
    check_exclusive(settings)
    model = Registry(settings.registry).model(settings.name)
    _check_shards(settings, model)
    reference = _reference(model)
    if reference is not None:
        check_lineage_start(settings, reference)
    ingesting = first_ingest(settings)
    refused: DataError | None = None
    for arrival in arrived[:MOST_FIRST]:
        try:
            check_source(arrival.location, ingesting, reference)
        except DataError as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        first = f"the first {MOST_FIRST} of " if len(arrived) > MOST_FIRST else ""
        others = f" None of {first}the {len(arrived):,} files there can be read." if len(arrived) > 1 else ""
        raise DataError(f"{refused}{others}{_misspelt(model, settings) if reference is None else ''}")


def check_exclusive(settings: RetrainSettings) -> None:
    """Raise ConfigError if a new choice is requested, but a solver is given; or a dry run changes shards."""
    if settings.choose == "again" and settings.train.solver != "auto":
        raise ConfigError(
            f"choose = 'again' conflicts with the given solver {settings.train.solver!r} (or an option of it). Remove "
            "one of them."
        )
    if both := [key for key in settings.release if key in settings.exclude]:
        raise ConfigError(f"release and exclude both have {both[0]!r}. Remove it from one of them.")
    for name in ("release", "exclude"):
        if settings.dry_run and (keys := getattr(settings, name)):
            raise ConfigError(
                f"--{name} {' '.join(keys)} would last after a dry run. Remove it or --dry-run: a model that is "
                "trained afterwards is published only if it is better."
            )


def start_lineage(
    model: RegisteredModel,
    settings: RetrainSettings,
    new: Sequence[tuple[Arrival, str]],
    choose: Callable[[Dataset], Schema] = lambda data: data.schema,
    trial: Trial | None = None,
) -> Schema:
    """Return the reference schema of a new model from the first files; see `first_reference`.

    Raises DataError : no file can be read with these settings; the message lists models with similar names
    """
    train = settings.train
    is_open = train.rescale == "stored" and "scale" not in settings.ingest.model_fields_set
    standardises = train.options.standardises or (train.solver != "auto" and bool(settings.ingest.text))
    default_scale: Scale = "standard" if is_open and standardises else "none"
    try:
        return first_reference(new, first_ingest(settings), choose, default_scale, trial)
    except DataError as error:
        raise DataError(f"{error}{_misspelt(model, settings)}") from None


def _misspelt(model: RegisteredModel, settings: RetrainSettings) -> str:
    """Return a hint where files do not fit a new model: perhaps another model was meant."""
    explicit = settings.ingest.target != IngestSettings.model_fields["target"].default
    if explicit or model.state().latest or not (close := model.close_names()):
        return ""
    return f" No model {model.name!r} is registered (similar names: {close}). For a new model, add --target COLUMN."


def _check_shards(settings: RetrainSettings, model: RegisteredModel) -> None:
    """Refuse to release shards that are not quarantined or cannot be trained on, or to exclude unknown ones."""
    records = ShardStore(model.folder / "data").records() if settings.release or settings.exclude else {}
    for key in settings.exclude:
        find_accepted(records, key)
    for key in settings.release:
        record = find_quarantined(records, key)
        same_limits = record.contract == contract_digest(settings.contract, settings.time_column)
        if same_limits and record.status == "quarantined" and not learnable(record.findings):
            raise DataError(
                f"release = {key!r} has no effect, because the rows cannot be trained on. {record.reason} Remove it "
                "from release, correct the file and add it again."
            )


def _reference(model: RegisteredModel) -> Schema | None:
    """Return the schema that files are checked against: of earlier shards or of the champion; None without either."""
    head = model.head()
    reference = ShardStore(model.folder / "data").reference()
    if head.state.champion is None:
        return reference
    schema = model.resolved(CHAMPION, head).load().schema
    return schema if reference is None else prepared_as(reference, schema)
