"""Rows that are like their neighbours: found out, told, and what is chosen where test rows are of another place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.applicable import check_options
from okl.choosing.choice import choose
from okl.choosing.neighbours import LEAST_ROWS, Likeness, are_test_rows_given
from okl.configuration import TrainSettings, settings_from
from okl.errors import ConfigError
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.training import train
from tests.store.sources import settings as ingest_settings

PATIENTS, VISITS = 30, 20


def visits(like: float) -> pa.Table:
    """Rows of patients, one after another: who it is shows in two columns, and tells the class as often as a third.

    like : how far patients differ in those two columns, over how far the visits of one do
    """
    random = np.random.default_rng(8)
    ill = np.repeat(random.permutation(PATIENTS) % 2, VISITS)
    who = np.repeat(random.normal(size=(PATIENTS, 2)), VISITS, axis=0) * like + random.normal(size=(len(ill), 2))
    sign = ill + 0.6 * random.normal(size=len(ill))
    split = np.where(np.arange(len(ill)) < 24 * VISITS, "train", "test")
    return pa.table({"a": who[:, 0], "b": who[:, 1], "sign": sign, "y": ill, "split": split})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder = tmp_path_factory.mktemp("visits")
    found = {}
    for name, like, options in (
        ("given", 30.0, {}),
        ("drawn", 30.0, {"holdout": 0.2, "drop": ("split",)}),
        ("unlike", 0.0, {}),
    ):
        pq.write_table(visits(like), folder / f"{name}.parquet")
        found[name] = ingest(folder / f"{name}.parquet", folder / name, ingest_settings(**options)).dataset
    return found


def asked(data: Dataset, **values: Any) -> TrainSettings:
    return settings_from(TrainSettings, {"data": str(data.folder), "budget_seconds": 0.5} | values, "test")


def told(why: list[str]) -> list[str]:
    return [sentence for sentence in why if sentence.startswith("Rows are like their neighbours")]


def test_where_test_rows_are_given_the_model_is_chosen_for_rows_of_another_place(
    data: dict[str, Dataset], tmp_path: Path
) -> None:
    chosen, flattered = (
        train(asked(data["given"], validation=validation, out=str(tmp_path / validation)))
        for validation in ("auto", "rows")
    )
    assert chosen["choice"]["validation"] == "blocks"
    assert "As the test rows were given apart" in told(chosen["choice"]["why"])[0]
    assert "each fifth of them, as they lie" in chosen["choice"]["why"][0]
    assert flattered["choice"]["validation"] == "rows"
    assert not told(flattered["choice"]["why"])
    assert chosen["test"]["accuracy"] > flattered["test"]["accuracy"] + 0.05


def test_the_penalty_is_that_of_the_race_by_blocks(data: dict[str, Dataset]) -> None:
    by_rows, by_blocks = (choose(asked(data["given"], validation=by), data["given"]) for by in ("rows", "blocks"))
    assert by_rows.settings.penalty == "auto"
    assert isinstance(by_blocks.settings.penalty, float)
    assert by_blocks.settings.validation == "auto"
    check_options(by_blocks.settings)
    assert [by.record["validation"] for by in (by_rows, by_blocks)] == ["rows", "blocks"]
    assert by_rows.record["candidates"][0]["score"] > by_blocks.record["candidates"][0]["score"] + 0.05
    assert not told(by_rows.record["why"] + by_blocks.record["why"])


def test_where_test_rows_are_drawn_it_is_told_and_nothing_else(data: dict[str, Dataset]) -> None:
    choice = choose(asked(data["drawn"]), data["drawn"])
    assert choice.record["validation"] == "rows"
    assert "Expect the latter of rows from elsewhere" in told(choice.record["why"])[0]
    assert "--validation blocks" in told(choice.record["why"])[0]
    again = choose(asked(data["drawn"], validation="rows"), data["drawn"])
    assert again.settings == choice.settings


def test_rows_without_likeness_are_not_told_of(data: dict[str, Dataset]) -> None:
    choice = choose(asked(data["unlike"]), data["unlike"])
    assert choice.record["validation"] == "rows"
    assert not told(choice.record["why"])


def test_test_rows_are_given_by_a_column_and_drawn_by_a_share(data: dict[str, Dataset]) -> None:
    assert [are_test_rows_given(data[name]) for name in ("given", "drawn", "unlike")] == [True, False, True]


def test_a_share_that_was_given_as_text_draws_test_rows_all_the_same(data: dict[str, Dataset], tmp_path: Path) -> None:
    source, drawn = data["drawn"].folder.parent / "drawn.parquet", data["drawn"]
    as_text = ingest(source, tmp_path / "text", ingest_settings(holdout="0.2", drop=("split",))).dataset
    assert [shard.sha256 for shard in as_text.shards] == [shard.sha256 for shard in drawn.shards]
    assert not are_test_rows_given(as_text)
    column = ingest(source, tmp_path / "column", ingest_settings(holdout="y", target="sign", drop=("split",))).dataset
    assert are_test_rows_given(column)


@pytest.mark.parametrize(
    ("together", "apart", "rows", "rates", "told", "decides"),
    [
        (0.2, 0.2, 1000, True, False, False),
        (0.24, 0.2, 100_000, True, False, False),  # however sure, a fifth more is what fewer like rows cost
        (0.3, 0.2, 1000, True, True, False),
        (0.3, 0.2, 250, True, False, False),  # by chance
        (0.3, 0.2, 250, False, True, False),
        (0.61, 0.2, 1000, True, True, True),
        (0.61, 0.2, 199, True, False, False),
        (0.1, 0.0, 1000, True, True, True),
    ],
)
def test_harder_by_a_quarter_is_told_and_by_three_times_decides(
    together: float, apart: float, rows: int, rates: bool, told: bool, decides: bool
) -> None:
    found = Likeness(together, apart, rows, rates)
    assert (found.told, found.decides) == (told, decides)


def test_rows_of_which_each_has_a_class_of_its_own_are_learnt_all_the_same(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(LEAST_ROWS, 1))
    pq.write_table(pa.table({"a": inputs[:, 0], "y": [f"id {k}" for k in range(LEAST_ROWS)]}), tmp_path / "ids.parquet")
    ids = ingest(tmp_path / "ids.parquet", tmp_path / "ids", ingest_settings()).dataset
    choice = choose(asked(ids, budget_seconds=0.01), ids)
    assert choice.record["validation"] == "rows"
    assert not told(choice.record["why"])
    with pytest.raises(ConfigError, match="No class has two rows"):
        choose(asked(ids, budget_seconds=0.01, validation="blocks"), ids)
