"""Estimators with automatic choice: scikit-learn's checks, the bits of `okl train`, tables, sample weights."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes, load_iris, make_gaussian_quantiles
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import okl
from okl.data.execution import Rows
from okl.estimators.automatic import KernelClassifier, KernelRegressor
from okl.foundation.errors import ConfigError, DataError, ModelError
from okl.kernels import Gaussian
from okl.metrics.calibration import fit_calibration
from okl.runs import candidates, select
from okl.solvers.ridge.gram import LandmarkBasis, Outputs, WeightedRows
from okl.solvers.ridge.penalty_path import fit_rows
from tests.runs.small_choice import make_choice_small

UNEQUAL = {
    f"check_sample_weight_equivalence_on_{form}_data": "the choice of kernel and bandwidth does not know the weights"
    for form in ("dense", "sparse")
}


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restrict the choice to a linear and a Gaussian candidate on few landmarks, which takes a tenth of the time."""
    make_choice_small(monkeypatch)
    of_all = candidates.initial_candidates

    def first_of_kinds(scales: Any) -> list[candidates.Candidate]:
        return [*{candidate.kernel: candidate for candidate in of_all(scales)}.values()][:2]

    monkeypatch.setattr(select, "initial_candidates", first_of_kinds)


@parametrize_with_checks(
    [KernelClassifier(validation="rows"), KernelRegressor(validation="rows")],
    expected_failed_checks=lambda estimator: UNEQUAL,
)  # type: ignore[untyped-decorator]
def test_scikit_learn_checks_pass(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("made", "load"),
    [(KernelClassifier, load_iris), (KernelClassifier, load_breast_cancer), (KernelRegressor, load_diabetes)],
)
def test_model_has_the_bits_of_okl_train_on_the_same_training_rows(made: Any, load: Any, tmp_path: Path) -> None:
    rows = load(as_frame=True)
    fitted = made().fit(rows.data, rows.target)
    pa.parquet.write_table(pa.Table.from_pandas(rows.frame), tmp_path / "rows.parquet")
    task = {load_iris: "multiclass", load_breast_cancer: "binary", load_diabetes: "regression"}[load]
    data = okl.ingest(tmp_path / "rows.parquet", tmp_path / "data", target="target", task=task)
    trained = okl.train(data.folder, out=tmp_path / "run")
    assert trained["settings"]["solver"] == fitted.settings_.solver
    for name, array in trained.model.predictor.arrays().items():
        np.testing.assert_array_equal(fitted.model_.predictor.arrays()[name], array)
    np.testing.assert_array_equal(fitted.predict(rows.data), trained.model.predict(rows.data))
    if made is KernelClassifier:
        np.testing.assert_array_equal(fitted.predict_proba(rows.data), trained.model.predict_proba(rows.data))


def mixed(rows: int = 400) -> tuple[pd.DataFrame, Any]:
    """Return a table with text, dates, booleans and missing values, and labels that depend on text, date and number."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.standard_normal(rows), "old": rng.random(rows) < 0.5})
    table["town"] = rng.choice(["Aix", "Bonn", "Cork"], rows)
    table["since"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), "D")
    score = table["size"] + (table["town"] == "Bonn") * 2.0 + (table["since"] > pd.Timestamp("2024-07-01")) * 2.0
    table.loc[::9, "size"], table.loc[4::11, "town"] = np.nan, None
    return table, np.where(score > 1.5, "stays", "goes")


def as_polars_does(frame: pd.DataFrame) -> pa.Table:
    """Return an Arrow table with categories as polars writes them: as string views."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    towns = table["town"].combine_chunks().dictionary_encode()
    views = pa.DictionaryArray.from_arrays(towns.indices.cast(pa.uint32()), towns.dictionary.cast(pa.string_view()))
    return table.set_column(table.column_names.index("town"), "town", views)


