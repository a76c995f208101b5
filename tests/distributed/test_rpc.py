from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

from okl.distributed.rpc import BatchMessage, pack, run_batch
from tests.distributed.works import write_into


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Remove the log handler of a worker process, which run_batch adds."""
    logger = logging.getLogger("okl")
    before = list(logger.handlers)
    yield
    logger.handlers = before


VALUE = np.linspace(-1.0, 1.0, 5000)


class IndexedShard:
    """A shard that has only what write_into needs."""

    def __init__(self, index: int) -> None:
        self.index = index


ITEMS = pickle.dumps([IndexedShard(2), IndexedShard(5)])


def test_work_is_sent_once_and_then_identified_by_its_digest() -> None:
    packed, value = pack(write_into), pickle.dumps(VALUE)
    first = run_batch(BatchMessage(packed.digest, packed.content, ITEMS, value, "sum 1"), "here")
    again = run_batch(BatchMessage(packed.digest, None, ITEMS, value, "sum 1"), "here")
    assert (first.known, first.worker, first.error) == (True, "here", b"")
    assert again.results == first.results
    expected = [write_into(item, VALUE.copy()) for item in pickle.loads(ITEMS)]
    for result, expected_result in zip(pickle.loads(first.results), expected, strict=True):
        assert result.tobytes() == expected_result.tobytes()


def test_unknown_work_is_reported() -> None:
    reply = run_batch(BatchMessage("0" * 64, None, ITEMS, None), "here")
    assert (reply.known, reply.results) == (False, b"")
