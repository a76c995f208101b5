"""okl: large-scale kernel learning on Parquet, in one pass or to a certified optimum.

Names are imported when they are first used (PEP 562): `import okl` costs nothing, and neither numba, pyarrow nor
scikit-learn is loaded by those who do not need it. Online convex optimisation with long-term constraints stands by
itself, in `okl.oco`.

Examples
--------
>>> import okl
>>> okl.TrainSettings(data="data/covtype").frequencies
400
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from okl.configuration import IngestSettings, TrainSettings
    from okl.errors import (
        CheckpointError,
        ConfigError,
        ConflictError,
        DataError,
        DivergedError,
        ExecutionError,
        ModelError,
        OklError,
        RegistryError,
    )
    from okl.estimators import (
        BudgetKernelClassifier,
        BudgetKernelRegressor,
        ConstrainedFOGDClassifier,
        CSVMClassifier,
        DWDClassifier,
        ExpertKernelClassifier,
        ExpertKernelRegressor,
        FOGDClassifier,
        FOGDRegressor,
        FourierMap,
        KernelRidgeClassifier,
        KernelRidgeRegressor,
        L1L2SVMClassifier,
        L1LogisticClassifier,
        L2SVMClassifier,
        LogisticClassifier,
        MMFDAClassifier,
        MMMPMClassifier,
        NOGDClassifier,
        NOGDRegressor,
        NuSVMClassifier,
        PegasosClassifier,
        SCSClassifier,
        SCSRegressor,
        UnifiedClassifier,
    )
    from okl.exporting.export import export
    from okl.functions import evaluate, ingest, predict, train
    from okl.registry.reference import load
    from okl.registry.registry import Registry
    from okl.store.manifest import open_dataset

    __version__: str

__all__ = [
    "BudgetKernelClassifier",
    "BudgetKernelRegressor",
    "CSVMClassifier",
    "CheckpointError",
    "ConfigError",
    "ConflictError",
    "ConstrainedFOGDClassifier",
    "DWDClassifier",
    "DataError",
    "DivergedError",
    "ExecutionError",
    "ExpertKernelClassifier",
    "ExpertKernelRegressor",
    "FOGDClassifier",
    "FOGDRegressor",
    "FourierMap",
    "IngestSettings",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "L1L2SVMClassifier",
    "L1LogisticClassifier",
    "L2SVMClassifier",
    "LogisticClassifier",
    "MMFDAClassifier",
    "MMMPMClassifier",
    "ModelError",
    "NOGDClassifier",
    "NOGDRegressor",
    "NuSVMClassifier",
    "OklError",
    "PegasosClassifier",
    "Registry",
    "RegistryError",
    "SCSClassifier",
    "SCSRegressor",
    "TrainSettings",
    "UnifiedClassifier",
    "__version__",
    "evaluate",
    "export",
    "ingest",
    "load",
    "open_dataset",
    "predict",
    "train",
]

_MODULES = {
    "configuration": ("IngestSettings", "TrainSettings"),
    "errors": (
        "CheckpointError",
        "ConfigError",
        "ConflictError",
        "DataError",
        "DivergedError",
        "ExecutionError",
        "ModelError",
        "OklError",
        "RegistryError",
    ),
    "estimators": (
        "BudgetKernelClassifier",
        "BudgetKernelRegressor",
        "CSVMClassifier",
        "ConstrainedFOGDClassifier",
        "DWDClassifier",
        "ExpertKernelClassifier",
        "ExpertKernelRegressor",
        "FOGDClassifier",
        "FOGDRegressor",
        "FourierMap",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        "L1L2SVMClassifier",
        "L1LogisticClassifier",
        "L2SVMClassifier",
        "LogisticClassifier",
        "MMFDAClassifier",
        "MMMPMClassifier",
        "NOGDClassifier",
        "NOGDRegressor",
        "NuSVMClassifier",
        "PegasosClassifier",
        "SCSClassifier",
        "SCSRegressor",
        "UnifiedClassifier",
    ),
    "exporting.export": ("export",),
    "functions": ("evaluate", "ingest", "predict", "train"),
    "registry.reference": ("load",),
    "registry.registry": ("Registry",),
    "store.manifest": ("open_dataset",),
}
_HOMES = {name: f"okl.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name where it is first used."""
    if name == "__version__":
        value: object = _version()
    else:
        if name not in __all__:
            raise AttributeError(f"module 'okl' has no attribute {name!r}; it has {', '.join(__all__)}.")
        value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("okl")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"
