"""Concurrent writers and readers, and killed writers: one writer wins, nothing is lost, every version opens."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from okl.foundation.errors import ConflictError
from okl.models.registry import RegisteredModel, Registry
from tests.flows.environment import child_environment
from tests.models.registered import lineage, number_in, publish, writer
from tests.models.writing import RING, move_on

ROUNDS, WRITERS = 50, 4


def ring(folder: Path) -> RegisteredModel:
    """Return a model with a ring of versions; the champion is the first version, the previous one the last."""
    model = Registry(folder).model("ring")
    for number in range(1, RING + 1):
        publish(model, number, promote=True, expected={})
    model.promote(1)
    return model


def process(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.models.writing", *map(str, arguments)],
        env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def answer_of(running: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    answer: dict[str, Any] = json.loads(out)
    return answer


def at_once(*works: Callable[[], object]) -> list[object]:
    """Run functions at once in threads; return their results, or the errors of conflicts."""
    ready = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        ready.wait()
        try:
            return work()
        except ConflictError as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_one_of_several_simultaneous_promotions_succeeds(tmp_path: Path) -> None:
    model = ring(tmp_path)
    for turn in range(ROUNDS):
        before = model.head()
        champion = before.state.champion
        others = [number for number in range(1, RING + 1) if number != champion]

        def promote(number: int, champion: int | None = champion) -> object:
            own = Registry(tmp_path).model("ring")
            return own.promote(number, expected={"champion": champion}, why=str(number))

        outcomes = at_once(*(partial(promote, number) for number in others[:WRITERS]))
        (won,) = (outcome for outcome in outcomes if not isinstance(outcome, ConflictError))
        assert won == model.head(), turn
        assert (model.head().number, model.state().aliases["previous"]) == (before.number + 1, champion)
        assert str(model.state().champion) == model.head().why


def test_one_of_several_simultaneous_retrainings_publishes(tmp_path: Path) -> None:
    model = Registry(tmp_path).model("churn")
    for turn in range(12):
        champion = model.state().champion

        def retrain(number: int, champion: int | None = champion) -> object:
            own = Registry(tmp_path).model("churn")
            return own.publish(writer(number), lineage(number, champion), promote=True)

        outcomes = at_once(*(partial(retrain, 3 * turn + number) for number in range(3)))
        assert [isinstance(outcome, ConflictError) for outcome in outcomes].count(False) == 1
        assert model.state().latest == model.state().champion == turn + 1
        assert len(list((tmp_path / "churn" / "versions").iterdir())) == turn + 1, "losers leave nothing"
    shards = [shard["sha256"] for version in model.ancestry(model.version()) for shard in version.lineage.shards]
    assert len(shards) == len(set(shards)) == 12


def test_the_same_window_at_once_is_one_version_for_all(tmp_path: Path) -> None:
    model = Registry(tmp_path).model("churn")
    publish(model, 0, promote=True)
    for turn in range(1, 7):

        def retrain(number: int = turn) -> object:
            own = Registry(tmp_path).model("churn")
            return own.publish(writer(number), lineage(number, number), aliases=["candidate"])

        outcomes = at_once(retrain, retrain, retrain)
        found = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
        assert len(found) == 3
        assert {version.number for version, _ in found} == {turn + 1}
        assert [new for _, new in found].count(True) == 1
        assert len(list((tmp_path / "churn" / "versions").iterdir())) == turn + 1


def test_concurrent_processes_lose_no_update_and_readers_see_whole_versions(tmp_path: Path) -> None:
    model = ring(tmp_path)
    before, moves = model.head().number, 15
    running = process("race", tmp_path, 3, moves)
    while running.poll() is None and model.head().number == before:
        time.sleep(0.001)  # a short wait: on a busy machine the processes could otherwise end unnoticed
    own = running.poll() is None
    move_on(str(tmp_path), moves)
    reads = 0
    while running.poll() is None or reads <= 5:
        reader = Registry(tmp_path).model("ring")
        state = reader.state()
        assert state.champion is not None
        assert state.aliases["previous"] == (state.champion - 2) % RING + 1, "both move in one step"
        version = reader.version()
        assert number_in(version.load()) == version.number
        reads += 1
    assert answer_of(running) == {"codes": [0, 0, 0]}
    assert own
    assert reads > 5
    assert model.head().number == before + 4 * moves
    assert model.state().champion == 4 * moves % RING + 1
    chain = [entry.state.champion for entry in model.entries()[before - 1 :]]
    assert all(after == (champion or 0) % RING + 1 for champion, after in pairwise(chain))


def test_writers_killed_before_any_file_operation_leave_a_usable_registry(tmp_path: Path) -> None:
    answer = answer_of(process("kills", tmp_path))
    assert answer["killed"] >= 30
    assert answer["published"] > 5 < answer["not"]
    assert answer["left"] > 3, "some were killed between their files and their entry"
    assert answer["tidy"]
    assert answer["beside"] == []
