from __future__ import annotations

import threading

import numpy as np
import pytest

from okl.data.execution import Rows
from okl.distributed.cache import LIMIT_VARIABLE, ArrayCache, process_cache, resident, size_bytes
from okl.foundation.errors import ConfigError


class Loader:
    """A loader of 100-byte values that records its calls."""

    def __init__(self) -> None:
        self.loads: list[int] = []

    def __call__(self, cache: ArrayCache, key: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        def load() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
            self.loads.append(key)
            return np.full(100, key, dtype=np.uint8)

        value = cache.get(key, load)
        assert (value == key).all()  # the value belongs to the key, cached or not
        return value


def test_second_request_does_not_load() -> None:
    cache, get = ArrayCache(1000), Loader()
    assert get(cache, 1) is get(cache, 1)
    assert get.loads == [1]


def test_bytes_stay_within_the_limit() -> None:
    cache, get = ArrayCache(350), Loader()
    for key in np.random.default_rng(0).integers(10, size=300):
        get(cache, int(key))
        assert cache.used_bytes <= 350
    assert cache.used_bytes == 300
    assert 10 < len(get.loads) < 300


def test_least_recently_used_value_is_removed_first() -> None:
    cache, get = ArrayCache(200), Loader()
    for key in (1, 2, 1, 3, 3):  # the second request for 3 comes after the last one for 2
        get(cache, key)
    get.loads.clear()
    for key in (1, 3):
        get(cache, key)
    assert get.loads == []
    get(cache, 2)
    assert get.loads == [2]


def test_cyclic_requests_beyond_the_limit_keep_as_many_values_as_fit() -> None:
    cache, get = ArrayCache(500), Loader()
    for _ in range(2):
        for key in range(8):
            get(cache, key)
    get.loads.clear()
    for key in range(8):
        get(cache, key)
    assert get.loads == [5, 6, 7]  # plain LRU would load all eight


def test_values_that_are_no_longer_requested_are_removed() -> None:
    cache, get = ArrayCache(300), Loader()
    for key in (1, 2, 3):
        get(cache, key)
    for _ in range(3):
        for key in (11, 12, 13):
            get(cache, key)
    get.loads.clear()
    for key in (11, 12, 13):
        get(cache, key)
    assert get.loads == []


def test_value_larger_than_the_limit_is_returned_and_not_cached() -> None:
    cache = ArrayCache(50)
    assert len(cache.get("large", lambda: np.zeros(100))) == 100
    assert cache.used_bytes == 0


def test_lower_limit_removes_values_at_once() -> None:
    cache, get = ArrayCache(500), Loader()
    for key in range(5):
        get(cache, key)
    cache.limit(250)
    assert cache.used_bytes == 200
    cache.limit(0)
    assert cache.used_bytes == 0
    cache.clear()


def test_error_of_a_load_is_raised_and_not_cached() -> None:
    cache = ArrayCache(500)
    with pytest.raises(ZeroDivisionError):
        cache.get("key", lambda: 1 // 0)
    assert cache.get("key", lambda: np.ones(1)).tolist() == [1]


def test_threads_share_one_cache() -> None:
    cache, get, errors = ArrayCache(450), Loader(), []

    def request_values(seed: int) -> None:
        try:
            for key in np.random.default_rng(seed).integers(8, size=500):
                get(cache, int(key))
                assert cache.used_bytes <= 450
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=request_values, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert cache.used_bytes == 400


def test_size_counts_all_arrays() -> None:
    rows = Rows(np.zeros((10, 3), dtype=np.float32), np.zeros(10))
    assert size_bytes(rows) == 120 + 80
    assert size_bytes([rows, rows]) == 400
    assert size_bytes("text") == 0


def test_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okl.distributed.cache._cache", None)
    monkeypatch.setenv(LIMIT_VARIABLE, "100")
    resident("a", lambda: np.zeros(10))
    resident("b", lambda: np.zeros(10))
    assert process_cache().used_bytes == 80
    monkeypatch.setattr("okl.distributed.cache._cache", None)
    monkeypatch.setenv(LIMIT_VARIABLE, "much")
    with pytest.raises(ConfigError, match="OKL_RESIDENT_BYTES = 'much'"):
        resident("a", lambda: np.zeros(10))
