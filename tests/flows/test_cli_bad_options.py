"""Wrong options at the command line: one clear sentence, exit code 2, before a server is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.cli.options import train_settings
from flows.cli.plan import assumed_data
from tests.data.sources import parquet
from tests.flows.commandline import Terminal, tree
from tests.rows import curved

BAD_OPTIONS: dict[str, tuple[str, str]] = {
    "no such setting": ("--set pxy=2", r"'pxy' is not an option; valid options: .*data"),
    "an option of okl itself": ("--extension loss.py", r"before the command: okl --extension FILE\.py train \.\.\.$"),
    "no number": ("--passes two", r"passes = 'two': input should be a valid integer"),
    "no step": ("--step-size -1", r"step_size = '-1': input should be greater than 0"),
    "not a bandwidth": ("--bandwidth nan", r"bandwidth = 'nan': input should be a finite number"),
    "no such order": ("--order sorted", r"order = 'sorted': input should be 'shuffle' or 'stored'"),
    "no file": ("--config absent.toml", r"absent\.toml cannot be read"),
    "rounds of stream": ("--rounds 3", r"rounds applies to the modes mix and sum"),
    "a loss of another task": ("--loss multiclass-hinge", r"'multiclass-hinge' is for multiclass tasks"),
    "a label that is not there": ("--class-weights maybe=2", r"names \['maybe'\], but the labels are \['no', 'yes'\]"),
    "a weight of zero": ("--class-weights yes=0", r"class_weights = .*greater than 0"),
    "ingest of a data set": ("--scale minmax", r"is already a data set\. Remove the options of ingest"),
    "two places to work": ("--workers 2 --scheduler 127.0.0.1:1", r"workers and scheduler exclude each other"),
    "no address": ("--scheduler somewhere", r"Expected an address such as tcp://HOST:8786"),
    "a taken place": ("--out .", r"exists already, and okl never overwrites"),
    "a kernel without frequencies": (
        "--kernel polynomial",
        r"'polynomial' is not shift-invariant, so it has no frequencies for a Fourier map\. Use .*the solver nogd",
    ),
    "a rank above the budget": (
        "--solver nogd --budget 20 --rank 21",
        r"rank = 21, but a budget of 20 landmarks allows at most that rank\. Set the rank to at most 20",
    ),
    "more landmarks than rows": (
        "--solver nogd --budget 5000",
        r"budget = 5,000, but there are only \d{3} training rows .*Set a budget of at most \d{3}\.",
    ),
    "more chosen landmarks than rows": (
        "--solver nogd --budget 5000 --landmarks kmeans",
        r"budget = 5,000, but landmarks = 'kmeans' are chosen from \d{3} sampled rows",
    ),
    "more support vectors than rows": (
        "--solver rbp --budget 5000",
        r"budget = 5,000 is more than the \d{3} training rows",
    ),
    "a budget of fogd": (
        "--budget 50",
        r"budget = 50 is set, but the solver fogd \(taken if none is given\) has no .* choice has budget_seconds\.",
    ),
    "a budget of the choice, with a mode": (
        "--budget-seconds 20 --mode sum",
        r"fogd \(taken because of mode = sum\) has no budget_seconds: .* leave the solver and the mode to okl\.",
    ),
    "a penalty that is lost in rounding errors": (
        "--solver local --penalty 1e-300",
        r"penalty = '1e-300': expected a number from 1e-15 to 1e15",
    ),
    "a penalty of pegasos": ("--solver pegasos --lam 1e-300", r"lam = '1e-300': expected a number from 1e-15"),
    "a radius": ("--radius 1e300", r"radius = '1e300': expected a number from 1e-15 to 1e15"),
    "a bundle without bundle directions": (
        "--solver scs --set directions=conjugate --set bundle_size=9",
        r"bundle_size = 9 is set, but directions = 'conjugate'\. Remove one\.",
    ),
    "a budget of fogd, as large as by default": (
        "--solver fogd --budget 100",
        r"budget = 100 is set, but the solver fogd has no budget: it belongs to nogd, ",
    ),
    "a rank of fogd": ("--rank 5", r"rank = 5 is set, but the solver fogd \(.*\) has no rank: it belongs to nogd"),
    "frequencies of nogd": (
        "--solver nogd --frequencies 50",
        r"frequencies = 50 is set, but the solver nogd has no frequencies: it belongs to fogd, c-svm, .*",
    ),
    "a map of nogd": ("--solver nogd --map auto", r"the solver nogd has no map: it belongs to fogd, .*"),
    "a budget of a perceptron": ("--solver perceptron --budget 50", r"the solver perceptron has no budget"),
    "weights of a budget": (
        "--solver rbp --class-weights balanced",
        r"class_weights = 'balanced' is set, but the solver rbp has no class_weights: it belongs to fogd, nogd, .*",
    ),
    "a regularisation of rbp": ("--solver rbp --set regularisation=0.1", r"rbp has no regularisation"),
    "a degree of the Gaussian kernel": (
        "--solver nogd --set degree=2",
        r"degree = 2 is set, but the kernel 'gaussian' has no degree",
    ),
    "a bandwidth of the linear kernel": (
        "--solver rbp --kernel linear --bandwidth 2",
        r"bandwidth = 2\.0 is set, but the kernel 'linear' has no bandwidth",
    ),
    "merging without distances": ("--solver bsgd-merging --kernel polynomial", r"bsgd-merging .*Gaussian|gaussian"),
    "a loss of other solvers": ("--solver rbp --loss logistic", r"but rbp uses the hinge loss"),
    "an epsilon of classes": ("--set epsilon=0.5", r"epsilon = 0\.5 is for regression"),
    "a rule of the mode sum": ("--set step_rule=plain", r"applies to the mode sum, but the mode is stream"),
    "sums of support vectors": ("--solver rbp --mode sum", r"mode = 'sum', but rbp supports stream and mix only"),
    "a nu out of its range": (
        "--solver nu-svm --nu 0.99",
        r"nu = 0\.99 is outside \(0, 0\.\d+\], the valid range for these labels",
    ),
    "no C": ("--solver c-svm --C 0", r"C = '0': input should be greater than 0"),
    "an infinite C": ("--solver c-svm --C inf", r"C = 'inf': input should be a finite number"),
    "a C of nu-svm": ("--solver nu-svm --C 1", r"C = 1\.0 is set, but the solver nu-svm has no C: "),
    "passes of a certified model": (
        "--solver c-svm --passes 2",
        r"passes = 2 is set, but the solver c-svm has no passes: it belongs to fogd, .*",
    ),
    "a stream of a certified model": ("--solver c-svm --mode stream", r"c-svm reads all rows in every"),
    "frequencies of inputs": (
        "--solver c-svm --kernel linear --frequencies 9",
        r"kernel = 'linear' uses no feature map",
    ),
    "no such solver": ("--solver svm", r"solver = 'svm': .* such as c-svm, l2-svm, nu-svm, l1-l2-svm"),
    "no place": ("--out /dev/null/run", r"/dev/null/run cannot be created: /dev/null is a file\. Choose another --out"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_wrong_options_are_refused_before_a_server_is_started(
    name: str, trained: Path, home: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, message = BAD_OPTIONS[name]
    monkeypatch.chdir(tmp_path)
    outcome = terminal.okl("train", trained / "run" / "data", *words.split())
    assert outcome.code == 2
    assert re.search(message, outcome.sentence)
    assert tree(tmp_path) == []


@pytest.mark.parametrize("words", [["--target", "label"], ["--task", "binary"], ["--set", "ingest.holdout=0.2"]])
def test_plan_and_train_refuse_ingest_options_for_a_data_set_alike(
    words: list[str], trained: Path, home: Path, terminal: Terminal
) -> None:
    of_plan, of_train = (terminal.okl(command, trained / "run" / "data", *words) for command in ("plan", "train"))
    assert (of_plan.code, of_plan.sentence) == (2, of_train.sentence)
    assert "is already a data set. Remove the options of ingest" in of_plan.sentence


@pytest.mark.parametrize(
    ("pairs", "toml", "task"),
    [
        ([], "", "binary"),
        (["ingest.target=price"], "", "binary"),
        (["ingest.task=regression"], "", "regression"),
        ([], "[ingest]\ntask = 'multiclass'", "multiclass"),
    ],
)
def test_plan_without_data_uses_the_configured_task(pairs: list[str], toml: str, task: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(toml)
    settings = train_settings("paper", {}, {}, str(tmp_path / "config.toml"), pairs)
    assumed = assumed_data(settings, "1e6", "20", "7" if task == "multiclass" else None)
    assert assumed is not None
    assert (assumed.rows, assumed.columns, assumed.task) == (1_000_000, 20, task)
    assert task != "multiclass" or assumed.n_classes == 7


WITHOUT_DATA = ["--rows", "1000", "--columns", "9"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rows.parquet", "--classes", "7"], "--classes 7 conflicts with a data set, which has its own"),
        ([*WITHOUT_DATA, "--classes", "7"], "--classes 7 conflicts with task binary. Remove it, or add"),
        (
            [*WITHOUT_DATA, "--classes", "7", "--set", "ingest.task=regression"],
            "--classes 7 conflicts with task regression. Remove it",
        ),
        ([*WITHOUT_DATA, "--set", "ingest.task=auto"], "--task auto needs a data set. With --rows, use binary, multi"),
        ([*WITHOUT_DATA, "--memory", "0"], "--memory 0 is invalid: expected a number above 0."),
        (["--rows", "10.5", "--columns", "9"], "--rows 10.5 is invalid: expected a whole number."),
        (["--rows", "1000"], "okl plan takes either a data set or both --rows and --columns."),
        ([*WITHOUT_DATA, "--rounds", "3"], "rounds applies to the modes mix and sum"),
        ([*WITHOUT_DATA, "--solver", "ridge", "--set", "ingest.task=regression", "--loss", "hinge"], "loss"),
    ],
)
def test_plan_refuses_classes_and_tasks_without_effect(
    words: list[str], message: str, home: Path, terminal: Terminal
) -> None:
    outcome = terminal.okl("plan", *words)
    assert (outcome.code, message in outcome.sentence) == (2, True), outcome.sentence


BAD_OF_SOURCES: dict[str, tuple[str, str]] = {
    "a kernel without frequencies": ("--kernel linear", r"'linear' is not shift-invariant.*the solver nogd"),
    "a strategy for classes only": (
        "--solver bpa-s --task regression",
        r"bpa-s is not defined for a regression task, only for binary, multiclass",
    ),
    "a strategy for two classes only": (
        "--solver tvm --task multiclass",
        r"tvm is not defined for a multiclass task, only for binary",
    ),
    "an option of other solvers": ("--solver ogd --rank 3", r"the solver ogd has no rank: it belongs to nogd"),
    "a loss of another task": ("--loss hinge --task regression", r"'hinge' is for binary tasks"),
}


@pytest.mark.parametrize("name", BAD_OF_SOURCES)
def test_options_that_fit_no_task_are_refused_before_a_server_is_started(
    name: str, home: Path, tmp_path: Path, terminal: Terminal
) -> None:
    words, message = BAD_OF_SOURCES[name]
    source = parquet(tmp_path, curved(50), "numbers.parquet")
    outcome = terminal.okl("train", source, *words.split(), "--out", tmp_path / "run")
    assert outcome.code == 2
    assert re.search(message, outcome.sentence)
    assert tree(tmp_path) == [source.name]


def test_a_task_that_is_known_only_after_reading_is_refused_in_the_run(
    unrecorded: Path, tmp_path: Path, terminal: Terminal
) -> None:
    source = parquet(tmp_path, curved(400, "regression"), "numbers.parquet")
    before = tree(tmp_path)
    outcome = terminal.okl("train", source, "--solver", "bpa-s", "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "bpa-s is not defined for a regression task" in outcome.sentence
    assert tree(tmp_path) == before
