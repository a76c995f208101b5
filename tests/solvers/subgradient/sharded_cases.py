"""A data set in four shards, solvers on it, and runs of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.data.reading import read_rows
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.types import FloatArray, Task
from okl.solvers.online.maps import FourierChoice
from okl.solvers.subgradient.losses import DEFAULT_LOSS, make_piecewise
from okl.solvers.subgradient.sharded import SubgradientState
from okl.solvers.subgradient.solver import SubgradientSolver
from tests.solvers.accelerated.sharded_cases import Watched

ROWS, N_FREQUENCIES = 2600, 16


def sharded(folder: Path, task: Task = "binary", rows: int = ROWS, **values: Any) -> Dataset:
    """Return overlapping classes, or a noisy curve, in four shards of unequal length."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(rows, 4)).astype(np.float32)
    curve = np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + 0.5 * random.normal(size=rows)
    target = {"binary": curve > 0.4, "multiclass": np.digitize(curve, [-0.5, 0.7]), "regression": curve}[task]
    columns = {f"x{j}": inputs[:, j] for j in range(4)} | {"y": target if task == "regression" else target.astype(int)}
    pq.write_table(pa.table(columns), folder / "source.parquet")
    given = {"rows_per_shard": rows * 7 // 26, "rows_per_group": 300, "compression": "none"} | values
    data = ingest(folder / "source.parquet", folder / "data", settings_from(IngestSettings, given, "test")).dataset
    assert data.schema.task == task
    assert [shard.rows for shard in data.split("train")] == [rows * part // 26 for part in (7, 7, 7, 5)]
    return data


def solver(task: Task = "binary", **values: Any) -> SubgradientSolver:
    given: dict[str, Any] = {"maps": FourierChoice(n_frequencies=N_FREQUENCIES), "first_sample": 200}
    given |= {"lam": 0.01, "gap": 1e-3, "loss": make_piecewise(DEFAULT_LOSS[task]), "seed": 3}
    return SubgradientSolver(**given | values)


def states(learning: SubgradientSolver, data: Dataset, execution: Any) -> list[SubgradientState]:
    found = [learning.start(data, execution)]
    while learning.finished(found[-1]) is None:
        found.append(learning.advance(found[-1], data, execution))
    return found


class Seeing(Watched):
    """An execution that calls a function before some of its rounds and forwards map unchanged."""

    def map(self, work: Any, items: Sequence[Any]) -> Any:
        return self._execution.map(work, items)


def last_state(learning: SubgradientSolver, data: Dataset, execution: Any) -> SubgradientState:
    return states(learning, data, execution)[-1]


def bits(learning: SubgradientSolver, state: SubgradientState) -> tuple[Any, ...]:
    """Return all values that were learnt, and the history, as bytes."""
    arrays = {name: array.tobytes() for name, array in learning.predictor(state).arrays().items()}
    return arrays, learning.certificate(state), learning.chosen(state), state.descent.weights.tobytes()


def in_memory(state: SubgradientState, data: Dataset) -> tuple[FloatArray, FloatArray]:
    """Return all mapped rows with their targets."""
    parts = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split("train")]
    inputs = np.concatenate([part.inputs for part in parts])
    return state.rows.mapped(inputs), np.concatenate([part.targets for part in parts])
