from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.compiled.columns import (
    MOST_HEADER_BYTES,
    PADDING,
    Pages,
    Scaling,
    read_pages,
    scatter_columns,
    scatter_targets,
)
from okl.foundation.types import Precision
from tests.naive import columns as naive_columns

SIZES = (37, 100, 8)  # rows of the row groups
N_INPUTS = 11


def scaling(two_classes: bool) -> Scaling:
    random = np.random.default_rng(3)
    return Scaling(random.normal(size=N_INPUTS), random.uniform(0.1, 2, N_INPUTS), 0.5, 3.0, 7.0, two_classes)


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    """Three row groups in two files, at odd places, with headers of odd lengths."""
    random = np.random.default_rng(0)
    descriptors, starts, headers, lengths = [], [], [], []
    for k, rows in enumerate(SIZES):
        path, begin = tmp_path / f"{k // 2}", []
        coded = [random.bytes(int(length)) for length in random.integers(1, MOST_HEADER_BYTES + 1, 2)]
        with open(path, "ab") as stream:
            for c in range(N_INPUTS + 1):
                stream.write(random.bytes(int(random.integers(0, 9))) + coded[c // N_INPUTS])
                begin.append(stream.tell())
                values = random.integers(6, 9, rows).astype("f8") if c == N_INPUTS else random.normal(size=rows)
                stream.write(values.astype("f8" if c == N_INPUTS else "f4").tobytes())
        descriptors.append(os.open(path, os.O_RDONLY))
        starts.append(begin)
        headers.append([np.frombuffer(code.ljust(MOST_HEADER_BYTES, b"?"), np.uint8) for code in coded])
        lengths.append([len(code) for code in coded])
    rows_of = np.array(SIZES)
    first = np.cumsum(rows_of) - rows_of
    yield Pages(np.array(descriptors), rows_of, first, np.array(starts), np.array(headers), np.array(lengths))
    for descriptor in descriptors:
        os.close(descriptor)


def filled(
    pages: Pages, precision: Precision, positions: Any, two_classes: bool, chunk: int, threads: int
) -> list[Any]:
    total = sum(SIZES)
    out = [np.full((total + 2, N_INPUTS), -9, precision), np.full(total + 2, -9.0), np.zeros(len(SIZES), np.uint8)]
    counter = np.zeros(8, np.int64)

    def read(_: int) -> None:
        memory = np.empty((N_INPUTS + 2) * (4 * chunk + PADDING), np.uint8)
        address = memory.ctypes.data
        read_pages(out[0], out[1], out[2], counter, memory, positions, pages, scaling(two_classes), address, chunk)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(threads)))
    return out


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("two_classes", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("chunk", "threads"), [(100, 1), (9, 1), (9, 3)])
def test_read_pages_matches_naive_bit_for_bit(
    pages: Pages, precision: Precision, two_classes: bool, shuffled: bool, chunk: int, threads: int
) -> None:
    random = np.random.default_rng(1)
    positions = random.permutation(sum(SIZES)) if shuffled else np.empty(0, np.int64)
    got = filled(pages, precision, positions, two_classes, chunk, threads)
    expected = [np.full_like(got[0], -9), np.full_like(got[1], -9), np.zeros_like(got[2])]
    naive_columns.read_pages(expected[0], expected[1], expected[2], positions, pages, scaling(two_classes))
    assert not expected[2].any()
    assert len(set(expected[1][:-2])) > 1
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("column", [0, N_INPUTS - 1, N_INPUTS])
def test_a_group_with_another_header_is_marked_and_the_others_are_read(pages: Pages, column: int) -> None:
    good = filled(pages, "float32", np.empty(0, np.int64), False, 9, 2)
    starts = pages.starts.copy()
    starts[1, column] -= 1  # one byte beside the header
    got = filled(pages._replace(starts=starts), "float32", np.empty(0, np.int64), False, 9, 2)
    assert list(got[2]) == [0, 1, 0]
    assert (got[0][:37] == good[0][:37]).all()
    assert (got[0][137:] == good[0][137:]).all()


def test_a_group_that_is_cut_off_is_marked(pages: Pages) -> None:
    rows = pages.rows.copy()
    rows[2] += 1  # one value beyond the end of its file
    got = filled(pages._replace(rows=rows), "float64", np.empty(0, np.int64), False, 50, 1)
    assert list(got[2]) == [0, 0, 1]


@pytest.mark.parametrize("two_classes", [False, True])
def test_scatter_targets_matches_naive_at_any_address(two_classes: bool) -> None:
    random = np.random.default_rng(0)
    stored = random.integers(6, 9, 20).astype(np.float64)
    positions = random.permutation(25)[:20]
    memory = np.frombuffer(b"\0\0\0" + stored.tobytes(), np.uint8)
    out, expected = np.zeros(25), np.zeros(25)
    scatter_targets(out, positions, memory.ctypes.data + 3, scaling(two_classes))
    naive_columns.scatter_targets(expected, positions, stored, scaling(two_classes))
    assert out.tobytes() == expected.tobytes()
    assert len(set(out)) > 2


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (16, 3), (37, 54), (50, 300)])
def test_scatter_columns_matches_naive_bit_for_bit(rows: int, columns: int, precision: Precision) -> None:
    random = np.random.default_rng(rows)
    values = random.normal(100, 30, (columns, rows)).astype(np.float32)
    shift, factor = random.normal(100, 1, columns), random.uniform(0.01, 3, columns)
    factor[0] = 0.0
    positions = random.permutation(rows + 5)[:rows]  # some rows of the output stay as they are
    expected = np.full((rows + 5, columns), -7.0, dtype=precision)
    out = expected.copy()
    naive_columns.scatter_columns(expected, values, positions, shift, factor)
    addresses = values.ctypes.data + np.arange(columns, dtype=np.int64) * values.strides[0]
    scatter_columns(out, addresses, positions, shift, factor)
    np.testing.assert_array_equal(out, expected)
    assert (out == -7).all(axis=1).sum() == 5


def test_scatter_columns_leaves_inputs_unchanged() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    before, positions = values.copy(), np.array([3, 1, 0, 2])
    addresses = values.ctypes.data + np.arange(3, dtype=np.int64) * values.strides[0]
    scatter_columns(np.empty((4, 3)), addresses, positions, np.ones(3), np.ones(3))
    np.testing.assert_array_equal(values, before)
    np.testing.assert_array_equal(positions, [3, 1, 0, 2])


@pytest.mark.parametrize("beside", [1, 2, 3])
@pytest.mark.parametrize(("rows", "columns"), [(5, 9), (41, 10)])
def test_scatter_columns_reads_values_at_any_address(rows: int, columns: int, beside: int) -> None:
    values = np.random.default_rng(0).normal(size=(columns, rows)).astype(np.float32)
    memory = np.frombuffer(bytes(beside) + values.tobytes(), np.uint8)
    addresses = memory.ctypes.data + beside + np.arange(columns, dtype=np.int64) * values.strides[0]
    out = np.empty((rows, columns), np.float32)
    scatter_columns(out, addresses, np.arange(rows)[::-1].copy(), np.zeros(columns), np.ones(columns))
    np.testing.assert_array_equal(out[::-1], values.T)
