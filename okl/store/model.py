"""A model on disk: `model.json` and `weights.safetensors`, checked byte by byte; reading it runs no code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from okl.errors import DataError, DivergedError, ModelError
from okl.home import close_to, runs_named
from okl.predictors import Predictor, predictor_from_stored
from okl.store.dataset import Schema
from okl.store.modelinputs import RawValues, inputs_of
from okl.store.places import Place, place_of
from okl.store.predictions import first_without_score, predictions
from okl.store.storedschema import schema_from_stored, shortened
from okl.types import FloatArray, Precision

FORMAT_VERSION = 2  # a model of columns of numbers alone is written as format 1
DESCRIPTION = "model.json"
WEIGHTS = "weights.safetensors"
WHAT_TO_GIVE = (
    "Give the folder of a trained model, the name of a run (okl runs lists them), or NAME@champion of a "
    "registered model (okl models list)."
)
PARTS = {"predictor": dict, "schema": dict, "configuration": dict, "provenance": dict, "weights_sha256": str}


@dataclass(frozen=True, eq=False)
class Model:
    """A predictor with all that raw rows need to become scores.

    schema : columns in order, scaling, missing-value policy, label names, target inverse
    predictor : what was learnt; configuration : the settings it was learnt with
    provenance : digests of the data, code version, seed, kind of processor
    """

    schema: Schema
    predictor: Predictor
    configuration: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def precision(self) -> Precision:
        """Of its weights, and so of its scores."""
        return self.predictor.precision

    def prepare(self, values: RawValues) -> FloatArray:
        """Inputs (rows, n_features) from a table with the model's columns, or from an array of inputs; scaling applied.

        Parameters
        ----------
        values : table with the columns of schema.source_columns, in any order, text and dates as they are: pandas,
            Arrow, or whatever hands out an Arrow stream; or an array (rows, n_features) in the order of schema.features

        Raises
        ------
        DataError : a column of a table that is missing or of another kind, or a value that cannot be taken
        ModelError : an array of another shape or type, or with a value that is not finite; a row that misses a value
        """
        return inputs_of(self.schema, values, self.precision)

    def scores(self, values: RawValues, n_threads: int = 1) -> FloatArray:
        """Scores before the link, (rows,) or (rows, n_classes), of raw rows; see `prepare`."""
        return self.predictor.scores(self.prepare(values), n_threads)

    def predict(self, values: RawValues, n_threads: int = 1) -> np.ndarray[Any, Any]:
        """Labels (rows,), or targets in their own unit for regression, of raw rows; see `prepare`.

        Raises
        ------
        DivergedError : a score is NaN or infinite, and so says nothing; what `prepare` raises
        """
        scores = self.scores(values, n_threads)
        predicted = predictions(self.schema, scores)
        if (unfit := first_without_score(self.schema, scores, predicted)) is not None:
            raise DivergedError(
                f"The model's score of row {unfit} (counted from 0) is NaN or infinite: the model has diverged, or the "
                "row's values are far beyond those it learnt from. Train it with a smaller step size, or mend the row."
            )
        return predicted


def save_model(model: Model, folder: Path) -> str:
    """Write a model beside its place and rename it into it; returns the sha256 of its weights.

    Raises
    ------
    ModelError : the folder exists already
    """
    if folder.exists():
        raise ModelError(f"{folder} exists already; a model is never overwritten. Choose another folder.")
    arrays = {name: np.ascontiguousarray(array) for name, array in model.predictor.arrays().items()}
    weights = save_tensors(arrays)
    digest = hashlib.sha256(weights).hexdigest()
    description = {
        "format_version": model.schema.format_version,
        "predictor": model.predictor.describe(),
        "schema": model.schema.as_json(),
        "configuration": model.configuration,
        "provenance": model.provenance,
        "weights_sha256": digest,
    }
    beside = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        beside.mkdir(parents=True)
        (beside / WEIGHTS).write_bytes(weights)
        (beside / DESCRIPTION).write_bytes(_render(description))
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return digest


def load_model(folder: str | Place) -> Model:
    """Open a model directory; every byte is checked against its digests, and no stored code is run.

    Raises
    ------
    ModelError : missing, damaged, incomplete, or written by a later okl
    """
    folder = place_of(folder)
    description = _read_description(folder)
    try:
        weights = (folder / WEIGHTS).read_bytes()
    except DataError as error:
        raise ModelError(f"{error} The model is incomplete.") from None
    except OSError as error:
        raise ModelError(f"{folder / WEIGHTS} cannot be read ({error.strerror}). The model is incomplete.") from None
    if hashlib.sha256(weights).hexdigest() != description["weights_sha256"]:
        raise ModelError(
            f"{folder / WEIGHTS}: its bytes do not have the sha256 that {DESCRIPTION} states. It is damaged."
        )
    try:
        arrays = load_tensors(weights)
        schema = schema_from_stored(description["schema"], str(folder))
        predictor = predictor_from_stored(description["predictor"], arrays, str(folder))
    except (ArithmeticError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(f"{folder}: not a complete okl model ({error}). Train it again.") from None
    if (predictor.n_inputs, predictor.n_outputs) != (schema.n_features, schema.n_outputs):
        raise ModelError(
            f"{folder}: its predictor makes {predictor.n_outputs} scores of {predictor.n_inputs} inputs, but its "
            f"schema has {schema.n_features} inputs and takes {schema.n_outputs}. The model is damaged; train it again."
        )
    return Model(schema, predictor, description["configuration"], description["provenance"])


def weights_digest(folder: Place) -> str:
    """The sha256 of the weights of a stored model."""
    digest: str = _read_description(folder)["weights_sha256"]
    return digest


def _advice(folder: Place) -> str:
    """What to give in place of a folder where no model is: perhaps its name is that of a run."""
    if not folder.exists():
        runs = runs_named(folder.name)
        if not runs:
            return f"{close_to(folder.name)} {WHAT_TO_GIVE}".strip()
        told = f" The newest run named {folder.name} is {runs[0]}; its model is in model/ there."
    elif isinstance(folder, Path) and folder.is_file():
        told = " This is a file: the model comes first, then the rows."
    else:
        told = f" That of this run is {folder / 'model'}." if (folder / "model" / DESCRIPTION).is_file() else ""
    return f"Give the folder of a trained model.{told}"


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
        raise ModelError(f"{path}: it states no format_version, so it is not an okl model.")
    if description["format_version"] > FORMAT_VERSION:
        raise ModelError(
            f"{path}: format {description['format_version']} comes from a later okl; this one reads up to "
            f"{FORMAT_VERSION}. Upgrade okl."
        )
    stated = description.pop("description_sha256", None)
    if stated is None or not _renders_to(description, stored):
        raise ModelError(f"{path}: its bytes do not have the sha256 that it states. It is damaged or was edited.")
    for name, kind in PARTS.items():
        if not isinstance(description.get(name), kind):
            raise ModelError(
                f"{path}: {name} = {shortened(description.get(name))}, but an okl model has "
                f"{'a text' if kind is str else 'keys and values'} there. Train it again."
            )
    return description


def _renders_to(description: dict[str, Any], stored: bytes) -> bool:
    """Whether a description is stored in these bytes; one that holds infinities or half a character never is."""
    try:
        return _render(description) == stored
    except (ValueError, RecursionError):
        return False


def _render(description: dict[str, Any]) -> bytes:
    """JSON with its own digest: any changed byte, white space included, no longer renders to itself."""
    body = json.dumps(description, indent=1, ensure_ascii=False, allow_nan=False)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return json.dumps(
        {**json.loads(body), "description_sha256": digest}, indent=1, ensure_ascii=False, allow_nan=False
    ).encode()
