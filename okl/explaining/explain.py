"""`okl explain`: everything that is known of a saved model, and what its columns are worth on a sample of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from okl.errors import DataError
from okl.execution.local import default_threads
from okl.execution.protocol import Rows
from okl.explaining.importance import Importances, permutation_importance
from okl.explaining.sample import sample_source
from okl.progress import NullObserver, Observer
from okl.registry.describe import learnt_rows, rows_of
from okl.registry.lineage import is_of_retraining
from okl.registry.reference import REGISTRY, find_version, is_reference, meant
from okl.registry.registry import Registry
from okl.store.manifest import is_dataset, open_dataset
from okl.store.matching import learnt_among, read_as
from okl.store.model import Model, load_model
from okl.store.places import Place, place_of
from okl.store.reading import sample_rows

TOLD = ("test", "progressive", "train", "certificate", "dataset")  # of what a run wrote down


class ExplainSettings(BaseModel):
    """Which model, on which rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="folder of a model, its URL, or NAME@WHICH of a registry, as NAME@champion")
    registry: str | None = Field(None, description=REGISTRY)
    source: str | None = Field(None, description="labelled rows, raw or a data set; none: the data set of its run")
    rows: int = Field(5000, ge=2, description="sampled rows that values are dealt out among")
    repeats: int = Field(5, ge=1, description="permutations of each column")
    seed: int = Field(0, ge=0, description="of the sample and the permutations")


@dataclass(frozen=True, eq=False)
class Known:
    """A model, where it lies, and what is kept with it: a version's lineage, a run's result; {} where there is none."""

    model: Model
    named: str
    folder: Place
    lineage: Mapping[str, Any]
    result: Mapping[str, Any]


def explain(settings: ExplainSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Tell what a model is.

    Returns
    -------
    model, folder, what (its parts), schema (task, target, columns, labels), configuration, provenance; lineage of a
    registered version; figures and certificate that its run wrote down; judged, of a retrained version: rows, shards,
    challenger (figures of this model), champion (those of the one before), against (its name); importance, or why
    there is none

    Raises
    ------
    OklError : the model cannot be read, or the rows do not fit it
    """
    observer = observer or NullObserver()
    known = _known(settings)
    schema = known.model.schema
    told: dict[str, Any] = {
        "model": known.named,
        "folder": str(known.folder),
        "what": describe_predictor(known.model),
        "task": schema.task,
        "target": schema.target,
        "labels": list(schema.labels),
        "columns": list(schema.source_columns),
        "inputs": schema.n_features,
        "scale": schema.scale,
        "missing": schema.missing,
        "configuration": known.model.configuration,
        "provenance": known.model.provenance,
        "lineage": dict(known.lineage) or None,
        **_written(known.result),
    }
    found, where = _importances(settings, known, observer)
    return told | {"importance": found.as_json() | {"on": where} if found else None, "no_importance": where}


def describe_predictor(model: Model) -> dict[str, Any]:
    """Kind, kernel, map and size of what scores rows."""
    arrays = model.predictor.arrays()
    return model.predictor.describe() | {
        "precision": model.precision,
        "outputs": model.predictor.n_outputs,
        "numbers": sum(int(array.size) for array in arrays.values()),
        "shapes": {name: list(array.shape) for name, array in sorted(arrays.items())},
    }


def _known(settings: ExplainSettings) -> Known:
    named = meant(settings.model, settings.registry)
    if is_reference(named):
        version = find_version(named, settings.registry)
        line = Registry(settings.registry).model(version.name).ancestry(version)
        learnt = {"rows": rows_of(version), "learnt_rows": learnt_rows(version, sum(map(rows_of, line)))}
        lineage = {"version": version.number, **learnt, **version.lineage.as_json()}
        folder = version.model_folder
        return Known(version.load(), str(version), folder, lineage, _result_beside(folder))
    folder = place_of(named)
    return Known(load_model(named), named, folder, {}, _result_beside(folder.absolute()))


def _result_beside(folder: Place) -> dict[str, Any]:
    """What the run of a model wrote down; {} for a model that was taken elsewhere."""
    try:
        read = json.loads((folder.parent / "result.json").read_text(encoding="utf-8"))
    except (OSError, DataError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _written(result: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a result: of a run by its splits, of a retraining what it was judged by."""
    if not is_of_retraining(result):
        return {name: result.get(name) for name in TOLD} | {"judged": None}
    overall = (result.get("decision") or {}).get("overall") or {}
    against = f"{result.get('model')}@{result['parent']}" if result.get("parent") else None
    judged = {"rows": overall.get("rows"), "shards": result["judged_on"], "against": against}
    told = {"certificate": result.get("certificate"), "judged": judged | dict(result.get("metrics") or {})}
    return dict.fromkeys(TOLD) | told


def _importances(settings: ExplainSettings, known: Known, observer: Observer) -> tuple[Importances | None, str]:
    """Importances and the rows they are of, or None and why."""
    source = settings.source
    if source is None:
        kept = (known.result.get("dataset") or {}).get("folder")
        if not kept or not is_dataset(kept):
            return None, "Columns are weighed on labelled rows: name a source that has the target."
        source = str(kept)
    observer.stage("explain")
    rows, where = _rows(settings, known.model, source)
    n_threads = default_threads()
    found = permutation_importance(
        known.model, rows.inputs, rows.targets, settings.repeats, settings.seed, n_threads,
        lambda done, total: observer.advance(done, total, {}),
    )  # fmt: skip
    return found, where


def _rows(settings: ExplainSettings, model: Model, source: str) -> tuple[Rows, str]:
    """A sample: of the test rows of a data set, if it has such, or of a source."""
    if not is_dataset(source):
        learnt = learnt_among(model.provenance, source)
        flattered = f", a source that the model learnt {learnt:,} rows of" if learnt else ""
        return sample_source(model, source, settings.rows, settings.seed), f"rows of {source}{flattered}"
    data = read_as(open_dataset(source), model.schema)
    split = "test" if data.split("test") else "train"
    taken = sample_rows(data, split, settings.rows, settings.seed, model.precision)  # type: ignore[arg-type]
    return taken, f"{split} rows of {source}"
