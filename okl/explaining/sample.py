"""A seeded sample of labelled raw rows, ready for a model, from a source of any length."""

from __future__ import annotations

import numpy as np

from okl.errors import DataError
from okl.execution.protocol import Rows
from okl.store.model import Model
from okl.store.pieces import check_pieces, read_table, table_pieces
from okl.store.rawrows import prepare_rows


def sample_source(model: Model, source: str, n_rows: int, seed: int) -> Rows:
    """A uniform sample without replacement of the rows that miss nothing; all of them if there are no more.

    All rows are read, and at most n_rows of them and a batch are held: each has a random key, and the least are kept.

    Raises
    ------
    DataError : columns are missing or of another kind; no row is complete; a label never seen in training
    """
    schema = model.schema
    pieces = table_pieces(source, schema)
    check_pieces(schema, pieces, source, with_targets=True)
    random = np.random.default_rng((seed, 0x5A3B1E))
    keys = np.empty(0)
    inputs = np.empty((0, schema.n_features), dtype=model.precision)
    targets = np.empty(0)
    for piece in pieces:
        for batch in read_table(piece, [*schema.source_columns, schema.target]):
            raw = prepare_rows(schema, batch, model.precision, with_targets=True)
            assert raw.targets is not None
            drawn = random.random(len(raw.targets))
            drawn[slice(0) if raw.complete is None else ~raw.complete] = np.inf
            keys = np.concatenate([keys, drawn])
            least = np.sort(np.argsort(keys, kind="stable")[:n_rows])
            least = least[np.isfinite(keys[least])]
            keys = keys[least]
            inputs = np.concatenate([inputs, raw.inputs])[least]
            targets = np.concatenate([targets, raw.targets])[least]
    if not len(targets):
        raise DataError(f"{source}: no row holds all its values. Give rows that do.")
    return Rows(inputs, targets)
