"""Minimal cases found by fuzzing (tests/benchmarks/fuzz.py): each gives a clear error or a correct result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from okl.data.ingest.run import ingest
from okl.data.ingest.sources import open_source
from okl.foundation.errors import ConfigError, DataError, ModelError
from okl.kernels import Gaussian, Polynomial
from okl.models.file import DESCRIPTION, load_model, save_model
from okl.models.inputs import check_columns
from tests.data.sources import parquet, settings, table
from tests.models.models import Case

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzzed") / "model"
    save_model(Case("standardised", "multiclass").model(), folder)
    return folder


def edit_model(model: Path, edit: Edit) -> Path:
    """Edit the description of the model and store it with a valid digest; return the model."""
    path = model / DESCRIPTION
    description = json.loads(path.read_text())
    del description["description_sha256"]
    edit(description)
    body = json.dumps(description, indent=1, ensure_ascii=False).encode(errors="surrogatepass")
    signed = description | {"description_sha256": hashlib.sha256(body).hexdigest()}
    path.write_bytes(json.dumps(signed, indent=1, ensure_ascii=False).encode(errors="surrogatepass"))
    return model


def set_value(*path: str | int, to: Any) -> Edit:
    def edit(content: Any) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = to

    return edit


EDITS: dict[str, tuple[Edit, str]] = {
    "no digest of the weights": (lambda d: d.pop("weights_sha256"), r"weights_sha256 = None; expected a string"),
    "no provenance": (lambda d: d.pop("provenance"), r"provenance = None; expected an object\. Train the model again"),
    "a schema of words": (set_value("schema", to="x" * 500), r"schema = 'x{59}\.\.\.; expected an object"),
    "an infinity": (set_value("schema", "feature_statistics", 0, "mean", to=float("inf")), r"damaged or was edited"),
    "half a character": (set_value("schema", "target", to="\ud800"), r"not JSON|damaged or was edited"),
    "a map that is a word": (set_value("predictor", "map", to="x"), r"the feature map of the weights is missing"),
    "a kernel that is a list": (
        set_value("predictor", to={"kind": "expansion", "kernel": ["a"]}),
        r"A kernel is described by a mapping with a name, but the description is \['a'\]\.",
    ),
    "features that are a number": (set_value("schema", "features", to=5), r"features = 5: input should be"),
    "a feature that is a list": (set_value("schema", "features", 1, to=["x1"]), r"features\.1 = \['x1'\]"),
    "a mean that is a word": (set_value("schema", "feature_statistics", 2, "mean", to="x"), r"_statistics\.2\.mean"),
    "an unknown field": (set_value("schema", "more", to=1), r"'more' is not a field of a schema"),
    "one feature too few": (lambda d: d["schema"]["features"].pop(), r"6 columns have statistics, but"),
    "a feature twice": (set_value("schema", "features", 0, to="x1"), r"6 features, 5 of them different"),
    "one label too few": (lambda d: d["schema"]["labels"].pop(), r"6 inputs and 3 outputs, but the schema has 6 and 2"),
    "labels of another task": (set_value("schema", "task", to="regression"), r"task has 3 labels"),
    "a count too many": (set_value("schema", "class_counts", to=[1, 2, 3, 4]), r"class_counts has 4 entries for 3"),
    "an encoding without inputs": (
        set_value("schema", "encodings", to=[{"column": "c", "kind": "number", "inputs": []}]),
        r"inputs of column 'c' do not match its encoding 'number'",
    ),
    "a fill too many": (
        set_value("schema", "encodings", to=[{"column": "c", "kind": "number", "inputs": ["x0"], "fills": [1.0, 2.0]}]),
        r"column 'c' has 2 fills for 1 inputs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_model_is_refused_in_a_sentence(name: str, model: Path) -> None:
    edit, message = EDITS[name]
    original = (model / DESCRIPTION).read_bytes()
    try:
        with pytest.raises(ModelError, match=message):
            load_model(edit_model(model, edit))
    finally:
        (model / DESCRIPTION).write_bytes(original)
    load_model(model)


@pytest.mark.parametrize("bandwidth", [1e-200, 1e200])
def test_a_bandwidth_whose_square_overflows_is_an_error(bandwidth: float) -> None:
    with pytest.raises(ConfigError, match=r"bandwidth = 1e.200 is outside \[1e-100, 1e\+100\]"):
        Gaussian(bandwidth)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":NaN}', b"9" * 5000])
def test_json_that_breaks_parsers_is_not_a_model(content: bytes, model: Path) -> None:
    original = (model / DESCRIPTION).read_bytes()
    (model / DESCRIPTION).write_bytes(content)
    with pytest.raises(ModelError, match=r"not JSON|no format_version"):
        load_model(model)
    (model / DESCRIPTION).write_bytes(original)


@pytest.mark.parametrize("text", ["größe,y\n1,0\n2,1\n", "größe\n1\n2\n", "größe;y\n1;0\n"])
def test_a_header_that_is_not_utf8_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"s\.csv: the name of a column is not UTF-8 text"):
        ingest(tmp_path / "s.csv", tmp_path / "data", settings())


def test_a_parquet_column_whose_name_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    source = parquet(tmp_path, table(9).rename_columns(["name", *"bcdey"]), store_schema=False)
    source.write_bytes(source.read_bytes().replace(b"name", b"n\x82me"))
    with pytest.raises(DataError, match=r"source\.parquet is a damaged Parquet file: .*0x82"):
        ingest(source, tmp_path / "data", settings())


def test_messages_are_one_line_for_any_column_name(tmp_path: Path) -> None:
    source = parquet(tmp_path, table(9).rename_columns(["a", "b\nc", "\x1b[2J", "d", "e", "y"]))
    with pytest.raises(DataError, match="target") as caught:
        ingest(source, tmp_path / "data", settings(target="Y"))
    assert "b\\nc, \\x1b[2J, d" in str(caught.value)


def test_string_views_are_text(tmp_path: Path) -> None:
    words = pa.array(["u", "v"] * 50).cast(pa.string_view())
    source = parquet(tmp_path, table(100, 2, word=words, key=words))
    data = ingest(source, tmp_path / "data", settings(holdout=0.3, keys=("key",))).dataset
    assert data.schema.features == ("a", "b", "word=u", "word=v")
    assert 0 < data.rows("test") < 50


def test_times_in_nanoseconds_are_read_alike_with_and_without_a_schema(tmp_path: Path) -> None:
    lines = [f"2024-01-{day:02} 10:00:00.123456789,{day % 2}" for day in range(1, 31)]
    source = tmp_path / "s.csv"
    source.write_text("\n".join(["at,y", *lines]))
    data = ingest(source, tmp_path / "data", settings(dates="parts")).dataset
    again = ingest(source, tmp_path / "again", settings(), reference=data.schema).dataset
    assert [shard.sha256 for shard in again.shards] == [shard.sha256 for shard in data.shards]
    assert np.isfinite(data.schema.shift_and_factor[1]).all()
    check_columns(data.schema, open_source(source).schema, "s.csv")


def test_a_degree_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"degree = 1e\+308; expected a whole number up to 1,000"):
        Polynomial(degree=1e308, scale=1.0, offset=0.0)  # type: ignore[arg-type]
