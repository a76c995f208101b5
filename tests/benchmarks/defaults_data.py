"""Sets and splits for the benchmark of defaults: ingested once per seed by okl, read back for its peers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import okl
from okl.data.dataset import Dataset
from okl.foundation.types import FloatArray, Split, Task

LEAST_ROWS = 500  # a set must have more
MANY_ROWS = 5_000  # from this many rows on, one split is enough
FEW_ROWS = 2_000  # all splits of smaller sets come first, then one split of each other set
SEEDS_OF_FEW = 5
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Case:
    """One split of one set: the official one of a large set that has one, else a holdout by the seeded hash."""

    name: str
    task: Task
    rows: int
    official: bool
    seed: int

    @property
    def metric(self) -> str:
        """Return the name of the compared metric."""
        return "mse" if self.task == "regression" else "accuracy"

    def dataset(self, folder: Path) -> Dataset:
        """Return the data set of this split, made if missing; inputs and targets as stored, without scaling."""
        options: dict[str, Any] = {"task": self.task, "seed": self.seed}
        if not self.official:
            options |= {"holdout": TEST_SHARE, "drop": ("split",) if self._has_split() else ()}
        return okl.ingest(self._source(), folder / f"{self.name}-{self.seed}", **options)

    def _source(self) -> Path:
        return Path(os.environ["OKL_DATA"]) / f"{self.name}.parquet"

    def _has_split(self) -> bool:
        return "split" in pq.read_schema(self._source()).names


def list_cases(names: list[str]) -> list[Case]:
    """Return the splits of the named sets (default: all) of the folder OKL_DATA, small sets and first splits first."""
    described: dict[str, dict[str, Any]] = json.loads((Path(os.environ["OKL_DATA"]) / "MANIFEST.json").read_text())
    large = {name: facts for name, facts in described.items() if facts["rows"] > LEAST_ROWS}
    if unknown := set(names) - set(large):
        raise SystemExit(f"{', '.join(sorted(unknown))}: expected names among {', '.join(sorted(large))}.")
    cases = []
    for name in names or large:
        facts = large[name]
        many = facts["rows"] >= MANY_ROWS
        for seed in range(1 if many else SEEDS_OF_FEW):
            task = cast(Task, facts["task"])
            cases.append(Case(name, task, facts["rows"], official=many and "split" in facts, seed=seed))
    return sorted(cases, key=lambda case: (case.rows >= FEW_ROWS and case.seed, case.rows, case.name, case.seed))


def read_split(data: Dataset, split: Split) -> tuple[FloatArray, FloatArray]:
    """Return all rows of a split as stored: inputs (rows, columns) float32, targets (rows,) float64."""
    table = pa.concat_tables([pq.read_table(str(data.path(shard))) for shard in data.split(split)])
    inputs = np.empty((table.num_rows, data.schema.n_features), dtype=np.float32)
    for index, name in enumerate(data.schema.features):
        inputs[:, index] = table[name].to_numpy()
    return inputs, table[data.schema.target].to_numpy().astype(np.float64)


class Measurements:
    """Flat rows in a Parquet file, one per measurement; each is written to disk when it is added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = pq.read_table(path).to_pylist() if path.exists() else []

    def holds(self, case: Case, method: str) -> bool:
        """Return whether this has been measured."""
        return any((row["set"], row["seed"], row["method"]) == (case.name, case.seed, method) for row in self.rows)

    def add(self, case: Case, data: Dataset, measured: dict[str, Any]) -> None:
        """Add a row: the split and its measurements."""
        split = {"set": case.name, "seed": case.seed, "task": case.task, "metric": case.metric}
        sizes = {f"{name}_rows": data.rows(name) for name in ("train", "test")}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self.rows.append(split | sizes | {"source": data.source_sha256, "measured_at": at} | measured)
        unfinished = self.path.with_suffix(".unfinished")
        columns = dict.fromkeys(name for row in self.rows for name in row)
        pq.write_table(pa.table({name: [row.get(name) for row in self.rows] for name in columns}), unfinished)
        unfinished.replace(self.path)
