"""The example of online convex optimisation, beside the tests that compile its methods."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "infra" / "docs" / "examples"


def test_the_example_of_long_term_constraints_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "long_term_constraints.py"))["main"]()
    regret, violation = map(float, re.findall(r"(?:regret|violation) ([+-]?[\d.]+)", capsys.readouterr().out))
    assert abs(regret) < 0.01
    assert 0.0 <= violation < 0.001
