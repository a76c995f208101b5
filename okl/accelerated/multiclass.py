"""Several classes by one against the rest: the same rows under other labels, classes side by side in threads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.fapg import Fapg
from okl.accelerated.fitting import Fitted, ProblemMaker, fit_one
from okl.accelerated.operators import signs_of
from okl.checks import check_at_least
from okl.compiled.blocks import run_threads
from okl.errors import DataError
from okl.types import FloatArray

Rows = TypeVar("Rows")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class OneAgainstRest:
    """A solution a class, or one alone for two classes, whose positives are the second class.

    classes : (k,), sorted; fits : k of them, or 1 where k is 2
    """

    classes: NDArray[Any]
    fits: tuple[Fitted, ...]

    @property
    def weights(self) -> FloatArray:
        """(k, n), or (1, n) for two classes."""
        return np.stack([fit.weights for fit in self.fits])

    @property
    def biases(self) -> NDArray[np.float64]:
        """(k,), or (1,): the models' own; scores less these."""
        return np.array([fit.bias for fit in self.fits])


def one_against_rest(
    model: ProblemMaker,
    rows: Any,
    labels: NDArray[Any],
    method: Fapg,
    sample_weight: FloatArray | None = None,
    starts: Sequence[FloatArray | None] | None = None,
    n_threads: int = 1,
) -> OneAgainstRest:
    """Fit a model to every class against all others, or once to two classes.

    Parameters
    ----------
    model : of `okl.accelerated.models`
    rows : an operator over the rows; its own labels are not used, its arrays are shared and not copied
    labels : (m,), any classes that sort
    method : Fapg
    sample_weight : (m,) or None
    starts : point of the problem or None, a fit
    n_threads : int >= 1, classes at once; the same bits for any

    Raises
    ------
    DataError : fewer than two classes
    """
    classes, signs = signs_by_class(labels)

    def fit(index: int) -> Fitted:
        start = None if starts is None else starts[index]
        return fit_one(model, relabelled(rows, signs[index]), method, sample_weight, start)

    return OneAgainstRest(classes, tuple(in_threads(fit, len(signs), n_threads)))


def signs_by_class(labels: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[np.float64]]]:
    """Sorted classes, and signs (m,) for each against the rest; one for two classes, + for the second."""
    classes = np.unique(labels)
    if len(classes) < 2:
        shown = ", ".join(map(str, classes))
        raise DataError(f"Labels hold {{{shown}}}, but a classifier takes at least two classes: add rows of another.")
    positives = classes[1:] if len(classes) == 2 else classes
    return classes, [np.where(labels == positive, 1.0, -1.0) for positive in positives]


def relabelled(rows: Rows, labels: FloatArray) -> Rows:
    """The same rows, an operator, under other labels (m,), -1 and +1; their arrays are shared, nothing is computed."""
    again: Any = copy.copy(rows)
    kept = {field.name for field in fields(again)}
    for name in set(vars(again)) - kept:  # scratch space, which another thread may be writing into
        del vars(again)[name]
    object.__setattr__(again, "labels", signs_of(labels))
    relabelled_rows: Rows = again
    return relabelled_rows


def in_threads(work: Callable[[int], Result], n_tasks: int, n_threads: int) -> list[Result]:
    """work(0) .. work(n_tasks - 1), up to n_threads at once; results in order."""
    n_threads = min(check_at_least("n_threads", n_threads, 1), n_tasks)
    parts = run_threads(n_threads, lambda thread: [work(task) for task in range(thread, n_tasks, n_threads)])
    return [parts[task % n_threads][task // n_threads] for task in range(n_tasks)]
