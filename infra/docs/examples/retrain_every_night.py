"""Retrain a model on each night's file; replace it only by a better one. In production, a scheduler calls retrain."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import okl
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings


def arrive(inbox: Path, night: int) -> None:
    """Write the rows of one night into a file."""
    rng = np.random.default_rng(night)
    columns = {f"x{j}": rng.standard_normal(800) for j in range(3)}
    right = columns["x0"] * columns["x1"] + 0.1 * rng.standard_normal(800) > 0
    pq.write_table(pa.table(columns | {"y": right.astype(int)}), inbox / f"night-{night}.parquet")


def main(folder: Path) -> None:
    """Create an inbox and a registry in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    inbox = folder / "inbox"
    inbox.mkdir()
    settings = RetrainSettings(
        name="signs",
        source=str(inbox),
        registry=str(folder / "registry"),
        train=okl.TrainSettings(data="", solver="fogd", frequencies=60, bandwidth=1.5, step_size=1.0),
        settle_seconds=0.0,  # files are complete at once here
    )
    for night in range(2):
        arrive(inbox, night)
        result = retrain(settings)
        print(f"night {night}: {result['outcome']}; {result['reason']}")
    print(f"a third call: {retrain(settings)['outcome']}")

    champion = okl.load("signs@champion", registry=folder / "registry")
    print(champion.predict(np.array([[1.0, 2.0, 0.0], [1.0, -2.0, 0.0]])))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "okl-example"))
