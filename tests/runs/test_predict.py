"""`okl predict MODEL -`: rows from standard input, scores to standard output."""

from __future__ import annotations

import gzip
import io
import json
import re
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import okl
from flows.cli.predict import scored_text
from okl.features.predictors import CalibratedPredictor, LinearPredictor
from okl.foundation.errors import ConfigError, DataError, DivergedError, LocationError, ModelError, OklError
from okl.foundation.folders import atomic_file
from okl.foundation.settings import settings_from
from okl.models.file import Model, load_model, save_model
from okl.runs import predict
from okl.runs.predict import SCORE_STAGES, ScoreSettings, ScoringRun, check_score, score_stream
from tests.flows.commandline import Terminal
from tests.models.test_file import make_model
from tests.rows import curved, inputs_of, scores_of, train, train_settings, write

# `okl predict MODEL -`: rows from standard input, scores to standard output.


@pytest.fixture
def rows(tmp_path: Path) -> pa.Table:
    """Return rows for the saved model in the folder `model`."""
    save_model(make_model("multiclass"), tmp_path / "model")
    draw = np.random.default_rng(1).standard_normal((300, 2)) * 4.0
    values = draw.astype(np.float32).astype(np.float64)
    return pa.table({"height": values[:, 0], "id": [f"row {i}" for i in range(300)], "width": values[:, 1]})


def piped(model: Path, content: bytes) -> pa.Table:
    out = io.BytesIO()
    assert score_stream(str(model), io.BytesIO(content), out) == 300
    return pacsv.read_csv(io.BytesIO(out.getvalue()))


def test_piped_rows_have_the_scores_of_a_recorded_run(rows: pa.Table, tmp_path: Path) -> None:
    as_csv, as_parquet = io.BytesIO(), io.BytesIO()
    pacsv.write_csv(rows, as_csv)
    pq.write_table(rows, as_parquet)
    pq.write_table(rows, tmp_path / "rows.parquet")
    okl.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "scores")
    expected = pq.read_table(tmp_path / "scores")
    assert len(set(expected["prediction"].to_pylist())) == 3
    with_commas = rows.to_pandas().to_csv(sep=";", decimal=",", index=False).encode()
    as_gzip = io.BytesIO(gzip.compress(with_commas))
    for content in (as_csv, as_parquet, as_gzip):
        found = piped(tmp_path / "model", content.getvalue())
        assert found.column_names == expected.column_names
        assert found["id"].equals(expected["id"])
        assert found["prediction"].equals(expected["prediction"])
        for name in expected.column_names[1:-1]:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


def test_bad_rows_are_named_and_no_scores_are_written(rows: pa.Table, tmp_path: Path) -> None:
    content, out = io.BytesIO(), io.BytesIO()
    pacsv.write_csv(rows.drop_columns(["width"]), content)
    with pytest.raises(DataError, match=r"standard input: .* missing: 'width'"):
        score_stream(str(tmp_path / "model"), io.BytesIO(content.getvalue()), out)
    with pytest.raises(DataError, match="Standard input is empty"):
        score_stream(str(tmp_path / "model"), io.BytesIO(b""), out)
    word = rows.to_pandas().astype({"width": object})
    word.loc[7:8, "width"] = ["abc", "def"]
    named = r"standard input: column 'width', row 7 \(counted from 0\) holds 'abc', but the model requires a number"
    for separator in (",", ";"):
        with pytest.raises(DataError, match=named):
            score_stream(str(tmp_path / "model"), io.BytesIO(word.to_csv(sep=separator).encode()), out)
    assert out.getvalue() == b""


