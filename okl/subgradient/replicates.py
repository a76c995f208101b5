"""Fresh samples, each solved on its own: what the full objective is at least, seen from rows that a point never met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from okl.errors import DataError
from okl.execution.protocol import Rows
from okl.store.dataset import Dataset, Shard
from okl.store.runs import bytes_of_runs, read_runs
from okl.subgradient.drawing import Design
from okl.subgradient.explicit import ExplicitRows
from okl.subgradient.scs import Scs, solve_sample
from okl.subgradient.sharded.rows import SampledRows
from okl.types import FloatArray, Precision

_MOST_DRAWS = 8  # until a sample has a row: each is twice as large


class Replicate(NamedTuple):
    """One sample: the point's objective there, a lower bound of any, rows drawn and bytes read of files."""

    objective: float
    lower_bound: float
    rows: int
    bytes_read: int


@dataclass(frozen=True, eq=False)
class ReplicateWork:
    """Work for `execution.map`: draws the sample of an index, and brackets its optimum.

    Both ends are unbiased for rows drawn each with the same probability p: losses are added up and divided by p times
    the number of all rows, whatever number of rows came. They go with other weights of the norm, which `lam` takes up.

    Parameters
    ----------
    rows : of all shards, drawn by designs that follow from its own and the index; share : p
    weights : the point, (n_columns,) or (n_outputs, n_columns)
    method : how a sample is solved, and how far; n_outputs : scores a row
    """

    rows: SampledRows
    share: float
    weights: FloatArray
    method: Scs
    n_outputs: int

    def __call__(self, index: int) -> Replicate:
        """The sample of an index."""
        design, share = self.rows.design.another(index), self.share
        for _ in range(_MOST_DRAWS):
            drawn, bytes_read = draw_rows(replace(self.rows, design=design), share)
            if len(drawn.targets):
                return self.bracket(drawn, len(drawn.targets) / (share * self._all_rows), bytes_read)
            share = min(1.0, 2.0 * share)
        raise DataError(f"{self.rows.data.folder}: a sample drew no row; is there any?")

    def bracket(self, drawn: Rows, total: float, bytes_read: int) -> Replicate:
        """The optimum of a sample and the point there; total : of the weights that rows have in it, about 1."""
        space = ExplicitRows(drawn.inputs, self.n_outputs)
        method = replace(self.method, lam=self.method.lam / total)
        start = space.vector(np.asarray(self.weights, dtype=np.float64))
        solved = solve_sample(space, drawn.targets, method, start)
        here = solved.history[0].objective
        return Replicate(total * here, total * solved.lower_bound, space.n_rows, bytes_read)

    @property
    def _all_rows(self) -> int:
        return self.rows.data.rows("train")


def draw_rows(rows: SampledRows, share: float) -> tuple[Rows, int]:
    """The mapped rows of a sample of all shards, in their order, and the bytes that were read."""
    parts: list[Rows] = []
    bytes_read = 0
    for shard in rows.data.split("train"):
        found, read = draw_of_shard(rows, shard, share)
        parts += found
        bytes_read += read
    return joined(parts, rows.n_columns), bytes_read


def joined(parts: Sequence[Rows], n_columns: int) -> Rows:
    """Rows of all parts, in their order."""
    if not parts:
        return Rows(np.empty((0, n_columns)), np.empty(0))
    inputs = np.concatenate([part.inputs for part in parts])
    return Rows(inputs, np.concatenate([part.targets for part in parts]))


def draw_inputs(data: Dataset, design: Design, n_rows: int, precision: Precision) -> tuple[FloatArray, int]:
    """Inputs of about so many rows, unmapped, and the bytes that were read: what a map is chosen by."""
    share = min(1.0, n_rows / max(1, data.rows("train")))
    parts, bytes_read = [np.empty((0, data.schema.n_features), dtype=precision)], 0
    while share <= 1.0 and not sum(map(len, parts)):
        for shard in data.split("train"):
            runs = design.runs(data, shard, share)
            parts.append(read_runs(data, shard, runs, precision).inputs)
            bytes_read += bytes_of_runs(data, shard, runs, footer=False)  # who draws the first sample counts it
        share = min(1.0, 2.0 * share) if share < 1.0 else 2.0
    return np.concatenate(parts), bytes_read


def draw_of_shard(rows: SampledRows, shard: Shard, share: float, beyond: float = 0.0) -> tuple[list[Rows], int]:
    """The mapped rows of a shard in the sample of a share and not in a smaller one, and the bytes that were read."""
    segments = rows.segments(shard, share, beyond)
    # not through the process cache: nobody asks for these rows again
    read = rows.bytes_of(shard, segments, beyond == 0.0)
    return [rows.load(shard, segment.runs) for segment in segments], read


def fresh(rows: SampledRows, *seed: int) -> SampledRows:
    """The same rows, drawn independently of the design that is there."""
    return replace(rows, design=rows.design.another(*seed))
