"""A class of weight 3 is three copies of its rows: in cuts, along lines, at the optimum, in memory and over shards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.distributed import open_execution
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.losses import EpsilonInsensitive, Hinge, MulticlassHinge, PiecewiseLinear, Ray
from okl.solvers.subgradient.losses import ClassWeighted, RowWeighted, weigh
from okl.solvers.subgradient.scs import ExactLineSearch, Scs, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows
from tests.solvers.subgradient.searches import random_ray, value_at
from tests.solvers.subgradient.sharded_cases import in_memory, last_state, sharded, solver

CASES: tuple[tuple[PiecewiseLinear, tuple[float, ...]], ...] = (
    (Hinge(), (1.0, 3.0)),
    (Hinge(), (2.0, 1.0)),
    (MulticlassHinge(), (1.0, 3.0, 2.0)),
)
LOSSES = (Hinge(), MulticlassHinge())


def copied(weights: tuple[float, ...], targets: FloatArray) -> Any:
    """Repeat each row by its class weight."""
    codes = (targets > 0.0).astype(int) if len(weights) == 2 else targets.astype(int)
    return np.repeat(np.arange(len(targets)), np.array(weights).astype(int)[codes])


@pytest.mark.parametrize(("loss", "weights"), [*CASES, *((loss, ()) for loss in (*LOSSES, EpsilonInsensitive(0.5)))])
def test_a_class_weight_equals_copies_along_a_line(loss: PiecewiseLinear, weights: tuple[float, ...]) -> None:
    rng, searched = np.random.default_rng(5), 0
    weighted: PiecewiseLinear = ClassWeighted(loss, weights) if weights else RowWeighted(loss)
    for _ in range(100):
        ray = random_ray(rng, loss)
        if weights:
            rows = copied(weights, ray.targets)
        else:
            of_rows = rng.integers(0, 4, len(ray.targets))
            of_rows[0] = 1
            rows = np.repeat(np.arange(len(ray.targets)), of_rows)
            ray = replace(ray, targets=np.column_stack([ray.targets, of_rows]))
        scores, along, targets = ray.scores[rows], ray.along[rows], ray.targets[rows]
        targets = targets if weights else np.ascontiguousarray(targets[:, 0])
        step = float(rng.random())
        assert weighted.line(ray.scores, ray.along, ray.targets, step) == pytest.approx(
            loss.line(scores, along, targets, step), rel=1e-12, abs=1e-9
        )
        slopes, copied_slopes = np.empty_like(ray.scores), np.empty_like(scores)
        sums = weighted.slopes_into(slopes, ray.scores, ray.along, ray.targets)
        assert sums == pytest.approx(loss.slopes_into(copied_slopes, scores, along, targets), rel=1e-12)
        np.testing.assert_allclose(slopes.sum(axis=0), copied_slopes.sum(axis=0), atol=1e-12)
        assert weighted.intercepts(slopes, ray.targets).sum() == pytest.approx(sums[1])
        assert weighted.value(ray.scores, ray.targets).sum() == pytest.approx(sums[0])
        heavier = len(rows) / len(ray.targets)  # a mean over copies has another number of rows: scale the parabola, too
        longer = Ray(scores, along, targets, ray.slope / heavier, ray.curvature / heavier)
        found, expected = ExactLineSearch().step(ray, weighted, 2.0), ExactLineSearch().step(longer, loss, 2.0)
        assert value_at(ray, weighted, found)[0] == pytest.approx(value_at(ray, weighted, expected)[0], abs=1e-12)
        searched += 0.0 < found < 2.0
    assert searched > 20


def test_a_class_weight_equals_copies_at_the_optimum() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 5))
    signs = np.where(rows[:, 0] + 0.5 * rng.standard_normal(200) > 0.8, 1.0, -1.0)
    weighted = ClassWeighted(Hinge(), (1.0, 3.0))
    again = copied(weighted.weights, signs)
    for bias in ("none", "free"):
        method: dict[str, Any] = {"gap": 1e-8, "bias": bias}
        found = solve_sample(ExplicitRows(rows), signs, Scs(0.01, weighted, **method))
        total = len(again) / len(signs)
        copies = solve_sample(ExplicitRows(rows[again]), signs[again], Scs(0.01 / total, Hinge(), **method))
        assert found.gap <= 1e-8
        assert found.objective == pytest.approx(total * copies.objective, rel=1e-6)
        plain = solve_sample(ExplicitRows(rows), signs, Scs(0.01, Hinge(), **method))
        lost = [Hinge().value(one.point.scores + one.point.bias, signs)[signs > 0].mean() for one in (found, plain)]
        assert lost[0] < 0.8 * lost[1]


@pytest.mark.parametrize(("task", "weights"), [("binary", (0.5, 2.0)), ("multiclass", (1.0, 3.0, 2.0))])
def test_shards_reach_the_weighted_optimum(task: Any, weights: tuple[float, ...], tmp_path: Path) -> None:
    data, plain = sharded(tmp_path, task), solver(task)
    learning = solver(task, loss=weigh(plain.loss, weights))
    with open_execution(0, threads=2) as execution:
        state = last_state(learning, data, execution)
    rows, targets = in_memory(state, data)
    method = Scs(lam=learning.lam, loss=learning.loss, gap=1e-5)
    expected = solve_sample(ExplicitRows(rows, data.schema.n_outputs), targets, method)
    certificate = learning.certificate(state)
    assert certificate["exact"]
    assert certificate["gap"] <= 1e-3
    assert expected.lower_bound <= certificate["objective"] <= expected.objective + 1e-3
    assert learning.chosen(state)["class_weights"] == {
        str(label): weight for label, weight in zip(data.schema.labels, weights, strict=True)
    }


def test_weights_of_one_do_not_change_the_loss_and_wrong_ones_are_refused() -> None:
    assert weigh(Hinge(), (1.0, 1.0)) == Hinge() == weigh(Hinge(), None)
    wrong: tuple[tuple[PiecewiseLinear, tuple[float, ...], str], ...] = (
        (EpsilonInsensitive(), (1.0, 2.0), "is for regression, which has no class weights"),
        (Hinge(), (1.0, 2.0, 3.0), "requires one for each class"),
        (Hinge(), (1.0, 0.0), "above 0"),
    )
    for loss, weights, message in wrong:
        with pytest.raises(ConfigError, match=message):
            ClassWeighted(loss, weights)
