"""What learning costs on a nominal machine: a model may depend on the data and the budget, never on a busy hour."""

from __future__ import annotations

from dataclasses import dataclass

RACE_SHARE = 0.35  # of the budget; the rest is for learning
MOST_LANDMARKS, LEAST_LANDMARKS = 4096, 512
FEW_LANDMARKS = 2048
_TIMES = 3  # as many frequencies as landmarks, to be worth it
_STEP = 64
_PRODUCTS = 4e10  # multiply-adds of sums of products a second, float64, two cores of 2019
_CUBE = 5e-10  # seconds of eigenvalues and triangular solutions, times n_landmarks^3, one core
_VALUES = 2e10  # a second, of inputs that go into kernel values
_WAVES = 3e11  # the same of a Fourier map that is learnt row by row; a sine and its update count as 30 inputs
_FREQUENCIES = (6400, 4800, 3200, 2400, 1600, 800, 400, 200)
_MANY_FREQUENCIES, _PASSES_OF_MANY = 1600, 3  # so many weights need several passes
_MOST_PASSES = 10
_BASE_SECONDS = 60.0
_ROUNDS = ((2048, 384), (4096, 768), (8192, 1024))
_LEAST_SAMPLE = 512


@dataclass(frozen=True)
class Shape:
    """Of the rows to learn. outputs : scores a row"""

    rows: int
    inputs: int
    outputs: int


def rounds_of_race(budget_seconds: float, rows: int) -> list[tuple[int, int]]:
    """Sampled rows and landmarks of each round of a race; fewer, and smaller, with little time or few rows."""
    share = min(1.0, budget_seconds / _BASE_SECONDS) ** 0.5
    rounds: list[tuple[int, int]] = []
    for sample, landmarks in _ROUNDS:
        size = min(rows, max(_LEAST_SAMPLE, round(sample * share)))
        one = size, min(size, max(_LEAST_SAMPLE // 2, round(landmarks * share)))
        if one not in rounds:
            rounds.append(one)
    return rounds


def ridge_seconds(shape: Shape, landmarks: int) -> float:
    """Of kernel least squares with so many landmarks."""
    sums = shape.rows * landmarks**2 / _PRODUCTS
    values = 2.0 * shape.rows * landmarks * (shape.inputs + shape.outputs + 8) / _VALUES  # learnt, and then scored
    return sums + values + _CUBE * landmarks**3


def most_landmarks(shape: Shape, seconds: float, most: int = MOST_LANDMARKS) -> int | None:
    """As many as the time allows, at most all rows; None if these are too few to be worth it."""
    best = None
    highest = min(most, shape.rows)
    for landmarks in [*range(LEAST_LANDMARKS, highest, _STEP), highest]:
        if landmarks <= highest and ridge_seconds(shape, landmarks) <= seconds:
            best = landmarks
    return best


def fogd_size(shape: Shape, seconds: float) -> tuple[int, int]:
    """Frequencies and passes of online learning, more frequencies first: at least the fewest of them, once."""
    for frequencies in _FREQUENCIES:
        once = shape.rows * frequencies * 2.0 * (shape.inputs + 30 * shape.outputs) / _WAVES
        least = _PASSES_OF_MANY if frequencies > _MANY_FREQUENCIES else 1
        if least * once <= seconds:
            return frequencies, max(1, min(_MOST_PASSES, int(seconds / once)))
    return _FREQUENCIES[-1], 1


def better_online(shape: Shape, landmarks: int, frequencies: int) -> bool:
    """Whether classes are learnt better online, in so many frequencies, than by as few landmarks as there is time for.

    On covtype 1,600 landmarks had 79.4% of seven classes right and 83.2% of two; 6,400 frequencies in 3 passes, which
    take as long, 83.3% and 84.7%. Where landmarks need not be so few, least squares are ahead: they are solved exactly.
    """
    return landmarks < min(FEW_LANDMARKS, shape.rows) and frequencies >= _TIMES * landmarks
