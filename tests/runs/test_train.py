"""Training runs depend only on data and settings, and leave complete results or nothing."""

from __future__ import annotations

import errno
import os
import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import okl
from okl.data.describe import describe_text
from okl.data.ingest.run import ingest as run_ingest
from okl.data.manifest import open_dataset
from okl.foundation.errors import ConfigError, DataError, DivergedError, LocationError, OklError
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.telemetry import NullObserver
from okl.models.file import load_model
from okl.report.results import RunResult
from okl.report.training import text_summary
from okl.runs import model_sizes
from okl.runs import train as train_module
from okl.runs.results import assumptions
from okl.runs.train import TRAIN_STAGES, TrainingRun
from okl.solvers.settings import TrainSettings
from tests.rows import Breaker, curved, inputs_of, train, train_settings, write
from tests.runs.small_choice import make_choice_small


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("run")
    return train(train_settings(write(folder, curved()), folder / "run", passes=3))


def test_training_again_gives_the_same_bits_on_any_number_of_threads(result: dict[str, Any], tmp_path: Path) -> None:
    source = write(tmp_path, curved())
    again = [train(train_settings(source, tmp_path / f"{k}", passes=3, threads=k)) for k in (1, 2)]
    assert [other["weights_sha256"] for other in again] == [result["weights_sha256"]] * 2
    other = train(train_settings(source, tmp_path / "seed", passes=3, seed=1))
    assert other["weights_sha256"] != result["weights_sha256"]


def test_a_data_set_gives_the_same_model_as_its_source(result: dict[str, Any], tmp_path: Path) -> None:
    again = train(train_settings(Path(result["run"]) / "data", tmp_path / "again", passes=3))
    assert again["weights_sha256"] == result["weights_sha256"]
    assert not (tmp_path / "again" / "data").exists()


def test_an_error_in_a_source_names_the_source(tmp_path: Path) -> None:
    source = write(tmp_path, curved(400))
    run_settings = train_settings(source, tmp_path / "run", constraints=("mean(nowhere=1) >= 0", "norm <= 3"))
    with pytest.raises(DataError, match=rf"^{re.escape(str(source))} has no constrained column 'nowhere'"):
        train(run_settings)


def test_a_split_learns_on_train_and_is_measured_on_test(result: dict[str, Any]) -> None:
    rows = curved()
    is_test = np.array(rows.column("split").to_pylist()) == "test"
    assert result["rows"] == (~is_test).sum()
    assert result["dataset"]["test_rows"] == is_test.sum()
    model, labels = load_model(result["model"]), rows.column("y").to_numpy()
    right = model.predict(inputs_of(rows)) == labels
    for part, mask in (("test", is_test), ("train", ~is_test)):
        assert result[part]["accuracy"] == pytest.approx(right[mask].mean(), abs=1e-12)
        majority = np.bincount(labels[~is_test]).argmax()
        assert result["baselines"]["majority"][part]["accuracy"] == pytest.approx((labels[mask] == majority).mean())
    assert result["test"]["accuracy"] > result["baselines"]["linear"]["test"]["accuracy"] + 0.1


def test_baselines_are_compared_row_by_row_by_the_criterion_and_a_second_metric(result: dict[str, Any]) -> None:
    for name in ("majority", "linear"):
        baseline = result["baselines"][name]["test"]
        assert set(baseline["excess"]) == {"mistake_rate", "log_loss"}
        for metric, excess in baseline["excess"].items():
            assert excess["mean"] == pytest.approx(baseline[metric] - result["test"][metric])
            assert excess["standard_error"] > 0.0


