"""Orthogonal, quasi-Monte Carlo and structured draws of the frequencies of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from okl.features.base import FeatureMap
from okl.features.fourier import (
    STRUCTURED_FROM,
    FourierFeatures,
    StructuredFeatures,
    draw_fourier_map,
    draw_map,
    draw_orthogonal_map,
    draw_quasi_map,
    draw_structured_map,
)
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian, Kernel, Laplacian, Linear, Matern32, Matern52

Draw = Callable[..., FeatureMap]
DRAWS: list[Draw] = [draw_orthogonal_map, draw_quasi_map, draw_structured_map]
RADIAL: list[Kernel] = [Gaussian(2.5), Matern32(2.5), Matern52(2.5)]
CASES: list[tuple[Draw, Kernel]] = [(draw, kernel) for draw in DRAWS for kernel in RADIAL] + [
    (draw_quasi_map, Laplacian(5.0))
]


def named(value: Any) -> str:
    return str(getattr(value, "__name__", getattr(value, "name", value)))


def some_rows(rows: int = 100, n_inputs: int = 6) -> FloatArray:
    return np.random.default_rng(1).standard_normal((rows, n_inputs))


@pytest.mark.parametrize(("draw", "kernel"), CASES, ids=named)
def test_inner_products_approximate_the_kernel(draw: Draw, kernel: Kernel) -> None:
    # directions of the structured map are uniform enough only for many inputs
    rows = some_rows(n_inputs=60) / 10**0.5 if draw is draw_structured_map else some_rows()
    exact = kernel.matrix(rows, rows)
    assert exact.min() < 0.35
    for n_frequencies in (100, 10_000):
        features = draw(kernel, rows.shape[1], n_frequencies, 4, "float64").transform(rows)
        # the bound of independent frequencies, by Hoeffding over 4950 pairs; these ones are no worse
        bound = np.sqrt(2 * np.log(2 * 4950 / 1e-3) / n_frequencies)
        assert np.abs(features @ features.T - exact).max() < bound


def mean_error(draw: Draw, kernel: Kernel, rows: FloatArray, n_frequencies: int = 128, n_seeds: int = 12) -> float:
    exact, others = kernel.matrix(rows, rows), ~np.eye(len(rows), dtype=bool)
    errors = []
    for seed in range(n_seeds):
        features = draw(kernel, rows.shape[1], n_frequencies, seed, "float64").transform(rows)
        errors.append(np.mean((features @ features.T - exact)[others] ** 2))
    return float(np.sqrt(np.mean(errors)))


@pytest.mark.parametrize(
    ("draw", "gain"), [(draw_orthogonal_map, 0.5), (draw_quasi_map, 0.4), (draw_structured_map, 0.5)]
)
def test_errors_are_well_below_those_of_independent_frequencies(draw: Draw, gain: float) -> None:
    rows = some_rows(120, 16)
    rms_distance = np.sqrt(2 * np.sum(rows.var(axis=0, ddof=1)))
    kernel = Gaussian(float(rms_distance))
    assert mean_error(draw, kernel, rows) < (1 - gain) * mean_error(draw_fourier_map, kernel, rows)


@pytest.mark.parametrize("kernel", RADIAL, ids=named)
def test_frequencies_of_a_block_are_orthogonal(kernel: Kernel) -> None:
    drawn = draw_orthogonal_map(kernel, 6, 15, 0, "float64")
    for first in (0, 6, 12):
        block = drawn.frequencies[:, first : min(first + 6, 15)]
        products = block.T @ block
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12)
    assert np.ptp(np.linalg.norm(drawn.frequencies, axis=0)) > 0.1


def test_quasi_frequencies_fall_evenly_into_the_strata_of_every_coordinate() -> None:
    drawn = draw_quasi_map(Gaussian(1.0), 5, 64, 3, "float64")
    for coordinate in drawn.frequencies:
        halves = [np.count_nonzero(coordinate < 0), np.count_nonzero(np.abs(coordinate) < 0.6744897501960817)]
        assert halves == [32, 32]


@pytest.mark.parametrize("draw", DRAWS, ids=named)
@pytest.mark.parametrize(("n_inputs", "n_frequencies"), [(1, 1), (1, 5), (3, 1), (7, 7), (9, 20)])
def test_any_sizes_give_a_map(draw: Draw, n_inputs: int, n_frequencies: int) -> None:
    features = draw(Matern32(1.0), n_inputs, n_frequencies, 0).transform(some_rows(20, n_inputs))
    assert features.shape == (20, 2 * n_frequencies)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("draw", DRAWS, ids=named)
def test_a_seed_draws_the_same_map_in_both_precisions(draw: Draw) -> None:
    first, again, double, other = (
        draw(Gaussian(1.0), 3, 20, seed, precision)
        for seed, precision in ((7, "float32"), (7, "float32"), (7, "float64"), (8, "float32"))
    )
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
        np.testing.assert_array_equal(array, double.arrays()[name].astype(np.float32))
        assert (array != other.arrays()[name]).any()


def test_a_structured_map_holds_a_few_numbers_for_each_frequency() -> None:
    drawn = draw_structured_map(Gaussian(20.0), 700, 3000, 0)
    assert sum(array.size for array in drawn.arrays().values()) <= 3 * 1024 * 3 + 3000 < 700 * 3000 // 100


def test_auto_selects_a_map_for_the_kernel_and_the_number_of_inputs() -> None:
    assert isinstance(draw_map("auto", Gaussian(1.0), STRUCTURED_FROM, 64, 0), StructuredFeatures)
    assert isinstance(draw_map("auto", Gaussian(1.0), STRUCTURED_FROM, 63, 0), FourierFeatures)
    for kernel, draw in ((Gaussian(1.0), draw_orthogonal_map), (Laplacian(1.0), draw_quasi_map)):
        drawn, expected = draw_map("auto", kernel, 20, 10, 0), draw(kernel, 20, 10, 0)
        assert isinstance(drawn, FourierFeatures)
        np.testing.assert_array_equal(drawn.frequencies, expected.frequencies)
    wide = draw_map("auto", Laplacian(1.0), 22_000, 2, 0)
    assert isinstance(wide, FourierFeatures)
    np.testing.assert_array_equal(wide.frequencies, draw_fourier_map(Laplacian(1.0), 22_000, 2, 0).frequencies)


def test_invalid_arguments_are_named() -> None:
    for draw in (draw_fourier_map, *DRAWS):
        with pytest.raises(ConfigError, match=r"'linear' is not shift-invariant.*Use a Nystrom map"):
            draw(Linear(), 3, 5, 0)
        with pytest.raises(ConfigError, match="n_frequencies = 0"):
            draw(Gaussian(1.0), 3, 0, 0)
        with pytest.raises(ConfigError, match="n_inputs = 0"):
            draw(Gaussian(1.0), 0, 3, 0)
    for draw in (draw_orthogonal_map, draw_structured_map):
        with pytest.raises(ConfigError, match="'laplacian' is not a function of the Euclidean distance"):
            draw(Laplacian(1.0), 3, 5, 0)
    with pytest.raises(ConfigError, match=r"requires 21,202 coordinates, but Sobol's sequence has 21,201"):
        draw_quasi_map(Matern32(1.0), 21_201, 2, 0)
    with pytest.raises(ConfigError, match="map = 'sparse'; expected one of auto, independent, orthogonal"):
        draw_map("sparse", Gaussian(1.0), 3, 5, 0)
    with pytest.raises(ConfigError, match=r"must be \(2, 3, 4\) and a vector"):
        StructuredFeatures(Gaussian(1.0), 3, np.ones((1, 3, 4)), np.ones(5))
