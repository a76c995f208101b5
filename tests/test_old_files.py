"""Files written by okl of commit bafc059: later code reads them and continues to the same values."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import pyarrow.parquet as pq
import pytest

import okl
from flows.cli import main as command_line
from okl.features.predictors import base_of

# Only these names are not public: they resume and retrain without the start-up time of a Prefect server.
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.models.file import load_model, save_model
from tests.rows import train as resume_or_train

OLD = Path(__file__).parent / "data" / "bafc059"
EXPECTED: dict[str, Any] = json.loads((OLD / "expected.json").read_text())
SAME_BITS = llvmlite.binding.get_host_cpu_name() == EXPECTED["cpu"]  # numba and BLAS choose their code by processor
SIZE: dict[str, Any] = {"frequencies": 12}
OTHER_STEPS = ("accelerated", "l1")  # since then, FAPG takes other steps to the same certified optimum


class StopBeforeEvaluation:
    """Observer that stops a run after it has learnt."""

    def stage(self, name: str) -> None:
        if name == "evaluate":
            raise KeyboardInterrupt

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        pass

    def finish(self) -> None:
        pass


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder: the old files name paths relative to the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))


def assert_scores(model: str | Path, rows: str, expected: dict[str, list[Any]], name: str = "") -> None:
    """Check the scores of a model: the same bits on the processor that wrote them, else the same to five digits.

    name : of the run; to four digits if its solver takes other steps
    """
    tolerance = 1e-4 if name in OTHER_STEPS else 1e-5
    shutil.rmtree("scores", ignore_errors=True)
    okl.predict(model, OLD / "rows" / f"{rows}.parquet", "scores", threads=1)
    found = pq.read_table("scores").to_pydict()
    assert found.keys() == expected.keys()
    for title, column in expected.items():
        if isinstance(column[0], str) or (SAME_BITS and name not in OTHER_STEPS):
            assert found[title] == column
        else:
            largest = float(np.abs(column).max())  # sums of large terms cancel
            np.testing.assert_allclose(found[title], column, rtol=tolerance, atol=tolerance * max(1.0, largest))


def uncalibrated(model: str) -> Path:
    """Write a copy of a model without the calibration that new models have, and return its folder."""
    found, folder = load_model(model), Path("uncalibrated")
    shutil.rmtree(folder, ignore_errors=True)
    save_model(replace(found, predictor=base_of(found.predictor)), folder)
    return folder


def assert_weights(result: dict[str, Any], expected: dict[str, Any], name: str = "") -> None:
    """Check the model of a run by its digest on the processor that wrote it, and by its scores of cancer."""
    assert not SAME_BITS or name in OTHER_STEPS or result["weights_sha256"] == expected["weights_sha256"]
    assert_scores(uncalibrated(result["model"]), "cancer", expected["scores"], name)


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_an_old_model_gives_the_same_scores(name: str) -> None:
    expected = EXPECTED["models"][name]
    assert_scores(OLD / "models" / name, expected["data"], expected["scores"])


def test_an_old_data_set_opens_and_gives_the_same_model() -> None:
    shutil.copytree(OLD / "data" / "cancer", "data")
    dataset = okl.open_dataset("data")
    assert dataset.rows("train") + dataset.rows("test") == 240
    result = okl.train("data", out="run", threads=1, **SIZE, step_size=0.5, bandwidth=3.0)
    assert_weights(result, EXPECTED["models"]["fogd"])


@pytest.fixture(scope="module")
def code_now(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the digest, versions and processor that checkpoints of the current code record."""
    folder = tmp_path_factory.mktemp("now")
    with pytest.raises(KeyboardInterrupt):
        okl.train(OLD / "data" / "cancer", out=folder / "run", observer=StopBeforeEvaluation(), checkpoint_rounds=1)
    (head,) = folder.rglob("checkpoint.json")
    about: dict[str, Any] = json.loads(head.read_text())["about"]
    return {name: about[name] for name in ("source_sha256", "versions", "processor")}


def head_of(run: Path) -> Path:
    (head,) = run.rglob("checkpoint.json")
    return head


def seal(head: Path, about: dict[str, Any]) -> None:
    """Replace what a checkpoint records of its code, which must match to resume, and update its digest."""
    content = json.loads(head.read_text())
    del content["sha256"]
    content["about"] |= about
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    head.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


def copy_run(name: str) -> tuple[Path, okl.TrainSettings]:
    """Copy the data and an unfinished run to their original paths; return the folder and settings of the run."""
    shutil.copytree(OLD / "data" / "cancer", "data/cancer")
    left = Path(shutil.copytree(OLD / "runs" / name, f"runs/.{name}.unfinished-00000000"))
    return left, okl.TrainSettings.model_validate(json.loads(head_of(left).read_text())["about"]["settings"])


@pytest.mark.parametrize("name", EXPECTED["runs"])
def test_an_old_checkpoint_resumes_to_the_same_model(name: str, code_now: dict[str, Any]) -> None:
    left, settings = copy_run(name)
    seal(head_of(left), code_now)
    result = resume_or_train(settings, None, left)
    assert result["resumed"] == 1
    assert_weights(result, EXPECTED["runs"][name], name)


def test_a_checkpoint_of_other_code_is_refused(code_now: dict[str, Any]) -> None:
    left, settings = copy_run("online")
    seal(head_of(left), code_now | {"source_sha256": "0" * 64})
    with pytest.raises(okl.CheckpointError, match="code 000000000000"):
        resume_or_train(settings, None, left)


@pytest.fixture
def okl_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return a function that runs the command line and returns what --json prints."""

    def run(*arguments: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["okl", *arguments, "--json"])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            command_line()
        printed = capsys.readouterr()
        assert not ended.value.code, printed.err
        result: dict[str, Any] = json.loads(printed.out.splitlines()[-1])
        return result

    return run


@pytest.mark.parametrize("name", EXPECTED["registry"])
def test_an_old_registry_is_shown_loaded_and_rolled_back(name: str, okl_json: Callable[..., dict[str, Any]]) -> None:
    shutil.copytree(OLD / "registry", "registry")
    shown = okl_json("models", "show", name, "--registry", "registry")
    assert [one["version"] for one in shown["versions"]] == [3, 2, 1]
    for number, expected in enumerate(EXPECTED["registry"][name][:3], 1):
        okl_json("models", "show", f"{name}@{number}", "--registry", "registry")
        okl.load(f"{name}@{number}", registry="registry")
        version = okl.Registry("registry").model(name).version(number)
        assert_scores(f"{version.folder}/model", "cancer", expected["scores"])
    okl_json("models", "rollback", name, "--registry", "registry")
    assert okl.Registry("registry").model(name).version().number == 2


@pytest.mark.parametrize("name", EXPECTED["registry"])
def test_an_old_registry_is_retrained_to_the_same_model(name: str) -> None:
    shutil.copytree(OLD / "registry", "registry")
    Path("in").mkdir()
    for day in range(4):
        shutil.copy(OLD / "rows" / f"day-{day}.parquet", "in")
    size = SIZE if name == "fogd" else {"budget": 15}
    options = {"train": {"solver": name} | size, "ingest": {"scale": "standard"}, "publish_if": "not worse"}
    result = retrain(
        RetrainSettings.model_validate(
            {"name": name, "source": "in", "registry": "registry", "settle_seconds": 0} | options
        )
    )
    expected = EXPECTED["registry"][name][3]
    champion = okl.Registry("registry").model(name).version()
    assert (result["outcome"], champion.number) == (expected["outcome"], expected["version"])
    assert_scores(uncalibrated(f"{champion.folder}/model"), "cancer", expected["scores"])
