"""Values that are missing, and text that training never saw: their shares in a shard, beside those so far.

What fills a missing number, and the input that all rare words share, hide both from the figures of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from okl.retraining.baseline import Baseline
from okl.retraining.record import Finding
from okl.retraining.settings import ContractSettings
from okl.store.dataset import ColumnStatistics, Schema
from okl.store.encodings import Encoding

Counts = NDArray[np.int64]


def missing_findings(
    missing: Counts, rows: int, name: str, baseline: Baseline, contract: ContractSettings
) -> Iterator[Finding]:
    """Columns that hold no value more often than so far; where rows without one cannot be learnt, at all.

    missing : rows without a value in each source column
    """
    schema = baseline.schema
    before = _missing_so_far(baseline)
    text = {encoding.column for encoding in schema.encodings if encoding.kind == "category"}
    found: dict[str, float] = {}
    none = True
    for column, count in zip(schema.source_columns, missing.tolist(), strict=True):
        never = schema.missing == "error" and column not in text
        if count / rows > (0.0 if never else before[column] + contract.missing_share):
            found[column], none = count / rows, none and never
    if found:
        so_far = {column: "" if not before[column] else f" ({before[column]:.1%} so far)" for column in found}
        told = [f"{column} in {share:.1%} of rows{so_far[column]}" for column, share in found.items()]
        expected = "none" if none else f"{contract.missing_share:.1%} more than so far, at most"
        yield Finding(
            "missing-values",
            f"{name} misses values: {_shown(told)}; expected {expected}.",
            {"shares": found, "so_far": before, "limit": 0.0 if none else contract.missing_share},
        )


def unseen_findings(
    columns: Sequence[ColumnStatistics], missing: Counts, rows: int, name: str, baseline: Baseline,
    contract: ContractSettings,
) -> Iterator[Finding]:  # fmt: skip
    """Text columns whose values are more often none of those that have an input of their own than so far.

    columns : of the shard's inputs; missing : rows without a value in each source column
    """
    schema = baseline.schema
    gone = dict(zip(schema.source_columns, (missing / rows).tolist(), strict=True))
    found: dict[str, list[float]] = {}
    for encoding in schema.encodings:
        if encoding.kind != "category":
            continue
        before = _unseen(encoding, schema, baseline.columns, 0.0)
        # a row without a value has zeros, or is left out, if none was missing in training
        hidden = 0.0 if encoding.missing or schema.missing == "drop" else gone[encoding.column]
        now = _unseen(encoding, schema, columns, hidden)
        if now - before > contract.unseen_share:
            found[encoding.column] = [before, now]
    if found:
        told = [f"{column} in {now:.1%} of rows ({before:.1%} so far)" for column, (before, now) in found.items()]
        yield Finding(
            "unseen-values",
            f"{name} holds values without an input of their own: {_shown(told)}; expected "
            f"{contract.unseen_share:.1%} more than so far, at most.",
            {"shares": found, "limit": contract.unseen_share},
        )


def _missing_so_far(baseline: Baseline) -> dict[str, float]:
    schema = baseline.schema
    kinds = {encoding.column: encoding for encoding in schema.encodings}
    place = {name: index for index, name in enumerate(schema.features)}
    shares = {}
    for column in schema.source_columns:
        encoding = kinds.get(column)
        if encoding is None:
            count = baseline.columns[place[column]].count
            shares[column] = max(0.0, 1.0 - count / baseline.n_rows) if baseline.n_rows else 0.0
        else:  # if none was missing in training, nobody counted since
            known = encoding.missing and encoding.inputs[-1] in place
            shares[column] = baseline.columns[place[encoding.inputs[-1]]].mean if known else 0.0
    return shares


def _unseen(encoding: Encoding, schema: Schema, columns: Sequence[ColumnStatistics], hidden: float) -> float:
    """Share of rows with a value that has no input of its own; hidden : of rows that have no value, and no input."""
    means = dict(zip(schema.features, (column.mean for column in columns), strict=True))
    if encoding.other:
        return means.get(encoding.inputs[len(encoding.categories)], 0.0)
    return max(0.0, 1.0 - hidden - sum(means.get(name, 0.0) for name in encoding.inputs))


def _shown(words: list[str]) -> str:
    return ", ".join(words[:5]) + (f", and {len(words) - 5} more" if len(words) > 5 else "")
