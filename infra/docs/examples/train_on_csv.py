"""Train on a CSV file, print the result, and score rows in memory."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.datasets import load_breast_cancer

import okl


def _majority(result: dict[str, Any]) -> float:
    return float(result["baselines"]["majority"]["test"]["accuracy"])


def main(folder: Path) -> None:
    """Write rows.csv and a run with a model and a report into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    table = load_breast_cancer(as_frame=True)
    rows = table.data.assign(kind=table.target_names[table.target])
    rows.to_csv(folder / "rows.csv", index=False)

    result = okl.train(
        folder / "rows.csv",
        ingest={"target": "kind", "scale": "standard", "holdout": 0.25},
        solver="fogd",
        frequencies=100,
        passes=5,
        out=folder / "run",
    )
    print(f"test accuracy {result['test']['accuracy']:.3f}; always the larger class {_majority(result):.3f}")
    print(f"report: {result['run']}/report.html")

    model = okl.load(result["model"])
    print(model.predict(pd.read_csv(folder / "rows.csv").head(3)))  # raw rows; columns are matched by name


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "okl-example"))
