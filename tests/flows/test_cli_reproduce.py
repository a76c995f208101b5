"""`okl reproduce` at the command line: recorded by Prefect, on Dask workers, resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.server import TemporaryServer
from okl.papers.run import reproduce
from okl.papers.settings import ReproduceSettings
from tests.flows.commandline import Terminal
from tests.flows.conftest import query
from tests.papers.sets import write_set


def test_a_table_is_reproduced_on_workers_recorded_and_resumed(
    configured: TemporaryServer, tmp_path: Path, terminal: Terminal
) -> None:
    write_set(tmp_path / "data", "german")
    options = {"datasets": "german,w7a", "algorithms": "FOGD", "repeats": 2}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    words = ["reproduce", "lu2016-table5", *words, "--data", str(tmp_path / "data"), "--out", str(tmp_path / "run")]
    result = terminal.okl_json(*words, "--workers", "1")
    local = reproduce(ReproduceSettings(table="lu2016-table5", data=str(tmp_path / "data"), **options))
    assert [cell["mean"] for cell in result["cells"]] == [cell["mean"] for cell in local["cells"]]
    assert result["cells"][0]["mean"] > 0
    assert (result["workers"], result["items_done_before"]) == (1, 0)

    artifacts = dict(
        query(configured.home, "select key, data from artifact where key like 'okl-reproduce-lu2016-table5-%'")
    )
    assert set(artifacts) == {*(f"okl-reproduce-lu2016-table5-{part}" for part in ("progress", "metrics", "report"))}
    assert "data:image/svg+xml" in artifacts["okl-reproduce-lu2016-table5-report"]
    assert [row["dataset"] for row in json.loads(json.loads(artifacts["okl-reproduce-lu2016-table5-metrics"]))] == [
        "german",
        "w7a",
    ]

    again = terminal.okl(*words)
    assert (again.code, again.err) == (0, "")
    assert "29.90 ± 0.70 %" in again.out
    assert "w7a.parquet is not in --data" in again.out
    assert json.loads((tmp_path / "run" / "result.json").read_text())["items_done_before"] == result["items"]


def test_bad_input_is_one_sentence_and_starts_nothing(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    table = terminal.okl("reproduce", "lu2016-table6", "--data", tmp_path)
    assert (table.code, table.sentence.startswith("Error: table = 'lu2016-table6'")) == (2, True)
    number = terminal.okl("reproduce", "lu2016-table5", "--data", tmp_path, "--repeats", "0")
    assert (number.code, "repeats = '0'" in number.sentence) == (2, True)
    assert terminal.okl("reproduce", "lu2016-table5").code == 2
    nothing = terminal.okl("reproduce", "lu2016-table5", "--data", tmp_path)
    assert (nothing.code, nothing.out) == (2, "")
    assert "german.parquet is not in --data, like 8 other sets of lu2016-table5: nothing to run" in nothing.sentence
    assert "lu2016-table5" in terminal.okl("reproduce", "--help").out
    assert list(tmp_path.iterdir()) == []
