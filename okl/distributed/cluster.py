"""Dask clusters: start, connection, certificates, versions and memory limits."""

from __future__ import annotations

import logging
import multiprocessing
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, Security, WorkerPlugin
from distributed.core import connect
from distributed.gc import disable_gc_diagnosis
from distributed.system import MEMORY_LIMIT
from distributed.utils import silence_logging_cmgr

from okl.distributed import processes
from okl.distributed.cache import process_cache
from okl.distributed.cluster_file import EXTRAS, ClusterFile, read_cluster_file
from okl.distributed.tls import FILES, ROLES, self_signed
from okl.foundation import plugins
from okl.foundation.errors import ConfigError, ExecutionError, first_line
from okl.foundation.telemetry import at_level
from okl.foundation.validation import check_at_least

# TLS certificates: both sides authenticate.

_FOLDER = "with ca.pem, cert.pem and key.pem, as infra/tls/make.py writes one for each role"


def security_from(folder: str | Path | None) -> Any:
    """Return Dask's settings for mutual TLS from a folder with ca.pem, cert.pem and key.pem; None: Dask's own.

    Raises ConfigError : a file is missing or unreadable, or is no certificate or key, or the key of another one
    """
    if folder is None:
        return Security()
    paths = [str(Path(folder) / name) for name in FILES]
    for path in paths:
        try:
            open(path, "rb").close()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror}); --tls takes a folder {_FOLDER}.") from None
    security = _mutual(*paths)
    try:
        security.get_connection_args("client")  # reads the files, and matches the key with its certificate
    except OSError as error:
        raise ConfigError(
            f"The certificates in {folder} cannot be used ({getattr(error, 'reason', None) or error}); --tls takes a "
            f"folder {_FOLDER}."
        ) from None
    return security


def _mutual(authority: str, certificate: str, key: str) -> Any:
    """Return Dask's settings for mutual TLS, the same for each role; files or PEM."""
    shown = {f"tls_{role}_cert": certificate for role in ROLES} | {f"tls_{role}_key": key for role in ROLES}
    return Security(tls_ca_file=authority, **shown, require_encryption=True)


def check_encrypted(address: str, security: Any, folder: str | Path | None) -> None:
    """Raise ConfigError for certificates (`security_from`) without an encrypted address, or the reverse."""
    if not address.startswith("tls://"):
        if folder is not None:
            raise ConfigError(
                f"scheduler = {address!r} is an address without encryption, but tls = {str(folder)!r} is given: "
                "a scheduler with certificates has an address like tls://HOST:8786."
            )
    elif security.get_connection_args("client")["ssl_context"] is None:
        raise ConfigError(f"The scheduler at {address} requires a certificate: give --tls FOLDER, {_FOLDER}.")


# Version checks: other versions may give other bits.

# packages that decide bits, or the format of messages
PACKAGES = ("okl", "dask", "distributed", "numba", "numpy", "pyarrow", "scipy")


