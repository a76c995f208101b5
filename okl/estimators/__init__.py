"""The scikit-learn face: online kernel learners, nine models with certificates, the Fourier map as a transformer."""

from __future__ import annotations

from okl.estimators.accelerated import (
    CSVMClassifier,
    DWDClassifier,
    L1L2SVMClassifier,
    L1LogisticClassifier,
    L2SVMClassifier,
    LogisticClassifier,
    MMFDAClassifier,
    MMMPMClassifier,
    NuSVMClassifier,
    UnifiedClassifier,
)
from okl.estimators.automatic import KernelClassifier, KernelRegressor
from okl.estimators.fourier_map import FourierMap
from okl.estimators.online import (
    BudgetKernelClassifier,
    BudgetKernelRegressor,
    ConstrainedFOGDClassifier,
    ExpertKernelClassifier,
    ExpertKernelRegressor,
    FOGDClassifier,
    FOGDRegressor,
    NOGDClassifier,
    NOGDRegressor,
    PegasosClassifier,
)
from okl.estimators.ridge import KernelRidgeClassifier, KernelRidgeRegressor
from okl.estimators.subgradient import SCSClassifier, SCSRegressor

__all__ = [
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
    "KernelClassifier",
    "KernelRegressor",
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
]
