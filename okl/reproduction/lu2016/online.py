"""Tables 5, 7 and 9: ten online algorithms on data sets of two classes, of several classes, and of regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from okl.reproduction.cells import Tolerance
from okl.reproduction.lu2016.cases import PACKAGE, Sizes, cases_of
from okl.reproduction.lu2016.onlinetable import Line, OnlineTable
from okl.reproduction.printed import read_printed


def printed_table(
    number: int, title: str, metric: str, experiment: str, sizes: Mapping[str, Sizes], tolerance: Tolerance
) -> OnlineTable:
    """A table with a line for each cell that the paper prints; sizes : by data set, "" for all others."""
    printed, cases = read_printed(PACKAGE, f"table{number}.csv"), cases_of(experiment)
    pairs: Sequence[tuple[str, str]] = [(p.dataset, p.algorithm) for p in printed if p.metric == metric]
    lines = [Line(cases[d], algorithm, sizes.get(d, sizes[""])) for d, algorithm in pairs]
    lines.sort(key=lambda line: list(cases).index(line.case.printed))
    return OnlineTable(f"lu2016-table{number}", title, metric, tuple(lines), printed, tolerance)


CLASSES = Tolerance(deviations=2.0, absolute=0.005)
TABLE5 = printed_table(
    5, "Online learning of two classes", "mistake_rate", "binary_online", {"": Sizes.of(100)}, CLASSES
)
TABLE7 = printed_table(
    7, "Online learning of several classes", "mistake_rate", "multiclass_online",
    dict.fromkeys(("dna", "mnist", "satimage"), Sizes.of(200)) | {"": Sizes.of(100)}, CLASSES,
)  # fmt: skip
TABLE9 = printed_table(
    9,
    "Online regression",
    "squared_loss",
    "regression_online",
    {"": Sizes.of(30, rho_f=15.0)},
    Tolerance(relative=0.05),
)
