"""What a run on growing samples knows: a value that no step writes into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.subgradient.certificate import FullBound
from okl.subgradient.growth import Seen
from okl.subgradient.kerneldescent import KernelDescent
from okl.subgradient.sharded.descent import Descent
from okl.subgradient.sharded.rows import SampledRows


@dataclass(frozen=True, eq=False)
class SubgradientState:
    """Everything that evolves; never written into.

    rows : of all shards; chosen : the map's choices
    samples : rows of each sample so far; descent : where the last one stands
    seen : what fresh samples told of a point last; None before they were asked
    proof : over all rows, of the point that stands; None before one was tried; attempts : so far
    drawn_rows, bytes_read : of all samples, those of proofs among them
    one_class : samples whose rows were all of one class
    """

    rows: SampledRows
    chosen: dict[str, Any]
    samples: tuple[int, ...]
    descent: Descent | KernelDescent
    seen: Seen | None
    proof: FullBound | None
    attempts: int
    drawn_rows: int
    bytes_read: int
    one_class: int

    @property
    def share(self) -> float:
        """Of all rows in the sample."""
        return self.descent.shares[-1]

    @property
    def n_all(self) -> int:
        """Rows to train with."""
        return self.rows.data.rows("train")
