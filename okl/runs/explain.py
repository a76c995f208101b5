"""Explanation of a saved model and permutation importance of its columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from okl.data.dataset import origins
from okl.data.executor import Rows
from okl.data.manifest import is_dataset, open_dataset
from okl.data.reading import sample_rows
from okl.distributed.local import default_threads
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.locations import Place, place_of
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Criterion, FloatArray, Optimise
from okl.metrics.calibration import log_losses
from okl.metrics.counts import predicted_classes
from okl.metrics.criterion import criterion_error, criterion_of
from okl.models.file import Model, load_model, no_probabilities
from okl.models.inputs import class_indices, learnt_among, prepare_rows, read_as
from okl.models.pieces import check_pieces, read_table, table_pieces
from okl.models.reference import REGISTRY, find_version, is_reference, meant
from okl.models.registry import Registry, is_of_retraining, learnt_rows, rows_of
from okl.runs.evaluate import in_target_unit, logits_of

# Sample of labelled rows


def sample_source(model: Model, source: str, n_rows: int, seed: int) -> Rows:
    """Return a uniform sample, without replacement, of the rows without missing values; all if there are fewer.

    All rows are read, but only n_rows and one batch are in memory: the rows with the smallest random keys are sampled.

    Raises
    ------
    DataError : columns are missing or of another kind; no row is complete; a label that is not in the training data
    """
    schema = model.schema
    pieces = table_pieces(source, schema)
    check_pieces(schema, pieces, source, with_targets=True)
    random = np.random.default_rng((seed, 0x5A3B1E))
    keys = np.empty(0)
    inputs = np.empty((0, schema.n_features), dtype=model.precision)
    targets = np.empty(0)
    for piece in pieces:
        for batch in read_table(piece, [*schema.source_columns, schema.target]):
            raw = prepare_rows(schema, batch, model.precision, with_targets=True)
            assert raw.targets is not None
            drawn = random.random(len(raw.targets))
            drawn[slice(0) if raw.complete is None else ~raw.complete] = np.inf
            keys = np.concatenate([keys, drawn])
            least = np.sort(np.argsort(keys, kind="stable")[:n_rows])
            least = least[np.isfinite(keys[least])]
            keys = keys[least]
            inputs = np.concatenate([inputs, raw.inputs])[least]
            targets = np.concatenate([targets, raw.targets])[least]
    if not len(targets):
        raise DataError(f"{source}: every row has a missing value. Give rows without missing values.")
    return Rows(inputs, targets)


# Permutation importance: increase of the error when the values of a column are permuted


@dataclass(frozen=True)
class Importance:
    """Importance of a source column.

    Parameters
    ----------
    column : name of the column
    rise : mean increase of the error with the column permuted
    spread : standard deviation of the increase over the permutations
    """

    column: str
    rise: float
    spread: float


@dataclass(frozen=True)
class Importances:
    """Importances of all source columns, the largest first.

    error : error by the criterion without permutation
    """

    rows: int
    repeats: int
    error: float
    columns: tuple[Importance, ...]
    criterion: Criterion

    def as_json(self) -> dict[str, Any]:
        """Return rows, repeats, criterion, error, and the columns."""
        columns = [{"column": item.column, "rise": item.rise, "spread": item.spread} for item in self.columns]
        return {
            "rows": self.rows,
            "repeats": self.repeats,
            "criterion": self.criterion,
            "error": self.error,
            "columns": columns,
        }


def permutation_importance(
    model: Model,
    inputs: FloatArray,
    targets: FloatArray,
    repeats: int = 5,
    seed: int = 0,
    n_threads: int = 1,
    advance: Callable[[int, int], None] = lambda done, total: None,
    criterion: Criterion | None = None,
) -> Importances:
    """Compute the increase of the error when the values of each source column are permuted among the rows.

    All inputs of a source column (its categories, the parts of a date) are permuted together. If two columns carry
    the same information, each alone may seem unimportant.

    Parameters
    ----------
    inputs : (rows, n_features), scaled, of rows that were not used for training
    targets : (rows,), as in `okl.data.reading.Rows`
    repeats : permutations of each column, at least 1
    seed : of the permutations
    advance : called with the number of finished columns and of all columns

    Raises
    ------
    DataError : fewer than two rows

    Source: Breiman, Machine Learning 45, 2001, section 10; for any model as in Fisher, Rudin & Dominici, JMLR 20(177),
    2019, section 3.2.
    """
    if len(inputs) < 2:
        raise DataError(
            f"{len(inputs)} rows to explain the model on; expected at least two, as values are permuted among rows."
        )
    schema, random, n_rows = model.schema, np.random.default_rng(seed), len(inputs)
    criterion = criterion or explained_criterion(model, "auto")
    total = _total(model, inputs, targets, n_threads, criterion)
    source = np.array(origins(schema.features, schema.encodings))
    permuted = inputs.copy()
    importances = []
    for index, column in enumerate(schema.source_columns):
        group = np.flatnonzero(source == column)
        rises = np.empty(repeats)
        for repeat in range(repeats):
            permuted[:, group] = inputs[random.permutation(len(inputs))[:, None], group]
            rises[repeat] = _total(model, permuted, targets, n_threads, criterion) - total
        permuted[:, group] = inputs[:, group]
        # sums of mistakes are whole numbers, so equal sums cancel to 0; means would leave 1e-17
        importances.append(Importance(column, float(rises.mean() / n_rows), float(rises.std() / n_rows)))
        advance(index + 1, len(schema.source_columns))
    importances.sort(key=lambda importance: -importance.rise)
    return Importances(n_rows, repeats, total / n_rows, tuple(importances), criterion)


def explained_criterion(model: Model, optimise: Optimise) -> Criterion:
    """Return the criterion of an explanation: as given, that of the model's training, or by its classes.

    Raises
    ------
    ConfigError : a criterion that does not fit the task; the log loss of a model without probabilities
    """
    schema = model.schema
    wanted = optimise if optimise != "auto" else model.configuration.get("optimise", "auto")
    criterion = criterion_of(wanted, schema.task, schema.class_counts, schema.target)
    if criterion != "log-loss" or model.has_probabilities:
        return criterion
    if optimise == "log-loss":
        raise ConfigError(f"optimise = 'log-loss' needs probabilities. {no_probabilities(schema)}")
    return "auc" if schema.task == "binary" else "accuracy"


def _total(model: Model, inputs: FloatArray, targets: FloatArray, n_threads: int, criterion: Criterion) -> float:
    """Return the error of rows by a criterion, times their number."""
    schema, scores = model.schema, model.predictor.scores(inputs, n_threads)
    if criterion == "squared-error":
        return float(((in_target_unit(schema, scores) - in_target_unit(schema, targets)) ** 2).sum())
    classes = class_indices(schema, targets)
    if criterion == "accuracy":
        return float((predicted_classes(scores) != classes).sum())
    logits = logits_of(model.predictor, scores)
    if criterion == "log-loss" and logits is not None:
        return float(log_losses(logits, classes).sum())
    return len(classes) * criterion_error(criterion, np.asarray(scores, dtype=np.float64), classes)


# `okl explain`: facts of a saved model, and the importance of its columns on a sample of rows

RUN_PARTS = ("test", "progressive", "train", "certificate", "dataset")  # parts of the result of a run


class ExplainSettings(BaseModel):
    """Settings of an explanation: model, rows and permutations."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="folder of a model, its URL, or NAME@WHICH of a registry, as NAME@champion")
    registry: str | None = Field(None, description=REGISTRY)
    source: str | None = Field(None, description="labelled rows, raw or a data set; none: the data set of its run")
    rows: int = Field(5000, ge=2, description="number of sampled rows among which values are permuted")
    optimise: Optimise = Field("auto", description="criterion of the error of a classifier; auto: that of its training")
    repeats: int = Field(5, ge=1, description="permutations of each column")
    seed: int = Field(0, ge=0, description="seed of the sample and the permutations")


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """Model with its location, the lineage of its version and the result of its run; {} if there is none."""

    model: Model
    named: str
    folder: Place
    lineage: Mapping[str, Any]
    result: Mapping[str, Any]


