"""Cases that run in separate processes, and digests of their results."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import okl
from okl import oco
from tests.digests.cases import estimator_cases, training_cases
from tests.digests.data import DATA_SETS, make_table

SLOW_SECONDS = 3.0
N_FIRST_NUMBERS = 6
FIGURES = ("progressive", "train", "test", "baselines", "curve", "convergence", "certificate")
UNSTABLE = ("second", "time", "path", "folder", "bytes")  # in names of figures
INGEST: dict[str, Any] = {"holdout": 0.2, "scale": "standard"}
MIXED: dict[str, Any] = {"missing": "mean", "dates": "parts"}
EXPORTED = ("fogd/", "nogd/", "ridge/", "bsgd-merging/", "c-svm/", "l1-logistic/", "scs/", "mixed-", "ridge-laplacian")
Entry = dict[str, Any]


def numbers_of(values: Any) -> Entry:
    """Return the hash of an array's bytes, its first numbers and its sum."""
    array = np.ascontiguousarray(values)
    if array.dtype.kind in "OUST":
        return {"sha256": hashlib.sha256("\0".join(map(str, array.ravel())).encode()).hexdigest()}
    total = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes()).hexdigest()
    flat = array.ravel().astype(np.float64)
    picked = [*flat[:N_FIRST_NUMBERS], float(flat.sum()), float(np.abs(flat).sum())]
    return {"sha256": total, "first": [repr(float(one)) for one in picked]}


def text_of(value: Any) -> Any:
    """Return a value as JSON with numbers as repr strings, without times and paths."""
    if isinstance(value, dict):
        return {
            key: text_of(one)
            for key, one in sorted(value.items())
            if not any(word in key for word in UNSTABLE) and key != "rounds"
        }
    if isinstance(value, list | tuple):
        return [text_of(one) for one in value]
    return repr(value) if isinstance(value, float) else value


