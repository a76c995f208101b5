"""Outcomes are files: whole or not there, and never taken for those of anything else."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from okl.errors import ConfigError
from okl.reproduction.folder import Folder, Selection
from okl.reproduction.items import Archive, Stop, Stopped, Work, code_digest
from okl.reproduction.lu2016.cases import Sizes
from okl.reproduction.lu2016.learning import LearnItem
from okl.reproduction.lu2016.onlinetable import CODE
from tests.reproduction.sets import write_set

ITEM = LearnItem(
    "german", Selection("german", "binary"), "FOGD", (("step_size", 0.002),), Sizes(10, 40, 2), 0, 320, "seeded"
)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    write_set(tmp_path / "data", "german")
    (tmp_path / "items").mkdir()
    return Archive(str(tmp_path / "items"), Folder(str(tmp_path / "data")), "code")


def test_an_outcome_comes_back_as_it_was_kept(archive: Archive) -> None:
    assert archive.read(ITEM) is None
    outcome = Work(archive)(ITEM)
    assert outcome["curve"][-1][0] == 320
    assert archive.read(ITEM) == outcome
    assert [path.name for path in Path(archive.place).iterdir()] == [archive.path(ITEM).name]


def test_another_setting_size_order_precision_data_or_code_is_another_file(archive: Archive, tmp_path: Path) -> None:
    others = [
        replace(ITEM, setting=(("step_size", 0.02),)),
        replace(ITEM, sizes=Sizes(10, 50, 2)),
        replace(ITEM, order=1),
        replace(ITEM, n_rows=300),
        replace(ITEM, whose="authors"),
        replace(ITEM, precision="float64"),
        replace(ITEM, algorithm="NOGD"),
        replace(ITEM, selection=Selection("german", "binary", minmax=True)),
    ]
    write_set(tmp_path / "more", "german", rows=400)
    paths = {archive.path(item).name for item in [ITEM, *others]}
    paths |= {replace(archive, code="new").path(ITEM).name}
    paths |= {replace(archive, data=Folder(str(tmp_path / "more"))).path(ITEM).name}
    assert len(paths) == len(others) + 3


def test_the_place_of_the_data_is_no_matter(archive: Archive, tmp_path: Path) -> None:
    write_set(tmp_path / "moved", "german")
    assert replace(archive, data=Folder(str(tmp_path / "moved"))).path(ITEM) == archive.path(ITEM)


def test_a_damaged_outcome_is_told(archive: Archive) -> None:
    archive.path(ITEM).write_text("{")
    with pytest.raises(ConfigError, match="Remove it, and run again"):
        archive.read(ITEM)


def test_a_stopped_run_keeps_nothing_of_what_it_was_at(archive: Archive) -> None:
    work = Work(archive)
    travelled = pickle.loads(pickle.dumps(work))
    work.stop.ask()
    with pytest.raises(Stopped):
        work(ITEM)
    assert archive.read(ITEM) is None
    assert travelled(ITEM)["error"] > 0, "another process is not stopped from here"
    stop = Stop()
    stop.ask()
    with pytest.raises(Stopped):
        ITEM.run(archive.data, stop.check)


def test_the_code_digest_covers_what_decides_and_names_what_is_there() -> None:
    whole = code_digest(CODE)
    assert len({whole, *(code_digest((part,)) for part in CODE)}) == len(CODE) + 1
