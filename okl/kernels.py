"""Kernels k(x, x'), their compiled rules and the spectral density of each shift-invariant kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import gammaincinv, ndtri

from okl.compiled import kernels as compiled
from okl.compiled.extension import compiled_profile
from okl.compiled.products import sparse_block
from okl.foundation.catalogue import KERNELS, load
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray
from okl.foundation.validation import check_at_least, check_choice, check_nonnegative, check_positive


@runtime_checkable
class Kernel(Protocol):
    """A positive definite function of two inputs.

    rule : how compiled code knows it; None for a function of the user's own, which is called through `matrix`
    matrix : values of every row of left (m, n_inputs) with every row of right (n, n_inputs): (m, n), float64
    """

    @property
    def name(self) -> str: ...
    @property
    def rule(self) -> compiled.KernelRule | None: ...
    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray: ...


def kernel_matrix(kernel: Kernel, left: Any, right: Any) -> FloatArray:
    """Return kernel values of every row of left with every row of right, both dense or both sparse: float64.

    right : sparse rows, or the same as a csc_array, which need not be made again

    Raises
    ------
    ConfigError : a kernel that compiled code does not know, of sparse rows
    """
    if not sparse.issparse(left):
        return kernel.matrix(left, right)
    if kernel.rule is None:
        raise ConfigError(
            f"The kernel {kernel.name!r} has no compiled implementation, which sparse rows need. Use another kernel."
        )
    columns = right.tocsc()
    absolute = kernel.rule.code in (compiled.LAPLACIAN, compiled.OWN_ABSOLUTE)
    block = sparse_block(columns, np.float64)
    sizes = np.abs(block.data) if absolute else np.square(block.data)
    lengths = np.asarray(np.bincount(block.columns, sizes, columns.shape[0]), dtype=np.float64)
    values = np.empty((left.shape[0], columns.shape[0]))
    compiled.sparse_kernel_block(values, sparse_block(left, np.float64), block, lengths, kernel.rule)
    return values


_DIAGONAL_ROWS = 64  # of a tile, of which the diagonal alone is used


def kernel_diagonal(kernel: Kernel, rows: Any) -> Doubles:
    """Return k(x, x) of rows (m, n_inputs), dense or sparse: (m,), float64."""
    if isinstance(kernel, Scaled):
        return np.ones(rows.shape[0])
    tiles = (rows[first : first + _DIAGONAL_ROWS] for first in range(0, rows.shape[0], _DIAGONAL_ROWS))
    return np.concatenate([np.empty(0), *(np.diagonal(kernel_matrix(kernel, tile, tile)) for tile in tiles)])


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


@dataclass(frozen=True)
class NamedKernel:
    """Base of the kernels that have a name in `okl.foundation.catalogue`: options, reports and model files use it.

    A kernel is a subclass with parameters as fields, from bandwidth, scale, degree and offset. `Profiled` is the base
    of kernels of a distance that are one function; without a `rule`, solvers with support vectors refuse a kernel.

    name : in options and model files; title : in reports, by default the name
    power : of the norm that distances are measured by, 2 or 1
    factors : bandwidths that the automatic choice tries, as multiples of the median distance; none: not tried
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    power: ClassVar[Literal[1, 2]] = 2
    factors: ClassVar[tuple[float, ...]] = ()

    @property
    def rule(self) -> compiled.KernelRule | None:
        """Return None: the kernel has no compiled rule, unless overridden."""
        return None

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        raise NotImplementedError

    def slopes(self, left: FloatArray, right: FloatArray) -> FloatArray | None:
        """Return g (m, n), float64, with the gradient of k(x, x') by x = -g (x - x'), or -g sign(x - x') for power 1.

        None, unless overridden: the gradient is not known in closed form.
        """
        return None


# Kernels of (x - x') / bandwidth.

LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e-100, 1e100


@dataclass(frozen=True)
class Scaled(NamedKernel):
    """A kernel of (x - x') / bandwidth."""

    bandwidth: float

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    def second_moment(self, n_inputs: int) -> float:
        """Return E ||u||^2 of its frequencies u; infinite unless overridden."""
        return math.inf


