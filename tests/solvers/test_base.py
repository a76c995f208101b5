from __future__ import annotations

import numpy as np

from okl.solvers.base import MOST_POINTS, LearningCurve, SolverProgress


def test_the_number_of_points_is_bounded_and_the_last_progress_is_kept() -> None:
    curve = LearningCurve()
    errors = np.cumsum(np.random.default_rng(0).random(5000)) / np.arange(1, 5001)
    for i, error in enumerate(errors, start=1):
        curve.add(SolverProgress(10 * i, 50_000, float(error), 0.5))
    points = curve.points()
    assert len(points) <= MOST_POINTS + 1
    assert points[-1][:2] == [50_000, errors[-1]]
    rows = [point[0] for point in points]
    assert rows == sorted(set(rows))


def test_windowed_errors_average_to_the_error_so_far() -> None:
    curve = LearningCurve()
    for rows, error in ((10, 0.5), (30, 0.4), (100, 0.1)):
        curve.add(SolverProgress(rows, 100, error, 0.5))
    points = np.array(curve.points())
    weights = np.diff(points[:, 0], prepend=0)
    np.testing.assert_allclose(np.cumsum(weights * points[:, 2]) / points[:, 0], points[:, 1])