def test_tables_of_all_kinds_give_the_same_bits_and_use_every_column() -> None:
    table, labels = mixed()
    train, test = table[:300], table[300:]
    expected = KernelClassifier(budget_seconds=1).fit(train, labels[:300])
    assert expected.score(test, labels[300:]) > 0.85  # of the larger class: 0.5
    assert expected.feature_names_in_.tolist() == ["size", "old", "town", "since"]
    for kind in (pa.Table.from_pandas, as_polars_does, lambda frame: frame.set_index(frame.index + 7)):
        other = KernelClassifier(budget_seconds=1).fit(kind(train), labels[:300])
        np.testing.assert_array_equal(other.predict_proba(kind(test)), expected.predict_proba(test))
    for column in ("size", "town", "since"):
        other = KernelClassifier(budget_seconds=1).fit(train.drop(columns=column), labels[:300])
        assert other.score(test.drop(columns=column), labels[300:]) < expected.score(test, labels[300:]) - 0.02


def test_intervals_are_text_and_names_differ() -> None:
    table, labels = mixed(200)
    cut = table.assign(cut=pd.cut(table["size"].where(table.index != 3), 4))
    as_text = cut.assign(cut=cut["cut"].astype(object).map(str, na_action="ignore"))
    fitted, expected = (KernelClassifier(budget_seconds=1).fit(rows, labels[:200]) for rows in (cut, as_text))
    np.testing.assert_array_equal(fitted.predict_proba(cut), expected.predict_proba(as_text))
    batch = pa.RecordBatch.from_pandas(table, preserve_index=False)
    whole = pa.Table.from_batches([batch])
    fitted, expected = (KernelClassifier(budget_seconds=1).fit(rows, labels[:200]) for rows in (batch, whole))
    np.testing.assert_array_equal(fitted.predict_proba(batch), expected.predict_proba(whole))
    duplicated = table[["size", "old"]].set_axis(["a", "a"], axis=1)
    with pytest.raises(DataError, match="The table has 2 columns named 'a'; expected different names"):
        KernelClassifier().fit(duplicated, labels[:200])


def test_columns_without_names_are_those_of_the_fit_in_order() -> None:
    inputs, labels = load_iris(return_X_y=True)
    table = pd.DataFrame(inputs, columns=list("abcd"))
    of_array, of_table = KernelClassifier().fit(inputs, labels), KernelClassifier().fit(table, labels)
    expected = of_array.predict_proba(inputs)
    np.testing.assert_array_equal(of_table.predict_proba(table), expected)
    for fitted, rows, message in (
        (of_array, table, "X has feature names, but KernelClassifier was fitted without"),
        (of_table, inputs, "X does not have valid feature names, but KernelClassifier was fitted with"),
    ):
        with pytest.warns(UserWarning, match=message):
            np.testing.assert_array_equal(fitted.predict_proba(rows), expected)
    of_unnamed = KernelClassifier().fit(pd.DataFrame(inputs), labels)
    np.testing.assert_array_equal(of_unnamed.predict_proba(inputs), expected)


def test_numbers_of_extended_precision_are_those_of_double_precision() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    extended, double = (KernelRegressor().fit(inputs.astype(kind), targets) for kind in (np.longdouble, np.float64))
    np.testing.assert_array_equal(extended.predict(inputs.astype(np.longdouble)), double.predict(inputs))


def test_labels_and_names_are_kept_in_the_model() -> None:
    table, labels = mixed(200)
    fitted = KernelClassifier(budget_seconds=1).fit(table, pd.Series(labels, name="town"))  # the name of a column, too
    assert fitted.model_.schema.labels == ("goes", "stays")
    assert fitted.model_.schema.target == "town'"
    np.testing.assert_array_equal(fitted.model_.predict(table), fitted.predict(table))
    kinds: list[Callable[[Any], Any]] = [
        lambda y: (y == "goes") * 5 + 2,
        lambda y: (y == "goes") * 2.0,
        lambda y: y == "goes",
    ]
    for kind in kinds:
        coded = KernelClassifier(budget_seconds=1).fit(table, kind(labels))
        np.testing.assert_array_equal(coded.predict(table), kind(fitted.predict(table)))
        assert coded.model_.schema.labels == tuple(coded.classes_.tolist())
        assert [*map(type, coded.model_.schema.labels)] == [*map(type, coded.classes_.tolist())]
        np.testing.assert_array_equal(coded.model_.predict(table), coded.predict(table))
        assert coded.model_.evaluate(table, kind(labels))["accuracy"] == coded.score(table, kind(labels))
    with pytest.raises(DataError, match="was trained on booleans"):
        coded.model_.evaluate(table, labels)


