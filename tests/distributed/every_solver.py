"""The list of cases: every solver of the command line, in every way in which it uses workers, on a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.types import Task
from okl.solvers.accelerated.models import MODEL_NAMES
from okl.solvers.factory import make_solver, training_columns
from okl.solvers.online.budget import BudgetStrategy
from okl.solvers.online.settings import OnlineSettings
from okl.solvers.online.strategies import STRATEGIES
from okl.solvers.settings import SOLVER_NAMES, TrainSettings, solver_settings

ROWS, SHARD_ROWS, CLASSES = 700, 150, 3
IN_ROUNDS = {"rounds": 2, "seed": 3}
IN_A_MAP = {"frequencies": 8, "seed": 3}
CONSTRAINTS = ("covariance(x1) <= 0.1", "norm <= 5")
EXACTLY = {"kernel": "polynomial", "degree": 2, "map": "exact"}

Case = tuple[str, Task, dict[str, Any]]


def _budget(name: str) -> dict[str, Any]:
    return {"budget": 15} if issubclass(STRATEGIES[name], BudgetStrategy) else {}


def _step(solver: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return a step size for solvers that have one, so that none is selected by comparison."""
    needs_step = solver in ("fogd", "nogd") and not {"track", "constraints", "radius"} & set(options)
    return {"step_size": 0.1} if needs_step else {}


CASES: dict[str, Case] = {
    f"fogd-{mode}-{task}": ("fogd", task, IN_A_MAP | {"mode": mode} | ({} if mode == "stream" else IN_ROUNDS))
    for mode in ("stream", "mix", "sum")
    for task in ("binary", "multiclass", "regression")
}
CASES |= {
    "fogd-in-a-ball": ("fogd", "binary", IN_A_MAP | {"mode": "stream", "radius": 5.0}),
    "fogd-constrained": ("fogd", "binary", IN_A_MAP | {"constraints": CONSTRAINTS}),
    "fogd-tracking": ("fogd", "binary", IN_A_MAP | {"mode": "stream", "track": True}),
    "nogd-mix": ("nogd", "multiclass", IN_ROUNDS | {"mode": "mix", "budget": 20, "rank": 6}),
    "nogd-sum": ("nogd", "regression", IN_ROUNDS | {"mode": "sum", "budget": 20, "rank": 6}),
    "pegasos-stream": ("pegasos", "binary", IN_A_MAP | {"mode": "stream"}),
    "pegasos-mix": ("pegasos", "multiclass", IN_A_MAP | IN_ROUNDS | {"mode": "mix"}),
    "scs": ("scs", "binary", IN_A_MAP | {"first_sample": 60, "max_iterations": 4, "gap": 0.001}),
    "scs-multiclass": ("scs", "multiclass", IN_A_MAP | {"first_sample": 60, "max_iterations": 4, "gap": 0.001}),
    "scs-exact": ("scs", "binary", EXACTLY | {"gap": 0.05, "seed": 3}),
    "wolfe": ("wolfe", "regression", IN_A_MAP | {"max_iterations": 3, "gap": 0.001}),
}
CASES |= {
    name: (name, "multiclass" if i % 2 and name != "tvm" else "binary", IN_ROUNDS | {"mode": "mix"} | _budget(name))
    for i, name in enumerate(STRATEGIES)
}
CASES |= {
    name: (name, "multiclass" if name == "logistic" else "binary", IN_A_MAP | {"max_iterations": 1, "tol": 1e-9})
    for name in MODEL_NAMES
}
CASES |= {
    f"{solver}-{task}": (solver, task, {"n_landmarks": 40, "seed": 3})
    for solver in ("ridge", "falkon")
    for task in ("binary", "multiclass", "regression")
}
CASES |= {  # online solvers without a case above
    name: (name, "binary", IN_ROUNDS | {"mode": "mix"})
    for name in SOLVER_NAMES
    if name not in {solver for solver, _, _ in CASES.values()} and issubclass(solver_settings(name), OnlineSettings)
}
for name in ("falkon-binary", "falkon-multiclass"):  # falkon-regression chooses its penalty
    CASES[name][2]["penalty"] = 1e-4
IN_CELLS = {"cell_rows": 60, "partitions": 2, "seed": 3}
CASES |= {
    "local-binary": ("local", "binary", IN_CELLS | {"bandwidth": "auto"}),
    "local-multiclass": ("local", "multiclass", IN_CELLS),
    "local-regression": ("local", "regression", IN_CELLS | {"penalty": 1e-3}),
}
CASES["ridge-linear"] = ("ridge", "binary", {"kernel": "linear", "bandwidth": "auto", "seed": 3})


def make_datasets(folder: Path) -> dict[Task, Dataset]:
    """Return one data set per task: five shards of different lengths, whose rows are not perfectly separable."""
    random = np.random.default_rng(11)
    inputs = random.normal(size=(ROWS, 4))
    curve = np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + 0.4 * random.normal(size=ROWS)
    targets = {"binary": (curve > 0.3).astype(int), "multiclass": np.digitize(curve, [-0.5, 0.6]), "regression": curve}
    datasets: dict[Task, Dataset] = {}
    for task, target in targets.items():
        source = folder / f"{task}.parquet"
        pq.write_table(pa.table({f"x{j}": inputs[:, j] for j in range(4)} | {"y": target}), source)
        options = IngestSettings(
            rows_per_shard=SHARD_ROWS, rows_per_group=64, scale="standard", scale_target=task == "regression"
        )
        data = ingest(source, folder / task, options).dataset
        assert data.schema.task == task
        assert [shard.rows for shard in data.split("train")] == [150, 150, 150, 150, 100]
        datasets[data.schema.task] = data
    assert np.unique(targets["multiclass"]).tolist() == list(range(CLASSES))
    return datasets


def solver_of(case: str, data: dict[Task, Dataset]) -> tuple[Any, Dataset]:
    """Return the solver of a case as the command line makes it, and the columns that it trains on."""
    name, task, options = CASES[case]
    values = {"data": "data", "solver": name, "bandwidth": 2.0} | _step(name, options) | options
    settings = settings_from(TrainSettings, values, case)
    columns = training_columns(settings, data[task])
    return make_solver(settings, columns), columns
