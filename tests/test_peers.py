"""The benchmark against other systems on a small set with two systems: records, resuming, time-outs, duels, page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.foundation.errors import ConfigError, DataError
from tests.benchmarks.peers.data import SETS, read_set
from tests.benchmarks.peers.measure import Answer
from tests.benchmarks.peers.records import (
    DUEL,
    Measurement,
    Subject,
    append,
    as_text,
    candidates,
    measured,
    near_best,
    read,
    verdict,
)
from tests.benchmarks.peers.run import OVERTAKEN, BenchSettings, Sweep, bench
from tests.benchmarks.peers.systems import CLASSES, Entrant, entrants_on, find, single

ROWS, COLUMNS = 8000, 6  # enough test rows for few splits


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two sets with the names of real ones: two classes with a nonlinear border, and a nonlinear target."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) * 10.0 ** np.arange(COLUMNS, dtype=np.float32)
    signal = inputs[:, 0] ** 2 + inputs[:, 1] / 10.0
    columns = {f"f{index}": inputs[:, index] for index in range(COLUMNS)}
    for name, target in (("german", np.where(signal > 0.5, 1.0, -1.0)), ("parkinsons", signal)):
        pq.write_table(pa.table(columns | {"y": target}), folder / f"{name}.parquet")
    return folder


def test_parts_are_scaled_and_share_no_row(data: Path) -> None:
    table = read_set("german", data)
    part = table.split(0)
    assert len(part.targets) + len(part.test_targets) == ROWS
    np.testing.assert_allclose(part.inputs.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(part.inputs.std(axis=0), 1.0, atol=1e-5)
    rows = {row.tobytes() for row in part.inputs} | {row.tobytes() for row in part.test_inputs}
    assert len(rows) == ROWS
    assert set(part.targets) == {0, 1}
    sample = part.sample()
    assert (len(sample.targets), len(sample.test_targets)) == (3000, 1000)
    np.testing.assert_array_equal(part.inputs[: len(sample.targets)], sample.inputs)
    assert not np.array_equal(table.split(1).targets, part.targets)
    target = read_set("parkinsons", data).split(0).targets
    np.testing.assert_allclose([target.mean(), target.std()], [0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("name", SETS)
def test_every_set_has_okl_and_others(name: str) -> None:
    there = {entrant.system for entrant in entrants_on(SETS[name], ())}
    assert {"okl", "scikit-learn", "LIBLINEAR"} <= there
    for entrant in entrants_on(SETS[name], ()):
        found = find(entrant.system, entrant.name, SETS[name])
        assert (found.tasks, found.tuned, found.swept) == (entrant.tasks, entrant.tuned, entrant.swept)


def test_only_the_best_tuned_settings_are_swept() -> None:
    entrant = Entrant(
        "okl", "made up", "okl", _no_machine, single, CLASSES, {"C": (1.0, 2.0, 3.0)}, {"size": (10, 20)}, keep=2
    )
    assert entrant.to_tune() == [{"size": 10, "C": 1.0}, {"size": 10, "C": 2.0}, {"size": 10, "C": 3.0}]
    best = [{"size": 10, "C": 3.0}, {"size": 10, "C": 1.0}, {"size": 10, "C": 2.0}]
    assert entrant.to_sweep(best) == [
        {"size": 10, "C": 3.0},
        {"size": 10, "C": 1.0},
        {"size": 20, "C": 3.0},
        {"size": 20, "C": 1.0},
    ]
    assert replace(entrant, keep=3).to_tune() == []


def test_failures_and_timeouts_are_rows_and_more_costly_values_are_skipped(data: Path, tmp_path: Path) -> None:
    measurements: list[Measurement] = []
    ridge = find("scikit-learn", "Ridge", SETS["german"])
    failing = replace(ridge, swept={"alpha": (-1.0, 1.0)})
    Sweep(SETS["german"], str(data), 60.0, (), tmp_path / "failing", measurements.append).run([failing])
    assert [one.answer.outcome for one in measurements] == ["failed", "done"]
    assert "alpha" in measurements[0].answer.reason
    measurements.clear()

    late = replace(ridge, swept={"alpha": (1.0, 100.0, 0.5)})
    Sweep(SETS["german"], str(data), 1e-6, (), tmp_path / "late", measurements.append).run([late])
    assert [one.answer.outcome for one in measurements] == ["time-out"] * 3
    assert "1e-06 seconds" in measurements[0].answer.reason
    assert measurements[1].answer.reason == OVERTAKEN
    assert measurements[2].answer.reason != OVERTAKEN  # smaller than the value that took too long
    before = read(tmp_path / "late")
    assert [one.subject for one in before] == [one.subject for one in measurements]
    Sweep(SETS["german"], str(data), 1e-6, before, tmp_path / "late", measurements.append).run([late])
    assert len(measurements) == 3


def test_records_are_read_as_written_with_the_newest_of_each(tmp_path: Path) -> None:
    first, second = _swept("okl", 0.1, 2.0), _swept("okl", 0.2, 1.0)
    append([first], tmp_path)
    append([second], tmp_path)
    assert read(tmp_path) == [second]
    other = measured(replace(first.subject, stage=DUEL), first.answer, turn=1)
    append([other], tmp_path)
    assert read(tmp_path) == [second, other]


def test_verdicts_follow_from_duels_among_systems_near_the_best() -> None:
    swept = [_swept("okl", 0.100, 2.0, 1), _swept("okl", 0.2, 0.1, 2), _swept("LIBLINEAR", 0.104, 1.0, 3)]
    assert [one.subject.system for one in near_best(swept)] == ["LIBLINEAR", "okl"]
    assert candidates(swept) == [swept[0], swept[2]]
    before = verdict(swept, "german")
    assert before is not None
    assert before.outcome == "not measured"
    for seconds, outcome in ((0.5, "ahead"), (1.03, "even"), (2.0, "behind")):
        turns = [_duelled(swept[0], turn, seconds * (1 + turn)) for turn in range(3)]
        turns += [_duelled(swept[2], turn, 1.0 * (1 + turn)) for turn in range(3)]
        found = verdict([*swept, *turns], "german")
        assert found is not None
        assert found.outcome == outcome
        assert found.ratio == pytest.approx(1.0 / seconds)
        older = [replace(one, okl_commit="older", time="2020-01-01T00:00:00+00:00", turn=9) for one in turns]
        assert verdict([*swept, *older, *turns], "german") == found


def test_a_system_far_from_the_best_is_reported() -> None:
    swept = [_swept("okl", 0.2, 0.1, 1), _swept("LIBLINEAR", 0.1, 1.0, 2)]
    assert candidates(swept) == swept
    found = verdict([*swept, *(_duelled(one, 0, 1.0) for one in swept)], "german")
    assert found is not None
    assert found.outcome == "never there"


def test_invalid_options_are_refused_before_any_measurement(data: Path, tmp_path: Path) -> None:
    for options, kind, message in (
        ({"data": str(tmp_path / "none")}, ConfigError, "not a folder"),
        ({"data": str(data), "sets": ("iris",)}, ConfigError, "iris"),
        ({"data": str(data), "sets": ("a9a",)}, DataError, "a9a.parquet"),
        ({"data": str(data), "systems": ("xgboost",)}, ConfigError, "xgboost"),
        ({"data": str(tmp_path)}, DataError, "none of"),
        ({"stage": "page"}, ConfigError, "no measurements"),
    ):
        with pytest.raises(kind, match=message):
            bench(BenchSettings(**options, out=str(tmp_path / "out")), print)
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_a_data_set_is_refused_before_any_record(data: Path, tmp_path: Path) -> None:
    damaged = (data / "german.parquet").read_bytes()[:200]
    (tmp_path / "german.parquet").write_bytes(damaged)
    for table, message in (
        (None, "cannot be read as Parquet"),
        ({"a": ["x"], "y": [1.0]}, "'a' of string"),
        ({"a": [1.0]}, "a target y"),
    ):
        if table is not None:
            pq.write_table(pa.table(table), tmp_path / "german.parquet")
        with pytest.raises(DataError, match=message):
            bench(BenchSettings(data=str(tmp_path), sets=("german",), out=str(tmp_path / "out")), print)
    assert not (tmp_path / "out").exists()


def _no_machine(configuration: Any, part: Any) -> Any:
    raise AssertionError("nothing is made of it")


def _swept(system: str, loss: float, seconds: float, number: int = 0) -> Measurement:
    subject = Subject("sweep", "german", "binary", system, f"entrant {number}", as_text({"C": number}))
    return measured(subject, _answer(loss, seconds))


def _duelled(one: Measurement, turn: int, seconds: float) -> Measurement:
    return measured(replace(one.subject, stage=DUEL), _answer(one.answer.loss or 0.0, seconds), turn)


def _answer(loss: float, seconds: float) -> Answer:
    return Answer("done", "", seconds, seconds, 0.1, 1.0 - loss, loss, 10, 20, 750, 250, 24, 1, "1.0")