def check_bandwidth(bandwidth: float) -> None:
    """Raise ConfigError for a bandwidth whose square leaves the range of float64."""
    check_positive("bandwidth", bandwidth)
    if not LEAST_BANDWIDTH <= bandwidth <= MOST_BANDWIDTH:
        raise ConfigError(
            f"bandwidth = {bandwidth!r} is outside [{LEAST_BANDWIDTH:g}, {MOST_BANDWIDTH:g}], the "
            "range in which squares are finite numbers. Choose a value inside it."
        )


def distances(left: FloatArray, right: FloatArray, metric: str) -> FloatArray:
    """Return distances of every row of left (m, d) from every row of right (n, d): (m, n), float64."""
    values: FloatArray = cdist(np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64), metric)
    return values


def as_frequencies(points: FloatArray) -> FloatArray:
    """Return frequencies (n_inputs, points), C-contiguous, of points (points, n_inputs)."""
    return np.ascontiguousarray(points.T)


@dataclass(frozen=True)
class Profiled(Scaled):
    """A kernel profile(||x - x'|| / bandwidth), of a norm that `power` names: 2 for Euclidean, 1 for absolute sums.

    A subclass has a name and `profile`, a static method of one number from 0 up, with profile(0) = 1: arithmetic and
    NumPy's functions, which are compiled and take arrays alike. With `draw_frequencies`, `n_uniforms` and
    `frequencies_at` (see `ShiftInvariantKernel`) it has Fourier maps; otherwise these refuse it.
    """

    @staticmethod
    def profile(s: Any) -> Any:
        """Return the kernel at r = s, a number or an array."""
        raise NotImplementedError

    @property
    def rule(self) -> compiled.KernelRule:
        """Return the profile at its address in this process."""
        code = compiled.OWN_EUCLIDEAN if self.power == 2 else compiled.OWN_ABSOLUTE
        return compiled.KernelRule(code, 1.0 / self.bandwidth, 0.0, compiled_profile(type(self).profile).address)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        metric = "euclidean" if self.power == 2 else "cityblock"
        values: FloatArray = type(self).profile(distances(left, right, metric) / self.bandwidth)
        return values


