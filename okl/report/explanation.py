"""Explanation of a saved model as text: facts, metrics, and a bar for each column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from okl.foundation.catalogue import METRICS
from okl.foundation.settings import ExecutionSettings
from okl.foundation.types import Criterion
from okl.models.quality import rises_of_root
from okl.report.blocks import Bar, BarChart, Block, Heading, Paragraph, Table, paragraphs
from okl.report.format import (
    CRITERION_NAMES,
    SPLIT_NAMES,
    certificate_values,
    chosen_facts,
    counted,
    metric_name,
    number,
)
from okl.report.render import text
from okl.report.results import ROOT, UNSHOWN, given_settings
from okl.solvers.settings import TrainSettings

MOST_COLUMNS = 20


def explanation_text(explanation: Mapping[str, Any]) -> str:
    """Return the text of an explanation by `okl.runs.explain.explain`."""
    return text(*(part(explanation) for part in (_model, _metrics, _certificate, _lineage, _weights, _importance)))


def _table(rows: Mapping[str, Any]) -> Table:
    return Table("", (), [[name, number(value)] for name, value in rows.items()])


def _model(explanation: Mapping[str, Any]) -> list[Block]:
    labels = ", ".join(map(str, explanation["labels"][:8])) + (", ..." if len(explanation["labels"]) > 8 else "")
    columns, provenance = explanation["columns"], explanation["provenance"]
    inputs = "" if explanation["inputs"] == len(columns) else f", {explanation['inputs']:,} inputs"
    chosen = provenance.get("chosen") or {}
    classes, vectors = "", "landmarks" if "n_landmarks" in chosen else "support vectors"
    if explanation["task"] == "binary":
        below, above = explanation["labels"]
        classes = f"; score below 0: {below}, otherwise {above}"
    facts = {
        "predicts": f"{explanation['target']} ({explanation['task']}{': ' + labels if labels else ''})",
        "inputs": f"{len(columns):,} columns{inputs}; scaling {explanation['scale']}, "
        f"missing values: {explanation['missing']}",
        "model": predictor_sentence(explanation["what"], vectors) + classes,
        "settings": settings_text(explanation["configuration"], chosen),
        "chosen": ", ".join(f"{name} {value}" for name, value in chosen_facts(chosen)),
        "trained on": _origin(provenance, (explanation.get("lineage") or {}).get("learnt_rows")),
    }
    return [Paragraph(str(explanation["model"])), _table({name: value or "-" for name, value in facts.items()})]


def _weights(explanation: Mapping[str, Any]) -> list[Block]:
    """Return the inputs with the largest weights of each class, for sparse rows."""
    if not (weights := explanation.get("weights")):
        return []
    rows = [[label, ", ".join(f"{name} {weight:.2f}" for name, weight in some)] for label, some in weights.items()]
    return [Heading("Largest weights"), Table("", (), rows)]


def settings_text(configuration: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    """Return the solver and the settings that differ from their defaults, also for the winner of a comparison.

    >>> settings_text({"solver": "fogd", "frequencies": 50, "passes": 1, "data": "rows"}, {})
    'solver fogd, frequencies 50'
    >>> settings_text({"models": ["c-svm", "dwd"], "folds": 3, "seed": 7}, {"model": "dwd"})
    'solver dwd, seed 7'
    """
    usual = TrainSettings.defaults().keys() - ExecutionSettings.model_fields.keys()
    given = {name: value for name, value in given_settings(_scalars(configuration)) if name in usual}
    given = {"solver": number(configuration.get("solver", chosen.get("model")))} | given
    return ", ".join(f"{name} {value}" for name, value in given.items())


def _origin(provenance: Mapping[str, Any], learnt_rows: int | None) -> str:
    """Return the origin of the model; learnt_rows : training rows including those of ancestor versions."""
    rows, sha256 = provenance.get("train_rows"), (provenance.get("data_sha256") or "")[:16]
    trained = f"{number(rows)} rows" if rows else ""
    if rows and learnt_rows and rows < learnt_rows:
        trained = f"{number(learnt_rows)} rows, {number(rows)} of them new in this version"
    versions = ", ".join(f"{name} {value}" for name, value in (provenance.get("versions") or {}).items())
    parts = {"{}": trained, "data {}": sha256, "at {}": provenance.get("created"), "by {}": versions}
    return ", ".join(pattern.format(value) for pattern, value in parts.items() if value)


def _scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)}


def predictor_sentence(what: Mapping[str, Any], vectors: str = "support vectors") -> str:
    """Return a short description of a predictor; vectors : name of those of a kernel expansion.

    >>> kernel = {"name": "gaussian", "bandwidth": 2.0}
    >>> predictor_sentence({"kind": "expansion", "kernel": kernel, "shapes": {"supports": [100, 5]},
    ...                     "precision": "float32", "numbers": 600})
    '100 support vectors, gaussian kernel (bandwidth 2), 600 numbers of float32'
    >>> predictor_sentence({"kind": "local", "kernel": kernel, "shapes": {"supports": [100, 5]}, "partitions": 4,
    ...                     "precision": "float32", "numbers": 2000}, "landmarks")
    '100 landmarks in cells of 4 partitions, gaussian kernel (bandwidth 2), 2,000 numbers of float32'
    >>> own = {"kind": "extension", "name": "binning", "version": 1, "origin": "binning.py 0123456789ab"}
    >>> predictor_sentence({"kind": "linear", "map": own, "shapes": {"weights": [1, 64]}, "precision": "float32",
    ...                     "numbers": 300})
    '64 columns of the map binning (binning.py 0123456789ab), 300 numbers of float32'
    >>> predictor_sentence({"kind": "linear", "map": {"kind": "standardised-linear"}, "precision": "float32",
    ...                     "shapes": {"weights": [1, 33], "offsets": [1]}, "numbers": 98})
    'a linear model of the inputs: 33 weights, 1 offset, 64 numbers that scale the inputs; float32'
    """
    size = f"{what['numbers']:,} numbers of {what['precision']}"
    if what["kind"] in ("expansion", "local"):
        n_partitions = what.get("partitions", 0)
        cells = f" in cells of {n_partitions} partition{'s' * (n_partitions > 1)}" if n_partitions else ""
        return f"{what['shapes']['supports'][0]:,} {vectors}{cells}, {_kernel(what['kernel'])}, {size}"
    kind, shapes = what["map"]["kind"], what["shapes"]
    if kind == "standardised-linear":
        n_weights, n_offsets = math.prod(shapes["weights"]), math.prod(shapes.get("offsets", [0]))
        offsets = f", {n_offsets:,} offset{'' if n_offsets == 1 else 's'}" if n_offsets else ""
        scaling = f"{what['numbers'] - n_weights - n_offsets:,} numbers that scale the inputs"
        return f"a linear model of the inputs: {n_weights:,} weights{offsets}, {scaling}; {what['precision']}"
    if kind == "sparse-inputs":
        return f"a linear model of {what['map']['n_inputs']:,} sparse inputs, {size}"
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


def _metrics(explanation: Mapping[str, Any]) -> list[Block]:
    """Return the metrics of a run by split, or of a retrained model and the previous champion on the same rows."""
    judged = explanation.get("judged")
    if not judged:
        rows = [
            [title, metric_name(metric), number(value)]
            for split, title in SPLIT_NAMES.items()
            for metric, value in _shown(explanation.get(split)).items()
        ]
        return [Table("", (), rows)] if rows else []
    other = judged["against"] or ("the mean" if explanation["task"] == "regression" else "majority class")
    before = judged.get("champion") or {}
    rows = [
        [metric_name(metric), number(value), number(before.get(metric))]
        for metric, value in _shown(judged.get("challenger")).items()
    ]
    newest = "newest " if judged.get("newest") else ""  # of a retraining after drift
    heading = f"on {number(judged['rows'])} {newest}held-out rows of {counted(len(judged['shards']), 'shard')}"
    return [Table("", (heading, "this model", other), rows)] if rows else []


def _shown(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    known = {name: value for name, value in (metrics or {}).items() if name in METRICS}
    return {name: value for name, value in _scalars(known).items() if UNSHOWN.get(name) not in known}


INTERNAL = ("shown", "floor")
"""Entries of a certificate that reports use but do not show."""


def _certificate(explanation: Mapping[str, Any]) -> list[Block]:
    proof = certificate_values(explanation.get("certificate"))
    facts = {name: value for name, value in _scalars(proof).items() if value != "" and name not in INTERNAL}
    return [Heading("certificate"), _table(facts)] if facts else []


def _lineage(explanation: Mapping[str, Any]) -> list[Block]:
    lineage = explanation.get("lineage")
    if not lineage:
        return []
    how = str(lineage["environment"].get("how") or "")
    facts = {
        "version": number(lineage["version"]),
        "parent": number(lineage["parent"]),
        "new" if how or lineage["parent"] else "trained on":
            f"{counted(len(lineage['shards']), 'shard')}, {lineage['rows']:,} rows",
        "how": how,
        "published": str(lineage["decision"].get("reason") or ""),
    }  # fmt: skip
    return [Heading("lineage"), _table({name: value for name, value in facts.items() if value})]


def _importance(explanation: Mapping[str, Any]) -> list[Block]:
    metric = metric_blocks(explanation.get("metric") or {})
    if not explanation.get("importance"):
        return [Paragraph(str(explanation["no_importance"])), *metric]
    notes = paragraphs(*(explanation.get("warnings") or []))
    return [*importance_blocks(explanation["importance"], explanation["what"]["precision"]), *notes, *metric]


def metric_blocks(shares: Mapping[str, float]) -> list[Block]:
    """Return a chart of the columns' shares in a learnt metric, the largest first; no blocks without a metric."""
    if not shares:
        return []
    first = list(shares.items())[:MOST_COLUMNS]
    bars = [Bar(column, share / (first[0][1] or 1.0), f"{share:.1%}") for column, share in first]
    hidden = len(shares) - len(first)
    rest = 1.0 - sum(share for _, share in first)
    more: list[Block] = [Paragraph(f"and {hidden:,} columns with {rest:.1%} together")] if hidden > 0 else []
    return [BarChart("Share of the squared distance of two rows in the learnt metric", bars), *more]


