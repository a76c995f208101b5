"""A case of fuzzing ingest: a random source with random options is refused in a sentence, or its data set is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from okl.data.dataset import Dataset
from okl.data.ingest import csv, sources
from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset, read_manifest, verify
from okl.data.reading import read_rows
from okl.foundation.errors import OklError
from okl.foundation.settings import IngestSettings, settings_from
from tests.benchmarks.fuzz_columns import Rng
from tests.benchmarks.fuzz_sources import Source, make_source

USUAL_BLOCK, USUAL_CHUNK = csv.BLOCK_BYTES, sources.CHUNK_BYTES


def ingest_case(rng: Rng, folder: Path) -> str:
    """Run a case in an empty folder; return its outcome as text. Every exception except OklError is a finding."""
    (folder / "in").mkdir()
    source = make_source(rng, folder / "in")
    options = draw_options(rng, source.columns)
    (folder / "options.txt").write_text(repr(options))
    _set_blocks(small=bool(rng.random() < 0.3))
    before = sorted(folder.rglob("*"))
    try:
        settings = settings_from(IngestSettings, options, "fuzz")
        data = ingest(source.path, folder / "out" / "data", settings).dataset
    except OklError as error:
        check_sentence(error)
        after = sorted(folder.rglob("*"))
        assert after == before, f"left behind: {set(after) - set(before)}"
        return f"refused {source.description}: {error}"
    _check(data, source, settings, folder)
    return f"accepted {source.description}"


def draw_options(rng: Rng, columns: tuple[str, ...]) -> dict[str, Any]:
    """Return random options of ingest, most of them defaults."""
    names_of_columns = [name for name in columns if name != "y" or rng.random() < 0.05] or ["y"]

    def column() -> str:
        return names_of_columns[int(rng.integers(len(names_of_columns)))] if rng.random() < 0.97 else "none such"

    values: dict[str, Any] = {
        "target": column() if rng.random() < 0.2 else None,
        "task": str(rng.choice(["binary", "multiclass", "regression"])),
        "holdout": _holdout(rng, columns),
        "split_column": "split" if "split" in columns else None,
        "keys": tuple(column() for _ in range(int(rng.integers(1, 3)))),
        "drop": tuple(column() for _ in range(int(rng.integers(1, 3)))),
        "scale": str(rng.choice(["standard", "minmax"])),
        "scale_target": True,
        "rows_per_shard": int(rng.choice([20, 50])) if rng.random() < 0.5 else 2**40,
        "rows_per_group": int(rng.choice([7, 40])) if rng.random() < 0.5 else 2**40,
        "missing": str(rng.choice(["drop", "zero", "mean"])),
        "categories": tuple(column() for _ in range(int(rng.integers(1, 3)))),
        "max_categories": int(rng.choice([1, 2, 5000])),
        "dates": str(rng.choice(["parts", "drop"])),
        "svmlight_index": str(rng.choice(["0", "1"])),
        "hash_columns": int(rng.choice([1, 7, 4096, 5000])),
        "compression": "none",
        "compression_level": 22,
        "seed": int(rng.choice([1, 2**31, 2**63])),
    }  # fmt: skip
    share = {
        "missing": 0.6,
        "dates": 0.6,
        "scale": 0.5,
        "compression_level": 0.02,
        "rows_per_shard": 0.4,
        "hash_columns": 0.05,
    }
    if values["scale_target"] and rng.random() < 0.9:
        values["scale_target"] = None
    chosen = {name: value for name, value in values.items() if rng.random() < share.get(name, 0.12)}
    return {name: value for name, value in chosen.items() if value is not None}


def _holdout(rng: Rng, columns: tuple[str, ...]) -> float | str:
    odd: tuple[float | str, ...] = (0.001, 1e-9, "nan", "inf", "0.25", *columns)
    return 0.3 if rng.random() < 0.5 else "h" if "h" in columns else odd[int(rng.integers(len(odd)))]


def check_sentence(error: OklError) -> None:
    """Check that a message is one meaningful line without internals of Python."""
    text = str(error)
    assert "\n" not in text, f"more than a line: {text!r}"
    assert len(text) > 25, f"too short: {text!r}"
    assert text.rstrip().endswith("."), f"no sentence: {text!r}"
    assert "object at 0x" not in text, f"the inside of Python: {text!r}"
    assert "<class" not in text, f"the inside of Python: {text!r}"


def _set_blocks(small: bool) -> None:
    """Set the block sizes of text: so small that lines and quotes cross block ends, or the defaults."""
    csv.BLOCK_BYTES = 16384 if small else USUAL_BLOCK
    csv.RANGE_BYTES = 4 * csv.BLOCK_BYTES
    sources.CHUNK_BYTES = 512 if small else USUAL_CHUNK


def _check(data: Dataset, source: Source, settings: IngestSettings, folder: Path) -> None:
    assert open_dataset(data.folder) == data
    verify(data)
    rows = data.rows("train") + data.rows("test")
    read = read_manifest(data.folder).source["rows"]
    has_dropped = any(
        "rows were dropped for" in warning for warning in data.warnings
    )  # including rows without a target
    assert rows == read or (has_dropped and rows < read), f"{rows} of {read} rows"
    assert source.rows is None or source.rows == read, f"{read} rows were read of {source.rows}"
    inputs, targets = _all_rows(data)
    assert inputs.shape == (rows, data.schema.n_features)
    assert np.isfinite(inputs).all(), f"inputs that are not finite: {np.argwhere(~np.isfinite(inputs))[:3]}"
    assert np.isfinite(targets).all(), "targets that are not finite"
    _check_targets(data, targets)
    again = ingest(source.path, data.folder, settings)
    assert not again.changed, "the same source and settings made it anew"
    if settings.holdout is None and "split" not in source.columns and settings.split_column is None:
        ingested = ingest(source.path, folder / "by", settings, reference=data.schema).dataset
        inputs_again, _ = _all_rows(ingested)
        np.testing.assert_array_equal(inputs_again, inputs, "rows read again by their own schema")


def _all_rows(data: Dataset) -> tuple[Any, Any]:
    parts = [read_rows(data, shard, range(len(shard.row_groups)), "float64") for shard in data.shards]
    return np.concatenate([part.inputs for part in parts]), np.concatenate([part.targets for part in parts])


def _check_targets(data: Dataset, targets: Any) -> None:
    schema = data.schema
    if schema.task == "binary":
        assert np.isin(targets, (-1.0, 1.0)).all()
    elif schema.task == "multiclass":
        assert np.isin(targets, np.arange(len(schema.labels))).all()
    if schema.task != "regression":
        assert sum(schema.class_counts) == data.rows("train")
        assert len(schema.labels) == len(set(map(repr, schema.labels))) == len(schema.class_counts)
