"""The command `okl` as documented in its help and README: options, JSON, files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.server import TemporaryServer
from okl.data.manifest import open_dataset
from okl.distributed.dask import DaskExecution
from okl.distributed.tls import write_self_signed
from okl.foundation.locations import okl_home
from okl.models.file import load_model
from tests.flows.commandline import Terminal, processes_of, tree
from tests.flows.conftest import query
from tests.rows import curved, scores_of, write

PROMISED = {"model", "run", "rows", "seconds", "total_seconds", "rows_per_second", "progressive", "train", "test",
            "baselines", "weights_sha256"}  # fmt: skip
PARTS = {"progressive", "train", "test"}


def test_help_names_every_option_and_fits_a_wide_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = {
        command: terminal.okl(command, *words, "--help")
        for command, *words in (("train", "--solver", "fogd"), ("ingest",), ("predict",), ("evaluate",), ("deploy",))
    }
    assert {outcome.code for outcome in shown.values()} == {0}
    flags = """--solver --kernel --bandwidth --frequencies --step-size --passes --rounds --order --seed --mode --workers
        --scheduler --out --name --config --set --class-weights --precision --target --task --split-column --holdout
        --key --scale --scale-target --rows-per-shard --missing --json"""
    assert [option for option in flags.split() if f"{option} " not in shown["train"].out] == []
    help_text = " ".join(shown["train"].out.split())
    for text in ("shuffle|stored", "FILE.toml", "LABEL=WEIGHT", "[default: 400]", "[default: 0]"):
        assert text in help_text
    assert "--overwrite" in shown["ingest"].out
    assert "--cron" in shown["deploy"].out
    assert max(len(line) for outcome in shown.values() for line in outcome.out.splitlines()) <= 100


def test_version_and_usage(terminal: Terminal) -> None:
    assert terminal.okl("--version").out.startswith("okl ")
    bare = terminal.okl("train")
    assert (bare.code, bare.out) == (2, "")
    assert "Missing argument 'DATASET'" in bare.err
    assert terminal.okl("trian").code == 2


def test_train_prints_every_documented_key(unrecorded: Path, tmp_path: Path, terminal: Terminal) -> None:
    write(tmp_path, curved(2000))
    words = ["--frequencies", "60", "--out", str(tmp_path / "run"), "--name", "curved", "--passes", "3"]
    result = terminal.okl_json("train", tmp_path / "rows.parquet", *words)
    assert result.keys() > PROMISED
    assert (result["run"], result["model"], result["name"]) == (
        str(tmp_path / "run"), str(tmp_path / "run" / "model"), "curved",
    )  # fmt: skip
    assert 0 < result["seconds"] < result["total_seconds"]
    assert result["rows_per_second"] == pytest.approx(3 * result["rows"] / result["seconds"])
    assert result["baselines"].keys() == {"majority", "linear"}
    for entry in (result, *result["baselines"].values()):
        assert entry.keys() >= PARTS
        if entry is not result["baselines"]["linear"]:  # this model is fitted in one step
            assert entry["progressive"].keys() == {"mistake_rate"}
        assert {"accuracy", "balanced_accuracy", "roc_auc", "average_precision"} <= entry["test"].keys()
    errors = [entry["test"]["mistake_rate"] for entry in (result, *result["baselines"].values())]
    assert errors[0] < 0.6 * min(errors[1:]), "the kernel fits a curved boundary"
    figures = [entry[part] or {} for entry in result["baselines"].values() for part in PARTS]
    kinds = {type(value) for part in figures for name, value in part.items() if name != "excess"}
    assert kinds <= {float, int}, "only the model has matrices"
    assert len(result["test"]["confusion"]) == 2

    assert set(tree(tmp_path)) == {
        "rows.parquet",
        *("run", "run/model", "run/model/model.json", "run/model/weights.safetensors", "run/result.json"),
        *("run/report.html", "run/timeline.parquet", "run/data", "run/data/manifest.json"),
        *(f"run/data/{shard.path}" for shard in open_dataset(tmp_path / "run" / "data").shards),
    }
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    assert result["dataset"]["folder"] == str(tmp_path / "run" / "data")
    assert ".unfinished" not in (tmp_path / "run" / "report.html").read_text()
    assert processes_of(unrecorded) == []


def test_regression_without_a_split_holds_out_a_fifth(unrecorded: Path, tmp_path: Path, terminal: Terminal) -> None:
    write(tmp_path, curved(800, "regression"))
    (tmp_path / "okl.toml").write_text('frequencies = 30\nout = "run"\n[ingest]\nscale = "minmax"\ndrop = ["split"]\n')
    terminal.patch.chdir(tmp_path)
    result = terminal.okl_json(
        *(
            "train",
            "rows.parquet",
            "--config",
            "okl.toml",
            "--set",
            "epsilon=0.01",
            "--set",
            "ingest.scale-target=true",
        ),
        *("--order", "stored", "--seed", "4"),
    )
    assert result["assumptions"] == ["20% of the rows (160) are test rows, drawn at random (--holdout)"]
    assert result["baselines"].keys() == {"mean", "linear"}
    assert result["test"]["rmse"] < min(entry["test"]["rmse"] for entry in result["baselines"].values())
    assert result["progressive"].keys() == {"squared_loss"}
    assert result["train"]["squared_loss"] < 0.8 * result["baselines"]["mean"]["train"]["squared_loss"]
    settings = result["settings"]
    assert (settings["epsilon"], settings["order"], settings["seed"], settings["frequencies"]) == (
        0.01,
        "stored",
        4,
        30,
    )
    assert (settings["ingest"]["scale"], settings["ingest"]["scale_target"]) == ("minmax", True)
    data = open_dataset(tmp_path / "run" / "data")
    assert (data.schema.scale, data.schema.scale_target, data.rows("test")) == ("minmax", True, 160)


SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-store",
    "FSSPEC_S3_SECRET": "secret-of-fsspec",
    "PREFECT_API_KEY": "secret-of-the-server",
}


def assert_no_secret_is_stored(*folders: Path) -> None:
    """Assert that no file has a secret: run folder, model, report, Prefect's database (artifacts, parameters, logs)."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert {".db", ".html", ".json", ".parquet", ".safetensors"} <= {path.suffix for path in files}
    for path in files:
        content = path.read_bytes()
        assert not [name for name, secret in SECRETS.items() if secret.encode() in content], path


