"""Explanation of a saved model and permutation importance of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from okl.data.execution import Rows
from okl.data.manifest import is_dataset, open_dataset
from okl.data.reading import sample_rows
from okl.distributed.in_process import default_threads
from okl.features.linear import SparseInputs
from okl.features.metric_learning import metric_shares
from okl.features.predictors import LinearPredictor, base_of
from okl.foundation.errors import DataError
from okl.foundation.locations import place_of
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Optimise
from okl.models.file import Model, load_model
from okl.models.inputs import Replaced, count_training_rows, read_as, replaced_sentences
from okl.models.pieces import check_pieces, raw_rows, table_pieces
from okl.models.quality import Importances, permutation_importance, permuted_criterion
from okl.models.reference import REGISTRY, find_version, is_reference, resolve_name, result_of_run
from okl.models.registry import Registry
from okl.models.registry_descriptions import is_of_retraining, learnt_rows, rows_of, shown_test


def sample_source(model: Model, source: str, n_rows: int, seed: int) -> tuple[Rows, list[str]]:
    """Return a uniform sample, without replacement, of the rows without missing values, and sentences on the others.

    There are fewer rows if fewer have all values.

    All rows are read, but only n_rows and one batch are in memory: the rows with the smallest random keys are sampled.

    Raises DataError : columns are missing or of another kind; no row is complete; a label that is not in the training
        data
    """
    schema = model.schema
    pieces = table_pieces(source, schema)
    check_pieces(schema, pieces, source, with_targets=True)
    random = np.random.default_rng((seed, 0x5A3B1E))
    keys = np.empty(0)
    inputs = np.empty((0, schema.n_features), dtype=model.precision)
    targets = np.empty(0)
    replaced = Replaced()
    for piece in pieces:
        for raw in raw_rows(schema, piece, model.precision, with_targets=True):
            assert raw.targets is not None
            replaced.update(raw.replaced)
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
    return Rows(inputs, targets), replaced_sentences(replaced, schema)


# `okl explain`: facts of a saved model, and the importance of its columns on a sample of rows

RUN_PARTS = ("test", "progressive", "train", "certificate", "dataset")  # parts of the result of a run


class ExplainSettings(BaseModel):
    """Settings of an explanation: model, rows and permutations."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="folder of a model, its URL, or NAME@VERSION of a registry, as NAME@champion")
    registry: str | None = Field(None, description=REGISTRY)
    source: str | None = Field(None, description="labelled rows, raw or a data set; none: the data set of its run")
    rows: int = Field(5000, ge=2, description="number of sampled rows among which values are permuted")
    optimise: Optimise = Field(
        "auto",
        description="criterion of the error of a classifier; auto: that of its training, or the log loss for few rows",
    )
    repeats: int = Field(5, ge=1, description="permutations of each column")
    seed: int = Field(0, ge=0, description="seed of the sample and the permutations")


