from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import okl
from okl.estimators.automatic import KernelClassifier, KernelRegressor
from okl.runs import select
from okl.solvers.settings import TrainSettings
from tests.rows import train
from tests.runs.small_choice import make_choice_small

ROWS, INPUTS = 100, 800


def rows_of(classes: int, n_matter: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return 1,100 rows of 800 inputs, of which some matter, and targets or classes."""
    random = np.random.default_rng(classes)
    inputs = random.normal(size=(ROWS + 1000, INPUTS))
    values = inputs[:, :n_matter] @ np.sign(random.normal(size=(n_matter, max(1, classes * (classes > 2)))))
    values += 0.3 * values.std() * random.normal(size=values.shape)
    if classes == 0:
        return inputs, values[:, 0]
    return inputs, values.argmax(axis=1) if classes > 2 else (values[:, 0] > 0.0).astype(np.int64)


@pytest.mark.parametrize(("classes", "n_matter", "least"), [(0, 4, 0.7), (2, 4, 0.8), (3, 8, 0.6)])
def test_a_lasso_is_chosen_where_few_of_many_inputs_matter(
    classes: int, n_matter: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_choice_small(monkeypatch)
    inputs, targets = rows_of(classes, n_matter)
    make = KernelClassifier if classes else KernelRegressor
    fitted = make(budget_seconds=10.0).fit(inputs[:ROWS], targets[:ROWS])
    assert "Lasso with" in fitted.choice_["why"][0]
    accuracy = fitted.score(inputs[ROWS:], targets[ROWS:])
    without = make(budget_seconds=10.0, metric="none").fit(inputs[:ROWS], targets[:ROWS])
    assert "lasso" not in " ".join(without.choice_["why"])
    assert accuracy > max(least, without.score(inputs[ROWS:], targets[ROWS:]) + 0.1)
    if classes:
        chances = fitted.predict_proba(inputs[ROWS:])
        assert -np.log(chances[np.arange(1000), targets[ROWS:]]).mean() < 0.9 * np.log(classes)


def test_inputs_that_all_matter_have_no_lasso(monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    inputs, targets = rows_of(0, n_matter=INPUTS)
    fitted = KernelRegressor(budget_seconds=10.0).fit(inputs[:ROWS], targets[:ROWS])
    assert "lasso" not in fitted.choice_["why"][0]


def test_a_lasso_is_not_tried_if_it_exceeds_its_share_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    monkeypatch.setattr(select, "_LASSO_NUMBER", 1.0)
    inputs, targets = rows_of(0)
    assert "lasso" not in KernelRegressor(budget_seconds=10.0).fit(inputs[:ROWS], targets[:ROWS]).choice_["why"][0]


def test_a_run_saves_scores_exports_and_explains_a_lasso(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    inputs, targets = rows_of(2)
    others = pd.DataFrame(inputs, columns=[f"g{number}" for number in range(INPUTS)]).assign(y=targets)
    table, others = others[:ROWS], others[ROWS:]
    table.to_parquet(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"))
    result = train(settings.replaced(budget_seconds=10.0))
    assert result["choice"]["why"][0].startswith("Lasso with")
    model = okl.load(str(tmp_path / "run" / "model"))
    assert model.evaluate(others)["accuracy"] > 0.8
