"""Nobody waits for a turn that will not come, wherever the thread that should pass it was stopped."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from okl.compiled import blocks
from okl.compiled.turns import give_up_turns, new_turns, pass_turn, wait_turn


def test_a_turn_that_is_passed_on_does_not_undo_giving_up() -> None:
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

    monkeypatch.setattr(blocks, "Thread", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        blocks.run_threads(2, work, partial(give_up_turns, turns))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("okl-block")]
