"""What is decided, and refused, before anything is learnt."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from okl.configuration import WhereSettings
from okl.errors import ConfigError, DataError, ExecutionError
from okl.planning import check, check_workers, make_online_solver, mode_of, run_folder
from okl.recipes import class_weights
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from tests.rows import curved, train_settings, write
from tests.store.sources import settings as ingest_settings


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("set")
    return ingest(write(folder, curved(400, "multiclass")), folder / "set", ingest_settings()).dataset


def test_check_leaves_no_trace(data: Dataset, tmp_path: Path) -> None:
    check(train_settings(data.folder, tmp_path / "deep" / "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": "hinge"}, "loss 'hinge' is for a binary task, but 'y' makes this a multiclass task"),
        ({"class_weights": {"9": 1.0}}, r"class_weights names \['9'\], but the labels are \['5', '6', '7'\]"),
        ({"rounds": 3}, "rounds belongs to the modes mix and sum"),
        ({"ingest": {"scale": "minmax"}}, "is a data set already; options of ingest do not apply"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "Give one of them, not both"),
        ({"scheduler": "tcp://127.0.0.1"}, "takes an address like tcp://HOST:8786"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    values: dict[str, Any], message: str, data: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        check(train_settings(data.folder, tmp_path / "run", **values))


def test_a_source_is_checked_by_its_columns(tmp_path: Path) -> None:
    source = write(tmp_path, curved(100))
    check(train_settings(source, tmp_path / "run"))
    with pytest.raises(DataError, match="has no target column 'label'"):
        check(train_settings(source, tmp_path / "run", {"target": "label"}))
    with pytest.raises(DataError, match="does not exist"):
        check(train_settings(tmp_path / "absent.parquet", tmp_path / "run"))


def test_a_scheduler_is_asked_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        check_workers(WhereSettings(scheduler=f"127.0.0.1:{listener.getsockname()[1]}"))
    with pytest.raises(ExecutionError, match=r"No Dask scheduler answers at 127\.0\.0\.1:9"):
        check_workers(WhereSettings(scheduler="127.0.0.1:9"))


def test_a_run_without_a_place_gets_a_new_one_at_home(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    settings = train_settings(data.folder, tmp_path).model_copy(update={"out": None, "name": "forest"})
    first = run_folder(settings)
    assert first.parent == tmp_path / "runs"
    assert first.name.startswith("forest-20")
    first.mkdir(parents=True)
    assert run_folder(settings) != first
    unnamed = run_folder(settings.model_copy(update={"name": None, "data": "/rows/trees.csv"}))
    assert unnamed.name.startswith("trees-20")


def test_class_weights_follow_the_labels(data: Dataset, tmp_path: Path) -> None:
    def weights(given: Any) -> Any:
        return class_weights(train_settings(data.folder, tmp_path / "run", class_weights=given), data.schema)

    assert weights("none") is None
    assert weights({"6": 2.5}) == (1.0, 2.5, 1.0)
    counts = data.schema.class_counts
    assert weights("balanced") == pytest.approx([sum(counts) / (3 * count) for count in counts])


def test_the_mode_follows_the_workers(data: Dataset, tmp_path: Path) -> None:
    assert mode_of(train_settings(data.folder, tmp_path)) == "stream"
    assert mode_of(train_settings(data.folder, tmp_path, workers=2)) in ("mix", "sum")
    assert mode_of(train_settings(data.folder, tmp_path, workers=2, mode="stream")) == "stream"
    solver = make_online_solver(train_settings(data.folder, tmp_path, mode="mix", rounds=7), data)
    assert (solver.mode, solver.rounds) == ("mix", 7)
