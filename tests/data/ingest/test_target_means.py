from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset, Encoding
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import SourceBatch
from okl.data.ingest.target_means import N_FOLDS, TargetScale, folds_of_rows, no_sums, sums_of_rows, with_means
from okl.data.manifest import open_dataset
from okl.models.inputs import prepare_rows, replaced_sentences
from tests.data.sources import parquet, settings

ROWS, VALUES = 1500, 200
KINDS = ("binary", "multiclass", "regression")


def rows_of(kind: str, seed: int = 0) -> pd.DataFrame:
    """Return rows whose target depends on `shop`: 200 values, 40 more with a single row, missing in a few rows."""
    random = np.random.default_rng(seed)
    shop = random.integers(0, VALUES, ROWS)
    score = random.normal(size=VALUES)[shop] + random.normal(size=ROWS)
    shop[:40] = VALUES + np.arange(40)
    words = np.char.add("s", shop.astype(str)).astype(object)
    words[random.random(ROWS) < 0.03] = None
    target: Any = 1e6 + score
    if kind != "regression":
        labels = np.array(["no", "yes"] if kind == "binary" else ["high", "low", "middle"])
        target = labels[np.searchsorted([0.0] if kind == "binary" else [-0.7, 0.7], score)]
    split = np.where(random.random(ROWS) < 0.3, "test", "train")
    return pd.DataFrame({"shop": words, "x": random.normal(size=ROWS), "y": target, "split": split})


def make_dataset(folder: Path, rows: pd.DataFrame, **values: Any) -> Dataset:
    source = parquet(folder, pa.Table.from_pandas(rows, preserve_index=False), "source.parquet")
    return ingest(source, folder / "data", settings(**values)).dataset


def stored_rows(data: Dataset, split: Any) -> pd.DataFrame:
    frame: pd.DataFrame = pa.concat_tables(
        pq.read_table(str(data.path(shard))) for shard in data.split(split)
    ).to_pandas()
    return frame


def naive_means(rows: list[tuple[Any, float]], ratio: float, mean: float) -> Callable[[Any], float]:
    """Return the shrunk mean of a word from rows, by its definition."""

    def shrunk_mean(word: Any) -> float:
        targets = [target for other, target in rows if other == word]
        return mean + sum(target - mean for target in targets) / (len(targets) + ratio)

    return shrunk_mean


def variance_ratio(rows: list[tuple[str, float]]) -> float:
    """Return the variance within words divided by the variance between words (one-way analysis of variance)."""
    groups = [[target for other, target in rows if other == word] for word in {word for word, _ in rows}]
    n, mean = len(rows), np.mean([target for _, target in rows])
    within = sum(np.var(group) * len(group) for group in groups) / (n - len(groups))
    between = sum(len(group) * (np.mean(group) - mean) ** 2 for group in groups) / (len(groups) - 1)
    size = (n - sum(len(group) ** 2 for group in groups) / n) / (len(groups) - 1)
    return float(within / ((between - within) / size))


@pytest.mark.parametrize("kind", KINDS)
def test_training_rows_get_means_of_other_folds_and_test_rows_means_of_all(kind: str, tmp_path: Path) -> None:
    rows = rows_of(kind)
    data = make_dataset(tmp_path, rows, seed=3)
    (encoding,) = data.schema.encodings[:1]
    n_outputs = 3 if kind == "multiclass" else 1
    assert len(encoding.inputs) == n_outputs + 2
    assert data.schema.format_version == 7
    train, fold = (rows["split"] == "train").to_numpy(), folds_of_rows(0, ROWS, 3)
    assert np.bincount(fold[train], minlength=N_FOLDS).min() > 100
    counts = rows[train]["shop"].value_counts()
    named = {word for word, count in counts.items() if count > 1}
    assert {*encoding.categories} == named
    assert len({*rows["shop"].dropna()} - named) > 0
    words: list[Any] = [word if isinstance(word, str) else None for word in rows["shop"]]
    word_of = [word if word is None or word in named else "(other)" for word in words]
    for output in range(n_outputs):
        label = data.schema.labels[-1 if kind == "binary" else output] if data.schema.labels else None
        target = rows["y"] if label is None else (rows["y"] == label).astype(float)
        of = [(word, t) for word, t, one in zip(word_of, target, train, strict=True) if one]
        mean = float(np.mean([t for _, t in of]))
        ratio = variance_ratio([(word, t) for word, t in of if word in named])
        assert 0.1 < ratio < 50.0
        others = [[each for each, f in zip(of, fold[train], strict=True) if f != number] for number in range(N_FOLDS)]
        tables = [naive_means(part, ratio, mean) for part in (of, *others)]
        column = encoding.inputs[output]
        expected = [tables[1 + f](word) for word, f, one in zip(word_of, fold, train, strict=True) if one]
        np.testing.assert_allclose(stored_rows(data, "train")[column], np.array(expected, dtype=np.float32), rtol=2e-6)
        expected = [tables[0](word) for word, one in zip(word_of, train, strict=True) if not one]
        np.testing.assert_allclose(stored_rows(data, "test")[column], np.array(expected, dtype=np.float32), rtol=2e-6)
    for name, word in zip(encoding.inputs[n_outputs:], ("(other)", None), strict=True):
        flags = [float(one == word) for one, of_train in zip(word_of, train, strict=True) if of_train]
        np.testing.assert_array_equal(stored_rows(data, "train")[name], flags)
        assert sum(flags) > 5


