"""Ingest on workers: the same bytes as in one process even if a worker dies, and no incomplete files remain."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from okl.data.execution import Execution
from okl.data.ingest import csv
from okl.data.ingest.run import ingest
from okl.data.ingest.writer import ColumnMoments, ShardTask, column_statistics, empty_moments, merge_moments, moments_of
from okl.data.manifest import verify
from okl.foundation.errors import DataError, ExecutionError
from okl.foundation.settings import IngestSettings
from okl.foundation.types import FloatArray

ROWS = 700


def table(first: int, rows: int = ROWS) -> pa.Table:
    """Return rows with every kind of column of a source; the order of labels depends on `first`."""
    random = np.random.default_rng(first)
    inputs = random.normal(size=(3, rows)) * [[1.0], [100.0], [0.01]]
    words = np.array(["rye", "oats", "barley"])[(random.integers(0, 3, rows) + first) % 3]
    gaps = np.where(random.random(rows) < 0.02, np.nan, inputs[1])
    return pa.table(
        {
            "a": inputs[0],
            "gaps": gaps,
            "c": inputs[2].astype(np.float32),
            "word": words,
            "y": (inputs[0] + 0.1 * random.normal(size=rows) > 0).astype(np.int8),
            "level": np.where(random.random(rows) < 0.01, np.nan, 50 + inputs[1]),
            "id": np.arange(first * rows, (first + 1) * rows),
            "zip": [f"{501 + row:05d}" if first == 2 else f"{20000 + row}" for row in range(rows)],
            "shop": np.char.add("s", (inputs[1] / 3 + 60).astype(int).astype(str)),
            "part": np.where(random.random(rows) < 0.3, "test", "train"),
            "flag": (np.arange(rows) > 0.8 * rows).astype(np.int8) if first == 2 else np.zeros(rows, np.int8),
        }
    )


def write_source(folder: Path, kind: str) -> Path:
    source = folder / kind
    source.mkdir()
    for number in range(3):
        rows = table(number)
        if kind == "parquet":
            pq.write_table(rows, source / f"{number}.parquet", row_group_size=(300, 700, 70)[number])
        elif kind == "csv":
            pacsv.write_csv(rows, source / f"{number}.csv")
        else:
            with pa.output_stream(str(source / f"{number}.csv.gz")) as stream:
                stream.write(rows.to_pandas().to_csv(sep=";", decimal=",", index=False).encode())
    return source


REST = ("word", "y", "level", "id", "zip", "shop", "part", "flag", "gaps")
SMALL = {"rows_per_shard": 300, "rows_per_group": 120}


def settings(target: str, *inputs: str, **options: Any) -> IngestSettings:
    keys = options.get("keys", ())
    used = {target, *inputs, *keys, options.get("split_column"), options.get("holdout")}
    drop = tuple(name for name in REST if name not in used)
    return IngestSettings.model_validate({"target": target, "drop": drop, **SMALL, **options})


CASES = {
    "a share": ("parquet", settings("y", scale="standard", holdout=0.3, seed=5, keys=("id", "word"))),
    "text labels and a split": ("parquet", settings("word", split_column="part", keys=("id",))),
    "dropped rows, test rows at the end": ("parquet", settings("y", "gaps", holdout="flag", missing="drop")),
    "a scaled target": ("parquet", settings("level", missing="drop", scale="minmax", scale_target=True, holdout=0.1)),
    "text, and means for gaps": ("parquet", settings("y", "word", "gaps", missing="mean", split_column="part")),
    "csv with text": ("csv", settings("y", "word", max_categories=2, holdout=0.2)),
    "target means of numbers": ("csv", settings("level", "shop", many_values="means", holdout=0.2)),
    "target means of classes": ("parquet", settings("word", "shop", many_values="means", split_column="part")),
    "compressed, as spreadsheets write": ("packed", settings("word", "gaps", missing="drop", holdout=0.2)),
    "csv": ("csv", settings("word", "gaps", missing="drop", holdout=0.2, keys=("id", "zip"))),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return {kind: write_source(folder, kind) for kind in ("parquet", "csv", "packed")}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("case", CASES)
def test_bytes_equal_those_of_one_process(
    case: str, sources: dict[str, Path], two_workers: Execution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, ingest_settings = CASES[case]
    ingest(sources[kind], tmp_path / "here", ingest_settings)
    for name in ("RANGE_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(csv, name, 16_000)
    reported: list[tuple[int, int | None]] = []
    ingested = ingest(
        sources[kind],
        tmp_path / "there",
        ingest_settings,
        execution=two_workers,
        progress=lambda *done: reported.append(done),
    )
    assert ingested.changed
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert len(ingested.dataset.shards) >= 5
    assert any(encoding.means for encoding in ingested.dataset.schema.encodings) == case.startswith("target means")
    assert reported[-1][0] == reported[-1][1] == sum(shard.rows for shard in ingested.dataset.shards)
    again = ingest(sources[kind], tmp_path / "there", ingest_settings, execution=two_workers)
    assert not again.changed
    verify(again.dataset)
    if kind == "csv":
        assert all(len(csv.line_ranges(path)) > 2 for path in sources[kind].iterdir())


@dataclass(frozen=True)
class ModifiedExecution:
    """Workers whose writing tasks are wrapped by `modify`."""

    inner: Execution
    modify: Callable[[Any], Any]

    @property
    def n_workers(self) -> int:
        return self.inner.n_workers

    def map(self, work: Any, items: Sequence[Any]) -> Iterator[Any]:
        return self.inner.map(self.modify(work) if isinstance(items[0], ShardTask) else work, items)


@dataclass(frozen=True)
class KilledAfterWriting:
    """Kill the first worker that has written shards, before it returns its result."""

    work: Any
    marker: Path

    def __call__(self, task: ShardTask) -> Any:
        done = self.work(task)
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return done


@dataclass(frozen=True)
class LimitedFileSize:
    """Limit the size of files that a worker writes."""

    work: Any
    limit_bytes: int

    def __call__(self, task: ShardTask) -> Any:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit_bytes, hard))
        try:
            return self.work(task)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@dataclass(frozen=True)
class WithoutFolder:
    """Let a worker write to a folder that does not exist on its machine."""

    work: Any

    def __call__(self, task: ShardTask) -> Any:
        return self.work.func(*self.work.args[:-1], Path("/somewhere/else"), task)


def test_a_worker_that_dies_after_writing_shards_changes_nothing(
    sources: dict[str, Path], two_workers: Execution, tmp_path: Path
) -> None:
    kind, ingest_settings = CASES["a share"]
    ingest(sources[kind], tmp_path / "here", ingest_settings)
    dying: Any = ModifiedExecution(two_workers, lambda work: KilledAfterWriting(work, tmp_path / "killed"))
    ingest(sources[kind], tmp_path / "there", ingest_settings, execution=dying)
    assert (tmp_path / "killed").exists()
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


@pytest.mark.parametrize(
    ("modify", "message"),
    [
        (lambda work: LimitedFileSize(work, 2000), r"Worker tls://\S+ cannot write to .* \(File too large\)"),
        (
            WithoutFolder,
            r"/somewhere/else is not there.* Worker tls://\S+ cannot open it: the data must have the same path",
        ),
    ],
)
def test_a_worker_that_cannot_write_is_named_and_no_file_remains(
    modify: Any, message: str, sources: dict[str, Path], two_workers: Execution, tmp_path: Path
) -> None:
    failing: Any = ModifiedExecution(two_workers, modify)
    with pytest.raises(ExecutionError, match=message):
        ingest(sources["parquet"], tmp_path / "there", CASES["a share"][1], execution=failing)
    assert list(tmp_path.iterdir()) == []


def failure(source: Path, folder: Path, ingest_settings: IngestSettings, execution: Execution | None = None) -> str:
    with pytest.raises(DataError) as caught:
        ingest(source, folder, ingest_settings, execution=execution)
    return str(caught.value)


def test_unreadable_rows_give_the_same_message_as_in_one_process(
    sources: dict[str, Path], two_workers: Execution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_settings = settings("y", "gaps", missing="error")
    message = failure(sources["parquet"], tmp_path / "no", ingest_settings)
    assert "column 'gaps' has no value" in message
    assert failure(sources["parquet"], tmp_path / "no", ingest_settings, two_workers) == message
    lines = (sources["csv"] / "1.csv").read_text().splitlines(keepends=True)
    lines[650] = "x" + lines[650]
    (tmp_path / "bad.csv").write_text("".join(lines))
    for name in ("RANGE_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(csv, name, 16_000)
    message = failure(tmp_path / "bad.csv", tmp_path / "no", settings("y"))
    assert "row 649 (counted from 0): expected a number" in message
    assert failure(tmp_path / "bad.csv", tmp_path / "no", settings("y"), two_workers) == message


def merge_all(parts: Iterable[ColumnMoments], n_columns: int) -> ColumnMoments:
    return reduce(merge_moments, parts, empty_moments(n_columns))


def columns(rows: int = 4000) -> FloatArray:
    random = np.random.default_rng(3)
    values = random.normal(size=(4, rows)) * np.array([[1.0], [1e-3], [1e4], [2.0]]) + np.array([[0], [5], [1e6], [-3]])
    return np.asarray(values, dtype=np.float32)


def close(one: ColumnMoments, other: ColumnMoments, tolerance: float = 1e-12) -> bool:
    return one.count == other.count and all(
        np.allclose(getattr(one, name), getattr(other, name), rtol=tolerance, atol=tolerance)
        for name in ("mean", "squares", "minimum", "maximum")
    )


def test_moments_match_numpy_in_float64() -> None:
    values = columns()
    wide = values.astype(np.float64)
    for column, statistics in zip(wide, column_statistics(moments_of(values)), strict=True):
        assert statistics.count == len(column)
        assert statistics.mean == pytest.approx(column.mean(), rel=1e-12)
        assert statistics.standard_deviation == pytest.approx(column.std(), rel=1e-9)
        assert (statistics.minimum, statistics.maximum) == (column.min(), column.max())


def test_merged_moments_equal_those_of_all_rows() -> None:
    values = columns()
    parts = np.split(values, [1, 7, 500, 501, 3000], axis=1)
    assert close(merge_all(map(moments_of, parts), 4), moments_of(values))


def test_merging_does_not_depend_on_order() -> None:
    parts = [moments_of(part) for part in np.split(columns(), [100, 700, 1500, 3900], axis=1)]
    forward = merge_all(parts, 4)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(parts))
        assert close(merge_all([parts[i] for i in order], 4), forward)
    assert close(merge_moments(merge_moments(parts[0], parts[1]), merge_all(parts[2:], 4)), forward)


def test_merging_with_no_rows_changes_nothing() -> None:
    some = moments_of(columns(50))
    assert merge_moments(empty_moments(4), some) is some
    assert merge_moments(some, moments_of(columns(50)[:, :0])) is some


def test_merging_leaves_its_inputs_unchanged() -> None:
    one, other = moments_of(columns(50)), moments_of(columns(70))
    before = [array.copy() for array in (one.mean, one.squares, other.mean, other.squares)]
    merge_moments(one, other)
    for array, copy in zip((one.mean, one.squares, other.mean, other.squares), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_constant_column_has_its_value_as_mean_and_deviation_zero() -> None:
    (statistics,) = column_statistics(merge_all([moments_of(np.full((1, n), 0.1, np.float32)) for n in (3, 7)], 1))
    assert statistics.constant
    assert statistics.standard_deviation == 0.0
    assert statistics.mean == np.float32(0.1)