def explain(settings: ExplainSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Describe a saved model.

    Returns dict with model, folder, what (its parts), schema (task, target, columns, labels), configuration,
        provenance;
    metric, the share of each column in the squared distance in a learnt metric, {} without one;
    lineage of a registered version; metrics and certificate of its run; judged for a retrained version: rows, shards,
    challenger (metrics of this model), champion (metrics of the previous model), against (name of that model);
    importance, or no_importance, the reason why there is none; weights, of sparse rows: the largest of each class
    Raises OklError : the model cannot be read, or the rows do not fit it
    """
    observer, lineage = observer or NullObserver(), dict[str, Any]()
    named = resolve_name(settings.model, settings.registry)
    if is_reference(named):
        version = find_version(named, settings.registry)
        line = Registry(settings.registry).model(version.name).ancestry(version)
        rows = {"rows": rows_of(version), "learnt_rows": learnt_rows(version, sum(map(rows_of, line)))}
        lineage = {"version": version.number, **rows, **version.lineage.as_json()}
        model, named, folder = version.load(), str(version), version.model_folder
    else:
        model, folder = load_model(named), place_of(named)
    result, schema = result_of_run(folder.absolute()), model.schema
    explanation: dict[str, Any] = {
        "model": named,
        "folder": str(folder),
        "what": describe_predictor(model),
        "task": schema.task,
        "target": schema.target,
        "labels": list(schema.labels),
        "columns": list(schema.source_columns),
        "inputs": schema.n_features,
        "scale": schema.scaling,
        "metric": metric_shares(schema),
        "missing": schema.missing,
        "configuration": model.configuration,
        "provenance": model.provenance,
        "lineage": lineage or None,
        **_written(result),
    }
    if schema.sparse is not None and _is_linear(model):
        explanation["weights"] = largest_weights(model)
    importances, rows_or_reason, warnings = _importances(settings, model, result, observer)
    importance = importances.as_json() | {"on": rows_or_reason} if importances else None
    return explanation | {"importance": importance, "no_importance": rows_or_reason, "warnings": warnings}


def describe_predictor(model: Model) -> dict[str, Any]:
    """Return kind, kernel, map and size of the predictor."""
    arrays = model.predictor.arrays()
    return model.predictor.describe() | {
        "precision": model.precision,
        "outputs": model.predictor.n_outputs,
        "numbers": sum(int(array.size) for array in arrays.values()),
        "shapes": {name: list(array.shape) for name, array in sorted(arrays.items())},
    }


MOST_WEIGHTS = 10


def _is_linear(model: Model) -> bool:
    """Return whether each sparse input has a weight."""
    predictor = base_of(model.predictor)
    return isinstance(predictor, LinearPredictor) and isinstance(predictor.feature_map, SparseInputs)


def largest_weights(model: Model) -> dict[str, list[list[Any]]]:
    """Return names and weights of the inputs that speak most for each class, or for larger and smaller targets."""
    predictor, schema = base_of(model.predictor), model.schema
    assert isinstance(predictor, LinearPredictor), "it is linear in its inputs"
    outputs = dict(zip(map(str, schema.labels), predictor.weights, strict=False))
    if schema.task == "binary":
        outputs = {str(schema.labels[1]): predictor.weights[0], str(schema.labels[0]): -predictor.weights[0]}
    if schema.task == "regression":
        outputs = {"larger targets": predictor.weights[0], "smaller targets": -predictor.weights[0]}
    outputs = {name: weights[: schema.n_features] for name, weights in outputs.items()}  # without a constant column
    return {
        label: [[schema.input_name(index), float(abs(weights[index]))] for index in order.tolist()]
        for label, weights in outputs.items()
        for order in (np.argsort(-weights, kind="stable")[:MOST_WEIGHTS],)
    }


def _written(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a result: by split for a run, against the champion for a retraining."""
    if not is_of_retraining(result):
        return {name: result.get(name) for name in RUN_PARTS} | {"judged": None}
    against = f"{result.get('model')}@{result['parent']}" if result.get("parent") else None
    decision = result.get("decision") or {}
    judged = {"rows": shown_test(decision).get("rows"), "shards": result["judged_on"], "against": against}
    judged |= {"newest": True} if decision.get("after_drift") else {}
    values = {"certificate": result.get("certificate"), "judged": judged | dict(result.get("metrics") or {})}
    return dict.fromkeys(RUN_PARTS) | values


def _importances(
    settings: ExplainSettings, model: Model, result: Mapping[str, Any], observer: Observer
) -> tuple[Importances | None, str, list[str]]:
    """Return importances and a description of their rows, or None and the reason; and sentences on left out rows."""
    source = settings.source
    if model.schema.sparse is not None:
        if _is_linear(model):
            return None, "Importance by permutation takes dense rows; weights are listed instead.", []
        why = "Importance by permutation takes dense rows, and a kernel of sparse rows has no weight for each input."
        return None, f"{why} Use --kernel linear for such weights.", []
    if source is None:
        folder = (result.get("dataset") or {}).get("folder")
        if not folder or not is_dataset(folder):
            return None, "Column importance needs labelled rows: give a SOURCE with the target column.", []
        source = str(folder)
    observer.stage("explain")
    rows, rows_or_reason, warnings = _rows(settings, model, source)
    criterion = model.criterion(settings.optimise)
    if settings.optimise == "auto":
        criterion = permuted_criterion(criterion, len(rows.targets), model.predictor)
    importances = permutation_importance(
        model.schema, model.predictor, rows.inputs, rows.targets, criterion,
        settings.repeats, settings.seed, default_threads(), lambda done, total: observer.advance(done, total, {}),
    )  # fmt: skip
    return importances, rows_or_reason, warnings


def _rows(settings: ExplainSettings, model: Model, source: str) -> tuple[Rows, str, list[str]]:
    """Return a sample of a source, or of a data set's test rows if there are any, its description, and sentences."""
    if not is_dataset(source):
        trained = count_training_rows(model.provenance, source)
        overlap = f" (the model was trained on {trained:,} of them)" if trained else ""
        rows, warnings = sample_source(model, source, settings.rows, settings.seed)
        return rows, f"rows of {source}{overlap}", warnings
    data = read_as(open_dataset(source), model.schema)
    split = "test" if data.split("test") else "train"
    taken = sample_rows(data, split, settings.rows, settings.seed, model.precision)  # type: ignore[arg-type]
    return taken, f"{split} rows of {source}", []
