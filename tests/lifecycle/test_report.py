from __future__ import annotations

import math
import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun, retrain
from okl.report.blocks import Figure
from okl.report.format import number
from okl.report.retraining import champion_figure, points_of, summary_sentence, summary_text
from tests.lifecycle.shards import content, land
from tests.lifecycle.stories import settings, shards


def test_each_run_that_judges_has_a_page_with_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    shards(tmp_path, 1, 2)
    first = retrain(settings(tmp_path))
    assert first["report"] == f"{first['folder']}/report.html"
    assert Path(first["report"]).is_file()
    shards(tmp_path, 3, 4)
    shards(tmp_path, 5, flipped=True)
    run = RetrainingRun(settings(tmp_path, publish_if="better", margin=0.5))
    for stage in RETRAIN_STAGES:
        run.perform_stage(stage)
    run.close()
    result = run.result()
    assert result["outcome"] == "kept"
    (bad,) = result["shards"]["rejected"]
    assert bad["name"] not in [shard["name"] for shard in result["shards"]["accepted"]]
    command = f"okl retrain m {tmp_path / 'in'} --registry {tmp_path / 'registry'} --release {bad['sha256'][:16]}"
    assert f"If the relation has really changed: {command}" in summary_text(result)
    many = [bad | {"name": f"bad-{number}", "sha256": f"{number:016}"} for number in range(12)]
    summary = summary_text(result | {"shards": result["shards"] | {"rejected": many}})
    assert "also quarantined: bad-10, bad-11. Reasons: okl models show m" in " ".join(summary.split())
    assert "earlier run" not in summary
    page = Path(result["report"]).read_text(encoding="utf-8")
    assert "Retraining of m: kept" in page
    assert "contradict the champion" in page
    assert "There is no certificate" in page
    for text in (
        "Is the new one better?",
        "What changed since m@1?",
        "Can I trust it?",
        "Mistakes of the challenger",
    ):
        assert text in page
    assert result["previous"]["same_rows"]
    changed = result["previous"]["metrics"]["mistake_rate"]
    assert changed == [result["metrics"][name]["mistake_rate"] for name in ("champion", "challenger")]
    assert sum(one["rows"] for one in result["counted"]["reliability"]["bins"]) == np.sum(
        result["counted"]["confusion"]
    )
    # the first version had none before it
    assert "What changed" not in Path(first["report"]).read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="http', page)
    pictures = [b64decode(found) for found in re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", page)]
    assert len(pictures) == 3
    assert all(picture.startswith(b"<?xml") for picture in pictures)
    assert len(set(pictures)) == 3
    markdown = run.report_markdown()
    assert markdown.count("](data:image/svg+xml;base64,") == 3
    assert "| day-05.parquet | contradiction |" in markdown
    again = retrain(settings(tmp_path, publish_if="better", margin=0.5))
    assert (again["outcome"], again["report"]) == ("judged before", None)
    assert summary_sentence(again).startswith(
        "m: nothing trained. The same shards were trained on and compared before."
    )
    assert again["previous"]["name"] == "m@1"
    assert "metrics" not in again["previous"]  # compared with the previous one alone, they would seem changed


def test_errors_by_slice_of_a_regression_are_in_the_unit_of_the_target(tmp_path: Path) -> None:
    for day in (1, 2):
        table = content(day)
        targets = 100.0 * table["x0"].to_numpy() + table["x1"].to_numpy()
        land(tmp_path / "in", f"{day}.parquet", table.set_column(table.column_names.index("y"), "y", [targets]))
    run = RetrainingRun(settings(tmp_path, slices=("x3",)))
    for stage in RETRAIN_STAGES:
        run.perform_stage(stage)
    run.close()
    test = run.result()["decision"]["slices"]["x3 = 0"]
    _, _, page = run.report_markdown().partition("Root mean squared errors by slice")
    row = next(line for line in page.splitlines() if "x3 = 0" in line)
    assert [cell.strip() for cell in row.split("|")][3:5] == [
        number(math.sqrt(test[name])) for name in ("champion", "challenger")
    ]


def test_the_error_plot_shows_signals_rejected_shards_and_versions() -> None:
    history = [{"shard": f"day-{i}", "version": 1 + i // 3, "rows": 9, "error": 0.2, "constant": 0.4, "fired": i == 2}
               for i in range(5)]  # fmt: skip
    new = [{"shard": name, "rows": 9, "error": 0.5, "constant": 0.4, "agreement": 0.0} for name in ("day-5", "bad $x$")]
    result = {"history": history, "progressive": new, "parent": 3, "decision": None, "judged_on": [],
              "drift": {"shards": {"day-5": {"fired": True}}}}  # fmt: skip
    points = points_of(result)
    assert [one["fired"] for one in points] == [False, False, True, False, False, True, False]
    assert [one["rejected"] for one in points] == [False] * 6 + [True]
    (picture,) = champion_figure(result)
    assert isinstance(picture, Figure)
    assert picture.draw() == picture.draw()
    assert champion_figure({**result, "history": [], "progressive": []}) == []
