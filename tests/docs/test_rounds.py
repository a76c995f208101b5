"""The examples of online convex optimisation, beside the tests that compile its methods."""

from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "infra" / "docs"
EXAMPLES = DOCS / "examples"


@pytest.mark.parametrize(
    ("example", "least", "most", "violated"),
    [("long_term_constraints", -0.01, 0.01, 0.001), ("changing_constraints", -0.3, -0.1, 0.002)],
)
def test_the_examples_of_constraints_keep_them(
    example: str, least: float, most: float, violated: float, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLES / f"{example}.py"))["main"]()
    regret, violation = map(float, re.findall(r"(?:regret|violation) ([+-]?[\d.]+)", capsys.readouterr().out))
    assert least < regret < most  # below 0: other rounds leave more room than the tightest
    assert 0.0 <= violation < violated


def test_the_session_of_the_page_prints_what_it_shows() -> None:
    blocks = re.findall(r"```pycon\n(.*?)```", (DOCS / "tutorial" / "rounds.md").read_text(), re.DOTALL)
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "rounds", "rounds.md", 0)
    printed: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(session, out=printed.append)
    assert found.attempted >= 35
    assert found.failed == 0, "".join(printed)
