"""Kernels by name: from options, and to and from what a model file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from okl.checks import check_choice
from okl.errors import ConfigError
from okl.kernels.exponentials import Gaussian, Laplacian
from okl.kernels.matern import Matern32, Matern52
from okl.kernels.products import Linear, Polynomial
from okl.kernels.protocol import Kernel, ShiftInvariantKernel
from okl.kernels.scaled import Scaled

KnownKernel = Gaussian | Laplacian | Matern32 | Matern52 | Polynomial | Linear

KERNELS: dict[str, type[KnownKernel]] = {
    kernel.name: kernel for kernel in (Gaussian, Laplacian, Matern32, Matern52, Polynomial, Linear)
}


def kernel_parameters(name: str) -> tuple[str, ...]:
    """What a kernel of KERNELS takes, such as ("bandwidth",), or ConfigError for an unknown one."""
    kind = KERNELS[check_choice("kernel", name, KERNELS)]
    return tuple(field.name for field in fields(kind) if field.name != "name")


def make_kernel(name: str, parameters: Mapping[str, Any]) -> KnownKernel:
    """Make a kernel of KERNELS from its parameters by name.

    Raises
    ------
    ConfigError : the name is unknown, or a parameter is unknown, missing or out of range

    >>> make_kernel("matern32", {"bandwidth": 2.0})
    Matern32(bandwidth=2.0, name='matern32')
    """
    known = kernel_parameters(name)
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        takes = ", ".join(known) or "no parameters"
        raise ConfigError(f"The kernel {name!r} was given {', '.join(unknown)}, but it takes {takes}.")
    try:
        return KERNELS[name](**parameters)
    except TypeError as error:
        raise ConfigError(
            f"The kernel {name!r} takes {', '.join(known)}, but {dict(parameters)} came: {error}."
        ) from None


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """Name and parameters as JSON; `make_kernel` takes them back.

    Raises
    ------
    ConfigError : the kernel is not one of KERNELS: a model file holds data, never code that runs when it is loaded
    """
    if not isinstance(kernel, KnownKernel):
        raise ConfigError(
            f"The kernel {kernel.name!r} is a function of your own, which a model file cannot hold: loading a model "
            f"runs no code. Use the learner in memory, or train with one of {', '.join(KERNELS)}."
        )
    parameters = {name: getattr(kernel, name) for name in kernel_parameters(kernel.name)}
    return {"name": kernel.name, **parameters}


def kernel_from_description(description: Mapping[str, Any]) -> KnownKernel:
    """The kernel that `describe_kernel` described, or ConfigError."""
    if not isinstance(description, Mapping):
        raise ConfigError(f"A kernel is told by keys and values, its name among them, but {description!r:.60} came.")
    parameters = dict(description)
    return make_kernel(str(parameters.pop("name", None)), parameters)


def shift_invariant(kernel: Kernel, what: str) -> ShiftInvariantKernel:
    """The kernel, if it has a spectral density to draw from; otherwise ConfigError that says what to use instead.

    what : the map that needs it, for the message
    """
    if not isinstance(kernel, ShiftInvariantKernel):
        able = ", ".join(name for name, kind in KERNELS.items() if issubclass(kind, Scaled))
        raise ConfigError(
            f"The kernel {kernel.name!r} is not shift-invariant, so it has no frequencies for {what}. Use a Nystrom "
            f"map (the solver nogd), which takes any kernel, or one of {able}."
        )
    return kernel
