"""Threads of a crew work at once, stay for the next piece of work, and are gone afterwards, whatever happened."""

from __future__ import annotations

import threading

import pytest

from okl.compiled.crew import Crew


def crew_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("okl-crew")]


def met(crew: Crew, n_threads: int) -> set[tuple[int, int | None]]:
    """Who met at a barrier, which lets nobody pass alone: number in the crew, and thread."""
    barrier = threading.Barrier(n_threads)
    here: set[tuple[int, int | None]] = set()

    def work(thread: int) -> None:
        barrier.wait(10)
        here.add((thread, threading.current_thread().ident))

    crew.run(n_threads, work)
    return here


def test_threads_work_at_once_and_stay_for_the_next_work() -> None:
    with Crew() as crew:
        seen = [met(crew, n_threads) for n_threads in (3, 1, 3)]
        assert len(crew_threads()) == 2
    assert [len(here) for here in seen] == [3, 1, 3]
    assert seen[0] == seen[2]
    assert not crew_threads()


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_in_one_thread_releases_the_others_and_is_raised(failing: int) -> None:
    released = threading.Event()

    def work(thread: int) -> None:
        if thread == failing:
            raise KeyboardInterrupt if thread == 0 else ValueError
        assert released.wait(10)

    def fine(thread: int) -> None:
        done.add(thread)

    done: set[int] = set()
    with Crew() as crew:
        with pytest.raises(KeyboardInterrupt if failing == 0 else ValueError):
            crew.run(2, work, released.set)
        crew.run(2, fine)
    assert done == {0, 1}
    assert not crew_threads()