def test_parquet_csv_and_svmlight_of_the_same_rows_give_the_same_weights(tmp_path: Path) -> None:
    rows = curved(800).drop_columns(["split"])
    write(tmp_path, rows)
    exact = rows.set_column(3, "y", rows.column("y").cast(pa.int64()))
    pyarrow.csv.write_csv(
        pa.table({name: exact.column(name).cast(pa.float64()) for name in "abcy"}), tmp_path / "r.csv"
    )
    lines = [
        f"{row['y']} " + " ".join(f"{i + 1}:{row[name]!r}" for i, name in enumerate("abc")) for row in rows.to_pylist()
    ]
    (tmp_path / "r.svm").write_text("\n".join(lines) + "\n")
    sources = [tmp_path / name for name in ("rows.parquet", "r.csv", "r.svm")]
    results = [train(train_settings(source, tmp_path / f"run-{source.suffix}")) for source in sources]
    assert len({result["weights_sha256"] for result in results}) == 1
    assert [result["dataset"]["test_rows"] for result in results] == [160] * 3
    assert len({result["test"]["accuracy"] for result in results}) == 1


@pytest.mark.parametrize(
    ("labels", "come_back"),
    [
        (["no", "yes"], ["no", "yes"]),
        ([False, True], [False, True]),
        ([-1, 1], [-1, 1]),
        ([3, 8], [3, 8]),
        ([0.5, 1.5], [0.5, 1.5]),
        (["ä", "b", "C"], ["C", "b", "ä"]),
        ([10, 20, 30], [10, 20, 30]),
    ],
    ids=str,
)
def test_labels_are_predicted_in_their_own_type(labels: list[Any], come_back: list[Any], tmp_path: Path) -> None:
    rows = curved(800, "multiclass" if len(labels) == 3 else "binary")
    codes = rows.column("y").to_numpy() - (5 if len(labels) == 3 else 0)
    rows = rows.set_column(3, "y", pa.array([labels[code] for code in codes]))
    task = "auto" if not isinstance(labels[0], float) else "binary"
    result = train(train_settings(write(tmp_path, rows), tmp_path / "run", {"task": task}, passes=5))
    assert result["dataset"]["labels"] == come_back
    predicted = load_model(result["model"]).predict(inputs_of(rows))
    assert sorted(set(predicted.tolist())) == sorted(come_back)
    assert {type(label) for label in predicted.tolist()} == {type(labels[0])}
    assert result["test"]["accuracy"] > result["baselines"]["majority"]["test"]["accuracy"] + 0.1


@pytest.mark.parametrize("ingest", [{}, {"scale": "standard", "scale_target": True}, {"scale": "minmax"}], ids=str)
def test_regression_predicts_in_the_targets_own_unit(ingest: dict[str, Any], tmp_path: Path) -> None:
    rows = curved(1000, "regression")
    result = train(train_settings(write(tmp_path, rows), tmp_path / "run", ingest, passes=10))
    predicted, target = load_model(result["model"]).predict(inputs_of(rows)), rows.column("y").to_numpy()
    assert np.mean((predicted - target) ** 2) < 0.5 * target.var()
    is_test = np.array(rows.column("split").to_pylist()) == "test"
    residuals = (predicted - target)[is_test]
    assert result["test"]["mse"] == pytest.approx(np.mean(residuals**2), rel=1e-5)
    assert result["test"]["mae"] == pytest.approx(np.mean(np.abs(residuals)), rel=1e-5)
    assert result["test"]["r2"] == pytest.approx(1 - np.mean(residuals**2) / target[is_test].var(), rel=1e-5)
    unit = 1.0 if not ingest.get("scale_target") else target[~is_test].var()
    assert result["test"]["squared_loss"] == pytest.approx(result["test"]["mse"] / unit, rel=1e-5)


