"""Planted bugs: their locations exist, every learner, model and method has one, and the verdict detects one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from okl.papers.base import DataFolder, Margin, RowSelection, TableCell, frozen_settings
from okl.papers.lu2016 import tables
from okl.papers.lu2016.tables import ALGORITHMS, LINEAR, LearnerProblem, Setting, Sizes, Training, make_fogd
from okl.papers.run import table_named
from okl.solvers.online.base import RowLearner
from tests.benchmarks.mutants import MUTANTS, ROOT, SITES, Judged, bugs_digest, unseen
from tests.papers.sets import write_set


def test_every_bug_has_a_location_and_every_algorithm_a_bug() -> None:
    for mutant in MUTANTS:
        source = (ROOT / "okl" / mutant.file).read_text(encoding="utf-8")
        assert mutant.applied(source) != source
        test, _, name = mutant.site.partition("::")
        assert mutant.site in SITES or f"def {name}(" in (ROOT / test).read_text(encoding="utf-8")
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
    mutated = {name for mutant in MUTANTS for name in mutant.algorithms}
    assert mutated >= set(ALGORITHMS) - {LINEAR, "BOGD++"}  # neither has a printed cell
    assert mutated >= {"linear", "logistic", "mm_mpm", "SCS", "Algorithm 1", "Algorithm 2"}


def test_every_bug_is_in_the_code_of_its_site() -> None:
    for mutant in [mutant for mutant in MUTANTS if mutant.sites]:
        module = mutant.file.removesuffix(".py").replace("/", ".")
        parts = table_named(SITES[mutant.site].table).code
        assert any(f"{module}.".startswith(f"{part}.") for part in parts), mutant.name


def test_cells_that_a_bug_passes_are_frozen_with_the_names_of_the_bugs() -> None:
    frozen = dict(frozen_settings()["not_told_apart"])
    assert frozen.pop("bugs") == bugs_digest()
    for table, passed in frozen.items():
        cases = table_named(table).cases
        cells = {f"{case.dataset}, {case.algorithm}, {q.metric}" for case in cases for q in case.quantities}
        assert set(passed) <= cells, table


def test_a_mutant_counts_on_cells_that_no_other_mutant_passes() -> None:
    one, two, three = ((("site", "data", "RBP", metric, ""),) for metric in ("a", "b", "c"))
    both = [
        Judged(MUTANTS[0], {}, frozenset(one + two + three), frozenset(passed), True) for passed in (one, one + two)
    ]
    assert unseen(both[0], both) == (frozenset(), frozenset(three))
    assert unseen(both[1], both) == (frozenset(two), frozenset(two + three))


def test_the_verdict_detects_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path, "made", rows=400)
    folder, setting = DataFolder(str(tmp_path)), {"step_size": 0.02, "bandwidth": 4.0}
    training = Training(RowSelection("made", "binary"), "FOGD", setting, Sizes.of(20), 0, 400)

    def errors(orders: range) -> list[float]:
        return [replace(training, order=order)(folder, lambda: None)["error"] for order in orders]

    printed = errors(range(10, 20))
    cell = TableCell("made", "FOGD", "mistake_rate", fmean(printed), stdev(printed), paper_repeats=10)
    right = cell.measured(errors(range(6)), [1.0] * 6).judged(Margin(relative=0.05))
    assert right.verdict == "reproduced"

    def unscaled(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
        return make_fogd(problem, {**setting, "scaled_step": setting["step_size"] * 0.01})

    monkeypatch.setitem(tables.ALGORITHMS, "FOGD", replace(ALGORITHMS["FOGD"], make=unscaled))
    wrong = cell.measured(errors(range(6)), [1.0] * 6).judged(Margin(relative=0.05))
    assert wrong.verdict == "worse"
