"""Three models of the same rows, each with what it proves about itself."""

import sys
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer

import okl

MODELS: dict[str, dict[str, Any]] = {
    "fogd": {"frequencies": 100, "passes": 5},  # one pass after the other over the rows; nothing is proved
    "c-svm": {"kernel": "linear", "tol": 1e-3},  # solved until the relative duality gap is below tol
    "scs": {"frequencies": 100, "lam": 0.01, "gap": 0.05},  # solved on samples, the gap over all rows is certified
}


def main(folder: Path) -> None:
    """Leave a data set and a run for each model in a folder."""
    table = load_breast_cancer(as_frame=True)
    table.data.assign(y=table.target).to_parquet(folder / "rows.parquet")
    data = okl.ingest(folder / "rows.parquet", folder / "data", scale="standard", holdout=0.25)

    for solver, options in MODELS.items():
        result = okl.train(data.folder, solver=solver, out=folder / solver, **options)
        proof = result.get("certificate")
        told = f"gap to the optimum at most {proof['gap']:.2g}" if proof else "nothing proved"
        print(f"{solver:6} test accuracy {result['test']['accuracy']:.3f}, {told}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
