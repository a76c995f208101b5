"""Clusters that somebody else's machines run, started by the class that a file names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from okl.errors import ConfigError, ExecutionError
from okl.execution.clusterfile import EXTRAS, ClusterFile
from okl.execution.dask.cluster import why


def start_managed(file: ClusterFile, security: Any = None) -> Any:
    """Start the cluster of a file and ask for its workers; close it to end them.

    Parameters
    ----------
    security : certificates as `security_from` reads them, handed to the class; None hands none

    Raises
    ------
    ConfigError : the package is not installed, or has no such class
    ExecutionError : the class refuses its options, or does not start
    """
    kind = _class_of(file)
    options = file.options if security is None else {"security": security, **file.options}
    cluster = None
    try:
        cluster = kind(**options)
        cluster.scale(file.workers)
    except Exception as error:  # whatever the libraries of clusters raise: it is told as one sentence, with its cause
        if cluster is not None:
            cluster.close()
        raise ExecutionError(
            f"{file.module}.{file.name} of {file.path} did not start ({file.withheld(why(error))}). "
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
