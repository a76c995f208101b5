from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.budget import (
    COUNT,
    LABEL,
    N_FLOATS,
    N_INTEGERS,
    NUMBER,
    RANDOM,
    SCALE,
    RowResult,
    SupportArrays,
    clip,
    copy_support,
    count_row,
    draw_uniform,
    drop_support,
    gradient_step,
    grow_root,
    mistake_step,
    oldest_support,
    project_row_onto_supports,
    put_support,
    replace_in_root,
    rescale,
    shrink_root,
    shrinking_factor,
    used_width,
    weighted,
)
from okl.compiled.sgd import HINGE, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian
from tests.compiled.cases import PRECISIONS
from tests.naive import budget as naive


def seen_of(code: int, y: float, f: float, wrong_score: float = 0.0, output: int = 2, wrong: int = 1) -> RowResult:
    if code == MULTICLASS_HINGE:
        return RowResult(output, wrong, output, y, f, f - wrong_score)
    return RowResult(0, -1, int(y > 0), y, f, y * f if code == HINGE else y - f)


def arrays_of(n_outputs: int, capacity: int = 16, n_inputs: int = 4, precision: Precision = "float64") -> SupportArrays:
    floats = np.zeros(N_FLOATS)
    floats[SCALE] = 1.0
    return SupportArrays(
        supports=np.zeros((n_inputs, capacity), dtype=precision),
        coefficients=np.zeros((n_outputs, capacity), dtype=precision),
        marks=np.zeros((2, capacity), dtype=np.int64),
        memory=np.zeros((0, 0)),
        integers=np.zeros(N_INTEGERS, dtype=np.int64),
        floats=floats,
        counts=np.zeros(5, dtype=np.int64),
        sums=np.zeros(5),
        class_counts=np.zeros(3, dtype=np.int64),
        row=np.zeros(capacity, dtype=precision),
        spare=np.zeros(capacity, dtype=precision),
        column=np.zeros(n_inputs, dtype=precision),
        scores=np.zeros(n_outputs, dtype=precision),
    )


def counted(scores: list[float], y: float, code: int) -> tuple[RowResult, SupportArrays]:
    state = arrays_of(len(scores))._replace(scores=np.array(scores))
    return count_row(state, y, code), state


def test_uniform_numbers_match_naive_and_fill_the_interval() -> None:
    integers = np.zeros(N_INTEGERS, dtype=np.int64)
    integers[RANDOM] = 2**62 - 500  # products wrap around in 64 bits
    numbers = np.array([draw_uniform(integers) for _ in range(1000)])
    np.testing.assert_array_equal(numbers, [naive.draw_uniform(2**62 - 500 + step) for step in range(1000)])
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert integers[RANDOM] == 2**62 + 500
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert ((counts > 60) & (counts < 140)).all()


def test_a_row_is_summarised_by_its_output_label_and_margin() -> None:
    for code, scores, y in [
        (HINGE, [0.3], -1.0),
        (THRESHOLDED_HALF_SQUARED, [0.3], 2.0),
        (MULTICLASS_HINGE, [0.1, 0.7, 0.3], 2.0),
    ]:
        seen, _ = counted(scores, y, code)
        if code == MULTICLASS_HINGE:
            assert seen == seen_of(code, 2.0, 0.3, wrong_score=0.7)
        else:
            assert seen == seen_of(code, y, 0.3)._replace(label=0)


def test_mistakes_match_the_counter() -> None:
    for y, f in [(1.0, 0.0), (-1.0, 0.0), (1.0, -0.5), (-1.0, -0.5), (1.0, 0.2), (-1.0, 0.2)]:
        seen, state = counted([f], y, HINGE)
        step = mistake_step(HINGE, 0.1, 0.7, seen)
        assert step == (0.7 * y if state.counts[1] else 0.0)
    for scores in ([0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 2.0, 1.0]):
        for true in range(3):
            seen, state = counted(scores, float(true), MULTICLASS_HINGE)
            assert state.counts[1] == (int(np.argmax(scores)) != true)
            assert mistake_step(MULTICLASS_HINGE, 0.1, 0.7, seen) == (0.7 if state.counts[1] else 0.0)


