"""The worked examples of the page "Add to okl": one file and one line each, used in every way that okl offers."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from okl.compiled.kernels import kernel_block
from okl.compiled.products import panels_of
from okl.data.execution import Rows
from okl.foundation import class_tags
from okl.foundation.catalogue import SOLVERS
from okl.foundation.class_tags import tagged_classes
from okl.kernels import Gaussian
from okl.metrics.definitions import measure, merge
from okl.report.results import RunResult
from okl.solvers.online.budget import BudgetLearner
from tests.docs.added import FILES, ROOT, Added
from tests.docs.test_site import shell_commands

PAGE = ROOT / "infra" / "docs" / "how-to" / "add.md"
RANDOM = np.random.default_rng(0)


def example(name: str) -> Any:
    """Import an example as a module, outside of okl."""
    path = next(path for path in FILES if path.stem == name)
    spec = importlib.util.spec_from_file_location(Added.of(path).module, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def _remove_examples() -> Iterator[None]:
    """Remove the examples and the tags that they declare, because later tests check those of okl."""
    yield
    modules = {Added.of(path).module for path in FILES}
    for module in modules & sys.modules.keys():
        del sys.modules[module]
    for tag, kind in tagged_classes().items():
        if kind.__module__ in modules:
            del class_tags._classes[tag]
            class_tags._tags.pop(kind, None)
            class_tags._renamed.pop(kind, None)


# Tests of single examples.


def test_the_page_shows_every_example_of_less_than_90_lines() -> None:
    shown = re.findall(r"{literalinclude} \S+/added/(\w+)\.py", PAGE.read_text())
    assert sorted(shown) == [path.stem for path in FILES]
    assert len({Added.of(path).table for path in FILES}) == len(FILES) == 6
    assert all(len(path.read_text().splitlines()) < 90 for path in FILES)


def test_frequencies_of_the_rational_quadratic_kernel_have_its_mean_cosine() -> None:
    kernel, n = example("rational").RationalQuadratic(1.5), 100_000
    rows = RANDOM.normal(size=(6, 3))
    drawn = kernel.draw_frequencies(3, n, np.random.default_rng(1))
    placed = kernel.frequencies_at(np.random.default_rng(2).random((n, kernel.n_uniforms(3))))
    for row in rows:
        expected = kernel.matrix(row[None, :], np.zeros((1, 3)))[0, 0]
        assert 0.05 < expected < 0.95
        for frequencies in (drawn, placed):
            assert abs(np.cos(row @ frequencies).mean() - expected) < 5 * (2 * n) ** -0.5


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("power", [1, 2])
def test_a_compiled_profile_equals_numpy(power: int, precision: str) -> None:
    kind = type("Tried", (example("rational").RationalQuadratic,), {"power": power})
    kernel = kind(2.0)
    left, right = (RANDOM.normal(size=(rows, 5)).astype(precision) for rows in (40, 30))
    values = np.empty((40, 30), dtype=precision)
    kernel_block(values, left, panels_of(right.T), kernel.rule)
    np.testing.assert_allclose(values, kernel.matrix(left, right), rtol=1e-5 if precision == "float32" else 1e-12)
    assert kernel.rule.degree != 3  # the address of a compiled function, not a degree


def test_the_squared_hinge_has_the_slope_of_its_value_and_a_tight_conjugate() -> None:
    loss, step = example("squared_hinge").SquaredHinge(), 1e-6
    scores, targets = 2.0 * RANDOM.normal(size=300), RANDOM.choice([-1.0, 1.0], size=300)
    value, slope = loss.value(scores, targets), loss.derivative(scores, targets)
    np.testing.assert_allclose(value, 0.5 * np.maximum(0.0, 1.0 - targets * scores) ** 2, rtol=1e-12)
    differences = (loss.value(scores + step, targets) - loss.value(scores - step, targets)) / (2 * step)
    np.testing.assert_allclose(slope, differences, atol=1e-5)
    np.testing.assert_allclose(value + loss.conjugate(slope, targets), scores * slope, atol=1e-12)
    assert (value + loss.conjugate(-targets * 0.3, targets) >= -0.3 * targets * scores - 1e-12).all()


def test_the_metric_equals_scikit_learn_for_any_partition() -> None:
    metric = example("matthews").matthews
    targets, scores = RANDOM.integers(3, size=200), RANDOM.normal(size=(200, 3))
    scores[np.arange(200), targets] += 1.0
    parts = [
        measure("multiclass", scores[part], targets[part].astype(np.float64), 3)
        for part in (slice(0, 70), slice(70, 200))
    ]
    assert metric.value(merge(parts)) == pytest.approx(matthews_corrcoef(targets, scores.argmax(axis=1)))
    signs = np.sign(RANDOM.normal(size=90))
    assert metric.value(measure("binary", np.ones(90), signs)) is None


def test_the_stoptron_is_a_perceptron_until_its_budget_is_full() -> None:
    inputs = RANDOM.normal(size=(400, 2)).astype(np.float32).astype(np.float64)
    targets = np.where(np.sin(2 * inputs[:, 0]) + inputs[:, 1] > 0.1, 1.0, -1.0)
    kernel, budget = Gaussian(1.0), 40
    supports: list[int] = []
    mistakes = 0
    for row in range(len(inputs)):
        values = kernel.matrix(inputs[row : row + 1], inputs[supports])[0] if supports else np.zeros(0)
        score = float(values @ targets[supports])
        mistakes += (score >= 0.0) != (targets[row] > 0.0)
        if targets[row] * score <= 0.0 and len(supports) < budget:
            supports.append(row)
    learner = BudgetLearner(kernel, example("stoptron").Stoptron(), "binary", 2, budget)
    state = learner.learn(learner.start(), Rows(inputs, targets))
    np.testing.assert_array_equal(state.rows, inputs[supports])
    np.testing.assert_array_equal(state.scaled_coefficients[0], targets[supports])
    assert (state.progress.mistakes, state.progress.updates) == (mistakes, budget)
    parts = [
        learner.learn(learner.shard_start(learner.start()), Rows(inputs[part], targets[part]))
        for part in (slice(200), slice(200, 400))
    ]
    assert learner.average_shards(learner.start(), parts).n_supports == budget


def test_the_section_is_empty_without_scores() -> None:
    section = example("certain").certain_section
    assert not section(RunResult({})).blocks
    bins = [{"rows": 10, "hits": 1, "lowest": -2.0, "highest": -1.0, "mean": -1.5}] * 2
    assert len(section(RunResult({"test": {"reliability": {"of": "score", "bins": bins}}})).blocks) == 2


# Tests of all examples in okl.


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("added")
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.added", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OKL_HOME": str(folder / "home")},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_added_examples_train_and_report(results: dict[str, Any]) -> None:
    for name, test in results["test"].items():
        assert test["accuracy"] > results["baselines"][name]["accuracy"] + 0.1, name
        assert 0.3 < test["matthews"] <= 1.0
        assert "Matthews correlation" in results["report"][name]
        assert "Which rows is it certain of?" in results["report"][name]
    assert "rational quadratic kernel" in results["report"]["solver"]


def test_added_examples_are_compared_exported_and_used_as_estimators(results: dict[str, Any]) -> None:
    assert results["compared"].keys() == {"stoptron", "adaline"} < set(results["online"])
    assert min(results["compared"].values()) > 0.6
    difference, refusal = results["exported"]
    assert difference < 1e-4
    assert refusal.startswith("The kernel 'rational' cannot be exported to ONNX. Train with one of gaussian,")
    assert min(results["estimators"]) > 0.65
    assert results["tried"] == [0.25, 0.5, 1.0]


def test_added_examples_are_in_help_and_forms(results: dict[str, Any]) -> None:
    assert "rational" in results["help"]["kernel"]
    assert "squared-hinge" in results["help"]["loss"]
    assert results["summary"]["stoptron"].startswith("A perceptron that stops")
    assert "loss" not in results["solver help"], "adaline has its own loss"
    assert {"frequencies", "map", "kernel", "passes"} < set(results["solver help"])
    assert set(results["forms"]["solver"]) - SOLVERS.keys() == {"stoptron", "adaline"}
    assert "rational" in results["forms"]["kernel"]
    assert "squared-hinge" in results["forms"]["loss"]


REFUSALS = {
    "loss": "loss = 'squared-hinge', but stoptron uses the hinge loss",
    "merging": "optimal for the Gaussian kernel only",
    "radius": "the loss is squared-hinge",
    "map": "orthogonal",
    "task": "adaline has its own",
    "option": "the solver stoptron has no frequencies: it belongs to fogd,",
    "name": "kernel = 'rationale': input should be 'gaussian', .* or 'rational'",
}


@pytest.mark.parametrize("name", REFUSALS)
def test_options_that_do_not_fit_added_examples_are_refused(results: dict[str, Any], name: str) -> None:
    assert re.search(REFUSALS[name], results["refusals"][name])


def test_commands_of_the_page_use_the_added_names() -> None:
    added = re.findall(r"\"([\w-]+)\": ", "\n".join(Added.of(path).line for path in FILES))
    commands = list(shell_commands(PAGE))
    assert len(commands) >= 7
    assert all(any(name in command for name in added) for command in commands)
