from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from okl.compiled.cores import settle_apart, this_core


def settled(taken_at_first: set[int]) -> tuple[set[int], set[int], set[int]]:
    """In a thread of its own: what is taken afterwards, and where it may run before and afterwards."""
    taken = set(taken_at_first)
    before = os.sched_getaffinity(0)
    settle_apart(taken)
    return taken, before, os.sched_getaffinity(0)


def in_thread(taken: set[int]) -> tuple[set[int], set[int], set[int]]:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(settled, taken).result()


@pytest.mark.parametrize("core", sorted(os.sched_getaffinity(0))[:2])
def test_a_thread_begins_apart_from_others_and_may_go_anywhere_after(core: int) -> None:
    for _ in range(20):  # where it begins is the system's choice
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
