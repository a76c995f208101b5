"""The environment of processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path


def child_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment for a child, in which okl and these tests can be imported from anywhere."""
    return os.environ | {"PYTHONPATH": str(Path(__file__).absolute().parents[2])} | changes