def test_noise_has_one_mean_and_constant_values_their_own_means() -> None:
    """First two values with targets more alike than by chance; then two values that determine the target."""
    encoding = Encoding("c", "category", ("c",), ("a", "b"))
    column, fold, used = pa.array(["a", "b"] * 20), np.arange(40) % N_FOLDS, np.ones(40, dtype=bool)
    for targets, expected in (
        (np.tile([0.0, 0.0, 1.0, 1.0], 10), [0.5, 0.5, 0.5, 0.5]),
        (np.tile([0.0, 1.0], 20), [0.0, 1.0, 0.5, 0.5]),
    ):
        scale = TargetScale((0.0, 1.0))
        total = no_sums(encoding, scale).plus(sums_of_rows(encoding, column, fold, targets, used, scale))
        new, of_folds = with_means(encoding, total, scale)
        assert new.means == (tuple(expected),)
        assert of_folds.means == (tuple(expected),) * N_FOLDS


def test_sums_are_the_same_in_any_order_of_the_rows() -> None:
    random = np.random.default_rng(0)
    encoding, scale = Encoding("c", "category", ("c",), ("a", "b")), TargetScale((), -3.0, 1e9)
    words, fold = random.choice(["a", "b", "c"], 999), random.integers(0, N_FOLDS, 999)
    values, used = np.exp(random.normal(size=999) * 5.0), random.random(999) < 0.8

    def sums(order: Any) -> Any:
        parts = np.array_split(order, 7)
        part_sums = [
            sums_of_rows(encoding, pa.array(words[part]), fold[part], values[part], used[part], scale) for part in parts
        ]
        total = no_sums(encoding, scale)
        for part in part_sums:
            total = total.plus(part)
        return total

    in_order, shuffled = sums(np.arange(999)), sums(random.permutation(999))
    assert in_order.counts.sum() == used.sum()
    assert len(np.unique(in_order.sums)) > 10
    for name in ("counts", "sums", "squares"):
        np.testing.assert_array_equal(getattr(in_order, name), getattr(shuffled, name))


def test_new_rows_are_encoded_as_test_rows_and_unseen_values_are_reported(tmp_path: Path) -> None:
    rows = rows_of("binary")
    rows["shop"], rows["split"] = (
        [f"s{i % 300}" for i in range(ROWS)],
        ["train"] * 1200 + ["test"] * 300,
    )  # no value is rare
    data = open_dataset(make_dataset(tmp_path, rows).folder)
    schema = replace(data.schema, scale="none")
    assert not schema.encodings[0].other
    test = rows[rows["split"] == "test"]
    table = pa.Table.from_pandas(test[["shop", "x"]], preserve_index=False)
    prepared = prepare_rows(schema, SourceBatch("rows", 0, table.to_batches()[0]), "float32")
    np.testing.assert_array_equal(prepared.inputs, stored_rows(data, "test")[list(schema.features)].to_numpy())
    assert replaced_sentences(prepared.replaced, schema) == []
    some = pa.record_batch({"shop": ["nowhere", *test["shop"].to_list()[:9]], "x": [0.0] * 10})
    assert replaced_sentences(prepare_rows(schema, SourceBatch("rows", 0, some), "float32").replaced, schema) == []
    new = pa.record_batch({"shop": ["nowhere"] * 5, "x": [0.0] * 5})
    prepared = prepare_rows(schema, SourceBatch("rows", 0, new), "float32")
    share = np.float32((rows[rows["split"] == "train"]["y"] == "yes").mean())
    np.testing.assert_allclose(prepared.inputs[:, 0], share, rtol=1e-6)
    (sentence,) = replaced_sentences(prepared.replaced, schema)
    assert sentence.startswith("Values of text columns are unknown to the model: 'shop' in 5 of 5 rows")


def test_a_target_in_a_single_row_gives_no_means(tmp_path: Path) -> None:
    rows = rows_of("regression")
    rows["y"] = rows["y"].where(np.arange(ROWS) == int((rows["split"] == "train").argmax()))
    data = make_dataset(tmp_path, rows, task="regression", many_values="means")
    assert data.rows("train") == 1
    assert not any(encoding.means for encoding in data.schema.encodings)


def test_few_values_or_a_given_limit_give_one_input_per_value(tmp_path: Path) -> None:
    rows = rows_of("binary")
    rows["few"] = rows["shop"].str[-1]
    data = make_dataset(tmp_path, rows)
    shop, few, *_ = (encoding for encoding in data.schema.encodings if encoding.kind == "category")
    assert few.column == "few"
    assert few.means == ()
    assert shop.means
    (tmp_path / "given").mkdir()
    with_limit = make_dataset(tmp_path / "given", rows, max_categories=30)
    assert [encoding.means for encoding in with_limit.schema.encodings if encoding.kind == "category"] == [(), ()]
    assert with_limit.schema.format_version == 2
