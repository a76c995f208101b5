"""Model sizes of the automatic choice: more sizes never harm, and growth ends without improvement."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.distributed.in_process import LocalExecution
from okl.foundation.settings import settings_from
from okl.foundation.telemetry import NullObserver
from okl.runs import candidates, model_sizes, select
from okl.runs.growing_models import BestSize, Judgement, ended_solvers, is_better, train_growing_models
from okl.runs.model_sizes import Size
from okl.runs.select import IN_CELLS, Choice, choose_solver
from okl.solvers.factory import training_columns
from okl.solvers.ridge import cells
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings as ingest_settings

ROWS = 2600


def stored(folder: Path, target: str) -> Dataset:
    random = np.random.default_rng(2)
    inputs = random.uniform(-2.0, 2.0, size=(ROWS, 3))
    wave = np.sin(4.0 * inputs[:, 0]) + np.cos(3.0 * inputs[:, 1] * inputs[:, 2]) + 0.5 * random.normal(size=ROWS)
    if target == "noise":  # a smooth boundary, for which a few landmarks are enough
        wave = np.square(inputs[:, 0]) + inputs[:, 1] + random.normal(size=ROWS)
    y = wave if target == "number" else np.digitize(wave, [0.0, 0.8] if target == "three" else [0.4])
    folder.mkdir()
    pq.write_table(pa.table({"a": inputs[:, 0], "b": inputs[:, 1], "c": inputs[:, 2], "y": y}), folder / "rows.parquet")
    settings = ingest_settings(rows_per_shard=600, rows_per_group=60)
    return ingest(folder / "rows.parquet", folder / "set", settings).dataset


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few landmarks, one round and no cells: sizes of 16 to 128 landmarks."""
    for name, value in (("LEAST_LANDMARKS", 16), ("ENOUGH_LANDMARKS", 64), ("MOST_LANDMARKS", 128)):
        monkeypatch.setattr(model_sizes, name, value)
    monkeypatch.setattr(model_sizes, "ROUNDS", ((400, 60), (400, 60), (400, 60)))
    monkeypatch.setattr(candidates, "FACTORS", {"gaussian": (0.5, 1.0)})
    monkeypatch.setattr(model_sizes, "_LOCAL", ())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder = tmp_path_factory.mktemp("sizes")
    return {target: stored(folder / target, target) for target in ("two", "three", "number", "noise")}


def chosen(data: Dataset, **values: Any) -> tuple[Choice, Dataset]:
    values = {"data": str(data.folder), "rescale": "standard", "validation": "rows", "budget_seconds": 60.0} | values
    choice = choose_solver(settings_from(TrainSettings, values, "test"), data)
    return choice, training_columns(choice.settings, data)


def trained(choice: Choice, data: Dataset, threads: int = 1) -> BestSize:
    with LocalExecution(threads) as execution:
        return train_growing_models(choice, data, execution)


def test_seconds_of_sizes_are_durations(data: dict[str, Dataset]) -> None:
    started_at = time.perf_counter()
    seconds = [one["seconds"] for one in trained(*chosen(data["two"])).record["sizes"]]
    assert len(seconds) > 1
    assert 0.0 < seconds[0] < seconds[-1] < time.perf_counter() - started_at


def scores(best: BestSize) -> list[float]:
    return [one["score"] for one in best.record["sizes"]]


@pytest.mark.parametrize(
    ("target", "optimise"),
    [("two", "auto"), ("two", "log-loss"), ("three", "accuracy"), ("number", "auto")],
)
def test_more_sizes_add_models_and_never_make_the_best_one_worse(
    target: str, optimise: str, data: dict[str, Dataset]
) -> None:
    choice, rows = chosen(data[target], optimise=optimise)
    assert len(choice.models) > 2
    assert {settings.solver for settings, _ in choice.models} == {"ridge"}
    whole = trained(choice, rows)
    assert len(scores(whole)) > 1
    by_name = {size.name: settings for settings, size in choice.models if size is not None}
    for number in range(2, len(choice.models)):
        fewer = trained(replace(choice, models=choice.models[:number]), rows, threads=2)
        assert scores(fewer) == scores(whole)[: len(scores(fewer))]
        best = max(fewer.record["sizes"], key=lambda one: one["score"])
        assert fewer.settings == by_name[best["name"]]
    assert max(scores(whole)) > scores(whole)[0]
    assert whole.record["why"][:-1] == choice.record["why"]
    assert all(one["name"] in whole.record["why"][-1] for one in whole.record["sizes"])


def test_a_solver_ends_where_its_next_size_is_no_better(data: dict[str, Dataset]) -> None:
    choice, rows = chosen(data["noise"])
    best = trained(choice, rows)
    assert len(scores(best)) < len(choice.models) == 4
    assert "Larger ones were not trained where a size was not better by more than chance" in best.record["why"][-1]
    errors = [1.0 - score for score in scores(best)]
    assert errors[-2] - errors[-1] < 2.0 * (errors[-1] * (1.0 - errors[-1]) / ROWS) ** 0.5


