"""The commands of the README and of the how-to pages succeed exactly as written, on small files of the same names.

Commands that are not run are listed with the reason: they need a server, workers or minutes, or have another test.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import okl
from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings
from tests.docs.test_site import DOCS, READ, ROOT, shell_commands
from tests.flows.commandline import Terminal

NOT_RUN = {
    r"okl (up|status|down|deploy)\b|/operate\.md|infra/README\.md": "a server: python -m tests.benchmarks.composed",
    r"--workers 2$|--scheduler|--cluster": "workers: tests/distributed",
    r"--resume RUN": "an unfinished run: tests/flows/test_resume.py",
    r"compare .*--models all|--optimise auc": "minutes: tests/runs/compare",
    r"okl reproduce": "minutes, and the data of the papers: tests/papers",
    r"s3://": "an object store: tests/models/test_remote.py",
    r"--exclude day-3": "a file of an earlier night: tests/lifecycle/test_retrain.py",
    r"/tutorial/": "test_tutorial.py",
    r"/add\.md": "test_added.py",
}
TRAINED = "okl train rows.csv --target y --solver c-svm --name m"
EARLIER = "okl train rows.csv --target y --solver fogd --frequencies 20 --name earlier"
PREPARATIONS = {  # commands that a page assumes
    "export": [TRAINED],
    "runs": [TRAINED, "okl train data/covtype --solver fogd --frequencies 50 --name cover"],
    "registry": [EARLIER, "okl models publish churn earlier --promote", TRAINED],
    "retrain": [
        EARLIER,
        "okl models publish forest earlier --promote",
        TRAINED,
        "okl models publish forest m --promote",
    ],
    "constraints": ["okl ingest data.csv data --target y --holdout 0.2"],
}
REPLACEMENTS = (  # replacements of names in capitals, by command
    (r"MODEL data/covtype", "cover data/covtype"),
    (r"predict MODEL rows.csv", "predict covtype cover.parquet"),
    (r"\b(MODEL|RUN)\b", "m"),
    (r"train DATASET", "train rows.csv --target y"),
    (r"compare rows ", "compare rows.csv --target y --rows 150 --folds 2 --grid 3 "),
    (r"(compare data/covtype.*)", r"\1 --rows 120 --folds 2 --grid 3"),
    (r"(train data/flights.csv [^#]*[^# ])", r"\1 --budget-seconds 2"),  # a short automatic choice
    (r"train data/covtype( *#|$)", r"train data/covtype --budget-seconds 2\1"),
    (r"reviews ~/inbox", "reviews texts"),
    (r"~/inbox", "inbox"),
)
N_ROWS = 160


def commands(path: Path) -> list[str]:
    """Return the commands of a page that are run."""
    return [line for line in shell_commands(path) if not reason(path, line)]


def reason(path: Path, line: str) -> str:
    """Return why a command is not run; "" if it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, f"{path}\n{line}")), "")


PAGES_TO_RUN = [path for path in READ if commands(path)]


def table() -> pd.DataFrame:
    """Return rows with every column that the pages use."""
    random = np.random.default_rng(3)
    rows = pd.DataFrame(random.standard_normal((N_ROWS, 3)), columns=["x0", "x1", "x2"])
    for name, values in (("sex", 2), ("group", 2), ("area", 2)):
        rows[name] = random.integers(1, 1 + values, N_ROWS) - (name != "area")
    rows["zip"] = random.choice(["8001", "8002", "8400"], N_ROWS)
    score = np.sin(2.0 * rows["x0"]) + rows["x1"] + 0.3 * random.standard_normal(N_ROWS)
    rows["body"] = np.where(score > 0, "good and quick ", "poor and late ") + random.choice(["box", "bag"], N_ROWS)
    rows["price"], rows["stars"], rows["y"] = 500.0 + 100.0 * score, np.where(score > 0, "five", "one"), score > 0
    return rows.astype({"y": int})


