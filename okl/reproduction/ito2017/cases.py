"""The data sets of the paper: in which file each is, which of its rows, and how they are scaled.

The scaling was found from the largest eigenvalues and kappa_max that Tables 5 and 10 print. Four sets come with the
labels of their files, such as 1 and 2, and Table 5 was computed with these in place of -1 and +1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from okl.execution.protocol import Rows
from okl.reproduction.folder import Folder, Selection
from okl.reproduction.printed import read_records
from okl.types import FloatArray, Precision

PACKAGE = "okl.reproduction.ito2017"


@dataclass(frozen=True)
class Case:
    """A data set of the paper.

    printed : its name there; file : NAME of NAME.parquet; split : of a file that has one
    paper_rows, paper_columns : as printed in Table 1
    interval : columns are scaled to it, one by one; None: as stored
    first : so many rows, as stored; None: all
    codes : labels of the positive and the negative class in the file that the paper read
    kernel_coded : whether Table 5 has these labels with a kernel, too
    """

    printed: str
    file: str
    paper_rows: int
    paper_columns: int
    split: Literal["all", "train"] = "all"
    interval: tuple[float, float] | None = None
    first: int | None = None
    codes: tuple[float, float] = (1.0, -1.0)
    kernel_coded: bool = True

    def describe(self) -> dict[str, Any]:
        """What decides which rows are read and how they are scaled."""
        return {"file": self.file, "split": self.split, "interval": self.interval, "first": self.first}

    @property
    def selection(self) -> Selection:
        """What is read of the file."""
        return Selection(self.file, "binary", self.split)

    def n_rows(self, folder: Folder) -> int:
        """Rows that take part, without reading inputs."""
        stored = folder.count(self.selection)
        return stored if self.first is None else min(stored, self.first)

    def rows(self, folder: Folder, precision: Precision) -> Rows:
        """The rows in stored order, scaled."""
        stored = folder.rows(self.selection, precision)
        inputs, targets = stored.inputs[: self.first], stored.targets[: self.first]
        return Rows(inputs if self.interval is None else _scaled(inputs, *self.interval), targets)

    def coded(self, targets: NDArray[np.float64], kernel: bool = False) -> NDArray[np.float64]:
        """The labels that Table 5 goes by, of explicit rows or with a kernel."""
        return targets if kernel and not self.kernel_coded else np.where(targets > 0, *self.codes)


_UNIT, _SYMMETRIC = (0.0, 1.0), (-1.0, 1.0)
_KNOWN: dict[str, dict[str, object]] = {
    "a9a": {"split": "train"},
    "breast-cancer": {"file": "breast_cancer_libsvm", "codes": (4.0, 2.0), "kernel_coded": False},
    "covtype": {"file": "covtype_binary", "codes": (2.0, 1.0)},
    "german.numer": {"file": "german", "interval": _SYMMETRIC},
    "ijcnn1": {"split": "train", "first": 35_000},
    "ionosphere": {"interval": _SYMMETRIC},
    "liver-disorders": {"file": "liver_disorders", "codes": (1.0, 2.0)},
    "madelon": {"split": "train", "interval": _UNIT},
    "mushrooms": {"codes": (2.0, 1.0)},
    "svmguide3": {"interval": _UNIT},
    "w7a": {"split": "train"},
    "w8a": {"file": "w7a"},
}


@cache
def cases() -> dict[str, Case]:
    """All data sets of Table 1, in its order, by their names there."""
    return {
        record["data"]: Case(
            record["data"],
            paper_rows=int(record["m"]),
            paper_columns=int(record["n"]),
            **({"file": record["data"]} | _KNOWN.get(record["data"], {})),  # type: ignore[arg-type]
        )
        for record in read_records(PACKAGE, "table1.csv")
    }


def _scaled(inputs: FloatArray, low: float, high: float) -> FloatArray:
    """Columns to [low, high]; a constant one to 0."""
    least, most = inputs.min(axis=0).astype(np.float64), inputs.max(axis=0).astype(np.float64)
    wide = most > least
    spread = np.where(wide, most - least, 1.0)
    scaled = low + (high - low) * ((inputs - least) / spread)
    found: FloatArray = np.where(wide, scaled, 0.0).astype(inputs.dtype)
    return found
