"""Every kind of solver at the command line: trained, stored, evaluated, used to predict, and described in text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import okl
from okl.foundation.types import Task
from okl.report.training import text_summary
from tests.flows.commandline import Terminal
from tests.rows import curved, inputs_of, scores_of, write


class Case(NamedTuple):
    """Options of a run, a sentence of its report, and a line of its summary."""

    task: Task
    words: str
    sentence: str
    line: str


CASES: dict[str, Case] = {
    "experts": Case(
        "binary", "--frequencies 30 --seed 2", "feature maps compared during training by fogd", "Step size"
    ),
    "experts of a sample": Case("multiclass", "--frequencies 30 --mode mix", "The fogd model is linear", "Step size"),
    "nogd": Case(
        "regression",
        "--solver nogd --kernel matern52 --budget 40 --rank 12 --passes 2 --scale standard --scale-target",
        "linear in 12 Nystrom features of 40 landmarks with the Matern 5/2 kernel",
        "Rank",
    ),
    "a rank that cannot be kept": Case(
        "binary",
        "--solver nogd --kernel linear --budget 30 --rank 9",
        "(rank 3: all 3 positive eigenvalues of the kernel matrix of 30 support vectors)",
        "Rank",
    ),
    "a budget": Case(
        "multiclass",
        "--solver bsgd-merging --budget 30 --order stored --set regularisation=0.01",
        "kernel expansion with 30 support vectors (the whole budget) and the Gaussian kernel",
        "Support vectors",
    ),
    "a budget, mixed": Case(
        "binary",
        "--solver rbp --kernel polynomial --set degree=2 --budget 25 --mode mix",
        "kernel expansion with 25 support vectors (the whole budget) and the polynomial kernel",
        "Support vectors",
    ),
    "certified": Case(
        "binary",
        "--solver nu-svm --nu 0.4 --frequencies 30 --tol 1e-3",
        "linear in 30 random frequencies of the Gaussian kernel",
        "Outcome",
    ),
    "samples": Case(
        "multiclass",
        "--solver scs --lam 0.01 --gap 0.05 --frequencies 30 --set first_sample=100",
        "of its value (proved over all rows).",
        "Outcome",
    ),
    "samples, the kernel itself": Case(
        "binary",
        "--solver scs --map exact --lam 0.01 --gap 0.05 --set first_sample=100 --class-weights balanced",
        "in the space of the Gaussian kernel",
        "Outcome",
    ),
    "steps, certified": Case(
        "binary",
        "--solver pegasos --certify --lam 0.01 --frequencies 30",
        "of its value (proved over all rows).",
        "Outcome",
    ),
    "no budget": Case(
        "regression",
        "--solver ogd --step-size 0.5 --bandwidth 1.5 --set epsilon=0.2",
        "(no budget: every row with an update) and the Gaussian kernel of bandwidth 1.5, step size",
        "Support vectors",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_solver_stores_a_model_with_the_same_scores_everywhere(
    name: str, unrecorded: Path, tmp_path: Path, terminal: Terminal
) -> None:
    case = CASES[name]
    rows = curved(800, case.task)
    source = write(tmp_path, rows)
    trained = terminal.okl_json("train", source, *case.words.split(), "--out", tmp_path / "run")
    model, data = trained["model"], tmp_path / "run" / "data"

    assert terminal.okl_json("evaluate", model, data)["metrics"] == trained["test"]
    terminal.okl_json("predict", model, source, "--out", tmp_path / "scores")
    stored, loaded = scores_of(tmp_path / "scores"), okl.load(model)
    predictions = np.asarray(stored.column("prediction").to_pylist())
    np.testing.assert_array_equal(np.asarray(loaded.predict(inputs_of(rows)), dtype=predictions.dtype), predictions)
    test = np.array([part == "test" for part in rows.column("split").to_pylist()])
    true = rows.column("y").to_numpy()[test]
    if case.task == "regression":
        assert trained["test"]["mse"] == pytest.approx(np.mean((predictions[test] - true) ** 2), rel=1e-5)
    else:
        assert trained["test"]["mistake_rate"] == pytest.approx(np.mean(predictions[test] != true))
        assert len(set(predictions.tolist())) > 1
    assert_described(case, tmp_path / "run", trained)


def assert_described(case: Case, run: Path, trained: dict[str, Any]) -> None:
    """Assert that the page has the sentence, and that the terminal's summary has the line."""
    assert case.sentence in (run / "report.html").read_text()
    (line,) = [line for line in text_summary(trained, verbose=True).splitlines() if line.startswith(f"{case.line}  ")]
    assert line.split(case.line)[1].strip() not in ("", "-")


def test_a_solver_above_its_tolerance_is_reported_as_not_converged(
    unrecorded: Path, tmp_path: Path, terminal: Terminal
) -> None:
    source = write(tmp_path, curved(400, "binary"))
    words = ["--solver", "c-svm", "--frequencies", "20", "--set", "max_iterations=3", "--tol", "1e-9"]
    ended = terminal.okl("train", source, *words, "--out", tmp_path / "run")
    assert ended.code == 3
    assert "Warning: The solver did not converge: 3 Newton steps, relative gap " in ended.out
    assert okl.load(tmp_path / "run" / "model") is not None
    quiet = terminal.okl("train", source, *words, "--set", "method=fapg", "--json", "--out", tmp_path / "again")
    assert (quiet.code, json.loads(quiet.out.splitlines()[-1])["certificate"]["converged"]) == (3, False)
    assert "did not converge: 3 iterations, relative gap" in quiet.err


def test_a_class_without_rows_is_ignored(unrecorded: Path, tmp_path: Path, terminal: Terminal) -> None:
    rows = curved(400, "multiclass")
    words = np.array(["low", "middle", "high", "never"])[rows.column("y").to_numpy() - 5]
    declared = rows.set_column(3, "y", with_unused_category(words))
    source = write(tmp_path, declared, "declared.parquet")
    trained = terminal.okl_json("train", source, "--solver", "nogd", "--budget", "30", "--out", tmp_path / "run")
    assert trained["dataset"]["labels"] == ["high", "low", "middle"]
    weighted = ["--solver", "nogd", "--budget", "30", "--class-weights", "never=2"]
    refused = terminal.okl("train", tmp_path / "run" / "data", *weighted)
    assert (refused.code, "names ['never'], but the labels are" in refused.sentence) == (2, True)


def with_unused_category(words: np.ndarray[Any, Any]) -> Any:
    categories = ["never", "low", "middle", "high"]
    indices = [categories.index(word) for word in words]
    assert 0 not in indices
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(categories))
