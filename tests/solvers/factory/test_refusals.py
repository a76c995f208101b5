"""Invalid combinations are refused before a row is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okl.data.dataset import Dataset
from okl.foundation import plugins
from okl.foundation.errors import ConfigError
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.runs.plan import check
from okl.solvers.online.strategies import STRATEGIES
from okl.solvers.settings import TrainSettings
from tests.solvers.factory.cases import TASKS, defined, re_escaped, settings_of


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"solver": "fogd", "kernel": "polynomial"}, "'polynomial' is not shift-invariant.*solver nogd"),
        ({"solver": "nogd", "rank": 101}, "rank = 101, but a budget of 100 landmarks"),
        ({"solver": "nogd", "budget": 100_000}, "budget = 100,000, but there are only 3.. training rows"),
        ({"solver": "nogd", "landmarks": "kmeans", "budget": 100_000}, "budget = 100,000, .* from 3.. sampled rows"),
        ({"solver": "rbp", "budget": 100_000}, "budget = 100,000 is more than the 3.. training rows"),
        (
            {"solver": "nogd", "kernel": "linear", "bandwidth": 2.0},
            "bandwidth = 2.0 is set, but the kernel 'linear'",
        ),
        ({"solver": "nogd", "degree": 2}, "degree = 2 is set, but the kernel 'gaussian' has no degree"),
        ({"solver": "bsgd-merging", "kernel": "linear"}, "bsgd-merging .* kernel"),
        ({"solver": "rbp", "loss": "logistic"}, "loss = 'logistic', but rbp uses the hinge loss"),
        ({"loss": "absolute"}, "'absolute' is set, but fogd does not take it.* set --solver to scs or wolfe"),
        ({"solver": "norma", "loss": "absolute"}, "but norma does not take it.* set --solver to scs or wolfe"),
        ({"solver": "fogd", "epsilon": 0.3}, "epsilon = 0.3 is for regression, but 'y' makes this a binary task"),
        (
            {"solver": "mm-fda", "passes": 3},
            "passes = 3 is set, but the solver mm-fda has no passes: it belongs to fogd, nogd, ",
        ),
        ({"solver": "scs", "first_sample": 500}, "first_sample = 500, but there are 3.. training rows"),
        (
            {"solver": "scs", "order": "stored"},
            "order = 'stored' is set, but the solver scs has no order: it belongs to fogd, nogd, ",
        ),
        ({"solver": "scs", "mode": "mix"}, "mode = 'mix', but scs .* its mode is sum"),
        ({"solver": "wolfe", "bias": "errors"}, "bias = 'errors', but wolfe has no bias or a regularised one"),
        (
            {"solver": "scs", "loss": "absolute"},
            "loss 'absolute' is for regression tasks, but the target 'y' makes this a bin",
        ),
        ({"solver": "scs", "loss": "logistic"}, "loss = 'logistic'; expected a piecewise linear one"),
        (
            {"solver": "scs", "kernel": "polynomial"},
            r"'polynomial' has no Fourier map\. Set map = 'nystrom' or 'exact'",
        ),
        (
            {"solver": "scs", "bias": "free"},
            "bias = 'free', but over shards scs has no bias or .* c-svm, whose own bias is",
        ),
        ({"solver": "nu-svm", "bias": "free"}, "bias = 'free', but nu-svm has its own bias"),
        ({"solver": "scs", "map": "exact", "bias": "regularised"}, "bias = 'regularised' .* map = 'exact' has none"),
        ({"solver": "scs", "map": "exact", "frequencies": 9}, "frequencies = 9 .* map = 'exact' has no frequencies"),
        ({"solver": "wolfe", "map": "exact"}, "map = 'exact' is set, but wolfe does not support it"),
        ({"solver": "fogd", "map": "exact"}, "map = 'exact' is set, but fogd does not support it"),
        ({"solver": "pegasos", "batch": 3}, "batch = 3, but it must divide 256 in a stream"),
        ({"solver": "pegasos", "confidence": 0.9}, "confidence = 0.9 is set, but the run has no certificate"),
        ({"solver": "c-svm", "bias": "regularised"}, "bias = 'regularised', but c-svm has its own bias"),
        (
            {"solver": "c-svm", "bias": "errors", "fit_intercept": False},
            "bias = 'errors' .* with fit_intercept = False",
        ),
        ({"solver": "nu-svm", "nu": 0.99}, r"nu = 0.99 is outside \(0, 0\.\d+\], the valid range"),
        ({"solver": "ridge", "n_landmarks": 100_000}, "n_landmarks = 100,000 is more than the 3.. training rows"),
        ({"solver": "ridge", "mode": "mix"}, "mode = 'mix', but ridge .* its mode is sum"),
        ({"solver": "local", "mode": "mix"}, "mode = 'mix', but local .* its mode is sum"),
        ({"solver": "local", "kernel": "linear"}, "kernel = 'linear': local takes gaussian, laplacian, .* or matern52"),
        ({"solver": "local", "cell_rows": 1}, "cell_rows = 1.*at least 2"),
        (
            {"solver": "ridge", "passes": 3},
            "passes = 3 is set, but the solver ridge has no passes: it belongs to fogd, nogd, ",
        ),
        (
            {"solver": "ridge", "budget_seconds": 9.0},
            "budget_seconds = 9.0 is set, but the solver ridge has no budget_seconds: it .* leave the solver",
        ),
        (
            {"solver": "ridge", "validation": "blocks"},
            "validation = 'blocks' is set, but the solver ridge has no validation: it belongs to auto",
        ),
        (
            {"solver": "fogd", "step_rule": "plain"},
            "step_rule = 'plain' applies to the mode sum, but the mode is stream",
        ),
    ],
)
def test_invalid_combinations_are_refused_before_a_row_is_read(
    values: dict[str, Any], message: str, data: dict[Task, Dataset], tmp_path: Path
) -> None:
    paths = {"data": str(data["binary"].folder), "out": str(tmp_path / "run")}
    with pytest.raises(ConfigError, match=message):
        check(settings_from(TrainSettings, paths | values, "test"))
    assert list(tmp_path.iterdir()) == []


def test_the_loss_huber_names_the_option_unless_an_extension_adds_it(
    data: dict[Task, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "find", lambda *_: None)  # an example of the documentation is one
    values = {"data": str(data["regression"].folder), "out": str(tmp_path / "run"), "loss": "huber"}
    with pytest.raises(ConfigError, match=r"loss = 'huber': it is an option of least squares: --solver ridge --huber"):
        settings_from(TrainSettings, values, "test")


@pytest.mark.parametrize(("solver", "task"), [(solver, task) for solver in STRATEGIES for task in TASKS])
def test_a_strategy_is_refused_where_it_is_not_defined(
    solver: str, task: Task, data: dict[Task, Dataset], tmp_path: Path
) -> None:
    settings = settings_of(solver, data=str(data[task].folder), out=str(tmp_path / "run"))
    if task in defined(solver):
        check(settings)
    else:
        with pytest.raises(
            ConfigError, match=rf"{re_escaped(solver)} is not defined for a {task} task, only for binary"
        ):
            check(settings)
