"""How far any point is from the optimum over all rows, whoever found it: exactly, or from fresh samples."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np

from okl.accelerated.sharded.beside import Beside
from okl.accelerated.sharded.rounds import Log
from okl.checks import check_positive
from okl.execution.protocol import Execution
from okl.features.protocol import FeatureMap
from okl.store.dataset import Dataset
from okl.subgradient.certificate import REPLICATES, FullBound, replicated_bound
from okl.subgradient.drawing import Design
from okl.subgradient.losses import PiecewiseLinear
from okl.subgradient.scs import Scs
from okl.subgradient.sharded.beside import OpenSample
from okl.subgradient.sharded.descent import begin, iterate, place, squared
from okl.subgradient.sharded.rows import SampledRows
from okl.types import FloatArray

REPLICATE_ROWS = 10_000
_ACCURACY = 0.05  # of the gap: how near the optimum over all rows must be known
_MOST_ITERATIONS = 1000
_SEED = 5


@dataclass(frozen=True)
class Prover:
    """Bounds F(w) - min F over all rows, F(w) = lam/2 ||w||^2 + mean_i loss(y_i, <w, z(x_i)>).

    Rows that are no more than those of all fresh samples together are all taken, and the bound is exact.

    Parameters
    ----------
    loss, lam : of the problem; confidence : in (0, 1), of a bound that is not exact
    replicates, replicate_rows : fresh samples, and rows of each; solved_to : the gap that each is solved to
    seed : of the samples; a point that was learnt from other random numbers does not depend on them

    Raises
    ------
    ConfigError : a number outside its range
    """

    loss: PiecewiseLinear
    lam: float
    confidence: float = 0.95
    replicates: int = REPLICATES
    replicate_rows: int = REPLICATE_ROWS
    solved_to: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("solved_to", self.solved_to)

    def bound(self, data: Dataset, feature_map: FeatureMap, weights: FloatArray, execution: Execution) -> FullBound:
        """The bound of a point (n_columns,) or (n_outputs, n_columns) in a map.

        Raises
        ------
        DataError : shards that cannot be read
        """
        rows = SampledRows(data, feature_map, Design.of(data, self.seed, _SEED), False, secrets.token_hex(8))
        point, n_all = np.array(weights, dtype=np.float64), data.rows("train")
        if self.replicates * self.replicate_rows >= n_all:
            return self._exact(rows, point, execution)
        method = Scs(lam=self.lam, loss=self.loss, gap=self.solved_to)
        outputs, share = data.schema.n_outputs, self.replicate_rows / n_all
        return replicated_bound(rows, point, method, outputs, share, self.confidence, execution, self.replicates)

    def _exact(self, rows: SampledRows, point: FloatArray, execution: Execution) -> FullBound:
        work = Beside(secrets.token_hex(8), OpenSample(rows, self.loss, rows.data.schema.n_outputs))
        drawn, log = place(work, Log(), (1.0,), point, execution)
        here = drawn.new_losses / drawn.new_rows + 0.5 * self.lam * squared(point)
        at = begin(Scs(lam=self.lam, loss=self.loss), (1.0,), point, drawn, 0, (work, log), execution)
        while at.gap > _ACCURACY * (here - at.lower_bound) and not at.exhausted and at.iterations < _MOST_ITERATIONS:
            at = iterate(at, execution)
        return FullBound(here - at.lower_bound, here, None, rows=drawn.new_rows, bytes_read=drawn.bytes_read)
