"""Entrants of other systems, each behind scikit-learn's two words: LIBLINEAR, LIBSVM, ThunderSVM, River, dask-ml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.bench.entrants import CLASSES, Configuration, Entrant, Grid, Machine, always_sparse, double
from okl.bench.sets import SETS, BenchSet, Part
from okl.types import FloatArray

C_GRID = (0.01, 0.1, 1.0, 10.0)
MACHINE: Grid = {"C": (1.0, 10.0, 100.0), "width": (0.3, 1.0, 3.0, 10.0)}
SMALL = ("german", "spambase", "magic", "letter", "parkinsons", "cadata")  # a kernel machine beside SVC's very method
STREAMED_ROWS = 50_000  # of training rows: a row of River is a Python dictionary
NARROW = tuple(name for name in SETS if name != "mnist")  # whose 780 columns would fill the memory as dictionaries
STREAM: Grid = {"rate": (0.01, 0.1)}


def entrants() -> list[Entrant]:
    """All but scikit-learn and okl."""
    hinge: Grid = {"solver": (2, 1, 3), "C": C_GRID}  # L2-loss in the primal and in the dual, L1-loss in the dual
    logistic: Grid = {"solver": (0,), "C": C_GRID}
    regression: Grid = {"solver": (11,), "C": C_GRID}
    libsvm = {"tuned": MACHINE, "keep": 1, "most_rows": 20_000, "sets": SMALL}
    thunder = {"tuned": MACHINE, "keep": 1, "most_rows": 20_000, "sets": SMALL}
    binary, numbers = ("binary",), ("regression",)
    return [
        Entrant("LIBLINEAR", "SVM", "liblinear-official", _Liblinear, _liblinear, CLASSES, tuned=hinge, keep=2),
        Entrant("LIBLINEAR", "logistic", "liblinear-official", _Liblinear, _liblinear, CLASSES, tuned=logistic, keep=2),
        Entrant("LIBLINEAR", "SVR", "liblinear-official", _Liblinear, _liblinear, numbers, tuned=regression, keep=1),
        Entrant("LIBSVM", "SVC, SVR", "libsvm-official", _Libsvm, _libsvm, **libsvm),  # type: ignore[arg-type]
        Entrant("ThunderSVM", "SVC, SVR", "thundersvm", _thunder, double, **thunder),  # type: ignore[arg-type]
        Entrant("River", "linear", "river", _River, _dictionaries, tuned=STREAM, most_rows=STREAMED_ROWS, sets=NARROW),
        Entrant("dask-ml", "LogisticRegression", "dask-ml", _dask, double, binary, tuned={"C": (0.1, 1.0)}),
        Entrant("dask-ml", "LinearRegression", "dask-ml", _dask, double, numbers, swept={"C": (1.0,)}),
    ]


def _liblinear(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    from liblinear.liblinearutil import problem

    rows = always_sparse(found, inputs, targets)
    return rows, problem(targets.astype(np.float64), rows, bias=1)


class _Liblinear:
    """LIBLINEAR's own Python face; its linear scores are a product of matrices here, as its own go row by row."""

    def __init__(self, configuration: Configuration, part: Part) -> None:
        self.words = f"-s {configuration['solver']} -c {configuration['C']} -B 1 -q"
        self.is_regression = part.is_regression

    def fit(self, prepared: Any, targets: NDArray[Any]) -> None:
        from liblinear.liblinearutil import parameter, train

        self.model = train(prepared[1], parameter(self.words))

    def predict(self, prepared: Any) -> NDArray[Any]:
        rows = prepared[0]
        if self.is_regression:
            weights, bias = self.model.get_decfun()
            found: NDArray[Any] = rows @ np.array(weights) + bias
            return found
        labels = np.array(self.model.get_labels())
        n_columns = 1 if len(labels) == 2 else len(labels)
        parts = [self.model.get_decfun(label_idx=index) for index in range(n_columns)]
        scores = rows @ np.array([weights for weights, _ in parts]).T + np.array([bias for _, bias in parts])
        return labels[np.where(scores[:, 0] > 0, 0, 1)] if len(labels) == 2 else labels[np.argmax(scores, axis=1)]


def _libsvm(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    from libsvm.svmutil import svm_problem

    rows = always_sparse(found, inputs, targets)
    return rows, svm_problem(targets.astype(np.float64), rows)


class _Libsvm:
    """LIBSVM's own Python face, its cache as large as that of SVC here."""

    def __init__(self, configuration: Configuration, part: Part) -> None:
        gamma, kind = configuration["width"] * part.gamma, 3 if part.is_regression else 0
        self.words = f"-s {kind} -t 2 -c {configuration['C']} -g {gamma} -m 1000 -q"

    def fit(self, prepared: Any, targets: NDArray[Any]) -> None:
        from libsvm.svmutil import svm_parameter, svm_train

        self.model = svm_train(prepared[1], svm_parameter(self.words))

    def predict(self, prepared: Any) -> NDArray[Any]:
        from libsvm.svmutil import svm_predict

        rows = prepared[0]
        return np.array(svm_predict(np.zeros(rows.shape[0]), rows, self.model, "-q")[0])


def _thunder(configuration: Configuration, part: Part) -> Machine:
    from thundersvm import SVC, SVR

    given = {"C": configuration["C"], "gamma": configuration["width"] * part.gamma, "kernel": "rbf"}
    machine: Machine = (SVR if part.is_regression else SVC)(**given)
    return machine


def _dictionaries(found: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    names = [f"x{index}" for index in range(inputs.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in inputs.tolist()], targets.tolist()


class _River:
    """One pass of a linear model, row by row, as River learns; several classes by softmax."""

    def __init__(self, configuration: Configuration, part: Part) -> None:
        from river import linear_model, optim

        optimizer = optim.SGD(configuration["rate"])
        if part.is_regression:
            self.model: Any = linear_model.LinearRegression(optimizer, intercept_lr=configuration["rate"])
        elif part.found.task == "binary":
            self.model = linear_model.LogisticRegression(optimizer, intercept_lr=configuration["rate"])
        else:
            self.model = linear_model.SoftmaxRegression(optimizer)

    def fit(self, prepared: Any, targets: NDArray[Any]) -> None:
        learn: Any = self.model.learn_one
        for row, target in zip(*prepared, strict=True):
            learn(row, target)

    def predict(self, prepared: Any) -> NDArray[Any]:
        return np.array(list(self._each(prepared[0])))

    def _each(self, rows: Iterable[dict[str, float]]) -> Iterator[float]:
        for row in rows:
            found = self.model.predict_one(row)
            yield 0 if found is None else found


def _dask(configuration: Configuration, part: Part) -> Machine:
    from dask_ml.linear_model import LinearRegression, LogisticRegression

    kind = LinearRegression if part.is_regression else LogisticRegression
    machine: Machine = kind(solver="lbfgs", **configuration)
    return machine
