"""Training in measured segments equals training at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from okl.data.execution import Rows
from okl.foundation.types import Task
from okl.papers.base import DataFolder, RowSelection
from okl.papers.lu2016.tables import ALGORITHMS, EXTRA_ORDER, LINEAR, Sizes, Training, mean_curve, segments, settings_of
from tests.papers.sets import write_set

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
PAPER_TASKS = {"BPA-S": TASKS[:2], "Projectron++": TASKS[:2], "Norma": TASKS[2:], "BOGD++": TASKS[:1]}
PAIRS = [(name, task) for name in ALGORITHMS for task in PAPER_TASKS.get(name, TASKS)]


def training(name: str, task: Task, **more: object) -> Training:
    setting = settings_of(name, task, searched=False)[-1]
    values = {"order": 3, "n_rows": 320} | more
    selection = RowSelection("made", task, "all", task == "regression")
    return Training(selection, name, setting, Sizes.of(20), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [1, 39, 320, 1000, 5120, 5121, 48842, 581012])
def test_segments_cover_the_rows_and_end_at_blocks_where_there_are_many(rows: int) -> None:
    parts = segments(rows)
    assert [part[0] for part in parts] == [0, *(part[1] for part in parts[:-1])]
    assert parts[-1][1] == rows
    assert len(parts) <= 40
    if rows > 6000:
        assert len(parts) >= 18
        assert all(stop % 256 == 0 for _, stop in parts[:-1])


@pytest.mark.parametrize(("name", "task"), PAIRS)
def test_every_algorithm_learns_every_task_of_the_tables(name: str, task: Task, tmp_path: Path) -> None:
    write_set(tmp_path, "made", task)
    folder, work = DataFolder(str(tmp_path)), training(name, task)
    outcome = work(folder, lambda: None)
    assert outcome["error"] is not None, outcome
    assert outcome == work(folder, lambda: None) | {"seconds": outcome["seconds"], "curve": outcome["curve"]}
    rows = work.ordered(folder)
    learner = ALGORITHMS[name].make(work.problem(rows), work.setting)
    assert learner.learn(learner.start(), rows).progress.error == pytest.approx(outcome["error"], rel=1e-5)
    assert outcome["curve"][-1][1:] == [outcome["error"], outcome["seconds"], outcome["constant_error"]]
    assert outcome["updates"] > 0


def test_the_first_rows_of_the_order_are_used(tmp_path: Path) -> None:
    write_set(tmp_path, "made")
    folder = DataFolder(str(tmp_path))
    whole, part = (training(LINEAR, "binary", n_rows=n).ordered(folder) for n in (320, 50))
    assert isinstance(part, Rows)
    assert (part.inputs == whole.inputs[:50]).all()


def test_a_step_that_diverges_is_an_outcome(tmp_path: Path) -> None:
    write_set(tmp_path, "made", "regression")
    scaled = RowSelection("made", "regression", "all", minmax=True)
    diverging = Training(scaled, "FOGD", {"step_size": 1e4}, Sizes.of(20), EXTRA_ORDER, 320)
    outcome = diverging(DataFolder(str(tmp_path)), lambda: None)
    assert outcome["error"] is None
    assert "finite" in outcome["diverged"]


def test_the_mean_curve_is_pointwise() -> None:
    curves = [[[10, 0.5, 1.0, 0.4], [20, 0.3, 2.0, 0.4]], [[10, 0.3, 3.0, 0.4], [20, 0.1, 4.0, 0.2]]]
    assert mean_curve([{"curve": curve} for curve in curves])[1] == pytest.approx([20, 0.2, 3.0, 0.3])
