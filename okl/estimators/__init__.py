"""The scikit-learn face: online kernel learners, nine models with certificates, the Fourier map as a transformer."""

from __future__ import annotations

from okl.estimators.budget import BudgetKernelClassifier, BudgetKernelRegressor
from okl.estimators.constrained import ConstrainedFOGDClassifier
from okl.estimators.experts import ExpertKernelClassifier, ExpertKernelRegressor
from okl.estimators.fogd import FOGDClassifier, FOGDRegressor
from okl.estimators.fourier_map import FourierMap
from okl.estimators.nogd import NOGDClassifier, NOGDRegressor
from okl.estimators.pegasos import PegasosClassifier
from okl.estimators.ridge import KernelRidgeClassifier, KernelRidgeRegressor
from okl.estimators.scs import SCSClassifier, SCSRegressor
from okl.estimators.unified import UnifiedClassifier
from okl.estimators.unifiedcolumns import (
    L1L2SVMClassifier,
    L1LogisticClassifier,
    MMFDAClassifier,
    MMMPMClassifier,
)
from okl.estimators.unifiedmargins import (
    CSVMClassifier,
    DWDClassifier,
    L2SVMClassifier,
    LogisticClassifier,
    NuSVMClassifier,
)

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
