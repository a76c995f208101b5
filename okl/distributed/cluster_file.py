"""Cluster files, and checks of the execution options."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from okl.distributed import check_exclusive
from okl.foundation.errors import ConfigError, ExecutionError
from okl.foundation.settings import ExecutionSettings, read_toml

# Cluster files.
#
# class = "dask_jobqueue.SLURMCluster"     # or of dask_kubernetes.operator, dask_cloudprovider.aws, distributed, ...
# workers = 8
#
# [options]                                # keyword arguments of the class, as its documentation has them
# cores = 1
# memory = "4 GB"

CONNECT_SECONDS = 3.0
TELLING = re.compile(r"pass|secret|token|key|credential|auth|\benv", re.IGNORECASE)

# classes of other packages are not called: a file that names any class at all could name any function
EXTRAS = {
    "dask_jobqueue": "jobqueue",
    "dask_kubernetes": "kubernetes",
    "dask_cloudprovider": "cloudprovider",
    "distributed": None,
}


@dataclass(frozen=True)
class ClusterFile:
    """Content of a cluster file: the class by its module and name, the number of workers, keyword arguments.

    Options may be secrets: they are not shown, and go nowhere but to the class.
    """

    path: str
    module: str
    name: str
    workers: int
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    def withheld(self, text: str) -> str:
        """Return a text without options that are secrets by name, such as password, token or an environment."""
        for secret in sorted(_secrets(self.options, False), key=len, reverse=True):
            text = text.replace(secret, "...")
        return text


def _secrets(value: Any, secret: bool) -> list[str]:
    """Return the secret texts in a value: all of them, or those under a key that names a secret."""
    if isinstance(value, dict):
        return [text for name, part in value.items() for text in _secrets(part, secret or bool(TELLING.search(name)))]
    if isinstance(value, list):
        return [text for part in value for text in _secrets(part, secret)]
    return [str(value)] if secret and str(value) else []


def read_cluster_file(path: str | Path) -> ClusterFile:
    """Read and check a cluster file without importing or starting anything, or raise ConfigError."""
    values = read_toml(path, "--cluster")
    stray = sorted(set(values) - {"class", "workers", "options"})
    if stray:
        raise ConfigError(f"--cluster {path} has {stray[0]!r}; expected class, workers and [options] only.")
    module, _, name = str(values.get("class", "")).rpartition(".")
    if module.partition(".")[0] not in EXTRAS:
        raise ConfigError(
            f"--cluster {path}: class = {values.get('class')!r}; expected a class of {', '.join(EXTRAS)}, such as "
            '"dask_jobqueue.SLURMCluster".'
        )
    workers, options = values.get("workers"), values.get("options", {})
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ConfigError(f"--cluster {path}: workers = {workers!r}; expected an integer of at least 1.")
    if not isinstance(options, dict):
        kind = type(options).__name__  # not its text, which may hold a secret
        raise ConfigError(f"--cluster {path}: options is a {kind}; expected a table: [options], then cores = 1 ...")
    return ClusterFile(str(path), module, name, workers, options)


# Checks of the execution options


def check_execution_options(where: ExecutionSettings) -> None:
    """Check the execution options without starting anything; raise ConfigError, or ExecutionError for no scheduler."""
    check_exclusive(where.workers, where.scheduler, where.cluster)
    if where.cluster:
        read_cluster_file(where.cluster)
    if where.scheduler is not None:
        _check_address(where.scheduler)


def _check_address(scheduler: str) -> None:
    address = urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}")
    try:
        host, port = address.hostname, address.port
        if host is None or port is None:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"scheduler = {scheduler!r} is not an address. Expected an address such as tcp://HOST:8786."
        ) from None
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ExecutionError(
            f"No Dask scheduler answers at {scheduler} ({error}). Start one with `dask scheduler`, or use --workers."
        ) from None
