"""Changes since the previous version of a model, and trained models published as versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okl.foundation.locations import Place
from okl.models.file import DESCRIPTION, WEIGHTS, Model, load_model, weights_digest
from okl.models.registry import (
    CHAMPION,
    MODEL,
    Lineage,
    Published,
    RegisteredModel,
    Version,
    differences,
    is_of_retraining,
)
from okl.report.format import flatten
from okl.report.training import write_report
from okl.runs.checkpoint import WHERE_IT_RUNS

# Changes against the previous version.

BY_PLACE = ("data", "name", "out", "weights_sha256", "judging")  # locations and settings of the comparison


def version_before(model: RegisteredModel) -> Version | None:
    """Return the champion, or the newest version where there is none; None of a model that has no version."""
    head = model.head()
    if not head.state.latest:
        return None
    return model.resolved(head.state.latest if head.state.champion is None else CHAMPION, head)


def changes_since(before: Version, now: Lineage, what: str) -> dict[str, Any]:
    """Return both values by name, that of the version before in front, of all that is not the same.

    what : the version before is, for people
    Returns name, what, same_rows; metrics, data, settings: name to a pair; as `okl.report.training.changes_section`
        shows it.
    """
    # a version that continues, or reads a window again, lists only the shards that its parent had not
    counted = "{} learnt" if before.lineage.parent is None and now.parent is None else "new {}"
    pairs = {
        "metrics": (_figures(before.lineage.metrics), _figures(now.metrics)),
        "data": (_data(before.lineage, counted), _data(now, counted)),
        "settings": _settings(before.lineage.settings, now.settings),
    }
    return {"name": str(before), "what": what, "same_rows": False} | {
        part: differences(first, other) for part, (first, other) in pairs.items()
    }


def _figures(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the figures of a run's test rows, or of a retraining's reserved rows."""
    parts = (metrics.get(part) for part in ("test", "challenger", "progressive"))
    return next((dict(part) for part in parts if part), {})


def _data(lineage: Lineage, counted: str) -> dict[str, Any]:
    """Return facts of data; counted : name of a number of shards or rows."""
    shards = lineage.shards
    times = [shard["last_time"] for shard in shards if shard.get("last_time") is not None]
    return {
        counted.format("shards"): len(shards),
        counted.format("rows"): sum(int(shard.get("rows", 0)) for shard in shards),
        "last shard": shards[-1].get("name") if shards else None,
    } | ({"latest time": times[-1]} if times else {})


def _settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return texts of settings by name; of a run and a retraining only the settings that both have."""
    first, second = (dict(flatten(_of_learning(settings))) for settings in (before, now))
    alike = ("train" in before) == ("train" in now)
    names = first.keys() | second.keys() if alike else first.keys() & second.keys()
    selected = [{name: text for name, text in texts.items() if name in names} for texts in (first, second)]
    return selected[0], selected[1]


def _of_learning(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of training, which a retraining stores under the name train."""
    together = {**(settings.get("train") or {}), **{name: settings[name] for name in settings if name != "train"}}
    return {name: value for name, value in together.items() if name not in BY_PLACE}


# Import of a trained model as a version.

IMPORTED_FILES = ("result.json", "report.html")


def publish_trained(model: RegisteredModel, trained: Place, *, promote: bool = False, why: str = "") -> Published:
    """Publish the folder of a run or of a model; publishing it twice makes one version.

    The report of a run is completed with the changes since the champion or the newest version.

    trained : folder of a run of okl train or okl compare (result and report come along) or of a model alone
    Raises ModelError : no model that loads is there; see also `RegisteredModel.publish`
    """
    is_run = not (trained / DESCRIPTION).is_file() and (trained / MODEL / DESCRIPTION).is_file()
    folder = trained / MODEL if is_run else trained
    predictor = load_model(folder)
    stored = trained / IMPORTED_FILES[0]
    result = json.loads(stored.read_text()) if is_run and stored.is_file() else {}
    lineage = _lineage(predictor, weights_digest(folder), result)
    champion = {CHAMPION: model.state().champion}
    # a comparison, or the version of another registry, has a report of its own
    trains = bool(result) and "winner" not in result and not is_of_retraining(result)
    before = version_before(model) if trains else None

    def write(into: Path) -> None:
        (into / MODEL).mkdir()
        for name in (DESCRIPTION, WEIGHTS):
            (into / MODEL / name).write_bytes((folder / name).read_bytes())
        for name in IMPORTED_FILES:
            if is_run and (trained / name).is_file():
                (into / name).write_bytes((trained / name).read_bytes())
        if before is not None:
            what = "the champion when this version was published" if before.number == champion[CHAMPION] else ""
            write_report(result | {"previous": changes_since(before, lineage, what)}, into / IMPORTED_FILES[1])

    return model.publish(write, lineage, promote=promote, expected=champion if promote else None, why=why)


def _lineage(model: Model, weights_sha256: str, result: dict[str, Any]) -> Lineage:
    provenance = model.provenance
    settings = {name: value for name, value in model.configuration.items() if name not in WHERE_IT_RUNS}
    shard = {
        "sha256": provenance.get("data_sha256", ""),
        "name": str(model.configuration.get("data", "")),
        "rows": provenance.get("train_rows", 0),
    }
    environment: dict[str, Any] = {
        name: provenance[name] for name in ("versions", "processor", "created") if name in provenance
    }
    splits = {part: result.get(part) for part in ("test", "progressive")}
    measured = (result.get("metrics") or {}) if is_of_retraining(result) else splits
    metrics = {part: _scalars(figures) for part, figures in measured.items() if figures}
    return Lineage(None, (shard,), settings | {"weights_sha256": weights_sha256}, environment, metrics)


def _scalars(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}
