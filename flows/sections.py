"""Options of a command under headings, in the order in which people come to need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.patterns import TakesFiles

Section = tuple[str, tuple[str, ...]]
"""A heading, and the names of the parameters below it."""

WHERE_IT_RUNS: Section = (
    "Where it runs",
    ("workers", "scheduler", "cluster", "tls", "threads", "mode", "rounds"),
)
FROM_FILES: Section = ("Settings from a file, and those without an option", ("config", "pairs"))
DATA: Section = (
    "The data",
    ("target", "task", "holdout", "split_column", "missing", "dates", "categories", "max_categories", "keys",
     "drop", "scale", "scale_target"),
)  # fmt: skip
SECTIONS: tuple[Section, ...] = (
    DATA,
    (
        "What to learn",
        ("solver", "kernel", "bandwidth", "loss", "class_weights", "rescale", "validation", "seed", "precision"),
    ),
    ("How long", ("budget_seconds", "passes", "order")),
    ("Where results go", ("out", "name", "overwrite")),
    FROM_FILES,
    ("Runs that are broken off", ("resume", "checkpoint_seconds", "checkpoint_rounds")),
    WHERE_IT_RUNS,
    ("Of fogd, c-svm to l1-l2-svm, scs, wolfe and pegasos: the Fourier map", ("frequencies", "map")),
    ("Of online learners, fogd to tvm; landmarks of ridge, too", ("step_size", "budget", "rank", "landmarks", "track")),
    ("Of ridge", ("n_landmarks", "penalty")),
    ("Of c-svm to l1-l2-svm", ("C", "nu", "kappa", "tol")),
    ("A bias: of c-svm to l1-l2-svm, ridge, scs and wolfe", ("fit_intercept", "bias")),
    ("Of scs, wolfe and pegasos", ("lam", "gap", "confidence")),
    (
        "Of fogd: a ball, limits on scores, and what is proved",
        ("radius", "certify", "constraints", "constraint_margin", "constraint_gain", "learn_sensitive"),
    ),
    ("Files of sources and data sets", ("svmlight_index", "hash_columns", "rows_per_shard", "compression")),
)  # fmt: skip
REST = "Options"


class Sectioned(TakesFiles):
    """Prints its options by section; those of none come last, and a section of which it has none is left out."""

    sections: Sequence[Section] = SECTIONS

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options; called by what prints --help."""
        told: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        headings = {name: heading for heading, names in reversed(self.sections) for name in names}
        parameters = self.get_params(ctx)
        order = [name for _, names in self.sections for name in names]
        places = {name: place for place, name in reversed([*enumerate(order)])}
        for parameter in sorted(parameters, key=lambda one: places.get(str(one.name), len(order))):
            record = parameter.get_help_record(ctx)
            if record is not None:
                argument = parameter.param_type_name == "argument"
                heading = "Arguments" if argument else headings.get(str(parameter.name), REST)
                told.setdefault(heading, []).append(record)
        for heading, records in told.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def sectioned(*sections: Section) -> type[Sectioned]:
    """The class of a command that has other sections; a name that is below several belongs to the first."""
    return type("Sectioned", (Sectioned,), {"sections": sections})
