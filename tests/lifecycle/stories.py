"""Retrainings of a small model in a temporary folder, shared by several test files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okl.foundation.errors import OklError
from okl.lifecycle.lineage_checks import check_arrivals
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.models.registry import Registry
from tests.lifecycle.shards import content, land


def settings(root: Path, **values: Any) -> RetrainSettings:
    train = {"frequencies": 50, "seed": 1, "step_size": 0.1, "order": "stored", "threads": 1} | values.pop("train", {})
    train = {name: value for name, value in train.items() if value is not None}
    given: dict[str, Any] = {
        "name": "m", "source": str(root / "in"), "registry": str(root / "registry"), "settle_seconds": 0,
        "train": train, "ingest": {"scale": "standard", "keys": ["hour"]}, "publish_if": "not worse",
    }  # fmt: skip
    return RetrainSettings.model_validate(given | values)


def shards(root: Path, *days: int, **options: Any) -> None:
    for day in days:
        land(root / "in", f"day-{day:02d}.parquet", content(day, **options))


def champion(root: Path) -> Any:
    return Registry(root / "registry").model("m").version()


def arrays(root: Path) -> dict[str, Any]:
    return champion(root).load().predictor.arrays()  # type: ignore[no-any-return]


def lineage(root: Path) -> list[str]:
    model = Registry(root / "registry").model("m")
    return [shard["name"] for one in model.ancestry(champion(root)) for shard in one.lineage.shards]


def refused_by_both(retrain_settings: RetrainSettings, message: str) -> None:
    """Assert that `okl deploy`, before the night, and a run refuse settings."""
    for refusing in (check_arrivals, retrain):
        with pytest.raises(OklError, match=message):
            refusing(retrain_settings)
