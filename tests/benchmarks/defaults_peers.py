"""scikit-learn's side of the benchmark of defaults: SVC/SVR, Nystroem + linear, and linear, tuned by cross validation.

Scaling (standard or min-max), gamma (multiples of 1 / (columns x variance) of the scaled sample), C or alpha, and
epsilon of SVR are searched together by `HalvingGridSearchCV` (factor 3, three folds) on at most 4,050 training rows
(fewer where columns are many); the best pipeline then learns all training rows, SVC and SVR at most 20,000, of mnist
10,000, and Nystroem maps at most 200,000. Targets of a regression are standardised.

The linear model on a Nystroem map is LogisticRegression: on these maps LinearSVC took 3 to 80 times as long at C >= 32
and was no more accurate; the hinge loss is what SVC has.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np
import sklearn
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  it makes the next import but one possible
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import HalvingGridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR

from okl.data.dataset import Dataset
from okl.foundation.types import FloatArray
from tests.benchmarks.defaults_data import Case, read_split

PEERS = ("linear", "nystroem", "svm")
FACTOR, FOLDS = 3, 3
LEAST_STAGE_ROWS = 300
MOST_TUNING_ROWS, FEW_TUNING_ROWS, TUNING_CELLS = 4_050, 1_350, 540_000
MOST_SVM_ROWS, MOST_MAP_ROWS = 20_000, 200_000
SVM_ROWS = {"mnist": 10_000}  # 780 columns: more would take above six minutes
MANY_ROWS, LANDMARKS, LANDMARKS_OF_MANY = 20_000, 500, 1_000
GAMMAS = 2.0 ** np.arange(-4, 4)
MAP_GAMMAS = 4.0 ** np.arange(-2, 2)
SVM_C = (2.0 ** np.arange(-3, 10, 2)).tolist()
MAP_C = (2.0 ** np.arange(-1, 14, 4)).tolist()
LINEAR_C = (2.0 ** np.arange(-9, 10, 3)).tolist()
EPSILONS = [0.03, 0.2]  # of a standardised target
LINEAR_ALPHAS = (4.0 ** np.arange(-5, 6)).tolist()
MAP_ALPHAS = (16.0 ** np.arange(-3, 2)).tolist()


@dataclass(frozen=True)
class Rows:
    """Inputs (rows, columns) float32 and targets (rows,) float64."""

    inputs: FloatArray
    targets: FloatArray

    def sample(self, most: int, seed: int) -> Rows:
        """Return a seeded sample without replacement, or all rows if there are no more."""
        if most >= len(self.targets):
            return self
        chosen = np.random.default_rng(seed).choice(len(self.targets), size=most, replace=False)
        return Rows(self.inputs[chosen], self.targets[chosen])


def measure_peer(peer: str, case: Case, data: Dataset) -> dict[str, Any]:
    """Tune, fit and apply a peer; return its figure on the test rows, the seconds of each step, and its settings."""
    train, test = Rows(*read_split(data, "train")), Rows(*read_split(data, "test"))
    shift, spread = 0.0, 1.0
    if case.task == "regression":
        shift, spread = float(train.targets.mean()), float(train.targets.std())
        train = Rows(train.inputs, (train.targets - shift) / spread)
    most = {"svm": SVM_ROWS.get(case.name, MOST_SVM_ROWS), "nystroem": MOST_MAP_ROWS}.get(peer, len(train.targets))
    fitted_rows = train.sample(most, case.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of fewer rows than folds; maps of more landmarks than a fold's rows
        start, processor = perf_counter(), process_time()
        pipeline, best = tune(peer, case, train)
        tuned = perf_counter()
        pipeline.fit(fitted_rows.inputs, fitted_rows.targets)
        fitted, processor = perf_counter(), process_time() - processor
    predictions = pipeline.predict(test.inputs) * spread + shift
    regression = case.task == "regression"
    figure = np.mean((predictions - test.targets) ** 2) if regression else np.mean(predictions == test.targets)
    return {
        "method": peer,
        "figure": float(figure),
        "seconds": fitted - start,
        "cpu_seconds": processor,
        "tuning_seconds": tuned - start,
        "fit_seconds": fitted - tuned,
        "predict_seconds": perf_counter() - fitted,
        "learnt_rows": len(fitted_rows.targets),
        "settings": json.dumps(best, default=repr),
        "version": f"scikit-learn {sklearn.__version__}",
    }


def tune(peer: str, case: Case, train: Rows) -> tuple[Pipeline, dict[str, Any]]:
    """Return the pipeline with the best settings of cross validation on a sample, and those settings."""
    columns = train.inputs.shape[1]
    sample = train.sample(max(FEW_TUNING_ROWS, min(MOST_TUNING_ROWS, TUNING_CELLS // columns)), case.seed + 1)
    regression = case.task == "regression"
    folds = (KFold if regression else StratifiedKFold)(FOLDS, shuffle=True, random_state=case.seed)
    search = HalvingGridSearchCV(
        make_pipeline(peer, case, len(train.targets)),
        make_grid(peer, case, sample),
        factor=FACTOR,
        min_resources=first_stage_rows(len(sample.targets)),
        cv=folds,
        scoring="neg_mean_squared_error" if regression else "accuracy",
        random_state=case.seed,
        refit=False,
    ).fit(sample.inputs, sample.targets)
    best = dict(search.best_params_)
    return make_pipeline(peer, case, len(train.targets)).set_params(**best), best


def first_stage_rows(rows: int) -> int:
    """Return the rows of the first of up to three stages, each with three times the rows; the last has all."""
    return min(
        (rows // part for part in (1, FACTOR, FACTOR * FACTOR) if rows // part >= LEAST_STAGE_ROWS), default=rows
    )


def make_pipeline(peer: str, case: Case, rows: int) -> Pipeline:
    """Return a pipeline of scaling, a Nystroem map for one of the three peers, and a model."""
    regression = case.task == "regression"
    model: Any = Ridge() if regression else LogisticRegression(max_iter=300 if peer == "nystroem" else 1000)
    if peer == "svm":
        model = SVR(cache_size=1000) if regression else SVC(cache_size=1000)
    landmarks = LANDMARKS_OF_MANY if rows > MANY_ROWS else LANDMARKS
    maps = [("map", Nystroem(n_components=landmarks, random_state=case.seed))] if peer == "nystroem" else []
    return Pipeline([("scale", StandardScaler()), *maps, ("model", model)])


def make_grid(peer: str, case: Case, sample: Rows) -> list[dict[str, list[Any]]]:
    """Return one grid per scaling, because gamma is in units of the scaled inputs."""
    regression = case.task == "regression"
    grids: list[dict[str, list[Any]]] = []
    for scaler in (StandardScaler(), MinMaxScaler()):
        scaled = scaler.fit_transform(sample.inputs)
        multiples = MAP_GAMMAS if peer == "nystroem" else GAMMAS
        gammas = (multiples / (scaled.shape[1] * float(scaled.var()))).tolist()
        grid: dict[str, list[Any]] = {"scale": [scaler]}
        if peer == "svm":
            grid |= {"model__gamma": gammas, "model__C": SVM_C} | ({"model__epsilon": EPSILONS} if regression else {})
        elif regression:
            grid |= {"model__alpha": MAP_ALPHAS if peer == "nystroem" else LINEAR_ALPHAS}
        else:
            grid |= {"model__C": MAP_C if peer == "nystroem" else LINEAR_C}
        if peer == "nystroem":
            grid |= {"map__gamma": gammas}
        grids.append(grid)
    return grids
