"""What stands beside a shard while a sample is solved: its rows, and scores of a point and of a direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.sharded.messages import Verdict
from okl.compiled.cutpasses import add_sloped_rows, add_sloped_rows_of_classes, score_rows, score_rows_of_classes
from okl.store.dataset import Shard
from okl.subgradient.losses import PiecewiseLinear
from okl.subgradient.sharded.rows import SampledRows, Segment
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class OpenSample:
    """Makes what stands beside a shard. rows : of all shards; loss : of a row; n_outputs : scores a row."""

    rows: SampledRows
    loss: PiecewiseLinear
    n_outputs: int

    def __call__(self, shard: Shard) -> SampleVectors:
        """Of no rows."""
        return SampleVectors(self, shard)


class SampleVectors:
    """The sampled rows of a shard, with scores (n,) or (n, n_outputs) float64, in private buffers."""

    def __init__(self, opening: OpenSample, shard: Shard) -> None:
        self.opening, self.shard = opening, shard
        self.shares: tuple[float, ...] = ()
        self.segments: list[Segment] = []
        self.targets = np.empty(0)
        self.scores = self.along = self._zeros()

    @property
    def n_rows(self) -> int:
        """Rows of this shard in the sample."""
        return sum(segment.rows for segment in self.segments)

    def draw(self, shares: tuple[float, ...]) -> list[Segment]:
        """Have the rows of a sample that grew through these shares; the segments that are new here."""
        if shares == self.shares:
            return []
        if shares[: len(self.shares)] != self.shares:
            self.segments, self.shares = [], ()
        known, rows = len(self.segments), self.opening.rows
        for stage in range(len(self.shares), len(shares)):
            beyond = shares[stage - 1] if stage else 0.0
            self.segments = [*self.segments, *rows.segments(self.shard, shares[stage], beyond)]
        self.shares = shares
        self.targets = np.empty(self.n_rows)
        for cut, block in rows.blocks(self.shard, self.segments):
            self.targets[cut] = block.targets
        return self.segments[known:]

    def scores_of(self, weights: FloatArray) -> FloatArray:
        """<w, z_i> of all rows: one read."""
        out = self._zeros()
        score = score_rows if self.opening.n_outputs == 1 else score_rows_of_classes
        for cut, block in self.opening.rows.blocks(self.shard, self.segments):
            score(out[cut], block.inputs, weights)
        return out

    def gathered(self, slopes: FloatArray) -> FloatArray:
        """Sum of slope_i (x) z_i, (n_columns,) or (n_outputs, n_columns), segment by segment: one read."""
        columns, outputs = self.opening.rows.n_columns, self.opening.n_outputs
        total = np.zeros(columns if outputs == 1 else (outputs, columns))
        add = add_sloped_rows if outputs == 1 else add_sloped_rows_of_classes
        part = np.empty_like(total)
        for cut, block in self.opening.rows.blocks(self.shard, self.segments):
            part[:] = 0.0
            add(part, block.inputs, slopes[cut])
            total += part
        return total

    def settle(self, verdict: Verdict) -> None:
        """Nothing: commands have moved the scores already."""

    def saved(self) -> NDArray[np.float64]:
        """All that is not in the files: how many shares there are, the shares, the scores."""
        return np.concatenate([[len(self.shares)], self.shares, self.scores.ravel()])

    def restore(self, saved: NDArray[np.float64]) -> None:
        """From what was saved."""
        stages = int(saved[0])
        self.draw(tuple(saved[1 : 1 + stages].tolist()))
        self.scores, self.along = self._zeros(), self._zeros()
        self.scores.ravel()[:] = saved[1 + stages :]

    def _zeros(self) -> FloatArray:
        outputs = self.opening.n_outputs
        return np.zeros(self.n_rows if outputs == 1 else (self.n_rows, outputs))
