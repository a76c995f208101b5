"""Where a comparison is kept, and what its result says of the data set."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from okl.comparison.settings import CompareSettings
from okl.home import okl_home
from okl.store.dataset import Dataset
from okl.store.places import Place, place_of


def folder_of(settings: CompareSettings) -> Place:
    """Where the run is kept: `out`, or a new folder in okl's home folder."""
    if settings.out is not None:
        return place_of(settings.out).absolute()
    name = settings.name or Path(settings.data).name
    return okl_home() / "runs" / f"compare-{name}-{datetime.now():%Y%m%d-%H%M%S-%f}-{os.getpid()}"


def described(data: Dataset) -> dict[str, Any]:
    """The data set as JSON."""
    schema = data.schema
    return {
        "folder": str(data.folder),
        "sha256": data.sha256,
        "task": schema.task,
        "target": schema.target,
        "labels": list(schema.labels),
        "class_counts": list(schema.class_counts),
        "features": schema.n_features,
        "train_rows": data.rows("train"),
        "test_rows": data.rows("test"),
        "scale": schema.scale,
        "warnings": list(data.warnings),
    }