@pytest.fixture
def with_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use models in small cells, as for more rows."""
    for name, value in (("_LOCAL", ((100, 2), (200, 4))), ("_TUNING", (0.0, 0.0))):
        monkeypatch.setattr(model_sizes, name, value)
    monkeypatch.setattr(cells, "TUNED_ROWS", 150)


@pytest.mark.usefixtures("with_cells")
@pytest.mark.parametrize("many", [False, True])
def test_cells_are_used_where_they_are_better_on_a_sample_and_instead_of_online_models(
    many: bool, data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr(model_sizes, "_LONG_SECONDS", 0.0)
    choice, rows = chosen(data["two"])
    solvers = [settings.solver for settings, _ in choice.models]
    assert set(solvers) == ({"local"} if many else {"ridge", "local"})
    (sentence,) = [why for why in choice.record["why"] if why.startswith(IN_CELLS)]
    assert "mistakes in sampled cells" in sentence
    best = trained(choice, rows)
    assert best.settings.solver == "local"
    options = best.settings.options.model_dump()
    assert options["kernel"] in sentence
    assert best.trained.solver.chosen(best.trained.state)["bandwidth"] == options["bandwidth"]
    errors = {one["name"]: 1.0 - one["score"] for one in best.record["sizes"]}
    least = min(errors, key=lambda name: errors[name])
    assert least.startswith("cells of")
    assert best.record["why"][0] == f"{sentence.removesuffix('.')}, {errors[least]:.2%} mistakes with {least}."


@pytest.mark.usefixtures("with_cells")
def test_cells_are_not_used_where_they_are_worse_or_neighbours_are_similar(
    data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cells, "TUNED_ROWS", 20)
        patch.setattr(select, "_NEAR", 0.9)  # noise is predicted equally badly in cells, better or worse by chance
        choice, _ = chosen(data["noise"])
    assert {settings.solver for settings, _ in choice.models} == {"ridge"}
    assert any(why.startswith(IN_CELLS) and why.endswith("not better.") for why in choice.record["why"])
    choice, _ = chosen(data["two"], validation="blocks")
    assert {settings.solver for settings, _ in choice.models} == {"ridge"}
    assert not any(why.startswith(IN_CELLS) for why in choice.record["why"])


@pytest.mark.usefixtures("with_cells")
@pytest.mark.parametrize("clearly", [True, False])
def test_cells_replace_the_huber_loss_where_they_are_clearly_better(
    clearly: bool, data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "_heavy_tails", lambda *_: ["The errors have heavy tails."])
    monkeypatch.setattr(select, "_CLEARLY", 2.0 if clearly else 0.0)
    choice, _ = chosen(data["number"])
    huber = {getattr(settings.options, "huber", None) for settings, _ in choice.models}
    assert ("local" in {settings.solver for settings, _ in choice.models}) == clearly
    assert (huber == {None}) == clearly
    assert any("Huber's loss is not used" in why for why in choice.record["why"]) == clearly


def test_a_size_of_another_solver_is_chosen_only_if_it_is_significantly_better() -> None:
    ridge, cells = (Size(solver, {}, 1.0) for solver in ("ridge", "local"))
    best = ridge, Judgement(0.2, 0.01)
    assert not is_better(cells, Judgement(0.195, 0.01), best)
    assert is_better(cells, Judgement(0.185, 0.01), best)
    assert is_better(ridge, Judgement(0.195, 0.01), best)
    tried = [best, (cells, Judgement(0.1, 0.01)), (ridge, Judgement(0.18, 0.01))]
    assert ended_solvers(tried) == {"ridge"}, "another gain of .02 would not reach .1"
    assert ended_solvers([*tried, (cells, Judgement(0.095, 0.01))]) == {"ridge", "local"}


@pytest.mark.parametrize(("seconds", "frequencies"), [(1e-9, 2), (60.0, 200)])
def test_online_models_are_trained_in_the_largest_size_that_the_budget_allows(
    seconds: float, frequencies: int, data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_sizes, "_LONG_SECONDS", 0.0)  # as of very many rows
    monkeypatch.setattr(model_sizes, "_ONLINE", ((2, 1), (10, 1), (200, 2)))
    choice, rows = chosen(data["two"], budget_seconds=seconds)
    [(settings, size)] = choice.models
    assert settings.solver == "fogd"
    assert size is not None
    assert size.options["frequencies"] == frequencies
    best = trained(choice, rows)
    assert (best.settings, best.record) == (settings, choice.record)


@pytest.mark.parametrize("long_seconds", [0.0, 40.0])
def test_advised_budget_is_the_least_that_allows_the_next_size(
    long_seconds: float, data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_sizes, "_LONG_SECONDS", long_seconds)  # 0: as of very many rows, trained online
    monkeypatch.setattr(model_sizes, "_ONLINE", ((2, 1), (200, 2)))
    (*_, (_, size)), seconds = chosen(data["two"], budget_seconds=1e-4)[0].models, []
    assert size is not None
    for budget in (0.99 * size.next_budget, 1.01 * size.next_budget):
        models = chosen(data["two"], budget_seconds=budget)[0].models
        seconds.append(sum(each.seconds for _, each in models if each is not None))
    assert seconds[0] == size.seconds < seconds[1]
    advised = float(model_sizes.larger_budget(size).split("--budget-seconds ")[1].split()[0])
    assert size.next_budget <= advised <= 1.1 * size.next_budget


class Recorder(NullObserver):
    """An observer that keeps the names of all metrics."""

    def __init__(self) -> None:
        self.names = set[str]()

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        self.names |= metrics.keys()


def test_errors_of_sizes_that_hubers_loss_clips_are_named_so(
    data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    for clipped in (True, False):
        monkeypatch.setattr(
            select, "_heavy_tails", lambda *_, clipped=clipped: "The errors have heavy tails." * clipped
        )
        choice, columns = chosen(data["number"])
        observer = Recorder()
        with LocalExecution(1) as execution:
            best = train_growing_models(choice, columns, execution, observer)
        assert len(best.record["sizes"]) > 1
        sentence = next(why for why in best.record["why"] if why.startswith("Sizes (of rows left out"))
        assert ("clipped by Huber's loss, so not on the scale of the candidates)" in sentence) == clipped
        assert ("clipped_error_of_the_best_size" in observer.names) == clipped
        assert ("error_of_the_best_size" in observer.names) != clipped