def test_workers_rounds_weights_and_precision(
    configured: TemporaryServer, tmp_path: Path, terminal: Terminal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name, secret in SECRETS.items():
        terminal.patch.setenv(name, secret)
    terminal.patch.delenv("PREFECT_API_URL")  # commands are not recorded here
    rows = curved(1200, "multiclass", id=np.arange(1200))
    write(tmp_path, rows)
    assert set(rows.column("y").to_pylist()) == {5, 6, 7}
    ingest_words: list[str | Path] = [
        "ingest",
        tmp_path / "rows.parquet",
        tmp_path / "set",
        "--rows-per-shard",
        "300",
        "--key",
        "id",
    ]
    assert terminal.okl_json(*ingest_words)["changed"]
    train_words: list[str | Path] = ["train", tmp_path / "set", "--mode", "mix", "--rounds", "5", "--frequencies", "20"]
    train_words += ["--class-weights", "balanced", "--precision", "float64"]
    local = terminal.okl_json(*train_words, "--out", tmp_path / "here")
    predict_words: list[str | Path] = ["predict", local["model"], tmp_path / "rows.parquet", "--out"]
    assert terminal.okl_json(*predict_words, tmp_path / "scores")["rows"] == 1200
    terminal.patch.setenv("PREFECT_API_URL", configured.url)
    tls = tmp_path_factory.mktemp("tls")
    write_self_signed(tls)
    with DaskExecution(2, n_threads=1, tls=str(tls)) as cluster:
        workers: list[str | Path] = ["--scheduler", cluster.address, "--tls", tls]
        assert not terminal.okl_json(*ingest_words, *workers)["changed"]
        distributed = terminal.okl_json(*train_words, "--out", tmp_path / "there", *workers)
        terminal.okl_json(*predict_words, tmp_path / "scored", *workers)
        assert terminal.okl_json("evaluate", local["model"], tmp_path / "set", *workers)["metrics"] == local["test"]
    assert (local["mode"], local["rounds"], local["workers"], distributed["workers"]) == ("mix", 5, 0, 2)
    assert distributed["bytes_sent"] > 0
    assert local["weights_sha256"] == distributed["weights_sha256"]
    assert load_model(local["model"]).precision == "float64"
    assert local["timeline"]["workers"] >= 1  # threads
    assert distributed["timeline"]["workers"] == 2
    assert "Activity of this process and of each worker over time" in (tmp_path / "there" / "report.html").read_text()
    lanes = set(pq.read_table(tmp_path / "there" / "timeline.parquet")["lane"].to_pylist())
    assert "driver" in lanes
    assert len({lane for lane in lanes if lane.startswith("tls://127.0.0.1:")}) == 2

    files = sorted(path.name for path in (tmp_path / "scores").glob("*.parquet"))
    assert [(tmp_path / "scores" / name).read_bytes() for name in files] == [
        (tmp_path / "scored" / name).read_bytes() for name in files
    ]
    scores = scores_of(tmp_path / "scores")
    named = [f"{kind}_{label}" for kind in ("score", "probability") for label in (5, 6, 7)]
    assert scores.column_names == ["id", *named[:3], "prediction", *named[3:]]
    assert scores.column("id").to_pylist() == rows.column("id").to_pylist()
    assert set(scores.column("prediction").to_pylist()) == {5, 6, 7}
    assert processes_of(configured.home) == []
    assert_no_secret_is_stored(tmp_path, configured.home)
    url = f"s3://me:{SECRETS['AWS_SECRET_ACCESS_KEY']}@bucket/rows.parquet"
    refused = terminal.okl("train", url, "--workers", "2")
    assert refused.code == 2
    assert not any(secret in refused.err for secret in SECRETS.values())


def test_describe_and_evaluate_print_text_and_json(unrecorded: Path, tmp_path: Path, terminal: Terminal) -> None:
    write(tmp_path, curved(600))
    trained = terminal.okl("train", tmp_path / "rows.parquet", "--frequencies", "20", "--out", tmp_path / "run")
    assert trained.err == ""
    assert str(tmp_path / "run" / "model") in trained.out
    described = terminal.okl("describe", tmp_path / "run" / "data")
    assert "binary" in described.out
    evaluated = terminal.okl("evaluate", tmp_path / "run" / "model", tmp_path / "run" / "data")
    assert "Accuracy" in evaluated.out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    again = terminal.okl_json("evaluate", tmp_path / "run" / "model", tmp_path / "run" / "data")
    assert again["metrics"] == result["test"]
    assert again["learnt_rows"] == 0
    assert "Warning" not in evaluated.out
    for words in ([tmp_path / "rows.parquet"], [tmp_path / "run" / "data", "--split", "all"]):
        on_training_rows = terminal.okl("evaluate", tmp_path / "run" / "model", *words)
        assert f"Warning: the model was trained on {result['rows']} of these rows" in on_training_rows.out
        assert f"On its test rows: okl evaluate {tmp_path / 'run' / 'model'}\n" in on_training_rows.out
        assert on_training_rows.out.startswith("600 rows\n")
    of_run = terminal.okl_json("evaluate", tmp_path / "run", "--recall", "0.6")
    assert (of_run["source"], of_run["rows"]) == (str(tmp_path / "run" / "data"), again["rows"])
    shutil.copytree(tmp_path / "run" / "model", tmp_path / "alone")
    alone = terminal.okl("evaluate", tmp_path / "alone")
    assert (alone.code, "has no data set of its run. Give labelled rows" in alone.sentence) == (2, True)
    assert "Give other rows." in terminal.okl("evaluate", tmp_path / "alone", tmp_path / "rows.parquet").out


def test_divergence_ends_with_exit_code_one(configured: TemporaryServer, tmp_path: Path, terminal: Terminal) -> None:
    source = write(tmp_path, curved(4000, "regression"))
    terminal.patch.chdir(tmp_path)
    outcome = terminal.okl("train", source, "--step-size", "50", "--set", "epsilon=0")
    assert outcome.code == 1
    assert "weights are no longer finite with step_size = 50. Use a smaller value" in outcome.sentence
    assert tree(tmp_path) == ["rows.parquet"]
    assert list(okl_home().iterdir()) == []
    newest = "select state_type from flow_run where deployment_id is null order by created desc limit 1"
    assert query(configured.home, newest) == [("FAILED",)]


@pytest.mark.usefixtures("configured")
def test_deploy_refuses_what_a_run_would_refuse(tmp_path: Path, terminal: Terminal) -> None:
    source = write(tmp_path, curved(50))
    absent = terminal.okl("deploy", tmp_path / "absent.parquet")
    assert (absent.code, "does not exist" in absent.sentence) == (2, True)
    without_data = terminal.okl("deploy", "--passes", "2")
    assert (without_data.code, "add the argument DATASET" in without_data.sentence) == (2, True)
    refused = terminal.okl("deploy", source, "--solver", "bogd++", "--budget", "30", "--rank", "3")
    assert (refused.code, "has no rank" in refused.sentence) == (2, True)


def test_deploy_without_a_server_says_what_to_do(tmp_path: Path, terminal: Terminal) -> None:
    terminal.patch.delenv("PREFECT_API_URL", raising=False)
    outcome = terminal.okl("deploy")
    assert outcome.code == 1
    assert "Start one with `okl up`, or set PREFECT_API_URL" in outcome.sentence
