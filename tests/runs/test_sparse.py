"""Sparse rows from file to model: shards, solvers and invalid input."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, normalize

import okl
from okl.data import sparse as sparse_rows
from okl.data.dataset import Dataset
from okl.data.describe import describe, describe_text
from okl.data.execution import Execution
from okl.data.ingest import sources, writer
from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset
from okl.data.reading import read_rows, sample_rows
from okl.data.sparse import count_terms, most_frequent
from okl.distributed import open_execution
from okl.estimators.automatic import KernelClassifier
from okl.foundation.errors import ConfigError, DataError
from okl.models.file import load_model
from okl.report import comparison
from okl.report.explanation import explanation_text
from okl.runs.compare_settings import CompareSettings
from okl.runs.predict import score_stream
from okl.runs.select import choose_solver
from okl.runs.select_sparse import LOWER_COSTS, SPARSE_COSTS, best_sparse_model
from okl.solvers.factory import make_solver
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings
from tests.rows import compare, train
from tests.solver_cases import last_state

N_COLUMNS = 6000


def drawn(rows: int, columns: int, classes: int, seed: int = 0) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return sparse rows of whole numbers, and classes that depend on them."""
    random = np.random.default_rng(seed)
    inputs = sparse.random(rows, columns, density=12 / columns, format="csr", rng=random)
    inputs.data = np.ceil(5 * inputs.data)
    scores = inputs @ random.normal(size=(columns, classes)) + random.normal(size=(rows, classes))
    targets = scores.argmax(axis=1)
    assert np.bincount(targets).min() > rows / (3 * classes)
    return inputs, targets


def written(path: Path, inputs: Any, targets: Any) -> Path:
    dump_svmlight_file(inputs, targets, str(path), zero_based=True)
    return path


def all_rows(data: Dataset, split: Any = "train") -> tuple[Any, np.ndarray[Any, Any]]:
    read = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split(split)]
    return sparse_rows.stacked([rows.inputs for rows in read]), np.concatenate([rows.targets for rows in read])


