"""Small cases of every solver and mode in which a run can be interrupted."""

from __future__ import annotations

from typing import Any

from okl.foundation.types import Task

Case = tuple[Task, dict[str, Any]]
SMALL: dict[str, Any] = {"frequencies": 20, "seed": 3}
BUDGET: dict[str, Any] = {"budget": 30, "seed": 3}

ONLINE: dict[str, Case] = {
    "fogd-stream": ("binary", SMALL | {"passes": 2, "step_size": 0.1}),
    "fogd-experts": ("multiclass", SMALL),
    "fogd-mix": ("multiclass", SMALL | {"mode": "mix", "rounds": 4}),
    "fogd-sum": ("regression", SMALL | {"mode": "sum", "rounds": 4, "map": "structured"}),
    "fogd-tracking": ("binary", SMALL | {"track": True}),
    "fogd-in-ball": ("binary", SMALL | {"radius": 5.0}),
    "fogd-constrained": ("binary", SMALL | {"constraints": ("abs(covariance(x0)) <= 0.01", "norm <= 5")}),
    "fogd-constrained-classes": ("multiclass", SMALL | {"constraints": ("abs(covariance(x0)) <= 0.01", "norm <= 9")}),
    "fogd-constrained-numbers": ("regression", SMALL | {"constraints": ("abs(covariance(x0)) <= 0.01", "norm <= 9")}),
    "fogd-constrained-track": (
        "binary",
        SMALL | {"track": True, "constraints": ("abs(covariance(x0)) <= 0.01", "norm <= 5")},
    ),
    "nogd-constrained": (
        "multiclass",
        BUDGET | {"solver": "nogd", "constraints": ("abs(covariance(x0)) <= 0.01", "norm <= 9")},
    ),
    "nogd-stream": ("multiclass", BUDGET | {"solver": "nogd"}),
    "nogd-sum": ("regression", BUDGET | {"solver": "nogd", "mode": "sum", "rounds": 4}),
    "rbp": ("binary", BUDGET | {"solver": "rbp"}),
    "bsgd-mix": ("multiclass", BUDGET | {"solver": "bsgd-merging", "mode": "mix", "rounds": 4}),
    "bogd++": ("binary", BUDGET | {"solver": "bogd++"}),
    "perceptron": ("binary", {"solver": "perceptron", "seed": 3}),
    "pegasos": ("binary", SMALL | {"solver": "pegasos", "batch": 8}),
}
TO_AN_OPTIMUM: dict[str, Case] = {
    "c-svm": ("multiclass", SMALL | {"solver": "c-svm", "tol": 1e-2}),
    "nu-svm": ("binary", SMALL | {"solver": "nu-svm", "tol": 1e-2}),
    "dwd": ("binary", SMALL | {"solver": "dwd", "method": "fapg"}),
    "logistic": ("binary", SMALL | {"solver": "logistic"}),
    "mm-mpm": ("binary", SMALL | {"solver": "mm-mpm"}),
    "l1-logistic": ("binary", SMALL | {"solver": "l1-logistic", "tol": 1e-2}),
    "scs": ("multiclass", SMALL | {"solver": "scs", "gap": 0.3, "lam": 0.05}),
    "scs-exact": ("binary", {"solver": "scs", "map": "exact", "gap": 0.1, "lam": 0.01, "first_sample": 100}),
    "local": ("multiclass", {"solver": "local", "cell_rows": 50, "partitions": 3, "seed": 3}),
    "wolfe": ("binary", SMALL | {"solver": "wolfe", "gap": 0.1, "lam": 0.01}),
}
