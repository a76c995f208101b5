from __future__ import annotations

import numpy as np
import pytest

from okl.errors import ConfigError, DataError
from okl.features.bandwidth import median_distance
from okl.online.experts import Candidates, draw_candidates
from okl.online.experts.candidates import N_OCTAVES, narrowed
from tests.online.experts.cases import SPREADS, make_candidates

SAMPLE = np.random.default_rng(2).standard_normal((200, 5)).astype(np.float32)


def test_bandwidths_lie_around_the_median_distance() -> None:
    candidates = draw_candidates(SAMPLE, 30, 0)
    median = median_distance(SAMPLE)
    bandwidths = [vars(candidates.fourier(0, octave).kernel)["bandwidth"] for octave in range(N_OCTAVES)]
    np.testing.assert_allclose(bandwidths, median * 2.0 ** np.arange(1, 1 - N_OCTAVES, -1))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern32"])
def test_inner_products_approximate_the_kernel_of_each_octave(kernel: str) -> None:
    candidates = draw_candidates(SAMPLE, 4000, 0, "float64", kernel)
    inputs = SAMPLE[:20].astype(np.float64)
    for octave in (0, 1, 3):
        drawn = candidates.fourier(0, octave)
        features = drawn.transform(inputs)
        np.testing.assert_allclose(features @ features.T, drawn.kernel.matrix(inputs, inputs), atol=0.08)


def test_standardising_frequencies_is_standardising_inputs() -> None:
    candidates = make_candidates("float64")
    inputs = SAMPLE[:20].astype(np.float64) * SPREADS
    deviations = (np.random.default_rng(1).standard_normal((300, 5)) * SPREADS).std(axis=0)
    scaled = candidates.fourier(1, 2)
    features = scaled.transform(inputs)
    shifted = scaled.transform(inputs + 7.0)
    np.testing.assert_allclose(shifted @ shifted.T, features @ features.T, atol=1e-9)
    kernel = scaled.kernel.matrix(inputs / deviations, inputs / deviations)
    assert np.abs(features @ features.T - kernel).mean() < 0.15
    np.testing.assert_array_equal(narrowed(candidates.bases[1], 2).frequencies, 4 * candidates.bases[1].frequencies)


def test_inputs_of_like_spread_get_one_scaling_and_constant_columns_none() -> None:
    alike = SAMPLE / SAMPLE.std(axis=0)
    assert len(draw_candidates(alike, 10, 0).bases) == 1
    assert len(draw_candidates(alike * SPREADS, 10, 0).bases) == 2
    constant = np.column_stack([SAMPLE * SPREADS, np.full(200, 3.1)]).astype(np.float32)
    candidates = draw_candidates(constant, 10, 0)
    assert not candidates.bases[1].frequencies[5].any()
    assert candidates.linear is not None
    assert candidates.linear.factor[5] == 0
    nothing = draw_candidates(np.full((50, 2), 3.0, dtype=np.float32), 10, 0)
    assert len(nothing.bases) == 1
    assert np.isfinite(nothing.bases[0].frequencies).all()


def test_a_given_bandwidth_is_the_only_one() -> None:
    candidates = draw_candidates(SAMPLE, 10, 0, bandwidth=2.5)
    assert (len(candidates.bases), candidates.n_octaves) == (1, 1)
    assert vars(candidates.bases[0].kernel)["bandwidth"] == 2.5


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ConfigError, match="grid of experts is empty"):
        Candidates(())
    with pytest.raises(ConfigError, match="'polynomial' has no bandwidth"):
        draw_candidates(SAMPLE, 10, 0, kernel="polynomial")
    with pytest.raises(ConfigError, match="one shape and precision"):
        Candidates((*make_candidates().bases[:1], *draw_candidates(SAMPLE[:, :3], 40, 0).bases))
    with pytest.raises(ConfigError, match="n_octaves = 0"):
        Candidates(make_candidates().bases, 0)
    with pytest.raises(DataError, match="sampled rows"):
        draw_candidates(SAMPLE[:0], 10, 0)
