"""Losses that extensions declare: compiled in every process that learns with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from okl import extensions
from okl.compiled.ownloss import SLOPE, VALUE, CompiledLoss, Scalar, compile_loss, evaluate_own
from okl.compiled.steplosses import OWN_BINARY, OWN_REGRESSION
from okl.errors import ConfigError
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class OwnLoss:
    """What an extension declares: two scalar functions of (score, target), for two classes (-1, +1) or a regression."""

    task: Task
    value: Scalar
    derivative: Scalar


@dataclass(frozen=True)
class ExtensionLoss:
    """A loss of an extension, known by its name and where it is from: every process compiles it for itself.

    It is learnt with by steps along its derivative; there is no conjugate, so that no gap is proved with it.
    """

    name: str
    task: Task
    origin: str

    @property
    def code(self) -> int:
        """That of all extensions' losses of the task."""
        return OWN_REGRESSION if self.task == "regression" else OWN_BINARY

    @property
    def address(self) -> int:
        """Of its machine code in this process."""
        return compiled_loss(self.name, self.origin).address

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Loss of each row, (rows,)."""
        return self._evaluated(VALUE, scores, target)

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray:
        """Derivative by the score, (rows,)."""
        return self._evaluated(SLOPE, scores, target)

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray:
        """Not known: raises ConfigError."""
        raise ConfigError(
            f"The loss {self.name!r} of {self.origin} has no conjugate, so that nothing is proved with it."
        )

    def _evaluated(self, which: int, scores: FloatArray, target: FloatArray) -> FloatArray:
        out = np.empty(len(scores))
        doubles = (np.ascontiguousarray(values, dtype=np.float64) for values in (scores, target))
        evaluate_own(out, self.address, which, *doubles)
        return out


@cache
def compiled_loss(name: str, origin: str) -> CompiledLoss:
    """A loss of an extension as machine code of this process, or ConfigError where that cannot be made."""
    own: OwnLoss = extensions.exactly("loss", name, origin)
    try:
        return compile_loss(own.value, own.derivative)
    except TypeError as error:
        raise ConfigError(
            f"The loss {name!r} of {origin} cannot be compiled: {error} Use floats, math and NumPy's functions only."
        ) from None
