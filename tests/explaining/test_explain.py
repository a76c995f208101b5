"""`okl explain`, as a user types it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import okl
from okl.registry.registry import Registry
from okl.retraining.run import retrain
from tests.flows.commandline import Terminal
from tests.retraining.stories import settings, shards


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on rows whose labels only the column `decides` knows, and further rows beside it."""
    folder = tmp_path_factory.mktemp("explained")
    for name, seed in (("rows", 1), ("more", 2)):
        draw = np.random.default_rng(seed).standard_normal((2000, 3))
        columns = {"idle": draw[:, 0], "decides": draw[:, 1], "too": draw[:, 2]}
        labels = np.where(draw[:, 1] > 0, "yes", "no")
        pq.write_table(pa.table(columns | {"y": labels}), folder / f"{name}.parquet")
    okl.ingest(folder / "rows.parquet", folder / "data", target="y", holdout=0.25)
    okl.train(folder / "data", out=str(folder / "run"), solver="c-svm", kernel="linear", C=1.0)
    return folder


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return Terminal(capsys, monkeypatch)


def test_a_run_is_explained_on_its_own_test_rows(terminal: Terminal, run: Path) -> None:
    told = terminal.okl_json("explain", run / "run" / "model", "--rows", "400")
    assert told["importance"]["columns"][0]["column"] == "decides"
    assert told["importance"]["columns"][0]["rise"] > 0.3
    assert told["importance"]["rows"] == 400
    assert "test rows of" in told["importance"]["on"]
    assert told["certificate"]["relative_gap"] <= 1e-4
    text = terminal.okl("explain", run / "run" / "model").out
    assert "solver c-svm" in text
    assert re.search(r"a linear model of the inputs: 4 weights, .*6 numbers that scale the inputs; float32", text)
    assert "Test rows" in text
    assert re.search(r"scores by .*; a score below 0 says \w+, others \w+\n", text)
    assert text.splitlines()[-3].startswith("decides ")


def test_a_registered_version_is_explained_with_its_lineage(terminal: Terminal, run: Path, tmp_path: Path) -> None:
    shown = terminal.okl_json("models", "publish", "m", run / "run", "--promote", "--registry", tmp_path / "registry")
    told = terminal.okl_json("explain", "m@champion", run / "more.parquet", "--registry", tmp_path / "registry")
    assert told["lineage"]["version"] == shown["version"] == 1
    assert told["model"] == "m@1"
    assert told["importance"]["rows"] == 2000
    assert told["importance"]["columns"][0]["column"] == "decides"
    assert told["importance"]["on"].endswith("more.parquet")
    learnt = terminal.okl_json("explain", run / "run" / "model", run / "rows.parquet", "--rows", "40", "--repeats", "1")
    assert re.search(r"rows.parquet, a source that the model learnt 1,[45]\d\d rows of$", learnt["importance"]["on"])
    assert Registry(tmp_path / "registry").model("m").state().aliases["champion"] == 1


def test_a_retrained_version_is_explained_by_what_it_was_judged_on(terminal: Terminal, tmp_path: Path) -> None:
    train = {"solver": "c-svm", "frequencies": 20, "tol": 1e-2, "step_size": "auto", "order": "shuffle"}
    asked = settings(tmp_path, train=train, window_shards=1)
    shards(tmp_path, 1)
    retrain(asked)
    shards(tmp_path, 2)
    result = retrain(asked)
    registry = ("--registry", tmp_path / "registry")
    told = terminal.okl_json("explain", "m", *registry)
    assert (told["test"], told["progressive"], told["dataset"]) == (None, None, None)
    assert told["judged"] == {
        "rows": result["decision"]["overall"]["rows"],
        "shards": result["judged_on"],
        "against": "m@1",
        **result["metrics"],
    }
    assert told["certificate"] == result["certificate"]
    (learnt,) = told["lineage"]["shards"]
    assert told["lineage"]["learnt_rows"] == told["provenance"]["train_rows"] == learnt["rows"]  # of a window of one
    lines = terminal.okl("explain", "m@2", tmp_path / "in" / "day-02.parquet", "--rows", "100", *registry).out
    rates = [f"{result['metrics'][name]['mistake_rate']:.4f}" for name in ("challenger", "champion")]
    assert re.search(rf"on {told['judged']['rows']} reserved rows of 2 shards +this model +m@1\n", lines)
    assert re.search(rf"Mistake rate +{rates[0]} +{rates[1]}\n", lines)
    assert re.search(r"how +solved anew over the latest 1 shards", lines)
    assert re.search(
        r"on \d+ reserved rows of 1 shard +this model +majority class\n", terminal.okl("explain", "m@1", *registry).out
    )
    folder = Registry(tmp_path / "registry").model("m").version(2).folder
    copied = terminal.okl_json("models", "publish", "copy", folder, *registry)
    shown = terminal.okl_json("models", "show", "copy", *registry)
    assert copied["new"]
    assert shown["versions"][0]["metrics"].keys() == {"champion", "challenger"}
    assert (Path(copied["folder"]) / "report.html").read_bytes() == (Path(folder) / "report.html").read_bytes()
    assert terminal.okl_json("explain", "copy@1", *registry)["judged"]["against"] == "m@1"


def test_a_model_without_rows_is_told_of_all_the_same(terminal: Terminal, run: Path, tmp_path: Path) -> None:
    (run / "run" / "model").rename(tmp_path / "elsewhere")
    try:
        told = terminal.okl_json("explain", tmp_path / "elsewhere")
    finally:
        (tmp_path / "elsewhere").rename(run / "run" / "model")
    assert told["importance"] is None
    assert "name a source that has the target" in told["no_importance"]
    assert told["what"]["map"]["kind"] == "standardised-linear"


def test_rows_without_the_target_are_an_error(terminal: Terminal, run: Path, tmp_path: Path) -> None:
    pq.write_table(pq.read_table(run / "more.parquet").drop_columns(["y"]), tmp_path / "unlabelled.parquet")
    refused = terminal.okl("explain", run / "run" / "model", tmp_path / "unlabelled.parquet")
    assert refused.code == 2
    assert "has no target column 'y'" in refused.sentence
