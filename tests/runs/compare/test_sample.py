"""Folds and holdouts: each row is scored once, classes are stratified, and first rows are mixed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.foundation.settings import IngestSettings
from okl.kernels import Gaussian, Laplacian
from okl.runs.compare_grids import Sample
from tests.rows import write


@pytest.mark.parametrize("name", ["cancer", "wine"])
def test_folds_judge_every_row_once_with_the_shares_of_the_classes(name: str, request: pytest.FixtureRequest) -> None:
    sample = Sample(request.getfixturevalue(name), 10_000, 7, "float32", folds=5)
    targets, tested = sample.all().targets, sample.tested()
    assert len(targets) == sample.data.rows("train")
    sizes = np.bincount(tested, minlength=5)
    assert sizes.min() >= sizes.max() - 1 > 20
    assert sample.train_rows() == len(targets) - sizes.max()
    for value in np.unique(targets):
        counts = np.bincount(tested[targets == value], minlength=5)
        assert counts.max() - counts.min() <= 1
        first = (targets[:60] == value).mean()
        assert abs(first - (targets == value).mean()) < 0.06
    part = sample.part(3)
    assert len(part.test_targets) == sample.test_rows(3) == sizes[3]
    together = np.concatenate([part.inputs, part.test_inputs])
    assert np.array_equal(np.sort(together, axis=0), np.sort(sample.all().inputs, axis=0))


def test_the_seed_alone_determines_the_folds(cancer: Dataset) -> None:
    one, same, other = (Sample(cancer, 300, seed, "float32") for seed in (1, 1, 2))
    assert np.array_equal(one.all().inputs, same.all().inputs)
    assert np.array_equal(one.tested(), same.tested())
    assert not np.array_equal(one.all().inputs, other.all().inputs)


def test_a_share_is_held_out_of_every_class(cancer: Dataset) -> None:
    sample = Sample(cancer, 10_000, 0, "float32", holdout=0.25)
    targets, tested = sample.all().targets, sample.tested()
    assert set(tested.tolist()) == {-1, 0}
    for value in (-1.0, 1.0):
        assert (tested[targets == value] == 0).mean() == pytest.approx(0.25, abs=0.005)
    own = replace(sample, holdout="test")
    assert own.test_rows(0) == cancer.rows("test") == len(own.part(0).test_targets)
    assert own.train_rows() == cancer.rows("train") == len(own.part(0).targets)


def test_features_are_those_of_the_map(cancer: Dataset) -> None:
    mapped = draw_fourier_map(Gaussian(4.0), cancer.schema.n_features, 8, 0)
    part = Sample(cancer, 200, 0, "float32", feature_map=mapped).part(0)
    assert part.features.shape == (len(part.inputs), 16)
    assert np.allclose(part.test_features, mapped.transform(part.test_inputs), atol=1e-6)


def test_one_process_computes_features_of_each_map(cancer: Dataset) -> None:
    drawn = draw_fourier_map(Gaussian(4.0), cancer.schema.n_features, 200, 5)
    few = FourierFeatures(drawn.kernel, drawn.frequencies[:, :100].copy())
    assert few.frequencies.tobytes()[:64] == drawn.frequencies.tobytes()[:64]
    last = drawn.frequencies.copy()
    last[-1, -1] += 1.0
    maps = (few, drawn, FourierFeatures(drawn.kernel, last))
    samples = [Sample(cancer, 200, 5, "float32", feature_map=one) for one in maps]
    for one, sample in zip(maps, samples, strict=True):
        part = sample.part(0)
        assert np.array_equal(part.features, one.transform(part.inputs))
    named = replace(samples[0], feature_map=FourierFeatures(Laplacian(4.0), few.frequencies))
    same = replace(samples[0], feature_map=FourierFeatures(Gaussian(4.0), few.frequencies.copy()))
    assert len({one.key for one in (*samples, named, same, replace(same, feature_map=None))}) == 5
    assert same.key == samples[0].key


def test_a_class_of_few_rows_is_among_the_first_training_rows_of_every_fold(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    labels = np.where(np.arange(6000) < 3, 2, random.integers(0, 2, 6000))
    rows = pa.table({"x": random.standard_normal(6000), "y": random.permutation(labels)})
    sample = Sample(ingest(write(tmp_path, rows), tmp_path / "set", IngestSettings()).dataset, 6000, 1, "float32")
    for number in range(5):
        assert set(sample.part(number).targets[:20]) == {0, 1, 2}


def test_a_class_with_contiguous_rows_is_in_the_sample_with_its_share(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    labels = np.where(np.arange(12_000) // 600 == 9, 2, random.integers(0, 2, 12_000))
    rows = pa.table({"x": random.standard_normal(12_000), "y": labels})
    settings = IngestSettings(rows_per_group=200, rows_per_shard=1000)
    data = ingest(write(tmp_path, rows), tmp_path / "set", settings).dataset
    counts = np.bincount(Sample(data, 1000, 1, "float32").all().targets.astype(int), minlength=3)
    assert 30 < counts[2] < 70  # 50 of 1000
