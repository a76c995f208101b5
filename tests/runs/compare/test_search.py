"""The search: the same trials on any worker, successive halving, and certified paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import okl.runs.compare_search as search_module
from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.distributed import open_execution
from okl.runs.compare import table_of, winner_of
from okl.runs.compare_grids import ComparedGrid, Sample, make_grid, signs_of_classes
from okl.runs.compare_search import CompareCandidate, Judge, ModelSearch, Trial, round_rows
from okl.runs.compare_settings import CompareSettings
from okl.solvers.accelerated.models import MODEL_NAMES


def make_search(data: Dataset, names: tuple[str, ...] = (*MODEL_NAMES, "fogd"), **values: Any) -> ModelSearch:
    given = {"data": str(data.folder), "folds": 3, "grid": 3, "rows": 240, "iterations": 60, "tolerance": 1e-2} | values
    settings = CompareSettings(**given)
    sample = Sample(data, settings.rows, 0, "float32", settings.folds, settings.holdout)
    n_classes = len(data.schema.labels)
    rows = sample.all()
    signs = signs_of_classes(rows.targets, n_classes)
    grids = {name: make_grid(name, rows.inputs, signs, settings.grid) for name in names if name in MODEL_NAMES}
    return ModelSearch(settings, sample, names, grids, n_classes)


def without_times(candidates: list[CompareCandidate]) -> list[Any]:
    return [
        (
            candidate.name,
            candidate.alive,
            {k: [replace(t, seconds=0.0) for t in v] for k, v in candidate.trials.items()},
        )
        for candidate in candidates
    ]


def ignored(done: int, total: int, metrics: dict[str, float]) -> None: ...


def test_trials_do_not_depend_on_workers(
    wine: Dataset, two_workers: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "LEAST_ROWS", 40)
    search = make_search(wine, ("c-svm", "nu-svm", "logistic", "mm-mpm", "fogd"), rows=140)
    progress: list[tuple[int, int]] = []
    with open_execution(threads=1) as alone:
        here = search.run(alone, lambda done, total, metrics: progress.append((done, total)))
    assert without_times(here) == without_times(search.run(two_workers, ignored))
    assert progress[-1] == (search.total(), search.total())
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    table = table_of(here, 0.5, search.judge)
    assert len(table) == 5
    assert all(row["mean"] > 0.85 for row in table), "all of them learn these data"
    gaps = [row["relative_gap"] for row in table if row["kind"] == "certified"]
    assert 0 <= sorted(gaps)[1] < 0.05, "sixty iterations are enough for half of them"


def test_a_halved_search_ends_with_the_better_half_on_all_rows(
    cancer: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "LEAST_ROWS", 60)
    search = make_search(cancer, ("logistic", "mm-fda"), grid=4)
    assert search.steps() == (80, 160)
    with open_execution(threads=1) as alone:
        logistic, minimax = search.run(alone, ignored)
    assert len(logistic.alive) == 2
    assert {logistic.tried_rows[index] for index in logistic.alive} == {160}
    given_up = set(logistic.trials) - set(logistic.alive)
    assert {logistic.tried_rows[index] for index in given_up} == {80}
    assert len(minimax.alive) == 4, "its fits cost the same on any rows"
    assert logistic.choice()[0] in logistic.alive


@pytest.mark.parametrize(("rows", "grid", "expected"), [(4000, 10, 3), (4000, 3, 3), (4000, 2, 2), (1500, 9, 1)])
def test_rounds_double_the_rows_until_all_are_used(rows: int, grid: int, expected: int) -> None:
    steps = round_rows(rows, grid, True)
    assert steps[-1] == rows
    assert len(steps) == expected
    assert all(after in (2 * before, 2 * before - 1) for before, after in pairwise(steps))


@pytest.fixture
def make_candidate() -> Callable[[str, list[list[int]]], CompareCandidate]:
    def make(name: str, right: list[list[int]]) -> CompareCandidate:
        grid = ComparedGrid("c-svm", tuple(float(k + 1) for k in range(len(right))), "value")
        candidate = CompareCandidate(name, grid, tuple(range(len(right))))
        for index, folds in enumerate(right):
            bits = [np.packbits(np.arange(10) < count).tobytes() for count in folds]
            candidate.tried_rows[index] = 10
            candidate.trials[index] = [Trial({"own": some, "error-minimising": some}, 10, 1.0, 0.1) for some in bits]
        return candidate

    return make


def test_ties_go_to_more_regularisation_the_own_bias_and_the_first_name(
    make_candidate: Callable[[str, list[list[int]]], CompareCandidate],
) -> None:
    first, second = make_candidate("c-svm", [[5, 6], [8, 7], [7, 8]]), make_candidate("l2-svm", [[9, 6], [1, 1]])
    assert first.choice() == (1, "own")
    first.halve()
    assert first.alive == (1, 2)
    assert winner_of([first, second]) is first
    assert winner_of([second, first]) is second


def test_a_failed_candidate_is_last_with_its_reason(
    make_candidate: Callable[[str, list[list[int]]], CompareCandidate], cancer: Dataset
) -> None:
    fine, failed = make_candidate("c-svm", [[5, 6]]), make_candidate("fogd", [[5, 6]])
    failed.trials[0][1] = Trial({}, 10, failure="Rows 0 to 3: too large.")
    rows = table_of([failed, fine], 1.0, Judge(cancer.schema, "accuracy"))
    assert [row["model"] for row in rows] == ["c-svm", "fogd"]
    assert (rows[1]["mean"], rows[1]["note"]) == (None, "Rows 0 to 3: too large.")
    assert rows[0]["best"]
