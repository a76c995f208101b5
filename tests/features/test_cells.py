"""Cells of neighbouring rows, and expansions in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.features.cells import CellTree
from okl.features.predictors import CalibratedPredictor, LocalExpansion, Partition, predictor_from_stored
from okl.foundation.catalogue import KERNELS
from okl.foundation.errors import ConfigError, DataError, ModelError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import CustomKernel, Kernel, Laplacian, make_kernel
from okl.metrics.calibration import ScoreCalibration
from tests.compiled.cases import PRECISIONS
from tests.features.cells import assert_same_bits_in_any_block, draw_partition
from tests.naive import cells as naive_cells
from tests.naive.kernels import kernel_value

N_INPUTS = 5
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def some_rows(n_rows: int, precision: Precision = "float64", seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((n_rows, N_INPUTS)).astype(precision)


def draw_tree(sample: FloatArray, most_rows: int = 30, seed: int = 1) -> CellTree:
    return CellTree.drawn(sample, most_rows, np.random.default_rng(seed))


# Trees.


@pytest.mark.parametrize("precision", PRECISIONS)
def test_rows_of_a_sample_are_halved_down_to_the_limit(precision: Precision) -> None:
    sample = some_rows(1000, precision)
    tree = draw_tree(sample)
    counts = np.bincount(tree.cells_of(sample), minlength=tree.n_cells)
    assert tree.n_cells == 64
    assert set(counts) == {15, 16}
    assert tree.is_valid(N_INPUTS)
    assert not tree.is_valid(N_INPUTS + 1)


def test_splits_follow_the_direction_of_largest_spread() -> None:
    sample = some_rows(1000) * np.array([1.0, 30.0, 1.0, 1.0, 1.0])
    tree = draw_tree(sample, 250)
    cells = tree.cells_of(sample)
    ordered = np.sort(sample[:, 1])
    for cell in range(4):
        inside = np.searchsorted(ordered, sample[cells == cell, 1])
        assert np.ptp(inside) < 300  # one quarter, up to the tilt of the direction


def test_equal_rows_share_a_cell() -> None:
    distinct = some_rows(40)
    copies = np.repeat(np.arange(40), np.where(np.arange(40) < 3, 50, 4))
    tree = draw_tree(distinct[copies])
    cells, of_distinct = tree.cells_of(distinct[copies]), tree.cells_of(distinct)
    np.testing.assert_array_equal(cells, of_distinct[copies])
    counts = np.bincount(cells)
    assert len(np.unique(of_distinct)) > 4
    for cell in np.flatnonzero(counts > 30):  # only cells that cannot be split are larger
        assert (of_distinct == cell).sum() == 1
    alone = draw_tree(distinct[np.zeros(100, dtype=int)])
    assert (alone.n_cells, alone.depth) == (1, 0)
    assert not alone.cells_of(distinct).any()


def test_a_tree_depends_on_its_seed_only() -> None:
    sample = some_rows(500)
    one, again, other = draw_tree(sample), draw_tree(sample), draw_tree(sample, seed=2)
    np.testing.assert_array_equal(one.directions, again.directions)
    np.testing.assert_array_equal(one.thresholds, again.thresholds)
    np.testing.assert_array_equal(one.children, again.children)
    same_cell = one.cells_of(sample)[:, None] == one.cells_of(sample)
    same_other = other.cells_of(sample)[:, None] == other.cells_of(sample)
    assert (same_cell & same_other).sum() < 0.7 * same_cell.sum()


def test_depth_is_the_largest_number_of_splits_on_a_path() -> None:
    children = np.array([[1, -1], [-2, 2], [3, -3], [-4, -5]])
    assert CellTree(np.ones((4, 1)), np.zeros(4), children).depth == 4
    assert CellTree(np.ones((4, 1)), np.zeros(4), np.array([[1, 2], [-1, 3], [-2, -3], [-4, -5]])).depth == 3


# Expansions.


def make_expansion(
    kernel: Kernel | None = None, n_outputs: int = 3, precision: Precision = "float32", n_supports: int = 1300
) -> LocalExpansion:
    """Return an expansion of three partitions; one has a single cell with more supports than one chunk."""
    random, supports = np.random.default_rng(3), some_rows(n_supports, precision, seed=4)
    partitions = tuple(draw_partition(supports, n_outputs, most, random) for most in (40, 300, n_supports))
    return LocalExpansion(kernel or Laplacian(2.0), supports, partitions)


def naive_scores(expansion: LocalExpansion, inputs: FloatArray) -> FloatArray:
    """Return scores (rows, n_outputs): means over partitions of sums over the cell of each row."""
    scores = np.zeros((len(inputs), expansion.n_outputs))
    assert expansion.kernel.rule is not None
    for partition in expansion.partitions:
        tree, cells = partition.tree, np.empty(len(inputs), dtype=np.int64)
        naive_cells.find_cells(cells, inputs, tree.directions, tree.thresholds, tree.children)
        for row, cell in enumerate(cells.tolist()):
            scores[row] += partition.offsets[cell]
            for member in range(partition.starts[cell], partition.starts[cell + 1]):
                support = expansion.supports[partition.order[member]]
                value = kernel_value(inputs[row].tolist(), support.tolist(), expansion.kernel.rule)
                scores[row] += value * partition.coefficients[:, member].astype(np.float64)
    mean: FloatArray = scores / len(expansion.partitions)
    return mean


@pytest.mark.parametrize(
    ("name", "precision"), [*((name, "float32") for name in sorted(KERNELS)), ("laplacian", "float64")]
)
def test_scores_match_naive(name: str, precision: Precision) -> None:
    kernel = make_kernel(name, {} if name in ("linear", "polynomial") else {"bandwidth": 2.0})
    expansion = make_expansion(kernel, 2, precision, n_supports=200)
    inputs = some_rows(30, precision)
    first = expansion.partitions[0]
    assert 0 in np.diff(first.starts)[first.tree.cells_of(inputs)]  # an empty cell
    expected, scores = naive_scores(expansion, inputs), expansion.scores(inputs)
    assert scores.dtype == precision
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(scores, expected, rtol=0, atol=TOLERANCE[precision] * np.abs(expected).max())


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_row_has_the_same_bits_in_any_block_and_for_any_number_of_threads(n_outputs: int) -> None:
    expansion, inputs = make_expansion(n_outputs=n_outputs), some_rows(900, "float32")
    assert_same_bits_in_any_block(expansion, inputs, n_outputs)


def test_supports_that_are_not_kept_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, inputs = make_expansion().scores(some_rows(300)), some_rows(300)
    monkeypatch.setattr("okl.features.predictors._MOST_KEPT", 0)
    np.testing.assert_array_equal(make_expansion().scores(inputs), kept)


def test_stored_predictors_score_the_same() -> None:
    expansion, inputs = make_expansion(n_supports=100), some_rows(40, "float32")
    again = predictor_from_stored(expansion.describe(), expansion.arrays(), "here")
    assert (again.n_inputs, again.n_outputs, again.precision) == (N_INPUTS, 3, "float32")
    np.testing.assert_array_equal(again.scores(inputs), expansion.scores(inputs))


def test_turned_expansion_scores_turned_scores_plus_offsets() -> None:
    expansion, inputs = make_expansion(precision="float64"), some_rows(50)
    offsets, matrix = np.array([1.0, -2.0, 0.5]), np.array([[0.3, 0.1, 0.0], [-0.2, 0.5, 1.0], [0.0, 0.4, 0.2]])
    turned = expansion.turned(lambda weights: matrix.T @ weights, offsets)
    np.testing.assert_allclose(turned.scores(inputs), expansion.scores(inputs) @ matrix + offsets, atol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": []},
        {"shifts": [0.0]},
        {"mixing": [[1.0, 0.0, 0.0]]},
        {"mixing": [[1.0, 0.0], [0.0, 1.0]]},
        {"mixing": [[1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]},
        {"mixing": [[float("nan"), 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]},
        {"slope": -1.0},
    ],
)
def test_a_stored_calibration_is_checked(change: dict[str, Any]) -> None:
    calibration = ScoreCalibration(0.5, (0.1, 0.2, 0.3), ((0.0, 0.1, 0.2), (0.3, 0.0, 0.1), (0.2, 0.1, 0.0)))
    made = CalibratedPredictor(make_expansion(n_supports=100), calibration, (0.0, 0.1, 0.0))
    described, inputs = made.describe(), some_rows(20, "float32")
    again = predictor_from_stored(described, made.arrays(), "here")
    np.testing.assert_array_equal(again.scores(inputs), made.scores(inputs))
    with pytest.raises(ModelError, match="here: the calibration is damaged"):
        predictor_from_stored(described | {"calibration": described["calibration"] | change}, made.arrays(), "here")


def test_invalid_arguments_are_named() -> None:
    expansion = make_expansion(n_supports=50)
    with pytest.raises(DataError, match=r"\(rows, 5\), but got \(3, 4\)"):
        expansion.scores(some_rows(3)[:, :4])
    own = CustomKernel("mine", lambda left, right: left @ right.T)
    with pytest.raises(ConfigError, match="'mine' has no compiled implementation"):
        LocalExpansion(own, expansion.supports, expansion.partitions)
    with pytest.raises(ConfigError, match="expected at least one"):
        LocalExpansion(expansion.kernel, expansion.supports, ())
    less: Partition = replace(expansion.partitions[0], offsets=expansion.partitions[0].offsets[:, 1:])
    with pytest.raises(ConfigError, match="Partitions do not fit supports"):
        LocalExpansion(expansion.kernel, expansion.supports, (*expansion.partitions, less))


def _changed(array: NDArray[Any], index: Any, value: Any) -> NDArray[Any]:
    changed = array.copy()
    changed[index] = value
    return changed


DAMAGES: dict[str, tuple[str, Any]] = {
    "supports of another precision": ("supports", lambda supports: supports.astype(np.float64)),
    "supports of other inputs": ("supports", lambda supports: supports[:, 1:]),
    "supports in a row": ("supports", np.ravel),
    "fewer supports": ("supports", lambda supports: supports[:-1]),
    "directions of other inputs": ("partition0.directions", lambda directions: directions[:, 1:]),
    "directions of another precision": ("partition0.directions", lambda directions: directions.astype(np.float32)),
    "fewer thresholds": ("partition0.thresholds", lambda thresholds: thresholds[1:]),
    "thresholds in a column": ("partition0.thresholds", lambda thresholds: thresholds[:, np.newaxis]),
    "split below itself": ("partition0.children", lambda children: _changed(children, (1, 0), 1)),
    "split reached twice": ("partition0.children", lambda children: _changed(children, (0, 1), children[0, 0])),
    "cell that is not there": ("partition0.children", lambda children: _changed(children, children == -1, -99)),
    "children that are no whole numbers": ("partition0.children", lambda children: children + 0.0),
    "member before the first support": ("partition0.order", lambda order: _changed(order, 3, -1)),
    "member after the last support": ("partition0.order", lambda order: _changed(order, 3, 100)),
    "fewer members": ("partition0.order", lambda order: order[1:]),
    "members that are no whole numbers": ("partition0.order", lambda order: order + 0.0),
    "cells that begin late": ("partition0.starts", lambda starts: _changed(starts, 0, 1)),
    "cells that end early": ("partition0.starts", lambda starts: _changed(starts, -1, starts[-1] - 1)),
    "cells that end before they begin": ("partition0.starts", lambda starts: _changed(starts, 2, starts[-1])),
    "fewer cells": ("partition0.starts", lambda starts: starts[:-1]),
    "coefficients of another precision": ("partition0.coefficients", lambda values: values.astype(np.float64)),
    "coefficients of fewer members": ("partition0.coefficients", lambda values: values[:, 1:]),
    "coefficients of fewer outputs": ("partition1.coefficients", lambda values: values[1:]),
    "offsets of fewer cells": ("partition0.offsets", lambda offsets: offsets[1:]),
    "offsets of another precision": ("partition0.offsets", lambda offsets: offsets.astype(np.float64)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_array_is_refused(damage: str) -> None:
    expansion = make_expansion(n_supports=100)
    arrays = expansion.arrays()
    name, change = DAMAGES[damage]
    changed = change(arrays[name])
    with pytest.raises(ModelError, match=r"^here: the cells are damaged .+ Train the model again"):
        predictor_from_stored(expansion.describe(), arrays | {name: changed}, "here")


def test_missing_array_and_damaged_description_are_refused() -> None:
    expansion = make_expansion(n_supports=100)
    arrays, description = expansion.arrays(), expansion.describe()
    for name in arrays:
        with pytest.raises(ModelError, match="here: the cells are damaged"):
            predictor_from_stored(description, {key: arrays[key] for key in arrays if key != name}, "here")
    for change in (
        {"partitions": 4},
        {"partitions": 0},
        {"partitions": "x"},
        {"kernel": {"name": "sinc"}},
        {"kernel": 3},
    ):
        with pytest.raises(ModelError, match="here: the cells are damaged"):
            predictor_from_stored(description | change, arrays, "here")
