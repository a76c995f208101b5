"""What a solver may ask of a loss."""

from __future__ import annotations

from typing import Protocol

from okl.types import FloatArray, Task


class Loss(Protocol):
    """What a solver may ask of a loss."""

    @property
    def name(self) -> str: ...

    @property
    def task(self) -> Task: ...

    @property
    def code(self) -> int: ...

    def value(self, scores: FloatArray, target: FloatArray) -> FloatArray: ...

    def derivative(self, scores: FloatArray, target: FloatArray) -> FloatArray: ...

    def conjugate(self, dual: FloatArray, target: FloatArray) -> FloatArray: ...
