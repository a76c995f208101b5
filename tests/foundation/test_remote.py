"""Data, models and runs under s3://: the same bits as in folders, or one clear error, under any server failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import open_source
from okl.data.manifest import is_dataset, open_dataset, verify
from okl.data.reading import read_rows
from okl.foundation import locations
from okl.foundation.errors import CheckpointError, ConfigError, DataError, ModelError
from okl.foundation.folders import UNFINISHED, PublishedFolder, local_folder
from okl.foundation.locations import RemoteCopy, RemotePath, RemoteReader, place_of, whole_copy_of
from okl.models.file import load_model
from okl.models.pieces import read_table, table_pieces
from okl.runs.api import predict
from okl.runs.checkpoint import Position, RunCheckpoints, find_unfinished, settings_of
from tests.data.sources import inputs_of, settings, table
from tests.objectstore import Faulty
from tests.rows import curved, scores_of, train, train_settings

SHAPE: dict[str, Any] = {"rows_per_shard": 300, "rows_per_group": 100}


def uploaded(folder: Path, target: RemotePath) -> RemotePath:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            (target / str(path.relative_to(folder))).put(path)
    return target


def names(folder: RemotePath) -> list[str]:
    return [str(file).removeprefix(f"{folder}/") for file, _ in folder.files(below=True)]


def raw_folder(folder: Path, kind: str) -> Path:
    """Write two files of one kind; the rows of the second follow those of the first."""
    content = table(1000)
    for index, part in enumerate((content.slice(0, 400), content.slice(400))):
        if kind == "parquet":
            pq.write_table(part, folder / f"{index}.parquet", row_group_size=150)
        elif kind.startswith("csv"):
            with pa.output_stream(str(folder / f"{index}.{kind}")) as stream:
                pacsv.write_csv(part, stream)
        else:
            dump_svmlight_file(inputs_of(part), part["y"].to_numpy(), str(folder / f"{index}.svm"))
    return folder


@pytest.mark.parametrize("kind", ["parquet", "csv.gz", "svm"])  # csv: in the next test
def test_a_source_under_a_url_makes_the_data_set_that_the_folder_makes(
    kind: str, bucket: RemotePath, server: Faulty, tmp_path: Path
) -> None:
    raw = raw_folder(tmp_path, kind)
    location = uploaded(raw, bucket / "raw")
    here = ingest(raw, tmp_path / "set", settings(**SHAPE)).dataset
    server.reset(share=0.1, seed=len(kind))
    remote_result = ingest(str(location), str(bucket / "set"), settings(**SHAPE))
    assert remote_result.changed
    # the manifest contains the digests of every shard and of the source
    assert remote_result.dataset.sha256 == here.sha256
    verify(remote_result.dataset)
    assert names(bucket / "set") == ["manifest.json", *sorted(shard.path for shard in here.shards)]
    assert not ingest(f"{location}/*.{kind}", bucket / "set", settings(**SHAPE)).changed
    assert server.failed >= 3


def test_a_run_from_and_to_urls_is_the_run_from_and_to_folders_while_one_request_in_ten_fails(
    bucket: RemotePath, server: Faulty, tmp_path: Path
) -> None:
    rows = curved(900)
    pacsv.write_csv(rows, tmp_path / "rows.csv")
    pq.write_table(rows.drop_columns(["split"]), tmp_path / "new.parquet")
    for name in ("rows.csv", "new.parquet"):
        (bucket / name).put(tmp_path / name)
    made = settings(**SHAPE, scale="standard")
    server.reset(share=0.1, seed=1)
    results = {}
    for home in (tmp_path, bucket):
        data = ingest(str(home / "rows.csv"), str(home / "set"), made).dataset
        result = train(train_settings(data.folder, home / "run", passes=2))
        scored = predict(result["model"], home / "new.parquet", home / "scores")
        results[str(home)] = (data.sha256, result, scored)
    here, there = results[str(tmp_path)], results[str(bucket)]
    assert here[0] == there[0]
    assert here[1]["weights_sha256"] == there[1]["weights_sha256"]
    assert here[1]["test"] == there[1]["test"]
    assert there[1]["model"] == f"{bucket}/run/model"
    assert there[1]["dataset"]["folder"] == f"{bucket}/set"
    assert here[2]["predictions"] == there[2]["predictions"]
    kept = ["model/model.json", "model/weights.safetensors", "report.html", "result.json", "timeline.parquet"]
    assert names(bucket / "run") == kept
    assert names(bucket / "scores") == ["_scores.json", "part-00000.parquet"]
    (bucket / "scores" / "part-00000.parquet").read_bytes()
    (tmp_path / "copy.parquet").write_bytes((bucket / "scores/part-00000.parquet").read_bytes())
    assert pq.read_table(tmp_path / "copy.parquet") == scores_of(tmp_path / "scores")
    assert server.failed >= 5
    written = [file for folder in ("set", "run", "scores") for file, _ in (bucket / folder).files(below=True)]
    assert len(written) >= 10
    for file in written:
        content = file.read_bytes()
        assert b"SECRETOFTESTS" not in content
        assert b"KEYOFTESTS" not in content


def test_a_shard_that_changed_under_its_url_is_an_error_that_names_it(
    bucket: RemotePath, server: Faulty, tmp_path: Path
) -> None:
    made = ingest(raw_folder(tmp_path, "parquet"), tmp_path / "set", settings(**SHAPE)).dataset
    data = open_dataset(uploaded(tmp_path / "set", bucket / "set"))
    content = bytearray((bucket / "set" / data.shards[1].path).read_bytes())
    content[100] ^= 1
    (bucket / "set" / data.shards[1].path).write_bytes(content)
    assert len(read_rows(data, data.shards[0], (0,), "float32").targets) == made.shards[0].row_groups[0]
    for read in (lambda: read_rows(data, data.shards[1], (0,), "float32"), lambda: list(all_rows(data.folder))):
        with pytest.raises(DataError, match=rf"{bucket}/set/part-00001\.parquet is damaged or has changed since"):
            read()
    (bucket / "set" / data.shards[1].path).unlink()
    with pytest.raises(DataError, match=r"shard part-00001\.parquet is missing"):
        open_dataset(str(bucket / "set"))


def all_rows(location: Any) -> Iterator[pa.RecordBatch]:
    for piece in table_pieces(location):
        for rows in read_table(piece):
            yield rows.batch


def test_a_shard_is_fetched_once_and_each_byte_is_requested_once(
    bucket: RemotePath, server: Faulty, tmp_path: Path
) -> None:
    ingest(raw_folder(tmp_path, "parquet"), tmp_path / "set", settings(**SHAPE, compression="none"))
    data = open_dataset(uploaded(tmp_path / "set", bucket / "set"))
    server.reset()
    for _ in range(3):
        for shard in data.shards:
            read_rows(data, shard, range(len(shard.row_groups)), "float32")
        list(all_rows(data))
    requested = [path for method, path in server.request_log if method == "GET"]
    assert sorted(requested) == sorted(f"/{data.path(shard)}".replace("s3://", "") for shard in data.shards)


class Dying(BaseException):
    """Simulated end of the process."""


@pytest.mark.parametrize("dies_at", ["part-00002", "manifest.json"])
def test_files_of_a_killed_ingest_are_no_data_set_and_the_next_ingest_removes_them(
    dies_at: str, bucket: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = RemotePath.put

    def dying(target: RemotePath, file: Path) -> None:
        if dies_at in target.name:
            raise Dying
        put(target, file)

    raw = raw_folder(tmp_path, "parquet")
    with monkeypatch.context() as patch:
        patch.setattr(RemotePath, "put", dying)
        patch.setattr(PublishedFolder, "close", lambda place: None)  # a killed process closes nothing
        with pytest.raises(Dying):
            ingest(raw, bucket / "set", settings(**SHAPE))
    left = names(bucket / "set")
    assert UNFINISHED in left
    assert any("part-" in name for name in left)
    assert not is_dataset(bucket / "set")
    with pytest.raises(DataError, match=r"has no manifest\.json"):
        open_dataset(bucket / "set")
    made = ingest(raw, bucket / "set", settings(**SHAPE)).dataset
    assert names(bucket / "set") == ["manifest.json", *sorted(shard.path for shard in made.shards)]


def test_a_run_that_fails_leaves_nothing_under_its_url(bucket: RemotePath, server: Faulty, tmp_path: Path) -> None:
    pq.write_table(curved(600), tmp_path / "rows.parquet")
    (bucket / "rows.parquet").put(tmp_path / "rows.parquet")
    server.refused = lambda method, path: method == "PUT" and path.endswith("report.html")
    with pytest.raises(DataError, match=r"report\.html cannot be written: permission was refused"):
        train(train_settings(bucket / "rows.parquet", bucket / "run", {}))
    server.reset()
    assert names(bucket) == ["rows.parquet"]
    assert not list(local_folder(bucket / "run").parent.glob(".run*"))


def test_an_existing_location_is_refused_and_a_data_set_is_replaced_only_on_request(
    bucket: RemotePath, tmp_path: Path
) -> None:
    raw = raw_folder(tmp_path, "csv")
    (bucket / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(DataError, match="exists and is not a data set"):
        ingest(raw, bucket / "mine", settings())
    with pytest.raises(ConfigError, match="exists already, and okl never overwrites a result"):
        PublishedFolder(bucket / "mine").open()
    assert names(bucket / "mine") == ["notes.txt"]
    ingest(raw, bucket / "set", settings(**SHAPE))
    with pytest.raises(DataError, match="was made with other settings"):
        ingest(raw, bucket / "set", settings())
    made = ingest(raw, bucket / "set", settings(), overwrite=True).dataset
    assert names(bucket / "set") == ["manifest.json", *(shard.path for shard in made.shards)]
    assert open_dataset(bucket / "set").sha256 == made.sha256


def test_the_second_writer_of_a_location_keeps_it_and_the_first_fails(bucket: RemotePath, tmp_path: Path) -> None:
    first, second = PublishedFolder(bucket / "run"), PublishedFolder(bucket / "run")
    first.open()
    second.open()
    (second.staging / "result.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"is being written by another process\. Choose another folder"):
        first.complete()
    first.close()
    second.complete()
    second.close()
    assert names(bucket / "run") == ["result.json"]


def test_errors_of_the_store_are_one_sentence(bucket: RemotePath, server: Faulty, tmp_path: Path) -> None:
    for url in (f"{bucket}/none", "s3://no-such-bucket/none"):
        with pytest.raises(DataError, match=rf"{url} does not exist; expected the folder of a data set"):
            open_dataset(url)
        with pytest.raises(DataError, match=rf"{url} does not exist; expected a file, a folder or a glob"):
            open_source(url)
        with pytest.raises(ModelError, match=rf"{url}/model\.json cannot be read: it does not exist"):
            load_model(url)
    with pytest.raises(
        DataError, match=r"cannot be written: it does not exist \(The specified bucket does not exist\)"
    ):
        ingest(raw_folder(tmp_path, "csv"), "s3://no-such-bucket/set", settings())
    server.refused = lambda method, path: True
    server.request_log.clear()
    with pytest.raises(DataError, match=r"permission was refused \(.+\)\. Check the credentials"):
        (bucket / "x").read_bytes()
    assert len(server.request_log) == 1


WRONG = {
    "s3://me:word@bucket/a": r"^s3://bucket/a contains a user or password",
    "https://host/a.csv?token=word": r"^https://host/a\.csv contains a query, which may hold a token",
    "filecache::s3://bucket/a": r"^filecache::s3://bucket/a chains several URLs",
    "nothing://bucket/a": r"^nothing:// is unknown; okl supports s3://, gs://, abfs://",
}


@pytest.mark.parametrize("url", WRONG)
def test_a_url_that_okl_must_not_or_cannot_use_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=WRONG[url]) as caught:
        place_of(url)
    assert "word@" not in str(caught.value)
    assert "=word" not in str(caught.value)


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    def missing(kind: str) -> None:
        raise ImportError("Install it")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    locations._class_of.cache_clear()
    try:
        for kind, extra in (("s3", "s3"), ("gs", "gs"), ("abfs", "abfs")):
            with pytest.raises(
                ConfigError, match=rf"^{kind}:// requires a package .*: pip install 'okl\[{extra}\]'\.$"
            ):
                place_of(f"{kind}://bucket/a")
    finally:
        locations._class_of.cache_clear()


def test_a_copy_returns_the_requested_bytes_within_its_disk_limit(bucket: RemotePath, server: Faulty) -> None:
    content = bytes(range(256)) * 4096 * 40  # 40 MiB
    (bucket / "large").write_bytes(content)
    copy = RemoteCopy(bucket / "large", len(content), limit_bytes=2**20)
    reader = RemoteReader(copy)
    server.reset()
    for start in (0, 2**20 - 3, 5, 39 * 2**20, 17, 30 * 2**20):
        reader.seek(start)
        assert reader.read(2**20) == content[start : start + 2**20]
        assert copy.held_bytes <= 32 * 2**20
    before = server.requests
    assert reader.read(1000) == content[31 * 2**20 : 31 * 2**20 + 1000]
    assert server.requests == before + 1
    assert b"".join(iter(lambda: reader.read(3 * 2**20), b"")) == content[31 * 2**20 + 1000 :]
    reader.seek(0)
    assert reader.read() == content
    assert copy.held_bytes <= 32 * 2**20
    with pytest.raises(DataError, match="has changed since ingest"):
        whole_copy_of(bucket / "large", len(content), "0" * 64)


class GoneError(Exception):
    """Simulated end of the process."""


def test_an_interrupted_run_to_a_url_resumes_to_the_same_bits(
    bucket: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(curved(900), tmp_path / "rows.parquet")
    ingest(tmp_path / "rows.parquet", bucket / "set", settings(**SHAPE))
    options: dict[str, Any] = {"mode": "mix", "rounds": 4, "step_size": 0.1, "checkpoint_rounds": 1}
    whole = train(train_settings(bucket / "set", bucket / "whole", **options))
    write = RunCheckpoints.write

    def dying(keeper: RunCheckpoints, loop: str, position: Position, execution: Execution) -> None:
        write(keeper, loop, position, execution)
        raise GoneError

    with monkeypatch.context() as patch:
        patch.setattr(RunCheckpoints, "write", dying)
        with pytest.raises(GoneError):
            train(train_settings(bucket / "set", bucket / "run", **options))
    assert names(bucket / "run") == []
    unfinished = find_unfinished(f"{bucket}/run")
    again = train(settings_of(unfinished), resume=unfinished)
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert again["run"] == f"{bucket}/run"
    assert names(bucket / "run") == names(bucket / "whole")
    assert not unfinished.exists()
    with pytest.raises(CheckpointError, match=rf"{bucket}/run is complete: there is nothing left to resume"):
        find_unfinished(f"{bucket}/run")
