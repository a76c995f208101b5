from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from okl.compiled.shuffling import shuffle_from
from tests.naive import shuffling as naive


@pytest.mark.parametrize("last", [0, 1, 7, 300])
def test_shuffle_from_matches_naive(last: int) -> None:
    draws = np.random.default_rng(last).random(max(0, last - 2))
    got, expected = np.arange(last + 3), np.arange(last + 3)
    shuffle_from(got, draws, last)
    naive.shuffle_from(expected, draws, last)
    np.testing.assert_array_equal(got, expected)
    assert sorted(got) == list(range(last + 3))


def test_every_permutation_is_as_likely_as_another() -> None:
    draws = [[(i + 0.5) / n for i in range(n)] for n in (4, 3, 2)]  # the middles of all outcomes of each draw
    counts: Counter[tuple[int, ...]] = Counter()
    for chosen in product(*draws):
        positions = np.arange(4)
        shuffle_from(positions, np.array(chosen), 3)
        counts[tuple(map(int, positions))] += 1
    assert len(counts) == 24
    assert set(counts.values()) == {1}
