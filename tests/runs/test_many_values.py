from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from okl.data.manifest import read_manifest
from okl.estimators.automatic import KernelClassifier, KernelRegressor
from okl.foundation.settings import IngestSettings
from okl.solvers.settings import TrainSettings
from tests.rows import train
from tests.runs.small_choice import make_choice_small

ROWS = 900


def rows_of(slopes: bool) -> tuple[pd.DataFrame, pd.Series]:
    """Rows of 90 shops, which shift the score or, with slopes, decide how a number changes it."""
    random = np.random.default_rng(0)
    shop, numbers = random.integers(0, 90, ROWS), random.normal(size=(ROWS, 2))
    effect = 2.0 * random.normal(size=90)[shop] * (numbers[:, 0] if slopes else 1.0)
    table = pd.DataFrame(numbers, columns=["a", "b"]).assign(shop=np.char.add("s", shop.astype(str)))
    return table, pd.Series(np.where(effect + numbers[:, 1] > 0.3 * random.normal(size=ROWS), "yes", "no"), name="y")


@pytest.mark.parametrize("slopes", [False, True])
def test_target_means_are_taken_where_they_are_better_on_held_out_rows(
    slopes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if slopes:  # few candidates suffice
        make_choice_small(monkeypatch)
    table, target = rows_of(slopes)
    fitted = KernelClassifier(budget_seconds=3.0).fit(table, target)
    assert bool(fitted.model_.schema.encodings[-1].means) != slopes
    table.assign(y=target).to_parquet(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"), ingest=IngestSettings())
    train(settings.replaced(budget_seconds=3.0))
    made = read_manifest(tmp_path / "run" / "data")
    assert made.settings.get("many_values", "auto") in (("auto", "inputs") if slopes else ("means",))
    assert bool(made.dataset.schema.encodings[-1].means) != slopes


def test_all_values_have_an_input_where_their_effects_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    random = np.random.default_rng(1)
    shop, town = random.integers(0, 250, (2, 1200))
    table = pd.DataFrame({"shop": np.char.add("s", shop.astype(str)), "town": np.char.add("t", town.astype(str))})
    effects = 3.0 * random.normal(size=(2, 250))
    target = effects[0][shop] + effects[1][town] + 0.3 * random.normal(size=1200)
    fitted = KernelRegressor(budget_seconds=8.0).fit(table[:1000], target[:1000])
    assert sum(len(encoding.categories) for encoding in fitted.model_.schema.encodings) > 450
    assert fitted.score(table[1000:], target[1000:]) > 0.9


@pytest.mark.parametrize("given", [{"many_values": "inputs"}, {"max_categories": 20}])
def test_settings_that_decide_are_not_tried(
    given: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, target = rows_of(slopes=False)
    table.assign(y=target).to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr("okl.runs.many_values.choose_solver", None)
    ingest = IngestSettings.model_validate(given)
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"), ingest=ingest)
    train(settings.replaced(budget_seconds=0.5))
    schema = read_manifest(tmp_path / "run" / "data").dataset.schema
    assert {encoding.means for encoding in schema.encodings} == {()}
