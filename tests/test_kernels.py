"""Kernels against their formulas, and spectral densities against their kernels."""

from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.kernels import KernelRule
from okl.foundation.catalogue import KERNELS
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.kernels import (
    CustomKernel,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    Profiled,
    RadialKernel,
    ShiftInvariantKernel,
    describe_kernel,
    kernel_from_description,
    kernel_parameters,
    make_kernel,
    shift_invariant,
    shift_invariant_kernels,
)

PARAMETERS = {"bandwidth": 2.0, "degree": 3, "scale": 0.5, "offset": 1.0}
ALL: list[Kernel] = [
    make_kernel(name, {parameter: PARAMETERS[parameter] for parameter in kernel_parameters(name)}) for name in KERNELS
]
FORMULAS = [kernel for kernel in ALL if not isinstance(kernel, Profiled)]
INVARIANT = [kernel for kernel in ALL if isinstance(kernel, ShiftInvariantKernel)]
RADIAL = [kernel for kernel in ALL if isinstance(kernel, RadialKernel)]


def some_rows(rows: int, n_inputs: int = 3, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((rows, n_inputs))


def by_formula(rule: KernelRule, x: FloatArray, y: FloatArray) -> float:
    """Return the value of a kernel by the formulas that okl.compiled.kernels states."""
    r, scale = float(np.linalg.norm(x - y)), rule.scale
    values = (
        np.exp(-scale * r**2),
        np.exp(-scale * np.abs(x - y).sum()),
        (1 + scale * r) * np.exp(-scale * r),
        (1 + scale * r + (scale * r) ** 2 / 3) * np.exp(-scale * r),
        (scale * (x @ y) + rule.offset) ** rule.degree,
        x @ y,
    )
    return float(values[rule.code])


def test_every_kernel_has_a_known_kind() -> None:
    assert [kernel.name for kernel in ALL] == list(KERNELS)
    assert {kernel.name for kernel in INVARIANT} == {*shift_invariant_kernels()}
    assert {type(kernel) for kernel in ALL} - {type(kernel) for kernel in INVARIANT} >= {Polynomial, Linear}
    assert {type(kernel) for kernel in INVARIANT} - {type(kernel) for kernel in RADIAL} >= {Laplacian}
    assert {type(kernel) for kernel in RADIAL} >= {Gaussian, Matern32, Matern52}


@pytest.mark.parametrize("kernel", FORMULAS, ids=lambda kernel: kernel.name)
def test_values_match_the_rule_of_compiled_code(kernel: Kernel) -> None:
    left, right = some_rows(7), some_rows(9, seed=1)
    assert kernel.rule is not None
    expected = [[by_formula(kernel.rule, x, y) for y in right] for x in left]
    assert np.ptp(expected) > 0.3
    np.testing.assert_allclose(kernel.matrix(left, right), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_kernel_matrices_are_positive_semidefinite(kernel: Kernel) -> None:
    eigenvalues = np.linalg.eigvalsh(kernel.matrix(some_rows(60), some_rows(60)))
    assert eigenvalues[-1] > 1.0
    assert eigenvalues[0] > -1e-12 * eigenvalues[-1]


def mean_cosine(frequencies: FloatArray, difference: FloatArray) -> float:
    return float(np.cos(difference @ frequencies).mean())


@pytest.mark.parametrize("kernel", INVARIANT, ids=lambda kernel: kernel.name)
def test_mean_cosine_of_drawn_frequencies_is_the_kernel(kernel: ShiftInvariantKernel) -> None:
    n = 200_000
    drawn = kernel.draw_frequencies(3, n, np.random.default_rng(0))
    placed = kernel.frequencies_at(np.random.default_rng(1).random((n, kernel.n_uniforms(3))))
    assert drawn.shape == placed.shape == (3, n)
    for difference in some_rows(5):
        expected = kernel.matrix(difference[None, :], np.zeros((1, 3)))[0, 0]
        assert 0.05 < expected < 0.95
        # five standard deviations of a mean of n numbers of variance 1/2 at most
        assert abs(mean_cosine(drawn, difference) - expected) < 5 * (2 * n) ** -0.5
        assert abs(mean_cosine(placed, difference) - expected) < 5 * (2 * n) ** -0.5


@pytest.mark.parametrize("kernel", RADIAL, ids=lambda kernel: kernel.name)
def test_radii_have_the_law_of_the_lengths_of_frequencies(kernel: RadialKernel) -> None:
    lengths = np.linalg.norm(kernel.draw_frequencies(5, 100_000, np.random.default_rng(0)), axis=0)
    radii = kernel.draw_radii(5, (100, 1000), np.random.default_rng(1))
    assert radii.shape == (100, 1000)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    np.testing.assert_allclose(np.quantile(radii, levels), np.quantile(lengths, levels), rtol=0.02)


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_described_kernel_is_the_same_kernel(kernel: Kernel) -> None:
    assert kernel_from_description(describe_kernel(kernel)) == kernel


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match="kernel = 'sinc'; expected one of gaussian, laplacian"):
        make_kernel("sinc", {})
    with pytest.raises(ConfigError, match="'gaussian' does not have degree; its parameters: bandwidth"):
        make_kernel("gaussian", {"degree": 2})
    with pytest.raises(ConfigError, match="'linear' does not have bandwidth"):
        make_kernel("linear", {"bandwidth": 2.0})
    with pytest.raises(ConfigError, match="'matern32' requires valid values of bandwidth, but got none"):
        make_kernel("matern32", {})
    with pytest.raises(ConfigError, match="bandwidth = -1"):
        make_kernel("laplacian", {"bandwidth": -1.0})
    with pytest.raises(ConfigError, match="offset = -1"):
        Polynomial(2, offset=-1.0)
    with pytest.raises(
        ConfigError, match=r"'polynomial' is not shift-invariant.*Nystrom.*gaussian, laplacian, matern32"
    ):
        shift_invariant(Polynomial(), "a Fourier map")
    multiquadric = type("Own", (Profiled,), {"name": "own", "profile": staticmethod(lambda s: (1.0 + s * s) ** -0.5)})
    with pytest.raises(ConfigError, match=r"'own' states no frequencies for a Fourier map\. .*map = 'nystrom'"):
        shift_invariant(multiquadric(2.0), "a Fourier map")


def test_a_custom_kernel_is_used_but_never_stored() -> None:
    kernel = CustomKernel("min", lambda left, right: np.minimum(left[:, 0][:, None], right[:, 0][None, :]))
    np.testing.assert_array_equal(kernel.matrix(np.array([[1.0], [3.0]]), np.array([[2.0]])), [[1.0], [2.0]])
    assert kernel.rule is None
    with pytest.raises(ConfigError, match="'min' is a Python function, which a model file cannot hold"):
        describe_kernel(kernel)
    with pytest.raises(DataError, match=r"'wrong' returned values of shape \(2, 2\) for 2 and 1 rows"):
        CustomKernel("wrong", lambda left, right: left @ left.T).matrix(np.ones((2, 1)), np.ones((1, 1)))
    with pytest.raises(DataError, match="'wrong' returned values that are not finite"):
        CustomKernel("wrong", lambda left, right: np.full((2, 1), np.nan)).matrix(np.ones((2, 1)), np.ones((1, 1)))
    with pytest.raises(ConfigError, match="'wrong' has function = 3"):
        CustomKernel("wrong", 3)  # type: ignore[arg-type]
