"""Warnings of rows that make the error on test rows misleading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.dataset import Schema, Shard
from okl.data.values import is_text
from okl.foundation.types import Split

MOST_COMPARED = 2_000_000  # numbers in all rows: more are not read again to look for copies
_FIRST, _DIFFERENT = 4096, 0.9  # rows that show whether a column is continuous, and the share of different values there
_MEASURED = 64  # different values at least, some of them with a fraction: no category, no number of a store or a month
_COPIES = 0.01  # of the rows
COPIED = "rows are copies of others"


def find_copies(folder: Path, shards: Sequence[Shard], schema: Schema) -> list[str]:
    """Return a warning if rows are copies of others: test rows among them have been trained on.

    Rows of categories are often alike by chance, so one input must be continuous. Rows are compared by 64 random bits.
    """
    rows, names = sum(shard.rows for shard in shards), [*schema.features, schema.target]
    if schema.sparse is not None or rows * len(names) > MOST_COMPARED:
        return []
    odd = np.random.default_rng(0).integers(0, 2**63, len(names), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    digests, first = list[NDArray[np.uint64]](), list[NDArray[np.float64]]()
    for shard in shards:
        with pq.ParquetFile(folder / shard.path) as file:
            for batch in file.iter_batches(columns=names):
                values = np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
                first.append(values[: max(0, _FIRST - sum(map(len, first)))])
                bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
                digests.append(((bits ^ (bits >> np.uint64(32))) * odd).sum(axis=1, dtype=np.uint64))
    copies = rows - len(np.unique(np.concatenate(digests)))
    if copies < max(2, _COPIES * rows):
        return []
    distinct = np.unique(np.concatenate(first), axis=0)[:, :-1]
    measured = [column for column in distinct.T if (column != np.rint(column)).any()]
    if max((len(np.unique(column)) for column in measured), default=0) < max(_MEASURED, _DIFFERENT * len(distinct)):
        return []
    return [
        f"{copies:,} of {rows:,} {COPIED}, in all inputs and the target. Copies of training rows "
        "among the test rows make a model look better than it is: remove them in the source."
    ]


_ALIKE, _SHARED = 0.5, 0.5  # squared difference of targets over that of any two rows; of the test rows
_LEAST_PAIRS = 100  # of neighbours with one key


def find_shared_keys(folder: Path, shards: Sequence[Shard], schema: Schema) -> list[str]:
    """Return a warning for each key whose rows have similar targets and are both training and test rows.

    Rows of one customer or patient are alike, so that test rows drawn at random are easier than those of a new one.
    """
    if sum(shard.rows for shard in shards) > MOST_COMPARED:
        return []
    warnings = list[str]()
    for key in schema.keys:
        parts = [pq.read_table(folder / shard.path, columns=[key, schema.target]) for shard in shards]
        rows = pa.concat_tables(parts)
        kind = rows.schema.field(key).type
        if not (is_text(kind) or pa.types.is_integer(kind)):
            continue
        values = rows[key].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        targets = rows[schema.target].to_numpy().astype(np.float64)
        is_test = np.repeat([shard.split == "test" for shard in shards], [shard.rows for shard in shards])
        shared = float(np.isin(values[is_test], values[~is_test]).mean()) if is_test.any() else 0.0
        order = np.argsort(values, kind="stable")
        pairs = np.flatnonzero(values[order][1:] == values[order][:-1])
        apart = _difference(schema, targets[order][pairs], targets[order][pairs + 1])
        any_two = _difference(schema, targets, np.random.default_rng(0).permutation(targets))
        if shared >= _SHARED and len(pairs) >= _LEAST_PAIRS and apart < _ALIKE * any_two:
            warnings.append(
                f"Rows with the same {key!r} have similar targets, and {shared:.0%} of the test rows share theirs with "
                f"training rows: rows of a new {key!r} may be harder. Keep them together: --group {quote(key)}."
            )
    return warnings


def find_shared_groups(folder: Path, shards: Sequence[Shard], group: str, holdout: float | str | None) -> list[str]:
    """Return a warning if test rows that a column or their position chooses are of groups of training rows, too."""
    values: dict[str, list[pa.Array]] = {"train": [], "test": []}
    for shard in shards:
        values[shard.split].append(pq.read_table(folder / shard.path, columns=[group])[group].unique())
    train, test = (pa.chunked_array(arrays).unique() for arrays in values.values())
    n_shared = pc.sum(pc.is_in(test, value_set=train)).as_py()
    if not n_shared:
        return []
    chosen = "the split column" if holdout is None else f"--holdout {holdout}"
    return [
        f"{n_shared:,} of the {len(test):,} values of {group!r} in test rows are in training rows, too: {chosen} "
        "chooses the test rows, and --group only the validation folds. To test on new ones, give a share: --holdout "
        "0.2."
    ]


_DISORDER = 0.05  # of the training rows, that may be later than the mean of the test rows


def find_unsorted_dates(folder: Path, shards: Sequence[Shard], schema: Schema) -> list[str]:
    """Return a warning if the last rows, which are the test rows, are not the newest ones by any column of dates."""
    columns = {one.inputs[0]: one.column for one in schema.encodings if one.is_date}
    rows = {split: sum(shard.rows for shard in shards if shard.split == split) for split in ("train", "test")}

    def years(split: Split, name: str) -> Iterator[NDArray[np.float32]]:
        for shard in shards:
            if shard.split == split:
                yield pq.read_table(folder / shard.path, columns=[name])[name].to_numpy()

    later = dict[str, float]()
    for name, column in columns.items():
        mean = sum(part.sum(dtype=np.float64) for part in years("test", name)) / rows["test"]
        later[column] = sum(int((part > mean).sum()) for part in years("train", name)) / rows["train"]
    column = min(later, key=lambda name: later[name], default="")
    if not later or later[column] <= _DISORDER:
        return []
    return [
        f"The last rows are not the newest by {column!r}: {later[column]:.0%} of the training rows are later than the "
        "mean of the test rows. Sort the source by it to test on the newest rows."
    ]


def _difference(schema: Schema, targets: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return the mean squared difference of targets (rows,), or the share of different classes."""
    if not len(targets):
        return 0.0
    return float(np.mean(np.square(targets - others) if schema.task == "regression" else targets != others))
