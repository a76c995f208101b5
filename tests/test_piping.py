"""`okl predict MODEL -`: rows from standard input, scores to standard output."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import okl
from okl.errors import DataError
from okl.piping import score_stream
from okl.store.model import save_model
from tests.flows.commandline import Terminal
from tests.store.test_model import make_model


@pytest.fixture
def rows(tmp_path: Path) -> pa.Table:
    """Rows of a saved model, `model` beside them."""
    save_model(make_model("multiclass"), tmp_path / "model")
    draw = np.random.default_rng(1).standard_normal((300, 2)) * 4.0
    values = draw.astype(np.float32).astype(np.float64)
    return pa.table({"height": values[:, 0], "id": [f"row {i}" for i in range(300)], "width": values[:, 1]})


def piped(model: Path, content: bytes) -> pa.Table:
    out = io.BytesIO()
    assert score_stream(str(model), io.BytesIO(content), out) == 300
    return pacsv.read_csv(io.BytesIO(out.getvalue()))


def test_piped_rows_have_the_scores_of_a_recorded_run(rows: pa.Table, tmp_path: Path) -> None:
    as_csv, as_parquet = io.BytesIO(), io.BytesIO()
    pacsv.write_csv(rows, as_csv)
    pq.write_table(rows, as_parquet)
    pq.write_table(rows, tmp_path / "rows.parquet")
    okl.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "scores")
    expected = pq.read_table(tmp_path / "scores")
    assert len(set(expected["prediction"].to_pylist())) == 3
    with_commas = rows.to_pandas().to_csv(sep=";", decimal=",", index=False).encode()
    as_gzip = io.BytesIO(gzip.compress(with_commas))
    for content in (as_csv, as_parquet, as_gzip):
        found = piped(tmp_path / "model", content.getvalue())
        assert found.column_names == expected.column_names
        assert found["id"].equals(expected["id"])
        assert found["prediction"].equals(expected["prediction"])
        for name in expected.column_names[1:-1]:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


def test_bad_rows_are_named_and_no_scores_come(rows: pa.Table, tmp_path: Path) -> None:
    content, out = io.BytesIO(), io.BytesIO()
    pacsv.write_csv(rows.drop_columns(["width"]), content)
    with pytest.raises(DataError, match=r"standard input: .* missing: 'width'"):
        score_stream(str(tmp_path / "model"), io.BytesIO(content.getvalue()), out)
    with pytest.raises(DataError, match="Standard input is empty"):
        score_stream(str(tmp_path / "model"), io.BytesIO(b""), out)
    word = rows.to_pandas().astype({"width": object})
    word.loc[7:8, "width"] = ["abc", "def"]
    named = r"standard input: column 'width', row 7 \(counted from 0\) holds 'abc', but the model takes a number there"
    for separator in (",", ";"):
        with pytest.raises(DataError, match=named):
            score_stream(str(tmp_path / "model"), io.BytesIO(word.to_csv(sep=separator).encode()), out)
    assert out.getvalue() == b""


def test_options_of_recorded_runs_are_refused(
    rows: pa.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(capsys, monkeypatch)
    assert "no option but --key and --registry" in terminal.okl("predict", tmp_path / "model", "-", "--json").sentence
    assert "takes --out DIR" in terminal.okl("predict", tmp_path / "model", tmp_path / "rows.parquet").sentence


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8b\x08cut off", "standard input cannot be unpacked as gzip"),
        (b"height,width\n1,2\n3,wide\n", "standard input: column 'width', row 1 .* holds 'wide'"),
        (b"height,width\n1\n", r"standard input is not a CSV file with a header line: .*Expected 2 columns"),
    ],
)
def test_rows_that_cannot_be_read_are_told_without_the_file_that_holds_them(
    rows: pa.Table, tmp_path: Path, content: bytes, said: str
) -> None:
    with pytest.raises(DataError, match=said) as raised:
        score_stream(str(tmp_path / "model"), io.BytesIO(content), io.BytesIO())
    assert "/" not in str(raised.value)
