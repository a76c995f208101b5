"""Where a comparison is kept."""

from __future__ import annotations

import os
from datetime import datetime

from okl.comparison.settings import CompareSettings
from okl.home import name_after, okl_home
from okl.store.places import Place, place_of


def folder_of(settings: CompareSettings) -> Place:
    """Where the run is kept: `out`, or a new folder in okl's home folder."""
    if settings.out is not None:
        return place_of(settings.out).absolute()
    name = settings.name or name_after(settings.data)
    return okl_home() / "runs" / f"compare-{name}-{datetime.now():%Y%m%d-%H%M%S-%f}-{os.getpid()}"
