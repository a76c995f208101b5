from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.data.executor import Rows
from okl.features.fourier import draw_fourier_map
from okl.features.nystrom import fit_nystrom_map
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian, Kernel, Laplacian, Linear, Matern32
from okl.losses import Hinge, Loss, MulticlassHinge
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.new_columns import ColumnwiseFourier, widen_linear, widen_map, widen_nogd
from okl.solvers.online.nystrom import NOGDLearner

ROWS, LATER = 2048, 768  # the novel columns appear at row 768, a multiple of a block
OLD, ALL = ("a", "c", "d"), ("a", "b", "c", "d", "e")
OLD_PLACES = [0, 2, 3]
KERNELS: list[Kernel] = [Gaussian(2.0), Laplacian(4.0), Matern32(3.0)]


def make_stream(loss: Loss, precision: Precision = "float32") -> Rows:
    """Rows of five columns, two of which are 0 until they appear; what matters most is in one of them."""
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((ROWS, len(ALL)))
    inputs[:LATER, [1, 4]] = 0.0
    signal = np.sin(2 * inputs[:, 0]) + 2.0 * inputs[:, 1] + 0.1 * rng.standard_normal(ROWS)
    targets = np.where(signal > 0.1, 1.0, -1.0)
    if loss.task == "multiclass":
        targets = np.digitize(signal, [-1.0, 0.0, 1.0]).astype(np.float64)
    return Rows(inputs.astype(precision), targets)


def early(rows: Rows) -> Rows:
    return Rows(np.ascontiguousarray(rows.inputs[:LATER, OLD_PLACES]), rows.targets[:LATER])


def late(rows: Rows) -> Rows:
    return Rows(rows.inputs[LATER:], rows.targets[LATER:])


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_fogd_with_a_novel_column_has_the_bits_of_zeros_from_the_start(kernel: Kernel, precision: Precision) -> None:
    drawn, rows = ColumnwiseFourier(kernel, 70, 3, precision), make_stream(Hinge(), precision)
    learner = LinearLearner(drawn.draw(OLD), Hinge(), 0.6)
    weights = learner.learn(learner.start(), early(rows), 2)
    wider = widen_linear(learner, OLD, ALL, drawn)
    weights = wider.learn(weights, late(rows), 2)
    knew = LinearLearner(drawn.draw(ALL), Hinge(), 0.6)
    expected = knew.learn(knew.start(), rows, 2)
    assert weights.last.tobytes() == expected.last.tobytes()
    assert weights.averaged.tobytes() == expected.averaged.tobytes()
    assert weights.progress == expected.progress
    assert weights.progress.error < weights.progress.baseline_error


@pytest.mark.parametrize("filling", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), MulticlassHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("kernel", [*KERNELS, Linear()], ids=lambda kernel: kernel.name)
def test_nogd_with_a_novel_column_has_the_bits_of_zeros_from_the_start(
    kernel: Kernel, loss: Loss, filling: bool
) -> None:
    rows, n_outputs = make_stream(loss), 4 if loss.task == "multiclass" else 1
    learner = NOGDLearner(kernel, len(OLD), loss, 0.3, ROWS, 3 if isinstance(kernel, Linear) else 20, n_outputs)
    n_early = len(learner.learn(learner.start(), early(rows)).supports.inputs)
    learner = replace(learner, budget=n_early + 80 if filling else 60)
    state = learner.learn(learner.start(), early(rows), 2)
    assert (state.feature_map is None) == filling
    wider, state = widen_nogd(learner, state, OLD, ALL)
    state = wider.learn(state, late(rows), 2)
    knew = replace(learner, n_inputs=len(ALL))
    expected = knew.learn(knew.start(), rows, 2)
    assert state.feature_map is not None
    assert expected.feature_map is not None
    assert state.weights is not None
    assert expected.weights is not None
    np.testing.assert_array_equal(state.supports.inputs, expected.supports.inputs)
    np.testing.assert_array_equal(state.feature_map.landmarks, expected.feature_map.landmarks)
    assert state.weights.last.tobytes() == expected.weights.last.tobytes()
    assert state.progress == expected.progress


def test_landmarks_drawn_beforehand_get_zero_in_novel_columns() -> None:
    rows = make_stream(Hinge(), "float64")
    landmarks = early(rows).inputs[:30]
    narrow = fit_nystrom_map(Gaussian(2.0), landmarks, 12, "float64")
    learner = LinearLearner(narrow, Hinge(), 0.3)
    weights = learner.learn(learner.start(), early(rows))
    wider = widen_linear(learner, OLD, ALL)
    zeros = rows.inputs[:LATER]
    np.testing.assert_array_equal(wider.feature_map.transform(zeros), narrow.transform(early(rows).inputs))
    assert wider.learn(weights, late(rows)).progress.rows == ROWS


