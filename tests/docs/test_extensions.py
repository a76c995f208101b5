"""The worked examples of the page `Extend okl`, unchanged: trained with locally and on workers, and errors."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.distributed.cluster import mismatch_message, versions
from okl.distributed.in_process import LocalExecution
from okl.extensions import add_loss
from okl.features.extension import draw_extension_map
from okl.features.predictors import map_from_stored, predictor_from_stored
from okl.foundation import plugins
from okl.foundation.errors import CheckpointError, ConfigError, ModelError
from okl.foundation.plugins import use_extension
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.kernels import Gaussian, Laplacian
from okl.losses import ExtensionLoss, Logistic, make_loss
from okl.models.file import Model, load_model, save_model
from okl.runs.checkpoint import DecodedTree, EncodedTree, Origin, check_same_origin
from okl.runs.loop import run_loop
from okl.solvers.accelerated.fapg import Fapg, solve
from okl.solvers.accelerated.models import make_model
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.factory import make_solver
from okl.solvers.settings import TrainSettings

FOLDER = Path(__file__).parents[2] / "infra" / "docs" / "examples" / "extensions"
FILES = sorted(FOLDER.glob("*.py"))
SMALL: dict[str, Any] = {"frequencies": 64, "bandwidth": 3.0, "seed": 4}
BINNED = SMALL | {"map": "binning", "kernel": "laplacian"}
CASES: dict[str, tuple[Task, dict[str, Any]]] = {
    "a loss, row by row": ("regression", SMALL | {"loss": "huber", "step_size": 0.5}),
    "a loss, summed": ("regression", SMALL | {"loss": "huber", "mode": "sum", "rounds": 6, "step_size": 0.1}),
    "a loss in a Nystrom map": (
        "regression",
        {"solver": "nogd", "loss": "huber", "budget": 30, "mode": "mix", "rounds": 3, "step_size": 0.5},
    ),
    "a model": ("binary", {"solver": "smoothed-svm", "kernel": "linear", "tol": 1e-6}),
    "a map": ("multiclass", BINNED | {"mode": "mix", "rounds": 4}),
    "a map and a model": ("binary", BINNED | {"solver": "smoothed-svm", "tol": 1e-3}),
}


@pytest.fixture(scope="module", autouse=True)
def _use_examples() -> None:
    for path in FILES:
        use_extension(path)


def settings(**values: Any) -> TrainSettings:
    return settings_from(TrainSettings, {"data": "unused"} | values, "a test")


def bits(value: Any) -> Any:
    """Return the bits of arrays and of dictionaries of arrays."""
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return (value.dtype, value.shape, value.tobytes())


def solve_with(data: Dataset, execution: Execution, **values: Any) -> Any:
    train_settings = settings(**values)
    return run_loop(*_started(make_solver(train_settings, data), data, execution), data, execution)


def _started(solver: Any, data: Dataset, execution: Execution) -> tuple[Any, Any]:
    return solver, solver.start(data, execution)


def test_each_example_is_one_file_of_less_than_80_lines() -> None:
    assert {path.stem for path in FILES} == {"binning", "huber", "smoothed"}
    assert all(len(path.read_text().splitlines()) < 80 for path in FILES)


@pytest.mark.parametrize("name", CASES)
def test_dask_equals_serial_bit_for_bit_and_the_stored_model_too(
    name: str, learnable: dict[Task, Dataset], two_workers: Execution, tmp_path: Path
) -> None:
    task, values = CASES[name]
    data = learnable[task]
    with LocalExecution(2) as local_execution:
        local = solve_with(data, local_execution, **values)
        encoded = EncodedTree(local.state, {"data": data})
        reencoded = EncodedTree(DecodedTree(encoded.tree, encoded.arrays, {"data": data}).value, {"data": data})
        assert reencoded.tree == encoded.tree
        assert bits(reencoded.arrays) == bits(encoded.arrays)
    distributed = solve_with(data, two_workers, **values)
    assert bits(distributed.predictor.arrays()) == bits(local.predictor.arrays())
    if "tol" in values:
        assert local.progress.relative_gap < values["tol"]
    else:  # a few rounds improve a model less than an update per row
        assert local.progress.error < (1.1 if "rounds" in values else 0.8) * local.progress.baseline_error
    save_model(Model(data.schema, local.predictor), tmp_path / "model")
    inputs = np.random.default_rng(1).standard_normal((300, 4)).astype(np.float32)
    stored = load_model(str(tmp_path / "model")).predictor
    assert bits(stored.scores(inputs)) == bits(local.predictor.scores(inputs))
    assert bits(np.concatenate([stored.scores(inputs[:7]), stored.scores(inputs[7:])])) == bits(stored.scores(inputs))


def test_a_compiled_loss_of_an_extension_trains_like_the_same_loss_of_okl(
    learnable: dict[Task, Dataset],
) -> None:
    def value(f: float, y: float) -> float:
        return float(max(0.0, -y * f) + np.log1p(np.exp(-abs(y * f))))

    def derivative(f: float, y: float) -> float:
        return float(-y * 0.5 * (1.0 - np.tanh(0.5 * y * f)))

    add_loss("logistic-again", task="binary", value=value, derivative=derivative)
    loss, table, rng = make_loss("logistic-again"), Logistic(), np.random.default_rng(2)
    scores, targets = 3 * rng.standard_normal(99), np.sign(rng.standard_normal(99))
    np.testing.assert_allclose(loss.value(scores, targets), table.value(scores, targets), rtol=1e-12)
    np.testing.assert_allclose(loss.derivative(scores, targets), table.derivative(scores, targets), rtol=1e-12)
    with LocalExecution(2) as local:
        values = SMALL | {"step_size": 1.0}
        extension_weights, okl_weights = (
            solve_with(learnable["binary"], local, loss=name, **values).predictor.weights
            for name in ("logistic-again", "logistic")
        )
    np.testing.assert_allclose(extension_weights, okl_weights, rtol=1e-4, atol=1e-6)


def test_the_smoothed_svm_reaches_the_optimum_of_another_method() -> None:
    rng = np.random.default_rng(3)
    inputs = rng.standard_normal((60, 2))
    signs = np.where(inputs[:, 0] + 0.7 * rng.standard_normal(60) > 0.2, 1.0, -1.0)
    problem: Any = make_model("smoothed-svm", C=0.5).problem(DenseRows(inputs, signs))
    state, _ = solve(problem, Fapg(tolerance=1e-7))
    loss = problem.risk.loss

    def primal(weights: Any) -> float:
        return float(
            0.5 * weights[:2] @ weights[:2] + 0.5 * loss.value(signs * (inputs @ weights[:2] - weights[2])).sum()
        )

    best = minimize(primal, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).fun
    assert state.best_record.certificate.primal == pytest.approx(best, rel=1e-6)
    assert state.best_record.certificate.dual <= best * (1 + 1e-8)


def test_inner_products_of_binned_rows_approximate_the_laplacian_kernel() -> None:
    inputs = np.random.default_rng(5).standard_normal((40, 2))
    kernel = Laplacian(2.0)
    features = draw_extension_map("binning", kernel, 2, 64_000, 0, "float64").transform(inputs)
    distances = np.abs(inputs[:, None] - inputs[None]).sum(axis=2)
    assert np.abs(features @ features.T - np.exp(-distances / 2.0)).max() < 0.1
    with pytest.raises(ConfigError, match="binning is of the Laplacian kernel, but the kernel is gaussian"):
        draw_extension_map("binning", Gaussian(1.0), 2, 64, 0)


def test_a_map_that_draws_no_arrays_by_name_is_refused(tmp_path: Path) -> None:
    draws = {
        "tuple": "(1.0,)",
        "list": "[]",
        "'shift'": "{'shift': 'far'}",
        "not strings": "{3: __import__('numpy').ones(2)}",
    }
    for number, (message, drawn) in enumerate(draws.items()):
        (tmp_path / f"drawing_{number}.py").write_text(
            "from okl.extensions import add_map\n"
            f"add_map('drawing-{number}', draw=lambda *sizes: {drawn}, transform=lambda arrays, inputs: inputs)\n"
        )
        use_extension(tmp_path / f"drawing_{number}.py")
        with pytest.raises(ConfigError, match=rf"drawing-{number}' of .* draws .*{message}.*NumPy arrays"):
            draw_extension_map(f"drawing-{number}", Gaussian(1.0), 2, 64, 0)


TRANSFORMS = {
    "inputs @ arrays['gone']": "fails: KeyError: 'gone'",
    "inputs.__imul__(2.0)": "fails: ValueError: output array is read-only",
    "'text'": "returns a str; expected an array",
    "inputs @ arrays['w'] + 1j": "returns complex128 numbers; expected an array of floats",
    "inputs @ arrays['w'][:, :3]": r"returns features of shape \(1, 3\); expected \(1, 8\)",
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_error_of_a_map_is_in_the_message(transform: str, tmp_path: Path) -> None:
    number = [*TRANSFORMS].index(transform)
    (tmp_path / f"failing_{number}.py").write_text(
        "from okl.extensions import add_map\n"
        f"add_map('failing-{number}', draw=lambda kernel, n, m, random: {{'w': random.normal(size=(n, m))}}, "
        f"transform=lambda arrays, inputs: {transform})\n"
    )
    use_extension(tmp_path / f"failing_{number}.py")
    with pytest.raises(ConfigError, match=rf"failing-{number}' of failing_{number}\.py \w+ {TRANSFORMS[transform]}"):
        draw_extension_map(f"failing-{number}", Gaussian(1.0), 2, 8, 0, "float64")


def test_the_error_of_drawing_a_map_is_in_the_message(tmp_path: Path) -> None:
    (tmp_path / "undrawn.py").write_text(
        "from okl.extensions import add_map\n"
        "add_map('undrawn', draw=lambda kernel: {}, transform=lambda arrays, inputs: inputs)\n"
    )
    use_extension(tmp_path / "undrawn.py")
    with pytest.raises(ConfigError, match=r"undrawn\.py \w+ fails: TypeError: .*positional argument"):
        draw_extension_map("undrawn", Gaussian(1.0), 2, 8, 0)


def test_a_map_that_returns_its_inputs_gets_a_copy(tmp_path: Path) -> None:
    (tmp_path / "itself.py").write_text(
        "from okl.extensions import add_map\n"
        "add_map('itself', draw=lambda *sizes: {}, transform=lambda arrays, inputs: inputs)\n"
    )
    use_extension(tmp_path / "itself.py")
    inputs = np.ones((3, 2))
    features = draw_extension_map("itself", Gaussian(1.0), 2, 2, 0, "float64").transform(inputs)
    features += 1.0
    assert inputs.sum() == 6.0


LOSS = "from okl.extensions import add_loss\nadd_loss({}, value={}, derivative={})"
BAD = {
    "import nothing_at_all": r"bad\.py fails when it is imported: ModuleNotFoundError",
    "x = 1": r"bad\.py adds nothing: call add_loss",
    LOSS.format("'hinge', task='binary'", "max", "min"): "a name of okl itself",
    LOSS.format("'my', task='multiclass'", "max", "min"): "expected binary or",
    LOSS.format(
        "'my', task='regression'", "lambda s, t: s * s", "lambda s, t: s"
    ): "'my' does not match its value: at score",
    LOSS.format(
        "'huber', task='binary'", "lambda s, t: s", "lambda s, t: 1.0"
    ): r"'huber' is defined by huber\.py .* and by bad",
    "from okl.extensions import add_model\n@add_model\nclass My:\n    pass": "is not a model. Derive its",
    "from okl.extensions import Classifier, add_model\n@add_model\nclass My(Classifier):\n    pass": (
        "model My lacks NAME, PARAMETER, EQUATION, problem"
    ),
    "raise SystemExit(3)": "fails when it is imported: SystemExit: 3",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_extension_is_refused_with_its_reason(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(text)
    before = plugins.files()
    with pytest.raises(ConfigError, match=BAD[text]):
        use_extension(tmp_path / "bad.py")
    assert plugins.files() == before


def test_a_loss_that_cannot_be_compiled_is_refused_before_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "textual.py").write_text(
        "from okl.extensions import add_loss\n"
        "def slope(s, t):\n    return float(str(2 * s))\n"
        "add_loss('textual', task='regression', value=lambda s, t: s * s, derivative=slope)\n"
    )
    use_extension(tmp_path / "textual.py")
    with pytest.raises(ConfigError, match=r"The loss 'textual' of textual\.py \w+ cannot be compiled: "):
        make_loss("textual")


def test_message_for_a_model_names_the_missing_extension() -> None:
    drawn = draw_extension_map("binning", Laplacian(1.0), 2, 64, 0)
    description = drawn.describe()
    assert bits(map_from_stored(description, drawn.arrays()).transform(np.ones((1, 2)))) == bits(
        drawn.transform(np.ones((1, 2)))
    )
    with pytest.raises(ModelError, match=r"map 'gone' belongs to the extension binning\.py \w+, which is not loaded"):
        predictor_from_stored(
            {"kind": "linear", "map": description | {"name": "gone"}}, {"weights": np.ones((1, 64))}, "here"
        )
    with pytest.raises(ModelError, match=r"drawn by version 2, but binning\.py .* declares version 1"):
        map_from_stored(description | {"version": 2}, drawn.arrays())


def test_a_loss_of_an_extension_is_refused_by_solvers_without_support(learnable: dict[Task, Dataset]) -> None:
    refused: dict[str, dict[str, Any]] = {
        "the loss is huber": {"radius": 3.0},
        "with track, which supports hinge, logistic": {"track": True},
        "bogd uses the hinge loss": {"solver": "bogd"},
        "loss = 'huber'": {"solver": "scs"},
    }
    for message, values in refused.items():
        train_settings = settings(loss="huber", **values)
        with pytest.raises(ConfigError, match=message):
            make_solver(train_settings, learnable["regression"])


def test_a_changed_file_is_another_extension(tmp_path: Path) -> None:
    text = (FOLDER / "huber.py").read_text().replace("huber", "changing")
    path = tmp_path / "changing.py"
    origins = []
    for delta in ("0.3", "0.7"):
        path.write_text(text.replace("DELTA = 0.3", f"DELTA = {delta}"))
        use_extension(path)
        loss = make_loss("changing")
        origins.append(loss)
        assert loss.derivative(np.array([5.0]), np.array([0.0])) == float(delta)
    first, second = origins
    assert first != second
    assert pickle.loads(pickle.dumps(first)).derivative(np.array([5.0]), np.array([0.0])) == 0.3
    with pytest.raises(ConfigError, match=r"'changing' of changing\.py 0 is required, but here it comes from"):
        replace(first, origin="changing.py 0").value(np.ones(1), np.ones(1))  # type: ignore[type-var]


def test_only_names_that_okl_does_not_have_import_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "later.py").write_text((FOLDER / "huber.py").read_text().replace("huber", "later"))
    monkeypatch.setenv(plugins.VARIABLE, "")  # and restored after the test
    with pytest.raises(
        ConfigError, match=r"loss = 'later': input should be 'auto', .*, or one that an extension adds\."
    ):
        settings(loss="later")
    plugins.offer(str(tmp_path / "later.py"))
    assert settings(loss="hinge").model_dump()["loss"] == "hinge"
    assert not any("later" in module for module in plugins.files())
    assert settings(loss="later").model_dump(mode="json")["loss"] == "later"
    assert any("later" in module for module in plugins.files())
    assert "later" in TrainSettings.model_json_schema()["properties"]["loss"]["enum"]
    with pytest.raises(ConfigError, match="not a file"):
        plugins.offer(str(tmp_path / "nowhere.py"))


def test_a_package_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata_folder = tmp_path / "okl_packed-1.2.dist-info"
    metadata_folder.mkdir()
    (metadata_folder / "METADATA").write_text("Metadata-Version: 2.1\nName: okl-packed\nVersion: 1.2\n")
    (metadata_folder / "entry_points.txt").write_text("[okl.extensions]\nlosses = packed_losses\n")
    (tmp_path / "packed_losses.py").write_text((FOLDER / "huber.py").read_text().replace("huber", "packed"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_loaded", set())  # as in a new process
    loss = make_loss("packed")
    assert isinstance(loss, ExtensionLoss)
    assert loss.origin == "okl-packed 1.2"
    assert plugins.packages() == ("okl-packed",)
    assert versions(plugins.packages())["okl-packed"] == "1.2"
    assert mismatch_message("tcp://there", versions()).endswith("python -m pip install okl-packed==1.2")


def test_message_names_extension_files_if_processes_start_elsewhere() -> None:
    assert plugins.elsewhere("fogd", "auto", "independent") == ""
    assert plugins.elsewhere("smoothed-svm", "huber").startswith("huber, smoothed-svm: defined in a file. Set")


def test_a_run_can_be_resumed_only_with_the_same_extensions(learnable: dict[Task, Dataset]) -> None:
    data = learnable["regression"]
    origin = Origin.of(settings(loss="huber"), data)
    assert origin.versions["huber"].startswith("huber.py ")
    assert "huber" not in Origin.of(settings(), data).versions
    other = replace(origin, versions=origin.versions | {"huber": "huber.py 0123"})
    with pytest.raises(CheckpointError, match=r"was started with huber huber\.py 0123, but this is huber huber\.py"):
        check_same_origin(other, origin, data.folder, "a run")
