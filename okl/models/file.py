"""The model file: model.json and weights.safetensors, checked when read; reading runs no code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from html import escape
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from okl.data.dataset import Schema
from okl.features.predictors import CalibratedPredictor, Predictor, predictor_from_stored
from okl.foundation.class_tags import save_arrays
from okl.foundation.errors import ConfigError, DataError, ModelError, listed
from okl.foundation.locations import Place, close_to, file_sha256, place_of, runs_named
from okl.foundation.types import Criterion, Doubles, FloatArray, Optimise, Precision
from okl.foundation.validation import sealed, validated
from okl.metrics.criterion import criterion_of
from okl.models import quality
from okl.models.inputs import RawValues, inputs_of, no_probabilities, predictions, refuse_nonfinite
from okl.models.pieces import labelled_rows, located_inputs

# Schema validation.

LONGEST_SHOWN = 60


def schema_from_stored(stored: dict[str, Any], where: str) -> Schema:
    """Rebuild a schema from its `as_json` without running stored code; ModelError for fields that do not fit."""
    unknown = set(stored) - {field.name for field in fields(Schema)}
    if unknown:
        raise _damaged(where, f"{min(unknown)!r} is not a field of a schema")
    try:
        schema = validated(Schema, stored)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(map(str, fault["loc"]))
        if fault["type"] == "missing":
            raise _damaged(where, f"{name} is missing") from None
        raise _damaged(where, f"{name} = {shortened(fault['input'])}: {fault['msg'].lower()}") from None
    for fault_message in _faults(schema):
        raise _damaged(where, fault_message)
    return schema


def shortened(value: Any) -> str:
    """Return a stored value, shortened for a message."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _damaged(where: str, why: str) -> ModelError:
    return ModelError(f"{where}: its schema is damaged: {why}. Train the model again.")


def _faults(schema: Schema) -> Iterator[str]:
    """Return the inconsistencies of a schema."""
    n_labels = len(schema.labels)
    n_features = len(schema.features)
    if not schema.n_features or len(set(schema.features)) < n_features:
        yield f"it names {n_features} features, {len(set(schema.features))} of them different"
    if len(schema.feature_statistics) != n_features:
        yield f"{len(schema.feature_statistics)} columns have statistics, but it names {n_features} features"
    if len(schema.metric) not in (0, n_features):
        yield f"its metric has {len(schema.metric)} weights, but it names {n_features} features"
    if not all(0.0 <= weight < inf for weight in schema.metric):
        yield "its metric has a weight that is negative or not finite"
    if not {column.name for column in schema.squashed} <= set(schema.features):
        yield "a squashed column is not a feature"
    if not all(isfinite(column.center) and 0.0 < column.width < inf for column in schema.squashed):
        yield "a squashed column has a center that is not finite, or a width that is not positive and finite"
    if {"regression": n_labels > 0, "binary": n_labels != 2, "multiclass": n_labels < 2}[schema.task]:
        yield f"a {schema.task} task has {n_labels} labels"
    for name in ("stored_labels", "class_counts"):
        if len(getattr(schema, name)) not in (0, n_labels):
            yield f"{name} has {len(getattr(schema, name))} entries for {n_labels} labels"
    for encoding in schema.encodings:
        of_kind = {"number": 1, "category": encoding.n_own + encoding.other}
        n_inputs = (of_kind.get(encoding.kind) or len(encoding.parts)) + encoding.missing
        if not set(encoding.inputs) <= set(schema.features) or len(encoding.inputs) != n_inputs:
            yield f"the inputs of column {encoding.column!r} do not match its encoding {encoding.kind!r}"
        if len(encoding.fills) not in (0, len(encoding.inputs) - encoding.missing):
            yield f"column {encoding.column!r} has {len(encoding.fills)} fills for {len(encoding.inputs)} inputs"
        if any(len(row) != len(encoding.categories) + 2 for row in encoding.means):
            yield f"column {encoding.column!r} lacks a target mean of each value, of all others and of none"


