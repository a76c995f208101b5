"""Writer of the files of this folder: models, unfinished runs, a registry and a data set.

Commit bafc059 wrote them; later code reads them and must not write them again. Files with a digest of their content
contain paths, so okl works in a fixed folder here, with relative paths where it stores them.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import llvmlite.binding
import pyarrow as pa
import pyarrow.parquet as pq

import okl
from tests.digests.bench import MIXED, command
from tests.digests.data import make_table

HERE = Path(__file__).parent
WORK = Path("/var/tmp/okl-files")
ROWS, SCORED, NIGHT = 240, 20, 60
CONSTRAINTS = ("abs(covariance(x1)) <= 0.01", "norm <= 5")
SIZE = {"frequencies": 12}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "fogd": ("cancer", {**SIZE, "step_size": 0.5, "bandwidth": 3.0}),
    "fogd-classes": ("iris", {**SIZE, "step_size": 0.5, "bandwidth": 2.0}),
    "fogd-regression": ("diabetes", {**SIZE, "step_size": 0.5, "bandwidth": 3.0}),
    "fogd-structured": ("cancer", {**SIZE, "map": "structured"}),
    "experts": ("cancer", SIZE),
    "track": ("cancer", {**SIZE, "track": True}),
    "constrained": ("cancer", {**SIZE, "constraints": CONSTRAINTS}),
    "nogd": ("cancer", {"solver": "nogd", "budget": 15}),
    "bsgd-merging": ("iris", {"solver": "bsgd-merging", "budget": 15}),
    "projectron": ("diabetes", {"solver": "projectron", "budget": 15}),
    "ridge": ("cancer", {"solver": "ridge", "n_landmarks": 15}),
    "ridge-regression": ("diabetes", {"solver": "ridge", "n_landmarks": 15, "kernel": "laplacian"}),
    "c-svm": ("cancer", {"solver": "c-svm", **SIZE, "tol": 1e-2}),
    "mm-mpm": ("cancer", {"solver": "mm-mpm", **SIZE, "tol": 1e-2}),
    "l1-logistic": ("cancer", {"solver": "l1-logistic", **SIZE, "tol": 1e-2}),
    "c-svm-classes": ("iris", {"solver": "c-svm", **SIZE, "tol": 1e-2}),
    "scs": ("cancer", {"solver": "scs", **SIZE, "gap": 0.05, "lam": 0.01}),
    "pegasos": ("cancer", {"solver": "pegasos", **SIZE}),
    "mixed": ("mixed", SIZE),
}
RUNS: dict[str, dict[str, Any]] = {
    "online": {**SIZE, "passes": 4, "step_size": 0.1},
    "mix": {**SIZE, "mode": "mix", "rounds": 4, "passes": 2},
    "budget": {"solver": "bsgd-merging", "budget": 15, "passes": 4},
    "nogd": {"solver": "nogd", "budget": 15, "mode": "sum", "rounds": 4, "passes": 2},
    "experts": {**SIZE, "passes": 4},
    "tracking": {**SIZE, "track": True, "passes": 4},
    "constrained": {**SIZE, "constraints": CONSTRAINTS, "passes": 4},
    "accelerated": {"solver": "c-svm", **SIZE, "tol": 1e-3},
    "l1": {"solver": "l1-logistic", **SIZE, "tol": 1e-3},
    "scs": {"solver": "scs", **SIZE, "gap": 0.01, "lam": 0.01, "first_sample": 50, "bundle_size": 10},
    "wolfe": {"solver": "wolfe", **SIZE, "gap": 0.01, "lam": 0.01},
    "pegasos": {"solver": "pegasos", **SIZE, "passes": 4},
    "ridge": {"solver": "ridge", "n_landmarks": 15},
}
RETRAINED = {"fogd": "train.frequencies=12", "bsgd-merging": "train.budget=15"}


class StopAfter:
    """Observer that stops a run in its stage `learn` after some steps, or in `evaluate` if training has fewer steps."""

    def __init__(self, steps: int) -> None:
        self.left, self.now = steps, ""

    def stage(self, name: str) -> None:
        self.now = name
        if name == "evaluate":
            raise KeyboardInterrupt

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        if self.now == "learn":
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt

    def finish(self) -> None:
        pass


def small_table(name: str) -> pa.Table:
    """Return a few rows of a data set, with at most ten columns of numbers."""
    table = make_table(name).slice(0, ROWS)
    return table.select([f"x{number}" for number in range(10)] + ["y"]) if name == "cancer" else table


def scores(model: str | Path, rows: str) -> dict[str, list[Any]]:
    """Return the columns of scores of the rows of a data set."""
    shutil.rmtree("scores", ignore_errors=True)
    okl.predict(model, HERE / "rows" / f"{rows}.parquet", "scores", threads=1)
    columns: dict[str, list[Any]] = pq.read_table("scores").to_pydict()
    return columns


def write_models() -> dict[str, Any]:
    expected = {}
    for name, (data, settings) in MODELS.items():
        result = okl.train(f"data/{data}", out=f"out/{name}", threads=1, **settings)
        shutil.copytree(result["model"], HERE / "models" / name)
        digest = result["weights_sha256"]
        expected[name] = {"data": data, "scores": scores(result["model"], data), "weights_sha256": digest}
    return expected


def write_runs() -> dict[str, Any]:
    expected = {}
    for name, settings in RUNS.items():
        options = {"threads": 1, "checkpoint_rounds": 1, **settings}
        complete = okl.train("data/cancer", out=f"whole/{name}", **options)
        expected[name] = {"scores": scores(complete["model"], "cancer"), "weights_sha256": complete["weights_sha256"]}
        try:
            okl.train("data/cancer", out=f"runs/{name}", observer=StopAfter(2), **options)
        except KeyboardInterrupt:
            (unfinished,) = Path("runs").glob(f".{name}.unfinished-*")
            shutil.copytree(unfinished, HERE / "runs" / name)
        else:
            raise RuntimeError(f"{name} was not stopped")
    return expected


def write_registry() -> dict[str, Any]:
    expected: dict[str, Any] = {}
    Path("in").mkdir()
    for night in range(4):
        path = Path("in") / f"day-{night}.parquet"
        pq.write_table(small_table("cancer").slice(night * NIGHT, NIGHT), path)
        shutil.copy(path, HERE / "rows" / path.name)
        for solver, option in RETRAINED.items():
            result = command(
                *("retrain", solver, "in", "--registry", "registry", "--publish-if", "not worse", "--set"),
                *("settle_seconds=0", "--set", "ingest.scale=standard", "--set", f"train.solver={solver}"),
                *("--set", option),
            )
            champion = okl.Registry("registry").model(solver).version()
            record = {"outcome": result["outcome"], "version": champion.number}
            record["scores"] = scores(f"{champion.folder}/model", "cancer")
            expected.setdefault(solver, []).append(record)
        if night == 2:
            shutil.copytree("registry", HERE / "registry")
    return expected


def main() -> None:
    for name in ("models", "runs", "data", "registry", "rows"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / "rows").mkdir()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    os.chdir(WORK)
    os.environ["OKL_HOME"] = str(WORK / "home")
    for name in ("cancer", "iris", "diabetes", "mixed"):
        pq.write_table(small_table(name), f"{name}.parquet")
        pq.write_table(small_table(name).slice(0, SCORED), HERE / "rows" / f"{name}.parquet")
        more = MIXED if name == "mixed" else {}
        okl.ingest(f"{name}.parquet", f"data/{name}", holdout=0.2, scale="standard", rows_per_shard=80, **more)
    shutil.copytree("data/cancer", HERE / "data" / "cancer")
    expected = {"cpu": llvmlite.binding.get_host_cpu_name(), "models": write_models(), "runs": write_runs()}
    expected["registry"] = write_registry()
    (HERE / "expected.json").write_text(json.dumps(expected, indent=0) + "\n")
    for path in HERE.rglob("report.*"):
        path.unlink()
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
