"""scikit-learn's entrants: its linear models, its two kernel approximations before them, and its kernel machines."""

from __future__ import annotations

from functools import partial
from typing import Any

from okl.bench.entrants import (
    CLASSES,
    Configuration,
    Entrant,
    Grid,
    Machine,
    Prepare,
    double,
    double_or_sparse,
    single,
    single_or_sparse,
)
from okl.bench.sets import Part

C_GRID = (0.01, 0.1, 1.0, 10.0)
WIDTHS = (0.1, 0.3, 1.0, 3.0)
MACHINE_ROWS = 20_000  # of training rows: beyond, a kernel machine takes longer than anybody waits
MAP_COLUMNS = (300, 100, 1000)  # tuned at the first: a width that suits few columns is too wide for many


def entrants() -> list[Entrant]:
    """Linear models, approximations with each of them, kernel machines."""
    return [*_linear(), *_approximate(), *_machines()]


def _linear() -> list[Entrant]:
    ridge: Grid = {"alpha": (1.0, 100.0)}
    sgd: Grid = {"alpha": (1e-5, 1e-4, 1e-3), "loss": ("hinge", "log_loss")}
    return [
        _entrant("LogisticRegression", _logistic, single_or_sparse, CLASSES, tuned={"C": C_GRID}, keep=2),
        _entrant("LinearSVC", _linear_svc, double_or_sparse, CLASSES, tuned={"C": C_GRID}, keep=2),
        _entrant("SGD", _sgd, single_or_sparse, CLASSES, tuned=sgd, keep=2),
        _entrant("SGD", _sgd, single, ("regression",), tuned={"alpha": (1e-5, 1e-4, 1e-3)}),
        _entrant("Ridge", _ridge, single_or_sparse, swept=ridge),
    ]


def _approximate() -> list[Entrant]:
    ridge: Grid = {"width": WIDTHS, "alpha": (0.01, 1.0)}
    svc: Grid = {"width": WIDTHS, "C": (1.0, 10.0)}
    sgd: Grid = {"width": WIDTHS, "alpha": (1e-6, 1e-5)}
    columns: Grid = {"n_components": MAP_COLUMNS}
    nystroem, fourier = partial(_mapped, "Nystroem"), partial(_mapped, "RBFSampler")
    return [
        _entrant("Nystroem + Ridge", partial(nystroem, _ridge), single, tuned=ridge, swept=columns),
        _entrant("Nystroem + LinearSVC", partial(nystroem, _linear_svc), single, CLASSES, tuned=svc, swept=columns),
        _entrant("Nystroem + SGD", partial(nystroem, _sgd), single, tuned=sgd, swept=columns),
        _entrant("RBFSampler + SGD", partial(fourier, _sgd), single, tuned=sgd, swept=columns),
    ]


def _machines() -> list[Entrant]:
    width: Grid = {"C": (1.0, 10.0, 100.0), "width": (0.3, 1.0, 3.0, 10.0)}
    return [_entrant("SVC, SVR", _machine, double, tuned=width, most_rows=MACHINE_ROWS)]


def _entrant(
    name: str, make: Any, prepare: Prepare, tasks: tuple[str, ...] = (*CLASSES, "regression"), **more: Any
) -> Entrant:
    return Entrant("scikit-learn", name, "scikit-learn", make, prepare, tasks, **more)


def _logistic(configuration: Configuration, part: Part) -> Machine:
    from sklearn.linear_model import LogisticRegression

    machine: Machine = LogisticRegression(**configuration, max_iter=1000)
    return machine


def _linear_svc(configuration: Configuration, part: Part) -> Machine:
    from sklearn.svm import LinearSVC

    machine: Machine = LinearSVC(**configuration, random_state=0)
    return machine


def _sgd(configuration: Configuration, part: Part) -> Machine:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    if part.is_regression:
        machine: Machine = SGDRegressor(**configuration, random_state=0)
    else:
        machine = SGDClassifier(**configuration, n_jobs=-1, random_state=0)
    return machine


def _ridge(configuration: Configuration, part: Part) -> Machine:
    from sklearn.linear_model import Ridge, RidgeClassifier

    machine: Machine = (Ridge if part.is_regression else RidgeClassifier)(**configuration)
    return machine


def _mapped(name: str, head: Any, configuration: Configuration, part: Part) -> Machine:
    """A kernel approximation before a linear model; the configuration is that of both."""
    from sklearn import kernel_approximation
    from sklearn.pipeline import make_pipeline

    given = dict(configuration)
    gamma, n_components = given.pop("width") * part.gamma, given.pop("n_components")
    approximation = getattr(kernel_approximation, name)(gamma=gamma, n_components=n_components, random_state=0)
    machine: Machine = make_pipeline(approximation, head(given, part))
    return machine


def _machine(configuration: Configuration, part: Part) -> Machine:
    from sklearn.svm import SVC, SVR

    given = {"C": configuration["C"], "gamma": configuration["width"] * part.gamma, "cache_size": 1000}
    machine: Machine = (SVR if part.is_regression else SVC)(**given)
    return machine
