"""A kernel of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from okl.errors import ConfigError, DataError
from okl.types import FloatArray


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
                f"The kernel {self.name!r} was given {self.function!r}, but it takes a function of two blocks of rows, "
                "(m, d) and (n, d), that returns their (m, n) kernel values."
            )

    @property
    def rule(self) -> None:
        """None: compiled code does not know it."""
        return

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        values = np.asarray(self.function(np.asarray(left), np.asarray(right)), dtype=np.float64)
        if values.shape != (len(left), len(right)):
            raise DataError(
                f"The kernel {self.name!r} returned values of shape {values.shape} for {len(left)} and {len(right)} "
                f"rows, but ({len(left)}, {len(right)}) are expected."
            )
        if not np.isfinite(values).all():
            raise DataError(f"The kernel {self.name!r} returned values that are not finite. Look at its function.")
        return values