@pytest.mark.parametrize(
    ("seconds", "why"),
    [(2.5, r"no checkpoint yet\. .* when a step .* ends, at least 2\.5 s \(--c"), (0, r"no checkpoint was due \(--c")],
)
def test_an_interrupt_before_the_first_checkpoint_says_when_one_is_written(
    seconds: float, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = train_settings(write(tmp_path, curved(300)), tmp_path / "run", frequencies=10)
    with pytest.raises(KeyboardInterrupt):
        train(settings.model_copy(update={"checkpoint_seconds": seconds}), Breaker("learn"))
    assert re.search(f"Nothing of run is kept: .*{why}", caplog.text)


@pytest.mark.parametrize("stage", TRAIN_STAGES)
def test_an_interrupted_run_leaves_nothing(stage: str, tmp_path: Path) -> None:
    source = write(tmp_path, curved(300))
    with pytest.raises(KeyboardInterrupt):
        train(train_settings(source, tmp_path / "runs" / "run", frequencies=10), Breaker(stage))
    assert list(tmp_path.iterdir()) == [source]


def corrupted(folder: Path) -> tuple[Path, Path]:
    """Return a data set with a consistent manifest and one shard with changed bytes."""
    data = open_dataset(train(train_settings(write(folder, curved(20000)), folder / "first"))["run"] + "/data")
    shard = data.path(data.split("train")[0])
    content = bytearray(shard.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = bytes(2000)
    shard.write_bytes(content)
    return Path(data.folder), Path(shard)


def test_a_corrupt_shard_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    data, shard = corrupted(tmp_path)
    with pytest.raises(DataError, match=shard.name):
        train(train_settings(data, tmp_path / "second"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "rows.parquet"]


FAILURES: list[tuple[dict[str, Any], type[OklError], str]] = [
    ({"step_size": 50.0, "epsilon": 0.0}, DivergedError, "weights are no longer finite with step_size = 50"),
    ({"step_size": 50.0, "epsilon": 0.0, "mode": "mix"}, DivergedError, "no longer finite|diverged"),
    ({"class_weights": "balanced"}, ConfigError, "class_weights is for classification"),
    ({"loss": "hinge"}, ConfigError, "'hinge' is for binary tasks"),
]


@pytest.mark.parametrize(("values", "kind", "message"), FAILURES, ids=lambda value: str(value)[:40])
def test_a_run_that_fails_leaves_nothing(
    values: dict[str, Any], kind: type[OklError], message: str, tmp_path: Path
) -> None:
    source = write(tmp_path, curved(500, "regression"))
    with pytest.raises(kind, match=message):
        train(train_settings(source, tmp_path / "runs" / "run", **values))
    assert list(tmp_path.iterdir()) == [source]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    source, before = write(tmp_path, curved(20000)), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(LocationError, match=r"cannot be written: .*File too large"):
            train(train_settings(source, tmp_path / "runs" / "run"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == [source]


def test_a_linear_model_that_diverges_is_left_out(tmp_path: Path) -> None:
    rows = curved(400, "regression")
    diverging = rows.column("a").to_numpy().copy()
    diverging[::97] *= 1e18
    source = write(tmp_path, rows.set_column(0, "a", pa.array(diverging)))
    result = train(train_settings(source, tmp_path / "run"))
    assert np.isfinite(result["train"]["mse"])
    linear = result["baselines"]["linear"]
    assert linear is None or np.isfinite(linear["train"]["mse"])


def test_stages_return_their_metrics_and_the_table_is_flat(tmp_path: Path) -> None:
    run = TrainingRun(train_settings(write(tmp_path, curved(400)), tmp_path / "run", passes=2, workers=0))
    try:
        metrics = {stage: run.perform_stage(stage) for stage in TRAIN_STAGES}
    finally:
        run.close()
    assert metrics["learn"]["rows_per_second"] == pytest.approx(
        2 * metrics["learn"]["rows"] / metrics["learn"]["seconds"]
    )
    table = run.metrics_table()
    assert {row["predictor"] for row in table} == {"model", "majority", "linear"}
    assert {row["split"] for row in table} == {"progressive", "train", "test"}
    assert {type(row["value"]) for row in table} <= {int, float}
    assert "![" in run.report_markdown()
    assert str(tmp_path / "run" / "model") in text_summary(run.result())


@pytest.mark.parametrize("stage", ["ingest", "save", "report", "result"])
def test_a_full_disk_leaves_a_run_without_report_or_only_a_model(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path, curved(300))
    run = TrainingRun(train_settings(source, tmp_path / "run", {"scale": "standard"}, passes=2))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    stored = run.perform_stage

    def limited(name: str) -> dict[str, Any]:
        bytes_free = 1000 if name == {"result": "report"}.get(stage, stage) else limits[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_free, limits[1]))
        try:
            return stored(name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def full(*given: Any) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if stage == "report":  # result.json still fits on the disk
        monkeypatch.setattr(train_module, "write_report", full)
        result = run.perform()
        assert load_model(result["model"]).predict(np.zeros((2, 3))).shape == (2,)
        assert not (tmp_path / "run" / "report.html").exists()
        return
    monkeypatch.setattr(run, "perform_stage", limited)
    with pytest.raises((OSError, DataError), match=r"File too large") as refusal:
        run.perform()
    kept = tmp_path / "run-so-far"
    assert {path.name for path in tmp_path.iterdir()} == {"rows.parquet", *([kept.name] if stage != "ingest" else [])}
    if stage != "ingest":  # the report of the last but one pass, if the model does not fit on the disk
        assert load_model(kept / "model").predict(np.zeros((2, 3))).shape == (2,)
    if stage == "result":
        assert f"The model is kept without its result: okl predict {kept} ROWS" in str(refusal.value)


@pytest.mark.parametrize("options", [{"passes": 3}, {"solver": "auto", "frequencies": None}])
def test_an_interrupt_leaves_the_best_model_so_far(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting(NullObserver):
        def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
            if run.timeline.stages[-1].name == "learn" and (run.staging / "so-far" / "model").is_dir():
                raise KeyboardInterrupt

    if "solver" in options:  # sizes that a few rows have
        make_choice_small(monkeypatch)
        monkeypatch.setattr(model_sizes, "LEAST_LANDMARKS", 32)
        monkeypatch.setattr(model_sizes, "ENOUGH_LANDMARKS", 64)
    values = {name: value for name, value in options.items() if value is not None}
    settings = train_settings(write(tmp_path, curved(900)), tmp_path / "run", {}, **values)
    if "solver" in options:
        settings = settings_from(
            TrainSettings,
            {"data": settings.data, "out": settings.out, "ingest": settings.ingest, "budget_seconds": 0.5},
            "",
        )
    run = TrainingRun(settings, Interrupting())
    with pytest.raises(KeyboardInterrupt):
        run.perform()
    assert not (tmp_path / "run").exists()
    model, rows = load_model(tmp_path / "run-so-far" / "model"), curved(900)
    assert (model.predict(inputs_of(rows)) == rows.column("y").to_numpy()).mean() > 0.7


def test_a_share_of_test_rows_that_is_drawn_by_chance_is_about_the_one_stated(tmp_path: Path) -> None:
    table = pa.table({"x": [float(i % 9) for i in range(3000)], "y": [i / 7 for i in range(3000)]})
    file = write(tmp_path, table, "rows.parquet")
    data = run_ingest(file, tmp_path / "set", IngestSettings(), default_holdout=0.2).dataset
    assert assumptions(data, IngestSettings()) == [
        "about 20% of the rows (632) are test rows, drawn at random (--holdout)"
    ]


@pytest.mark.parametrize("holdout", ["last", 0.2])
def test_test_rows_of_a_later_time_are_a_warning(holdout: str | float, tmp_path: Path) -> None:
    days = pa.array(np.datetime64("2026-01-01") + np.arange(400))
    table = pa.table({"x": np.arange(400.0) % 7, "last day": days, "y": np.arange(400.0) % 13})
    source = write(tmp_path, table, "rows.parquet")
    result = train(train_settings(source, tmp_path / "run", {"target": "y", "holdout": holdout}))
    later = (
        "Data: Dates are later than all training dates: 'last day' (80 test rows). The model has not learned from such "
        "dates. Ages (days since) instead of dates, or no dates (--drop 'last day'), may predict better."
    )
    assert [one for one in result.warnings if "Dates" in one] == ([later] if holdout == "last" else [])
    assert f"Warning: {result.warnings[-1]}" in text_summary(result)


def test_a_share_by_class_is_exact_where_it_is_stated(tmp_path: Path) -> None:
    table = pa.table({"x": [float(i % 9) for i in range(3000)], "y": [i % 5 == 0 for i in range(3000)]})
    file = write(tmp_path, table, "rows.parquet")
    data = run_ingest(file, tmp_path / "set", IngestSettings(target="y"), default_holdout=0.2).dataset
    _, events = data.schema.class_counts
    (sentence,) = assumptions(data, IngestSettings(target="y"))
    assert events == 0.8 * 600
    assert sentence.startswith("about 20% of the rows (6")
    assert sentence.endswith("drawn at random; of each class of at most 2,000 rows, exactly 20% (--holdout)")


def test_dates_times_and_missing_numbers_are_stated_as_they_become_inputs(tmp_path: Path) -> None:
    """A column without any value has no mean; dates without a time have no hour."""
    at = pa.array(np.datetime64("2026-01-01T00:00:00") + np.arange(300) * 60_000, pa.timestamp("s"))
    table = pa.table({"day": at.cast(pa.date32()), "clock": at.cast(pa.time32("s")), "none": [None] * 300})
    table = table.append_column("gaps", pa.array([float(i % 9) or None for i in range(300)]))
    table = table.append_column("y", pa.array([i / 7 for i in range(300)]))
    file = write(tmp_path, table, "rows.parquet")
    settings = IngestSettings(target="y", holdout=0.2, missing="mean", dates="calendar")
    assert assumptions(run_ingest(file, tmp_path / "set", settings).dataset, settings) == [
        "missing numbers of gaps are the training mean, with a 0/1 input (--missing)",
        "dates of day are split into year and position in year and week, weekday (--dates)",
        "times of clock are positions in the day, so that 23:59 is near 00:00 (--dates)",
    ]


def test_whole_numbers_that_became_classes_are_stated(tmp_path: Path) -> None:
    table = pa.table({"x": [float(i % 9) for i in range(300)], "claims": [i % 4 for i in range(300)]})
    file = write(tmp_path, table, "rows.parquet")
    stated = "the 4 whole numbers of claims are classes; if they count or measure something: --task regression"
    for task, expected in (("auto", [stated]), ("multiclass", [])):
        settings = IngestSettings(task=task, target="claims", holdout=0.2)
        assert assumptions(run_ingest(file, tmp_path / task, settings).dataset, settings) == expected


def test_labels_of_svmlight_text_that_became_numbers_are_stated(tmp_path: Path) -> None:
    file = tmp_path / "rows.svm"
    file.write_text("".join(f"{row % 12} 1:{row % 5}\n" for row in range(300)))
    stated = "labels of more than 10 values are numbers; if they are classes: --task multiclass"
    for task, expected in (("auto", [stated]), ("regression", []), ("multiclass", [])):
        settings = IngestSettings(task=task, holdout=0.2)
        assert assumptions(run_ingest(file, tmp_path / task, settings).dataset, settings) == expected


@pytest.mark.parametrize(("labels", "task"), [("text", "auto"), ("numbers", "multiclass")])
def test_the_row_of_a_class_of_one_row_is_always_a_training_row(labels: str, task: Any, tmp_path: Path) -> None:
    for single in range(30):
        kinds = [row % 4 if row != single else 9 for row in range(30)]
        y = [f"kind {kind}" for kind in kinds] if labels == "text" else kinds
        file = write(tmp_path, pa.table({"x": [float(row) for row in range(30)], "y": y}), f"{single}.parquet")
        settings = IngestSettings(task=task, holdout=0.2, stratify=True)
        data = run_ingest(file, tmp_path / f"set-{single}", settings).dataset
        assert len(data.schema.labels) == 5
        assert data.rows("test") > 0


def test_rare_values_of_a_text_column_that_share_an_input_are_stated(tmp_path: Path) -> None:
    words = [f"sku{i // 3:03d}" for i in range(270)] + ["common"] * 30
    table = pa.table({"sku": words, "kind": ["a", "b"] * 150, "y": [float(i % 7) for i in range(300)]})
    ingest = IngestSettings(max_categories=4, holdout=0.2, task="multiclass")
    data = run_ingest(write(tmp_path, table, "skus.parquet"), tmp_path / "set", ingest).dataset
    (sentence,) = assumptions(data, ingest)
    share = data.schema.feature_statistics[data.schema.features.index("sku=(other)")].mean
    assert 0.8 < share < 0.95
    assert sentence == (
        "the 4 most frequent values of sku, each in at least 3 training rows, are inputs; all others, in "
        f"{share:.0%} of the rows, share one (--max-categories)"
    )


def test_target_means_are_stated_and_rows_with_large_errors_show_values(tmp_path: Path) -> None:
    shops = [f"shop {i % 90}" for i in range(1500)]
    x = [i * 0.7 % 1.0 for i in range(1500)]
    table = pa.table({"shop": shops, "x": x, "y": [i % 90 * 1.1 + i % 7 for i in range(1500)]})
    settings = TrainSettings(
        data=str(write(tmp_path, table, "rows.parquet")), out=str(tmp_path / "run"), solver="ridge", n_landmarks=20,
        ingest=IngestSettings(many_values="means", holdout=0.2),
    )  # fmt: skip
    result = train(settings)
    stated = "inputs of shop are target means of their values, for training rows from other folds (--many-values)"
    assert stated in result["assumptions"]
    shown = [row["values"]["shop"] for row in result["largest_errors"]["rows"]]
    assert shown
    assert {*shown} <= {*shops}


def test_text_columns_of_constraints_become_keys_and_the_radius_is_stated(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    rows = pd.DataFrame({"x": random.normal(size=400), "group": np.where(random.random(400) < 0.5, "A", "B")})
    rows["y"] = (rows["x"] + random.normal(size=400) > 0.0).astype(int)
    limit = ["abs(difference(group=A, group=B)) <= 0.05"]
    out = str(tmp_path / "run")
    result = okl.train(rows, target="y", constraints=limit, solver="fogd", frequencies=20, out=out)
    assert result["settings"]["ingest"]["keys"] == ["group"]
    assert result["dataset"]["features"] == 1
    assert "weights have a norm of at most 10 (--radius)" in result["assumptions"]
    assert "group, used in constraints, is no input (--key)" in result["assumptions"]


def test_words_that_pandas_reads_as_missing_are_stated_and_read_the_same_from_pandas(tmp_path: Path) -> None:
    words = ["a", "n/a", "", "b"] * 60
    lines = [f"{word},{i % 7 if i % 9 else 'n/a'},{i % 2}" for i, word in enumerate(words)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["plan,calls,y", *lines]))
    settings = TrainSettings(
        data=str(file), out=str(tmp_path / "run"), ingest=IngestSettings(), solver="ridge", n_landmarks=8
    )
    result = train(settings)
    (sentence,) = [line for line in result["assumptions"] if "category of its own" in line]
    assert sentence == (
        "text 'n/a' of plan is a category of its own, not a missing value; pandas.read_csv makes it a missing one: "
        "score files, or read tables with keep_default_na=False"
    )
    assert "('n/a' is a category, not missing)" in describe_text(open_dataset(tmp_path / "run" / "data"))
    model = result.model
    read = pa.csv.read_csv(file)
    assert read.column("plan").to_pylist()[1:3] == ["n/a", ""]
    np.testing.assert_array_equal(model.scores(read), model.scores(str(file)))
    with pytest.warns(UserWarning, match="missing far more often than in training: 'plan' in 50% of 240 rows, .* 24%"):
        read_by_pandas = model.scores(pd.read_csv(file))
    assert (read_by_pandas != model.scores(str(file))).any()


def test_the_inputs_of_a_table_are_standardised_for_a_given_solver(tmp_path: Path) -> None:
    rows = curved(400)
    rescaled = pa.table({name: pc.multiply(rows.column(name), 10.0**k) for k, name in enumerate(("a", "b"))})
    source = write(tmp_path, rescaled.append_column("y", rows.column("y")))

    def trained(**options: Any) -> RunResult:
        return okl.train(source, out=tmp_path / f"run{len(list(tmp_path.iterdir()))}", **options)

    result = trained(solver="logistic")
    assert result.dataset["scale"] == "standard"
    stated = "inputs are standardised, as a solver was given (--rescale none leaves them as they are)"
    assert stated in result["assumptions"]
    again = trained(solver="logistic", scale="standard")
    assert again["weights_sha256"] == result["weights_sha256"]
    assert stated not in again["assumptions"]
    raw = [trained(solver="logistic", **options) for options in ({"rescale": "none"}, {"scale": "none"})]
    assert {one.dataset["scale"] for one in raw} == {"none"}
    assert raw[0]["weights_sha256"] == raw[1]["weights_sha256"] != result["weights_sha256"]
    okl.ingest(source, tmp_path / "set")
    of_set = okl.train(tmp_path / "set", solver="logistic", out=tmp_path / "of-set")
    assert (of_set.dataset["scale"], of_set["assumptions"]) == ("none", [])
    for options in ({"frequencies": 20}, {"frequencies": 20, "track": True}):
        assert trained(**options).dataset["scale"] == "none"
    (tmp_path / "rows.svm").write_text("1 1:3 2:5\n0 1:1 2:7\n" * 40)
    assert okl.train(tmp_path / "rows.svm", solver="logistic", out=tmp_path / "svm").dataset["scale"] == "none"


def test_few_held_out_rows_do_not_calibrate_falkon(tmp_path: Path) -> None:
    source = write(tmp_path, curved(300, seed=5))
    values = {"data": str(source), "out": str(tmp_path / "run"), "solver": "falkon", "n_landmarks": 60, "iterations": 5}
    result = train(settings_from(TrainSettings, values, "test"))
    assert result["chosen"]["held_out_rows"] < 40
    assert result["calibration"]["on"].endswith("test rows")
    assert result["test"]["log_loss"] < 0.6


def test_a_class_of_few_test_rows_does_not_prevent_probabilities_of_others(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    labels = np.array(["a", "b", "c"]).repeat([400, 400, 6])
    places = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 9.0]]).repeat([400, 400, 6], axis=0)
    values = places + random.standard_normal(places.shape)
    rows = {"x": values[:, 0], "z": values[:, 1], "y": labels}
    result = okl.train(rows, target="y", solver="l2-svm", kernel="linear", holdout=0.2)
    assert result["calibration"]["on"].endswith("test rows")
    found = result.model.predict_proba({"x": [0.0, 2.0, 0.0], "z": [0.0, 0.0, 9.0]})
    assert found.argmax(axis=1).tolist() == [0, 1, 2]
    assert found[:2, :2].max(axis=1).min() > 0.6
    few = okl.train({name: column[380:420] for name, column in rows.items()}, target="y", solver="l2-svm", holdout=0.2)
    expected = r"Probabilities need 10 test rows of two classes, but '[ab]' has \d\. Hold out more rows\."
    assert re.fullmatch(expected, few["calibration"]["none"])
