"""Systems that take part: their methods, how a model is made from a configuration, and the configurations to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray
from tests.benchmarks.peers.data import SETS, BenchSet, Part

Configuration = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]]
CLASSES = ("binary", "multiclass")
EVERY_TASK = (*CLASSES, "regression")


class Machine(Protocol):
    """A model that learns and predicts prepared rows, with scikit-learn's interface."""

    def fit(self, rows: Any, targets: NDArray[Any]) -> Any: ...

    def predict(self, rows: Any) -> NDArray[Any]: ...


Prepare = Callable[[BenchSet, FloatArray, NDArray[Any]], Any]
"""Makes rows in the format of a system from a set, inputs and targets; not timed for any system."""


@dataclass(frozen=True)
class Entrant:
    """A method of a system.

    Parameters
    ----------
    system, name : as shown; package : whose version is recorded
    make : makes an unfitted model from a configuration and the rows to learn
    prepare : makes rows in the format of the system
    tasks : supported tasks
    tuned : values that are tried on a sample of the training rows, of which the best `keep` combinations go on
    swept : values that are measured on all training rows, in all combinations; the first ones are used while tuning
    keep : int >= 1
    most_rows : largest number of training rows; of more, a random sample of this size is learnt
    sets : names of sets to try; None: all of its tasks
    """

    system: str
    name: str
    package: str
    make: Callable[[Configuration, Part], Machine]
    prepare: Prepare
    tasks: tuple[str, ...] = EVERY_TASK
    tuned: Grid = field(default_factory=dict)
    swept: Grid = field(default_factory=dict)
    keep: int = 1
    most_rows: int | None = None
    sets: tuple[str, ...] | None = None

    def takes(self, bench_set: BenchSet) -> bool:
        """Return whether the entrant is tried on a set."""
        return bench_set.task in self.tasks and (self.sets is None or bench_set.name in self.sets)

    def to_tune(self) -> list[Configuration]:
        """Return the configurations for the sample, with the first of all swept values; empty without a choice."""
        tuned = list(combinations(self.tuned))
        first = {name: values[0] for name, values in self.swept.items()}
        return [first | one for one in tuned] if len(tuned) > self.keep else []

    def to_sweep(self, best: Sequence[Configuration]) -> list[Configuration]:
        """Return the configurations to measure in full, given the best tuned ones, the best first."""
        best_tuned: list[Configuration]
        best_tuned = [{name: one[name] for name in self.tuned} for one in best[: self.keep]] or list(
            combinations(self.tuned)
        )
        return [dict(swept) | dict(one) for swept in combinations(self.swept) for one in best_tuned]


