"""svmlight text: what its indices mean is settled once and kept; very many columns are folded by a signed hash."""

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


def written(path: Path, inputs: Any, targets: Any, zero_based: bool = False) -> Path:
    dump_svmlight_file(inputs, targets, str(path), zero_based=zero_based)
    return path


def stored(data: Dataset) -> np.ndarray[Any, Any]:
    table = pq.read_table(str(data.path(data.shards[0])))
    return np.column_stack([table[name].to_numpy() for name in data.schema.features])


def test_folded_rows_are_the_signed_sums_of_the_columns_that_meet(tmp_path: Path) -> None:
    inputs, targets = sparse_rows()
    source = written(tmp_path / "rows.svm", inputs, targets)
    data = ingest(source, tmp_path / "data", settings(hash_columns=64)).dataset
    place, sign = fold(np.arange(N_COLUMNS), 64)
    projection = sparse.csr_matrix((sign, (np.arange(N_COLUMNS), place)), (N_COLUMNS, 64))
    np.testing.assert_allclose(stored(data), (inputs @ projection).toarray(), atol=1e-6)
    assert data.schema.svmlight == SvmlightColumns(1, 64)
    assert open_dataset(data.folder) == data
    assert "whose first index is 1, folded into 64 columns" in describe_text(data)
    assert describe(data)["svmlight"] == {"first_index": 1, "hashed": 64}


def test_folding_keeps_inner_products_on_average() -> None:
    place, sign = fold(np.arange(N_COLUMNS), 50)
    assert abs(sign.mean()) < 0.02
    assert np.bincount(place, minlength=50).min() > 0.8 * N_COLUMNS / 50
    inputs, _ = sparse_rows(200, N_COLUMNS)
    errors = []
    for shift in range(30):  # other columns are other draws of the hash
        place, sign = fold(np.arange(N_COLUMNS) + shift * N_COLUMNS, 256)
        folded = inputs @ sparse.csr_matrix((sign, (np.arange(N_COLUMNS), place)), (N_COLUMNS, 256))
        errors.append(((folded @ folded.T) - (inputs @ inputs.T)).toarray()[np.triu_indices(200, 1)])
    typical = np.std(errors)
    assert typical > 0.1
    assert abs(np.mean(errors)) < 4 * typical / np.sqrt(np.size(errors))


def test_rows_to_score_are_folded_as_those_that_were_learnt(tmp_path: Path) -> None:
    inputs, targets = sparse_rows()
    data = ingest(written(tmp_path / "a.svm", inputs, targets), tmp_path / "data", settings(hash_columns=64)).dataset
    (piece,) = table_pieces(written(tmp_path / "b.svm", inputs[:50, :9000], targets[:50]), data.schema)
    (rows,) = read_table(piece, data.schema.source_columns)
    found = prepare_rows(data.schema, rows, "float32").inputs
    place, sign = fold(np.arange(9000), 64)
    expected = inputs[:50, :9000] @ sparse.csr_matrix((sign, (np.arange(9000), place)), (9000, 64))
    np.testing.assert_allclose(found, expected.toarray(), atol=1e-6)


def test_too_many_columns_are_refused_before_a_row_is_stored(tmp_path: Path) -> None:
    source = written(tmp_path / "rows.svm", *sparse_rows())
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
def test_the_first_index_is_chosen_or_found_once_and_kept(tmp_path: Path, zero_based: bool) -> None:
    inputs, targets = sparse_rows(60, 6)
    inputs = inputs.toarray() + np.eye(60, 6)
    inputs[:, 0] = 0.0  # no row uses index 0, if that is the first
    source = written(tmp_path / "rows.svm", inputs, targets, zero_based)
    found = ingest(source, tmp_path / "auto", settings()).dataset
    assert found.schema.svmlight == SvmlightColumns(1)
    asked = ingest(source, tmp_path / "asked", settings(svmlight_index=int(not zero_based))).dataset
    assert asked.schema.svmlight == SvmlightColumns(0 if zero_based else 1)
    np.testing.assert_array_equal(stored(asked), inputs.astype(np.float32))
    assert found.schema.n_features == (5 if zero_based else 6)
    inputs[0, 0] = 3.0
    later = written(tmp_path / "later.svm", inputs, targets, zero_based)
    if zero_based:
        with pytest.raises(DataError, match=r"later\.svm holds the index 0, but the first index should be 1"):
            table_pieces(later, found.schema)
    (piece,) = table_pieces(later, asked.schema)
    (rows,) = read_table(piece, asked.schema.source_columns)
    np.testing.assert_array_equal(prepare_rows(asked.schema, rows, "float32").inputs, inputs.astype(np.float32))
