"""The data sets of the paper: which rows, how scaled, which sizes of map and budget, and what stands in for which."""

from __future__ import annotations

from dataclasses import dataclass

from okl.reproduction.folder import Folder, Selection
from okl.reproduction.printed import read_records
from okl.types import Task

PACKAGE = "okl.reproduction.lu2016"
ALL_ROWS = ("a9a", "ijcnn1")  # both parts: their counts are those of Table 4
TEST_ROWS = ("mnist",)  # 10,000 rows, as in Table 6
MINMAX = ("covtype",)  # raw integers up to 7173, which a bandwidth of 8 could not see anything in
STAND_INS = {"usps": "mnist", "shuttle": "avila", "KDDCUP08": "w7a", "codrna": "ijcnn1", "acoustic": "covtype"}


@dataclass(frozen=True)
class Sizes:
    """Budget B, number of frequencies D = rho_f B, rank k = rho_n B."""

    budget: int
    n_frequencies: int
    rank: int

    @classmethod
    def of(cls, budget: int, rho_f: float = 4.0, rho_n: float = 0.2) -> Sizes:
        """The paper's sizes of a budget; sections 7.2.1, 7.3.1 and 7.4.1."""
        return cls(budget, round(rho_f * budget), max(1, round(rho_n * budget)))


@dataclass(frozen=True)
class Case:
    """A data set of a table.

    printed : its name in the paper; task
    paper_rows : rows that the paper counts, None if it does not
    stand_in : another data set, taken if this one is not there, with no more rows than paper_rows; "" for none
    """

    printed: str
    task: Task
    paper_rows: int | None = None
    stand_in: str = ""

    def selection(self, folder: Folder) -> Selection | None:
        """What is taken from a folder, None if there is nothing to take."""
        for name in (self.printed, self.stand_in):
            if name and folder.has(name):
                split = "all" if name in ALL_ROWS else "test" if name in TEST_ROWS else "train"
                return Selection(name, self.task, split, self.task == "regression" or name in MINMAX)  # type: ignore[arg-type]
        return None

    def n_rows(self, folder: Folder, selection: Selection) -> int:
        """Rows that are learnt: of a stand-in no more than the paper's set has."""
        rows = folder.count(selection)
        return rows if selection.name == self.printed or self.paper_rows is None else min(rows, self.paper_rows)


def cases_of(experiment: str, stand_ins: bool = False) -> dict[str, Case]:
    """The data sets of an experiment by name: "binary_online", "multiclass_online", "regression_online", ... ."""
    task: Task = "regression" if "regression" in experiment else "multiclass" if "multi" in experiment else "binary"
    return {
        record["dataset"]: Case(
            record["dataset"],
            task,
            int(record["instances"] or 0) or None,
            STAND_INS.get(record["dataset"], "") if stand_ins else "",
        )
        for record in read_records(PACKAGE, "datasets.csv")
        if record["task"] == experiment
    }
