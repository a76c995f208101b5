from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from okl.data.dataset import Dataset, Shard
from okl.data.reading import is_uncompressed
from okl.solvers.subgradient.sampling import LEAST_GROUPS, LEAST_SHARDS, SampleDesign, cut_runs
from tests.solvers.subgradient.sharded_cases import sharded


@pytest.fixture(scope="module", params=["none", "zstd"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Return uncompressed shards, whose runs of rows are read separately, and others."""
    return sharded(tmp_path_factory.mktemp("drawing"), compression=request.param, rows_per_group=20)


def rows_of(design: SampleDesign, data: Dataset, shard: Shard, share: float, beyond: float = 0.0) -> list[int]:
    runs = design.runs(data, shard, share, beyond)
    starts = np.cumsum([0, *shard.row_groups])[runs.groups] + runs.firsts
    return [row for start, rows in zip(starts, runs.rows, strict=True) for row in range(start, start + rows)]


def sample(design: SampleDesign, data: Dataset, share: float, beyond: float = 0.0) -> set[tuple[int, int]]:
    found = [(shard.index, row) for shard in data.split("train") for row in rows_of(design, data, shard, share, beyond)]
    assert len(set(found)) == len(found)
    return set(found)


def test_a_sample_holds_no_row_twice_and_a_larger_one_all_rows_of_a_smaller(data: Dataset) -> None:
    design, n = SampleDesign.of(data, 3), data.rows("train")
    shares = (0.05, 0.2, 0.43, 0.8, 1.0)
    samples = [sample(design, data, share) for share in shares]
    assert [len(one) for one in samples] == pytest.approx([share * n for share in shares], rel=0.25)
    assert len(samples[-1]) == n
    for (small, smaller), (large, larger) in pairwise(zip(samples, shares, strict=True)):
        assert small < large
        assert sample(design, data, larger, smaller) == large - small


@pytest.mark.parametrize("share", [0.02, 0.3])
@pytest.mark.parametrize("run_rows", [1, 7])
def test_every_row_is_equally_likely(data: Dataset, share: float, run_rows: int) -> None:
    data = replace(data, shards=data.shards[2:])  # one full shard, and a short one with row groups of other lengths
    n_seeds, shards = 150, data.split("train")
    counts = [np.zeros(shard.rows) for shard in shards]
    sizes = []
    for seed in range(n_seeds):
        design = replace(SampleDesign.of(data, seed), run_rows=run_rows)
        sizes.append(0)
        for count, shard in zip(counts, shards, strict=True):
            drawn = rows_of(design, data, shard, share)
            count[drawn] += 1
            sizes[-1] += len(drawn)
    found = np.concatenate(counts) / n_seeds
    spread = np.sqrt(share * (1.0 - share) / n_seeds)
    assert abs(found.mean() - share) < 4.0 * np.std(sizes) / len(found) / np.sqrt(n_seeds) + 1e-3
    # rows of a run are drawn together; the deviations stay within those of independent draws
    assert (np.abs(found - share) < 5.0 * spread).all()
    assert np.std(found) > 0.0


def test_other_seeds_draw_independent_samples(data: Dataset) -> None:
    design, n = SampleDesign.of(data, 3), data.rows("train")
    one, other = sample(design, data, 0.3), sample(design.another(1), data, 0.3)
    assert abs(len(one & other) - 0.09 * n) < 0.045 * n
    assert sample(SampleDesign.of(data, 3), data, 0.3) == one


def test_new_shards_do_not_change_the_draws_in_existing_ones(data: Dataset) -> None:
    design, fewer = SampleDesign.of(data, 3), replace(data, shards=data.shards[:3])
    assert sample(design, fewer, 0.3) == {row for row in sample(design, data, 0.3) if row[0] < 3}


def test_a_small_sample_touches_few_row_groups_where_they_are_read_whole(data: Dataset) -> None:
    design = SampleDesign.of(data, 3)
    touched = sum(len(np.unique(design.runs(data, shard, 0.01).groups)) for shard in data.split("train"))
    groups = sum(len(shard.row_groups) for shard in data.split("train"))
    assert groups > 4 * LEAST_GROUPS
    runs = 0.01 * data.rows("train") / design.run_rows
    most = runs if is_uncompressed(data, data.split("train")[0]) else LEAST_GROUPS
    assert 5 <= touched <= most + 4


def test_runs_cut_short_hold_the_same_rows(data: Dataset) -> None:
    shard = data.split("train")[0]
    runs = SampleDesign.of(data, 3).runs(data, shard, 1.0)
    cut = cut_runs(runs, 7)
    assert cut.rows.max() == 7 < runs.rows.max()
    assert cut.n_rows == runs.n_rows == shard.rows


def test_a_small_sample_opens_a_bounded_number_of_shards(data: Dataset) -> None:
    shard = data.split("train")[0]
    many = replace(data, shards=tuple(replace(shard, index=index) for index in range(100)))
    n_seeds, counts = 40, np.zeros(100)
    sizes = []
    for seed in range(n_seeds):
        design = SampleDesign.of(many, seed)
        rows = np.array([design.runs(many, one, 0.01).n_rows for one in many.shards])
        assert np.count_nonzero(rows) == LEAST_SHARDS
        counts += rows > 0
        sizes.append(rows.sum())
    assert np.mean(sizes) == pytest.approx(0.01 * 100 * shard.rows, rel=0.1)
    assert np.count_nonzero(counts) > 85
    assert counts.max() <= 12  # of 40, where 3.2 are to be expected
    small, large = sample(design, many, 0.01), sample(design, many, 0.1)
    assert small < large
    assert sum(design.runs(many, one, 1.0).n_rows for one in many.shards) == 100 * shard.rows
