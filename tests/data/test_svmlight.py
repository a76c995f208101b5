"""svmlight text: the first index is determined once and stored; many columns are folded by a signed hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sparse
from sklearn.datasets import dump_svmlight_file

from okl.data.dataset import Dataset, SvmlightColumns
from okl.data.describe import describe, describe_text
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import fold
from okl.data.manifest import open_dataset
from okl.foundation.errors import ConfigError, DataError
from okl.models.inputs import prepare_rows
from okl.models.pieces import read_table, table_pieces
from tests.data.sources import parquet, settings, table

N_COLUMNS = 20_000


def sparse_rows(rows: int = 300, columns: int = N_COLUMNS, seed: int = 0) -> tuple[Any, np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    inputs = sparse.random(rows, columns, density=min(0.5, 30 / columns), format="csr", rng=random)
    return inputs, np.where(random.random(rows) < 0.5, 1, -1)


def write_svmlight(path: Path, inputs: Any, targets: Any, zero_based: bool = False) -> Path:
    dump_svmlight_file(inputs, targets, str(path), zero_based=zero_based)
    return path


def stored_rows(data: Dataset) -> np.ndarray[Any, Any]:
    table = pq.read_table(str(data.path(data.shards[0])))
    return np.column_stack([table[name].to_numpy() for name in data.schema.features])


def test_folded_rows_are_signed_sums_of_columns_with_the_same_hash(tmp_path: Path) -> None:
    inputs, targets = sparse_rows()
    source = write_svmlight(tmp_path / "rows.svm", inputs, targets)
    data = ingest(source, tmp_path / "data", settings(hash_columns=64)).dataset
    column, sign = fold(np.arange(N_COLUMNS), 64)
    projection = sparse.csr_matrix((sign, (np.arange(N_COLUMNS), column)), (N_COLUMNS, 64))
    np.testing.assert_allclose(stored_rows(data), (inputs @ projection).toarray(), atol=1e-6)
    assert data.schema.svmlight == SvmlightColumns(1, 64)
    assert open_dataset(data.folder) == data
    assert "whose first index is 1, folded into 64 columns" in describe_text(data)
    assert describe(data)["svmlight"] == {"first_index": 1, "hashed": 64}


def test_folding_keeps_inner_products_on_average() -> None:
    column, sign = fold(np.arange(N_COLUMNS), 50)
    assert abs(sign.mean()) < 0.02
    assert np.bincount(column, minlength=50).min() > 0.8 * N_COLUMNS / 50
    inputs, _ = sparse_rows(200, N_COLUMNS)
    errors = []
    for shift in range(30):  # other columns get other hash values
        column, sign = fold(np.arange(N_COLUMNS) + shift * N_COLUMNS, 256)
        folded = inputs @ sparse.csr_matrix((sign, (np.arange(N_COLUMNS), column)), (N_COLUMNS, 256))
        errors.append(((folded @ folded.T) - (inputs @ inputs.T)).toarray()[np.triu_indices(200, 1)])
    deviation = np.std(errors)
    assert deviation > 0.1
    assert abs(np.mean(errors)) < 4 * deviation / np.sqrt(np.size(errors))


def test_rows_to_score_are_folded_like_training_rows(tmp_path: Path) -> None:
    inputs, targets = sparse_rows()
    data = ingest(
        write_svmlight(tmp_path / "a.svm", inputs, targets), tmp_path / "data", settings(hash_columns=64)
    ).dataset
    (piece,) = table_pieces(write_svmlight(tmp_path / "b.svm", inputs[:50, :9000], targets[:50]), data.schema)
    (rows,) = read_table(piece, data.schema.source_columns)
    prepared = prepare_rows(data.schema, rows, "float32").inputs
    column, sign = fold(np.arange(9000), 64)
    expected = inputs[:50, :9000] @ sparse.csr_matrix((sign, (np.arange(9000), column)), (9000, 64))
    np.testing.assert_allclose(prepared, expected.toarray(), atol=1e-6)


def test_too_many_columns_are_refused_before_a_row_is_stored(tmp_path: Path) -> None:
    source = write_svmlight(tmp_path / "rows.svm", *sparse_rows())
    with pytest.raises(
        DataError, match=r"column index \d+, but dense rows have at most 4096 columns.*--hash-columns 1024"
    ):
        ingest(source, tmp_path / "data", settings(storage="dense"))
    with pytest.raises(DataError, match=r"5000 columns were requested, but dense rows have at most 4096"):
        ingest(source, tmp_path / "data", settings(hash_columns=5000))
    with pytest.raises(ConfigError, match=r"is parquet, but hash_columns folds columns of svmlight text"):
        ingest(parquet(tmp_path, table(50)), tmp_path / "data", settings(hash_columns=8))
    with pytest.raises(ConfigError, match=r"rows\.svm is svmlight, but missing_words mean values of tables"):
        ingest(source, tmp_path / "data", settings(missing_words=("-9",)))


@pytest.mark.parametrize("zero_based", [False, True])
def test_the_first_index_is_given_or_inferred_once_and_stored(tmp_path: Path, zero_based: bool) -> None:
    inputs, targets = sparse_rows(60, 6)
    inputs = inputs.toarray() + np.eye(60, 6)
    inputs[:, 0] = 0.0  # no row uses index 0, if that is the first
    source = write_svmlight(tmp_path / "rows.svm", inputs, targets, zero_based)
    inferred = ingest(source, tmp_path / "auto", settings()).dataset
    assert inferred.schema.svmlight == SvmlightColumns(1)
    given = ingest(source, tmp_path / "asked", settings(svmlight_index=int(not zero_based))).dataset
    assert given.schema.svmlight == SvmlightColumns(0 if zero_based else 1)
    np.testing.assert_array_equal(stored_rows(given), inputs.astype(np.float32))
    assert inferred.schema.n_features == (5 if zero_based else 6)
    inputs[0, 0] = 3.0
    later = write_svmlight(tmp_path / "later.svm", inputs, targets, zero_based)
    if zero_based:
        with pytest.raises(DataError, match=r"later\.svm holds the index 0, but the first index should be 1"):
            table_pieces(later, inferred.schema)
    (piece,) = table_pieces(later, given.schema)
    (rows,) = read_table(piece, given.schema.source_columns)
    np.testing.assert_array_equal(prepare_rows(given.schema, rows, "float32").inputs, inputs.astype(np.float32))
