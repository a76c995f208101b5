"""Retraining on sparse rows: texts, svmlight text, quarantine, and settings kept for later shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer

import okl
from okl.foundation.errors import OklError
from okl.lifecycle.choice import unprepared
from okl.lifecycle.lineage_checks import check_arrivals
from okl.lifecycle.profile import measured
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.models.registry import Registry
from tests.lifecycle.stories import refused_by_both

LABELS = np.array(["red", "green", "blue"])
TEXT_INGEST = {"target": "label", "text": ["body"]}


def documents(day: int, rows: int = 500, first_word: int = 0, empty: float = 0.02, words: int = 9) -> pd.DataFrame:
    """Return texts whose words depend on the label, a number, and some rows without a text."""
    random = np.random.default_rng(day)
    label = random.integers(0, 3, rows)
    drawn = [random.integers(20 * k, 20 * k + 40, words) for k in label]
    body = [" ".join(f"w{first_word + word}" for word in row) for row in drawn]
    frame = pd.DataFrame({"body": body, "price": random.normal(size=rows) + label, "label": LABELS[label]})
    frame.loc[random.random(rows) < empty, "body"] = None
    return frame


def land(root: Path, day: int, frame: pd.DataFrame, ending: str = "csv") -> Path:
    (root / "in").mkdir(exist_ok=True)
    path = root / "in" / f"day-{day:02d}.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    return path


def land_svmlight(root: Path, day: int, rows: int = 400, columns: int = 6000, classes: int = 2, more: str = "") -> Path:
    """Write svmlight text of whole numbers; more : lines at the end."""
    random = np.random.default_rng(day)
    (root / "in").mkdir(exist_ok=True)
    x = sparse.random(rows, columns, density=30 / columns, format="csr", rng=random)
    x.data = np.ceil(5 * x.data)
    weights = np.random.default_rng(99).normal(size=(12_000, classes))[:columns]
    path = root / "in" / f"day-{day:02d}.svm"
    dump_svmlight_file(x, (x @ weights).argmax(axis=1), str(path))
    with path.open("a") as file:
        file.write(more)
    return path


def settings_for(root: Path, ingest: dict[str, Any] | None = None, **values: Any) -> RetrainSettings:
    given = {"name": "m", "source": str(root / "in"), "registry": str(root / "registry"), "settle_seconds": 0}
    more = {"train": {"threads": 1} | values.pop("train", {}), "publish_if": "not worse", "ingest": ingest or {}}
    return RetrainSettings.model_validate(given | more | values)


def reasons(result: dict[str, Any]) -> dict[str, tuple[Sequence[str], str]]:
    return {shard["name"]: (shard["kinds"], shard.get("reason", "")) for shard in result["shards"]["rejected"]}


def test_a_text_classifier_is_retrained_rolled_back_and_predicts_by_alias(root: Path) -> None:
    """Train on the same shards, written in three formats."""
    for day, ending in ((1, "csv"), (2, "parquet")):
        land(root, day, documents(day), ending)
    first = retrain(settings_for(root, TEXT_INGEST))
    assert (first["outcome"], first["version"]) == ("published", 1)
    assert first["metrics"]["challenger"]["accuracy"] > 0.9
    schema = okl.load("m@1", str(root / "registry")).schema
    assert schema.sparse is not None
    assert schema.scale == "minmax"
    store = ShardStore(root / "registry/m/data")
    again = unprepared(settings_for(root, TEXT_INGEST), store, list(store.accepted())).schema
    assert (again.scale, again.squashed) == ("none", ()), "a later choice scales columns beside words anew"
    peer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    peer.fit(pd.concat([documents(1), documents(2)])["body"].fillna(""))
    assert schema.sparse.texts[0].terms == tuple(peer.get_feature_names_out())  # of all of the first shards
    np.testing.assert_allclose(schema.sparse.texts[0].weights, peer.idf_)
    land(root, 3, documents(3, 900), "jsonl")
    second = retrain(settings_for(root))
    assert (second["outcome"], second["version"], second["parent"]) == ("published", 2, 1)
    assert [row["shard"] for row in second["progressive"]] == ["day-03.jsonl"]
    assert second["progressive"][0]["error"] < 0.1
    new = documents(9, 300)
    new.to_csv(root / "new.csv", index=False)
    scores = {which: okl.load(f"m@{which}", str(root / "registry")).scores(new) for which in (1, 2, "champion")}
    np.testing.assert_array_equal(scores["champion"], scores[2])
    assert not np.array_equal(scores[1], scores[2])
    assert okl.load("m@2", str(root / "registry")).schema.sparse == schema.sparse  # terms are those of the first night
    evaluated = okl.evaluate("m@champion", str(root / "new.csv"), registry=str(root / "registry"))
    assert evaluated["metrics"]["accuracy"] > 0.9
    Registry(root / "registry").model("m").rollback()
    np.testing.assert_array_equal(okl.load("m@champion", str(root / "registry")).scores(new), scores[1])


def test_mostly_empty_texts_are_used_from_the_first_night_on(root: Path) -> None:
    land(root, 1, documents(1, empty=0.6))
    assert retrain(settings_for(root, TEXT_INGEST))["version"] == 1
    land(root, 2, documents(2, empty=0.62))
    land(root, 3, documents(3, empty=0.8))
    result = retrain(settings_for(root))
    assert [shard["name"] for shard in result["shards"]["accepted"]] == ["day-02.csv"]
    assert reasons(result)["day-03.csv"][0] == ["missing-values"]


def test_texts_unlike_those_so_far_are_quarantined(root: Path) -> None:
    land(root, 1, documents(1))
    retrain(settings_for(root, TEXT_INGEST))
    land(root, 2, documents(2, first_word=1000))  # the vocabulary finds nothing
    land(root, 3, documents(3, empty=0.5))
    land(root, 4, documents(4, empty=1.0))
    land(root, 5, documents(5, words=90))
    land(root, 6, documents(6).drop(columns="body"))
    land(root, 7, documents(7).assign(body=1.5), "parquet")
    land(root, 8, documents(1), "parquet")
    land(root, 9, documents(9))
    result = retrain(settings_for(root))
    found = reasons(result)
    assert found["day-02.csv"][0][-2:] == ["constant-column", "unseen-values"]
    assert "the model knows no term: body in 9" in found["day-02.csv"][1]
    assert found["day-03.csv"][0] == ["missing-values"]
    assert "body in 4" in found["day-03.csv"][1]
    assert "missing-values" in found["day-04.csv"][0]
    assert found["day-05.csv"][0] == ["out-of-range"]
    assert "body: known terms" in found["day-05.csv"][1]
    assert found["day-06.csv"][0] == ["missing-column"]
    assert found["day-07.parquet"][0] == ["other-type"]
    assert found["day-08.parquet"] == (["repeated"], found["day-08.parquet"][1])
    assert [shard["name"] for shard in result["shards"]["accepted"]] == ["day-09.csv"]
    (record,) = [one for one in ShardStore(root / "registry/m/data").accepted() if one.name == "day-09.csv"]
    assert record.columns[0].mean == pytest.approx(documents(9)["price"].mean(), rel=1e-5)
    figures = dict(zip(measured(okl.load("m@1", str(root / "registry")).schema), record.columns, strict=True))
    assert figures["body: no text"].mean == documents(9)["body"].isna().mean() > 0.0


def test_svmlight_text_is_retrained_and_faulty_text_is_quarantined(root: Path) -> None:
    land_svmlight(root, 1, rows=1500)
    land_svmlight(root, 2, rows=1500, columns=6500)
    first = retrain(settings_for(root))
    assert (first["outcome"], first["version"]) == ("published", 1)
    schema = okl.load("m@1", str(root / "registry")).schema
    assert schema.sparse is not None
    assert schema.n_features > 6000  # the widest of the first shards
    land_svmlight(root, 3, columns=12_000)  # larger indices are ignored
    for day, (line, _) in enumerate(FAULTS, 4):
        land_svmlight(root, day, more=line)
    wide_file = land_svmlight(root, 30)
    wide_file.write_text(_moved(wide_file.read_text(), 7000))
    result = retrain(settings_for(root))
    assert [shard["name"] for shard in result["shards"]["accepted"]] == ["day-03.svm"]
    assert result["outcome"] in ("published", "kept")
    found = reasons(result)
    for day, (_, why) in enumerate(FAULTS, 4):
        assert why in found[f"day-{day:02d}.svm"][1]
        assert f"day-{day:02d}.svm" in found[f"day-{day:02d}.svm"][1]
    kinds, why = found["day-30.svm"]
    assert "unseen-values" in kinds
    assert "the model knows no column: all columns in 100.0% of rows" in why


FAULTS = [
    ("1 3:1 3:2\n", "not in ascending order, or one occurs twice"),
    ("1 7:1 3:2\n", "not in ascending order, or one occurs twice"),
    ("1 -3:1\n", "an index is negative or beyond"),
    ("1 3:1 99999999999:1\n", "an index is negative or beyond"),
    ("1 3:1 2000000:1\n", "has column index 2000000, but sparse rows have at most 1,000,000"),
    ("1 3:nan\n", "column 'f3' is not finite within float32 (3.4e38) in row 400"),
    ("7 3:1\n", "labels that are not in the reference: '7' (1 rows)"),
]


def _moved(text: str, by: int) -> str:
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    pairs = [[(int(i) + by, value) for i, value in (pair.split(":") for pair in line[1:])] for line in lines]
    return "".join(
        f"{line[0]} {' '.join(f'{i}:{value}' for i, value in row)}\n" for line, row in zip(lines, pairs, strict=True)
    )


def test_rows_of_one_label_and_other_values_are_not_the_same_rows(root: Path) -> None:
    """The digest of a shard takes in its sparse rows."""
    folder = root / "in"
    folder.mkdir()
    for day in (1, 2, 3):
        rows = "".join(f"{i % 2} {1 + i % 2 + 2 * day}:1 5000:1\n" for i in range(200))
        (folder / f"day-{day}.svm").write_text(rows)
    result = retrain(settings_for(root, contradiction=False, contract={"unseen_share": 1, "mean_shift": 99}))
    assert len(result["shards"]["accepted"]) == 3
    (folder / "again.svm").write_text("# the same\n" + (folder / "day-2.svm").read_text())
    assert [shard["kinds"] for shard in retrain(settings_for(root))["shards"]["rejected"]] == [["repeated"]]


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a model whose shards have a text column."""
    folder = tmp_path_factory.mktemp("created")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OKL_HOME", str(folder / "home"))
        land(folder, 1, documents(1))
        retrain(settings_for(folder, TEXT_INGEST | {"max_terms": 500}).model_copy(update={"dry_run": True}))
        assert retrain(settings_for(folder, TEXT_INGEST | {"max_terms": 500}))["outcome"] == "published"
        yield folder


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ({"text": ["other"]}, r"text = \('other',\) conflicts with \('body',\)"),
        ({"max_terms": 3}, r"max_terms = 3 conflicts with \d+"),
        ({"keys": ["body"]}, "The column 'body' is given as a key, but the model m was created with it as an input"),
        ({"categories": ["body"]}, "'body' is given as a category, but the model m was created with it as a text"),
    ],
)
def test_settings_of_a_new_model_are_kept(created: Path, later: dict[str, Any], why: str) -> None:
    refused_by_both(settings_for(created, later), why)
    check_arrivals(settings_for(created, TEXT_INGEST | {"max_terms": 500, "min_documents": 2}))