def explain(settings: ExplainSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Describe a saved model.

    Returns
    -------
    dict with model, folder, what (its parts), schema (task, target, columns, labels), configuration, provenance;
    lineage of a registered version; metrics and certificate of its run; judged for a retrained version: rows, shards,
    challenger (metrics of this model), champion (metrics of the previous model), against (name of that model);
    importance, or no_importance, the reason why there is none

    Raises
    ------
    OklError : the model cannot be read, or the rows do not fit it
    """
    observer = observer or NullObserver()
    facts = _facts(settings)
    schema = facts.model.schema
    explanation: dict[str, Any] = {
        "model": facts.named,
        "folder": str(facts.folder),
        "what": describe_predictor(facts.model),
        "task": schema.task,
        "target": schema.target,
        "labels": list(schema.labels),
        "columns": list(schema.source_columns),
        "inputs": schema.n_features,
        "scale": schema.scale,
        "missing": schema.missing,
        "configuration": facts.model.configuration,
        "provenance": facts.model.provenance,
        "lineage": dict(facts.lineage) or None,
        **_written(facts.result),
    }
    importances, rows_or_reason = _importances(settings, facts, observer)
    importance = importances.as_json() | {"on": rows_or_reason} if importances else None
    return explanation | {"importance": importance, "no_importance": rows_or_reason}


def describe_predictor(model: Model) -> dict[str, Any]:
    """Return kind, kernel, map and size of the predictor."""
    arrays = model.predictor.arrays()
    return model.predictor.describe() | {
        "precision": model.precision,
        "outputs": model.predictor.n_outputs,
        "numbers": sum(int(array.size) for array in arrays.values()),
        "shapes": {name: list(array.shape) for name, array in sorted(arrays.items())},
    }


def _facts(settings: ExplainSettings) -> ModelFacts:
    named = meant(settings.model, settings.registry)
    if is_reference(named):
        version = find_version(named, settings.registry)
        line = Registry(settings.registry).model(version.name).ancestry(version)
        rows = {"rows": rows_of(version), "learnt_rows": learnt_rows(version, sum(map(rows_of, line)))}
        lineage = {"version": version.number, **rows, **version.lineage.as_json()}
        folder = version.model_folder
        return ModelFacts(version.load(), str(version), folder, lineage, _result_of_run(folder))
    folder = place_of(named)
    return ModelFacts(load_model(named), named, folder, {}, _result_of_run(folder.absolute()))


def _result_of_run(folder: Place) -> dict[str, Any]:
    """Return the result of the model's run; {} for a model outside the folder of its run."""
    try:
        read = json.loads((folder.parent / "result.json").read_text(encoding="utf-8"))
    except (OSError, DataError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _written(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a result: by split for a run, against the champion for a retraining."""
    if not is_of_retraining(result):
        return {name: result.get(name) for name in RUN_PARTS} | {"judged": None}
    overall = (result.get("decision") or {}).get("overall") or {}
    against = f"{result.get('model')}@{result['parent']}" if result.get("parent") else None
    judged = {"rows": overall.get("rows"), "shards": result["judged_on"], "against": against}
    values = {"certificate": result.get("certificate"), "judged": judged | dict(result.get("metrics") or {})}
    return dict.fromkeys(RUN_PARTS) | values


def _importances(settings: ExplainSettings, facts: ModelFacts, observer: Observer) -> tuple[Importances | None, str]:
    """Return importances and a description of their rows, or None and the reason."""
    source = settings.source
    if source is None:
        folder = (facts.result.get("dataset") or {}).get("folder")
        if not folder or not is_dataset(folder):
            return None, "Column importance needs labelled rows: give a SOURCE with the target column."
        source = str(folder)
    observer.stage("explain")
    rows, rows_or_reason = _rows(settings, facts.model, source)
    n_threads = default_threads()
    importances = permutation_importance(
        facts.model, rows.inputs, rows.targets, settings.repeats, settings.seed, n_threads,
        lambda done, total: observer.advance(done, total, {}), explained_criterion(facts.model, settings.optimise),
    )  # fmt: skip
    return importances, rows_or_reason


def _rows(settings: ExplainSettings, model: Model, source: str) -> tuple[Rows, str]:
    """Return a sample of the test rows of a data set if there are any, or of a source, and its description."""
    if not is_dataset(source):
        trained = learnt_among(model.provenance, source)
        overlap = f" (the model was trained on {trained:,} of them)" if trained else ""
        return sample_source(model, source, settings.rows, settings.seed), f"rows of {source}{overlap}"
    data = read_as(open_dataset(source), model.schema)
    split = "test" if data.split("test") else "train"
    taken = sample_rows(data, split, settings.rows, settings.seed, model.precision)  # type: ignore[arg-type]
    return taken, f"{split} rows of {source}"
