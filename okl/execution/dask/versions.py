"""The same versions on every worker as here: others may give other bits, or none."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from okl.errors import ExecutionError

# what decides bits, or whether two processes understand each other
PACKAGES = ("okl", "dask", "distributed", "numba", "numpy", "pyarrow", "scipy")


def versions() -> dict[str, str]:
    """Versions here: of Python and of the packages that decide bits; "none" for one that is not installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "none"
    return found


def check_versions(theirs: Mapping[str, Mapping[str, str]]) -> None:
    """Compare the versions of workers, by address, with those here.

    Raises
    ------
    ExecutionError : names the first worker that differs, what it has, and the pip command that mends it
    """
    ours = versions()
    for address, found in sorted(theirs.items()):
        other = {name: found.get(name, "none") for name in ours if found.get(name, "none") != ours[name]}
        if not other:
            continue
        told = ", ".join(f"{name} {version} (here {ours[name]})" for name, version in other.items())
        raise ExecutionError(f"Worker {address} has other versions than this process: {told}. {_todo(other, ours)}")


def _todo(other: Mapping[str, Any], ours: Mapping[str, str]) -> str:
    if "python" in other:
        return f"Start it with Python {ours['python']}, and the same packages."
    wanted = " ".join(f"{name}=={ours[name]}" for name in other)
    return f"There: python -m pip install {wanted}"
