"""Tracking at the command line: windows, drift signal and certificate of a run, in JSON, on the page and in text."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import okl
from okl.report.training import text_summary
from tests.flows.commandline import Terminal
from tests.rows import CHANGE, CHANGING, changing, inputs_of, write


def test_tracking_reports_when_a_stream_changed_and_its_regret(
    unrecorded: Path, tmp_path: Path, terminal: Terminal
) -> None:
    source, run = write(tmp_path, changing()), tmp_path / "run"
    words = ["--track", "--radius", "4", "--certify", "--frequencies", "40"]
    trained = terminal.okl_json("train", source, *words, "--out", run)

    points = trained["windows"]["points"]
    assert [first for first, *_ in points] == list(range(0, CHANGING, 256))
    assert sum(rows * error for _, rows, error, _ in points) == pytest.approx(
        CHANGING * trained["progressive"]["mistake_rate"]
    )
    (signal,) = trained["drift"]["signals"]
    assert signal["first_row"] // 256 in (CHANGE // 256, CHANGE // 256 + 1)
    assert signal["p_value"] <= trained["drift"]["level"] < 0.01
    assert signal["rate"] > 1.5 * signal["past_rate"] > 0

    proof = trained["certificate"]
    without_change, with_change = proof["comparisons"][:2]
    assert (proof["kind"], without_change["changes"], with_change["changes"]) == ("tracking regret", 0, 1)
    assert abs(with_change["rows"][0] - CHANGE) <= CHANGING / 10
    assert with_change["comparator_loss"] < 0.8 * without_change["comparator_loss"]
    assert with_change["regret"] <= with_change["regret_at_most"] <= with_change["regret_at_most_anywhere"]

    model = okl.load(trained["model"])
    last_rows = pq.read_table(source)[CHANGE + 800 :]
    assert np.mean(model.predict(inputs_of(last_rows, "ab")) == last_rows["y"].to_numpy()) > 0.85
    assert_drift_is_drawn(run / "report.html")
    lines = text_summary(trained).splitlines()
    assert sum(line.startswith(("Drift  ", "Regret (changes)  ")) for line in lines) == 2


def assert_drift_is_drawn(report: Path) -> None:
    """Assert that the page reports the change, and has a unique picture of the windows."""
    page = report.read_text()
    assert "Drift: 1 of 16 windows" in page
    assert "Regret against models that change" in page
    after = page.split("Error in each window", 1)[1]
    pictures = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", page)
    (shown, *_) = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", after)
    assert len(shown) > 2000
    assert pictures.count(shown) == 1
    assert len({hashlib.sha256(one.encode()).hexdigest() for one in pictures}) == len(pictures)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--solver bsgd-removal", "has no track: it belongs to fogd or nogd"),
        ("--mode mix", "supports stream only"),
        ("--workers 2", "supports stream only"),
        ("--step-size 0.5", "track chooses step sizes and averages itself"),
    ],
)
def test_options_that_tracking_does_not_support_are_refused_in_a_sentence(
    words: str, sentence: str, unrecorded: Path, tmp_path: Path, terminal: Terminal
) -> None:
    refused = terminal.okl("train", write(tmp_path, changing()), "--track", *words.split(), "--out", tmp_path / "run")
    assert (refused.code, sentence in refused.sentence) == (2, True)
    assert not (tmp_path / "run").exists()
