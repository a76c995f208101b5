"""An explanation as text: facts, figures, and a bar for each column."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from okl.configuration import TrainSettings, WhereSettings
from okl.store.texttables import aligned
from okl.store.wording import METRIC_NAMES, SPLIT_NAMES, number
from okl.types import Precision

MOST_COLUMNS = 20
BAR = 30  # characters of the longest bar
PLACES = {*WhereSettings.model_fields, "data", "out", "name"}


def explanation_text(told: Mapping[str, Any]) -> str:
    """Of `okl.explaining.explain.explain`."""
    parts = [_what(told), _figures(told), _certificate(told), _lineage(told), _importance(told)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _what(told: Mapping[str, Any]) -> list[str]:
    labels = ", ".join(map(str, told["labels"][:8])) + (", ..." if len(told["labels"]) > 8 else "")
    columns = told["columns"]
    inputs = "" if told["inputs"] == len(columns) else f", {told['inputs']:,} inputs"
    facts = {
        "predicts": f"{told['target']} ({told['task']}{': ' + labels if labels else ''})",
        "from": f"{len(columns):,} columns{inputs}; scaling {told['scale']}, missing values: {told['missing']}",
        "scores by": predictor_sentence(told["what"]),
        "learnt with": settings_text(told["configuration"], told["provenance"].get("chosen") or {}),
        "chosen": _chosen(told["provenance"].get("chosen") or {}),
        "learnt from": _origin(told["provenance"], (told.get("lineage") or {}).get("learnt_rows")),
    }
    if told["task"] == "binary":
        below, above = told["labels"]
        facts["scores by"] += f"; a score below 0 says {below}, others {above}"
    return [str(told["model"]), *aligned([[name, value or "-"] for name, value in facts.items()])]


def settings_text(configuration: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    """The solver, and what is not as it is by default; of the winner of a comparison, what it has of a run's settings.

    >>> settings_text({"solver": "fogd", "frequencies": 50, "passes": 1, "data": "rows"}, {})
    'solver fogd, frequencies 50'
    >>> settings_text({"models": ["c-svm", "dwd"], "folds": 3, "seed": 7}, {"model": "dwd"})
    'solver dwd, seed 7'
    """
    usual = {name: field.get_default() for name, field in TrainSettings.model_fields.items() if name not in PLACES}
    given = {name: value for name, value in _scalars(configuration) if name in usual and value != usual[name]}
    solver = configuration.get("solver", chosen.get("model"))
    return ", ".join(f"{name} {number(value)}" for name, value in ({"solver": solver} | given).items())


def _chosen(chosen: Mapping[str, Any]) -> str:
    """What was found while learning, each with its reason where one is kept."""
    reasons = {name: value for name, value in chosen.items() if name.endswith("_reason")}
    told = [(name, value) for name, value in _scalars(chosen) if name not in reasons]
    return ", ".join(
        f"{name} {number(value)}" + (f" ({chosen[f'{name}_reason']})" if f"{name}_reason" in reasons else "")
        for name, value in told
    )


def _origin(provenance: Mapping[str, Any], learnt_rows: int | None) -> str:
    """learnt_rows : of a registered version with those that its ancestors learnt, where it went on from them."""
    rows, sha256 = provenance.get("train_rows"), (provenance.get("data_sha256") or "")[:16]
    told = f"{number(rows)} rows" if rows else ""
    if rows and learnt_rows and rows < learnt_rows:
        told = f"{number(learnt_rows)} rows, {number(rows)} of them new"
    versions = ", ".join(f"{name} {value}" for name, value in (provenance.get("versions") or {}).items())
    parts = {"{}": told, "data {}": sha256, "at {}": provenance.get("created"), "by {}": versions}
    return ", ".join(pattern.format(value) for pattern, value in parts.items() if value)


def _scalars(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in values.items() if isinstance(value, bool | int | float | str)]


def predictor_sentence(what: Mapping[str, Any]) -> str:
    """What scores rows, in a few words.

    >>> kernel = {"name": "gaussian", "bandwidth": 2.0}
    >>> predictor_sentence({"kind": "expansion", "kernel": kernel, "shapes": {"supports": [100, 5]},
    ...                     "precision": "float32", "numbers": 600})
    '100 support vectors, gaussian kernel (bandwidth 2), 600 numbers of float32'
    >>> own = {"kind": "extension", "name": "binning", "version": 1, "origin": "binning.py 0123456789ab"}
    >>> predictor_sentence({"kind": "linear", "map": own, "shapes": {"weights": [1, 64]}, "precision": "float32",
    ...                     "numbers": 300})
    '64 columns of the map binning (binning.py 0123456789ab), 300 numbers of float32'
    >>> predictor_sentence({"kind": "linear", "map": {"kind": "standardised-linear"}, "precision": "float32",
    ...                     "shapes": {"weights": [1, 33], "offsets": [1]}, "numbers": 98})
    'a linear model of the inputs: 33 weights, 1 offset, 64 numbers that scale the inputs; float32'
    """
    size = f"{what['numbers']:,} numbers of {what['precision']}"
    if what["kind"] == "expansion":
        return f"{what['shapes']['supports'][0]:,} support vectors, {_kernel(what['kernel'])}, {size}"
    kind, shapes = what["map"]["kind"], what["shapes"]
    if kind == "standardised-linear":
        n_weights, n_offsets = prod(shapes["weights"]), prod(shapes.get("offsets", [0]))
        offsets = f", {n_offsets:,} offset{'' if n_offsets == 1 else 's'}" if n_offsets else ""
        scaling = f"{what['numbers'] - n_weights - n_offsets:,} numbers that scale the inputs"
        return f"a linear model of the inputs: {n_weights:,} weights{offsets}, {scaling}; {what['precision']}"
    if kind == "extension":
        return f"{shapes['weights'][1]:,} columns of the map {what['map']['name']} ({what['map']['origin']}), {size}"
    if kind == "nystrom":
        parts = f"a Nystrom map of {shapes['map.landmarks'][0]:,} landmarks and rank {shapes['map.projection'][1]:,}"
    else:
        n_frequencies = shapes["weights"][1] // 2
        parts = f"{n_frequencies:,} {'structured' if kind == 'structured' else 'random'} Fourier frequencies"
    return f"{parts}, {_kernel(what['map']['kernel'])}, {size}"


def _kernel(kernel: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name} {number(value)}" for name, value in kernel.items() if name != "name")
    return f"{kernel['name']} kernel" + (f" ({given})" if given else "")


def _figures(told: Mapping[str, Any]) -> list[str]:
    if told.get("judged"):
        return _judged(told["judged"], told["task"])
    rows = [
        [SPLIT_NAMES[split], METRIC_NAMES[metric], number(value)]
        for split in SPLIT_NAMES
        for metric, value in (told.get(split) or {}).items()
        if metric in METRIC_NAMES and isinstance(value, int | float)
    ]
    return aligned(rows) if rows else []


def _judged(judged: Mapping[str, Any], task: str) -> list[str]:
    """Of a retraining: this model beside what was champion before it, on the same reserved rows."""
    other = judged["against"] or ("the mean" if task == "regression" else "majority class")
    own, before = judged.get("challenger") or {}, judged.get("champion") or {}
    rows = [
        [METRIC_NAMES[metric], number(value), number(before.get(metric))]
        for metric, value in own.items()
        if metric in METRIC_NAMES and isinstance(value, int | float)
    ]
    if not rows:
        return []
    shards = len(judged["shards"])
    where = f"on {number(judged['rows'])} reserved rows of {shards:,} shard{'' if shards == 1 else 's'}"
    return aligned([[where, "this model", other], *rows])


def _certificate(told: Mapping[str, Any]) -> list[str]:
    proof = told.get("certificate")
    if not proof:
        return []
    facts = [[name, number(value)] for name, value in _scalars(proof) if value != ""]
    return ["certificate", *aligned(facts)]


def _lineage(told: Mapping[str, Any]) -> list[str]:
    lineage = told.get("lineage")
    if not lineage:
        return []
    n_shards, how = len(lineage["shards"]), str(lineage["environment"].get("how") or "")
    new = f"{n_shards:,} shard{'' if n_shards == 1 else 's'}, {lineage['rows']:,} rows"
    facts = {
        "version": number(lineage["version"]),
        "parent": number(lineage["parent"]),
        "new" if how or lineage["parent"] else "learnt": new,
        "how": how,
        "published": str(lineage["decision"].get("reason") or ""),
    }
    return ["lineage", *aligned([[name, value] for name, value in facts.items() if value])]


def _importance(told: Mapping[str, Any]) -> list[str]:
    if not told.get("importance"):
        return [str(told["no_importance"])]
    error = "squared error" if told["task"] == "regression" else "mistake rate"
    return importance_lines(told["importance"], error, told["what"]["precision"])


def importance_lines(found: Mapping[str, Any], error: str, precision: Precision) -> list[str]:
    """Of `Importances.as_json`, on the rows that it names: a head, and a line a column.

    error : what is told, for people; precision : of the scores, whose rounding is no rise
    """
    columns = found["columns"][:MOST_COLUMNS]
    nought = float(np.finfo(precision).eps) * found["error"]
    largest = max((one["rise"] for one in columns), default=0.0)
    rows = [
        [
            one["column"],
            "0" if abs(one["rise"]) <= nought else f"{one['rise']:+.4g}",
            f"+- {one['spread'] if one['spread'] > nought else 0.0:.2g}",
            _bar(one["rise"], largest) if one["rise"] > nought else "",
        ]
        for one in columns
    ]
    hidden = len(found["columns"]) - len(columns)
    more = [f"and {hidden:,} columns that matter less"] if hidden > 0 else []
    head = (
        f"what permuting a column adds to the {error} ({found['error']:.4g} on {found['rows']:,} {found['on']}; "
        f"{found['repeats']} times each)"
    )
    return [head, *aligned(rows), *more]


def _bar(rise: float, largest: float) -> str:
    return "#" * round(BAR * rise / largest) if largest > 0.0 and rise > 0.0 else ""