@stored("gaussian-kernel", renamed={"name": None})
@dataclass(frozen=True)
class Gaussian(Scaled):
    """The Gaussian kernel k(x, x') = exp(-||x - x'||^2 / (2 bandwidth^2)).

    Parameters
    ----------
    bandwidth : float > 0, in units of the input; the paper's sigma

    Raises
    ------
    ConfigError : the bandwidth is not a positive finite number

    Source: Lu et al., JMLR 17(47), 2016, section 3.2; its density is N(0, I / bandwidth^2).
    """

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian"
    factors: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0, 2.0)

    @property
    def rule(self) -> compiled.KernelRule:
        """Return exp(-scale r^2)."""
        return compiled.KernelRule(compiled.GAUSSIAN, 0.5 / self.bandwidth**2, 0.0, 0)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        left = np.asarray(left, dtype=np.float64)
        right = np.asarray(right, dtype=np.float64)
        squares = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)[None, :] - 2.0 * (left @ right.T)
        values: FloatArray = np.exp(-np.maximum(squares, 0.0) / (2.0 * self.bandwidth**2))
        return values

    def slopes(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return k / bandwidth^2, see `NamedKernel.slopes`."""
        return self.matrix(left, right) / self.bandwidth**2

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
        """Return frequencies from N(0, I / bandwidth^2): (n_inputs, n_frequencies), float64, per unit of input."""
        return rng.standard_normal((n_inputs, n_frequencies)) / self.bandwidth

    def draw_radii(self, n_inputs: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Return lengths of frequencies: chi with n_inputs degrees of freedom, over the bandwidth."""
        return np.sqrt(rng.chisquare(n_inputs, shape)) / self.bandwidth

    def second_moment(self, n_inputs: int) -> float:
        return n_inputs / float(self.bandwidth) ** 2

    def n_uniforms(self, n_inputs: int) -> int:
        return n_inputs

    def frequencies_at(self, points: FloatArray) -> FloatArray:
        """Return frequencies (n_inputs, points) by the normal quantile of points (points, n_inputs)."""
        return as_frequencies(ndtri(points) / self.bandwidth)


@stored("laplacian-kernel", renamed={"name": None})
@dataclass(frozen=True)
class Laplacian(Scaled):
    """The Laplacian kernel k(x, x') = exp(-||x - x'||_1 / bandwidth); ||.||_1 is the sum of absolute values.

    Parameters
    ----------
    bandwidth : float > 0, in units of the input

    Raises
    ------
    ConfigError : the bandwidth is not a positive finite number

    Source: Rahimi & Recht, NIPS 2007, Figure 1: its density is a product of Cauchy densities of scale 1 / bandwidth.
    """

    name: ClassVar[str] = "laplacian"
    title: ClassVar[str] = "Laplacian"
    power: ClassVar[Literal[1, 2]] = 1
    factors: ClassVar[tuple[float, ...]] = (0.5, 1.0, 2.0, 4.0)

    @property
    def rule(self) -> compiled.KernelRule:
        """Return exp(-scale ||x - x'||_1)."""
        return compiled.KernelRule(compiled.LAPLACIAN, 1.0 / self.bandwidth, 0.0, 0)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        values: FloatArray = np.exp(-distances(left, right, "cityblock") / self.bandwidth)
        return values

    def slopes(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return k / bandwidth, see `NamedKernel.slopes`; the gradient at x = x' counts as 0."""
        return self.matrix(left, right) / self.bandwidth

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
        """Return independent Cauchy coordinates (n_inputs, n_frequencies), float64, per unit of input."""
        return rng.standard_cauchy((n_inputs, n_frequencies)) / self.bandwidth

    def n_uniforms(self, n_inputs: int) -> int:
        return n_inputs

    def frequencies_at(self, points: FloatArray) -> FloatArray:
        """Return frequencies (n_inputs, points) by the Cauchy quantile of points (points, n_inputs)."""
        return as_frequencies(np.tan(np.pi * (points - 0.5)) / self.bandwidth)


@dataclass(frozen=True)
class _Matern(Scaled):
    """A Matern kernel of smoothness nu; its spectral density is a multivariate t with 2 nu degrees of freedom.

    code : of the compiled rule; degrees : 2 nu; divisor : of s^2 in k = (1 + s + s^2 / divisor) exp(-s)
    bandwidth : float > 0, the length scale in units of the input

    Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, equations (4.15) and (4.17).
    """

    code: ClassVar[int]
    degrees: ClassVar[int]
    divisor: ClassVar[float]

    @property
    def rule(self) -> compiled.KernelRule:
        """Return (1 + s + s^2 / divisor) exp(-s) with s = scale r."""
        return compiled.KernelRule(self.code, math.sqrt(self.degrees) / self.bandwidth, 0.0, 0)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        s = distances(left, right, "euclidean") * (math.sqrt(self.degrees) / self.bandwidth)
        values: FloatArray = (1.0 + s + s * s / self.divisor) * np.exp(-s)
        return values

    def slopes(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return -k'(r) / r at r = ||x - x'||, see `NamedKernel.slopes`.

        a^2 exp(-a r) for smoothness 3/2, a^2 / 3 (1 + a r) exp(-a r) for 5/2, where a = sqrt(2 nu) / bandwidth.
        """
        scale = math.sqrt(self.degrees) / self.bandwidth
        s = distances(left, right, "euclidean") * scale
        smooth = 1.0 - 2.0 / self.divisor + s / self.divisor  # 1 for 3/2, (1 + s) / 3 for 5/2
        values: FloatArray = scale**2 * smooth * np.exp(-s)
        return values

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
        """Return frequencies from a t of scale 1 / bandwidth: (n_inputs, n_frequencies), float64, per unit of input."""
        normal = rng.standard_normal((n_inputs, n_frequencies))
        return normal * self._stretch(rng.chisquare(self.degrees, n_frequencies))

    def draw_radii(self, n_inputs: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Return lengths of frequencies: those of the t."""
        normal = np.sqrt(rng.chisquare(n_inputs, shape))
        return normal * self._stretch(rng.chisquare(self.degrees, shape))

    def second_moment(self, n_inputs: int) -> float:
        """Return E ||u||^2 of its frequencies u, of a t with `degrees` degrees of freedom."""
        return self.degrees / (self.degrees - 2.0) * n_inputs / float(self.bandwidth) ** 2

    def n_uniforms(self, n_inputs: int) -> int:
        """Return the number of inputs, plus one for the chi-square that divides them."""
        return n_inputs + 1

    def frequencies_at(self, points: FloatArray) -> FloatArray:
        """Return frequencies (n_inputs, points) of points (points, n_inputs + 1): normal by root of chi-square."""
        chi_square = 2.0 * gammaincinv(0.5 * self.degrees, points[:, -1])
        return as_frequencies(ndtri(points[:, :-1])) * self._stretch(chi_square)

    def _stretch(self, chi_square: FloatArray) -> FloatArray:
        return np.sqrt(self.degrees / chi_square) / self.bandwidth


@stored("matern32-kernel", renamed={"name": None})
@dataclass(frozen=True)
class Matern32(_Matern):
    """The Matern kernel of smoothness 3/2: k = (1 + s) exp(-s) with s = sqrt(3) ||x - x'|| / bandwidth."""

    name: ClassVar[str] = "matern32"
    title: ClassVar[str] = "Matern 3/2"
    factors: ClassVar[tuple[float, ...]] = (0.25, 1.0, 4.0)
    code: ClassVar[int] = compiled.MATERN32
    degrees: ClassVar[int] = 3
    divisor: ClassVar[float] = math.inf


@stored("matern52-kernel", renamed={"name": None})
@dataclass(frozen=True)
class Matern52(_Matern):
    """The Matern kernel of smoothness 5/2: k = (1 + s + s^2 / 3) exp(-s) with s = sqrt(5) ||x - x'|| / bandwidth."""

    name: ClassVar[str] = "matern52"
    title: ClassVar[str] = "Matern 5/2"
    code: ClassVar[int] = compiled.MATERN52
    degrees: ClassVar[int] = 5
    divisor: ClassVar[float] = 3.0


# Kernels of the inner product, which are not shift-invariant.

MOST_DEGREE = 1000  # beyond, powers of anything but 1 leave the range of floats


@stored("polynomial-kernel", renamed={"name": None})
@dataclass(frozen=True)
class Polynomial(NamedKernel):
    """The polynomial kernel k(x, x') = (scale <x, x'> + offset)^degree.

    Parameters
    ----------
    degree : int >= 1; scale : float > 0, per squared unit of input; offset : float >= 0, or it is not positive definite

    Raises
    ------
    ConfigError : a parameter is outside its range

    Source: Lu et al., JMLR 17(47), 2016, section 3.3: a kernel that is not shift-invariant, for NOGD.
    """

    degree: int = 3
    scale: float = 1.0
    offset: float = 1.0
    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        if check_at_least("degree", self.degree, 1) > MOST_DEGREE:
            raise ConfigError(f"degree = {self.degree:g}; expected a whole number up to {MOST_DEGREE:,}.")
        check_positive("scale", self.scale)
        check_nonnegative("offset", self.offset)

    @property
    def rule(self) -> compiled.KernelRule:
        """Return (scale <x, x'> + offset)^degree."""
        return compiled.KernelRule(compiled.POLYNOMIAL, float(self.scale), float(self.offset), int(self.degree))

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # the caller checks for infinity
            values: FloatArray = (self.scale * _products(left, right) + self.offset) ** self.degree
        return values


@stored("linear-kernel", renamed={"name": None})
@dataclass(frozen=True)
class Linear(NamedKernel):
    """The linear kernel k(x, x') = <x, x'>."""

    name: ClassVar[str] = "linear"

    @property
    def rule(self) -> compiled.KernelRule:
        """Return <x, x'>."""
        return compiled.KernelRule(compiled.LINEAR, 1.0, 0.0, 0)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return _products(left, right)


def _products(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(left, dtype=np.float64) @ np.asarray(right, dtype=np.float64).T


@dataclass(frozen=True)
class CustomKernel:
    """A positive definite function of the user's own, for Nystrom maps and NOGD; a model file cannot hold its code.

    Parameters
    ----------
    name : what messages call it
    function : takes left (m, d) and right (n, d) and gives the values of all pairs, (m, n); a value may depend on its
        own two rows only. A function at the top of a module can be sent to worker processes, a lambda cannot.

    Raises
    ------
    ConfigError : the function cannot be called
    DataError : it gave another shape, or values that are not finite (`matrix`)

    Source: Lu et al., JMLR 17(47), 2016, section 3.3: the Nystrom method takes any positive definite kernel.
    """

    name: str
    function: Callable[[FloatArray, FloatArray], FloatArray]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(
                f"The kernel {self.name!r} has function = {self.function!r}; expected a function of "
                "two blocks of rows, (m, d) and (n, d), that returns their (m, n) kernel values."
            )

    @property
    def rule(self) -> None:
        """Return None: the kernel has no compiled implementation."""
        return

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        values = np.asarray(self.function(np.asarray(left), np.asarray(right)), dtype=np.float64)
        if values.shape != (len(left), len(right)):
            raise DataError(
                f"The kernel {self.name!r} returned values of shape {values.shape} for {len(left)} "
                f"and {len(right)} rows; expected ({len(left)}, {len(right)})."
            )
        if not np.isfinite(values).all():
            raise DataError(f"The kernel {self.name!r} returned values that are not finite. Correct its function.")
        return values


# Kernels by name: from options, and to and from what a model file holds.


def kernel_class(name: str) -> type[NamedKernel]:
    """Return the class of a kernel of KERNELS, or ConfigError for an unknown one."""
    kind: type[NamedKernel] = load(KERNELS[check_choice("kernel", name, KERNELS)])
    return kind


def kernel_parameters(name: str) -> tuple[str, ...]:
    """Return what a kernel of KERNELS takes, such as ("bandwidth",), or ConfigError for an unknown one."""
    return tuple(field.name for field in fields(kernel_class(name)))


def shift_invariant_kernels() -> tuple[str, ...]:
    """Return the names of the kernels of KERNELS that have a spectral density."""
    return tuple(name for name in KERNELS if hasattr(kernel_class(name), "draw_frequencies"))


def make_kernel(name: str, parameters: Mapping[str, Any]) -> NamedKernel:
    """Make a kernel of KERNELS from its parameters by name.

    Raises
    ------
    ConfigError : the name is unknown, or a parameter is unknown, missing or out of range

    >>> make_kernel("matern32", {"bandwidth": 2.0})
    Matern32(bandwidth=2.0)
    """
    accepted = kernel_parameters(name)
    unknown = sorted(set(parameters) - set(accepted))
    if unknown:
        takes = ", ".join(accepted) or "none"
        raise ConfigError(f"The kernel {name!r} does not have {', '.join(unknown)}; its parameters: {takes}.")
    try:
        return kernel_class(name)(**parameters)
    except TypeError:
        given = f"got {dict(parameters)}" if parameters else "got none"
        raise ConfigError(f"The kernel {name!r} requires valid values of {', '.join(accepted)}, but {given}.") from None


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """Return the name and parameters as JSON; `make_kernel` takes them back.

    Raises
    ------
    ConfigError : the kernel is not one of KERNELS: a model file holds data, never code that runs when it is loaded
    """
    if not isinstance(kernel, NamedKernel):
        raise ConfigError(
            f"The kernel {kernel.name!r} is a Python function, which a model file cannot hold. "
            f"Use the learner in memory, or train with one of {', '.join(KERNELS)}."
        )
    parameters = {name: getattr(kernel, name) for name in kernel_parameters(kernel.name)}
    return {"name": kernel.name, **parameters}


def kernel_from_description(description: Mapping[str, Any]) -> NamedKernel:
    """Return the kernel that `describe_kernel` described, or ConfigError."""
    if not isinstance(description, Mapping):
        raise ConfigError(
            f"A kernel is described by a mapping with a name, but the description is {description!r:.60}."
        )
    parameters = dict(description)
    return make_kernel(str(parameters.pop("name", None)), parameters)


def shift_invariant(kernel: Kernel, what: str) -> ShiftInvariantKernel:
    """Return the kernel if it has a spectral density, else raise ConfigError with an alternative for the map."""
    if not isinstance(kernel, ShiftInvariantKernel):
        able = ", ".join(shift_invariant_kernels())
        states = "states" if isinstance(kernel, Profiled) else "is not shift-invariant, so it has"
        raise ConfigError(
            f"The kernel {kernel.name!r} {states} no frequencies for {what}. Use a Nystrom map (map = 'nystrom' or the "
            f"solver nogd), or one of {able}."
        )
    return kernel
