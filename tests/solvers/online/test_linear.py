from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.data.dataset import Dataset
from okl.data.execution import Rows
from okl.data.order import Order
from okl.data.reading import read_rows
from okl.foundation.types import Task
from okl.solvers.online.linear import round_rows


def in_order(rows: Rows) -> NDArray[np.float64]:
    """Return sorted rows, to compare as sets; no two have the same inputs."""
    table = np.column_stack([rows.inputs.astype(np.float64), rows.targets])
    assert len(np.unique(table[:, 0])) == len(table)
    ordered: NDArray[np.float64] = table[np.argsort(table[:, 0])]
    return ordered


@pytest.mark.parametrize("order", ["stored", "shuffle"])
@pytest.mark.parametrize("rounds", [1, 3, 7, 1000])
@pytest.mark.parametrize("windows", ["one window", "small windows"])
def test_rounds_cut_each_shard_into_slices_that_cover_it_once(
    order: Order, rounds: int, windows: str, learnable: dict[Task, Dataset], request: pytest.FixtureRequest
) -> None:
    data = learnable["regression"]
    if windows == "small windows":
        request.getfixturevalue("small_windows")
    shards = data.split("train")[:1] if rounds > 100 else data.split("train")
    for shard in shards:
        parts = [round_rows(data, shard, order, (3, 0), (index, rounds), "float32") for index in range(rounds)]
        sizes = [len(part.targets) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        whole = Rows(np.concatenate([p.inputs for p in parts]), np.concatenate([p.targets for p in parts]))
        stored = read_rows(data, shard, range(len(shard.row_groups)), "float32")
        np.testing.assert_array_equal(in_order(whole), in_order(stored))
        assert (order == "stored") == np.array_equal(whole.inputs, stored.inputs)


def test_slices_differ_by_seed_pass_and_shard(learnable: dict[Task, Dataset]) -> None:
    data = learnable["regression"]
    first, second = data.split("train")[:2]
    taken = {
        round_rows(data, shard, "shuffle", seed, (0, 4), "float32").inputs.tobytes()
        for shard in (first, second)
        for seed in ((3, 0), (3, 1), (4, 0))
    }
    assert len(taken) == 6


def test_one_process_reads_each_scaling_separately(learnable: dict[Task, Dataset]) -> None:
    data = learnable["regression"]
    shard = data.split("train")[0]
    for scale in ("none", "minmax", "standard"):
        scaled = replace(data, schema=replace(data.schema, scale=scale))
        rows = round_rows(scaled, shard, "stored", (3, 0), (0, 1), "float32")
        stored = read_rows(scaled, shard, range(len(shard.row_groups)), "float32")
        assert np.array_equal(rows.inputs, stored.inputs), scale
