"""The same versions on every worker as here: others may give other bits, or none."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from okl import extensions
from okl.errors import ExecutionError

# what decides bits, or whether two processes understand each other
PACKAGES = ("okl", "dask", "distributed", "numba", "numpy", "pyarrow", "scipy")


def versions(more: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions here: of Python and of the packages that decide bits; "none" for one that is not installed.

    more : packages beside okl's own, those of extensions that are used
    """
    found = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
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
    for address, found in sorted(theirs.items()):
        if complaint := complaint_about(address, found):
            raise ExecutionError(complaint)


def complaint_about(address: str, found: Mapping[str, str]) -> str:
    """What to say of a worker with these versions; nothing if they are those here."""
    ours = versions(extensions.packages())
    other = {name: found.get(name, "none") for name in ours if found.get(name, "none") != ours[name]}
    if not other:
        return ""
    told = ", ".join(f"{name} {version} (here {ours[name]})" for name, version in other.items())
    return f"Worker {address} has other versions than this process: {told}. {_todo(other, ours)}"


async def complaint_of(client: Any, address: str) -> str:
    """Ask a worker for its versions, in the client's event loop; what to say of them, nothing if they are those here.

    Raises OSError or whatever else is raised there if it does not answer.
    """
    try:
        # `run` would wait for this very loop
        found = await client._run(versions, extensions.packages(), workers=[address])
    except ImportError as error:
        return f"Worker {address} cannot import okl ({error}); install the same okl there."
    return complaint_about(address, found[address])


def _todo(other: Mapping[str, Any], ours: Mapping[str, str]) -> str:
    if "python" in other:
        return f"Start it with Python {ours['python']}, and the same packages."
    wanted = " ".join(f"{name}=={ours[name]}" for name in other)
    return f"There: python -m pip install {wanted}"