def test_solvers_of_dense_rows_are_refused_and_named_ones_accepted(root: Path) -> None:
    land(root, 1, documents(1))
    with pytest.raises(OklError, match="The solver falkon takes dense rows"):
        retrain(settings_for(root, TEXT_INGEST, train={"solver": "falkon"}))
    train = {"solver": "logistic", "map": "nystrom", "frequencies": 60}
    named = retrain(settings_for(root, TEXT_INGEST, train=train))
    assert named["outcome"] == "published"
    assert named["settings"]["train"]["solver"] == "logistic"
    land(root, 2, documents(2))
    again = retrain(settings_for(root, TEXT_INGEST, train=train))
    assert again["outcome"] in ("published", "kept")


def test_an_online_learner_continues_with_new_texts(root: Path) -> None:
    online = {"solver": "fogd", "kernel": "linear", "step_size": 0.5, "order": "stored"}
    land(root, 1, documents(1))
    assert retrain(settings_for(root, TEXT_INGEST, train=online))["outcome"] == "published"
    land(root, 2, documents(2))
    second = retrain(settings_for(root, train=online))
    assert second["how"] == "continued with 1 new shards"
    assert second["metrics"]["challenger"]["accuracy"] > 0.8


def test_texts_of_a_regression_are_learnt_every_night(root: Path) -> None:
    def prices(seed: int) -> Any:
        frame = documents(seed)
        lengths = frame["body"].fillna("").str.count("w1").astype(float)
        return frame.assign(label=lengths + 0.1 * np.random.default_rng(seed).normal(size=len(frame)))

    land(root, 1, prices(1))
    first = retrain(settings_for(root, TEXT_INGEST))
    assert first["outcome"] == "published"
    assert "linear fogd" in str(first["chosen"])
    land(root, 2, prices(2))
    second = retrain(settings_for(root))
    assert second["how"] == "continued with 1 new shards"
    metrics = second["metrics"]["challenger"]
    assert 0.0 < metrics["rmse"] < 0.8 * np.std(prices(2)["label"])
    third = retrain(settings_for(root, TEXT_INGEST).model_copy(update={"choose": "again"}))
    assert third["choice"]["solver"] == "fogd"
    assert third["how"].startswith("started anew on 2 shards, because solver and settings were chosen again")
