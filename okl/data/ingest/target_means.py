"""Target means: the inputs of text columns of many values, of TRAIN rows by the targets of other folds.

A TRAIN row takes the means of all TRAIN rows outside its fold, so its own target is not among its inputs; test rows and
new rows take those of all TRAIN rows. The fold of a row depends on its number and the seed alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from okl.data.dataset import Encoding
from okl.data.encoder import category_codes, encode
from okl.data.ingest.columns import Roles
from okl.data.ingest.targets import hash_share, stored_index
from okl.data.values import Mask
from okl.foundation.types import Doubles, FloatArray, Integers

N_FOLDS = 5
MOST_CLASSES = 10  # of more, there would be as many inputs as of the frequent values
_FOLD_SEED = 0x5F01D  # added to the seed, so that folds are independent of the test rows


@dataclass(frozen=True)
class TargetScale:
    """Quantities whose means are taken: one of two classes, each of several, or a number.

    stored_labels : of the classes, () for numbers; low, high : of the TRAIN rows, for numbers
    """

    stored_labels: tuple[float, ...]
    low: float = 0.0
    high: float = 1.0

    @property
    def n_outputs(self) -> int:
        return len(self.stored_labels) if len(self.stored_labels) > 2 else 1

    def parts(self, values: Doubles) -> Doubles:
        """Return targets (rows, outputs) within [0, 1]: numbers as part of their range, or 0/1 by class."""
        if not self.stored_labels:
            return ((values - self.low) / (self.high - self.low))[:, np.newaxis]
        classes = np.arange(len(self.stored_labels))[-1 if self.n_outputs == 1 else 0 :]
        return np.equal.outer(stored_index(values, self.stored_labels), classes).astype(np.float64)


@dataclass(frozen=True, eq=False)
class TargetSums:
    """Sums over TRAIN rows of parts of the target, as int64, which are the same in any order of the rows.

    counts : rows (folds, values); sums : of 2^31 parts (folds, values, outputs); squares : of 2^15 parts (values,
        outputs)
    """

    counts: Integers
    sums: Integers
    squares: Integers

    def plus(self, later: TargetSums) -> TargetSums:
        """Merge the sums of later rows."""
        return TargetSums(self.counts + later.counts, self.sums + later.sums, self.squares + later.squares)

    def means(self) -> tuple[Doubles, Doubles]:
        """Return shrunk means of parts (outputs, values) of all rows, and (folds, outputs, values) of the other folds.

        mean_v = m + (sum_v - n_v m) / (n_v + s2 / t2), m the mean of all rows, s2 the variance within values and t2
        that between them, by analysis of variance over the values without the last two; all are m where t2 is not
        positive.

        Source: Micci-Barreca, SIGKDD Explorations 3(1), 2001, section 3.3; variances: Searle, Casella & McCulloch,
        Variance Components, 1992, section 3.6.
        """
        of_folds = self.counts.astype(np.float64), self.sums * 2.0**-31
        counts, sums = (each.sum(axis=0) for each in of_folds)
        mean = sums.sum(axis=0) / counts.sum()
        own = np.flatnonzero(counts[:-2])
        n, total = counts[own], sums[own].sum(axis=0)
        rows, explained = max(1.0, n.sum()), (sums[own] ** 2 / n[:, np.newaxis]).sum(axis=0)
        within = np.maximum(0.0, 2.0**-30 * self.squares[own].sum(axis=0) - explained) / max(1.0, rows - len(own))
        between = explained - total**2 / rows - (len(own) - 1) * within
        weight = np.full(len(mean), np.inf)  # rows that the mean of all counts for
        np.divide(within * (rows - (n**2).sum() / rows), between, out=weight, where=between > 0.0)
        weight[weight == 0.0] = np.finfo(np.float64).tiny  # 0 / 0 of a value without rows is none then

        def shrunk(counts: Doubles, sums: Doubles) -> Doubles:
            rows = counts[:, np.newaxis]
            found: Doubles = mean + (sums - rows * mean) / (rows + weight)
            return found.T

        others = [shrunk(counts - n_of, sums - of) for n_of, of in zip(*of_folds, strict=True)]
        return shrunk(counts, sums), np.stack(others)


def with_means(encoding: Encoding, total: TargetSums, scale: TargetScale) -> tuple[Encoding, Encoding]:
    """Return the encoding of a column for test rows and new rows, and that of TRAIN rows: see `fill_train_rows`.

    encoding : without means; total : its sums over all TRAIN rows
    """
    means, of_folds = (scale.low + (scale.high - scale.low) * found for found in total.means())
    return _with(encoding, means), _with(encoding, np.concatenate(of_folds))


def _with(encoding: Encoding, means: Doubles) -> Encoding:
    return replace(encoding, means=tuple(map(tuple, means.tolist())))


def no_sums(encoding: Encoding, scale: TargetScale) -> TargetSums:
    """Return the sums of a column over no rows."""
    n, shape = len(encoding.categories) + 2, (scale.n_outputs,)
    return TargetSums(*(np.zeros(each, dtype=np.int64) for each in ((N_FOLDS, n), (N_FOLDS, n, *shape), (n, *shape))))


def sums_of_rows(
    encoding: Encoding, column: pa.Array, fold: Integers, values: Doubles, used: Mask, scale: TargetScale
) -> TargetSums:
    """Return the sums of a column over the used rows of a batch.

    encoding : without means; fold, values : fold and target of each row, (rows,); used : which rows count
    """
    n, parts = len(encoding.categories) + 2, scale.parts(values[used])
    cells = (fold * n + category_codes(encoding, column))[used]

    def by_cell(weights: Doubles | None) -> Integers:
        return np.bincount(cells, weights, N_FOLDS * n).astype(np.int64).reshape(N_FOLDS, n)  # exact below 2^53

    sums = np.stack([by_cell(np.rint(part * 2.0**31)) for part in parts.T], axis=2)
    squares = np.stack([by_cell(np.rint((part * 2.0**15) ** 2)).sum(axis=0) for part in parts.T], axis=1)
    return TargetSums(by_cell(None), sums, squares)


def folds_of_rows(first_row: int, rows: int, seed: int) -> Integers:
    """Return the fold of each row, (rows,); first_row : number of the first one in the whole source."""
    return (N_FOLDS * hash_share(first_row, rows, seed + _FOLD_SEED)).astype(np.int64)


def fill_train_rows(
    roles: Roles, inputs: FloatArray, batch: pa.RecordBatch, first_row: int, test: Mask | None, seed: int
) -> None:
    """Replace the target means of the TRAIN rows of a batch by those of the other folds.

    inputs (n_features, rows) : changed in place; first_row, test : as in `held_out`
    """
    train = np.arange(batch.num_rows) if test is None else np.flatnonzero(~test)
    fold = folds_of_rows(first_row, batch.num_rows, seed)[train]
    for encoding in roles.fold_means:
        block = np.empty((len(encoding.means) + encoding.other + encoding.missing, batch.num_rows), dtype=np.float32)
        encode(encoding, batch.column(encoding.column), block, "mean")
        start, n = roles.features.index(encoding.inputs[0]), len(encoding.means) // N_FOLDS
        for output in range(n):
            inputs[start + output, train] = block[fold * n + output, train]
