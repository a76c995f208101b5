"""Work on Dask workers: a cluster of this machine, or a running scheduler. The only package that imports Dask."""

from okl.execution.dask.execution import DaskExecution

__all__ = ["DaskExecution"]
