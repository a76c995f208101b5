"""Processes that write to a registry at once, or are killed while writing: run as `python -m` with arguments.

race FOLDER PROCESSES MOVES : each moves the champion by one version, repeatedly
kills FOLDER : writers that are killed before each operation on files in turn, from the first to the last
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from okl.foundation.errors import ConflictError
from okl.models.registry import Registry
from tests.models.registered import lineage, number_in, publish, writer

RING = 5  # versions in the ring of the champion
OPERATIONS = {"open", "os.mkdir", "os.link", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "shutil.rmtree"}


def forked(work: Callable[[], object]) -> int:
    """Fork a process that does some work and ends; the parent must have no threads."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child


def move_on(folder: str, moves: int) -> int:
    """Move the champion to the next version of the ring some times; return how often another process was faster."""
    model, lost = Registry(folder).model("ring"), 0
    while moves:
        champion = model.state().champion
        assert champion is not None
        try:
            model.promote(champion % RING + 1, expected={"champion": champion})
            moves -= 1
        except ConflictError:
            lost += 1
    return lost


def race(folder: str, processes: int, moves: int) -> None:
    go_read, go_write = os.pipe()

    def work() -> None:
        os.read(go_read, 1)  # until all have started
        move_on(folder, moves)

    children = [forked(work) for _ in range(processes)]
    os.write(go_write, b"g" * processes)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps({"codes": codes}))


def killed_before(operation: int, work: Callable[[], object]) -> int:
    """Return the exit code of a process that kills itself before a file operation, counted from 1."""

    def counting() -> None:
        done = 0

        def observe(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal done
            if event in OPERATIONS:
                done += 1
                if done == operation:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(observe)
        work()

    return os.waitstatus_to_exitcode(os.waitpid(forked(counting), 0)[1])


def kills(folder: str) -> None:
    model = Registry(folder).model("ring")
    publish(model, 0, promote=True)
    killed, survived, seen = 0, 0, {"published": 0, "not": 0}
    while survived < 2:
        number = killed + survived + 1
        before = Registry(folder).model("ring").state()
        champion = before.champion

        def work(number: int = number, champion: int | None = champion) -> None:
            own_model = Registry(folder).model("ring")
            own_model.publish(writer(number), lineage(number, champion), promote=True)
            own_model.rollback()
            own_model.promote(own_model.state().latest)

        code = killed_before(2 * number - 1, work)
        assert code in (0, -signal.SIGKILL), code
        killed, survived = killed + (code != 0), survived + (code == 0)

        after = Registry(folder).model("ring")  # as the next process finds the registry
        state = after.state()
        assert state.latest in (before.latest, before.latest + 1)
        assert state.champion in (champion, state.latest)
        seen["published" if state.latest > before.latest else "not"] += 1
        chosen = after.version()
        assert number_in(chosen.load()) == chosen.lineage.settings["number"]
        version, new = after.publish(writer(number), lineage(number, champion), promote=True)
        assert new == (state.latest == before.latest)
        assert version.number == before.latest + 1
        after.promote(version.number)
    model = Registry(folder).model("ring")
    for version in model.versions():
        version.verify()
    numbers = [entry.number for entry in model.entries()]
    left = len(list((Path(folder) / "ring" / "versions").iterdir())) - len(model.versions())
    model.prune(keep=3)
    model.prune(keep=3)
    folders = sorted(path.name for path in (Path(folder) / "ring" / "versions").iterdir())
    kept = sorted(version.published.folder for version in model.versions() if not version.pruned)
    temporary_files = [path.name for path in (Path(folder) / "ring" / "log").iterdir() if path.name[0] == "."]
    assert numbers == list(range(1, len(numbers) + 1))
    print(json.dumps({"killed": killed, "left": left, "tidy": folders == kept, "beside": temporary_files, **seen}))


if __name__ == "__main__":
    if sys.argv[1] == "race":
        race(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        kills(sys.argv[2])