def test_steps_begin_beyond_their_margins() -> None:
    for y in (-1.0, 1.0):
        assert gradient_step(HINGE, 0.0, 0.5, seen_of(HINGE, y, y * 1.0)) == 0.0
        assert gradient_step(HINGE, 0.0, 0.5, seen_of(HINGE, y, y * 0.99)) == 0.5 * y
    code = THRESHOLDED_HALF_SQUARED
    assert gradient_step(code, 0.25, 0.5, seen_of(code, 1.0, 0.75)) == 0.0
    assert gradient_step(code, 0.25, 0.5, seen_of(code, 1.0, 0.5)) == 0.25
    assert mistake_step(code, 0.25, 0.5, seen_of(code, 1.0, 0.75)) == 0.0
    assert mistake_step(code, 0.25, 0.5, seen_of(code, 1.0, 1.5)) == -0.5
    assert gradient_step(MULTICLASS_HINGE, 0.0, 0.5, seen_of(MULTICLASS_HINGE, 2.0, 1.0)) == 0.0
    assert gradient_step(MULTICLASS_HINGE, 0.0, 0.5, seen_of(MULTICLASS_HINGE, 2.0, 0.9)) == 0.5


@pytest.mark.parametrize("precision", PRECISIONS)
def test_supports_are_added_and_removed_in_place(precision: Precision) -> None:
    rng = np.random.default_rng(3)
    arrays = arrays_of(3, precision=precision)
    supports, coefficients, marks, integers = arrays.supports, arrays.coefficients, arrays.marks, arrays.integers
    rows: list[FloatArray] = []
    for number in range(6):
        x = rng.standard_normal(4).astype(precision)
        seen = seen_of(MULTICLASS_HINGE, 2.0, 0.0, output=number % 3, wrong=(number + 1) % 3)
        put_support(arrays, x, number, seen, 0.5 + number)
        rows.append(x)
    assert (integers[COUNT], oldest_support(marks, 6)) == (6, 0)
    drop_support(arrays, 1)  # the last one moves here
    put_support(arrays, rows[1], 0, seen_of(MULTICLASS_HINGE, 2.0, 0.0), 9.0)
    remaining = [rows[1], rows[5], *rows[2:5]]
    np.testing.assert_array_equal(supports[:, :5].T, remaining)
    assert not supports[:, 5:].any()
    assert not coefficients[:, 5:].any()
    np.testing.assert_array_equal(coefficients[:, 0], [0.0, -9.0, 9.0])
    np.testing.assert_array_equal(coefficients[:, 1], [-5.5, 0.0, 5.5])
    np.testing.assert_array_equal(marks[NUMBER, :5], [6, 5, 2, 3, 4])
    np.testing.assert_array_equal(marks[LABEL, :5], [2, 2, 2, 0, 1])
    assert (integers[COUNT], oldest_support(marks, 5)) == (5, 2)
    copy_support(arrays, 3)
    np.testing.assert_array_equal(arrays.column, rows[3])
    put_support(arrays, rows[2], 0, seen_of(MULTICLASS_HINGE, 2.0, 0.0), 1.0, 0.5)  # half of the previous value remains
    np.testing.assert_array_equal(coefficients[:, 0], [0.0, -5.5, 5.5])
    np.testing.assert_array_equal(supports[:, 0], rows[2])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_scale_stays_in_range_and_f_is_scaled_exactly_as_often(precision: Precision) -> None:
    arrays = arrays_of(2, precision=precision)
    coefficients, floats = arrays.coefficients, arrays.floats
    coefficients[:] = 1.0
    for factor, times in ((0.9, 500), (1.2, 200)):
        for _ in range(times):
            rescale(arrays, factor)
            assert 1e-7 < floats[SCALE] < 1e7
    np.testing.assert_allclose(floats[SCALE] * coefficients, 0.9**500 * 1.2**200, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_small_helpers_match_naive(precision: Precision) -> None:
    left, right = np.random.default_rng(0).standard_normal((2, 48)).astype(precision)
    assert weighted(left, right) == pytest.approx(left.astype(float) @ right.astype(float), rel=1e-4)
    clipped = np.stack([left, right])
    clip(clipped, 0.5)
    np.testing.assert_array_equal(clipped, np.clip([left, right], -0.5, 0.5))
    assert [used_width(count) for count in (0, 1, 16, 17)] == [0, 16, 16, 32]


def test_shrinking_factor_is_the_largest_that_fits() -> None:
    rng = np.random.default_rng(1)
    shrunk = 0
    for _ in range(2000):
        size, mu, mistakes = 2.0 * rng.random() + 1e-3, 3.0 * rng.standard_normal(), float(rng.integers(1, 50))
        cost = 15 / 32 * mistakes * rng.random()
        phi = shrinking_factor(size, mu, cost, mistakes)
        assert phi == pytest.approx(naive.largest_factor(size, mu, cost, int(mistakes)), rel=1e-6)
        assert 0 < phi <= 1
        shrunk += phi < 1
    assert 50 < shrunk < 1950
    assert shrinking_factor(1.0, 0.5, 0.0, 1.0) == pytest.approx(15 / 64)  # the parabola is a line


CAPACITY = 16
RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((12, 4))
GRAM = Gaussian(1.5).matrix(POINTS, POINTS)


def padded_root(n: int, removes: bool = False) -> NDArray[np.float64]:
    """Return a root of the inverse: of the Cholesky factor, or turned as one from which supports were removed."""
    root = np.zeros((CAPACITY, CAPACITY))
    root[:n, :n] = np.linalg.inv(np.linalg.cholesky(GRAM[:n, :n])) if n else 0.0
    if removes:
        root[:n, :n] = np.linalg.qr(np.random.default_rng(n).standard_normal((n, n)))[0] @ root[:n, :n]
    return root


def inverse_of(root: FloatArray) -> FloatArray:
    return root.T @ root


def padded_row(values: FloatArray, precision: str) -> FloatArray:
    row = np.zeros(CAPACITY, dtype=precision)
    row[: len(values)] = values
    row[len(values) :] = 7.0  # kernel values of columns without a support must have no effect
    return row


@pytest.mark.parametrize("removes", [False, True])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 11])
def test_projection_matches_solve(n: int, precision: str, removes: bool) -> None:
    coefficients, row = np.full(CAPACITY, 9.0), padded_row(GRAM[:n, 11], precision)
    length = project_row_onto_supports(coefficients, padded_root(n, removes), row, n, removes)
    expected = np.linalg.solve(GRAM[:n, :n], row[:n].astype(np.float64))
    np.testing.assert_allclose(coefficients[:n], expected, rtol=0, atol=1e-10)
    assert not coefficients[n:].any()
    assert length == pytest.approx(float(row[:n].astype(np.float64) @ expected), abs=1e-10)


