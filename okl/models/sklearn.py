"""Models as scikit-learn pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import KNNImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from okl.data.dataset import Schema, TextColumn
from okl.data.sparse import PAIRS
from okl.features.fourier import FourierFeatures, StructuredFeatures, dense_frequencies
from okl.features.linear import SparseInputs, StandardisedLinear
from okl.features.nystrom import NystromFeatures
from okl.features.predictors import CalibratedPredictor, KernelExpansion, LinearPredictor
from okl.foundation.errors import ConfigError, ModelError
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian, Kernel, Laplacian, Linear, Polynomial
from okl.models.file import Model
from okl.models.inputs import plain_means

WAVES_TO_COSINES = 0.5 * np.pi  # sin a = cos(a - pi / 2)


def to_sklearn(model: Model) -> Pipeline:
    """Return the model as a fitted pipeline: scaling, feature map, and a linear classifier or regressor.

    It takes raw rows (n, n_columns) in the order of schema.source_columns, rounds them to float32 as data sets do, and
    computes in double precision. With a column of text, these are an array of objects or a table; of svmlight text, a
    sparse matrix whose columns are the indices.
    `decision_function` gives okl's scores, `predict` labels or targets in their own unit, and `predict_proba` okl's
    probabilities if it has some and predicts the class of the largest.

    Raises ConfigError : the kernel is one that scikit-learn does not know by name (matern32, matern52, one of the
        user's own); or inputs are made of text, dates or folded indices
    Raises ModelError : the model has a map that the estimators cannot represent
    """
    schema, predictor = model.schema, model.predictor
    if isinstance(predictor, CalibratedPredictor):
        pipeline = to_sklearn(replace(model, predictor=predictor.plain()))
        if not any(predictor.shifts):  # else predict is not the class of the largest probability
            linear = {name: getattr(pipeline[-1], name) for name in ("coef_", "intercept_", "classes_")}
            pipeline.steps[-1] = ("linear", _fitted(LogisticRegression(), pipeline[-1].n_features_in_, **linear))
        return pipeline
    mixed = any(one.kind != "number" or not {*one.inputs} <= {*schema.features} for one in schema.encodings)
    if mixed or (schema.svmlight and schema.svmlight.hashed):
        raise ConfigError(
            "A pipeline takes a matrix of numbers, but the model takes text, dates or hashed indices. Export to "
            "ONNX, which has an input for each column."
        )
    if isinstance(predictor, KernelExpansion):
        n_outputs = predictor.n_outputs
        feature_map = _nystroem(predictor.kernel, predictor.supports, predictor.coefficients)
        return _pipeline(schema, feature_map, np.eye(n_outputs), _offsets_of(predictor))
    if not isinstance(predictor, LinearPredictor):
        raise ModelError(
            f"A predictor of kind {predictor.describe().get('kind')!r} cannot be exported to scikit-learn. Export to "
            "ONNX (--format onnx), or train with --solver ridge."
        )
    weights = predictor.weights.astype(np.float64)
    offsets = _offsets_of(predictor)
    mapped = predictor.feature_map
    if isinstance(mapped, StandardisedLinear):
        shift, factor = mapped.shift.astype(np.float64), mapped.factor.astype(np.float64)
        slopes = weights[:, :-1] * factor
        return _pipeline(schema, None, slopes, offsets + weights[:, -1] * mapped.constant - slopes @ shift)
    if isinstance(mapped, NystromFeatures):
        return _pipeline(
            schema, _nystroem(mapped.kernel, mapped.dense_landmarks, mapped.projection.T), weights, offsets
        )
    if isinstance(mapped, FourierFeatures):
        return _pipeline(schema, _sampler(mapped.frequencies), weights, offsets)
    if isinstance(mapped, StructuredFeatures):
        return _pipeline(schema, _sampler(dense_frequencies(mapped)), weights, offsets)
    if isinstance(mapped, SparseInputs):
        n = mapped.n_inputs  # then a constant column, if there is one
        return _pipeline(schema, None, weights[:, :n], offsets + weights[:, n:].sum(axis=1) * mapped.constant)
    raise ModelError(
        f"A feature map of kind {mapped.describe().get('kind')!r} cannot be exported to scikit-learn. Use okl predict."
    )


def _offsets_of(predictor: KernelExpansion | LinearPredictor) -> FloatArray:
    if predictor.offsets is None:
        return np.zeros(predictor.n_outputs)
    return predictor.offsets.astype(np.float64)


def _pipeline(schema: Schema, feature_map: BaseEstimator | None, slopes: FloatArray, offsets: FloatArray) -> Pipeline:
    steps = _steps(schema.dense) if schema.features else []
    if schema.texts:
        steps = [("columns", _columns(schema, steps))]
    elif schema.sparse is not None and schema.sparse.unit_length:
        steps = [("length", Normalizer())]
    if feature_map is not None:
        steps.append(("map", feature_map))
    return Pipeline([*steps, ("linear", _linear(schema, slopes, offsets))])


def _columns(schema: Schema, steps: Sequence[tuple[str, BaseEstimator]]) -> ColumnTransformer:
    """Return numbers by some steps, then the terms of each column of text, as sparse rows."""
    n_numbers = len(schema.dense.source_columns)
    numbers = [("numbers", Pipeline(steps), list(range(n_numbers)))] if steps else []
    texts = [(f"text_{k}", _vectoriser(text), n_numbers + k) for k, text in enumerate(schema.texts)]
    row = np.array([[*([0.0] * n_numbers), *(text.terms[0] for text in schema.texts)]], dtype=object)
    plain = [(name, "passthrough", places) for name, _, places in numbers]
    made = ColumnTransformer([*plain, *texts], sparse_threshold=1.0).fit(row)
    made.transformers = made.transformers_ = [*numbers, *texts]  # of which fitting has made others
    return made


def _vectoriser(text: TextColumn) -> TfidfVectorizer:
    made = TfidfVectorizer(ngram_range=PAIRS, sublinear_tf=True, vocabulary=np.array(text.terms))
    made.idf_ = np.array(text.weights)
    del made.vocabulary_  # a dictionary, made again at the first use: skops takes 1 kB for each of its entries
    return made


def _steps(schema: Schema) -> list[tuple[str, BaseEstimator]]:
    steps = _rounding()
    fills = np.zeros(schema.n_features) if schema.missing == "zero" else plain_means(schema)
    if fills is not None:
        steps.append(("missing", _imputer(np.asarray(fills, dtype=np.float32)[np.newaxis].astype(np.float64))))
    if schema.encodings:
        steps += _filled(schema)
    if schema.squashed:
        steps += _squashed(schema)
    shift, factor = schema.shift_and_factor
    if shift.any() or (factor != 1.0).any():
        steps.append(("scale", _scaler(shift, factor)))
    return steps


def _squashed(schema: Schema) -> list[tuple[str, BaseEstimator]]:
    """Return the steps to z / sqrt(1 + (z / 3)^2) of squashed columns, which is 3 sin(arctan(z / 3))."""
    (shift, factor), (at, *_) = schema.reading_stages
    n, others = schema.n_features, np.setdiff1d(np.arange(schema.n_features), at)
    shifts, factors, thirds = np.zeros(n), np.ones(n), np.ones(n)
    shifts[at], factors[at], thirds[at] = shift[at], factor[at] / 3.0, 3.0
    order, rows = np.argsort(np.concatenate([at, others])), np.zeros((1, n))
    steps = [("z", _scaler(shifts, factors))]
    for name, function in (("angle", np.arctan), ("sine", np.sin)):
        parts = [(name, FunctionTransformer(function), at.tolist()), ("others", "passthrough", others.tolist())]
        steps.append((name, ColumnTransformer(parts).fit(rows)))
        steps.append((f"order_{name}", ColumnTransformer([("order", "passthrough", order.tolist())]).fit(rows)))
    return [*steps, ("squashed", _scaler(np.zeros(n), thirds))]


def _filled(schema: Schema) -> list[tuple[str, BaseEstimator]]:
    """Return imputed means, missing indicators and all inputs, in the order of schema.features."""
    fills = np.array([[np.float32(one.fills[0]) for one in schema.encodings]], dtype=np.float64)
    gone = [number for number, one in enumerate(schema.encodings) if one.missing]
    missed = fills.copy()
    missed[:, gone] = np.nan
    imputer = _imputer(np.vstack([fills, missed]))
    made = [one.inputs[0] for one in schema.encodings] + [schema.encodings[number].inputs[1] for number in gone]
    order = ColumnTransformer([("order", "passthrough", [made.index(name) for name in schema.features])])
    return [("missing", imputer), ("order", order.fit(np.zeros((1, len(made)))))]


def _rounding() -> list[tuple[str, BaseEstimator]]:
    """Return steps to the nearest float32 and back to double precision, as in training."""
    return [("float32", FunctionTransformer(np.float32)), ("float64", FunctionTransformer(np.float64))]


def _imputer(rows: FloatArray) -> KNNImputer:
    """Fill missing values with those of the first row, and report rows in which values are missing.

    Not SimpleImputer, which holds a type that skops does not load without trust; the nearest of one row is that row.
    """
    return KNNImputer(n_neighbors=1, add_indicator=True, keep_empty_features=True).fit(rows)


def _scaler(shift: FloatArray, factor: FloatArray) -> StandardScaler:
    with np.errstate(divide="ignore"):
        scale = 1.0 / factor  # infinite where a column never changed: it stays out, as it did in training
    return _fitted(StandardScaler(), len(shift), mean_=shift, scale_=scale, var_=scale**2)


def _sampler(frequencies: FloatArray) -> RBFSampler:
    """Return sines and cosines as cosines with offsets: both have the factor n_frequencies^(-1/2)."""
    wide = frequencies.astype(np.float64)
    n_inputs, n_frequencies = wide.shape
    offsets = np.repeat([-WAVES_TO_COSINES, 0.0], n_frequencies)
    attributes = {
        "random_weights_": np.hstack([wide, wide]),
        "random_offset_": offsets,
        "_n_features_out": 2 * n_frequencies,
    }
    return _fitted(RBFSampler(n_components=2 * n_frequencies), n_inputs, **attributes)


def _nystroem(kernel: Kernel, vectors: FloatArray, normalization: FloatArray) -> Nystroem:
    wide, turned = vectors.astype(np.float64), normalization.astype(np.float64)
    return _fitted(
        Nystroem(n_components=len(wide), **_kernel_by_name(kernel)),
        wide.shape[1],
        components_=wide,
        component_indices_=np.arange(len(wide)),
        normalization_=turned,
        _n_features_out=len(turned),
    )


def _kernel_by_name(kernel: Kernel) -> dict[str, Any]:
    if isinstance(kernel, Gaussian):
        return {"kernel": "rbf", "gamma": 0.5 / kernel.bandwidth**2}
    if isinstance(kernel, Laplacian):
        return {"kernel": "laplacian", "gamma": 1.0 / kernel.bandwidth}
    if isinstance(kernel, Polynomial):
        return {"kernel": "polynomial", "gamma": kernel.scale, "coef0": kernel.offset, "degree": kernel.degree}
    if isinstance(kernel, Linear):
        return {"kernel": "linear"}
    raise ConfigError(
        f"scikit-learn has no kernel named {kernel.name!r}, and a loaded file must not hold code. "
        "Export to ONNX, or train with gaussian, laplacian, polynomial or linear."
    )


def _linear(schema: Schema, slopes: FloatArray, offsets: FloatArray) -> BaseEstimator:
    n_columns = slopes.shape[1]
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        factor = factor or 1.0
        attributes = {"coef_": slopes[0] / factor, "intercept_": float(offsets[0] / factor + shift)}
        return _fitted(LinearRegression(), n_columns, **attributes)
    return _fitted(SGDClassifier(), n_columns, coef_=slopes, intercept_=offsets, classes_=np.array(schema.labels))


def _fitted(estimator: Any, n_features: int, **attributes: Any) -> Any:
    for name, value in (attributes | {"n_features_in_": n_features}).items():
        setattr(estimator, name, value)
    return estimator
