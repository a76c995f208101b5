"""How an execution comes by a scheduler: workers started on this machine, a managed cluster, or an address to join."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any, NamedTuple

from okl.checks import check_at_least
from okl.errors import ConfigError
from okl.execution.clusterfile import read_cluster_file
from okl.execution.dask.cluster import start_cluster
from okl.execution.dask.managed import start_managed
from okl.execution.dask.security import check_encrypted, security_from


class Joined(NamedTuple):
    """A scheduler to work by.

    security : what connections to it show and trust; wanted : workers to wait for
    folder : of the workers that were started here; None where they are somebody else's
    """

    address: str
    security: Any
    wanted: int
    folder: str | None


def join(stack: ExitStack, n_workers: int | None, address: str | None, cluster: str | None, tls: str | None) -> Joined:
    """Start workers here or by a cluster file, or check that a scheduler may be joined; the stack ends what is started.

    Raises
    ------
    ConfigError : not exactly one of n_workers, address and cluster; a cluster file or certificates that cannot be used
    ExecutionError : workers do not start
    """
    if [n_workers, address, cluster].count(None) != 2:
        raise ConfigError("Dask takes a number of workers to start, the address of a scheduler, or a cluster file.")
    security = security_from(tls)
    if n_workers is not None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="okl-dask-", ignore_cleanup_errors=True))
        check_at_least("workers", n_workers, 1)
        started = start_cluster(n_workers, folder, security if tls else None)
        stack.callback(started.close)
        return Joined(str(started.scheduler_address), security, n_workers, folder)
    if cluster is not None:
        file = read_cluster_file(cluster)
        started = start_managed(file, security if tls else None)
        stack.callback(started.close)
        return Joined(str(started.scheduler_address), started.security or security, file.workers, None)
    check_encrypted(str(address), security, tls)
    return Joined(str(address), security, 1, None)
