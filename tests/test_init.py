"""The public names, their import time, and their use in README and documentation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import okl
from okl.data.dataset import Dataset
from okl.data.manifest import open_dataset
from okl.foundation.errors import ConfigError, DataError, ModelError

README = Path(__file__).parents[1] / "README.md"
HEAVY = (
    "numba",
    "pyarrow",
    "sklearn",
    "scipy",
    "pandas",
    "pydantic",
    "numpy",
    "dask",
    "distributed",
    "matplotlib",
    "jinja2",
    "prefect",
)


def write_source(path: Path, rows: int = 800, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    columns = {f"x{j}": rng.standard_normal(rows) for j in range(3)}
    labels = np.where(columns["x0"] * columns["x1"] + 0.1 * rng.standard_normal(rows) > 0, "yes", "no")
    pq.write_table(pa.table(columns | {"y": labels, "id": np.arange(rows)}), path)
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("public") / "rows.parquet")


@pytest.fixture(scope="module")
def data(source: Path) -> Dataset:
    return okl.ingest(source, source.parent / "data", keys=("id",), holdout=0.25, rows_per_shard=300)


@pytest.fixture(scope="module")
def result(data: Dataset) -> dict[str, Any]:
    return okl.train(data.folder, frequencies=60, passes=3, out=data.folder.parent / "run")


def in_new_process(source: str) -> Any:
    """Return the JSON that a new interpreter prints, with warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_import_loads_nothing_heavy() -> None:
    loaded = in_new_process(
        f"import sys, json, okl; dir(okl); print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    assert loaded == []


def test_help_loads_no_numerical_library() -> None:
    names = tuple(name for name in HEAVY if name != "pydantic")  # settings, from which options are made
    output, loaded = in_new_process(
        "import sys, json, io\n"
        "from contextlib import redirect_stdout, suppress\n"
        "from flows.cli import main\n"
        "sys.argv = ['okl', '--help']\n"
        "with redirect_stdout(io.StringIO()) as shown, suppress(SystemExit):\n"
        "    main()\n"
        f"print(json.dumps([shown.getvalue(), [name for name in {names} if name in sys.modules]]))"
    )
    assert "retrain" in output
    assert loaded == []


def test_options_added_to_settings_equal_options_given_together(data: Dataset, tmp_path: Path) -> None:
    some = okl.TrainSettings(data=str(data.folder), seed=3)
    changed = okl.train(some, solver="ridge", n_landmarks=20, out=tmp_path / "changed")
    together = okl.train(data.folder, seed=3, solver="ridge", n_landmarks=20, out=tmp_path / "together")
    assert changed["settings"]["precision"] == "float64"
    assert changed["weights_sha256"] == together["weights_sha256"]


def test_settings_and_errors_need_neither_numba_nor_pyarrow_nor_scikit_learn() -> None:
    loaded = in_new_process(
        "import sys, json, okl; okl.TrainSettings(data='d'); okl.IngestSettings(); okl.OklError, okl.__version__; "
        "print(json.dumps(sorted({'numba', 'pyarrow', 'sklearn', 'prefect', 'dask'} & set(sys.modules))))"
    )
    assert loaded == []


def test_training_and_loading_need_neither_prefect_nor_dask_nor_scikit_learn(data: Dataset, tmp_path: Path) -> None:
    rows, statistics, loaded = in_new_process(
        "import sys, json, okl, okl.runs.train\n"
        "statistics = 'scipy.stats' in sys.modules\n"  # a fifth of the import of a command
        "from okl.report import figures\n"
        "figures.svg = lambda figure: '<svg/>'\n"  # drawing imports libraries and is not checked here
        f"result = okl.train({str(data.folder)!r}, frequencies=10, out={str(tmp_path / 'run')!r})\n"
        "okl.load(result['model'])\n"
        "used = sorted({'prefect', 'dask', 'distributed', 'sklearn'} & set(sys.modules))\n"
        "print(json.dumps([result['rows'], statistics, used]))"
    )
    assert rows == data.rows("train")
    assert not statistics
    assert loaded == []


def test_every_public_name_is_there_and_listed() -> None:
    for name in okl.__all__:
        assert getattr(okl, name) is getattr(okl, name)
    assert dir(okl) == sorted(okl.__all__)
    assert [name for name in dir(okl) if name.startswith("_")] == ["__version__"]
    assert okl.FOGDClassifier.__module__ == "okl.estimators.online"
    assert okl.extensions.use_extension.__module__ == "okl.foundation.plugins"  # without its own import
    assert issubclass(okl.DivergedError, okl.OklError)
    assert re.match(r"\d+\.\d+|unknown", okl.__version__)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^No okl attribute fit$"):
        okl.fit  # type: ignore[attr-defined]  # noqa: B018


def test_ingest_takes_settings_options_or_both(source: Path, data: Dataset, tmp_path: Path) -> None:
    assert (data.rows("train") + data.rows("test"), data.schema.keys) == (800, ("id",))
    assert open_dataset(data.folder) == okl.open_dataset(data.folder) == data
    settings = okl.IngestSettings(keys=("id",), scale="standard")
    both = okl.ingest(source, tmp_path / "both", settings, scale="minmax")
    assert (both.schema.scale, both.schema.keys) == ("minmax", ("id",))
    again = okl.ingest(source, tmp_path / "both", settings, overwrite=True)
    assert again.schema.scale == "standard"


def test_train_takes_a_folder_or_settings_with_options(data: Dataset, result: dict[str, Any], tmp_path: Path) -> None:
    settings = okl.TrainSettings(data=str(data.folder), frequencies=60, passes=1, out=str(tmp_path / "run"))
    other = okl.train(settings, passes=3)
    assert other["weights_sha256"] == result["weights_sha256"]
    assert Path(result["run"]).name == "run"
    assert result["test"]["accuracy"] > result["baselines"]["majority"]["test"]["accuracy"] + 0.2


def test_train_ingests_a_source_and_notifies_an_observer(source: Path, tmp_path: Path) -> None:
    stages: list[str] = []

    class Listens:
        def stage(self, name: str) -> None:
            stages.append(name)

        def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
            assert 0 <= done <= max(done, total)

        def finish(self) -> None:
            stages.append("over")

    result = okl.train(source, ingest={"keys": ["id"]}, frequencies=20, out=tmp_path / "run", observer=Listens())
    assert (result["rows"], result["dataset"]["test_rows"]) == (640, 160)  # a source without a split column
    assert stages == ["ingest", "plan", "learn", "evaluate", "baselines", "evaluate", "save", "report", "over"]
    result_of_options = okl.train(
        source, ingest=okl.IngestSettings(scale="minmax"), key="id", frequencies=20, out=tmp_path / "b"
    )
    assert (result_of_options["dataset"]["scale"], result_of_options["rows"]) == ("minmax", 640)
    with pytest.raises(ModelError, match=r"Expected a table or an array, but got list"):
        okl.train([1.0], target="y")


def test_commands_take_tables_and_keep_no_location_of_a_temporary_file(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    table = pq.read_table(source)
    options: dict[str, Any] = {"keys": ["id"], "solver": "ridge", "n_landmarks": 50}
    of_table, of_file = okl.train(table.to_pandas(), target="y", **options), okl.train(source, **options)
    assert of_table["weights_sha256"] == of_file["weights_sha256"]
    assert (of_table["settings"]["data"], of_table["name"][:6]) == ("table in memory", "table-")
    for file in Path(of_table["run"]).rglob("*.[jh]*"):
        assert "okl-rows" not in file.read_text()
    explained, as_of_file = (okl.explain(of_table["model"], rows)["importance"] for rows in (table, source))
    assert explained["columns"] == as_of_file["columns"]
    assert explained["on"] == "rows of a table in memory"
    assert okl.evaluate(of_table["model"], table)["metrics"] == okl.evaluate(of_table["model"], source)["metrics"]
    for model in (of_table, of_table.model):
        measured = okl.evaluate(model, table)
        assert measured["metrics"] == okl.evaluate(of_table["model"], source)["metrics"]
        assert okl.explain(model, table)["importance"] == explained
        okl.predict(model, source, scores := tmp_path / f"{type(model).__name__}.csv")
        assert len(scores.read_text().splitlines()) == 1 + table.num_rows
        scored = okl.predict(model, table, of_rows := tmp_path / f"{type(model).__name__}-table.csv")
        assert (of_rows.read_text(), scored["source"]) == (scores.read_text(), "table in memory")
        if find_spec("onnxruntime"):
            exported = okl.export(model, tmp_path / f"{type(model).__name__}.onnx")
            assert exported["model"] == (of_table["model"] if model is of_table else "model in memory")
    assert measured["model"] == okl.explain(of_table.model)["folder"] == "model in memory"
    assert okl.evaluate(of_table)["split"] == "test"
    with pytest.raises(ConfigError, match=r"^the model in memory has no data set of its run\. Give labelled rows"):
        okl.evaluate(of_table.model)
    with pytest.raises(
        ModelError, match=r"model is of type FOGDClassifier; expected .*, or a fitted okl\.KernelClassifier"
    ):
        okl.explain(okl.FOGDClassifier(), table)
    with pytest.raises(ModelError, match=r"model is of type FOGDClassifier; expected"):
        okl.export(okl.FOGDClassifier(), tmp_path / "unfitted.skops")
    compared = okl.compare(table, models="c-svm,logistic", grid=2, keys=["id"], holdout=0.5)
    assert {row["model"] for row in compared["models"]} == {"c-svm", "logistic"}
    assert okl.runs(1) == okl.runs()[:1]  # type: ignore[operator]
    assert {run["name"] for run in okl.runs()} >= {of_table["name"], of_file["name"]}  # type: ignore[operator]
    with pytest.raises(
        DataError, match=r"^table has no target column 'z'.* Name the column to predict: target=\"NAME\"\."
    ):
        okl.train(table, target="z")
    with pytest.raises(DataError, match=r"rows.parquet has no target column 'z'.* target=\"NAME\"\."):
        okl.train(source, target="z")
    with_lists = table.append_column("a b", pa.array([[1]] * table.num_rows))
    with pytest.raises(DataError, match=r"leave it out \(drop=\"a b\"\) or copy it to the scores \(key=\"a b\"\)"):
        okl.train(with_lists, target="y")
    frame = table.to_pandas()
    with pytest.raises(DataError, match="The table has 2 columns named 'y'; expected different names"):
        okl.train(frame.assign(z=0).set_axis([*frame.columns, "y"], axis=1), target="y")
    with pytest.raises(ModelError, match=r"Got an array \(ndarray\); expected a table with named columns"):
        okl.train(np.ones((3, 2)), target="y")
    with pytest.raises(ModelError, match="Expected a table or an array, but got Series"):
        okl.train(frame["y"], target="y")
    with pytest.raises(ConfigError, match=r"'categry' is not an option \(did you mean categories\?\)\.$"):
        okl.train(table, categry="x")
    with pytest.raises(ConfigError, match=r"'key' is not an option \(did you mean keys\?\)"):
        okl.train(table, key="id", keys=["id"])


def test_options_that_do_not_exist_or_do_not_fit_are_named(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"okl\.train: 'frequency' is not an option \(did you mean frequencies\?\)\.$",
    ):
        okl.train(data.folder, frequency=3)
    with pytest.raises(ConfigError, match=r"okl\.train: passes = 0"):
        okl.train(okl.TrainSettings(data="elsewhere"), passes=0)
    with pytest.raises(ConfigError, match=r"okl\.ingest: scale = 'log'"):
        okl.ingest("rows.parquet", tmp_path / "data", scale="log")
    with pytest.raises(
        ConfigError, match=r"'sample_weight' is not an option \(weights of rows are an argument of Kernel"
    ):
        okl.train(data.folder, sample_weight=[1.0], budget_seconds=5.0)
    with pytest.raises(ConfigError, match=r"okl\.predict: 'split' is not an option"):
        okl.predict("model", "rows.parquet", tmp_path / "scores", split="test")
    with pytest.raises(ConfigError, match=r"okl\.evaluate: split = 'half'"):
        okl.evaluate("model", "rows.parquet", split="half")
    assert list(tmp_path.iterdir()) == []


def test_predictions_in_memory_and_out_of_core_are_the_same(
    data: Dataset, result: dict[str, Any], tmp_path: Path
) -> None:
    fresh = write_source(tmp_path / "fresh.parquet", 500, seed=1)
    rows = pq.read_table(fresh)
    inputs = np.column_stack([rows[name].to_numpy() for name in data.schema.features])
    labels = okl.load(result["model"]).predict(inputs)
    assert set(labels) == {"no", "yes"}
    scored = okl.predict(result["model"], fresh, tmp_path / "scores")
    table = pq.read_table(tmp_path / "scores", columns=["id", "prediction"])
    assert table["id"].to_pylist() == list(range(500))
    assert table["prediction"].to_pylist() == labels.tolist()
    assert scored["predictions"] == {name: int((labels == name).sum()) for name in ("no", "yes")}
    measured = okl.evaluate(result["model"], fresh)
    assert measured["metrics"]["accuracy"] == pytest.approx((labels == rows["y"].to_numpy(zero_copy_only=False)).mean())
    assert okl.evaluate(result["model"], data.folder)["metrics"]["accuracy"] == result["test"]["accuracy"]


def test_code_in_readme_and_site_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [README.read_text(), (README.parent / "infra" / "docs" / "how-to" / "from-python.md").read_text()]
    blocks = [block for text in texts for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    assert len(blocks) == 3
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    flights = (README.parent / "data" / "flights.csv").read_text().splitlines(keepends=True)
    (tmp_path / "flights.csv").write_text("".join(flights[:1] + flights[1::40]))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.replace("data/flights.csv", str(tmp_path / "flights.csv")).replace("4000", "100"), names)
    assert names["classifier"].score(names["X_test"], names["y_test"]) > 0.9
