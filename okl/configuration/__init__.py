"""Frozen, validated configuration: one object behind the command line, a TOML file, a flow's parameters and Python."""

from okl.configuration.ingest import IngestSettings
from okl.configuration.names import KernelName, LossName, MapName, SolverName
from okl.configuration.numbers import Count, Positive
from okl.configuration.reading import settings_from
from okl.configuration.train import TrainSettings
from okl.configuration.where import WhereSettings

__all__ = [
    "Count",
    "IngestSettings",
    "KernelName",
    "LossName",
    "MapName",
    "Positive",
    "SolverName",
    "TrainSettings",
    "WhereSettings",
    "settings_from",
]
