"""okl with the examples of the page "Add to okl": each file as a module, with its line in the catalogue.

python -m tests.docs.added FOLDER uses all of them in every way that okl offers, and prints the results as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "infra" / "docs" / "examples" / "added").glob("*.py"))


class Added(NamedTuple):
    """An example: its module, its table in the catalogue, and its line in that table."""

    module: str
    table: str
    line: str

    @classmethod
    def of(cls, path: Path) -> Added:
        file, line = path.read_text().splitlines()[:2]
        location = re.fullmatch(r"# File: (okl/[\w/]+)\.py", file)
        entry = re.fullmatch(r"# ([A-Z]+): (\".*\",)", line)
        assert location, file
        assert entry, line
        return cls(location[1].replace("/", "."), entry[1], entry[2])


class _Finder:
    """A finder of the examples by module name."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self.files[name]) if name in self.files else None


def add_all() -> None:
    """Add every example; call this before any module below okl is imported."""
    assert not [name for name in sys.modules if name.startswith("okl.foundation.settings")]
    path = ROOT / "okl" / "foundation" / "catalogue.py"
    text = path.read_text()
    for example in map(Added.of, FILES):
        text, n_tables = re.subn(rf"(?sm)^({example.table} = [{{(]\n.*?)^([)}}])", rf"\1    {example.line}\n\2", text)
        assert n_tables == 1, example
    catalogue = ModuleType("okl.foundation.catalogue")
    catalogue.__file__ = str(path)
    sys.modules[catalogue.__name__] = catalogue
    exec(compile(text, str(path), "exec"), vars(catalogue))
    sys.meta_path.insert(0, _Finder({Added.of(path).module: path for path in FILES}))


def main(folder: Path) -> dict[str, Any]:
    """Use the added examples and return the results."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import okl
    from flows.cli.options import TRAIN, help_for, solver_parameters
    from okl.estimators.online import BudgetKernelClassifier, FOGDClassifier
    from okl.foundation.errors import OklError
    from okl.foundation.settings import settings_from
    from okl.report import figures
    from okl.runs.candidates import FACTORS
    from okl.runs.compare_models import ONLINE_NAMES
    from okl.runs.compare_settings import CompareSettings
    from okl.solvers.settings import solver_settings
    from tests.rows import compare

    figures.svg = lambda figure: "<svg/>"  # the figures are not used
    random = np.random.default_rng(5)
    inputs = random.normal(size=(900, 4)).astype(np.float32)
    labels = (np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] > 0.2).astype(int)
    source = folder / "rows.parquet"
    pq.write_table(pa.table({f"x{j}": inputs[:, j] for j in range(4)} | {"y": labels}), source)
    ingest = okl.IngestSettings(holdout=0.3, scale="standard")

    def trained(name: str, **values: Any) -> Any:
        options = {"data": str(source), "ingest": ingest, "out": str(folder / name)} | values
        return okl.train(settings_from(okl.TrainSettings, options, name))

    def refusal(**values: Any) -> str:
        try:
            trained("refused", **values)
        except OklError as error:
            return str(error)
        return ""

    runs = {
        "solver": trained("solver", solver="adaline", kernel="rational", passes=3),
        "strategy": trained("strategy", solver="stoptron", kernel="rational", budget=300, passes=2),
        "loss": trained("loss", solver="fogd", loss="squared-hinge", mode="sum", step_size=0.5),
    }
    names = "stoptron,adaline"
    data, out = str(folder / "loss" / "data"), str(folder / "compared")
    compared = compare(CompareSettings(data=data, models=names, kernel="rational", frequencies=200, folds=2, out=out))
    exported = okl.export(runs["solver"]["model"], folder / "solver.onnx")
    try:
        okl.export(runs["strategy"]["model"], folder / "strategy.onnx")
    except OklError as error:
        unexported = str(error)
    estimators = [
        FOGDClassifier(kernel="rational", loss="squared-hinge", random_state=0),
        BudgetKernelClassifier(strategy="stoptron", kernel="rational", random_state=0),
    ]
    schema = okl.TrainSettings.model_json_schema()["properties"]
    return {
        "test": {name: run.test for name, run in runs.items()},
        "baselines": {name: run.baselines["majority"]["test"] for name, run in runs.items()},
        "report": {name: run.report.read_text() for name, run in runs.items()},
        "compared": {row["model"]: row["mean"] for row in compared["models"]},
        "exported": [exported["largest_difference"], unexported],
        "estimators": [
            float(estimator.fit(inputs[:600], labels[:600]).score(inputs[600:], labels[600:]))
            for estimator in estimators
        ],
        "help": {name: help_for(solver_settings("fogd"), name) for name in ("kernel", "loss")},
        "summary": {name: solver_settings(name).SUMMARY for name in ("stoptron", "adaline")},
        "solver help": [parameter.name for parameter in solver_parameters(TRAIN, "adaline")],
        "forms": {name: schema[name]["enum"] for name in ("solver", "kernel", "loss")},
        "tried": list(FACTORS["rational"]),
        "online": list(ONLINE_NAMES),
        "refusals": {
            "loss": refusal(solver="stoptron", loss="squared-hinge"),
            "merging": refusal(solver="bsgd-merging", kernel="rational"),
            "radius": refusal(solver="fogd", loss="squared-hinge", radius=2.0),
            "map": refusal(solver="fogd", kernel="rational", map="orthogonal"),
            "task": refusal(solver="adaline", loss="hinge"),
            "option": refusal(solver="stoptron", frequencies=50),
            "name": refusal(solver="fogd", kernel="rationale"),
        },
    }


if __name__ == "__main__":
    add_all()
    print(json.dumps(main(Path(sys.argv[1]))))