def test_options_of_recorded_runs_are_refused(
    rows: pa.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(capsys, monkeypatch)
    assert (
        "with --key, --threshold and --registry as the only options"
        in terminal.okl("predict", tmp_path / "model", "-", "--json").sentence
    )


def test_one_file_has_the_rows_of_the_folder(rows: pa.Table, tmp_path: Path) -> None:
    pq.write_table(rows, tmp_path / "rows.parquet")
    in_folder = okl.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "scores")
    expected = pq.read_table(tmp_path / "scores")
    for name in ("made/one.csv", "one.parquet"):
        one = okl.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / name)
        assert one["out"] == str(tmp_path / name)
        assert one["predictions"] == in_folder["predictions"]
        table = (pacsv.read_csv if name.endswith("csv") else pq.read_table)(tmp_path / name)
        assert table["id"].equals(expected["id"])
        assert table.column_names == expected.column_names
        for column in expected.column_names[1:4]:
            np.testing.assert_allclose(table[column], expected[column], rtol=1e-6)
        with pytest.raises(ConfigError, match="exists already"):
            okl.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / name)
    pq.write_table(rows.drop_columns(["width"]), tmp_path / "narrow.parquet")
    with pytest.raises(DataError, match="missing: 'width'"):
        okl.predict(tmp_path / "model", tmp_path / "narrow.parquet", tmp_path / "none" / "narrow.csv")
    assert not (tmp_path / "none").exists()
    with pytest.raises(ConfigError, match="With workers, give a folder"):
        okl.predict(tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "two.csv", workers=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b\x08cut off", "standard input cannot be unpacked as gzip"),
        (b"height,width\n1,2\n3,wide\n", "standard input: column 'width', row 1 .* holds 'wide'"),
        (b"height,width\n1\n", r"standard input, row 0 .*: expected 2 values, got 1"),
    ],
)
def test_errors_in_piped_rows_do_not_name_a_temporary_file(
    rows: pa.Table, tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as raised:
        score_stream(str(tmp_path / "model"), io.BytesIO(content), io.BytesIO())
    assert "/" not in str(raised.value)


# Scores computed out of core equal the scores in memory, row by row, on any worker.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs of the three tasks: binary/, multiclass/, regression/."""
    folder = tmp_path_factory.mktemp("trained")
    for task in ("binary", "multiclass", "regression"):
        source = write(folder, curved(900, task), f"{task}.parquet")
        scaled = {"scale": "standard", "scale_target": task == "regression"}
        train(train_settings(source, folder / task, scaled, passes=3))
    return folder


def settings(model: Path, source: Path, out: Path, **values: Any) -> ScoreSettings:
    given = {"model": str(model), "source": str(source), "out": str(out)} | values
    return settings_from(ScoreSettings, given, "test")


def score(model: Path, source: Path, out: Path, **values: Any) -> dict[str, Any]:
    return finished(ScoringRun(settings(model, source, out, **values)))


def finished(run: ScoringRun) -> dict[str, Any]:
    try:
        for stage in SCORE_STAGES:
            run.perform_stage(stage)
        return run.result()
    finally:
        run.close()


def expected_scores(model: Model, rows: pa.Table) -> np.ndarray[Any, Any]:
    return np.asarray(model.scores(inputs_of(rows)))


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_scores_of_raw_rows_are_those_in_memory_in_their_order(task: Any, folder: Path, tmp_path: Path) -> None:
    rows = curved(2500, task, seed=8, name=[f"row {i}" for i in range(2500)])
    source = write(tmp_path, rows.select(["split", "c", "name", "a", "b"]), row_group_size=700)
    result = score(folder / task / "model", source, tmp_path / "out", keys=["name"])
    model, written = load_model(folder / task / "model"), scores_of(tmp_path / "out")
    assert (result["rows"], result["files"]) == (2500, len(list((tmp_path / "out").glob("part-*.parquet"))))
    assert written.column("name").to_pylist() == rows.column("name").to_pylist()
    columns = [name for name in written.column_names if name.startswith("score")]
    assert len(columns) == (3 if task == "multiclass" else 1)
    scores = np.column_stack([written.column(name).to_numpy() for name in columns])
    np.testing.assert_array_equal(np.squeeze(scores), expected_scores(model, rows))
    predicted = model.predict(inputs_of(rows))
    assert written.column("prediction").to_pylist() == predicted.tolist()
    assert len(np.unique(predicted)) >= (2 if task != "multiclass" else 3), "the predictions are not degenerate"
    if task == "regression":
        assert 30 < result["mean_prediction"] < 70, "in the target's own unit"
        assert result["mean_prediction"] == pytest.approx(predicted.mean())
    else:
        labels, counts = np.unique(predicted, return_counts=True)
        assert result["predictions"] == {str(label): count for label, count in zip(labels, counts, strict=True)}
    assert json.loads((tmp_path / "out" / "_scores.json").read_text()) == result


def test_csv_and_parquet_of_the_same_rows_give_the_same_scores(folder: Path, tmp_path: Path) -> None:
    rows = curved(500, seed=9).select(["a", "b", "c"])
    exact = pa.table({name: rows.column(name).cast(pa.float64()) for name in "abc"})
    pyarrow.csv.write_csv(exact, tmp_path / "rows.csv")
    write(tmp_path, rows)
    for name in ("rows.csv", "rows.parquet"):
        score(folder / "binary" / "model", tmp_path / name, tmp_path / f"of-{name}")
    assert scores_of(tmp_path / "of-rows.csv").equals(scores_of(tmp_path / "of-rows.parquet"))


def test_a_data_set_is_scored_in_the_order_of_its_shards(folder: Path, tmp_path: Path) -> None:
    result = score(folder / "multiclass" / "model", folder / "multiclass" / "data", tmp_path / "out")
    rows = curved(900, "multiclass")
    is_test = np.array(rows.column("split").to_pylist()) == "test"
    stored = np.concatenate([np.flatnonzero(~is_test), np.flatnonzero(is_test)])
    predicted = load_model(folder / "multiclass" / "model").predict(inputs_of(rows))
    assert scores_of(tmp_path / "out").column("prediction").to_pylist() == predicted[stored].tolist()
    assert result["rows"] == 900


@pytest.mark.parametrize(("missing", "empty"), [("drop", True), ("zero", False)])
def test_rows_with_missing_values_keep_their_position(missing: str, empty: bool, folder: Path, tmp_path: Path) -> None:
    rows = curved(600)
    holes = rows.column("b").to_numpy().copy()
    holes[::7] = np.nan
    with_missing = write(tmp_path, rows.set_column(1, "b", pa.array(holes, from_pandas=True)))
    assert train(train_settings(with_missing, tmp_path / "run", {"missing": missing}))["rows"] > 0
    result = score(tmp_path / "run" / "model", with_missing, tmp_path / "out")
    written = scores_of(tmp_path / "out")
    assert result["rows"] == 600
    absent = np.arange(600) % 7 == 0
    for name in ("score", "prediction"):
        nulls = written.column(name).is_null().to_numpy()
        np.testing.assert_array_equal(nulls, absent if empty else np.zeros(600, dtype=bool))
    model = load_model(tmp_path / "run" / "model")
    kept = ~absent if empty else np.ones(600, dtype=bool)
    filled = inputs_of(rows)
    filled[absent, 1] = 0.0
    expected = model.scores(filled[kept])
    np.testing.assert_array_equal(written.filter(pa.array(kept)).column("score").to_numpy(), expected)
    counted = sum(result["predictions"].values())
    assert counted == result["scored"] == kept.sum()


def saved(task: str, folder: Path, weights: float | None = None) -> Path:
    """Save a model of two columns that drops rows with missing values, with constant weights if given."""
    made = make_model(task)
    found = made.predictor.arrays()["weights"] if weights is None else np.full((made.predictor.n_outputs, 32), weights)
    assert isinstance(made.predictor, LinearPredictor)
    predictor = replace(made.predictor, weights=np.asarray(found, dtype=np.float32))
    save_model(replace(made, schema=replace(made.schema, missing="drop"), predictor=predictor), folder)
    return folder


def test_the_mean_prediction_is_that_of_rows_with_a_score(tmp_path: Path) -> None:
    model = saved("regression", tmp_path / "model")
    with_missing = write(
        tmp_path, pa.table({"width": [None, 1.0, 2.0, None, 7.0], "height": [1.0, 2.0, -2.0, 0.0, 1.0]})
    )
    run = ScoringRun(settings(model, with_missing, tmp_path / "out"))
    result = finished(run)
    assert run.metrics_table()[1] == {"prediction": "(no score)", "value": 2}
    lines = scored_text(result).splitlines()
    assert lines[0].startswith("3 rows scored by ")
    assert lines[1] == "rows without a score because of a missing value (missing = drop): 2"
    written = scores_of(tmp_path / "out").column("prediction").drop_null().to_numpy()
    assert (result["rows"], result["scored"], len(written)) == (5, 3, 3)
    assert result["mean_prediction"] == pytest.approx(written.mean())
    bare = write(tmp_path, pa.table({"width": pa.array([None], pa.float64()), "height": [1.0]}), "bare.parquet")
    none = score(model, bare, tmp_path / "none")
    assert (none["rows"], none["scored"], none["mean_prediction"]) == (1, 0, None)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_prediction_of_a_number_is_printed_as_its_score_unless_targets_are_scaled(
    scaled: bool, tmp_path: Path
) -> None:
    made = load_model(saved("regression", tmp_path / "made", 1e8 / 3))
    save_model(replace(made, schema=replace(made.schema, scale_target=scaled)), tmp_path / "model")
    source = write(tmp_path, pa.table({"width": [1.0, 2.0], "height": [1.0, 2.0]}))
    okl.predict(tmp_path / "model", source, tmp_path / "scores.csv")
    lines = (tmp_path / "scores.csv").read_text().splitlines()[1:]
    pairs = [line.split(",") for line in lines]
    assert [score == prediction for score, prediction in pairs] == [not scaled] * 2
    assert all(abs(float(score)) > 1e7 for score, _ in pairs)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_scores_that_are_not_finite_are_no_predictions(task: str, tmp_path: Path) -> None:
    model = saved(task, tmp_path / "model", np.nan)
    source = write(tmp_path, pa.table({"width": [None, 1.0], "height": [1.0, 2.0]}))
    with pytest.raises(DivergedError, match=r"rows\.parquet: the model's score of row 1 .* is NaN or infinite"):
        score(model, source, tmp_path / "deep" / "out")
    assert sorted(tmp_path.iterdir()) == [model, source]
    out = io.BytesIO()
    with pytest.raises(DivergedError, match=r"^standard input: the model's score of row 1 "):
        score_stream(str(model), io.BytesIO(b"width,height\n,1\n1,2\n"), out)
    assert out.getvalue() == b""


def test_keys_of_the_model_are_copied_to_the_scores_if_present(tmp_path: Path) -> None:
    rows = curved(300, id=[f"{i:03d}" for i in range(300)])
    source = write(tmp_path, rows)
    train(train_settings(source, tmp_path / "run", {"keys": ["id"]}, frequencies=10))
    score(tmp_path / "run" / "model", source, tmp_path / "out", keys=["y"])
    written = scores_of(tmp_path / "out")
    assert written.column_names == ["id", "y", "score", "prediction", "probability_0", "probability_1"]
    assert written.column("id").equals(rows.column("id"))
    assert written.column("y").equals(rows.column("y"))
    bare = write(tmp_path, rows.drop_columns(["id"]), "bare.parquet")
    score(tmp_path / "run" / "model", bare, tmp_path / "bare")
    assert scores_of(tmp_path / "bare").column_names == ["score", "prediction", "probability_0", "probability_1"]
    both = np.column_stack([written[f"probability_{label}"].to_numpy() for label in (0, 1)])
    np.testing.assert_allclose(both.sum(axis=1), 1.0)
    model = load_model(tmp_path / "run" / "model")
    assert isinstance(model.predictor, CalibratedPredictor)
    base = model.predictor.base.scores(model.prepare(rows))
    np.testing.assert_array_equal(base >= 0.0, written["prediction"].to_numpy() == 1)  # calibrated on test rows
    np.testing.assert_array_equal(both[:, 1] >= model.predictor.threshold, base >= 0.0)
    np.testing.assert_array_equal(model.predict_proba(rows), both)
    score(tmp_path / "run" / "model", source, tmp_path / "sure", threshold=0.8)
    sure = scores_of(tmp_path / "sure")
    np.testing.assert_allclose(sure["probability_1"].to_numpy(), both[:, 1], rtol=1e-5)
    np.testing.assert_array_equal(sure["prediction"].to_numpy() == 1, both[:, 1] >= 0.8)
    out = io.BytesIO()
    with source.open("rb") as stream:
        score_stream(str(tmp_path / "run" / "model"), stream, out, threshold=0.8)
    header, *lines = out.getvalue().decode().splitlines()
    assert header == '"id","score","prediction","probability_0","probability_1"'
    assert [line.split(",")[2] for line in lines] == [str(label) for label in sure["prediction"].to_pylist()]


@pytest.mark.parametrize(
    ("task", "threshold", "message"),
    [
        ("binary", 0.3, "The model has no probabilities: it was trained without test rows"),
        ("multiclass", 0.3, "is for two classes, but the model is for multiclass targets"),
        ("binary", 1.5, "threshold = 1.5, but a probability between 0 and 1 is expected"),
    ],
)
def test_thresholds_that_a_model_cannot_use_are_refused(
    task: str, threshold: float, message: str, folder: Path, tmp_path: Path
) -> None:
    save_model(make_model("binary"), tmp_path / "binary")
    model = tmp_path / "binary" if threshold < 1.0 and task == "binary" else folder / task / "model"
    with pytest.raises(OklError, match=re.escape(message)):
        check_score(settings(model, write(tmp_path, curved(50)), tmp_path / "out", threshold=threshold))


def test_a_key_named_like_a_score_is_refused(folder: Path, tmp_path: Path) -> None:
    source = write(tmp_path, curved(50, score=np.arange(50)))
    with pytest.raises(ConfigError, match="'score'"):
        check_score(settings(folder / "binary" / "model", source, tmp_path / "out", keys=["score"]))


def test_scores_are_never_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match="exists already, and okl never overwrites"):
        check_score(settings(folder / "binary" / "model", folder / "binary.parquet", tmp_path / "out"))
    with pytest.raises(ConfigError, match="has no key column 'id'"):
        check_score(settings(folder / "binary" / "model", folder / "binary.parquet", tmp_path / "new", keys=["id"]))
    with pytest.raises(ModelError, match="Give the folder of a trained model"):
        check_score(settings(tmp_path / "out", folder / "binary.parquet", tmp_path / "new"))