def versions(more: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the versions of Python, of packages that decide bits, and of more (extensions); "none" if missing."""
    installed = {"python": platform.python_version()}
    for package in (*PACKAGES, *more):
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            installed[package] = "none"
    return installed


def check_versions(remote: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ExecutionError for a worker whose versions differ from those here, with the pip command to run."""
    for address, installed in sorted(remote.items()):
        if message := mismatch_message(address, installed):
            raise ExecutionError(message)


def mismatch_message(address: str, installed: Mapping[str, str]) -> str:
    """Return the message about a worker with other versions; empty if they equal those here."""
    local = versions(plugins.packages())
    other = {name: installed.get(name, "none") for name in local if installed.get(name, "none") != local[name]}
    if not other:
        return ""
    listed = ", ".join(f"{name} {version} (here {local[name]})" for name, version in other.items())
    advice = f"On that host: python -m pip install {' '.join(f'{name}=={local[name]}' for name in other)}"
    if "python" in other:
        advice = f"Start it with Python {local['python']}, and the same packages."
    return f"Worker {address} has other versions than this process: {listed}. {advice}"


async def version_mismatch(client: Any, address: str) -> str:
    """Return the message if a worker's versions, requested in the client's loop, differ; or raise its error."""
    try:
        # not `run`, which would wait for this event loop
        installed = await client._run(versions, plugins.packages(), workers=[address])
    except ImportError as error:
        return f"Worker {address} cannot import okl ({error}); install the same okl there."
    return mismatch_message(address, installed[address])


# Memory limits of workers.

ROW_LIMIT = "okl-held-rows"


class WorkerRowLimit(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """Plugin that bounds the rows that a worker holds between rounds. limit_bytes : see okl.distributed.cache"""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes

    def setup(self, worker: Any) -> None:
        cache = process_cache()
        worker.okl_held_before = cache.limit_bytes
        cache.limit(min(self.limit_bytes, cache.limit_bytes))

    def teardown(self, worker: Any) -> None:
        process_cache().limit(worker.okl_held_before)


# Local clusters and connections.

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 5.0


@contextmanager
def silence_dask() -> Iterator[None]:
    """Silence Dask's loggers by their level, as Prefect attaches handlers of its own: okl raises each failure once."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]  # those with a level
    with at_level(logging.CRITICAL, *loggers), silence_logging_cmgr(logging.CRITICAL):
        yield


def start_cluster(n_workers: int, folder: str, security: Any) -> Any:
    """Start worker processes of one thread each, with a scheduler in this process, on the loopback interface only.

    security : certificates of all connections: without, any user of the machine could run code as this one
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # a worker process that imports a script without a main guard would start workers of its own; the parent
        # reports that it ended
        sys.exit(1)
    preloads = {
        f"distributed.{role}.preload": [*dask.config.get(f"distributed.{role}.preload"), processes.PRIVATE]
        for role in ("scheduler", "worker")
    }
    try:
        with processes.restored_environment(), processes.deferred_interrupts(), dask.config.set(preloads):
            cluster = LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=True, host=LOOPBACK, dashboard_address=None,
                # without a dashboard the scheduler still opens a port for its health check, by default 8787
                scheduler_kwargs={"dashboard_address": f"{LOOPBACK}:0"},
                memory_limit=MEMORY_LIMIT // n_workers, env=processes.ONE_THREAD, local_directory=folder,
                silence_logs=logging.CRITICAL, security=security, protocol="tls://",
            )  # fmt: skip
            # Dask runs Python at every garbage collection, where a KeyboardInterrupt is printed and lost
            disable_gc_diagnosis(force=True)
            return cluster
    except (RuntimeError, OSError, TimeoutError) as error:
        raise ExecutionError(
            f"{n_workers} worker processes could not be started ({first_line(error)}). Each of them imports the "
            'running script: put its main code under `if __name__ == "__main__":`.'
        ) from error


def open_client(address: str, security: Any, tls: str | None = None, patience_seconds: float = 0.0) -> Any:
    """Return a client of the scheduler at an address; ExecutionError if none answers in 5 seconds."""
    try:
        _check_answer(address, security)
        client = Client(
            address, timeout=patience_seconds + 4 * CONNECT_SECONDS, set_as_default=False, name="okl", security=security
        )
    except (OSError, TimeoutError, ValueError) as error:
        advice = "Check the address, and that the scheduler runs."
        if address.startswith("tls://"):
            advice = f"Check that the certificate in {tls} is of the scheduler's own authority and has not expired."
        raise ExecutionError(
            f"No Dask scheduler answers at {address} within {CONNECT_SECONDS:g} s ({first_line(error)}). {advice}"
        ) from None
    # send tasks at once: by default Dask collects them for 10 ms, longer than a short round takes
    client.scheduler_comm.interval = 0.0
    return client


def _check_answer(address: str, security: Any) -> None:
    """Connect to a scheduler and disconnect: a Client that fails to connect does not end its thread."""

    async def handshake() -> None:
        comm = await connect(address, timeout=CONNECT_SECONDS, **security.get_connection_args("client"))
        await comm.close()

    processes.run_in_own_loop(handshake, 2 * CONNECT_SECONDS)


# Managed clusters, started by a class that a file names.


def start_managed(file: ClusterFile, security: Any = None) -> Any:
    """Start the cluster of a file, with certificates or None, and request its workers; closing it stops them.

    Raises ConfigError : the class is not there; ExecutionError : it rejects its options, or does not start
    """
    kind = _class_of(file)
    options = file.options if security is None else {"security": security, **file.options}
    try:
        with ExitStack() as stack:
            cluster = kind(**options)
            stack.callback(cluster.close)
            cluster.scale(file.workers)
            stack.pop_all()
    except Exception as error:  # of any library of clusters
        raise ExecutionError(
            f"{file.module}.{file.name} of {file.path} did not start ({file.withheld(first_line(error))}). "
            "Check its [options] against the documentation of that class."
        ) from None  # the library's own message may show options
    return cluster


def _class_of(file: ClusterFile) -> Any:
    package = file.module.partition(".")[0]
    try:
        module = import_module(file.module)
    except ImportError as error:
        extra = EXTRAS[package]
        missing = extra is not None and (error.name or "").partition(".")[0] == package
        todo = f"python -m pip install 'okl[{extra}]'" if missing else f"check the name in {file.path}"
        raise ConfigError(f"{file.module} of --cluster {file.path} cannot be imported ({error}): {todo}.") from None
    kind = getattr(module, file.name, None)
    if not isinstance(kind, type):
        raise ConfigError(f"--cluster {file.path}: {file.module} has no class {file.name!r}; check its spelling.")
    return kind


# Connection of an executor to a scheduler.


def connect_to_cluster(
    stack: ExitStack, n_workers: int | None, address: str | None, cluster: str | None, tls: str | None
) -> tuple[str, Any, int]:
    """Start workers here or by a cluster file, or check the address of a scheduler; the stack stops what is started.

    Returns address of a scheduler, certificates of connections to it, and the number of workers to wait for.
    Raises ConfigError : not exactly one of n_workers, address and cluster; a cluster file or certificates that cannot
        be used
    Raises ExecutionError : workers do not start
    """
    if [n_workers, address, cluster].count(None) != 2:
        raise ConfigError("Dask takes a number of workers to start, the address of a scheduler, or a cluster file.")
    security = security_from(tls)
    if n_workers is not None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="okl-dask-", ignore_cleanup_errors=True))
        check_at_least("workers", n_workers, 1)
        if tls is None:
            certificate, key = self_signed()
            security = _mutual(certificate, certificate, key)
        started = start_cluster(n_workers, folder, security)
        stack.callback(started.close)
        return str(started.scheduler_address), security, n_workers
    if cluster is not None:
        file = read_cluster_file(cluster)
        started = start_managed(file, security if tls else None)
        stack.callback(started.close)
        return str(started.scheduler_address), started.security or security, file.workers
    check_encrypted(str(address), security, tls)
    return str(address), security, 1
