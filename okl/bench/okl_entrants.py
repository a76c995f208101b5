"""okl's own entrants, as a table: an estimator of okl.estimators, what is fixed, what is tried."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from okl.bench.entrants import CLASSES, EVERY_TASK, Configuration, Entrant, Grid, Machine, single, single_or_sparse
from okl.bench.sets import Part

# gamma of exp(-gamma ||x - x'||^2), in units of scikit-learn's gamma="scale"
WIDTHS = (0.1, 0.3, 1.0, 3.0)
MAPPED = {"kernel": "gaussian", "feature_map": "orthogonal", "tol": 1e-2}
Sets = tuple[str, ...] | None
PENALTIES = (1e-6, 1e-4)
C_WIDE = (0.01, 0.1, 1.0, 10.0)
LOOSE = {"tol": 3e-2}
LINEAR: Grid = {"C": C_WIDE}
LANDMARKS: Grid = {"n_landmarks": (400, 50, 100, 200, 1000, 2000, 4000)}  # tuned at the first
FEW_LANDMARKS: Grid = {"n_landmarks": (100, 50, 200, 400)}
PASSES: Grid = {"passes": (1, 5), "n_frequencies": (100, 200, 400, 1000, 4000)}

# certified solutions of linear models: where these come near the best, or cost little
NEARLY_LINEAR = ("german", "spambase", "a9a", "w7a")

# name, estimator for classes, estimator for regression, fixed parameters, tuned, swept, sets (None: all)
TABLE: tuple[tuple[str, str, str, Mapping[str, Any], Grid, Grid, Sets], ...] = (
    (
        "ridge, linear",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {"kernel": "linear", "precision": "float32"},  # as the rows are: no copy; sums are float64
        {"penalty": (1e-4, 1e-2)},
        {},
        None,
    ),
    (
        "ridge, landmarks",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {},
        {"kernel": ("gaussian",), "width": WIDTHS, "penalty": PENALTIES},
        LANDMARKS,
        None,
    ),
    (
        "ridge, Matern landmarks",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {},
        {"kernel": ("matern32",), "width": WIDTHS, "penalty": PENALTIES},
        LANDMARKS,
        None,
    ),
    (
        "ridge, Laplacian landmarks",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {},
        {"kernel": ("laplacian",), "width": WIDTHS, "penalty": (1e-8, *PENALTIES)},
        LANDMARKS,
        None,
    ),
    (
        "ridge, landmarks in float32",
        "KernelRidgeClassifier",
        "",
        {"precision": "float32"},
        {"kernel": ("gaussian",), "width": WIDTHS, "penalty": (1e-4, 1e-3)},
        FEW_LANDMARKS,
        NEARLY_LINEAR,
    ),
    ("l2-SVM", "L2SVMClassifier", "", LOOSE, LINEAR, {}, NEARLY_LINEAR),
    ("C-SVM", "CSVMClassifier", "", LOOSE, LINEAR, {}, NEARLY_LINEAR),
    ("logistic", "LogisticClassifier", "", LOOSE, LINEAR, {}, NEARLY_LINEAR),
    (
        "l2-SVM, orthogonal map",
        "L2SVMClassifier",
        "",
        MAPPED,
        {"width": WIDTHS, "C": C_WIDE},
        {"n_columns": (200, 800, 2000)},
        NEARLY_LINEAR,
    ),
    ("FOGD", "FOGDClassifier", "FOGDRegressor", {}, {"width": WIDTHS}, PASSES, None),
    (
        "SCS",
        "SCSClassifier",
        "SCSRegressor",
        {"gap": 1e-2},
        {"width": WIDTHS, "lam": (1e-3, 1e-4)},
        {"n_columns": (200, 800)},
        None,
    ),
)


def entrants() -> list[Entrant]:
    """Of the table."""
    return [_entrant(*row) for row in TABLE]


def _entrant(
    name: str, classifier: str, regressor: str, fixed: Mapping[str, Any], tuned: Grid, swept: Grid, sets: Sets
) -> Entrant:
    def make(configuration: Configuration, part: Part) -> Machine:
        import okl.estimators

        given: dict[str, Any] = dict(configuration)
        if "width" in given:
            given["bandwidth"] = math.sqrt(0.5 / (given.pop("width") * part.gamma))
            if given.get("kernel") == "laplacian":  # absolute values add up to so much more than Euclid's distance
                given["bandwidth"] *= math.sqrt(part.inputs.shape[1])
        kind = getattr(okl.estimators, regressor if part.is_regression else classifier)
        machine: Machine = kind(**fixed, **given, **_if_taken(kind, n_jobs=-1, random_state=0))
        return machine

    tasks = EVERY_TASK if classifier and regressor else CLASSES if classifier else ("regression",)
    is_linear = fixed.get("kernel", "linear") == "linear" and "width" not in tuned
    return Entrant(
        "okl",
        name,
        "okl",
        make,
        single_or_sparse if is_linear else single,
        tasks,
        tuned,
        swept,
        keep=2 if is_linear or "n_landmarks" in swept else 1,  # more landmarks like a narrower kernel than few do
        sets=sets,
    )


def _if_taken(kind: Any, **parameters: Any) -> dict[str, Any]:
    """Of these parameters the ones that an estimator has."""
    return {name: value for name, value in parameters.items() if name in kind._get_param_names()}
