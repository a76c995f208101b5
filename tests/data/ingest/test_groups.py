from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.data.ingest.targets import group_share
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.settings import IngestSettings, settings_from
from okl.runs.compare_grids import Sample
from okl.runs.compare_settings import CompareSettings
from okl.runs.select import choose_solver
from okl.solvers.settings import TrainSettings
from tests.rows import compare
from tests.runs.small_choice import make_choice_small


def persons(n_persons: int = 60, rows: int = 6, seed: int = 0) -> pd.DataFrame:
    """Return rows of persons: four numbers identify a person, one of them correlates weakly with the target."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_persons), rows)
    centres = random.normal(size=(n_persons, 4))
    targets = np.where(centres[:, 0] + 1.5 * random.normal(size=n_persons) > 0.0, "yes", "no")[person]
    inputs = centres[person] + 0.05 * random.normal(size=(len(person), 4))
    names = np.char.add("person ", (person + 1000 * seed).astype(str))
    table = pd.DataFrame(inputs, columns=list("abcd")).assign(person=names, y=targets)
    return table.sample(frac=1.0, random_state=seed)


def persons_of(data: Dataset, split: str) -> set[str]:
    shards = data.split(split)  # type: ignore[arg-type]
    return {name for shard in shards for name in pq.read_table(str(data.path(shard)))["person"].to_pylist()}


def test_a_group_has_the_same_share_in_any_batch_and_file() -> None:
    texts = pa.array(["b", "", "aa", None, "b", "ä", "aa", "ab", "ba"])
    shares = group_share(texts, 3)
    assert shares[0] == shares[4]
    assert shares[2] == shares[6]
    assert shares[1] == shares[3], "rows without a value are one group"
    assert len(set(shares)) == 6
    assert np.array_equal(group_share(texts[2:7], 3), shares[2:7])
    assert np.array_equal(group_share(pa.chunked_array([texts[:4], texts[4:]]), 3), shares)
    assert not np.isin(group_share(texts, 4), shares).any()
    assert np.array_equal(group_share(pa.array([7, 12]), 0), group_share(pa.array(["7", "12"]), 0))
    many = group_share(pa.array(np.arange(20_000)), 0)
    assert len(np.unique(many)) == 20_000
    counts, _ = np.histogram(many, bins=10, range=(0.0, 1.0))
    assert np.abs(counts - 2000).max() < 200


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_test_rows_are_complete_groups(kind: str, tmp_path: Path) -> None:
    table, file = persons(), tmp_path / f"rows.{kind}"
    table.to_csv(file, index=False) if kind == "csv" else table.to_parquet(file, row_group_size=50)
    settings = IngestSettings(group="person", holdout=0.25, stratify=True)
    data = ingest(file, tmp_path / "data", settings).dataset
    train, test = persons_of(data, "train"), persons_of(data, "test")
    assert (len(train), len(test)) == (45, 15)
    assert not train & test
    assert "person" not in data.schema.source_columns
    # later files, with old and new persons
    later = pd.concat([table, persons(seed=1)])
    later.to_parquet(tmp_path / "later.parquet")
    plain = ingest(file, tmp_path / "plain", settings.model_copy(update={"stratify": False})).dataset
    later_data = ingest(tmp_path / "later.parquet", tmp_path / "follows", settings, reference=plain.schema).dataset
    assert persons_of(later_data, "test") >= persons_of(plain, "test")
    assert persons_of(later_data, "train") >= persons_of(plain, "train")
    assert persons_of(later_data, "test") - persons_of(plain, "test")


@pytest.mark.parametrize("holdout", ["last", "test", None])
def test_test_rows_of_groups_of_training_rows_are_reported(holdout: str | None, tmp_path: Path) -> None:
    table = persons(60, 6)
    table["test"] = np.arange(len(table)) >= 288
    apart = table.sort_values("person")  # 48 persons are training rows, 12 are test rows
    apart["test"] = np.arange(len(apart)) >= 288
    n_both = len({*table["person"][table["test"]]} & {*table["person"][~table["test"]]})
    warnings = {}
    for name, rows in (("mixed", table), ("apart", apart)):
        if holdout is None:
            rows = rows.assign(split=np.where(rows["test"], "test", "train"))
        rows.drop(columns=[] if holdout == "test" else ["test"]).to_parquet(tmp_path / f"{name}.parquet")
        settings = IngestSettings(group="person", holdout=holdout)
        data = ingest(tmp_path / f"{name}.parquet", tmp_path / name, settings).dataset
        assert data.rows("test") == 72
        warnings[name] = [one for one in data.warnings if "'person'" in one]
    assert n_both > 40
    assert warnings["apart"] == []
    (warning,) = warnings["mixed"]
    chosen = "the split column" if holdout is None else f"--holdout {holdout}"
    assert f"{n_both} of the {n_both} values of 'person' in test rows are in training rows, too: {chosen} " in warning


def test_groups_are_the_same_text_on_workers(two_workers: Execution, tmp_path: Path) -> None:
    table = persons(40, 50)
    table["person"] = table["person"].str.replace("person ", "00")
    table.to_csv(tmp_path / "rows.csv", index=False)
    settings = IngestSettings(group="person", holdout=0.3, stratify=True, dates="drop", rows_per_shard=300)
    local = ingest(tmp_path / "rows.csv", tmp_path / "here", settings).dataset
    distributed = ingest(tmp_path / "rows.csv", tmp_path / "there", settings, execution=two_workers).dataset
    assert [shard.sha256 for shard in local.shards] == [shard.sha256 for shard in distributed.shards]
    assert {name[:2] for name in persons_of(local, "test")} == {"00"}
    assert len(persons_of(local, "test")) == 12


def test_the_choice_validates_on_complete_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    persons(80, 8).to_parquet(tmp_path / "rows.parquet")
    scores = {}
    for group in ("person", None):
        ingested = IngestSettings(group=group, drop=() if group else ("person",), holdout=0.2, scale="standard")
        data = ingest(tmp_path / "rows.parquet", tmp_path / str(group), ingested).dataset
        choice = choose_solver(TrainSettings(data=str(data.folder), solver="auto"), data)
        record = choice.record
        assert (choice.calibration is not None) == bool(group), "calibrated on folds of groups"
        assert ("5 folds of whole groups of 'person'" in record["why"][0]) == bool(group)
        scores[group] = max(candidate["score"] for candidate in record["candidates"])
    assert scores[None] > 0.95, "neighbours of the same person"
    assert scores["person"] < 0.85


def test_columns_that_cannot_be_groups_are_refused(tmp_path: Path) -> None:
    persons(12, 3).to_parquet(tmp_path / "rows.parquet")

    def ingested(**values: object) -> Dataset:
        settings = IngestSettings.model_validate(values)
        return ingest(tmp_path / "rows.parquet", tmp_path / "data", settings).dataset

    with pytest.raises(DataError, match="Did you mean 'person'"):
        ingested(group="persons", holdout=0.5)
    with pytest.raises(ConfigError, match="'y' is named as target and as group"):
        ingested(group="y", holdout=0.5)
    assert ingested(group="person", keys=("person",), holdout=0.5, stratify=True).schema.keys == ("person",)


@pytest.mark.parametrize("holdout", [None, 0.25])
def test_a_comparison_validates_on_complete_groups(holdout: float | None, tmp_path: Path) -> None:
    table = persons(60, 6).reset_index(drop=True)
    table.to_parquet(tmp_path / "rows.parquet")
    centres = table.groupby("person")[list("abcd")].mean().to_numpy()
    scores = {}
    for group in ("person", None):
        ingested = IngestSettings(group=group, drop=() if group else ("person",), scale="none")
        data = ingest(tmp_path / "rows.parquet", tmp_path / str(group), ingested).dataset
        sample = Sample(data, 300, 0, "float64", 4, holdout)
        person = ((sample.all().inputs[:, np.newaxis] - centres) ** 2).sum(axis=2).argmin(axis=1)
        parts = [set(sample.tested()[person == number]) for number in np.unique(person)]
        assert all(len(part) == 1 for part in parts) == bool(group)
        assert set.union(*parts) == ({0, 1, 2, 3} if holdout is None else {-1, 0})
        out = str(tmp_path / f"{group}-run")
        options = {"models": ("ridge",), "rows": 300, "folds": 4, "holdout": holdout, "out": out}
        result = compare(settings_from(CompareSettings, {"data": str(data.folder), **options}, "test"))
        scores[group] = result["models"][0]["mean"]
    assert scores[None] > 0.9, "neighbours of the same person"
    assert scores["person"] < 0.8


def test_folds_of_too_few_groups_are_refused(tmp_path: Path) -> None:
    persons(4, 30, seed=2).to_parquet(tmp_path / "rows.parquet")
    data = ingest(tmp_path / "rows.parquet", tmp_path / "data", IngestSettings(group="person")).dataset
    with pytest.raises(DataError, match=r"whole groups of 'person', and fold . of 5 would have all rows of a class"):
        compare(CompareSettings(data=str(data.folder), out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()