def figures_of(result: dict[str, Any]) -> Entry:
    """Return the figures of a result: small ones as they are, long ones hashed as well."""
    found: Entry = {}
    for name in FIGURES:
        if result.get(name) is not None:
            values = text_of(result[name])
            text = json.dumps(values, sort_keys=True)
            found[name] = values if len(text) < 600 else {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    return found


class Bench:
    """The data sets, created at first use, and the cases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def source(self, name: str) -> Path:
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            pq.write_table(make_table(name), path)
        return path

    def data(self, name: str) -> Path:
        path = self.folder / "data" / name
        if not path.exists():
            options = INGEST | (MIXED if name == "mixed" else {}) | {"rows_per_shard": 200}
            okl.ingest(self.source(name), path, **options)
        return path

    def out(self) -> Path:
        self.count += 1
        return self.folder / f"out-{self.count}"

    def scores(self, model: str, name: str) -> Entry:
        scored = self.out()
        okl.predict(model, self.source(name), scored, threads=1)
        table = pq.read_table(scored)
        return {column: numbers_of(table.column(column).to_numpy()) for column in table.column_names}

    def train(self, name: str, data: str, settings: dict[str, Any]) -> Entry:
        result = okl.train(self.data(data), out=self.out(), **settings)
        entry: Entry = {"weights_sha256": result["weights_sha256"]}
        entry |= figures_of(result) | {"scores": self.scores(result["model"], data)}
        if name.split("/")[1].startswith(EXPORTED) or f"{name.split('/')[1]}/" in EXPORTED:
            entry["onnx"] = self.onnx(result["model"], data)
        return entry

    def onnx(self, model: str, data: str) -> Entry:
        import onnxruntime

        path = self.out().with_suffix(".onnx")
        try:
            okl.export(model, path)
        except okl.OklError as error:
            return {"refused": type(error).__name__}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        given = {one.name: self.inputs(one, data) for one in session.get_inputs()}
        outputs = zip(session.get_outputs(), session.run(None, given), strict=True)
        return {one.name: numbers_of(found) for one, found in outputs}

    def inputs(self, node: Any, data: str) -> NDArray[Any]:
        """Return 20 rows for an input of an ONNX model: of the data if it takes all columns, else drawn ones."""
        shape = (20, *node.shape[1:])
        if "string" in node.type:
            return np.resize(np.array(["small", "large"], dtype=object), shape)
        table = make_table(data)
        rows = np.random.default_rng(1).normal(size=shape)
        if data != "mixed" and shape[1:] == (table.num_columns - 1,):
            rows = np.column_stack([table.column(c).to_numpy()[:20] for c in table.column_names if c != "y"])
        return rows.astype(np.float64 if "double" in node.type else np.float32)

    def estimator(self, data: str, kind: str, values: dict[str, Any]) -> Entry:
        table = make_table(data)
        X = np.column_stack([table.column(c).to_numpy() for c in table.column_names if c != "y"])[:300]
        X, y = (X - X.mean(0)) / X.std(0), table.column("y").to_numpy()[:300]
        model = getattr(okl, kind)(**values)
        model.fit(X, y)
        entry = {}
        for method in ("decision_function", "transform", "predict"):
            if hasattr(model, method):
                entry[method] = numbers_of(getattr(model, method)(X))
        return entry

    def evaluate(self, name: str, solver: str) -> Entry:
        trained = okl.train(self.data(name), out=self.out(), solver=solver, threads=1)
        return {"metrics": text_of(okl.evaluate(trained["model"], self.data(name), split="test")["metrics"])}

    def manifest(self, name: str, more: dict[str, Any]) -> Entry:
        folder = self.out()
        okl.ingest(self.source(name), folder, **(INGEST | (MIXED if name == "mixed" else {}) | more))
        manifest = json.loads((folder / "manifest.json").read_text())
        kept = {key: manifest[key] for key in ("features", "labels", "class_counts", "target_statistics", "task")}
        tables = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
        rows = pa.concat_tables(tables).select([c for c in tables[0].column_names if not c.startswith("_")])
        columns = {c: numbers_of(rows.column(c).to_numpy()) for c in rows.column_names}
        return {"manifest": hashlib.sha256(json.dumps(text_of(kept), sort_keys=True).encode()).hexdigest(),
                "columns": hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()}  # fmt: skip

    def compare(self, models: str) -> Entry:
        result = command("compare", str(self.data("cancer")), "--models", models, "--folds", "2", "--grid", "3",
                       "--threads", "1", "--out", str(self.out()))  # fmt: skip
        kept = {key: result[key] for key in ("table", "best", "winner", "weights_sha256") if key in result}
        return {"result": text_of(kept), "scores": self.scores(result["model"], "cancer")}

    def retrain(self, solver: str, size: str) -> Entry:
        arrivals, registry = self.out(), self.out()
        arrivals.mkdir()
        table = make_table("cancer")
        entry: Entry = {}
        for night in range(2):
            pq.write_table(table.slice(night * 280, 280), arrivals / f"day-{night}.parquet")
            result = command("retrain", "m", str(arrivals), "--registry", str(registry), "--set", "settle_seconds=0",
                           "--set", f"train.solver={solver}", "--set", size, "--set",
                           "ingest.scale=standard", "--publish-if", "not worse")  # fmt: skip
            entry[f"night-{night}"] = {"outcome": result["outcome"], "version": result["version"]}
            if result["version"]:
                rows = np.column_stack([table.column(c).to_numpy() for c in table.column_names if c != "y"])
                model = okl.Registry(registry).model("m").version().load()
                entry[f"night-{night}"]["predictions"] = numbers_of(model.predict(rows))
        out = self.out()
        okl.predict("m", self.source("cancer"), out, registry=str(registry))
        scored = pq.read_table(out)
        return entry | {"scores": {c: numbers_of(scored.column(c).to_numpy()) for c in scored.column_names}}

    def play(self, method: Any, curvature: float, region: Any) -> Entry:
        rng = np.random.default_rng(4)
        constraints = oco.LinearConstraints(rng.uniform(0, 2, (3, 2)), rng.uniform(0, 1, 3))
        problem, losses = (
            oco.Problem(region, constraints),
            oco.QuadraticLosses(curvature, rng.normal(size=(200, 2)) - 0.5),
        )
        points = oco.play_rounds(method, problem, losses)
        return {"points": numbers_of(points), "regret": repr(float(oco.static_regret(problem, losses, points))),
                "dynamic": repr(float(oco.dynamic_regret(problem, losses, points))),
                "violation": numbers_of(oco.constraint_values(constraints, points))}  # fmt: skip

    def cases(self) -> dict[str, Callable[[], Entry]]:
        found: dict[str, Callable[[], Entry]] = {}
        for name in DATA_SETS:
            for tag, more in {"": {}, "-shards": {"rows_per_shard": 97}}.items():
                found[f"ingest/{name}{tag}"] = lambda name=name, more=more: self.manifest(name, more)  # type: ignore[misc]
        for case, (data, settings) in training_cases().items():
            found[case] = lambda c=case, d=data, s=settings: self.train(c, d, s)  # type: ignore[misc]
        for case, (data, kind, values) in estimator_cases().items():
            found[case] = lambda d=data, k=kind, v=values: self.estimator(d, k, v)  # type: ignore[misc]
        for solver in ("fogd", "ridge"):
            found[f"evaluate/{solver}"] = lambda s=solver: self.evaluate("iris", s)  # type: ignore[misc]
        for models in ("c-svm,fogd",):
            found[f"compare/{models}"] = lambda m=models: self.compare(m)  # type: ignore[misc]
        for solver, size in {"fogd": "train.frequencies=30", "bsgd-merging": "train.budget=30"}.items():
            found[f"retrain/{solver}"] = lambda s=solver, n=size: self.retrain(s, n)  # type: ignore[misc]
        methods = {
            "algorithm1": oco.Algorithm1(), "algorithm2": oco.Algorithm2(), "ader": oco.ImprovedAder(2.0),
            "jenatton": oco.Jenatton(), "mahdavi": oco.Mahdavi(), "recoo": oco.Recoo(), "sinhavaze": oco.SinhaVaze(2.0),
            "yuneely": oco.YuNeely(), "yuanlamperski": oco.YuanLamperski(), "anytime": oco.Algorithm1(oco.Anytime()),
        }  # fmt: skip
        regions = {"box": oco.Box(-np.ones(2), np.ones(2)), "ball": oco.Ball(np.zeros(2), 1.0)}
        for method, made in methods.items():
            for region, where in regions.items():
                found[f"oco/{method}/{region}"] = lambda m=made, w=where: self.play(m, 0.5, w)  # type: ignore[misc]
        return found


def command(*arguments: str) -> dict[str, Any]:
    """Run a command of okl in a separate process and return its --json output."""
    import subprocess

    done = subprocess.run([sys.executable, "-m", "flows.cli", *arguments, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"okl {' '.join(arguments)}: {done.stderr[-600:]}")
    output: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return output


def selected(names: Iterable[str], only: str) -> list[str]:
    """Return the names that contain a text or match a pattern."""
    return [name for name in names if fnmatch.fnmatchcase(name, f"*{only}*")]


_bench: list[Bench] = []


def open_bench(folder: str) -> None:
    """Prepare a process with its own folder and a home folder of okl in it."""
    own = Path(folder) / str(os.getpid())
    own.mkdir()
    os.environ["OKL_HOME"] = str(own / "home")
    warnings.simplefilter("ignore")
    _bench.append(Bench(own))


def run_case(name: str) -> tuple[Entry, float]:
    """Run a case; return its digests and the processor seconds that this process took."""
    started = time.process_time()
    try:
        entry = _bench[0].cases()[name]()
    except Exception as error:
        entry = {"failed": f"{type(error).__name__}: {str(error)[:700]}"}
    return entry, time.process_time() - started


def digests(only: str, jobs: int) -> Iterator[tuple[str, Entry]]:
    """Run all cases that match in some processes and yield names and digests as cases end."""
    with tempfile.TemporaryDirectory() as folder:
        names = selected(Bench(Path(folder)).cases(), only)
        with ProcessPoolExecutor(jobs, get_context("spawn"), open_bench, (folder,)) as pool:
            running = {pool.submit(run_case, name): name for name in names}
            for done in as_completed(running):
                entry, seconds = done.result()
                if "failed" in entry:
                    print(f"{running[done]}: FAILED {entry['failed']}", file=sys.stderr, flush=True)
                elif seconds > SLOW_SECONDS:
                    print(f"{running[done]}: {seconds:.1f} s", file=sys.stderr, flush=True)
                yield running[done], entry
