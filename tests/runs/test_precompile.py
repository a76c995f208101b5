"""After compiling ahead a run finds the machine code of all that it learns and scores with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.runs.precompile import ROWS, compile_ahead, synthetic_rows
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings as ingest_settings
from tests.rows import curved, write

COUNTS = """
import json, sys
from numba.core.dispatcher import Dispatcher
from okl.solvers.settings import TrainSettings
from okl.runs.train import TrainingRun
from okl.runs.precompile import compile_ahead

def compiled():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("okl.compiled."):
            for value in vars(module).values():
                if isinstance(value, Dispatcher):
                    found[value.py_func.__name__] = len(value.signatures)
    return found

settings = TrainSettings(**json.loads(sys.argv[1]))
compile_ahead(settings)
ahead, run = compiled(), TrainingRun(settings)
for stage in ("ingest", "plan", "learn", "evaluate"):
    run.perform_stage(stage)
run.close()
print(json.dumps([ahead, compiled()]))
"""
READING = {"scatter_columns", "shuffle_from"}  # compiled by the stage that reads, in a tenth of the time


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("set")
    ingest(write(place, curved(3000, "multiclass")), place / "set", ingest_settings(scale="standard"))
    return place


@pytest.mark.parametrize("values", [{"solver": "fogd"}, {"solver": "rbp"}], ids=["experts", "rbp"])
def test_nothing_but_reading_is_compiled_after_the_machine_code_was_made_ahead(
    values: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    settings = json.dumps({"data": str(folder / "set"), "out": str(tmp_path / "run"), "threads": 2} | values)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).absolute().parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", COUNTS, settings], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ahead, after = json.loads(done.stdout)
    assert sum(ahead.values()) > 3  # code from the disk comes without what is inlined in it
    assert {name for name, count in after.items() if count > ahead.get(name, 0)} <= READING


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_made_up_rows_are_like_those_of_the_data(task: Task, tmp_path: Path) -> None:
    source = write(tmp_path, curved(400, task))
    options = ingest_settings(scale="minmax", scale_target=task == "regression")
    data = ingest(source, tmp_path / "set", options).dataset
    rows = synthetic_rows(data.schema, settings_from(TrainSettings, {"data": "rows", "precision": "float64"}, "test"))
    assert rows.inputs.shape == (ROWS, 3)
    assert rows.inputs.dtype == np.float64
    assert np.all(np.abs(rows.inputs.mean(axis=0) - 0.5) < 0.3)
    wanted = {"binary": {-1.0, 1.0}, "multiclass": {0.0, 1.0, 2.0}}
    assert task == "regression" or set(rows.targets.tolist()) == wanted[task]


def test_what_cannot_be_learnt_ahead_is_left_to_the_run(folder: Path) -> None:
    large = {"budget": 10**6, "solver": "rbp"}
    for values in ({}, {"mode": "sum"}, {"solver": "fogd", "workers": 2}, large, {"solver": "nogd", "rank": 9}):
        compile_ahead(settings_from(TrainSettings, {"data": str(folder / "set")} | values, "test"))
    compile_ahead(settings_from(TrainSettings, {"data": str(folder / "rows.parquet")}, "test"))
    assert open_dataset(folder / "set").rows("train") > 0
