"""Descriptions of changes: both values of every difference, nothing else, and a report page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from okl.lifecycle.versions import changes_since
from okl.models.registry import Version
from okl.models.registry_log import Lineage, Publication
from okl.report.training import html_report, markdown_report
from tests.report.results import made_result, without_pictures


def lineage(error: float, rows: int, **settings: Any) -> Lineage:
    shard = {"sha256": f"{rows}", "name": f"part-{rows}", "rows": rows}
    metrics = {"test": {"mistake_rate": error, "roc_auc": 0.9}}
    return Lineage(None, (shard,), {"solver": "fogd", "frequencies": 50, "out": f"/{rows}"} | settings, {}, metrics)


def version_of(kept: Lineage) -> Version:
    return Version("churn", Path("nowhere"), Publication(3, "0003", "f" * 64, {}, kept, 2))


PREVIOUS = version_of(lineage(0.25, 1000))


def test_descriptions_have_both_values_of_every_difference_and_nothing_else() -> None:
    found = changes_since(PREVIOUS, lineage(0.2, 1500, frequencies=400), "the champion")
    assert found == {
        "name": "churn@3",
        "what": "the champion",
        "same_rows": False,
        "metrics": {"mistake_rate": [0.25, 0.2]},
        "data": {"rows learnt": [1000, 1500], "last shard": ["part-1000", "part-1500"]},
        "settings": {"frequencies": ["50", "400"]},
    }
    same = changes_since(PREVIOUS, PREVIOUS.lineage, "")
    assert [same[part] for part in ("metrics", "data", "settings")] == [{}, {}, {}]


def test_settings_of_a_run_and_of_a_retraining_are_compared_where_both_have_them() -> None:
    retrained = Lineage(3, (), {"train": {"solver": "fogd", "frequencies": 400}, "seed": 7, "judging": {"margin": 1}})
    found = changes_since(PREVIOUS, retrained, "")
    assert found["data"].keys() == {"new shards", "new rows", "last shard"}  # in addition to the shards of its parent
    assert found["settings"] == {"frequencies": ["50", "400"]}
    assert changes_since(version_of(retrained), PREVIOUS.lineage, "")["settings"] == {"frequencies": ["400", "50"]}


def test_a_report_says_what_changed_with_both_values_and_the_difference() -> None:
    result = without_pictures(made_result("binary", ("no", "yes")))
    previous = changes_since(PREVIOUS, lineage(0.2, 1500, frequencies=400), "the champion so far")
    for report in (html_report, markdown_report):
        page = report(result | {"previous": previous})
        assert "What changed since churn@3?" in page
        assert "churn@3 is the champion so far." in page
        for text in ("0.2500", "0.2000", "-0.0500", "+500", "part-1000", "400"):
            assert text in page, text
        assert "What changed" not in report(result)