def combinations(grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield all combinations of the values of parameters; one empty configuration for an empty grid.

    >>> list(combinations({"C": (1, 10), "passes": (5,)}))
    [{'C': 1, 'passes': 5}, {'C': 10, 'passes': 5}]
    """
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def single(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> FloatArray:
    """Return dense rows, float32."""
    return inputs


def double(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> FloatArray:
    """Return dense rows, float64, for systems that would convert them."""
    return inputs.astype(np.float64)


def single_or_sparse(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    """Return CSR rows of sets whose values are mostly zero, otherwise dense; float32."""
    return _sparse(inputs) if bench_set.sparse else inputs


def double_or_sparse(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    """Return CSR rows of sets whose values are mostly zero, otherwise dense; float64."""
    rows = inputs.astype(np.float64)
    return _sparse(rows) if bench_set.sparse else rows


def always_sparse(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    """Return CSR rows, float64: the format that LIBLINEAR and LIBSVM convert all inputs to."""
    return _sparse(inputs.astype(np.float64))


def _sparse(rows: FloatArray) -> Any:
    from scipy import sparse

    return sparse.csr_matrix(rows)


C_GRID = (0.01, 0.1, 1.0, 10.0)
# gamma of exp(-gamma ||x - x'||^2), in units of scikit-learn's gamma="scale"
WIDTHS = (0.1, 0.3, 1.0, 3.0)
MACHINE_ROWS = 20_000  # of training rows: a kernel machine takes too long on more
MAP_COLUMNS = (300, 100, 1000)  # tuned with the first: the best width for few columns is too wide for many


def sklearn_entrants() -> list[Entrant]:
    """Return linear models, approximations with each of them, kernel machines."""
    return [*_linear(), *_approximate(), *_machines()]


def _linear() -> list[Entrant]:
    ridge: Grid = {"alpha": (1.0, 100.0)}
    sgd: Grid = {"alpha": (1e-5, 1e-4, 1e-3), "loss": ("hinge", "log_loss")}
    return [
        _sklearn_entrant("LogisticRegression", _logistic, single_or_sparse, CLASSES, tuned={"C": C_GRID}, keep=2),
        _sklearn_entrant("LinearSVC", _linear_svc, double_or_sparse, CLASSES, tuned={"C": C_GRID}, keep=2),
        _sklearn_entrant("SGD", _sgd, single_or_sparse, CLASSES, tuned=sgd, keep=2),
        _sklearn_entrant("SGD", _sgd, single, ("regression",), tuned={"alpha": (1e-5, 1e-4, 1e-3)}),
        _sklearn_entrant("Ridge", _ridge, single_or_sparse, swept=ridge),
    ]


def _approximate() -> list[Entrant]:
    ridge: Grid = {"width": WIDTHS, "alpha": (0.01, 1.0)}
    svc: Grid = {"width": WIDTHS, "C": (1.0, 10.0)}
    sgd: Grid = {"width": WIDTHS, "alpha": (1e-6, 1e-5)}
    columns: Grid = {"n_components": MAP_COLUMNS}
    nystroem, fourier = partial(_mapped, "Nystroem"), partial(_mapped, "RBFSampler")
    return [
        _sklearn_entrant("Nystroem + Ridge", partial(nystroem, _ridge), single, tuned=ridge, swept=columns),
        _sklearn_entrant(
            "Nystroem + LinearSVC", partial(nystroem, _linear_svc), single, CLASSES, tuned=svc, swept=columns
        ),
        _sklearn_entrant("Nystroem + SGD", partial(nystroem, _sgd), single, tuned=sgd, swept=columns),
        _sklearn_entrant("RBFSampler + SGD", partial(fourier, _sgd), single, tuned=sgd, swept=columns),
    ]


def _machines() -> list[Entrant]:
    width: Grid = {"C": (1.0, 10.0, 100.0), "width": (0.3, 1.0, 3.0, 10.0)}
    return [_sklearn_entrant("SVC, SVR", _machine, double, tuned=width, most_rows=MACHINE_ROWS)]


def _sklearn_entrant(
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
    """Return a kernel approximation and a linear model; the configuration is that of both."""
    from sklearn import kernel_approximation
    from sklearn.pipeline import make_pipeline

    parameters = dict(configuration)
    gamma, n_components = parameters.pop("width") * part.gamma, parameters.pop("n_components")
    approximation = getattr(kernel_approximation, name)(gamma=gamma, n_components=n_components, random_state=0)
    machine: Machine = make_pipeline(approximation, head(parameters, part))
    return machine


def _machine(configuration: Configuration, part: Part) -> Machine:
    from sklearn.svm import SVC, SVR

    parameters = {"C": configuration["C"], "gamma": configuration["width"] * part.gamma, "cache_size": 1000}
    machine: Machine = (SVR if part.is_regression else SVC)(**parameters)
    return machine


MACHINE: Grid = {"C": (1.0, 10.0, 100.0), "width": (0.3, 1.0, 3.0, 10.0)}
SMALL = (
    "german",
    "spambase",
    "magic",
    "letter",
    "parkinsons",
    "cadata",
)  # on which other kernel machines with the method of SVC are tried
STREAMED_ROWS = 50_000  # of training rows: a row of River is a Python dictionary
NARROW = tuple(name for name in SETS if name != "mnist")  # its 780 columns would fill the memory as dictionaries
STREAM: Grid = {"rate": (0.01, 0.1)}


def other_entrants() -> list[Entrant]:
    """Return the entrants of all systems except scikit-learn and okl."""
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


def _liblinear(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    from liblinear.liblinearutil import problem

    rows = always_sparse(bench_set, inputs, targets)
    return rows, problem(targets.astype(np.float64), rows, bias=1)


class _Liblinear:
    """LIBLINEAR's Python interface; linear scores are a matrix product here, as its own are computed row by row."""

    def __init__(self, configuration: Configuration, part: Part) -> None:
        self.options = f"-s {configuration['solver']} -c {configuration['C']} -B 1 -q"
        self.is_regression = part.is_regression

    def fit(self, prepared: Any, targets: NDArray[Any]) -> None:
        from liblinear.liblinearutil import parameter, train

        self.model = train(prepared[1], parameter(self.options))

    def predict(self, prepared: Any) -> NDArray[Any]:
        rows = prepared[0]
        if self.is_regression:
            weights, bias = self.model.get_decfun()
            values: NDArray[Any] = rows @ np.array(weights) + bias
            return values
        labels = np.array(self.model.get_labels())
        n_columns = 1 if len(labels) == 2 else len(labels)
        parts = [self.model.get_decfun(label_idx=index) for index in range(n_columns)]
        scores = rows @ np.array([weights for weights, _ in parts]).T + np.array([bias for _, bias in parts])
        return labels[np.where(scores[:, 0] > 0, 0, 1)] if len(labels) == 2 else labels[np.argmax(scores, axis=1)]


def _libsvm(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    from libsvm.svmutil import svm_problem

    rows = always_sparse(bench_set, inputs, targets)
    return rows, svm_problem(targets.astype(np.float64), rows)


class _Libsvm:
    """LIBSVM's Python interface, with a cache as large as that of SVC here."""

    def __init__(self, configuration: Configuration, part: Part) -> None:
        gamma, kind = configuration["width"] * part.gamma, 3 if part.is_regression else 0
        self.options = f"-s {kind} -t 2 -c {configuration['C']} -g {gamma} -m 1000 -q"

    def fit(self, prepared: Any, targets: NDArray[Any]) -> None:
        from libsvm.svmutil import svm_parameter, svm_train

        self.model = svm_train(prepared[1], svm_parameter(self.options))

    def predict(self, prepared: Any) -> NDArray[Any]:
        from libsvm.svmutil import svm_predict

        rows = prepared[0]
        return np.array(svm_predict(np.zeros(rows.shape[0]), rows, self.model, "-q")[0])


def _thunder(configuration: Configuration, part: Part) -> Machine:
    from thundersvm import SVC, SVR

    parameters = {"C": configuration["C"], "gamma": configuration["width"] * part.gamma, "kernel": "rbf"}
    machine: Machine = (SVR if part.is_regression else SVC)(**parameters)
    return machine


def _dictionaries(bench_set: BenchSet, inputs: FloatArray, targets: NDArray[Any]) -> Any:
    names = [f"x{index}" for index in range(inputs.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in inputs.tolist()], targets.tolist()


class _River:
    """One pass of a linear model, row by row, River's way; several classes by softmax."""

    def __init__(self, configuration: Configuration, part: Part) -> None:
        from river import linear_model, optim

        optimizer = optim.SGD(configuration["rate"])
        if part.is_regression:
            self.model: Any = linear_model.LinearRegression(optimizer, intercept_lr=configuration["rate"])
        elif part.bench_set.task == "binary":
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
            prediction = self.model.predict_one(row)
            yield 0 if prediction is None else prediction


def _dask(configuration: Configuration, part: Part) -> Machine:
    from dask_ml.linear_model import LinearRegression, LogisticRegression

    kind = LinearRegression if part.is_regression else LogisticRegression
    machine: Machine = kind(solver="lbfgs", **configuration)
    return machine


MAPPED = {"kernel": "gaussian", "feature_map": "orthogonal", "tol": 1e-2}
Sets = tuple[str, ...] | None
PENALTIES = (1e-6, 1e-4)
LOOSE = {"tol": 3e-2}
LINEAR: Grid = {"C": C_GRID}
LANDMARKS: Grid = {"n_landmarks": (400, 50, 100, 200, 1000, 2000, 4000)}  # tuned with the first
FEW_LANDMARKS: Grid = {"n_landmarks": (100, 50, 200, 400)}
PASSES: Grid = {"passes": (1, 5), "n_frequencies": (100, 200, 400, 1000, 4000)}

# sets on which certified solutions of linear models come near the best, or cost little
NEARLY_LINEAR = ("german", "spambase", "a9a", "w7a")

# name, estimator for classes, estimator for regression, fixed parameters, tuned, swept, sets (None: all)
TABLE: tuple[tuple[str, str, str, Mapping[str, Any], Grid, Grid, Sets], ...] = (
    (
        "ridge, linear",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {"kernel": "linear", "precision": "float32"},  # the type of the rows, so no copy; sums are float64
        {"penalty": (1e-4, 1e-2)},
        {},
        None,
    ),
    (
        "ridge, landmarks",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {},
        {"kernel": ("gaussian",), "width": WIDTHS, "penalty": PENALTIES},
        LANDMARKS,
        None,
    ),
    (
        "ridge, Matern landmarks",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {},
        {"kernel": ("matern32",), "width": WIDTHS, "penalty": PENALTIES},
        LANDMARKS,
        None,
    ),
    (
        "ridge, Laplacian landmarks",
        "KernelRidgeClassifier",
        "KernelRidgeRegressor",
        {},
        {"kernel": ("laplacian",), "width": WIDTHS, "penalty": (1e-8, *PENALTIES)},
        LANDMARKS,
        None,
    ),
    (
        "ridge, landmarks in float32",
        "KernelRidgeClassifier",
        "",
        {"precision": "float32"},
        {"kernel": ("gaussian",), "width": WIDTHS, "penalty": (1e-4, 1e-3)},
        FEW_LANDMARKS,
        NEARLY_LINEAR,
    ),
    ("l2-SVM", "L2SVMClassifier", "", LOOSE, LINEAR, {}, NEARLY_LINEAR),
    ("C-SVM", "CSVMClassifier", "", LOOSE, LINEAR, {}, NEARLY_LINEAR),
    ("logistic", "LogisticClassifier", "", LOOSE, LINEAR, {}, NEARLY_LINEAR),
    (
        "l2-SVM, orthogonal map",
        "L2SVMClassifier",
        "",
        MAPPED,
        {"width": WIDTHS, "C": C_GRID},
        {"n_columns": (200, 800, 2000)},
        NEARLY_LINEAR,
    ),
    ("FOGD", "FOGDClassifier", "FOGDRegressor", {}, {"width": WIDTHS}, PASSES, None),
    (
        "SCS",
        "SCSClassifier",
        "SCSRegressor",
        {"gap": 1e-2},
        {"width": WIDTHS, "lam": (1e-3, 1e-4)},
        {"n_columns": (200, 800)},
        None,
    ),
)


def okl_entrants() -> list[Entrant]:
    """Return the entrants of TABLE."""
    return [_okl_entrant(*row) for row in TABLE]


def _okl_entrant(
    name: str, classifier: str, regressor: str, fixed: Mapping[str, Any], tuned: Grid, swept: Grid, sets: Sets
) -> Entrant:
    def make(configuration: Configuration, part: Part) -> Machine:
        import okl

        parameters: dict[str, Any] = dict(configuration)
        if "width" in parameters:
            parameters["bandwidth"] = math.sqrt(0.5 / (parameters.pop("width") * part.gamma))
            if (
                parameters.get("kernel") == "laplacian"
            ):  # the sum of absolute values is larger than Euclid's distance by this factor
                parameters["bandwidth"] *= math.sqrt(part.inputs.shape[1])
        kind = getattr(okl, regressor if part.is_regression else classifier)
        machine: Machine = kind(**fixed, **parameters, **_if_taken(kind, n_jobs=-1, random_state=0))
        return machine

    tasks = EVERY_TASK if classifier and regressor else CLASSES if classifier else ("regression",)
    is_linear = fixed.get("kernel", "linear") == "linear" and "width" not in tuned
    return Entrant(
        "okl",
        name,
        "okl",
        make,
        single_or_sparse if is_linear else single,
        tasks,
        tuned,
        swept,
        keep=2 if is_linear or "n_landmarks" in swept else 1,  # many landmarks need a narrower kernel than few
        sets=sets,
    )


def _if_taken(kind: Any, **parameters: Any) -> dict[str, Any]:
    """Return those of the parameters that an estimator has."""
    return {name: value for name, value in parameters.items() if name in kind._get_param_names()}


OWN = "okl"


def roster() -> list[Entrant]:
    """Return every entrant: scikit-learn's first, okl's last."""
    return [*sklearn_entrants(), *other_entrants(), *okl_entrants()]


def systems() -> tuple[str, ...]:
    """Return the names of all systems."""
    return tuple(dict.fromkeys(entrant.system for entrant in roster()))


def entrants_on(bench_set: BenchSet, names: tuple[str, ...]) -> list[Entrant]:
    """Return the entrants of some systems (all, if none is named) that are tried on a set."""
    return [entrant for entrant in roster() if entrant.takes(bench_set) and (not names or entrant.system in names)]


def find(system: str, name: str, bench_set: BenchSet) -> Entrant:
    """Return the entrant of this name that is tried on a set; KeyError if there is none."""
    for entrant in roster():
        if (entrant.system, entrant.name) == (system, name) and entrant.takes(bench_set):
            return entrant
    raise KeyError(f"{system} {name} on {bench_set.name}")
