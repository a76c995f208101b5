"""Threads of a crew run in parallel, wait for further work, and end with the crew even after errors."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from okl.compiled import threads
from okl.compiled.threads import (
    ThreadPool,
    give_up_turns,
    move_to_free_core,
    new_turns,
    pass_turn,
    this_core,
    wait_turn,
)


def settle_thread(taken_at_first: set[int]) -> tuple[set[int], set[int], set[int]]:
    """Settle a new thread on a core; return the taken cores, and its allowed cores before and afterwards."""
    taken = set(taken_at_first)
    before = os.sched_getaffinity(0)
    move_to_free_core(taken)
    return taken, before, os.sched_getaffinity(0)


def in_thread(taken: set[int]) -> tuple[set[int], set[int], set[int]]:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(settle_thread, taken).result()


@pytest.mark.parametrize("core", sorted(os.sched_getaffinity(0))[:2])
def test_a_thread_starts_on_its_own_core_and_may_move_later(core: int) -> None:
    for _ in range(20):  # the system chooses the first core
        taken, before, after = in_thread({core})
        assert core in taken
        assert len(taken) == min(2, len(before))
        assert after == before


def test_a_thread_stays_where_it_is_if_every_core_is_taken() -> None:
    cores = os.sched_getaffinity(0)
    taken, before, after = in_thread(cores)
    assert taken == cores
    assert after == before


def test_this_core_is_one_of_those_allowed() -> None:
    assert this_core() in os.sched_getaffinity(0)


# Threads of a crew run in parallel, wait for further work, and end with the crew even after errors.


def crew_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("okl-thread")]


def meet_at_barrier(crew: ThreadPool, n_threads: int) -> set[tuple[int, int | None]]:
    """Return the crew numbers and threads that met at a barrier, which no thread can pass alone."""
    barrier = threading.Barrier(n_threads)
    here: set[tuple[int, int | None]] = set()

    def work(thread: int) -> None:
        barrier.wait(10)
        here.add((thread, threading.current_thread().ident))

    crew.run(n_threads, work)
    return here


def test_threads_work_at_once_and_stay_for_the_next_work() -> None:
    with ThreadPool() as crew:
        seen = [meet_at_barrier(crew, n_threads) for n_threads in (3, 1, 3)]
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
    with ThreadPool() as crew:
        with pytest.raises(KeyboardInterrupt if failing == 0 else ValueError):
            crew.run(2, work, released.set)
        crew.run(2, fine)
    assert done == {0, 1}
    assert not crew_threads()


# No thread waits for a turn that a stopped thread will never pass on.


def test_passing_a_turn_does_not_undo_giving_up() -> None:
    turns = new_turns()
    assert wait_turn(turns, 0)
    give_up_turns(turns)
    pass_turn(turns, 1)
    assert not wait_turn(turns, 2)


@pytest.mark.parametrize("stopped", ["before it begins", "in its work"])
def test_ctrl_c_in_one_thread_ends_all_of_them(stopped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread 0, which Python interrupts, holds the first turn; thread 1 waits for it."""
    turns, waited = new_turns(), threading.Event()

    class Interrupting(threading.Thread):
        def start(self) -> None:
            super().start()
            if stopped == "before it begins":
                assert waited.wait(10)
                raise KeyboardInterrupt

    def work(thread: int) -> None:
        if thread == 0:
            assert waited.wait(10)
            raise KeyboardInterrupt
        waited.set()
        assert not wait_turn(turns, 1)

    monkeypatch.setattr(threads, "Thread", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        threads.run_threads(2, work, partial(give_up_turns, turns))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("okl-block")]
