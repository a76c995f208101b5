"""The largest eigenvalue of A'A, which bounds how steep a dual gradient gets."""

from __future__ import annotations

import numpy as np

from okl.accelerated.operators.protocol import Operator


def squared_norm_of(operator: Operator, rounds: int = 300, tolerance: float = 1e-9, seed: int = 0) -> float:
    """||A||^2 of a linear operator by power iteration: two reads of the data a round, never above the true value.

    Rounds end early once they change the value by no more than `tolerance` of it.
    """
    point = np.random.default_rng(seed).standard_normal(operator.n_points)
    image = np.empty(operator.n_image)
    largest = 0.0
    for _ in range(rounds):
        point /= max(float(np.linalg.norm(point)), np.finfo(np.float64).tiny)
        operator.image(image, point)
        # a Rayleigh quotient of A'A: below its largest eigenvalue, and growing
        before, largest = largest, operator.squared_norm(point, image)
        if largest - before <= tolerance * largest:
            break
        operator.pull(point, image)
    return largest