# 8 with words for missing values; 7 with target means; 6 with squashed columns; 5 with a metric or sparse columns; 4
# with formats; 3 with probabilities; else 2 or 1
FORMAT_VERSION = 9
DESCRIPTION, SEAL = "model.json", "description_sha256"
WEIGHTS = "weights.safetensors"
WHAT_TO_GIVE = (
    "Give the folder of a trained model, the name of a run (okl runs lists them), or NAME@champion of a "
    "registered model (okl models list)."
)
MODEL_PARTS = {"predictor": dict, "schema": dict, "configuration": dict, "provenance": dict, "weights_sha256": str}


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A predictor with all that raw rows need to become scores.

    Rows are a table in memory (pandas, polars, Arrow) whose columns are matched by name, an array of numbers in the
    order of schema.features, or the location of files or of a data set, which are read into memory.

    schema : columns in order, scaling, missing-value policy, label names, target inverse
    predictor : what was learned; configuration : the settings it was learned with
    provenance : digests of the data, code version, seed, kind of processor
    """

    schema: Schema
    predictor: Predictor
    configuration: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def precision(self) -> Precision:
        """Return the precision of its weights, and so of its scores."""
        return self.predictor.precision

    @property
    def has_probabilities(self) -> bool:
        """Return whether it is a classifier whose scores are calibrated."""
        return isinstance(self.predictor, CalibratedPredictor)

    def prepare(self, values: RawValues) -> Any:
        """Return scaled inputs (rows, n_features) of raw rows, a scipy.sparse.csr_array if the model takes sparse ones.

        Parameters
        ----------
        values : table with the columns of schema.source_columns, in any order, text and dates as they are: pandas,
            polars, Arrow; an array (rows, n_features) in the order of schema.features, or of scipy.sparse where rows
            are sparse; or the location of rows

        Raises
        ------
        DataError : a column that is missing or of another kind, or a value that cannot be taken
        ModelError : an array of another shape or type, or with a value that is not finite; a row that misses a value
        """
        if isinstance(values, str | os.PathLike):
            return located_inputs(self.schema, self.precision, os.fspath(values))
        return inputs_of(self.schema, values, self.precision)

    def scores(self, values: RawValues, n_threads: int = 1) -> FloatArray:
        """Return scores before the link, (rows,) or (rows, n_classes), of raw rows; see `prepare`."""
        return self.predictor.scores(self.prepare(values), n_threads)

    def predict(self, values: RawValues, n_threads: int = 1) -> np.ndarray[Any, Any]:
        """Return labels (rows,), or targets in their own unit for regression, of raw rows; see `prepare`.

        Raises
        ------
        DivergedError : a score is NaN or infinite; and the errors of `prepare`
        """
        scores = self.scores(values, n_threads)
        predicted = predictions(self.schema, scores)
        refuse_nonfinite(self.schema, scores, predicted)
        return predicted

    def predict_proba(self, values: RawValues, n_threads: int = 1) -> Doubles:
        """Return the probability of each class of schema.labels, (rows, n_classes), of raw rows; see `prepare`.

        Raises
        ------
        ModelError : the model has no probabilities
        """
        if not isinstance(self.predictor, CalibratedPredictor):
            raise ModelError(no_probabilities(self.schema))
        return self.predictor.probabilities(self.scores(values, n_threads))

    def evaluate(
        self,
        values: RawValues,
        targets: Any = None,
        n_threads: int = 1,
        *,
        threshold: float | None = None,
        recall: float | None = None,
        precision: float | None = None,
    ) -> dict[str, Any]:
        """Return metrics of labelled rows by name, as `okl evaluate` does; of a data set, those of its test rows.

        Parameters
        ----------
        values : raw rows, see `prepare`; targets : (rows,), None where the rows have the target column
        threshold : probability from which on the second of two classes is predicted; None: the model's own
        recall, precision : chooses the threshold on these rows, which is returned as "threshold"; see `okl.evaluate`

        Raises
        ------
        DataError : a label never seen in training, no complete row; and the errors of `prepare`
        ConfigError : two of threshold, recall and precision; one of them for a model that is not of two classes
        """
        quality.check_one_threshold(threshold, recall, precision)
        self.check_chooses(recall, precision)
        rows, schema = labelled_rows(self.schema, self.precision, values, targets), self.schema
        predictor = self.with_threshold(threshold).predictor
        scores = quality.in_target_unit(schema, predictor.scores(rows.inputs, n_threads))
        tally = quality.tally_of(schema, scores, quality.in_target_unit(schema, rows.targets), predictor)
        if recall is None and precision is None:
            return quality.in_scaled_unit(schema, tally.report())
        tally, chosen = quality.decided(tally, recall, precision)
        return quality.MetricValues(tally.report() | {"threshold": chosen})

    def explain(
        self, values: RawValues, targets: Any = None, most_rows: int = 5000, repeats: int = 5, seed: int = 0
    ) -> quality.Importances:
        """Return how much the error rises when the values of each column are permuted, as `okl explain` does.

        Parameters
        ----------
        values, targets : as in `evaluate`; most_rows : a sample is used if there are more
        repeats : permutations of each column; seed : of the sample and the permutations

        Raises
        ------
        DataError : fewer than two complete rows; and the errors of `evaluate`
        ConfigError : the rows are sparse
        """
        if self.schema.sparse is not None:
            raise ConfigError(
                f"{self.schema.n_features:,} words or sparse columns have no importance by permutation. "
                "okl.explain(MODEL) lists those of the largest weights."
            )
        rows = labelled_rows(self.schema, self.precision, values, targets)
        taken = np.sort(np.random.default_rng(seed).permutation(len(rows.targets))[:most_rows])
        criterion = quality.permuted_criterion(self.criterion(), len(taken), self.predictor)
        return quality.permutation_importance(
            self.schema, self.predictor, rows.inputs[taken], rows.targets[taken], criterion, repeats, seed
        )

    def criterion(self, optimise: Optimise = "auto") -> Criterion:
        """Return the criterion of an explanation: as given, that of the model's training, or by its classes.

        Raises
        ------
        ConfigError : a criterion that does not fit the task; the log loss of a model without probabilities
        """
        wanted = optimise if optimise != "auto" else self.configuration.get("optimise", "auto")
        criterion = criterion_of(wanted, self.schema.task, self.schema.class_counts, self.schema.target)
        if criterion != "log-loss" or self.has_probabilities:
            return criterion
        if optimise == "log-loss":
            raise ConfigError(f"optimise = 'log-loss' needs probabilities. {no_probabilities(self.schema)}")
        return "auc" if self.schema.task == "binary" else "accuracy"

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to a new folder, which `okl.load` opens; raises ModelError if the folder exists."""
        save_model(self, Path(folder))

    def __repr__(self) -> str:
        return "\n".join(["Model", *(f"  {name:<11}{text}" for name, text in self._facts())])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts())
        return f"<table><caption>Model</caption>{rows}</table>"

    def _facts(self) -> list[tuple[str, str]]:
        """Return a few names and texts that describe the model."""
        schema, columns = self.schema, self.schema.source_columns
        target, labels = f"{schema.target} (regression)", [shortened(label) for label in schema.labels]
        if labels:
            chance = "probabilities" if self.has_probabilities else "no probabilities"
            target = f"{schema.target}: {listed(labels, 4)}; {chance}"
        described, arrays = self.predictor.describe(), self.predictor.arrays()
        form = described.get("map") or described
        kernel, numbers = form.get("kernel") or {"name": "linear"}, sum(array.size for array in arrays.values())
        bandwidth = f", bandwidth {kernel['bandwidth']:.4g}" if "bandwidth" in kernel else ""
        solver = self.configuration.get("solver") or form.get("kind")
        trained = self.provenance.get("train_rows")
        return [
            ("Predicts", target),
            ("From", listed(columns, 6) + ("" if len(columns) < 3 else f" ({len(columns)} columns)")),
            ("Predictor", f"{solver}, {kernel['name']} kernel{bandwidth}; {numbers:,} numbers, {self.precision}"),
            *([("Trained on", f"{trained:,} rows, {self.provenance.get('created', '')[:10]}")] if trained else []),
        ]

    def with_threshold(self, threshold: float | None) -> Model:
        """Return the model with another threshold of the second of two classes, between 0 and 1; None: as it is.

        Raises
        ------
        ConfigError : the threshold is outside its range, or there are not two classes
        ModelError : the model has no probabilities
        """
        if threshold is None:
            return self
        if not 0.0 < threshold < 1.0:
            raise ConfigError(f"threshold = {threshold:g}, but a probability between 0 and 1 is expected.")
        self._check_two_classes("threshold", threshold)
        assert isinstance(self.predictor, CalibratedPredictor), "it has probabilities"
        return replace(self, predictor=self.predictor.with_threshold(threshold))

    def check_chooses(self, recall: float | None, precision: float | None) -> None:
        """Raise ConfigError or ModelError if a recall or precision is wanted, but the model has no threshold for it."""
        for name, value in (("recall", recall), ("precision", precision)):
            if value is not None:
                self._check_two_classes(name, value)

    def _check_two_classes(self, name: str, value: float) -> None:
        if self.schema.task != "binary":
            raise ConfigError(
                f"{name} = {value:g} is for two classes, but the model is for {self.schema.task} targets. Remove it."
            )
        if not self.has_probabilities:
            raise ModelError(no_probabilities(self.schema))


