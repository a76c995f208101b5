"""What a run takes of memory, by its configuration alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from okl.configuration import SolverName, TrainSettings, settings_from
from okl.errors import ConfigError
from okl.planning.laws import LAWS
from okl.planning.memory import MIB, MemoryPlan, n_columns, plan_memory
from okl.planning.standin import Scene, scene_on_paper

SCENE = scene_on_paper(10_000_000, 50, "binary", 2)
HELD = 256 * MIB


def planned(scene: Scene = SCENE, workers: int = 4, limit: int | None = None, **values: Any) -> MemoryPlan:
    settings = settings_from(TrainSettings, {"data": "paper", "workers": workers} | values, "test")
    return plan_memory(settings, scene, workers, limit, HELD)


def test_every_solver_has_a_law_of_growth() -> None:
    assert set(LAWS) == set(get_args(SolverName))


@pytest.mark.parametrize("solver", get_args(SolverName))
def test_every_solver_has_a_memory_plan(solver: str) -> None:
    plan = planned(solver=solver)
    assert plan.worker == plan.process + plan.block + plan.vectors + plan.messages + plan.held
    assert plan.as_json()["worker_bytes"] == plan.worker > plan.process > 100 * MIB


def test_memory_does_not_grow_with_rows_but_for_vectors_beside_them() -> None:
    ten_times = replace(SCENE, rows=10 * SCENE.rows, shards=10 * SCENE.shards)
    assert planned(ten_times, solver="fogd", mode="mix").block == planned(solver="fogd", mode="mix").block
    few, many = (planned(scene, solver="c-svm") for scene in (SCENE, ten_times))
    assert many.vectors == pytest.approx(10 * few.vectors, rel=0.05)
    assert many.block == few.block


def test_rows_that_do_not_fit_are_read_again_and_nothing_else_changes() -> None:
    roomy, tight = planned(solver="c-svm"), planned(solver="c-svm", limit=750 * MIB)
    assert 0.0 < roomy.missing_share < tight.missing_share <= 1.0
    assert (roomy.block, roomy.vectors, roomy.messages) == (tight.block, tight.vectors, tight.messages)
    assert tight.worker <= 0.9 * 750 * MIB
    assert "read again every round" in tight.sentence(4)
    assert "750 MiB" in tight.sentence(4)


def test_a_run_that_cannot_fit_says_what_it_needs_what_there_is_and_what_to_change() -> None:
    with pytest.raises(ConfigError, match=r"A worker needs .* MiB .*limit of 400 MiB .*Start more workers"):
        planned(solver="c-svm", limit=400 * MIB)
    with pytest.raises(ConfigError, match=r"smaller rows_per_group"):
        planned(solver="fogd", mode="mix", limit=400 * MIB)
    with pytest.raises(ConfigError, match=r"Take fewer frequencies"):
        planned(solver="perceptron", mode="mix", limit=4000 * MIB)


def test_columns_are_those_of_the_map_that_is_meant() -> None:
    def columns(**values: Any) -> int:
        return n_columns(settings_from(TrainSettings, {"data": "paper"} | values, "test"), 7)

    assert columns(solver="fogd", frequencies=30) == 60
    assert columns(solver="nogd", rank=20) == 20
    assert columns(solver="bogd") == columns(solver="c-svm", kernel="linear") == 7
