"""The limit to one BLAS thread holds in every thread of the process, so that bits do not depend on threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from okl.compiled.jit import one_blas_thread


def blas_threads() -> set[int]:
    return {one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()}


def in_a_thread(work: Callable[[], None]) -> None:
    thread = Thread(target=work)
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Simulate a machine of two cores; the main thread is the first to set a limit."""
    with threadpool_limits(limits=2, user_api="blas"):
        assert blas_threads() == {2}
        yield


def test_a_limit_holds_when_entered_in_any_thread() -> None:
    rows, values = np.random.default_rng(0).standard_normal((475, 1024)), np.random.default_rng(1).random((475, 3))
    found: list[tuple[set[int], bytes]] = []

    def guarded() -> None:
        with one_blas_thread():
            found.append((blas_threads(), (rows.T @ values).tobytes()))

    for run in (guarded, lambda: in_a_thread(guarded), guarded, lambda: in_a_thread(guarded)):
        run()
        assert blas_threads() == {2}
    assert [threads for threads, _ in found] == [{1}] * 4
    assert len({product for _, product in found}) == 1


def test_a_limit_ends_when_the_last_thread_leaves() -> None:
    inside, out, seen = Event(), Event(), list[set[int]]()

    def longer() -> None:
        with one_blas_thread():
            inside.set()
            out.wait(10.0)
            seen.append(blas_threads())

    thread = Thread(target=longer)
    with one_blas_thread():
        thread.start()
        assert inside.wait(10.0)
    assert blas_threads() == {1}, "another one is still inside"
    out.set()
    thread.join()
    assert seen == [{1}]
    assert blas_threads() == {2}
