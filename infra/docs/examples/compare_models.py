"""Fit three models to the same rows, and print accuracy and certificate of each."""

import sys
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer

import okl

MODELS: dict[str, dict[str, Any]] = {
    "fogd": {"frequencies": 100, "passes": 5},  # five passes over the rows; no certificate
    "c-svm": {"kernel": "linear", "tol": 1e-3},  # stops when the relative duality gap is below tol
    "scs": {"frequencies": 100, "lam": 0.01, "gap": 0.05},  # fitted on samples; certifies the gap over all rows
}


def main(folder: Path) -> None:
    """Write a data set and one run per model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    table = load_breast_cancer(as_frame=True)
    table.data.assign(y=table.target).to_parquet(folder / "rows.parquet")
    data = okl.ingest(folder / "rows.parquet", folder / "data", scale="standard", holdout=0.25)

    for solver, options in MODELS.items():
        result = okl.train(data.folder, solver=solver, out=folder / solver, **options)
        certificate = result.get("certificate")
        proof = f"gap to the optimum at most {certificate['gap']:.2g}" if certificate else "nothing proved"
        print(f"{solver:6} test accuracy {result['test']['accuracy']:.3f}, {proof}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "okl-example"))
