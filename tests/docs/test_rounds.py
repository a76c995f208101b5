"""The examples of online convex optimisation, beside the tests that compile its methods."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "infra" / "docs" / "examples"


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