def test_grown_root_matches_cholesky() -> None:
    root, coefficients = np.zeros((CAPACITY, CAPACITY)), np.zeros(CAPACITY)
    for n in range(12):
        length = project_row_onto_supports(coefficients, root, padded_row(GRAM[:n, n], "float64"), n, False)
        grow_root(root, coefficients, GRAM[n, n] - length, n)
        np.testing.assert_allclose(root, padded_root(n + 1), rtol=0, atol=1e-9 * np.abs(root).max())


@pytest.mark.parametrize("slot", [0, 3, 9])
def test_replaced_root_matches_inverse_and_gives_the_projection(slot: int) -> None:
    n = 10
    root, coefficients, column = padded_root(n, removes=True), np.zeros(CAPACITY), np.zeros(CAPACITY)
    length = project_row_onto_supports(coefficients, root, padded_row(GRAM[:n, n], "float64"), n, True)
    replace_in_root(root, column, coefficients, GRAM[n, n] - length, slot, n)
    chosen = np.arange(n)
    chosen[slot] = n
    expected = np.linalg.inv(GRAM[np.ix_(chosen, chosen)])
    np.testing.assert_allclose(inverse_of(root)[:n, :n], expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    shares = np.linalg.solve(GRAM[np.ix_(chosen, chosen)], GRAM[chosen, slot])
    np.testing.assert_allclose(column[:n], shares, rtol=0, atol=1e-9)


@pytest.mark.parametrize("slot", [0, 4, 9])
def test_shrunk_root_matches_inverse_and_gives_the_projection(slot: int) -> None:
    n = 10
    root, column = padded_root(n), np.zeros(CAPACITY)
    shrink_root(root, column, slot, n)
    others = np.array([i for i in range(n) if i != slot])
    shares = np.linalg.solve(GRAM[np.ix_(others, others)], GRAM[others, slot])
    np.testing.assert_allclose(column[others], shares, rtol=0, atol=1e-9)
    assert column[slot] == 0.0
    moved = np.arange(n - 1)
    if slot < n - 1:
        moved[slot] = n - 1
    expected = np.zeros((CAPACITY, CAPACITY))
    expected[: n - 1, : n - 1] = np.linalg.inv(GRAM[np.ix_(moved, moved)])
    np.testing.assert_allclose(inverse_of(root), expected, rtol=0, atol=1e-9 * np.abs(expected).max())
