"""The cases: name -> data set and settings of a training run, or estimator."""

from __future__ import annotations

from typing import Any

BUDGET = (
    "norma", "rbp", "forgetron", "projectron", "projectron++", "bpa-s", "bpa-nn", "bpa-p", "bogd", "bogd++",
    "bsgd-removal", "bsgd-merging", "budget-perceptron", "tvm", "perceptron", "ogd",
)  # fmt: skip
NINE = ("c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "mm-fda", "mm-mpm", "l1-logistic", "l1-l2-svm")
KERNELS = ("gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear")
MAPS = ("independent", "orthogonal", "quasi", "structured", "auto")
GROWING = ("perceptron", "ogd")
REGRESSORS = ("norma", "projectron", "bogd", "bogd++", "ogd")
FOURIER = ("fogd", *NINE, "scs", "wolfe", "pegasos")


def training_cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return data set and settings by name."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}

    def add(name: str, data: str, **settings: Any) -> None:
        exact = settings.get("solver", "fogd") not in FOURIER or settings.get("map") == "exact"
        found[f"train/{name}/{data}"] = (data, {"threads": 1} | ({} if exact else {"frequencies": 40}) | settings)

    for data in ("cancer", "iris", "diabetes"):
        add("fogd", data, step_size=0.5, bandwidth=3.0)
        add("experts", data)
        add("nogd", data, solver="nogd", budget=40)
        add("nogd-rpcholesky", data, solver="nogd", budget=40, landmarks="rpcholesky")
        add("ridge", data, solver="ridge", n_landmarks=60)
        add("falkon", data, solver="falkon", n_landmarks=60)
        add("local", data, solver="local", cell_rows=60)
        add("track", data, track=True)
        for mode in ("mix", "sum"):
            add(f"fogd-{mode}", data, mode=mode, rounds=4, passes=2, step_size=0.5, bandwidth=3.0)
            add(f"nogd-{mode}", data, solver="nogd", budget=40, mode=mode, rounds=4, step_size=0.5, bandwidth=3.0)
    for landmarks in ("uniform", "kmeans"):
        add(f"nogd-{landmarks}", "cancer", solver="nogd", budget=40, landmarks=landmarks)
    for solver in BUDGET:
        size = {} if solver in GROWING else {"budget": 30}
        add(solver, "cancer", solver=solver, passes=2, **size)
        if solver != "bsgd-merging":  # which takes the Gaussian kernel only
            add(f"{solver}-polynomial", "cancer", solver=solver, kernel="polynomial", **size)
    for solver in ("bsgd-merging", "bpa-nn", "tvm"):
        add(solver, "covtype", solver=solver, bandwidth=4.0, budget=30)
    for solver in ("bsgd-merging", "bogd", "projectron", "perceptron"):
        add(solver, "iris", solver=solver, **({} if solver in GROWING else {"budget": 30}))
    for solver in REGRESSORS:
        add(solver, "diabetes", solver=solver, passes=2, **({} if solver in GROWING else {"budget": 30}))
    for kernel in KERNELS:
        add(f"ridge-{kernel}", "cancer", solver="ridge", kernel=kernel, n_landmarks=50)
        add(f"nogd-{kernel}", "diabetes", solver="nogd", kernel=kernel, budget=40)
        if kernel in KERNELS[:4]:
            add(f"fogd-{kernel}", "cancer", kernel=kernel, bandwidth=4.0)
    for kind in MAPS:
        add(f"fogd-map-{kind}", "digits", map=kind, bandwidth=8.0, step_size=0.5)
        add(f"fogd-map-{kind}-64", "cancer", map=kind, precision="float64")
        add(f"c-svm-map-{kind}", "cancer", solver="c-svm", map=kind, tol=1e-3)
    for solver in NINE:
        given = {"nu": 0.5} if solver == "dwd" else {}  # its default at the time of the table
        add(solver, "cancer", solver=solver, tol=1e-3, max_iterations=2000, **given)
        add(solver, "iris", solver=solver, tol=1e-2, max_iterations=2000, **given)
    for solver in ("c-svm", "nu-svm", "mm-mpm"):
        add(f"{solver}-errors", "cancer", solver=solver, tol=1e-3, max_iterations=2000, bias="errors")
    for loss in ("hinge", "logistic"):
        add(f"fogd-{loss}", "covtype", loss=loss, class_weights="balanced")
    add("scs", "covtype", solver="scs", gap=0.02, lam=1e-2)
    add("fogd-multiclass-hinge", "types", loss="multiclass-hinge")
    add("fogd-float64", "types", precision="float64", passes=2)
    add("fogd-last", "cancer", average=False, order="stored")
    for solver in ("scs", "wolfe"):
        add(solver, "cancer", solver=solver, gap=0.02, lam=1e-2)
        add(f"{solver}-regularised", "cancer", solver=solver, gap=0.02, lam=1e-2, bias="regularised")
    add("scs-exact", "cancer", solver="scs", map="exact", gap=0.02, lam=1e-2)
    add("scs", "diabetes", solver="scs", gap=0.02, lam=1e-1)
    for loss in ("absolute", "epsilon-insensitive"):
        add(f"scs-{loss}", "diabetes", solver="scs", loss=loss, gap=0.02, lam=1e-1)
    add("scs", "iris", solver="scs", gap=0.02, lam=1e-2)
    for data in ("cancer", "iris"):
        add("pegasos", data, solver="pegasos", passes=3)
    add("pegasos-batch", "cancer", solver="pegasos", batch=16, project=True, passes=3)
    add("pegasos-certified", "cancer", solver="pegasos", passes=3, certify=True)
    add("fogd-certified", "cancer", radius=5.0, certify=True)
    add("track-certified", "cancer", radius=5.0, certify=True, track=True)
    add("fogd-ball", "cancer", radius=5.0)
    add("constraint-covariance", "cancer", constraints=("abs(covariance(x1)) <= 0.01",), radius=10.0)
    add("constraint-mean", "cancer", constraints=("abs(covariance(x1)) <= 0.05", "norm <= 4"), learn_sensitive=True)
    add("constraint-certified", "cancer", constraints=("abs(covariance(x1)) <= 0.05", "norm <= 4"), certify=True)
    add("mixed-fogd", "mixed")
    add("mixed-ridge", "mixed", solver="ridge", n_landmarks=40)
    add("auto", "cancer", solver="auto", budget_seconds=600.0)
    add("auto", "iris", solver="auto", budget_seconds=600.0)
    add("auto", "diabetes", solver="auto", budget_seconds=600.0)
    on_workers: dict[str, dict[str, Any]] = {
        "fogd": {}, "c-svm": {"tol": 1e-3}, "l1-logistic": {"tol": 1e-2}, "ridge": {"n_landmarks": 50},
        "local": {"cell_rows": 60},
        "scs": {"gap": 0.02, "lam": 1e-2}, "nogd": {"budget": 40},
    }  # fmt: skip
    for solver, more in on_workers.items():
        add(f"workers-{solver}", "cancer", solver=solver, workers=2, **more)
    return found


def estimator_cases() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return data set, class and parameters by name."""
    online: dict[str, Any] = {"passes": 2, "random_state": 0}
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}

    def add(kind: str, *data: str, tag: str = "", **values: Any) -> None:
        for one in data:
            found[f"estimator/{kind}{tag}/{one}"] = (one, kind, values)

    for kind in ("FOGD", "NOGD", "BudgetKernel", "ExpertKernel"):
        add(f"{kind}Classifier", "cancer", "iris", **online)
        add(f"{kind}Regressor", "diabetes", **online)
    for kind in ("CSVM", "L2SVM", "Logistic", "NuSVM", "DWD", "MMFDA", "MMMPM", "L1Logistic", "L1L2SVM"):
        add(f"{kind}Classifier", "cancer", "iris", tol=1e-3, random_state=0)
        add(f"{kind}Classifier", "cancer", tag="-map", tol=1e-3, random_state=0, kernel="gaussian", n_columns=60,
            feature_map="orthogonal")  # fmt: skip
    for kind in ("CSVM", "L2SVM", "Logistic"):
        add(f"{kind}Classifier", "cancer", tag="-exact", tol=1e-3, random_state=0, kernel="gaussian")
        add(f"{kind}Classifier", "cancer", tag="-proven", tol=1e-2, random_state=0, method="proven")
    add("UnifiedClassifier", "cancer", model="c-svm", tol=1e-3, random_state=0)
    add("PegasosClassifier", "cancer", "iris", **online)
    add("SCSClassifier", "cancer", "iris", n_columns=80, feature_map="orthogonal", random_state=0)
    add("SCSRegressor", "diabetes", gap=0.05, lam=0.1, n_columns=80, feature_map="orthogonal", random_state=0)
    for directions in ("conjugate", "subgradient"):
        add("SCSClassifier", "cancer", tag=f"-{directions}", gap=0.05, lam=0.1, n_columns=80, directions=directions,
            feature_map="orthogonal", random_state=0)  # fmt: skip
    add("KernelRidgeClassifier", "cancer", "iris", n_landmarks=60, random_state=0)
    add("KernelRidgeRegressor", "diabetes", n_landmarks=60, random_state=0)
    add("FourierMap", "cancer", n_frequencies=20, random_state=0)
    return found
