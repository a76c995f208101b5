"""Bad input at the command line: one clear sentence on standard error, exit code 2, and no files left."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.bad_sources import CASES
from tests.data.sources import parquet, replaced
from tests.flows.commandline import Terminal, tree

EARLY = [
    *("missing file", "no match", "empty directory", "unknown ending", "not Parquet", "empty file", "truncated file"),
    *(
        "no target column",
        "no such key",
        "shards of differing columns",
        "shards of differing types",
        "a column of lists",
    ),
    *("a text target for regression", "zero rows", "duplicate columns", "duplicate columns in CSV", "only a target"),
    *("NaN", "damaged pages", "zero rows in CSV"),
]
NEEDS_ROWS = [
    *(
        "infinity",
        "no target in any row",
        "NaN in the second file",
        "one class only",
        "three classes for a binary task",
    ),
    "a label of test rows only",
]
FLAGS = {"keys": "--key", "split_column": "--split-column"}


def bad_source(name: str, folder: Path) -> tuple[Path, list[str], str]:
    """Make a bad source; return its path, the options to use and the expected message."""
    prepare, values, message = CASES[name]
    words = []
    for option, value in values.items():
        for item in value if isinstance(value, tuple) else [value]:
            words += [FLAGS.get(option, f"--{option}"), str(item)]
    return prepare(folder), words, message


def assert_refused(name: str, folder: Path, terminal: Terminal, *commands: tuple[str | Path, ...]) -> None:
    """Assert that each command refuses a bad source in one sentence and leaves no files; `more` follows the source."""
    source, words, message = bad_source(name, folder)
    before = tree(folder)
    for command, *more in commands:
        outcome = terminal.okl(command, source, *more, *words)
        assert outcome.code == 2
        assert outcome.sentence.startswith("Error: ")
        assert re.search(message, outcome.sentence)
    assert tree(folder) == before


@pytest.mark.parametrize("name", EARLY)
def test_bad_input_is_refused_before_a_server_is_started(
    name: str, home: Path, tmp_path: Path, terminal: Terminal
) -> None:
    assert_refused(name, tmp_path, terminal, ("train",), ("ingest", tmp_path / "new" / "set"))
    assert not home.exists()


@pytest.mark.parametrize("name", NEEDS_ROWS)
def test_errors_found_while_reading_rows_are_one_sentence(
    name: str, unrecorded: Path, tmp_path: Path, terminal: Terminal
) -> None:
    assert_refused(name, tmp_path, terminal, ("train", "--out", tmp_path / "new" / "run"))
    assert tree(unrecorded) == []


def rows_of(trained: Path) -> pa.Table:
    return pq.read_table(trained / "rows.parquet")


def write_new_rows(content: pa.Table, folder: Path) -> Path:
    return parquet(folder, content, "new.parquet")


BAD_ROWS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a column is missing": (
        lambda rows: rows.drop_columns(["b", "y"]),
        r"new\.parquet: the model requires 3 columns, and 1 of them is missing: 'b'",
    ),
    "a column is misspelt": (
        lambda rows: rows.rename_columns(["a", "b_", "c", "y", "split"]),
        r"1 of them is missing: 'b'",
    ),
    "a column is text": (
        lambda rows: replaced(rows, "c", ["x"] * len(rows)),
        r"column 'c' is of type string, but the model requires a number\. Write numbers such as",
    ),
    "zero rows": (lambda rows: rows.slice(0, 0), r"new\.parquet holds no rows"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_do_not_fit_the_model_are_refused_before_a_server_is_started(
    name: str, trained: Path, home: Path, tmp_path: Path, terminal: Terminal
) -> None:
    change, message = BAD_ROWS[name]
    source = write_new_rows(change(rows_of(trained)), tmp_path)
    before = tree(tmp_path)
    model = trained / "run" / "model"
    outcome = terminal.okl("predict", model, source, "--out", tmp_path / "new" / "scores")
    assert outcome.code == 2
    assert re.search(message, outcome.sentence)
    assert terminal.okl("evaluate", model, source).code == 2
    assert tree(tmp_path) == before
    assert not home.exists()


def test_rows_without_a_label_can_be_predicted_but_not_evaluated(
    trained: Path, home: Path, tmp_path: Path, terminal: Terminal
) -> None:
    source = write_new_rows(rows_of(trained).drop_columns(["y"]), tmp_path)
    sentence = terminal.okl("evaluate", trained / "run" / "model", source).sentence
    assert re.search(r"new\.parquet has no target column 'y', .* The other 3 columns exist: okl predict", sentence)
    assert not home.exists()


def test_a_bad_value_among_the_rows_to_score_is_named(
    trained: Path, unrecorded: Path, tmp_path: Path, terminal: Terminal
) -> None:
    values = rows_of(trained).column("b").to_numpy().copy()
    values[300:] = np.inf
    source = write_new_rows(replaced(rows_of(trained), "b", values), tmp_path)
    before = tree(tmp_path)
    outcome = terminal.okl("predict", trained / "run" / "model", source, "--out", tmp_path / "new" / "scores")
    assert outcome.code == 2
    assert re.search(r"new\.parquet: column 'b' is infinite .*in row 300 ", outcome.sentence)
    assert tree(tmp_path) == before


def test_a_label_never_seen_in_training_is_named(trained: Path, home: Path, tmp_path: Path, terminal: Terminal) -> None:
    labels = rows_of(trained).column("y").to_pylist()
    strange = replaced(rows_of(trained), "y", [*labels[:250], "maybe", *labels[251:]])
    source = write_new_rows(strange, tmp_path)
    outcome = terminal.okl("evaluate", trained / "run" / "model", source)
    assert outcome.code == 2
    assert re.search(r"new\.parquet: target 'y' is 'maybe' in row 250 .*which is not a label of training: 'no', 'yes'",
                     outcome.sentence)  # fmt: skip
    assert terminal.okl("ingest", source, tmp_path / "set", "--drop", "split").code == 0
    outcome = terminal.okl("evaluate", trained / "run" / "model", tmp_path / "set")
    assert outcome.code == 2
    assert re.search(r"has the label 'maybe', which is not a label of training: 'no', 'yes'", outcome.sentence)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def set_later_format_version(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 99}))


DAMAGE: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "weights": ("model/weights.safetensors", damage, r"weights\.safetensors: the sha256 differs .* is damaged"),
    "description": (
        "model/model.json",
        damage,
        r"model\.json: (the sha256 does not match\. The file is damaged|not JSON)",
    ),
    "no weights": ("model/weights.safetensors", Path.unlink, r"weights\.safetensors cannot be read .*incomplete"),
    "no model": ("model/model.json", Path.unlink, r"model\.json cannot be read .*Give the folder of a trained model"),
    "a later model": (
        "model/model.json",
        set_later_format_version,
        r"format 99 was written by a later okl version; .*Upgrade okl",
    ),
    "a later data set": (
        "data/manifest.json",
        set_later_format_version,
        r"format 99, but this version of okl reads.*Upgrade okl",
    ),
    "a shorter shard": (
        "data/part-00000.parquet",
        cut,
        r"part-00000\.parquet is truncated: \d+ bytes, expected",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_or_later_files_are_refused_before_a_server_is_started(
    name: str, trained: Path, home: Path, tmp_path: Path, terminal: Terminal
) -> None:
    file, change, message = DAMAGE[name]
    shutil.copytree(trained / "run", tmp_path / "run")
    change(tmp_path / "run" / file)
    before = tree(tmp_path)
    model, data, out = tmp_path / "run" / "model", tmp_path / "run" / "data", tmp_path / "new" / "out"
    commands: list[list[str | Path]] = [["evaluate", model, data], ["predict", model, data, "--out", out]]
    if "data" in file:
        commands += [["train", data, "--out", out], ["describe", data]]
    for words in commands:
        outcome = terminal.okl(*words)
        assert outcome.code == 2
        assert re.search(message, outcome.sentence)
    assert tree(tmp_path) == before
    assert not home.exists()


def test_arguments_of_another_command_are_refused_with_the_correct_command(
    trained: Path, home: Path, tmp_path: Path, terminal: Terminal
) -> None:
    run, rows = trained / "run", trained / "run" / "data"
    cases: dict[str, list[str | Path]] = {
        "scores are written to one file (.csv, .parquet) or to a folder. Change --out.": [
            *("predict", run, rows, "--out", tmp_path / "scores.tsv"),
        ],
        "is one file, which this process writes alone. With workers, give a folder as --out.": [
            *("predict", run, rows, "--out", tmp_path / "scores.csv", "--workers", "2"),
        ],
        "is not recorded. Give a folder as --out.": [
            *("predict", run, rows, "--out", tmp_path / "scores.csv", "--record"),
        ],
        "Without --out, scores are written to standard output as CSV. Add --out DIR": [
            "predict",
            run,
            rows,
            "--record",
        ],
        f"is the folder of a run, not of data. Its data are in {rows}. To compare runs": ["train", run],
        "is the folder of a run, not of data.": ["compare", run],
        f"is the folder of a run, not of data. Its data are in {rows}.": ["evaluate", run, run],
        "listed by okl train --help, such as c-svm, l2-svm, nu-svm": ["train", rows, "--solver", "svm"],
        "listed by okl train --help, such as fogd, ridge, auto": ["train", rows, "--solver", "gradient-boosting"],
    }
    for sentence, words in cases.items():
        outcome = terminal.okl(*words)
        assert outcome.code == 2
        assert sentence in outcome.sentence
    assert not home.exists()


def test_an_address_without_a_scheduler_is_an_execution_error(
    trained: Path, home: Path, tmp_path: Path, terminal: Terminal
) -> None:
    model, data = trained / "run" / "model", trained / "run" / "data"
    commands: list[list[str | Path]] = [["train", data], ["evaluate", model, data]]
    commands.append(["predict", model, data, "--out", tmp_path / "out"])
    for words in commands:
        outcome = terminal.okl(*words, "--scheduler", "127.0.0.1:9")
        assert outcome.code == 1
        assert "No Dask scheduler answers at 127.0.0.1:9" in outcome.sentence
    assert not home.exists()


def test_a_home_that_cannot_be_created_is_named(
    trained: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "file" / "home"))
    outcome = terminal.okl("train", trained / "run" / "data")
    assert outcome.code == 2
    assert re.search(r"home folder .*file/home cannot be created \(Not a directory\). Set OKL_HOME", outcome.sentence)


def test_file_access_error_is_one_sentence(
    home: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "/disk/part-00000.parquet")

    monkeypatch.setattr("okl.data.manifest.open_dataset", full)
    outcome = terminal.okl("describe", tmp_path)
    assert outcome.code == 1
    assert outcome.sentence == (
        "Error: file access of '/disk/part-00000.parquet' failed: No space left on device. Free disk space, then run "
        "the command again."
    )
