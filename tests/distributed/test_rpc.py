from __future__ import annotations

import pickle
import stat
from pathlib import Path

import numpy as np
import pytest

from okl.distributed.rpc import Line, open_line, pack, run_batch
from tests.distributed.works import write_into

VALUE = np.linspace(-1.0, 1.0, 5000)


class Numbered:
    """What write_into needs of a shard."""

    def __init__(self, index: int) -> None:
        self.index = index


ITEMS = pickle.dumps([Numbered(2), Numbered(5)])


def test_a_line_answers_as_the_work_itself_does(tmp_path: Path) -> None:
    packed = pack(write_into)
    line = Line(open_line(str(tmp_path), "here"))
    for content in (packed.content, None):  # the second time the work is known
        line.ask((packed.digest, content, ITEMS, pickle.dumps(VALUE), "sum 1"))
        reply = line.reply()
        assert reply.known
        assert reply.worker == "here"
        assert reply.results == run_batch(packed.digest, None, ITEMS, pickle.dumps(VALUE), "here").results
    line.close()


def test_work_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    line = Line(open_line(str(tmp_path), "here"))
    line.ask(("0" * 64, None, ITEMS, None, ""))
    assert not line.reply().known
    line.close()


def test_work_that_cannot_be_loaded_ends_the_line_and_the_next_one_is_well(tmp_path: Path) -> None:
    line = Line(open_line(str(tmp_path), "here"))
    line.ask(("1" * 64, b"no pickle", ITEMS, None, ""))
    with pytest.raises((EOFError, OSError)):
        line.reply()
    line.close()
    test_work_that_is_not_known_is_asked_for(tmp_path)


def test_a_line_is_for_its_user_only(tmp_path: Path) -> None:
    path = Path(open_line(str(tmp_path), "here"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_line(str(tmp_path), "here") == str(path)
