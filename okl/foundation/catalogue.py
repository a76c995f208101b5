"""The names of solvers, kernels, losses, metrics and sections of the report, with the place of each: "module:object".

Whatever is added to okl has one line here. Command line, help, option checks, forms, comparison, estimators and reports
read these tables; an object is imported where it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

STRATEGIES = {
    "perceptron": "okl.solvers.online.strategies:Perceptron",
    "ogd": "okl.solvers.online.strategies:OnlineGradientDescent",
    "norma": "okl.solvers.online.strategies:Norma",
    "rbp": "okl.solvers.online.strategies:RandomizedBudgetPerceptron",
    "forgetron": "okl.solvers.online.strategies:Forgetron",
    "projectron": "okl.solvers.online.strategies:Projectron",
    "projectron++": "okl.solvers.online.strategies:ProjectronPlus",
    "bpa-s": "okl.solvers.online.strategies:BPASimple",
    "bpa-nn": "okl.solvers.online.strategies:BPANearest",
    "bpa-p": "okl.solvers.online.strategies:BPAProjection",
    "bogd": "okl.solvers.online.strategies:BoundedGradientDescent",
    "bogd++": "okl.solvers.online.strategies:SampledGradientDescent",
    "bsgd-removal": "okl.solvers.online.strategies:BSGDRemoval",
    "bsgd-merging": "okl.solvers.online.strategies:BSGDMerging",
    "budget-perceptron": "okl.solvers.online.strategies:BudgetPerceptron",
    "tvm": "okl.solvers.online.strategies:TwinVectors",
}
"""Solvers with support vectors: classes whose fields are their options, see `okl.solvers.online.budget`."""

MODELS = {
    "c-svm": "okl.solvers.accelerated.models.svm:CSVM",
    "l2-svm": "okl.solvers.accelerated.models.svm:L2SVM",
    "logistic": "okl.solvers.accelerated.models.logistic:LogisticRegression",
    "nu-svm": "okl.solvers.accelerated.models.nusvm:NuSVM",
    "dwd": "okl.solvers.accelerated.models.dwd:DWD",
    "mm-fda": "okl.solvers.accelerated.models.minimax:MMFDA",
    "mm-mpm": "okl.solvers.accelerated.models.minimax:MMMPM",
    "l1-logistic": "okl.solvers.accelerated.models.l1:L1LogisticRegression",
    "l1-l2-svm": "okl.solvers.accelerated.models.l1:L1SquaredHinge",
}
"""Solvers that solve a model to a certified gap by the accelerated method: subclasses of Classifier."""

SOLVERS = {
    "fogd": "okl.solvers.online.settings:FogdSettings",
    "nogd": "okl.solvers.online.settings:NogdSettings",
    **STRATEGIES,
    **MODELS,
    "scs": "okl.solvers.subgradient.settings:ScsSettings",
    "wolfe": "okl.solvers.subgradient.settings:WolfeSettings",
    "pegasos": "okl.solvers.subgradient.settings:PegasosSettings",
    "falkon": "okl.solvers.ridge.settings:FalkonSettings",
    "local": "okl.solvers.ridge.settings:LocalSettings",
    "ridge": "okl.solvers.ridge.settings:RidgeSettings",
    "auto": "okl.solvers.settings:AutoSettings",
}
"""All solvers; those that are neither strategies nor models are subclasses of SolverSettings."""

KERNELS = {
    "gaussian": "okl.kernels:Gaussian",
    "laplacian": "okl.kernels:Laplacian",
    "matern32": "okl.kernels:Matern32",
    "matern52": "okl.kernels:Matern52",
    "polynomial": "okl.kernels:Polynomial",
    "linear": "okl.kernels:Linear",
}
"""Kernels: classes whose fields are among bandwidth, scale, degree and offset, see `okl.kernels`."""

LOSSES = {
    "hinge": "okl.losses:Hinge",
    "logistic": "okl.losses:Logistic",
    "multiclass-hinge": "okl.losses:MulticlassHinge",
    "thresholded-half-squared": "okl.losses:ThresholdedHalfSquared",
    "absolute": "okl.losses:absolute",
    "epsilon-insensitive": "okl.losses:EpsilonInsensitive",
}
"""Losses: classes, or functions that make one, of epsilon or of nothing, see `okl.losses`."""

METRICS = {
    "accuracy": "okl.metrics.definitions:accuracy",
    "mistake_rate": "okl.metrics.definitions:mistake_rate",
    "balanced_accuracy": "okl.metrics.definitions:balanced_accuracy",
    "roc_auc": "okl.metrics.definitions:area_under_roc",
    "average_precision": "okl.metrics.definitions:mean_precision",
    "log_loss": "okl.metrics.definitions:log_loss",
    "macro_f1": "okl.metrics.definitions:macro_f1",
    "squared_loss": "okl.metrics.definitions:squared_loss",
    "mse": "okl.metrics.definitions:mean_square",
    "rmse": "okl.metrics.definitions:root_mean_square",
    "mae": "okl.metrics.definitions:absolute_loss",
    "r2": "okl.metrics.definitions:explained_variance",
}
"""Metrics: instances of `okl.metrics.definitions.Metric`."""

SECTIONS = (
    "okl.report.quality:quality_section",
    "okl.report.training:changes_section",
    "okl.report.trust:trust_section",
    "okl.report.quality:decision_section",
    "okl.report.quality:columns_section",
    "okl.report.quality:mistakes_section",
    "okl.report.training:training_section",
    "okl.report.training:choice_section",
    "okl.report.training:cost_section",
    "okl.report.training:usage_section",
    "okl.report.training:facts_section",
)
"""Sections of the report of a training run, in their order: functions of a RunResult that return a Section."""


def load(path: str) -> Any:
    """Return the object of an entry "module:object" of one of the tables."""
    module, name = path.split(":")
    return getattr(import_module(module), name)
