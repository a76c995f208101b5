"""What kernels offer: values, a rule for compiled code and, where they are shift-invariant, a spectral density."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from okl.compiled.kernelrule import KernelRule
from okl.types import FloatArray


@runtime_checkable
class Kernel(Protocol):
    """A positive definite function of two inputs.

    rule : how compiled code knows it; None for a function of the user's own, which is called through `matrix`
    matrix : values of every row of left (m, n_inputs) with every row of right (n, n_inputs): (m, n), float64
    """

    @property
    def name(self) -> str: ...

    @property
    def rule(self) -> KernelRule | None: ...

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray: ...


@runtime_checkable
class ShiftInvariantKernel(Kernel, Protocol):
    """A kernel of x - x' with k(x, x) = 1, whose spectral density can be drawn from (Bochner's theorem).

    draw_frequencies : (n_inputs, n_frequencies) float64, per unit of input, from the spectral density
    n_uniforms : numbers from [0, 1] that make one frequency vector of n_inputs
    frequencies_at : the frequencies (n_inputs, points) of points (points, n_uniforms) of the open unit cube; uniform
        points give frequencies from the spectral density
    """

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray: ...

    def n_uniforms(self, n_inputs: int) -> int: ...

    def frequencies_at(self, points: FloatArray) -> FloatArray: ...


@runtime_checkable
class RadialKernel(ShiftInvariantKernel, Protocol):
    """A kernel of ||x - x'||: the direction of a frequency is uniform, and independent of its length.

    draw_radii : Euclidean lengths of frequencies of n_inputs, of any shape, float64, per unit of input
    """

    def draw_radii(self, n_inputs: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray: ...
