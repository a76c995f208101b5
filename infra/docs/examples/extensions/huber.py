"""The Huber loss: squared for small residuals, absolute for large ones, so outliers have little influence.

Source: Huber, Annals of Mathematical Statistics 35(1), 1964.
"""

from okl.extensions import add_loss

DELTA = 0.3  # in units of the scaled target


def value(score: float, target: float) -> float:
    """Return the loss of a row."""
    size = abs(score - target)
    return 0.5 * size * size if size <= DELTA else DELTA * (size - 0.5 * DELTA)


def derivative(score: float, target: float) -> float:
    """Return the derivative with respect to the score."""
    return max(-DELTA, min(DELTA, score - target))


add_loss("huber", task="regression", value=value, derivative=derivative)
