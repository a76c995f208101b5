"""Repeated automatic choices in retraining: when, on which rows, and with which result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from okl.foundation.errors import ConfigError
from okl.lifecycle.choice import DueChoice, find_cause, later_choices, latest_drift
from okl.lifecycle.error_drift import ShardScores, compared
from okl.lifecycle.lineage_checks import check_arrivals
from okl.lifecycle.retrain import retrain
from okl.lifecycle.shard_store import ShardRecord, ShardStore
from okl.models.file import weights_digest
from okl.models.registry import Registry
from okl.report.retraining import summary_text
from okl.solvers.settings import TrainSettings
from tests.lifecycle.shards import land
from tests.lifecycle.stories import champion, lineage, settings
from tests.lifecycle.test_chosen import Stages, automatic_settings
from tests.runs.small_choice import make_choice_small

# The rule.


def record(number: int, rate: float, rows: int = 500, fired: bool = False) -> ShardRecord:
    scores = ShardScores(1, rows, round(rate * rows), rate, 0.5, 0.1 if fired else None, 1e-6 if fired else None, fired)
    return ShardRecord(f"{number:064}", (f"{number}.csv",), 1, "accepted", train_rows=rows, scored=scores)


def stream(*rates: float, fired: tuple[int, ...] = ()) -> list[ShardRecord]:
    return [record(number, rate, fired=number in fired) for number, rate in enumerate(rates)]


def test_a_signal_makes_a_choice_due_and_again_as_rows_since_then_grow() -> None:
    rates = [0.1] * 4 + [0.4] * 20
    made, last, rows = [], 0, 2000
    for n in range(2, len(rates) + 1):
        due = find_cause(stream(*rates[:n], fired=(4,)), last, rows, 500 * min(n, 10), 10)
        if due is not None:
            assert due.since == 4
            made.append(n)
            last, rows = n - 1, 500 * (n - 4)
    assert made == [5, 6, 8, 12, 19], "with 1, 2, 4, 8 and 15 shards since, the last with a window that begins later"


def test_a_choice_starts_at_the_first_shard_of_a_signal_over_several() -> None:
    shards = stream(*[0.1] * 4, *[0.4] * 3, fired=(6,))
    assert latest_drift(shards) == (6, 6)
    assert shards[6].scored is not None
    shards[6] = replace(shards[6], scored=replace(shards[6].scored, together=3))
    assert latest_drift(shards) == (6, 4)
    due = find_cause(shards, 0, 2000, 3500, 10)
    assert due is not None
    assert due.since == 4
    assert latest_drift(shards[:4]) == (-1, 0)


def test_errors_that_grow_slowly_make_a_choice_due_and_steady_or_falling_ones_do_not() -> None:
    def due(*rates: float) -> DueChoice | None:
        return find_cause(stream(0.1, *rates), 0, 5000, 5000, 10)

    assert due(*[0.1] * 30) is None
    assert due(*np.linspace(0.3, 0.1, 12)) is None
    assert due(0.1, 0.1, 0.1, 0.3, 0.3) is None, "three shards after the choice, and three others"
    grown = due(*np.linspace(0.1, 0.4, 12))
    assert grown is not None
    assert grown.cause.startswith("errors have grown since the last choice (")
    assert grown.since == 10


def test_four_times_the_rows_make_a_choice_due() -> None:
    assert find_cause(stream(0.1, 0.1), 0, 500, 1999, 10) is None
    due = find_cause(stream(0.1, 0.1), 0, 500, 2000, 10)
    assert due == DueChoice("there are 2,000 rows, at the last choice 500")
    assert find_cause(stream(0.1, 0.1), 0, 0, 2000, 10) is None, "rows of the last choice are unknown"


def test_few_false_reasons_for_a_choice_without_changes() -> None:
    """Rates of 60 streams of 60 nights, 300 rows a night, vary by 10% from day to day."""
    random, causes = np.random.default_rng(3), 0
    for _ in range(60):
        rates = 0.15 * np.clip(1 + 0.1 * random.standard_normal(60), 0, 3)
        wrong = random.binomial(300, rates)
        shards, last = stream(0.15), 0
        for number, count in enumerate(wrong, start=1):
            now = record(number, count / 300, 300)
            assert now.scored is not None
            past = [one.scored for one in shards[1:] if one.scored is not None]
            shards.append(replace(now, scored=compared(past, now.scored)))
            if find_cause(shards, last, 3000, 3000, 10) is not None:
                causes, last = causes + 1, number
    assert causes <= 7, "3,600 nights, 2 in a thousand"


# Nights.


@pytest.fixture
def root(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_choice_small(monkeypatch)
    return root


def night(root: Path, number: int, changed: bool, rows: int = 600, numbers: bool = False) -> None:
    """Return a day with a linear border or mean, or a circular one in other inputs with another unit."""
    random = np.random.default_rng(number)
    x = random.standard_normal((rows, 4)) * [1.0, 1.0, 20.0, 20.0]
    curve = (x[:, 2] / 20) ** 2 + (x[:, 3] / 20) ** 2 - 1.4
    signal = curve if changed else x[:, 0] + x[:, 1]
    label = signal + 0.1 * random.standard_normal(rows) if numbers else np.where(signal > 0, 1, -1)
    columns: dict[str, Any] = {f"x{i}": column.astype(np.float32) for i, column in enumerate(x.T)}
    columns |= {"hour": 24.0 * number + np.sort(random.random(rows)) * 24, "y": label}
    land(root / "in", f"day-{number:02d}.parquet", pa.table(columns))


def settings_for(root: Path, **more: Any) -> Any:
    train = more.pop("train", {})
    return automatic_settings(root, **train).model_copy(update={"publish_if": "better", "contradiction": False} | more)


def begin(root: Path, last: dict[str, Any] | None = None, numbers: bool = False, **more: Any) -> dict[str, Any]:
    """Run the first file, two others, and a fourth one with changed rows."""
    for files in ((1,), (2, 3)):
        for number in files:
            night(root, number, changed=False, numbers=numbers)
        assert retrain(settings_for(root, **more))["choice"] is None
    night(root, 4, changed=True, numbers=numbers)
    return retrain(settings_for(root, **(more | (last or {}))))


@pytest.mark.parametrize("numbers", [False, True])
def test_drift_makes_a_new_choice_that_later_versions_keep(root: Path, numbers: bool) -> None:
    result = begin(root, numbers=numbers)
    assert result["drift"]["found"], result["drift"]
    assert result["outcome"] == "published"
    assert result["choice"]["outcome"] == "published", result["choice"]
    summary = " ".join(summary_text(result).split())
    assert "chosen again: Solver and settings were chosen again, because day-04.parquet shows drift (" in summary
    version = champion(root)
    entry = version.lineage.settings["choice"]
    assert entry["cause"] in summary
    made = version.load()
    store = ShardStore(root / "registry" / "m" / "data")
    reference = store.reference()
    assert reference is not None
    assert made.schema.feature_statistics != reference.feature_statistics, "scaled by the rows of the choice"
    assert numbers or made.schema.metric != reference.metric, "other inputs matter"
    assert all(one.compared for one in later_choices(store))
    stages = Stages()
    night(root, 5, changed=True, rows=300, numbers=numbers)  # too few to nearly double the rows since the signal
    second = retrain(settings_for(root), observer=stages)
    assert "choose" not in stages.progress
    assert second["choice"] is None
    errors = second["progressive"][0]
    assert errors["error"] < (0.5 * errors["constant"] if numbers else 0.25), (
        "the champion reads the rows by its own scaling and metric"
    )
    assert second["outcome"] == "published"
    assert champion(root).lineage.settings["choice"] == entry
    assert champion(root).load().schema.shift_and_factor[1].tolist() == made.schema.shift_and_factor[1].tolist()
    if entry["first"]:
        assert second["how"] == "solved on the latest 2 shards", "windows begin with that of the choice"


def test_a_choice_that_was_rolled_back_stays_so_until_a_new_file_arrives(root: Path) -> None:
    made = begin(root)["version"]
    model = Registry(root / "registry").model("m")
    model.rollback()
    again = retrain(settings_for(root))
    assert again["outcome"] == "judged before", again["reason"]
    assert f"trained on before, in m@{made}, which is no longer the champion" in again["reason"]
    night(root, 5, changed=True)
    third = retrain(settings_for(root))
    assert third["outcome"] == "published"
    assert third["choice"]["cause"].startswith("there are "), "twice the rows since the drift"


def test_a_choice_that_an_excluded_shard_may_have_decided_is_made_again(root: Path) -> None:
    assert begin(root)["choice"]["outcome"] == "published"
    of_day_4 = champion(root).lineage.settings["choice"]
    result = retrain(settings_for(root, exclude=("day-04.parquet",)))
    assert result["choice"]["cause"] == "day-04.parquet was excluded"
    assert result["outcome"] == "published", "it is not worse on the rows of the other days"
    entry = champion(root).lineage.settings.get("choice", {})
    assert entry.get("last") != of_day_4["last"]
    assert sorted(lineage(root)) == ["day-01.parquet", "day-02.parquet", "day-03.parquet"]
    mistakes = result["metrics"]["challenger"]["mistake_rate"]
    assert mistakes < 0.5 * result["metrics"]["champion"]["mistake_rate"]


def test_the_same_nights_give_the_same_bits_after_an_interrupt(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(root)
    right = weights_digest(champion(root).files / "model")
    elsewhere = root / "again"
    (elsewhere / "in").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr("okl.lifecycle.versions.LearningPlan.learn", _interrupted_after(3))
        with pytest.raises(KeyboardInterrupt):
            begin(elsewhere)
    choices = {one.name for one in (elsewhere / "registry" / "m" / "data" / "choices").glob("*.json")}
    assert choices, "made before the interrupt"
    stages = Stages()
    result = retrain(settings_for(elsewhere), observer=stages)
    assert "choose" not in stages.progress, "it continues with the stored choice"
    assert result["choice"]["outcome"] == "published"
    assert weights_digest(champion(elsewhere).files / "model") == right


def _interrupted_after(n_trainings: int) -> Any:
    from okl.lifecycle.versions import LearningPlan

    learn, done = LearningPlan.learn, list[bool]()

    def learn_or_stop(self: LearningPlan, *parts: Any) -> Any:
        if len(done) == n_trainings:
            raise KeyboardInterrupt
        done.append(True)
        return learn(self, *parts)

    return learn_or_stop


def test_a_given_solver_is_never_replaced_and_keep_switches_the_choice_off(root: Path) -> None:
    assert begin(root, choose="keep")["choice"] is None
    named = root / "named"
    (named / "in").mkdir(parents=True)
    first = settings(named, contradiction=False, publish_if="better", ingest={"keys": ["hour"]})
    for numbers in ((1,), (2, 3), (4,)):
        for number in numbers:
            night(named, number, changed=number == 4)
        result = retrain(first if 1 in numbers else settings_for(named))
    assert result["drift"]["found"]
    assert result["choice"] is None
    assert result["settings"]["train"]["solver"] == "fogd"
    assert not list((named / "registry" / "m" / "data").glob("choices/*"))


def test_a_requested_choice_needs_no_new_file_and_is_compared_once(root: Path) -> None:
    night(root, 1, changed=False)
    first = settings(root, train={"frequencies": 10}, ingest={"keys": ["hour"]})
    assert retrain(first)["outcome"] == "published"
    result = retrain(settings_for(root, choose="again"))
    assert result["choice"]["cause"] == "--choose again was given"
    assert result["outcome"] in ("published", "kept")
    assert "newest reserved rows" not in result["reason"].partition(". ")[2], "no row is newer than others"
    again = retrain(settings_for(root, choose="again"))
    assert again["outcome"] == "judged before"
    assert again["reason"] == "The same choice was made and compared before."
    both = first.model_copy(update={"choose": "again"})
    for run in (check_arrivals, retrain):
        with pytest.raises(ConfigError, match="choose = 'again' conflicts with the given solver 'fogd'"):
            run(both)


def test_rows_that_follow_a_curved_border_are_not_noise_to_a_linear_model(root: Path) -> None:
    linear = TrainSettings(data="", solver="ridge", kernel="linear", threads=1)
    for numbers in ((1,), (2, 3)):
        for number in numbers:
            night(root, number, changed=False)
        retrain(settings_for(root, contradiction=True).model_copy(update={"train": linear}))
    night(root, 4, changed=True)
    result = retrain(settings_for(root, contradiction=True))
    assert result["settings"]["train"]["kernel"] == "linear", "which agrees with a circle by chance only"
    assert abs(result["progressive"][0]["agreement"]) < 0.1
    assert not result["shards"]["rejected"], result["shards"]["rejected"]


def test_a_new_choice_is_the_same_on_workers(root: Path) -> None:
    begin(root)
    right = weights_digest(champion(root).files / "model")
    elsewhere = root / "workers"
    (elsewhere / "in").mkdir(parents=True)
    begin(elsewhere, last={"train": {"workers": 2}})
    assert weights_digest(champion(elsewhere).files / "model") == right
