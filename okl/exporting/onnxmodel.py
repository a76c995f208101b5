"""A model as ONNX: raw rows in, scores and what they say out, with the scaling and the labels inside."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from onnx import ModelProto, checker, helper

from okl.errors import ModelError
from okl.exporting.graph import ROWS, Graph, values_of
from okl.exporting.inputs import LABELS_DOMAIN, input_names, input_nodes
from okl.exporting.inputwords import date_formulas, input_sentences
from okl.exporting.predictors import score_nodes
from okl.store.dataset import Schema
from okl.store.model import Model

OPSET = 18
IR_VERSION = 8  # of the oldest runtimes that know the opset
ML_OPSET = 3  # of operators on text
SCORES, LABELS, PREDICTIONS = "scores", "labels", "predictions"


def to_onnx(model: Model) -> ModelProto:
    """The model as an ONNX graph of standard operators, which scores rows as okl does, up to rounding.

    Its input `rows` is (n, n_features), double, raw values in the order of schema.features; for mixed tables, see
    `okl.exporting.inputs`. Rounding to float32, scaling and encoding are done inside. Its outputs are `scores` before
    the link, (n,) or (n, n_classes) in the model's precision, and `labels` (n,), or for regression `predictions` (n,),
    double, in the target's own unit; where a column of a mixed table has that name, the output has an underscore more.
    A value that is not finite is no error there, as it is in okl: it makes scores that are no numbers, but a missing
    one that the model settles. What stands for missing values, and how parts of dates are computed, the file says.

    Raises
    ------
    ModelError, ConfigError : ONNX has no way to say what the model computes
    """
    schema = model.schema
    if model.predictor.n_inputs != schema.n_features:
        raise ModelError(f"The model scores {model.predictor.n_inputs} inputs, but its schema has {schema.n_features}.")
    graph = Graph(input_names(schema))
    raw = input_nodes(graph, schema)
    scores = score_nodes(graph, model.predictor, _scaled(graph, schema, raw.value, model.precision))
    single = model.predictor.n_outputs == 1
    if single:
        scores = graph.add("Squeeze", scores, graph.constant(np.array([1])))
    scores = graph.add("Identity", scores, name=SCORES)
    told = _said(graph, schema, scores)
    shape: list[str | int] = [ROWS] if single else [ROWS, model.predictor.n_outputs]
    finished = graph.finished(
        "okl",
        raw.given,
        [values_of(scores, model.precision, shape), told],
    )
    return _sealed(finished, model)


def _scaled(graph: Graph, schema: Schema, values: str, precision: str) -> str:
    """Inputs from raw values, as `Model.prepare` makes them: in double precision, then rounded."""
    shift, factor = schema.shift_and_factor
    if schema.scale != "none":
        values = graph.add("Sub", values, graph.constant(shift[None, :]))
        values = graph.add("Mul", values, graph.constant(factor[None, :]))
    return graph.cast(values, precision)


def _said(graph: Graph, schema: Schema, scores: str) -> Any:
    """What scores say, as `okl.store.model.predictions` has it."""
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        wide = graph.cast(scores, np.float64)
        own = graph.add("Div", wide, graph.constant(np.array(factor or 1.0)))
        told = graph.add("Add", own, graph.constant(np.array(shift)), name=PREDICTIONS)
        return values_of(told, np.float64, [ROWS])
    if schema.task == "multiclass":
        chosen = graph.add("ArgMax", scores, axis=1, keepdims=0)
    else:
        zero = graph.add("CastLike", graph.constant(np.array(0.0)), scores)
        chosen = graph.cast(graph.add("Not", graph.add("Less", scores, zero)), np.int64)
    labels = np.array(schema.labels)
    if labels.dtype.kind == "U":
        labels = labels.astype(object)
    told = graph.add("Gather", graph.constant(labels), chosen, name=LABELS)
    return values_of(told, labels.dtype, [ROWS])


def _sealed(graph: Any, model: Model) -> ModelProto:
    """With what people want to know of it, and looked at by ONNX's own checker."""
    schema = model.schema
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(LABELS_DOMAIN, ML_OPSET)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="okl")
    made.ir_version = IR_VERSION
    made.doc_string = (
        f"{schema.task} of {schema.target!r} from {len(schema.source_columns)} raw columns; a matrix has them in the "
        f"order of the property 'columns'. {input_sentences(schema)}"
    )
    told = {
        "columns": json.dumps(schema.source_columns),
        "target": schema.target,
        "task": schema.task,
        "labels": json.dumps(schema.labels),
        "categories": json.dumps({one.column: one.categories for one in schema.encodings if one.kind == "category"}),
        "provenance": json.dumps(model.provenance),
    }
    if dates := date_formulas(schema):
        told["dates"] = json.dumps(dates)
    helper.set_model_props(made, told)
    checker.check_model(made, full_check=True)
    return made