def test_taking_the_columns_in_beats_leaving_them_out() -> None:
    """The setting of section 7.5: columns appear in the middle of a stream, and nothing is learnt again."""
    rows = make_stream(Hinge())
    drawn = ColumnwiseFourier(Gaussian(2.0), 200)
    fogd = LinearLearner(drawn.draw(OLD), Hinge(), 0.6)
    nogd = NOGDLearner(Gaussian(2.0), len(OLD), Hinge(), 0.3, 60, 30)
    weights, state = fogd.learn(fogd.start(), early(rows)), nogd.learn(nogd.start(), early(rows))
    blind = Rows(np.ascontiguousarray(rows.inputs[LATER:, OLD_PLACES]), rows.targets[LATER:])
    wide, wide_state = widen_nogd(nogd, state, OLD, ALL, extra_budget=60, extra_rank=30)
    wide_fogd = widen_linear(fogd, OLD, ALL, drawn)
    for begun, blinded, seeing in [
        (weights.progress, fogd.learn(weights, blind).progress, wide_fogd.learn(weights, late(rows)).progress),
        (state.progress, nogd.learn(state, blind).progress, wide.learn(wide_state, late(rows)).progress),
    ]:
        assert seeing.since(begun).error < 0.6 * blinded.since(begun).error


def test_landmarks_without_a_column_see_only_its_square() -> None:
    """Why further supports are taken in: a radial kernel of landmarks that are 0 there cannot tell signs apart."""
    rows = make_stream(Hinge())
    nogd = NOGDLearner(Gaussian(2.0), len(OLD), Hinge(), 0.3, 60, 30)
    learner, state = widen_nogd(nogd, nogd.learn(nogd.start(), early(rows)), OLD, ALL)
    state = learner.learn(state, late(rows))
    mirrored = late(rows).inputs.copy()
    mirrored[:, [1, 4]] *= -1
    predictor = learner.predictor(state)
    np.testing.assert_array_equal(predictor.scores(late(rows).inputs), predictor.scores(mirrored))


def test_taking_in_further_supports_goes_on_from_the_scores_so_far() -> None:
    rows = make_stream(Hinge(), "float64")
    learner = NOGDLearner(Gaussian(2.0), len(OLD), Hinge(), 0.3, 60, 30, average=False, precision="float64")
    state = learner.learn(learner.start(), early(rows))
    assert state.feature_map is not None
    wider, reopened = widen_nogd(learner, state, OLD, ALL, extra_budget=40, extra_rank=10)
    assert (wider.budget, wider.rank) == (100, 40)
    assert reopened.feature_map is None
    assert reopened.progress == state.progress
    before = learner.predictor(state).scores(early(rows).inputs)
    np.testing.assert_allclose(wider.predictor(reopened).scores(rows.inputs[:LATER]), before, atol=1e-10)
    after = wider.learn(reopened, late(rows))
    assert after.feature_map is not None
    assert after.feature_map.landmarks.shape == (100, len(ALL))
    assert after.progress.rows == ROWS


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_columnwise_frequencies_approximate_the_kernel(kernel: Kernel) -> None:
    inputs: FloatArray = np.random.default_rng(2).standard_normal((40, len(ALL)))
    features = ColumnwiseFourier(kernel, 4000, 1, "float64").draw(ALL).transform(inputs)
    np.testing.assert_allclose(features @ features.T, kernel.matrix(inputs, inputs), atol=0.08)


def test_frequencies_of_a_column_depend_on_its_name_only() -> None:
    drawn = ColumnwiseFourier(Matern32(2.0), 50)
    one, other = drawn.draw(("x", "y")), drawn.draw(("z", "y", "x"))
    np.testing.assert_array_equal(one.frequencies, other.frequencies[[2, 1]])
    assert not np.array_equal(one.frequencies, replace(drawn, seed=1).draw(("x", "y")).frequencies)


def test_columns_that_do_not_fit_are_refused() -> None:
    drawn = ColumnwiseFourier(Gaussian(1.0), 10)
    with pytest.raises(ConfigError, match="column 'c' was removed"):
        widen_map(drawn.draw(OLD), OLD, ("a", "d", "e"), drawn)
    with pytest.raises(ConfigError, match="2 names are given for 3 inputs"):
        widen_map(drawn.draw(OLD), ("a", "c"), ALL, drawn)
    with pytest.raises(ConfigError, match="each name once"):
        widen_map(drawn.draw(OLD), OLD, ("a", "a"), drawn)
    with pytest.raises(ConfigError, match="ColumnwiseFourier that drew it"):
        widen_map(draw_fourier_map(Gaussian(1.0), 3, 10, 0), OLD, ALL, drawn)
    with pytest.raises(ConfigError, match="ColumnwiseFourier that drew it"):
        widen_map(drawn.draw(OLD), OLD, ALL)
    with pytest.raises(ConfigError, match="not shift-invariant"):
        ColumnwiseFourier(Linear(), 10)