def word_counts(n_rows: int, n_columns: int) -> tuple[sparse.csr_array, Any]:
    """Return word counts of three classes with different words, and labels."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, n_rows)
    columns = np.stack([kinds, *(3 + rng.integers(0, n_columns - 3, (5, n_rows)))])
    counts = sparse.coo_array((np.ones(columns.size), (np.tile(np.arange(n_rows), 6), columns.ravel())))
    return sparse.csr_array(counts), kinds


def test_sparse_rows_of_many_columns_have_the_weights_of_okl_train_on_all_of_them(tmp_path: Path) -> None:
    rows, kinds = word_counts(900, 1500)
    dense = rows.toarray()
    dense[:600, -1] = 0.0  # the last column is empty in all training rows
    rows, labels = sparse.csr_array(dense), np.array(["a", "b", "c"])[kinds]
    model = KernelClassifier(validation="rows").fit(rows[:600], labels[:600])
    assert model.settings_.solver == "l2-svm"
    assert model.score(rows[600:], labels[600:]) > 0.95
    dump_svmlight_file(rows[:600], kinds[:600], str(tmp_path / "rows.svm"), zero_based=True)
    okl.ingest(tmp_path / "rows.svm", tmp_path / "set", task="multiclass", storage="sparse", svmlight_index=0)
    own = {name: getattr(model.settings_.options, name) for name in ("C", "tol")}
    trained: Any = okl.train(tmp_path / "set", solver="l2-svm", kernel="linear", **own).model
    of_rows: Any = model.model_.predictor
    np.testing.assert_array_equal(of_rows.base.weights, trained.predictor.weights)
    expected = model.decision_function(rows[600:])
    # values in two parts, the order of the indices and zeros change nothing
    at = sparse.coo_array(rows[600:])
    parts = np.repeat(at.data / 2, 2)[::-1], np.repeat(np.stack(at.coords), 2, axis=1)[:, ::-1]
    for given in (sparse.coo_array(parts, shape=at.shape), dense[600:]):
        np.testing.assert_array_equal(model.decision_function(given), expected)


def test_sparse_rows_of_few_columns_are_an_array() -> None:
    rows, kinds = word_counts(200, 20)
    dense, other = (
        KernelClassifier(validation="rows").fit(given, kinds) for given in (rows.toarray(), sparse.csc_matrix(rows))
    )
    assert dense.settings_.solver != "l2-svm"
    np.testing.assert_array_equal(dense.decision_function(rows), other.decision_function(rows.toarray()))


def test_too_many_sparse_columns_are_refused() -> None:
    with pytest.raises(DataError, match=r"^X has 1,500,000 columns, but sparse rows have at most 1,000,000\. Select"):
        KernelClassifier().fit(sparse.csr_array((4, 1_500_000)), [0, 1, 0, 1])


def test_weights_of_sparse_rows_are_refused() -> None:
    rows, kinds = word_counts(60, 1500)
    with pytest.raises(
        ConfigError, match="sample_weight is given with sparse rows, whose models take weights of classes"
    ):
        KernelClassifier().fit(rows, kinds, sample_weight=np.ones(60))


def test_classes_between_others_are_predicted() -> None:
    """Concentric shells: the scores of least squares alone are correct on 69% of the new rows."""
    inputs, shells = make_gaussian_quantiles(n_samples=1000, n_features=5, n_classes=4, random_state=0)
    model = KernelClassifier(random_state=0).fit(inputs[:700], shells[:700])
    assert (model.predict(inputs[700:]) == shells[700:]).mean() > 0.85


def test_classes_that_planes_separate_have_logistic_regression_and_its_probabilities() -> None:
    rng = np.random.default_rng(0)
    centres, classes = rng.standard_normal((4, 10)) * 0.5, rng.integers(0, 4, 1500)
    inputs = centres[classes] + rng.standard_normal((1500, 10)) * 0.8
    model = KernelClassifier(budget_seconds=5.0).fit(inputs[:1000], classes[:1000])
    assert model.settings_.solver == "logistic"
    held, found = np.arange(500), model.predict_proba(inputs[1000:])
    peer = LogisticRegression().fit(inputs[:1000], classes[:1000])
    losses = [-np.log(each[held, classes[1000:]]).mean() for each in (found, peer.predict_proba(inputs[1000:]))]
    assert losses[0] < losses[1] + 0.02
    assert model.score(inputs[1000:], classes[1000:]) > peer.score(inputs[1000:], classes[1000:]) - 0.02
    equal = clone(model).fit(inputs[:1000], classes[:1000], np.full(1000, 2.0)).predict_proba(inputs[1000:])
    assert np.abs(equal - found).mean() < 0.03


def test_values_in_some_rows_have_an_input_and_others_are_noted() -> None:
    rng = np.random.default_rng(4)
    shop = rng.integers(0, 150, size=3000)
    good = rng.random(150)
    table, labels = pd.DataFrame({"shop": [f"s{one}" for one in shop]}), rng.random(3000) < good[shop]
    fits = [
        KernelClassifier(random_state=0, max_categories=most).fit(table[:2000], labels[:2000]) for most in (64, None)
    ]
    (note,), none = (fit.notes_ for fit in fits)
    rarest = table["shop"][:2000].value_counts().iloc[63]
    assert note.startswith(f"The 64 most frequent values of shop, each in at least {rarest} training rows, are inputs;")
    assert note.endswith("% of the rows, share one (max_categories).")
    assert none == ()
    few, all_values = (fit.score(table[2000:], labels[2000:]) for fit in fits)
    assert all_values > few + 0.05
    with pytest.raises(ConfigError, match=r"max_categories = 0; expected an integer of at least 1"):
        KernelClassifier(max_categories=0).fit(table, labels)


def test_online_choice_has_probabilities_from_rows_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okl.runs.model_sizes._LONG_SECONDS", 0.0)  # as of very many rows
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((1500, 2))
    labels = np.digitize(inputs[:, 0] * inputs[:, 1], [-0.5, 0.5])
    model = KernelClassifier(budget_seconds=0.01).fit(inputs[:1000], labels[:1000])
    assert model.settings_.solver == "fogd"
    found = model.predict_proba(inputs[1000:])
    assert -np.log(found[np.arange(500), labels[1000:]]).mean() < 0.5  # the class shares give 1.03
    weighted = clone(model).fit(inputs[:1000], labels[:1000], np.where(labels[:1000] == 0, 20.0, 1.0))
    assert (weighted.predict(inputs) == 0).sum() > (model.predict(inputs) == 0).sum()
    assert weighted.score(inputs[1000:], labels[1000:]) > 0.8


# Sample weights.


def test_rows_held_out_for_probabilities_have_the_inputs_of_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    random = np.random.default_rng(0)
    table = pd.DataFrame({"a": random.normal(size=300), "b": random.normal(size=300)})
    table["word"] = random.integers(0, 70, 300).astype(str)  # some values have an input in all rows only
    target = np.where(table["a"] + 0.3 * random.normal(size=300) > 0.0, "yes", "no")
    model = KernelClassifier(validation="blocks", budget_seconds=2.0, max_categories=70).fit(table, target)
    assert model.choice_["validation"] == "blocks"
    assert np.isfinite(model.predict_proba(table)).all()
    assert model.score(table, target) > 0.8


@pytest.mark.parametrize("n_classes", [2, 3])
def test_whole_weights_equal_repeated_rows(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    inputs, classes = rng.standard_normal((120, 3)), rng.integers(0, n_classes, 120)
    targets = np.asarray(classes if n_classes > 2 else 2 * classes - 1, dtype=np.float64)
    counts = rng.integers(1, 4, 120)
    weights, repeated = counts.astype(np.float64), np.repeat(np.arange(120), counts)
    basis = LandmarkBasis(Gaussian(1.0), inputs[:40])
    outputs = Outputs("multiclass", 3, (1.0, 2.0, 0.5)) if n_classes > 2 else Outputs("binary", 1, (1.0, 2.0))
    weighted = fit_rows(basis, WeightedRows(inputs, targets, weights), outputs, 1e-2)
    several = fit_rows(basis, Rows(inputs[repeated], targets[repeated]), outputs, 1e-2)
    np.testing.assert_allclose(weighted.weights, several.weights, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(weighted.offsets, several.offsets, rtol=1e-8)
    scores = rng.standard_normal((120, 3)) if n_classes > 2 else rng.standard_normal(120)
    scores = scores + (np.eye(3)[classes] if n_classes > 2 else classes)
    calibrations = fit_calibration(scores, classes, weights), fit_calibration(scores[repeated], classes[repeated])
    np.testing.assert_allclose(calibrations[0].slope, calibrations[1].slope, rtol=1e-4)
    np.testing.assert_allclose(calibrations[0].offsets, calibrations[1].offsets, atol=1e-4)


@pytest.mark.parametrize(("share", "solver"), [(0.5, "ridge"), (0.12, "logistic")])
def test_equal_weights_change_nothing_and_others_do(share: float, solver: str) -> None:
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((300, 3))
    signal = inputs[:, 0] * inputs[:, 1] if share == 0.5 else inputs[:, 0]
    noisy = signal + 0.7 * rng.standard_normal(300)
    labels = noisy > np.quantile(noisy, 1.0 - share)
    weights = np.where(labels, 4.0, 1.0)
    fits = [KernelClassifier().fit(inputs, labels, given) for given in (None, np.full(300, 3.0), weights)]
    assert {fit.settings_.solver for fit in fits} == {solver}
    plain, equal, more = (fit.predict_proba(inputs)[:, 1] for fit in fits)
    np.testing.assert_allclose(equal, plain, atol=2e-3)
    assert more.mean() > plain.mean() + 0.05
    assert abs(np.average(more, weights=weights) - np.average(labels, weights=weights)) < 0.02


def test_rows_of_weight_0_are_left_out() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    wrong = np.concatenate([targets, -targets])
    weights = np.repeat([1.0, 0.0], len(targets))
    fitted = KernelRegressor().fit(np.vstack([inputs, inputs]), wrong, weights)
    other = KernelRegressor().fit(inputs, targets, np.ones(len(targets)))
    np.testing.assert_array_equal(fitted.predict(inputs), other.predict(inputs))
    labels = targets > 100
    with pytest.raises(DataError, match=r"Every row of class True has sample_weight 0"):
        KernelClassifier().fit(inputs, labels, ~labels)
    counted = np.where(labels & (np.arange(len(labels)) % 4 > 0), 0.0, 1.0)  # other shares of the classes
    balanced = KernelClassifier(class_weight="balanced").fit(inputs, labels, counted)
    left = counted > 0.0
    without = KernelClassifier(class_weight="balanced").fit(inputs[left], labels[left], counted[left])
    np.testing.assert_array_equal(balanced.predict_proba(inputs), without.predict_proba(inputs))


# Invalid parameters and rows.


def test_class_weights_favour_their_class_and_accuracy_is_cross_validated() -> None:
    inputs, labels = (part[:300] for part in load_breast_cancer(return_X_y=True))
    assert cross_val_score(KernelClassifier(), inputs, labels, cv=2).mean() > 0.93
    hidden = inputs[:, :2]
    shares = [
        (KernelClassifier(class_weight=weight).fit(hidden, labels).predict(hidden) == 0).mean()
        for weight in ({1: 3.0}, None, {0: 3.0})
    ]
    assert shares[0] < shares[1] < shares[2]
    fitted = KernelClassifier(class_weight={0: 3.0}).fit(hidden, labels)
    np.testing.assert_array_equal(fitted.predict(hidden), fitted.predict_proba(hidden)[:, 1] >= fitted.threshold_)
    assert fitted.threshold_ == pytest.approx(0.75)
    with pytest.raises(ConfigError, match=r"class_weight has the label 'yes', but y holds 0, 1\. Give weights"):
        KernelClassifier(class_weight={"yes": 3.0}).fit(hidden, labels)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"split": "train"}, ConfigError, "A text column named 'split' divides rows"),
        ({"x": [[1]] * 200}, DataError, r"X: column 'x' is of type list.* Convert it or leave it out\.$"),
        (
            {"x": pd.to_timedelta(range(200), "h")},
            DataError,
            r"Convert it .*total_seconds\(\)\) or leave it out",
        ),
        ({"x": pd.arrays.SparseArray([0.0, 1.0] * 100)}, DataError, r"Column 'x' is sparse; .* \.sparse\.to_dense\(\)"),
        ({"x": [2**70] * 200}, DataError, "Column 'x' holds whole numbers beyond 64 bits"),
        ({"x": [b"\xff"] * 200}, DataError, r"X: column 'x' holds bytes .*type string\) or leave it out\.$"),
        ({"x": [1, "a"] * 100}, ModelError, "mixed or unknown types: .*Conversion failed for column x"),
    ],
)
def test_columns_that_are_no_inputs_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    table, labels = mixed(200)
    with pytest.raises(error, match=message):
        KernelClassifier().fit(table.assign(**change), labels)


class _Lazy:
    """A lazy frame like those of polars."""

    columns = ("a",)

    def collect(self) -> None: ...


def test_lazy_frames_are_refused() -> None:
    fitted = KernelRegressor().fit(pd.DataFrame({"a": np.arange(20.0)}), np.arange(20.0))
    for call in (lambda: fitted.fit(_Lazy(), np.arange(3)), lambda: fitted.predict(_Lazy())):
        with pytest.raises(
            ModelError, match=r"Expected a table or an array, but got _Lazy\. Call its method collect\."
        ):
            call()


def test_notes_name_no_options_of_commands() -> None:
    table, labels = mixed(200)
    changed = table.assign(id=np.arange(200) + 7, key=[f"id{i}" for i in range(200)])
    changed["words of it"] = [f"words to read in row {i}" for i in range(200)]
    notes = KernelClassifier(budget_seconds=1).fit(changed, labels).notes_
    assert len(notes) == 3
    assert not any("--" in note for note in notes)
    assert any('text="words of it" takes their words' in note for note in notes)


def test_columns_that_lose_digits_give_a_warning() -> None:
    inputs, targets = (part[:60] for part in load_diabetes(return_X_y=True))
    far = np.column_stack([inputs[:, 2], inputs[:, 3] + 1e8])
    with pytest.warns(UserWarning, match=r"Values of x1 are near 1e\+08 .* most of the differences are lost"):
        KernelRegressor(budget_seconds=1).fit(far, targets)


def test_parameters_are_checked() -> None:
    inputs, labels = load_iris(return_X_y=True)
    with pytest.raises(
        DataError, match=r"X: column 'a', named by text, is of type double; expected text\. Remove text"
    ):
        KernelClassifier(text="a").fit(pd.DataFrame(inputs[:, :1], columns=["a"]), labels)
    with pytest.raises(DataError, match=r"X has no text column 'b'\. Its columns are a\.$"):
        KernelClassifier(text="b").fit(pd.DataFrame(inputs[:, :1], columns=["a"]), labels)
    with pytest.raises(ConfigError, match=r"KernelClassifier: budget_seconds = -1"):
        KernelClassifier(budget_seconds=-1).fit(inputs, labels)
    with pytest.raises(ConfigError, match=r"KernelClassifier: random_state = -1: input should be greater"):
        KernelClassifier(random_state=-1).fit(inputs, labels)
    with pytest.raises(ConfigError, match=r"n_jobs = 1\.5; expected a whole number"):
        KernelClassifier(n_jobs=cast(Any, 1.5)).fit(inputs, labels)
    with pytest.raises(ConfigError, match=r"KernelClassifier: class_weight = {'0': 1\.0, '1': -5\.0}"):
        KernelClassifier(class_weight={0: 1.0, 1: -5.0}).fit(inputs[:100], labels[:100])
    with pytest.raises(ConfigError, match=r"kernel = 'rbf': .*'linear' \(did you mean 'gaussian'\?\)"):
        okl.KernelRidgeClassifier(kernel="rbf").fit(inputs, labels)
    with pytest.raises(ConfigError, match=r"optimise = 'auc'"):
        KernelClassifier(optimise="auc").fit(inputs, labels)


@pytest.mark.parametrize(
    ("last", "message"),
    [(7.0, "Every target is 7; expected"), (np.nan, "Input y contains NaN in 1 of 10 rows, first in row 9.")],
)
def test_targets_that_are_all_equal_or_missing_are_refused(last: float, message: str) -> None:
    inputs = np.random.default_rng(0).normal(size=(10, 2))
    for rows in (inputs, pd.DataFrame(inputs, columns=["a", "b"])):
        with pytest.raises(DataError, match=message):
            KernelRegressor().fit(rows, np.r_[np.full(9, 7.0), last])


@pytest.mark.parametrize("absent", [None, np.nan, pd.NA])
def test_labels_that_are_missing_and_tables_without_rows_are_refused(absent: object) -> None:
    rows = pd.DataFrame({"a": np.arange(6.0), "b": list("uvwuvw")})
    labels = pd.Series(["no", absent, "yes", "no", absent, "yes"], dtype=object)
    for inputs in (rows, rows[["a"]].to_numpy()):
        with pytest.raises(DataError, match="Input y contains NaN in 2 of 6 rows, first in row 1"):
            KernelClassifier().fit(inputs, labels)
    for estimator in (KernelClassifier(), KernelRegressor()):
        with pytest.raises(DataError, match="X has no rows; expected at least two"):
            estimator.fit(rows.iloc[:0], labels.iloc[:0])
        with pytest.raises(DataError, match="X has no columns; expected at least one"):
            estimator.fit(rows[[]], np.arange(6))


def test_targets_that_are_dates_are_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 2))
    for dates in (pd.Series(pd.date_range("2026-01-01", periods=6)), np.arange(6).astype("m8[h]")):
        for estimator in (KernelRegressor(), okl.KernelRidgeRegressor(), okl.FOGDRegressor(), okl.SCSRegressor()):
            with pytest.raises(DataError, match=r"y holds dates or times \(.*\); expected numbers, such as days since"):
                estimator.fit(rows, dates)


def test_targets_that_are_words_are_named() -> None:
    inputs = np.random.default_rng(0).normal(size=(6, 2))
    texts = pd.Series(["1.5", "no", None, "yes", "2", "3"], name="churned")
    for estimator in (KernelRegressor(), okl.KernelRidgeRegressor(), okl.FOGDRegressor()):
        for rows in (inputs, pd.DataFrame(inputs, columns=["a", "b"])):
            with pytest.raises(
                DataError, match=r"The target churned holds 'no'; expected numbers\. Classes need a cla"
            ):
                estimator.fit(rows, texts)
            with pytest.raises(DataError, match=r"The target y holds 'no'"):
                estimator.fit(rows, np.array(["no"] * 6))


def test_targets_as_text_are_numbers_and_none_is_missing() -> None:
    inputs, targets = (part[:60] for part in load_diabetes(return_X_y=True))
    for estimator in (okl.KernelRidgeRegressor(), okl.FOGDRegressor(), okl.SCSRegressor(), okl.LocalRidgeRegressor()):
        estimator.set_params(random_state=0)
        expected = clone(estimator).fit(inputs, targets).predict(inputs)
        np.testing.assert_array_equal(clone(estimator).fit(inputs, targets.astype(str)).predict(inputs), expected)
        with pytest.raises(ValueError, match="Input y contains NaN"):
            estimator.fit(inputs, [None, *targets[1:]])


def test_a_class_of_too_few_rows_for_probabilities_is_noted() -> None:
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["red", "dog", "sun", "rain"], 6)) for _ in range(400)]
    rare, dogs = np.arange(400) % 133 == 0, [text.count("dog") > 1 for text in texts]
    table = pd.DataFrame({"body": texts})
    model = KernelClassifier(text="body", budget_seconds=2).fit(table, np.where(rare, "rare", "other"))
    assert model.notes_ == ("The model has no probabilities: a class has too few held-out rows. Give more rows of it.",)
    assert not hasattr(model, "predict_proba")
    model.fit(table, np.where(rare, "rare", np.where(dogs, "a", "b")))
    assert len(model.notes_) == 0
    assert model.predict_proba(table)[rare, 2].mean() < 0.1, "the others have theirs"


def test_predict_without_a_file_names_the_method_for_rows_in_memory() -> None:
    with pytest.raises(
        ConfigError, match=r'give it out="scores.csv"\. For predictions in memory, use okl\.load\(MODEL\)'
    ):
        okl.predict("model", pd.DataFrame({"a": [1]}))


def test_functions_take_a_fitted_estimator(tmp_path: Path) -> None:
    table, labels = mixed(200)
    fitted, rows = KernelClassifier(budget_seconds=1).fit(table, labels), table.assign(y=labels)
    assert okl.evaluate(fitted, rows)["metrics"] == okl.evaluate(fitted.model_, rows)["metrics"]
    assert okl.predict(fitted, table, tmp_path / "scores.csv")["model"] == "model in memory"
    assert okl.explain(fitted, rows)["folder"] == "model in memory"
    of_numbers = KernelRegressor().fit(np.arange(20.0)[:, np.newaxis], np.arange(20.0))
    assert okl.export(of_numbers, tmp_path / "model.skops")["model"] == "model in memory"
    with pytest.raises(ModelError, match=r"model is of type KernelClassifier; .* or a fitted okl\.KernelClassifier"):
        okl.evaluate(KernelClassifier(), rows)


def test_progress_is_shown_on_request_and_in_a_notebook(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("okl.report.progress.FIRST_SECONDS", 0.0)
    table, labels = mixed(200)
    KernelClassifier(budget_seconds=1).fit(table, labels)
    okl.train(table.assign(y=labels), solver="ridge", out=tmp_path / "script")
    assert capfd.readouterr().err == ""
    KernelClassifier(budget_seconds=1, verbose=True).fit(table, labels)
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if line.endswith(" ...")][:2] == ["reading rows ...", "trying encodings ..."]
    assert "training ..." in lines
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    okl.train(table.assign(y=labels), solver="ridge", out=tmp_path / "notebook")
    assert "writing the report ..." in capfd.readouterr().err.splitlines()
    assert not [thread for thread in threading.enumerate() if thread.name == "okl-progress"]


def test_a_column_of_numbers_as_text_is_left_out_with_a_warning() -> None:
    inputs, targets = load_diabetes(return_X_y=True)
    table = pd.DataFrame({"a": inputs[:, 2], "t": [f"{index}.25" for index in range(len(inputs))]})
    with pytest.warns(UserWarning, match="Column 't' is left out: .* are numbers stored as text"):
        fitted = KernelRegressor(budget_seconds=1).fit(table, targets)
    assert sum("numbers stored as text" in note for note in fitted.notes_) == 1
