from __future__ import annotations

from typing import Any

import pytest

from okl.report.comparison import winner_sentence

BEST = {"model": "dwd", "mean": 0.9, "spread": 0.01, "p_value": None}
WORSE = {"model": "c-svm", "mean": 0.7, "spread": 0.01, "p_value": 0.01}
ALIKE = {"model": "logistic", "mean": 0.89, "spread": 0.01, "p_value": 0.4}
FAILED = {"model": "mm-mpm", "mean": None, "spread": None, "p_value": None}


@pytest.mark.parametrize(
    ("others", "ending"),
    [
        ([], "for the majority class."),
        ([FAILED], "for the majority class."),
        ([WORSE], ", and significantly better than every other model (p <= 0.05)."),
        ([WORSE, FAILED], ", and significantly better than every other model that did not fail (p <= 0.05)."),
        ([ALIKE, WORSE, FAILED], "; not significantly better (p > 0.05) than logistic."),
    ],
)
def test_the_best_is_better_only_than_what_was_judged(others: list[dict[str, Any]], ending: str) -> None:
    told = winner_sentence({"models": [BEST, *others], "constant": 0.6})
    assert told.startswith("The best model is dwd with an accuracy of 90.00 ± 1.00 %, against 60.00 %")
    assert told.endswith(ending)