@pytest.fixture(scope="module")
def page_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the files that the pages use."""
    folder, rows = tmp_path_factory.mktemp("pages"), table()
    columns = ["x0", "x1", "x2"]
    files = {
        "data.csv": [*columns, "zip", "sex", "y"],
        "rows.csv": [*columns, "y"],
        "rows.parquet": [*columns, "group", "y"],
        "stream.parquet": [*columns, "y"],
        "prices.parquet": [*columns, "area", "price"],
        "houses.csv": [*columns, "price"],
        "reviews.csv": ["body", "x0", "stars"],
    }
    for name, column_names in files.items():
        frame = rows[column_names]
        frame.to_csv(folder / name, index=False) if name.endswith(".csv") else frame.to_parquet(
            folder / name, index=False
        )
    for name, file in (("inbox", "rows.parquet"), ("texts", "reviews.csv")):
        (folder / name).mkdir()
        shutil.copy(folder / file, folder / name)
    (folder / "infra").symlink_to(ROOT / "infra")
    (folder / "data").mkdir()
    lines = (ROOT / "data" / "flights.csv").read_text().splitlines(keepends=True)
    (folder / "data" / "flights.csv").write_text("".join(lines[:1] + lines[1::48]))
    (folder / "new.csv").write_text("".join(lines[:51]))
    cover = pq.read_table(ROOT / "data" / "covtype" / "part-00000.parquet").to_pandas()
    cover.groupby("y").head(40).to_parquet(folder / "cover.parquet", index=False)
    ingest(folder / "cover.parquet", folder / "data" / "covtype", IngestSettings(holdout=0.2, target="y"))
    return folder


@pytest.mark.parametrize("path", PAGES_TO_RUN, ids=lambda path: path.stem)
def test_the_commands_of_a_page_succeed(
    path: Path, page_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, terminal = commands(path), Terminal(capsys, monkeypatch)
    all_commands = " ".join(PREPARATIONS.get(path.stem, []) + lines)
    for file in page_files.iterdir():
        if file.name != "data" or not re.search(r" data( |$)", all_commands):
            (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    for line in PREPARATIONS.get(path.stem, []) + lines:
        for pattern, replacement in REPLACEMENTS:
            line = re.sub(pattern, replacement, line)
        outcome = terminal.okl(*shlex.split(line, comments=True)[1:])
        assert outcome.code == 0, (line, outcome.err)


def test_commands_that_are_not_run_have_a_reason() -> None:
    all_commands = [(path, line) for path in READ for line in shell_commands(path)]
    n_run = sum(map(len, map(commands, PAGES_TO_RUN)))
    assert n_run + sum(bool(reason(path, line)) for path, line in all_commands) == len(all_commands)
    assert n_run >= 30
    for pattern in NOT_RUN:
        assert any(re.search(pattern, f"{path}\n{line}") for path, line in all_commands), f"needless: {pattern}"


def test_the_python_of_the_readme_runs(page_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(page_files)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["chances"].shape == (len(names["flights"]), 2)
    np.testing.assert_allclose(names["chances"].sum(axis=1), 1.0, rtol=1e-6)


def python_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / "how-to" / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("dates", ["parts", "calendar"])
def test_the_python_of_the_page_on_onnx_gives_the_scores_of_okl(
    dates: str,
    page_files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    (tmp_path / "data").symlink_to(page_files / "data")
    terminal, fast = Terminal(capsys, monkeypatch), ("--solver", "c-svm", "--frequencies", "20", "--dates", dates)
    train, export = commands(DOCS / "how-to" / "export.md")[:2]
    assert terminal.okl(*shlex.split(train)[1:], *fast).code == 0
    assert terminal.okl(*shlex.split(export)[1:]).code == 0
    names: dict[str, Any] = {}
    exec(python_of("export.md")[1], names)
    scores = okl.load("flights").scores(names["csv"].read_csv("data/flights.csv"))
    np.testing.assert_allclose(names["outputs"]["scores"].ravel(), np.ravel(scores), rtol=1e-4, atol=1e-5)
