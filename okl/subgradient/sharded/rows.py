"""The mapped rows of a sample of one shard: held while there is room, otherwise read and mapped again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from okl.execution.protocol import Rows
from okl.execution.resident import resident
from okl.features.protocol import FeatureMap
from okl.spans import Span
from okl.store.dataset import Dataset, Shard
from okl.store.runs import LastGroup, RowRuns, bytes_of_runs, read_runs
from okl.subgradient.drawing import Design, cut_runs
from okl.timeline import MAP
from okl.types import FloatArray

SEGMENT = 4096  # rows mapped and summed in one go: fixed, so that bits depend on nothing else


@dataclass(frozen=True, eq=False)
class SampledRows:
    """z(x) of the sampled rows of a data set, shard by shard; cheap to send.

    Parameters
    ----------
    data : whose rows are drawn; feature_map : z, whose precision the mapped rows have; design : how they are drawn
    constant : whether a last column of ones is appended, for a bias that is regularised like a weight
    tag : names data and map in the process cache (see okl.execution.resident), whose bound is the memory budget
    """

    data: Dataset
    feature_map: FeatureMap
    design: Design
    constant: bool
    tag: str

    @property
    def n_columns(self) -> int:
        """Columns of the map, and the constant one."""
        return self.feature_map.n_columns + int(self.constant)

    def segments(self, shard: Shard, share: float, beyond: float) -> list[Segment]:
        """The rows of a sample that were not in a smaller one, as pieces of at most SEGMENT rows."""
        runs = cut_runs(self.design.runs(self.data, shard, share, beyond), SEGMENT)
        ends, found, begin = np.cumsum(runs.rows), [], 0
        while begin < len(runs.groups):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + SEGMENT, side="right")))
            # index: by it, too, runs are drawn, and two shards may have the same bytes
            key = (self.tag, self.design, shard.index, shard.sha256, share, beyond, begin)
            found.append(Segment(runs.part(slice(begin, end)), int(ends[end - 1]) - before, key))
            begin = end
        return found

    def blocks(self, shard: Shard, segments: list[Segment]) -> Iterator[tuple[slice, Rows]]:
        """Segments of mapped rows with their targets, and their place among all of them."""
        last, first = LastGroup(), 0
        for segment in segments:
            block = resident(segment.key, lambda: self.load(shard, segment.runs, last))  # noqa: B023  (called at once)
            yield slice(first, first + segment.rows), block
            first += segment.rows

    def load(self, shard: Shard, runs: RowRuns, last: LastGroup | None = None) -> Rows:
        """Read runs of a shard, and map them."""
        rows = read_runs(self.data, shard, runs, self.feature_map.precision, last)
        return Rows(self.mapped(rows.inputs), rows.targets.copy())

    def mapped(self, inputs: FloatArray) -> FloatArray:
        """z of inputs, with the constant."""
        with Span(MAP):
            features = self.feature_map.transform(inputs)
        if not self.constant:
            return features
        return np.concatenate([features, np.ones((len(features), 1), dtype=features.dtype)], axis=1)

    def bytes_of(self, shard: Shard, segments: list[Segment], footer: bool) -> int:
        """Bytes of the file that reading segments once takes. footer : whether nothing of it was read before."""
        if not segments:
            return 0
        runs = [segment.runs for segment in segments]
        joined = RowRuns(*(np.concatenate(column) for column in zip(*runs, strict=True)))
        return bytes_of_runs(self.data, shard, joined, footer)


@dataclass(frozen=True, eq=False)
class Segment:
    """Runs of a shard that are read, mapped and held together. key : in the process cache."""

    runs: RowRuns
    rows: int
    key: tuple[object, ...]
