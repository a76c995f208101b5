"""How source columns become input columns: one immutable record for each that is not simply a column of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EncodingKind = Literal["number", "category", "date", "timestamp"]


@dataclass(frozen=True)
class Encoding:
    """What is made of one source column; the same record serves ingest, prediction and retraining.

    column : name of the source column
    kind : "category": one input for each value, 1 where the row has it, else 0; "date" and "timestamp": see
        `okl.store.dateparts`; "number": the value itself
    inputs : names of the inputs that it makes, in order: those of the values, then of `other`, then of `missing`
    categories : of "category": the values that have an input of their own, as text, sorted
    other : whether an input is 1 for every value that is none of these; without it such a row has zeros
    missing : whether the last input is 1 where the column holds no value
    fills : of numbers and dates under missing = mean: what takes the place of a missing value, one for each input but
        that of `missing`; empty: the policy of the schema decides
    time_zone : of "timestamp": where the parts of an instant are told, "" for times that name no zone
    """

    column: str
    kind: EncodingKind
    inputs: tuple[str, ...]
    categories: tuple[str, ...] = ()
    other: bool = False
    missing: bool = False
    fills: tuple[float, ...] = ()
    time_zone: str = ""


@dataclass(frozen=True)
class SvmlightColumns:
    """How the indices of svmlight text are columns.

    first_index : 0 or 1, that of the first column
    hashed : columns that all indices are folded into, see `okl.store.svmlightfiles.fold`; 0: each has its own
    """

    first_index: Literal[0, 1]
    hashed: int = 0


def source_columns(features: tuple[str, ...], encodings: tuple[Encoding, ...]) -> tuple[str, ...]:
    """Source columns that inputs are made of, each once, in the order of the inputs."""
    return tuple(dict.fromkeys(origins(features, encodings)))


def origins(features: tuple[str, ...], encodings: tuple[Encoding, ...]) -> tuple[str, ...]:
    """The source column of each input; an input that no encoding makes is a column of numbers of the same name."""
    made = {name: encoding.column for encoding in encodings for name in encoding.inputs}
    return tuple(made.get(name, name) for name in features)
