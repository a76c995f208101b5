"""Laws of the result of a run: a dictionary of what `okl train --json` prints, read-only, with typed attributes."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from okl.report.results import RunResult
from tests.report.results import made_result

PLAIN = made_result("binary", ("no", "yes"))
RESULT = RunResult(PLAIN)


def test_a_result_equals_the_dictionary_that_it_was_made_from() -> None:
    assert isinstance(RESULT, Mapping)
    assert RESULT == PLAIN == dict(RESULT) == RESULT.as_dict()
    assert list(RESULT) == list(PLAIN)
    assert type(RESULT.as_dict()) is dict
    assert json.dumps(RESULT) == json.dumps(PLAIN)
    assert (RESULT["model"], RESULT.get("nothing", 3)) == (PLAIN["model"], 3)
    for same in (copy.deepcopy(RESULT), pickle.loads(pickle.dumps(RESULT))):
        assert (type(same), same) == (RunResult, RESULT)


def test_attributes_are_the_entries_and_empty_for_missing_entries() -> None:
    assert RESULT.run == PLAIN["run"]
    assert RESULT.test == PLAIN["test"]
    assert RESULT.train == PLAIN["train"]
    assert (RESULT.certificate, RESULT.convergence) == ({}, ())
    assert str(RESULT.report) == f"{PLAIN['run']}/report.html"
    assert RunResult(PLAIN | {"test": None}).test is None


CHANGES: dict[str, Callable[[RunResult], Any]] = {
    "set": lambda result: result.__setitem__("rows", 1),
    "delete": lambda result: result.__delitem__("rows"),
    "update": lambda result: result.update(rows=1),
    "pop": lambda result: result.pop("rows"),
    "clear": lambda result: result.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_result_cannot_be_changed(change: str) -> None:
    with pytest.raises(TypeError, match=r"read-only. Change a copy: dict\(result\)"):
        CHANGES[change](RESULT)
    with pytest.raises(AttributeError):
        RESULT.run = "elsewhere"
    assert RESULT == PLAIN


def test_repr_names_solver_error_baselines_and_folder_in_a_few_lines() -> None:
    lines = repr(RunResult(PLAIN | {"settings": {"solver": "fogd"}})).splitlines()
    error, majority = PLAIN["test"]["mistake_rate"], PLAIN["baselines"]["majority"]["test"]["mistake_rate"]
    assert lines[:2] == [
        "RunResult: predicting y",
        "  Solver                     fogd, 2,000 rows in 1.2 s (7.8 s in total)",
    ]
    assert lines[2].startswith(f"  Mistake rate on test rows  okl {100 * error:.2f}%, linear model ")
    assert lines[2].endswith(f", majority class {100 * majority:.2f}%")
    assert lines[3:] == ["  Folder                     /runs/first_run"]
    assert repr(RunResult()).count("\n") == 3
    ridge = {"settings": {"solver": "ridge", "kernel": "laplacian"}}
    assert "  ridge (Laplacian kernel), " in repr(RunResult(ridge))
    assert "  ridge (linear kernel), " in repr(RunResult(ridge | {"chosen": {"map": "linear"}}))


def test_a_result_shows_its_first_warnings_and_counts_the_others() -> None:
    result = RunResult({"warnings": ["one", "two", "three", "<four>", "five"]})
    assert [line.split(maxsplit=1) for line in repr(result).splitlines()[4:]] == [
        ["Warning", "one"],
        ["Warning", "two"],
        ["Warning", "three"],
        ["Warnings", "2 more in .warnings"],
    ]
    assert "<th>Warning</th><td>three</td>" in result._repr_html_()
    assert RunResult().warnings == ()


def test_html_of_a_result_is_a_table_without_markup_from_the_data() -> None:
    hostile = PLAIN | {"run": "<img src=x>", "dataset": {"target": "<script>"}}
    html = RunResult(hostile)._repr_html_()
    assert set(re.findall(r"<(\w+)", html)) == {"table", "caption", "tr", "th", "td"}
    assert "&lt;img src=x&gt;" in html
