"""The mapped rows of one shard: held while there is room, otherwise read and mapped again, with the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.rowpasses import add_rows, multiply_rows
from okl.execution.protocol import Rows
from okl.execution.resident import resident
from okl.features.protocol import FeatureMap
from okl.spans import Span
from okl.store.dataset import Dataset, Shard
from okl.store.reading import read_rows
from okl.timeline import MAP
from okl.types import FloatArray

SEGMENT = 4096  # rows mapped and summed in one go: fixed, so that bits depend on nothing else


@dataclass(frozen=True, eq=False)
class MappedRows:
    """z(x) of the rows of a data set, shard by shard; cheap to send.

    Parameters
    ----------
    data : whose inputs are mapped; feature_map : z, whose precision the mapped rows have
    tag : names data and map in the process cache (see okl.execution.resident), whose bound is the memory budget
    """

    data: Dataset
    feature_map: FeatureMap
    tag: str

    @property
    def n_columns(self) -> int:
        """Columns of the map."""
        return self.feature_map.n_columns

    def blocks(self, shard: Shard) -> Iterator[tuple[slice, Rows]]:
        """Segments of mapped rows with their targets, in the stored order, and their place in the shard."""
        first = 0
        for group, rows in enumerate(shard.row_groups):
            read: list[Rows] = []  # at most once for the segments of a group
            for start in range(0, rows, SEGMENT):
                key = (self.tag, shard.sha256, group, start)
                block = resident(key, lambda: self._mapped(shard, group, start, read))  # noqa: B023  (called at once)
                yield slice(first + start, first + start + len(block.targets)), block
            first += rows

    def pull(self, out: FloatArray, shard: Shard, signs: FloatArray, vector: FloatArray) -> None:
        """Overwrite out (m,) by s_i <z_i, vector>: one read."""
        for cut, block in self.blocks(shard):
            multiply_rows(out[cut], block.inputs, signs[cut], vector)

    def image(self, shard: Shard, signs: FloatArray, point: FloatArray) -> NDArray[np.float64]:
        """Sum of s_i a_i z_i, (n_columns,), segment by segment: one read."""
        total, part = np.zeros(self.n_columns), np.empty(self.n_columns)
        for cut, block in self.blocks(shard):
            part[:] = 0.0
            add_rows(part, block.inputs, signs[cut], point[cut])
            total += part
        return total

    def targets(self, shard: Shard) -> tuple[NDArray[np.float64], float]:
        """Targets (m,), and the largest ||z_i||^2."""
        targets, longest = np.empty(shard.rows), 0.0
        for cut, block in self.blocks(shard):
            targets[cut] = block.targets
            lengths = np.einsum("ij,ij->i", block.inputs, block.inputs, dtype=np.float64)
            longest = max(longest, float(lengths.max()))
        return targets, longest

    def _mapped(self, shard: Shard, group: int, start: int, read: list[Rows]) -> Rows:
        if not read:
            read.append(read_rows(self.data, shard, (group,), self.feature_map.precision))
        cut = slice(start, start + SEGMENT)
        with Span(MAP):
            mapped = self.feature_map.transform(read[0].inputs[cut])
        return Rows(mapped, read[0].targets[cut].copy())
