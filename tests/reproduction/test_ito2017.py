"""Tables of the paper on accelerated classification: cells, what is judged, and what the folds are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.reproduction.folder import Folder
from okl.reproduction.ito2017.cases import cases
from okl.reproduction.ito2017.grids import GRIDS
from okl.reproduction.run import reproduce
from okl.reproduction.settings import ReproduceSettings
from tests.reproduction.sets import write_set


def settings(data: Path, out: Path, table: str, **values: Any) -> ReproduceSettings:
    return ReproduceSettings(table=f"ito2017-{table}", data=str(data), out=str(out), threads=1, **values)


def test_the_grids_are_fixed_and_of_at_least_16_values() -> None:
    for grid in GRIDS.values():
        assert len(set(grid.values)) == len(grid.values) >= 16
        assert all(0 < value < 1 for value in grid.values) or not grid.of_largest


def test_a_set_is_read_as_the_paper_scaled_it(tmp_path: Path) -> None:
    table = pq.read_table(write_set(tmp_path, "german"))
    case, folder = cases()["german.numer"], Folder(str(tmp_path))
    rows = case.rows(folder, "float64")
    assert (rows.inputs.min(axis=0) == -1.0).all()
    assert (rows.inputs.max(axis=0) == 1.0).all()
    assert (rows.targets == table["y"].to_numpy()).all()
    assert case.n_rows(folder) == 320
    coded = cases()["breast-cancer"].coded(np.array([1.0, -1.0]))
    assert coded.tolist() == [4.0, 2.0]


@pytest.fixture(scope="module")
def ability(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ito")
    for name in ("heart", "ijcnn1"):
        write_set(folder / "data", name, rows=120)
    asked = settings(folder / "data", folder / "run", "table11", repeats=2, datasets="heart,ijcnn1,a8a")
    first = reproduce(asked)
    again = reproduce(asked)
    assert again["items_done_before"] == again["items"] == 16
    assert [cell["mean"] for cell in again["cells"]] == [cell["mean"] for cell in first["cells"]]
    return again


def test_a_model_is_judged_by_the_better_bias_and_both_are_told(ability: dict[str, Any]) -> None:
    heart = [cell for cell in ability["cells"] if cell["dataset"] == "heart"]
    assert [cell["algorithm"] for cell in heart] == list(GRIDS)
    for cell in heart:
        both = [cell["more"][f"accuracy_{bias}"] for bias in ("own", "least_errors")]
        assert cell["mean"] == pytest.approx(max(both))
        assert cell["mean"] > cell["constant"] + 0.05, "something was learnt"
        assert (cell["tolerance"], cell["repeats"], cell["status"]) == (0.01, 2, "measured")
        assert cell["verdict"] == ("worse" if cell["difference"] < -0.01 else cell["verdict"])
        assert cell["more"]["largest_gap"] < 0.05


def test_doubtful_numbers_and_missing_sets_are_shown_and_not_judged(ability: dict[str, Any]) -> None:
    doubtful = [cell for cell in ability["cells"] if cell["dataset"] == "ijcnn1"]
    assert all(cell["paper_mean"] is not None and cell["mean"] is not None for cell in doubtful)
    missing = [cell for cell in ability["cells"] if cell["dataset"] == "a8a"]
    assert {cell["status"] for cell in missing} == {"no data"}
    assert {cell["verdict"] for cell in [*doubtful, *missing]} == {None}
    assert ability["compared"] == len(GRIDS)
