"""Laws of the report on regret: sentences, horizons and figures, or the reason why they are missing."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

from okl.report.blocks import Paragraph
from okl.report.format import number
from okl.report.results import RunResult
from okl.report.training import html_report, markdown_report, text_summary
from okl.report.trust import regret_blocks
from tests.report.results import figures_of, made_regret, made_result

PLAIN = {name: value for name, value in made_result("binary", ("no", "yes")).items() if name != "curve"}
PLAIN["test"] = {"mistake_rate": 0.2}  # one picture less
CERTIFIED = PLAIN | {"certificate": made_regret()}
BEATEN = PLAIN | {"certificate": made_regret(sign=-1.0)}
REASON = "Nothing keeps the weights within a class to compare them with: Set a radius."
REFUSED = PLAIN | {"certificate": {"kind": "regret", "shown": False, "reason": REASON}}
PAIR = ["Regret against rows", "Average regret against rows"]


def page_text(result: dict[str, Any]) -> str:
    return unescape(re.sub(r"<[^>]*>", "\n", html_report(result)))


def markdown_text(result: dict[str, Any]) -> str:
    return unescape(markdown_report(result).replace("\\", ""))


def sentences_of(result: dict[str, Any]) -> str:
    return "\n".join(block.text for block in regret_blocks(RunResult(result)) if isinstance(block, Paragraph))


READERS: dict[str, Callable[[dict[str, Any]], str]] = {"page": page_text, "markdown": markdown_text}


@pytest.mark.parametrize("reader", READERS)
def test_a_certificate_of_regret_is_a_sentence_and_one_line_per_horizon(reader: str) -> None:
    text, proof = READERS[reader](CERTIFIED), CERTIFIED["certificate"]
    assert "Total loss over 100,000 rows: 30,000, 700 more than that of the best fixed weights" in text
    assert "in the ball of radius 12.5 (0.0070 per row)" in text
    assert "the regret is at most 934.4" in text
    assert "bound of the regret is 9,487, 13.55 times as large" in text
    assert "grows as rows^0.400" in text
    assert len(proof["horizons"]) == 5
    for horizon in proof["horizons"]:
        cells = [number(horizon[name]) for name in ("rows", "regret", "average_regret", "bound")]
        cells += [number(horizon["bound"] / horizon["regret"]), number(horizon["loss"]), "0.8%"]
        assert re.search(r"[\s|]+".join(map(re.escape, cells)), text), cells


def test_regret_is_drawn_in_two_log_log_figures() -> None:
    drawn = figures_of(CERTIFIED)
    assert [picture.title for picture in drawn if "egret" in picture.title] == PAIR
    pair = [picture.draw() for picture in drawn if picture.title in PAIR]
    assert pair[0] != pair[1]
    assert pair == [picture.draw() for picture in figures_of(CERTIFIED) if picture.title in PAIR]
    page = html_report(CERTIFIED)
    pictures = [b64decode(uri) for uri in re.findall(r"data:image/svg\+xml;base64,([^\"]*)", page)]
    assert len(pictures) == len(set(pictures)) == len(drawn)
    assert all(picture.startswith(b"<?xml") and 2_000 < len(picture) < 60_000 for picture in pictures)
    assert "//" not in re.sub(r"data:image/svg\+xml;base64,[^\"]*", "", page)


def test_terminal_shows_regret_and_kernel_bound_in_one_line_each() -> None:
    lines = text_summary(CERTIFIED).splitlines()
    labelled = {line.split("  ")[0]: line for line in lines if line.startswith(("Regret", "Kernel bound"))}
    assert labelled["Regret"].endswith("700, at most 934.4 (0.0070 per row; bound 9,487); it grows as rows^0.40")
    assert labelled["Kernel bound"].endswith("45 million by Theorem 1 (vacuous: not below the total loss)")
    assert len(lines) == len(text_summary(PLAIN).splitlines()) + 2


@pytest.mark.parametrize("vacuous", [True, False])
def test_theorem_1_is_printed_everywhere_and_marked_where_it_is_vacuous(vacuous: bool) -> None:
    result = PLAIN | {"certificate": made_regret(vacuous=vacuous)}
    bound = "45 million" if vacuous else "25,000"
    for text in (sentences_of(result), text_summary(result)):
        assert bound in text
        assert "Theorem 1" in text
        assert ("is vacuous" in text or "(vacuous" in text) == vacuous


def test_without_a_radius_there_is_a_reason_and_no_figure() -> None:
    for text in (page_text(REFUSED), markdown_text(REFUSED)):
        assert f"No regret is shown. {REASON}" in text
        assert "Bound / regret" not in text
    assert "not shown: nothing keeps the weights" in text_summary(REFUSED)
    assert [picture.title for picture in figures_of(REFUSED)] == [picture.title for picture in figures_of(PLAIN)]


def test_negative_regret_is_explained_and_not_drawn() -> None:
    text = sentences_of(BEATEN)
    assert "700 less than that of the best fixed weights" in text
    assert "A negative regret is possible if the data change over time" in text
    assert "No growth rate is given" in text
    assert not [picture for picture in figures_of(BEATEN) if picture.title in PAIR]
    assert "-700" in text_summary(BEATEN)


def test_run_without_certificate_does_not_mention_regret() -> None:
    for report in (html_report, markdown_report, text_summary):
        assert "egret" not in report(PLAIN)
