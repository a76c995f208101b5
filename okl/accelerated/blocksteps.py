"""A few accelerated proximal gradient steps on a small problem: no checks, no certificate, never uphill in the end."""

from __future__ import annotations

import math

import numpy as np

from okl.accelerated.protocol import Problem
from okl.compiled.steps import descend, extrapolate, step_sums
from okl.types import FloatArray

_MOST_GROWTHS = 30
_LEAST_GROWTH = 1.1
_SHRINK = 1.1  # of the Lipschitz estimate after a step that was not too long


def go_down(problem: Problem, start: FloatArray, image: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """Point and image (new arrays) after some steps with backtracking, or the start where they lead no lower.

    Source: Ito et al., 2017, Algorithm 1, with the restart of its Algorithm 3.
    """
    points = [start.copy(), start.copy(), np.empty_like(start)]
    images = [image.copy(), image.copy(), np.empty_like(image)]
    there, there_image, gradient = np.empty_like(start), np.empty_like(image), np.empty_like(start)
    lipschitz, acceleration, momentum = problem.first_lipschitz, 1.0, 0.0
    for _ in range(steps):
        (current, previous, new), (current_image, previous_image, new_image) = points, images
        extrapolate(there, current, previous, momentum)
        extrapolate(there_image, current_image, previous_image, momentum)
        problem.pull(gradient, there_image)
        problem.gradient(gradient, there, there_image, gradient)
        lipschitz = _step(problem, (new, new_image), (there, there_image), gradient, lipschitz)
        _, turn = step_sums(new, there, gradient, current)
        if turn + problem.penalty(new) - problem.penalty(current) > 0.0:  # uphill: without momentum next time
            momentum, acceleration = 0.0, 1.0
        else:
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * acceleration**2))
            momentum, acceleration = (acceleration - 1.0) / following, following
        points, images = [new, current, previous], [new_image, current_image, previous_image]
        lipschitz /= _SHRINK
    found, found_image = points[0], images[0]
    lower = objective(problem, found, found_image) <= objective(problem, start, image)
    return (found, found_image) if lower else (start.copy(), image.copy())


def objective(problem: Problem, point: FloatArray, image: FloatArray) -> float:
    """F of a feasible point."""
    return problem.smooth(point, image) + problem.penalty(point)


def _step(
    problem: Problem,
    new: tuple[FloatArray, FloatArray],
    there: tuple[FloatArray, FloatArray],
    gradient: FloatArray,
    lipschitz: float,
) -> float:
    """Overwrite new by the proximal step from there; the Lipschitz estimate that proved it good."""
    target = np.empty_like(gradient)
    for _ in range(_MOST_GROWTHS):
        descend(target, there[0], gradient, 1.0 / lipschitz)
        problem.prox(new[0], target, lipschitz)
        problem.image(new[1], new[0])
        squared, _ = step_sums(new[0], there[0], gradient, there[0])
        excess = problem.excess(*new, *there)
        if squared == 0.0 or excess <= 0.5 * lipschitz * squared:
            break
        lipschitz *= max(_LEAST_GROWTH, 2.0 * excess / squared / lipschitz)
    return lipschitz
