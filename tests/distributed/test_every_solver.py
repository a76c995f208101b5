"""The contract of all solvers: the same bits in this process and on workers, by tasks and by handlers.

Two workers at most; `test_contract` has three.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from okl.data.dataset import Dataset
from okl.distributed.dask import DaskExecution
from okl.distributed.in_process import LocalExecution
from okl.foundation.types import Task
from okl.solvers.settings import SOLVER_NAMES
from tests.distributed.conftest import is_complete
from tests.distributed.every_solver import CASES, make_datasets, solver_of
from tests.distributed.processes import soon
from tests.solver_cases import bits, states

WORKERS = (1, 2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    return make_datasets(tmp_path_factory.mktemp("every"))


@pytest.fixture(scope="module")
def clusters(three_workers: DaskExecution, certificates: Path) -> Iterator[dict[int, DaskExecution]]:
    """The same workers as a cluster of 1, which starts with tasks, and as a cluster of 2, which uses handlers."""
    assert soon(lambda: is_complete(three_workers))
    options: dict[str, Any] = {"address": three_workers.address, "n_threads": 1, "tls": str(certificates / "client")}
    with (
        DaskExecution(most_workers=1, **options) as one,
        DaskExecution(most_workers=2, carrier="handler", **options) as two,
    ):
        yield {1: one, 2: two}


def test_every_solver_of_the_command_line_is_registered() -> None:
    assert {name for name, _, _ in CASES.values()} == set(SOLVER_NAMES)


@pytest.mark.parametrize("case", list(CASES))
def test_bits_do_not_depend_on_the_backend(
    case: str, data: dict[Task, Dataset], clusters: dict[int, DaskExecution]
) -> None:
    solver, columns = solver_of(case, data)
    with LocalExecution(1) as local:
        *_, last = states(solver, columns, local)
    expected = bits(solver, last)
    assert any(array.any() for array in solver.predictor(last).arrays().values())
    n = WORKERS[list(CASES).index(case) % len(WORKERS)]  # neighbouring cases are related, so they alternate
    assert clusters[n].n_workers == n
    *_, last_distributed = states(solver, columns, clusters[n])
    assert bits(solver, last_distributed) == expected, f"{n} workers"