ERROR_NAMES: dict[Criterion, str] = CRITERION_NAMES | {"accuracy": "mistake rate", "squared-error": ROOT.lower()}


def _short(value: float, digits: int) -> str:
    """Return a positive number with some digits, but whole numbers below a thousand as such.

    >>> _short(0.01234, 2), _short(540.26, 2), _short(540.26, 4), _short(2515.7, 2)
    ('0.012', '540', '540.3', '2,516')
    """
    if value >= 1000.0:
        return number(value)
    return f"{value:.{digits}g}" if value < 10.0**digits else f"{value:.0f}"


def _alike(values: Sequence[float], largest: float) -> list[str]:
    """Return numbers from 0 with as many decimals as give the largest three digits.

    >>> _alike([0.068, 0.0004404], 0.068), _alike([1234.5, 7.0], 1234.5)
    (['0.0680', '0.0004'], ['1,234', '7'])
    """
    decimals = max(0, 2 - math.floor(math.log10(largest))) if 0.0 < largest < 1000.0 else 0
    return [f"{value:,.{decimals}f}" if largest < 1e6 else _short(value, 3) for value in values]


def importance_blocks(importances: Mapping[str, Any], precision: str) -> list[Block]:
    """Return a chart of importances (`okl.runs.explain.Importances.as_json`); those below the precision are 0."""
    columns, criterion = importances["columns"][:MOST_COLUMNS], importances["criterion"]
    falls = criterion in ("auc", "average-precision", "balanced-accuracy")
    error = float(importances["error"])
    rounding = float(np.finfo(precision).eps) * error
    rises = [0.0 if abs(item["rise"]) <= rounding else float(item["rise"]) for item in columns]
    spreads = [item["spread"] if item["spread"] > rounding else 0.0 for item in columns]
    largest = max(rises, default=0.0)
    lengths = [max(rise, 0.0) / largest if largest > 0.0 else 0.0 for rise in rises]
    value = 1.0 - error if falls else error
    if criterion == "squared-error":  # shown by its root, in units of the target
        value, shown = error**0.5, rises_of_root(error, [*zip(rises, spreads, strict=True)])
        rises, spreads = [rise for rise, _ in shown], [spread for _, spread in shown]
    sizes = [abs(rise) for rise in rises]
    most = max(sizes, default=0.0)
    texts = ["-+"[rise > 0.0] + text if rise else "0" for rise, text in zip(rises, _alike(sizes, most), strict=True)]
    width = max(map(len, texts), default=0)
    bars = [
        Bar(item["column"], length, f"{text:<{width}} +- {spread}")
        for item, length, text, spread in zip(columns, lengths, texts, _alike(spreads, most), strict=True)
    ]
    title = (
        f"{'Decrease' if falls else 'Increase'} of the {ERROR_NAMES[criterion]} when a column is permuted "
        f"(without: {_short(value, 4)} on {importances['rows']:,} {importances['on']}; mean +- standard deviation of "
        f"{importances['repeats']} permutations)"
    )
    hidden = len(importances["columns"]) - len(columns)
    more: list[Block] = [Paragraph(f"and {hidden:,} less important columns")] if hidden > 0 else []
    return [BarChart(title, bars), *more]
