"""An explanation as text: facts, figures, and a bar for each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.configuration import TrainSettings, WhereSettings
from okl.store.texttables import aligned
from okl.store.wording import METRIC_NAMES, SPLIT_NAMES, number

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
        "learnt from": _origin(told["provenance"]),
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


def _origin(provenance: Mapping[str, Any]) -> str:
    rows, sha256 = provenance.get("train_rows"), (provenance.get("data_sha256") or "")[:16]
    versions = ", ".join(f"{name} {value}" for name, value in (provenance.get("versions") or {}).items())
    parts = {"{} rows": rows and number(rows), "data {}": sha256, "at {}": provenance.get("created"), "by {}": versions}
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
    """
    size = f"{what['numbers']:,} numbers of {what['precision']}"
    if what["kind"] == "expansion":
        return f"{what['shapes']['supports'][0]:,} support vectors, {_kernel(what['kernel'])}, {size}"
    kind, shapes = what["map"]["kind"], what["shapes"]
    if kind == "standardised-linear":
        return f"a linear model of the inputs, {size}"
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
    rows = [
        [SPLIT_NAMES[split], METRIC_NAMES[metric], number(value)]
        for split in SPLIT_NAMES
        for metric, value in (told.get(split) or {}).items()
        if metric in METRIC_NAMES and isinstance(value, int | float)
    ]
    return aligned(rows) if rows else []


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
    rows = sum(int(shard.get("rows", 0)) for shard in lineage["shards"])
    facts = {
        "version": number(lineage["version"]),
        "parent": number(lineage["parent"]),
        "learnt": f"{len(lineage['shards']):,} shard{'' if len(lineage['shards']) == 1 else 's'}, {rows:,} rows",
        "published": str(lineage["decision"].get("reason") or ""),
    }
    return ["lineage", *aligned([[name, value] for name, value in facts.items() if value])]


def _importance(told: Mapping[str, Any]) -> list[str]:
    found = told.get("importance")
    if not found:
        return [str(told["no_importance"])]
    error = "squared error" if told["task"] == "regression" else "mistake rate"
    columns = found["columns"][:MOST_COLUMNS]
    largest = max((one["rise"] for one in columns), default=0.0)
    rows = [
        [one["column"], f"{one['rise']:+.4g}", f"+- {one['spread']:.2g}", _bar(one["rise"], largest)] for one in columns
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
