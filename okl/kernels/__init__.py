"""Kernels k(x, x'), their rules for compiled code, and the spectral density of each shift-invariant one."""

from okl.kernels.custom import CustomKernel
from okl.kernels.exponentials import Gaussian, Laplacian
from okl.kernels.making import (
    KERNELS,
    KnownKernel,
    describe_kernel,
    kernel_from_description,
    kernel_parameters,
    make_kernel,
    shift_invariant,
)
from okl.kernels.matern import Matern32, Matern52
from okl.kernels.products import Linear, Polynomial
from okl.kernels.protocol import Kernel, RadialKernel, ShiftInvariantKernel

__all__ = [
    "KERNELS",
    "CustomKernel",
    "Gaussian",
    "Kernel",
    "KnownKernel",
    "Laplacian",
    "Linear",
    "Matern32",
    "Matern52",
    "Polynomial",
    "RadialKernel",
    "ShiftInvariantKernel",
    "describe_kernel",
    "kernel_from_description",
    "kernel_parameters",
    "make_kernel",
    "shift_invariant",
]
