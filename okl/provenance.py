"""Where a model comes from: digests of its data, versions of the code, the kind of processor."""

from __future__ import annotations

import os
import platform
import resource
import sys
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from okl.store.dataset import Dataset

RECORDED = ("okl", "numpy", "numba", "scipy", "pyarrow")


def provenance(data: Dataset, seed: int) -> dict[str, Any]:
    """What is kept with a model, as JSON; the same bits are promised for one kind of processor only."""
    return {
        "data_sha256": data.sha256,
        "source_sha256": data.source_sha256,
        "train_rows": data.rows("train"),
        "seed": seed,
        "versions": {name: version_of(name) for name in RECORDED} | {"python": platform.python_version()},
        "processor": processor(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def processor() -> str:
    """The processor's model, by which BLAS and numba pick their code."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def peak_memory_bytes() -> int:
    """Largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_bytes() -> int:
    """Of the machine, or of the control group that this process is in, if that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def version_of(name: str) -> str:
    """Of an installed package, or "unknown"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


__version__ = version_of("okl")
