"""The examples of online convex optimisation."""

from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "infra" / "docs"
EXAMPLES = DOCS / "examples"


@pytest.mark.parametrize(
    ("example", "least_regret", "most_regret", "most_violation"),
    [("long_term_constraints", -0.01, 0.01, 0.001), ("changing_constraints", -0.3, -0.1, 0.002)],
)
def test_the_examples_satisfy_their_constraints(
    example: str, least_regret: float, most_regret: float, most_violation: float, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / f"{example}.py"))["main"]()
    regret, violation = map(float, re.findall(r"(?:regret|violation) ([+-]?[\d.]+)", capsys.readouterr().out))
    assert least_regret < regret < most_regret  # below 0 if other rounds have weaker constraints than the tightest
    assert 0.0 <= violation < most_violation


def test_the_session_of_the_page_prints_what_it_shows() -> None:
    blocks = re.findall(r"```pycon\n(.*?)```", (DOCS / "tutorial" / "rounds.md").read_text(), re.DOTALL)
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "rounds", "rounds.md", 0)
    printed: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(session, out=printed.append)
    assert results.attempted >= 35
    assert results.failed == 0, "".join(printed)
