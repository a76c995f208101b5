"""A model that `okl train` made, as a version: how a registered model begins without retraining."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from okl.checkpoints.origin import WHERE_IT_RUNS
from okl.registry.changes import changes_since, version_before
from okl.registry.entry import CHAMPION
from okl.registry.lineage import Lineage, is_of_retraining
from okl.registry.model import RegisteredModel
from okl.registry.payload import MODEL
from okl.registry.version import Published
from okl.store.model import DESCRIPTION, WEIGHTS, Model, load_model, weights_digest
from okl.store.places import Place, RemotePath
from okl.store.report import write_report

BESIDE = ("result.json", "report.html")


def publish_trained(model: RegisteredModel, trained: Place, *, promote: bool = False, why: str = "") -> Published:
    """Publish the folder of a run, or of a model; the same one twice is one version.

    The report of a training run that comes along says what changed since the champion, or the newest version.

    Parameters
    ----------
    trained : folder of a run of okl train or okl compare (result and report come along) or of a model alone

    Raises
    ------
    ModelError : no model that loads is there; see also `RegisteredModel.publish`
    """
    is_run = not _has(trained / DESCRIPTION) and _has(trained / MODEL / DESCRIPTION)
    folder = trained / MODEL if is_run else trained
    found = load_model(folder)
    result = json.loads((trained / BESIDE[0]).read_text()) if is_run and _has(trained / BESIDE[0]) else {}

    lineage = _lineage(found, weights_digest(folder), result)
    champion = {CHAMPION: model.state().champion}
    # a comparison, or the version of another registry, has a report of its own
    trains = bool(result) and "winner" not in result and not is_of_retraining(result)
    before = version_before(model) if trains else None

    def write(into: Path) -> None:
        (into / MODEL).mkdir()
        for name in (DESCRIPTION, WEIGHTS):
            (into / MODEL / name).write_bytes((folder / name).read_bytes())
        for name in BESIDE:
            if is_run and _has(trained / name):
                (into / name).write_bytes((trained / name).read_bytes())
        if before is not None:
            what = "the champion as this version was published" if before.number == champion[CHAMPION] else ""
            write_report(result | {"previous": changes_since(before, lineage, what)}, into / BESIDE[1])

    return model.publish(write, lineage, promote=promote, expected=champion if promote else None, why=why)


def _lineage(model: Model, weights_sha256: str, result: dict[str, Any]) -> Lineage:
    known = model.provenance
    settings = {name: value for name, value in model.configuration.items() if name not in WHERE_IT_RUNS}
    shard = {
        "sha256": known.get("data_sha256", ""),
        "name": str(model.configuration.get("data", "")),
        "rows": known.get("train_rows", 0),
    }
    environment: dict[str, Any] = {name: known[name] for name in ("versions", "processor", "created") if name in known}
    splits = {part: result.get(part) for part in ("test", "progressive")}
    measured = (result.get("metrics") or {}) if is_of_retraining(result) else splits
    metrics = {part: _scalars(figures) for part, figures in measured.items() if figures}
    return Lineage(None, (shard,), settings | {"weights_sha256": weights_sha256}, environment, metrics)


def _scalars(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _has(place: Place) -> bool:
    return place.is_file() if isinstance(place, RemotePath) else place.exists()