def save_model(model: Model, folder: Path) -> str:
    """Write a model through a temporary folder, return the sha256 of its weights; ModelError if the folder exists."""
    if folder.exists():
        raise ModelError(f"{folder} already exists, and models are not overwritten. Choose another folder.")
    arrays = {name: np.ascontiguousarray(array) for name, array in model.predictor.arrays().items()}
    description = {
        "format_version": max(3 if model.has_probabilities else 1, model.schema.format_version),
        "predictor": model.predictor.describe(),
        "schema": model.schema.as_json(),
        "configuration": model.configuration,
        "provenance": model.provenance,
    }
    partial_folder = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        partial_folder.mkdir(parents=True)
        save_arrays(arrays, partial_folder / WEIGHTS)
        digest = file_sha256(partial_folder / WEIGHTS)
        (partial_folder / DESCRIPTION).write_bytes(sealed(description | {"weights_sha256": digest}, SEAL))
        partial_folder.rename(folder)
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)
    return digest


def load_model(folder: str | Place) -> Model:
    """Open a model folder by its digests, without running stored code; ModelError if it is missing or damaged."""
    folder = place_of(folder)
    description = _read_description(folder)
    try:
        weights = (folder / WEIGHTS).read_bytes()
    except DataError as error:
        raise ModelError(f"{error} The model is incomplete.") from None
    except OSError as error:
        raise ModelError(f"{folder / WEIGHTS} cannot be read ({error.strerror}). The model is incomplete.") from None
    if hashlib.sha256(weights).hexdigest() != description["weights_sha256"]:
        raise ModelError(f"{folder / WEIGHTS}: the sha256 differs from that in {DESCRIPTION}. The file is damaged.")
    try:
        arrays = load_tensors(weights)
        schema = schema_from_stored(description["schema"], str(folder))
        predictor = predictor_from_stored(description["predictor"], arrays, str(folder))
    except (ArithmeticError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(f"{folder}: not a complete okl model ({error}). Train it again.") from None
    if (predictor.n_inputs, predictor.n_outputs) != (schema.n_features, schema.n_outputs):
        raise ModelError(
            f"{folder}: the predictor has {predictor.n_inputs} inputs and {predictor.n_outputs} outputs, but the "
            f"schema has {schema.n_features} and {schema.n_outputs}. The model is damaged; train it again."
        )
    return Model(schema, predictor, description["configuration"], description["provenance"])


def weights_digest(folder: Place) -> str:
    """Return the sha256 of the weights of a stored model."""
    digest: str = _read_description(folder)["weights_sha256"]
    return digest


def _advice(folder: Place) -> str:
    """Return advice for a folder without a model: perhaps the name is that of a run."""
    if not folder.exists():
        runs = runs_named(folder.name)
        if not runs:
            return f"{close_to(folder.name)} {WHAT_TO_GIVE}".strip()
        hint = f" The newest run named {folder.name} is {runs[0]}; its model is in the subfolder model/."
    elif isinstance(folder, Path) and folder.is_file():
        hint = " This is a file: give the model first, then the rows."
    else:
        hint = f" The model of this run is {folder / 'model'}." if (folder / "model" / DESCRIPTION).is_file() else ""
    return f"Give the folder of a trained model.{hint}"


def _read_description(folder: Place) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        stored = path.read_bytes()
    except DataError as error:
        raise ModelError(str(error)) from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}). {_advice(folder)}") from None
    try:
        description = json.loads(stored)
    except (ValueError, RecursionError):
        raise ModelError(f"{path}: not JSON. The file is damaged; use another copy of the model.") from None
    if not isinstance(description, dict) or not isinstance(description.get("format_version"), int):
        raise ModelError(f"{path}: it has no format_version, so it is not an okl model.")
    if description["format_version"] > FORMAT_VERSION:
        raise ModelError(
            f"{path}: format {description['format_version']} was written by a later okl version; this one reads up to "
            f"{FORMAT_VERSION}. Upgrade okl."
        )
    try:
        sound = SEAL in description and sealed(description, SEAL) == stored
    except (ValueError, RecursionError):  # infinities, lone surrogates
        sound = False
    if not sound:
        raise ModelError(f"{path}: the sha256 does not match. The file is damaged or was edited.")
    for name, kind in MODEL_PARTS.items():
        if not isinstance(description.get(name), kind):
            raise ModelError(
                f"{path}: {name} = {shortened(description.get(name))}; expected "
                f"{'a string' if kind is str else 'an object'}. Train the model again."
            )
    return description