def test_the_second_of_two_scorings_into_one_file_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, score_now = tmp_path / "scores.csv", predict._score

    def score_concurrently(*arguments: Any) -> Any:
        result = score_now(*arguments)
        out.write_text("of another command\n")
        return result

    monkeypatch.setattr(predict, "_score", score_concurrently)
    with pytest.raises(ConfigError, match=r"Another command has written .*scores\.csv meanwhile, and it is not over"):
        okl.predict(folder / "binary" / "model", folder / "binary.parquet", out)
    assert out.read_text() == "of another command\n"
    assert [*tmp_path.iterdir()] == [out]


def test_a_full_disk_is_a_sentence_with_the_file(folder: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(LocationError, match=r"/scores\.csv cannot be written: File too large\. Free disk space"):
            okl.predict(folder / "binary" / "model", folder / "binary.parquet", tmp_path / "scores.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*tmp_path.iterdir()]


def test_scoring_that_fails_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    rows = curved(3000, seed=8)
    values = rows.column("c").to_numpy().copy()
    values[2900] = np.inf
    source = write(tmp_path, rows.set_column(2, "c", pa.array(values)), row_group_size=500)
    with pytest.raises(DataError, match=r"rows\.parquet: column 'c' is infinite .*row 2900"):
        score(folder / "binary" / "model", source, tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == [source]


def test_figures_are_kept_for_the_record(folder: Path, tmp_path: Path) -> None:
    run = ScoringRun(settings(folder / "binary" / "model", folder / "binary.parquet", tmp_path / "out"))
    for stage in SCORE_STAGES:
        run.perform_stage(stage)
    run.close()
    assert {row["prediction"] for row in run.metrics_table()} == {"0", "1"}
    report = run.report_markdown()
    assert f"\n\n{run.result()['rows']:,} of {run.result()['rows']:,} rows scored by " in report
    assert f"| rows | {run.result()['rows']:,} |" in report
    assert "{" not in report, "values, not dictionaries"


def test_processes_that_write_one_piece_at_once_have_a_file_each(tmp_path: Path) -> None:
    piece = tmp_path / "part-00000.parquet"
    with atomic_file(piece) as one, atomic_file(piece) as other:
        assert one != other
        for path in (one, other):
            path.write_text(path.name)
    assert piece.read_text() == one.name
    assert list(tmp_path.iterdir()) == [piece]