def test_shards_hold_the_rows_of_svmlight_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_VALUES", 2000)
    monkeypatch.setattr(sources, "CHUNK_BYTES", 5000)
    inputs, targets = drawn(700, N_COLUMNS, 3)
    inputs = sparse.vstack([inputs, sparse.csr_matrix((1, N_COLUMNS))], format="csr")  # and an empty row
    source = written(tmp_path / "rows.svm", inputs, np.append(targets, 0))
    options = {"task": "multiclass", "rows_per_shard": 300, "svmlight_index": "0"}
    data = ingest(source, tmp_path / "data", settings(**options)).dataset
    n_columns = data.schema.n_features
    assert n_columns == inputs.indices.max() + 1 > 4096
    assert open_dataset(data.folder) == data
    found, classes = all_rows(data)
    np.testing.assert_array_equal(classes, np.append(targets, 0))
    np.testing.assert_allclose(found.toarray(), normalize(inputs[:, :n_columns]).toarray(), rtol=1e-6)
    assert found.has_sorted_indices
    assert found.data.dtype == np.float32
    assert max(len(shard.row_groups) for shard in data.shards) > 1  # by their values
    stored = ingest(source, tmp_path / "raw", settings(normalise="none", **options)).dataset
    np.testing.assert_array_equal(all_rows(stored)[0].toarray(), inputs[:, :n_columns].toarray())
    assert f"sparse rows of {n_columns:,} columns, divided" in describe_text(data)
    assert describe(data)["sparse"] == {"columns": n_columns, "unit_length": True, "terms": {}}
    sample = sample_rows(data, "train", 50, 0, "float64")
    assert sample.inputs.shape == (50, n_columns)
    # indices of new rows that no training row has are ignored, in text and in data sets
    wide, _ = drawn(40, 9000, 2, seed=1)
    again = ingest(
        written(tmp_path / "new.svm", wide, np.zeros(40)), tmp_path / "new", settings(), reference=data.schema
    )
    np.testing.assert_allclose(
        all_rows(again.dataset)[0].toarray(), normalize(wide[:, :n_columns]).toarray(), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1 3:1 3:2", "not in ascending order, or one occurs twice"),
        ("1 7:1 3:2", "not in ascending order, or one occurs twice"),
        ("1 -3:1", "an index is negative or beyond 2,147,483,647"),
        ("1 3:1 99999999999:1", "an index is negative or beyond 2,147,483,647"),
        ("yes 3:1", "its label 'yes' is not a number"),
        ("1 3:1 four", "'four' has no colon"),
        ("1 3.5:1", "its index '3.5' is not a whole number"),
        ("1 3:x", "its value 'x' is not a number"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    source = tmp_path / "rows.svm"
    source.write_text("".join(f"{i % 2} 1:1 5000:2\n" for i in range(499)) + f"\n{line}\n1 2:1\n")
    with pytest.raises(DataError, match=rf"rows\.svm, line 501, is not svmlight text: .*{why}\. Expected"):
        ingest(source, tmp_path / "data", settings())


def test_columns_beyond_a_million_are_refused_and_storage_can_be_chosen(tmp_path: Path) -> None:
    source = tmp_path / "rows.svm"
    source.write_text("0 1:1 2000000:2\n1 2:1\n")
    with pytest.raises(DataError, match="column index 2000000, but sparse rows have at most 1,000,000"):
        ingest(source, tmp_path / "data", settings())
    source.write_text("0 1:1 9:2\n1 2:1\n")
    assert ingest(source, tmp_path / "few", settings()).dataset.schema.sparse is None
    stored = ingest(source, tmp_path / "sparse", settings(storage="sparse", normalise="none")).dataset
    np.testing.assert_array_equal(
        all_rows(stored)[0].toarray()[0], [0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    )  # indices as written
    source.write_text("0 1:1 2000:2\n1 2:1\n")  # many columns, of which few are not 0
    assert ingest(source, tmp_path / "many", settings()).dataset.schema.sparse is not None
    assert ingest(source, tmp_path / "dense", settings(storage="dense")).dataset.schema.sparse is None


def documents(rows: int, seed: int = 0) -> pd.DataFrame:
    """Return texts whose words depend on the label, numbers, a category, and some empty texts."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 3, rows)
    words = [" ".join(f"w{word}" for word in random.integers(20 * k, 20 * k + 60, 7)) for k in label]
    frame = pd.DataFrame(
        {
            "body": words,
            "price": random.normal(size=rows) + label,
            "kind": np.array(["a", "b", "c"])[random.integers(0, 3, rows)],
            "label": np.array(["red", "green", "blue"])[label],
        }
    )
    frame.loc[::50, "body"] = None
    return frame


def test_terms_are_those_of_a_vectoriser_fitted_on_training_rows(tmp_path: Path) -> None:
    frame = documents(400)
    frame["split"] = np.where(np.arange(400) % 4 == 0, "test", "train")
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame), file, row_group_size=90)
    ingest_settings = settings(target="label", text=("body",), scale="standard", min_documents=2)
    data = ingest(file, tmp_path / "data", ingest_settings).dataset
    peer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    train = frame[frame["split"] == "train"]
    expected = peer.fit_transform(train["body"].fillna("")).toarray()
    columns = data.schema.sparse
    assert columns is not None
    assert columns.texts[0].terms == tuple(peer.get_feature_names_out())
    found = all_rows(data)[0].toarray()
    np.testing.assert_allclose(found[:, 4:], expected, atol=1e-6)
    price = train["price"].to_numpy()
    np.testing.assert_allclose(found[:, 0], (price - price.mean()) / price.std(), atol=1e-5)
    of_test = all_rows(data, "test")[0].toarray()
    test = frame[frame["split"] == "test"]
    np.testing.assert_allclose(of_test[:, 4:], peer.transform(test["body"].fillna("")).toarray(), atol=1e-6)
    assert data.schema.input_name(0) == "price"
    assert data.schema.input_name(4) == "body: " + columns.texts[0].terms[0]
    few = ingest(file, tmp_path / "few", ingest_settings.model_copy(update={"max_terms": 30})).dataset
    counts = Counter({t: int((expected[:, i] > 0).sum()) for t, i in peer.vocabulary_.items()})
    assert few.schema.sparse is not None
    assert set(few.schema.sparse.texts[0].terms) == set(most_frequent(counts, 30))


def test_counts_of_parts_add_up_to_those_of_the_whole() -> None:
    texts = documents(200)["body"].fillna("").tolist()
    assert count_terms(texts[:70]) + count_terms(texts[70:]) == count_terms(texts)


def test_a_text_without_terms_is_refused_and_an_unused_text_column_is_suggested(tmp_path: Path) -> None:
    frame = documents(300)
    frame["id"] = [f"id{number}" for number in range(300)]
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="no word of column 'id' occurs in 2 of its 300 training rows"):
        ingest(tmp_path / "rows.parquet", tmp_path / "data", settings(target="label", text=("id",)))
    with pytest.raises(DataError, match="column 'price', named by --text, is of type double; expected text"):
        ingest(tmp_path / "rows.parquet", tmp_path / "data", settings(target="label", text=("price",)))
    data = ingest(tmp_path / "rows.parquet", tmp_path / "data", settings(target="label")).dataset
    assert any("look like texts. --text body takes" in warning for warning in data.warnings)
    assert not any("--text id" in warning for warning in data.warnings)
    numbers = ingest(tmp_path / "rows.parquet", tmp_path / "numbers", settings(target="price")).dataset
    assert any("look like texts. --text body takes" in warning for warning in numbers.warnings)


def test_words_that_return_in_other_values_are_text_and_an_order_number_is_none(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    drawn = [f"{kind} {shop}" for kind in ("gift", "coffee", "BOOK") for shop in ("card", "shop", "Station", "house")]
    frame = documents(900)[["price", "label"]]
    frame["shop name"] = [f"{drawn[random.integers(12)]} {random.integers(250)}" for _ in range(900)]
    frame["order"] = [f"order no. {number}" for number in range(900)]
    assert 2 * frame["shop name"].nunique() > len(frame)
    frame.to_parquet(tmp_path / "rows.parquet")
    warnings = ingest(tmp_path / "rows.parquet", tmp_path / "data", settings(target="label")).dataset.warnings
    assert sum("--text 'shop name' takes" in warning for warning in warnings) == 1
    assert not any("--text order" in warning for warning in warnings)


def payments(rows: int, seed: int = 0) -> pd.DataFrame:
    """Rare positives that depend on an amount with a heavy tail, on shops with few rows, and on words."""
    random = np.random.default_rng(seed)
    shop = np.minimum((random.pareto(1.0, rows) * 12).astype(int), 299)
    amount, word = np.exp(random.normal(size=rows) * 1.5), random.integers(0, 12, rows)
    effect = np.random.default_rng(99).normal(size=300)[shop] + 0.8 * np.log(amount) + 1.5 * (word < 2)
    positive = random.random(rows) < 1.0 / (1.0 + np.exp(3.5 - effect))
    body = [f"word{one} {number}" for one, number in zip(word, random.integers(0, 500, rows), strict=True)]
    label = np.where(positive, "yes", "no")
    return pd.DataFrame({"amount": amount, "shop": [f"s{n}" for n in shop], "body": body, "label": label})


def test_rare_categories_and_heavy_tails_beside_words_do_not_hide_what_decides(tmp_path: Path) -> None:
    frame = payments(9000)
    frame["split"] = np.where(np.arange(9000) % 3 == 0, "test", "train")
    frame.to_parquet(tmp_path / "rows.parquet")
    given = {"target": "label", "text": ("body",)}
    result = okl.train(str(tmp_path / "rows.parquet"), ingest=given, out=str(tmp_path / "run"))
    frame["log"] = np.log(frame["amount"])
    numbers, one_hot = StandardScaler(), OneHotEncoder(handle_unknown="ignore")
    columns = [(numbers, ["log"]), (one_hot, ["shop"]), (TfidfVectorizer(sublinear_tf=True), "body")]
    peer = make_pipeline(make_column_transformer(*columns), LogisticRegression(max_iter=1000))
    train, test = (frame[frame["split"] == split] for split in ("train", "test"))
    found = peer.fit(train, train["label"]).predict_proba(test)[:, 1]
    assert result["test"]["roc_auc"] > roc_auc_score(test["label"] == "yes", found) - 0.01 > 0.7
    assert result["test"]["log_loss"] < 1.02 * log_loss(test["label"] == "yes", found)
    assert result["settings"]["rescale"] == "robust-minmax"
    assert {entry["name"].partition(",")[0] for entry in result["choice"]["candidates"]} == {
        "linear l2-svm",
        "linear logistic model",
    }
    without = result["baselines"]["linear-without-words"]["test"]
    assert 0.6 < without["roc_auc"] < result["test"]["roc_auc"] - 0.03
    assert not any("without the words" in warning for warning in result["warnings"])
    data = open_dataset(tmp_path / "run" / "data")
    schema = data.schema.scaled_as("minmax")
    inputs, _ = all_rows(replace(data, schema=schema))
    assert set(np.unique(inputs[:, 1 : len(schema.features)].data)) == {1.0}, "categories are 1, and zeros not stored"


def test_a_given_solver_scales_columns_beside_words_like_the_choice_unless_told_otherwise(tmp_path: Path) -> None:
    payments(1500).to_parquet(tmp_path / "rows.parquet")
    given = {"target": "label", "text": ("body",)}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "robust-minmax"),
        ({"rescale": "none"}, "none"),
        ({"rescale": "standard"}, "standard"),
    ]
    for number, (more, scaling) in enumerate(cases):
        out = str(tmp_path / f"run{number}")
        okl.train(str(tmp_path / "rows.parquet"), ingest=given, solver="logistic", kernel="linear", out=out, **more)
        assert load_model(Path(out) / "model").schema.scaling == scaling


def test_the_search_of_a_cost_goes_down_until_it_is_worse() -> None:
    random = np.random.default_rng(0)
    inputs = sparse.csr_array(random.normal(size=(1600, 300)).astype(np.float32))
    classes = (inputs[:, 0].toarray().ravel() + 3.0 * random.normal(size=1600) > 0).astype(np.int64)
    best, errors, calibration = best_sparse_model(inputs, classes, "log-loss", None, 1)
    assert best[1] < SPARSE_COSTS[0]
    assert calibration is not None
    costs = sorted(cost for solver, cost in errors if solver == "l2-svm")
    assert errors["l2-svm", costs[0]] > errors["l2-svm", costs[1]] or costs[0] == LOWER_COSTS[-1]
    assert {solver for solver, _ in best_sparse_model(inputs, classes, "accuracy", None, 1)[1]} == {"l2-svm"}


def test_words_that_do_not_help_are_a_warning(tmp_path: Path) -> None:
    frame = payments(3000)
    frame["body"] = np.random.default_rng(1).permutation(frame["body"])
    result = okl.train(frame, target="label", text=("body",), out=str(tmp_path / "run"))
    assert any("No better than without the words" in warning for warning in result["warnings"])


def test_a_regression_of_texts_is_close_to_ridge_regression_tuned_on_the_test_rows(tmp_path: Path) -> None:
    frame = documents(2000)
    effects = np.random.default_rng(1).normal(size=120)
    of_words = [sum(effects[int(word[1:])] for word in body.split()) for body in frame["body"].fillna("")]
    frame["price"] = 100.0 + np.array(of_words) + 0.5 * np.random.default_rng(2).normal(size=2000)
    # one category is so rare that its standardised input is 38, too large for the common step size
    frame["kind"] = np.where(np.arange(2000) == 700, "rare", frame["kind"])
    frame["split"] = np.where(np.arange(2000) % 4 == 0, "test", "train")
    frame.to_parquet(tmp_path / "rows.parquet")
    ingested = settings(target="price", text=("body",), drop=("label",), scale="standard", scale_target=True)
    data = ingest(tmp_path / "rows.parquet", tmp_path / "data", ingested).dataset
    choice = choose_solver(TrainSettings.model_validate({"data": str(tmp_path / "data")}), data)
    assert (choice.settings.solver, choice.settings.mode) == ("fogd", "stream"), "the same bits with workers"
    errors = {entry["name"]: 1.0 - entry["score"] for entry in choice.record["candidates"]}
    assert min(errors, key=lambda name: errors[name]) == f"linear fogd, passes = {choice.settings.options.n_passes}"
    assert errors["linear fogd, passes = 1"] > 1.5 * min(errors.values()), "passes buy something"
    small_budget = TrainSettings.model_validate({"data": str(tmp_path / "data"), "budget_seconds": 0.02})
    assert choose_solver(small_budget, data).settings.options.n_passes < choice.settings.options.n_passes
    train(choice.settings.replaced(out=str(tmp_path / "run")))
    (inputs, targets), (test_inputs, test_targets) = all_rows(data), all_rows(data, "test")
    peers = [Ridge(penalty).fit(inputs, targets).predict(test_inputs) for penalty in (0.1, 0.3, 1.0, 3.0)]
    best = min(float(np.square(found - test_targets).mean()) for found in peers)
    found = load_model(tmp_path / "run" / "model").predictor.scores(test_inputs)
    assert np.square(found - test_targets).mean() < 1.15 * best < 0.3 * test_targets.var()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    """Return the same rows in sparse and in dense shards, three for training."""
    folder = tmp_path_factory.mktemp("both")
    inputs, targets = drawn(480, 100, 2)
    source = written(folder / "rows.svm", normalize(inputs), targets)
    options = {"rows_per_shard": 130, "holdout": 0.2, "svmlight_index": "0"}
    made = [ingest(source, folder / kind, settings(storage=kind, **options)).dataset for kind in ("sparse", "dense")]
    return made[0], made[1]


def solved(data: Dataset, execution: Execution, **options: Any) -> Any:
    solver = make_solver(TrainSettings.model_validate({"data": "x", "kernel": "linear", "tol": 1e-4} | options), data)
    return solver, last_state(solver, data, execution)


@pytest.mark.parametrize(
    ("name", "more", "most"),
    [
        ("l2-svm", {}, 2),
        ("l2-svm", {}, 1000),
        ("l2-svm", {"method": "fapg"}, 2),
        ("logistic", {}, 2),
        ("c-svm", {}, 1000),
        ("nu-svm", {}, 2),
        ("l1-logistic", {"C": 5.0}, 1000),
        ("l1-l2-svm", {"C": 5.0}, 2),
    ],
)
def test_sparse_shards_give_the_certified_optimum_of_dense_ones(
    both: tuple[Dataset, Dataset], name: str, more: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if most == 2:  # products with vectors, as with many columns
        monkeypatch.setattr("okl.solvers.accelerated.newton.MOST_COLUMNS", most)
        monkeypatch.setattr("okl.solvers.accelerated.choice.MOST_COLUMNS", most)
    with open_execution(0, threads=1) as here:
        proofs = []
        for data in both:
            solver, state = solved(data, here, solver=name, **more)
            proofs.append(solver.certificate(state))
    assert all(proof["converged"] for proof in proofs)
    assert proofs[0]["objective"] == pytest.approx(proofs[1]["objective"], rel=3e-4)


def test_workers_give_the_same_bits(both: tuple[Dataset, Dataset], two_workers: Execution) -> None:
    for options in ({"solver": "l2-svm", "method": "newton"}, {"solver": "logistic"}):
        weights = []
        with open_execution(0, threads=1) as alone, open_execution(0, threads=2) as here:
            for execution in (alone, here, two_workers):
                solver, state = solved(both[0], execution, **options)
                weights.append(solver.predictor(state).weights.tobytes())
        assert weights[0] == weights[1] == weights[2]


def test_a_table_with_text_is_trained_scored_evaluated_and_explained(tmp_path: Path) -> None:
    frame = documents(800)
    result = okl.train(frame, target="label", text=("body",), scale="standard", out=str(tmp_path / "run"))
    assert result["test"]["accuracy"] > 0.9
    assert "with a text column (body), all columns are sparse inputs (--text)" in result["assumptions"]
    assert result["baselines"]["linear"] is None
    assert 0.5 < result["baselines"]["linear-without-words"]["test"]["accuracy"] < result["test"]["accuracy"]
    model = okl.load(str(tmp_path / "run" / "model"))
    new = documents(80, seed=1)
    new.loc[3, "body"] = "no word that training had"
    scores = model.scores(new)
    terms = {name: index for index, name in enumerate(map(model.schema.input_name, range(model.schema.n_features)))}
    assert "body: w0 w1" in terms or "body: w30" in terms
    assert scores.shape == (80, 3)
    assert (model.predict(new) == new["label"]).mean() > 0.9
    kept = json.loads((tmp_path / "run" / "model" / "model.json").read_text())
    assert kept["format_version"] == 5
    assert kept["schema"]["sparse"]["texts"][0]["column"] == "body"
    new.to_parquet(tmp_path / "new.parquet")
    okl.predict(str(tmp_path / "run" / "model"), str(tmp_path / "new.parquet"), str(tmp_path / "scores"))
    (part,) = (tmp_path / "scores").glob("*.parquet")
    assert pq.read_table(part).column("prediction").to_pylist() == model.predict(new).tolist()
    empty = model.scores(new[3:4].assign(price=0.0, kind="a"))[0]
    for row in (
        b'{"body": null, "price": 0, "kind": "a"}',
        b"body,price,kind\n,0,a\n",
        b'body,price,kind\n"7 Zz",0,a\n',
    ):
        out = BytesIO()
        assert score_stream(str(tmp_path / "run" / "model"), BytesIO(row), out) == 1
        scored = pd.read_csv(BytesIO(out.getvalue())).iloc[0, :3].to_numpy(dtype=float)
        np.testing.assert_allclose(scored, empty, rtol=1e-5, atol=1e-5)
    measured = okl.evaluate(str(tmp_path / "run" / "model"), str(tmp_path / "new.parquet"))
    assert measured["metrics"]["accuracy"] == pytest.approx((model.predict(new) == new["label"]).mean())
    shown = explanation_text(okl.explain(str(tmp_path / "run" / "model")))
    (chosen,) = (line for line in shown.splitlines() if line.startswith("chosen "))
    assert re.search(r" C 1, .* \(by the automatic choice\)$", chosen)
    exported = okl.export(str(tmp_path / "run" / "model"), str(tmp_path / "model.onnx"))
    assert exported["largest_difference"] < 1e-5


def test_a_stream_of_svmlight_text_is_scored_as_its_file(tmp_path: Path) -> None:
    inputs, targets = drawn(500, N_COLUMNS, 2)
    source = written(tmp_path / "rows.svm", inputs, targets)
    okl.train(str(source), out=str(tmp_path / "run"), threads=1)
    model = okl.load(str(tmp_path / "run" / "model"))
    lines, out = source.read_bytes().splitlines(keepends=True), BytesIO()
    rows = b"".join(line for line in lines if not line.startswith(b"#"))
    assert score_stream(str(tmp_path / "run" / "model"), BytesIO(rows), out) == 500
    scores = pd.read_csv(BytesIO(out.getvalue()))["score"]
    np.testing.assert_allclose(scores, model.scores(inputs[:, : model.schema.n_features]), rtol=1e-5, atol=1e-6)
    for odd in (b"0\n", b"1 # nothing\n", b"0 999999:1\n"):  # rows without any column of the model
        empty = BytesIO()
        assert score_stream(str(tmp_path / "run" / "model"), BytesIO(odd), empty) == 1
        found = pd.read_csv(BytesIO(empty.getvalue()))["score"][0]
        assert found == pytest.approx(model.scores(sparse.csr_array((1, model.schema.n_features)))[0], abs=1e-6)
    for odd, why in (
        (b"0 5:1 3:1\n", "line 1, .*not in ascending order"),
        (b"0 -5:1\n", "line 1, .*an index is negative"),
        (b"0 5000000:1\n", "column index 5000000, but sparse rows have at most 1,000,000"),
    ):
        with pytest.raises(DataError, match=f"standard input.*{why}"):
            score_stream(str(tmp_path / "run" / "model"), BytesIO(odd), BytesIO())
    alone = BytesIO()
    assert score_stream(str(tmp_path / "run" / "model"), BytesIO(rows.splitlines()[3]), alone) == 1
    assert alone.getvalue().splitlines()[1] == out.getvalue().splitlines()[4]


def test_an_estimator_takes_a_column_of_text() -> None:
    frame = documents(600)
    rows, labels = frame.drop(columns="label"), frame["label"]
    model = KernelClassifier(text="body").fit(rows[:400], labels[:400])
    assert model.score(rows[400:], labels[400:]) > 0.9
    assert model.predict_proba(rows[400:]).shape == (200, 3)


COMPARED = ("auto", "l2-svm", "logistic", "c-svm", "nu-svm", "dwd", "l1-logistic", "l1-l2-svm")


def compared(data: Dataset, out: Path, **options: Any) -> dict[str, Any]:
    values = {
        "data": str(data.folder),
        "rescale": "none",
        "holdout": "test",
        "grid": 3,
        "threads": 1,
        "tolerance": 1e-4,
    }
    return compare(CompareSettings.model_validate(values | {"iterations": 2000, "out": str(out)} | options))


def test_a_comparison_of_sparse_rows_is_that_of_the_same_dense_rows(
    both: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    names = ("l2-svm", "logistic", "c-svm", "nu-svm", "dwd", "l1-logistic", "l1-l2-svm")
    found = [compared(data, tmp_path / str(i), models=names) for i, data in enumerate(both)]
    tables = [{row["model"]: row for row in result["models"]} for result in found]
    assert tables[0].keys() == tables[1].keys() == {*names}
    for name in names:
        sparse_row, dense_row = tables[0][name], tables[1][name]
        assert sparse_row["relative_gap"] <= 1e-4
        assert [one["value"] for one in sparse_row["path"]] == pytest.approx(
            [one["value"] for one in dense_row["path"]], rel=1e-2
        )
        assert [one["mean"] for one in sparse_row["path"]] == pytest.approx(
            [one["mean"] for one in dense_row["path"]], abs=0.03
        )
    assert tables[0]["logistic"]["log_loss"] == pytest.approx(tables[1]["logistic"]["log_loss"], rel=1e-2)
    model = okl.load(found[0]["model"])
    inputs, targets = all_rows(both[0], "test")
    assert ((model.scores(inputs) >= 0) == (targets > 0)).mean() == pytest.approx(found[0]["test"]["accuracy"])


def test_models_of_dense_rows_are_left_out_of_a_comparison_of_texts(tmp_path: Path) -> None:
    documents(250).to_csv(tmp_path / "rows.csv", index=False)
    given = {"data": str(tmp_path / "rows.csv"), "grid": 2, "folds": 2, "iterations": 50, "threads": 1}
    ingested = {"target": "label", "text": ("body",)}
    result = compare(CompareSettings.model_validate(given | {"out": str(tmp_path / "run"), "ingest": ingested}))
    assert {row["model"] for row in result["models"]} == {*COMPARED}
    assert "rows are sparse, so these are left out: ridge, mm-fda, mm-mpm" in result["assumptions"]
    assert "--frequencies" not in comparison.text_summary(result)
    (auto,) = [row for row in result["models"] if row["model"] == "auto"]
    assert auto["mean"] > 0.8 > result["constant"]
    alone = compare(
        CompareSettings.model_validate(given | {"models": ("auto",), "out": str(tmp_path / "auto"), "ingest": ingested})
    )
    assert alone["winner"]["chosen"]["solver"] == "l2-svm"
    of_price = ingested | {"target": "price"}
    prices = compare(CompareSettings.model_validate(given | {"out": str(tmp_path / "prices"), "ingest": of_price}))
    assert prices["winner"]["chosen"]["solver"] == "fogd"
    assert "rows are sparse, so these are left out: ridge, fogd, nogd" in prices["assumptions"]
    assert prices["models"][0]["mean"] > prices["constant"]
    for changed, why in (
        ({"models": ("ridge", "nogd")}, "models = ridge, nogd: compared on dense rows only, but these are sparse"),
        ({"models": ("logistic",), "frequencies": 9}, "frequencies is set, but rows are sparse"),
        ({"models": ("ridge",), "ingest": of_price}, "models = ridge: .* Rows of a regression are taken by auto"),
    ):
        with pytest.raises(ConfigError, match=why):
            compare(CompareSettings.model_validate(given | {"ingest": ingested} | changed))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"solver": "local"}, "The solver local takes dense rows, .*--solver auto, l2-svm, logistic"),
        ({"solver": "scs", "kernel": "linear"}, "The solver scs takes dense rows with --kernel linear.* or nogd\\.$"),
        ({"solver": "nogd", "landmarks": "kmeans"}, "landmarks = 'kmeans' takes dense rows.*uniform or rpcholesky"),
        ({"solver": "c-svm", "map": "quasi"}, "map = 'quasi' takes dense rows.*independent or nystrom"),
        ({"solver": "scs", "map": "exact"}, "map = 'exact' takes dense rows"),
        ({"solver": "falkon"}, "The solver falkon takes dense rows"),
    ],
)
def test_solvers_of_dense_rows_refuse_sparse_ones(
    both: tuple[Dataset, Dataset], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        okl.train(str(both[0].folder), **options)
