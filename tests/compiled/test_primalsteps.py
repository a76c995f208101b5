from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

import tests.naive.primalsteps as naive
from okl.compiled.primalsteps import LATER_MORE, NO_AVERAGE, UNIFORM, Steps, step_kernel, step_rows
from okl.kernels import Gaussian
from okl.subgradient.pegasos import Pegasos, PegasosState, state_from
from okl.types import FloatArray

ROWS, COLUMNS = 60, 7
AVERAGES = {"none": NO_AVERAGE, "uniform": UNIFORM, "later": LATER_MORE}


def rows_of(precision: str, n_outputs: int) -> tuple[FloatArray, NDArray[np.float64]]:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((ROWS, COLUMNS))
    signal = rows[:, 0] + 0.7 * rng.standard_normal(ROWS)
    targets = np.where(signal > 0, 1.0, -1.0) if n_outputs == 1 else np.digitize(signal, [-0.5, 0.5]).astype(float)
    return rows.astype(precision), targets


def learnt(
    method: Pegasos, start: PegasosState, rows: FloatArray, targets: NDArray[np.float64], picks: NDArray[np.int64]
) -> PegasosState:
    carried = start.carried()
    scores, changes = np.zeros(len(start.points), dtype=rows.dtype), np.zeros(method.batch)
    step_rows(carried, scores, changes, np.zeros(method.batch, dtype=np.int64), rows, targets, picks, method.steps)
    return state_from(carried, start.progress.task)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_steps_match_naive(precision: str, n_outputs: int) -> None:
    rows, targets = rows_of(precision, n_outputs)
    picks = np.random.default_rng(3).integers(0, ROWS, 150)
    for batch, project, average in itertools.product((1, 4), (False, True), AVERAGES):
        method = Pegasos(0.02, batch, project, average)  # type: ignore[arg-type]
        after = learnt(method, method.start(COLUMNS, n_outputs, precision), rows, targets, picks)
        steps = Steps(0.02, batch, project, AVERAGES[average])
        last, averaged, updates = naive.step_rows(n_outputs, rows, targets, picks, steps)
        tolerance = {"rtol": 0, "atol": (1e-4 if precision == "float32" else 1e-11) * np.abs(last).max()}
        np.testing.assert_allclose(after.last(0.02), last, **tolerance)
        np.testing.assert_allclose(after.averaged(0.02), averaged, **tolerance)
        assert after.progress.updates == updates
        assert 30 < updates < 140


def test_projection_moves_the_weights_and_ends_in_the_ball() -> None:
    rows, targets = rows_of("float64", 1)
    picks = np.arange(1)
    plain, projected = (Pegasos(0.02, project=project, average="none") for project in (False, True))
    far, near = (learnt(m, m.start(COLUMNS), rows, targets, picks).last(0.02) for m in (plain, projected))
    assert np.linalg.norm(far) > 0.02**-0.5
    assert np.linalg.norm(near) == pytest.approx(0.02**-0.5)


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("batch", [1, 4])
def test_steps_with_a_kernel_match_naive(batch: int, project: bool) -> None:
    rows, targets = rows_of("float64", 1)
    kernel = Gaussian(1.0)
    matrix = kernel.matrix(rows, rows)
    picks = np.random.default_rng(3).integers(0, ROWS, 150)
    method = Pegasos(0.02, batch, project)
    last, averaged, updates = naive.step_kernel(matrix, targets, picks, method.steps)
    width = 64
    supports, nothing = np.zeros((COLUMNS, width)), np.zeros((0, 0))
    supports[:, :ROWS] = rows.T
    for kept, columns in ((matrix, nothing), (nothing, supports)):
        carried = method.start(ROWS).carried()
        buffers = (np.zeros(ROWS), np.zeros(batch), np.zeros(width))
        step_kernel(carried, *buffers, kept, columns, kernel.rule, targets, picks, method.steps)
        after = state_from(carried, "binary")
        np.testing.assert_allclose(after.last(0.02), last, atol=1e-7)
        np.testing.assert_allclose(after.averaged(0.02), averaged, atol=1e-7)
        assert after.progress.updates == updates
