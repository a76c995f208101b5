"""Every choice of a map, through the one solver that takes them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.reading import sample_rows
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Mode, Task
from okl.kernels import CustomKernel, Gaussian, Polynomial
from okl.losses import make_loss
from okl.models.file import Model, load_model, save_model
from okl.solvers.base import SolverMap
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.maps import FourierChoice, NystromChoice
from okl.solvers.online.solver import OnlineSolver
from tests.solver_cases import last_state

FOURIER = [
    FourierChoice(kernel, None, 60, draw)
    for kernel, draw in [
        ("laplacian", "independent"),
        ("matern32", "independent"),
        ("gaussian", "orthogonal"),
        ("matern52", "quasi"),
        ("laplacian", "auto"),
        ("gaussian", "structured"),
    ]
]
NYSTROM = [
    NystromChoice("gaussian", None, 80, 50, "uniform"),
    NystromChoice("laplacian", None, 80, 50, "kmeans"),
    NystromChoice("matern32", None, 80, 50, "rpcholesky"),
    NystromChoice("polynomial", None, 80, 30, "rpcholesky", degree=4),
    NystromChoice(Polynomial(2), None, 80, 15, "uniform"),
]
CHOICES: list[SolverMap] = [*FOURIER, *NYSTROM]


def named(choice: Any) -> str:
    names = (getattr(choice, name, None) for name in ("kernel", "map", "landmarks"))
    return "-".join(str(getattr(name, "name", name)) for name in names if name is not None)


def solver_of(choice: SolverMap, mode: Mode = "stream") -> OnlineSolver:
    return OnlineSolver(LinearFactory(choice, make_loss("hinge")), mode=mode, passes=2, seed=3)


def own_kernel(left: FloatArray, right: FloatArray) -> FloatArray:
    return Gaussian(2.0).matrix(left, right) + 0.1


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_solver_learns_in_any_map_and_its_model_is_loaded_to_the_bit(
    choice: SolverMap, learnable: dict[Task, Dataset], here: Execution, tmp_path: Path
) -> None:
    data, solver = learnable["binary"], solver_of(choice)
    state = last_state(solver, data, here)
    progress = state.learned.progress
    assert progress.error < 0.8 * progress.baseline_error
    predictor = solver.predictor(state)
    save_model(Model(data.schema, predictor, {}, {}), tmp_path / "model")
    inputs = sample_rows(data, "test", 500, 0, "float32").inputs
    loaded = load_model(tmp_path / "model").predictor
    scores = predictor.scores(inputs, 2)
    assert scores.std() > 0.1
    np.testing.assert_array_equal(loaded.scores(inputs), scores)


@pytest.mark.parametrize("mode", ["mix", "sum"])
def test_shards_learn_in_one_nystrom_map(mode: Mode, learnable: dict[Task, Dataset], here: Execution) -> None:
    state = last_state(solver_of(NYSTROM[2], mode), learnable["binary"], here)
    assert state.learned.progress.error < state.learned.progress.baseline_error


def test_a_custom_kernel_is_trained_but_not_saved(
    learnable: dict[Task, Dataset], here: Execution, tmp_path: Path
) -> None:
    data, solver = learnable["binary"], solver_of(NystromChoice(CustomKernel("shifted", own_kernel), None, 80, 50))
    state = last_state(solver, data, here)
    assert state.learned.progress.error < 0.8 * state.learned.progress.baseline_error
    with pytest.raises(ConfigError, match="'shifted' is a Python function, which a model file cannot hold"):
        save_model(Model(data.schema, solver.predictor(state), {}, {}), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_chosen_values_are_reported(learnable: dict[Task, Dataset]) -> None:
    schema, sample = learnable["binary"].schema, sample_rows(learnable["binary"], "train", 1000, 0, "float32").inputs
    _, chosen = FourierChoice(map="auto").draw(schema, sample, 0, "float32")
    assert chosen["map"] == "orthogonal"
    assert "4 inputs, 400 frequencies and the kernel gaussian" in chosen["map_reason"]
    _, euclidean = FourierChoice(bandwidth=2.0).draw(schema, sample, 0, "float32")
    assert euclidean == {"bandwidth": 2.0, "bandwidth_reason": "as given"}
    _, absolute = FourierChoice("laplacian").draw(schema, sample, 0, "float32")
    assert absolute["bandwidth"] > 1.3 * chosen["bandwidth"], "the Laplacian kernel measures absolute differences"
    fitted, nystrom_report = NystromChoice("linear", None, 30, 20).draw(schema, sample, 0, "float32")
    assert fitted.n_columns == nystrom_report["rank"] == 4
    assert "the rank of the landmarks' kernel matrix" in nystrom_report["rank_reason"]
    assert nystrom_report["landmarks"] == 30


def test_invalid_arguments_are_named_before_data_are_read(learnable: dict[Task, Dataset]) -> None:
    with pytest.raises(ConfigError, match=r"'polynomial' is not shift-invariant.*Use a Nystrom map"):
        FourierChoice("polynomial")
    with pytest.raises(ConfigError, match="'laplacian' is not a function of the Euclidean distance"):
        FourierChoice("laplacian", map="structured")
    with pytest.raises(ConfigError, match="map = 'sparse'"):
        FourierChoice(map="sparse")
    with pytest.raises(ConfigError, match="kernel = 'sinc'"):
        NystromChoice("sinc")
    with pytest.raises(ConfigError, match="rank = 21 is more than the 20 landmarks"):
        NystromChoice(n_landmarks=20, rank=21)
    with pytest.raises(ConfigError, match="landmarks = 'leverage'"):
        NystromChoice(landmarks="leverage")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="degree = 0"):
        NystromChoice("polynomial", degree=0)
    with pytest.raises(ConfigError, match="bandwidth = 2 is set, but the kernel 'polynomial' has its own"):
        NystromChoice(Polynomial(), 2.0)
    schema, sample = learnable["binary"].schema, np.ones((50, 4), dtype=np.float32)
    with pytest.raises(ConfigError, match="bandwidth = 2 is set, but the kernel 'linear' has no bandwidth"):
        NystromChoice("linear", 2.0).draw(schema, sample, 0, "float32")
    with pytest.raises(ConfigError, match="100 landmarks are requested, but uniform chooses them from 50 rows"):
        NystromChoice().draw(schema, sample, 0, "float32")
