"""Sizes of a model and their nominal seconds, which decide what a budget allows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from okl.runs.candidates import (
    FACTORS,
    LARGE_STEPS,
    METRIC_STEPS,
    METRICS_KEPT,
    SURVIVORS,
    folds_of_check,
    larger_sample,
)

# Sizes of a model and their cost on a nominal machine: the choice depends on data and budget, never on the clock

SELECTION_SHARE = 0.35  # of the budget; the rest is for training
MOST_LANDMARKS, LEAST_LANDMARKS = 4096, 512
_ROWS_OF_LANDMARK = 4  # at least, for iterations
MANY_INPUTS = 10  # rows of an input: with fewer, a metric is learnt from each kernel
ENOUGH_LANDMARKS = 2048  # with fewer rows all are landmarks, and there are no cells
_PRODUCTS = 4e10  # multiply-adds of sums of products a second, float64, two cores of 2019
_CUBE = 5e-10  # seconds of eigenvalues and triangular solutions, times n_landmarks^3, one core
_VALUES = 2e10  # a second, of inputs that go into kernel values
_WAVES = 3e11  # the same of a Fourier map that is learned row by row; a sine and its update count as 30 inputs
_ONLINE = ((400, 1), (1600, 1), (3200, 3), (6400, 3), (6400, 7))  # frequencies and passes: many need several
_ITERATED = ((8192, 7), (16384, 9), (32768, 12))  # landmarks and iterations of falkon
_ITERATED_VALUES, _FACTORS = 3e10, 1.3e-11  # inputs a second that go into kernel values; seconds a landmark cubed
_LOCAL = ((500, 4), (1000, 8), (2000, 8), (4000, 8))  # rows of a cell and partitions of local
_LEAST_LOCAL = ((500, 1), (500, 2))  # of very many rows, which the budget allows no more for
_CELL_SQUARE, _CELL_VALUE = 2e-11, 7e-11  # seconds of a row in a cell, times its rows squared, and of a kernel value
_TUNING = (3.0, 3e-3)  # seconds of a kernel in sampled cells, and of an input
_LONG_SECONDS = 40.0  # for a direct solution with enough landmarks: more landmarks by iterations are better in less
ROUNDS = ((2048, 384), (4096, 768), (8192, 1024))


@dataclass(frozen=True)
class Shape:
    """Numbers of training rows, inputs, and outputs (scores per row)."""

    rows: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Size:
    """Size of a model: its solver and options, and the nominal seconds of its training.

    next_budget : of the largest size of a choice, the budget in seconds that allows the next one; 0 if there is none
    """

    solver: Literal["ridge", "falkon", "fogd", "local"]
    options: dict[str, int]
    seconds: float
    next_budget: float = 0.0

    @property
    def name(self) -> str:
        """Return a description for reports."""
        if self.solver == "local":
            return f"cells of {self.options['cell_rows']:,} rows in {self.options['partitions']} partitions"
        if self.solver != "fogd":
            iterated = f" by {self.options['iterations']} iterations" if self.solver == "falkon" else ""
            return f"{self.options['n_landmarks']:,} landmarks{iterated}"
        passes = self.options["passes"]
        return f"{self.options['frequencies']:,} random frequencies in {passes} pass{'es' if passes > 1 else ''}"


def selection_rounds(
    budget_seconds: float, shape: Shape, n_candidates: int, learns_metric: bool = False
) -> list[tuple[int, int]]:
    """Return sampled rows and landmarks of the rounds that a share of the budget allows, the first one in any case.

    A larger budget has the rounds of a smaller one, and perhaps more after them.

    learns_metric : whether steps of a learnt metric, each of which costs as much as a candidate, are added
    """
    sizes = dict.fromkeys((min(shape.rows, sample), min(shape.rows, landmarks)) for sample, landmarks in ROUNDS)
    rounds = list(sizes)
    while len(rounds) > 1 and (
        rounds_seconds(rounds, shape, n_candidates, learns_metric) > SELECTION_SHARE * budget_seconds
    ):
        rounds.pop()
    return rounds


def rounds_seconds(
    rounds: list[tuple[int, int]], shape: Shape, n_candidates: int, learns_metric: bool = False
) -> float:
    """Return the nominal seconds of rounds of sampled rows and landmarks."""
    # steps of a metric start from two candidates or those of each kernel, in the last round from the winner
    starts = len(FACTORS) if is_wide(shape) else 2
    steps = [METRIC_STEPS * learns_metric * (1 if number == len(ROUNDS) else starts) for number in range(1, 4)]
    going = [n_candidates, *(number + 1 + METRICS_KEPT * learns_metric for number in SURVIVORS)]
    running = [number + more for number, more in zip(going, steps, strict=True)]
    return sum(
        number * ridge_seconds(replace(shape, rows=rows), landmarks)
        for number, (rows, landmarks) in zip(running, rounds, strict=False)
    )


def is_wide(shape: Shape) -> bool:
    """Return whether there are many inputs for few rows, so that kernels are alike until a metric is learnt.

    More rows than landmarks get a metric by more landmarks, see `larger_sample`: on madelon that was better.
    """
    return shape.rows <= ROUNDS[-1][1] and shape.rows < MANY_INPUTS * shape.inputs


def large_sample_seconds(budget_seconds: float, shape: Shape, rounds: list[tuple[int, int]]) -> float:
    """Return the nominal seconds of learning a metric again, see `larger_sample`; 0 without the rows or the budget.

    rounds : those before, all that there are
    """
    rows, landmarks = larger_sample(shape.rows)
    needed = (LARGE_STEPS + 3) * ridge_seconds(replace(shape, rows=rows), landmarks)
    is_larger = len(rounds) == len(ROUNDS) and (rows > rounds[-1][0] or landmarks > rounds[-1][1])
    return needed if is_larger and needed <= SELECTION_SHARE * budget_seconds else 0.0


def check_seconds(shape: Shape, rows: int, landmarks: int) -> float:
    """Return the nominal seconds of a check of a metric on given numbers of rows and landmarks."""
    return folds_of_check(rows) * (METRIC_STEPS + 1) * ridge_seconds(replace(shape, rows=rows), landmarks)


def ridge_seconds(shape: Shape, landmarks: int) -> float:
    """Return the nominal seconds of kernel least squares with a number of landmarks."""
    sums = shape.rows * landmarks**2 / _PRODUCTS
    values = 2.0 * shape.rows * landmarks * (shape.inputs + shape.outputs + 8) / _VALUES  # learned, and then scored
    return sums + values + _CUBE * landmarks**3


def falkon_seconds(shape: Shape, landmarks: int, iterations: int) -> float:
    """Return the nominal seconds of kernel least squares by iterations, of which the first read few rows."""
    values = shape.rows * landmarks * (shape.inputs + 24 + 2 * shape.outputs)
    return (iterations + 2) * values / _ITERATED_VALUES + _FACTORS * landmarks**3


def fogd_seconds(shape: Shape, frequencies: int, passes: int) -> float:
    """Return the nominal seconds of online training with random frequencies."""
    return shape.rows * passes * frequencies * 2.0 * (shape.inputs + 30 * shape.outputs) / _WAVES


def local_seconds(shape: Shape, cell_rows: int, partitions: int) -> float:
    """Return the nominal seconds of kernel least squares in cells."""
    of_row = cell_rows * (_CELL_SQUARE * cell_rows + _CELL_VALUE * (shape.inputs + 8))
    return partitions * shape.rows * of_row


def tuning_seconds(shape: Shape) -> float:
    """Return the nominal seconds of tuning a kernel in sampled cells."""
    return _TUNING[0] + _TUNING[1] * shape.inputs


def local_sizes(shape: Shape, seconds: float = math.inf) -> list[Size]:
    """Return the sizes of kernel least squares in cells; one below them if the first takes longer than given seconds.

    Of 800,000 rows with 30 inputs, 2 partitions had 15.1% mistakes, fogd, which is trained otherwise, 18.0%.
    """

    def of(rows: int, partitions: int) -> Size:
        options = {"cell_rows": rows, "partitions": partitions}
        return Size("local", options, local_seconds(shape, rows, partitions))

    sizes = [of(*size) for size in _LOCAL if 2 * size[0] <= shape.rows]
    if not sizes or sizes[0].seconds <= seconds:
        return sizes
    return largest_affordable([of(*size) for size in _LEAST_LOCAL], seconds)


def sizes_of(shape: Shape, of_classes: bool) -> list[Size]:
    """Return the sizes of a model, each costlier than the one before; they depend on the data alone.

    Least squares of few rows take all rows as landmarks, and are solved directly. Classes of very many rows are trained
    online: on covtype, the accuracy of 1,600 landmarks was 79.4% on seven classes and 83.2% on two; with 6,400
    frequencies in 7 passes, which take as long, 83.2% and 84.7%. More time allows more landmarks, by iterations.
    """
    if shape.rows <= ENOUGH_LANDMARKS:
        numbers = [shape.rows]
    else:
        numbers = [LEAST_LANDMARKS * 2**k for k in range(4)]
        numbers = [number for number in numbers if number < min(shape.rows, MOST_LANDMARKS)]
        numbers.append(min(shape.rows, MOST_LANDMARKS))
    sizes = [Size("ridge", {"n_landmarks": number}, ridge_seconds(shape, number)) for number in numbers]
    if ridge_seconds(shape, ENOUGH_LANDMARKS if of_classes else LEAST_LANDMARKS) > _LONG_SECONDS:
        sizes = [
            Size("fogd", {"frequencies": frequencies, "passes": passes}, fogd_seconds(shape, frequencies, passes))
            for frequencies, passes in _ONLINE
        ]
    iterated = [
        Size("falkon", {"n_landmarks": number, "iterations": times}, falkon_seconds(shape, number, times))
        for number, times in _ITERATED
        if _ROWS_OF_LANDMARK * number <= shape.rows
    ]
    if iterated and sizes[0].solver == "ridge":  # in less time than the largest direct solutions
        sizes = [size for size in sizes if size.seconds < iterated[0].seconds]
    return sizes + [size for size in iterated if size.seconds > sizes[-1].seconds]


def largest_affordable(sizes: list[Size], seconds: float) -> list[Size]:
    """Return the largest size that can be trained in given nominal seconds, otherwise the smallest."""
    return [size for size in sizes if size.seconds <= seconds][-1:] or sizes[:1]


def affordable_sizes(sizes: list[Size], seconds: float) -> list[Size]:
    """Return the first sizes, as many as can be trained one after the other in given nominal seconds; at least one.

    More time allows the sizes of less time, and perhaps more after them.
    """
    spent = np.cumsum([size.seconds for size in sizes])
    return sizes[: max(1, int((spent <= seconds).sum()))]


def larger_budget(size: Size) -> str:
    """Return the advice for a model whose size the budget limits: the budget of the next size, rounded up."""
    step = 10.0 ** (math.floor(math.log10(size.next_budget)) - 1)
    needed = math.ceil(size.next_budget / step) * step
    return f"The budget limits the size of the model: --budget-seconds {needed:g} may reduce its error."
