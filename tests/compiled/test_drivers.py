from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.blocks import Block, run_threads
from okl.compiled.door import one_blas_thread
from okl.compiled.drivers import learn_fourier, sum_fourier
from okl.compiled.turns import give_up_turns, new_turns
from okl.types import Precision
from tests.compiled.cases import (
    PRECISIONS,
    TOLERANCE,
    assert_same,
    buffer,
    fresh_learnt,
    fresh_summed,
    make_case,
    some_weights,
)
from tests.naive import drivers as naive

CODES = [0, 1, 2, 3]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", CODES)
def test_learning_in_turns_matches_naive_for_any_number_of_threads(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    expected = fresh_learnt(case)
    naive.learn_fourier(expected, case.inputs, case.targets, case.waves, case.rule)
    for n_threads in (1, 2, 3):
        learnt, turns = fresh_learnt(case), new_turns()

        def learn(thread: int, learnt=learnt, turns=turns, n_threads=n_threads) -> None:  # type: ignore[no-untyped-def]
            block = buffer(16, case)
            learn_fourier(learnt, turns, block, case.inputs, case.targets, case.waves, case.rule, thread, n_threads)

        with one_blas_thread():
            run_threads(n_threads, learn)
        assert_same(learnt, expected, TOLERANCE[precision])
        assert turns[0] == 6


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", CODES)
def test_summing_in_turns_matches_naive_for_any_number_of_threads(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    weights, expected = some_weights(case), fresh_summed(case)
    naive.sum_fourier(expected, case.inputs, case.targets, case.waves, weights, case.rule)
    for n_threads in (1, 2, 3):
        summed, turns = fresh_summed(case), new_turns()

        def add(thread: int, summed=summed, turns=turns, n_threads=n_threads) -> None:  # type: ignore[no-untyped-def]
            block = buffer(16, case)
            rule = case.rule
            sum_fourier(summed, turns, block, case.inputs, case.targets, case.waves, weights, rule, thread, n_threads)

        with one_blas_thread():
            run_threads(n_threads, add)
        assert_same(summed, expected, TOLERANCE[precision])


def test_nobody_waits_for_a_thread_that_failed() -> None:
    case = make_case(0, "float32")
    learnt, turns = fresh_learnt(case), new_turns()
    ended: list[bool] = []

    def work(thread: int) -> None:
        if thread == 0:
            give_up_turns(turns)
            raise ValueError("thread 0 fails before its first turn")
        block: Block = buffer(16, case)
        ended.append(learn_fourier(learnt, turns, block, case.inputs, case.targets, case.waves, case.rule, thread, 2))

    with pytest.raises(ValueError, match="thread 0 fails"):
        run_threads(2, work)
    assert ended == [False]
    assert not np.any(learnt.weights)
