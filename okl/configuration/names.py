"""The names that a choice of the settings takes: okl's own, and those that extensions have declared."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from okl import extensions

SolverName = Literal[
    "fogd", "nogd", "perceptron", "ogd", "norma", "rbp", "forgetron", "projectron", "projectron++", "bpa-s", "bpa-nn",
    "bpa-p", "bogd", "bogd++", "bsgd-removal", "bsgd-merging", "budget-perceptron", "tvm",
    "c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "mm-fda", "mm-mpm", "l1-logistic", "l1-l2-svm",
    "scs", "wolfe", "pegasos", "ridge",
]  # fmt: skip
AskedSolver = Literal[SolverName, "auto"]
KernelName = Literal["gaussian", "laplacian", "matern32", "matern52", "polynomial", "linear"]
MapName = Literal["independent", "orthogonal", "quasi", "structured", "auto", "exact"]
LossName = Literal[
    "auto", "hinge", "logistic", "multiclass-hinge", "thresholded-half-squared", "absolute", "epsilon-insensitive"
]
MOST_LISTED = 12  # names of a choice in an error


class OrOfExtension:
    """Marks a choice among okl's own names, which may as well be one that an extension has declared."""

    def __init__(self, kind: extensions.Kind) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Extensions are looked at only for a name that is none of okl's own."""
        as_text = core_schema.to_string_ser_schema()
        return core_schema.no_info_wrap_validator_function(self._known, handler(source), serialization=as_text)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """All names that this process knows, for a form."""
        told = handler(schema)
        return told | {"enum": [*told["enum"], *extensions.names(self.kind)]}

    def _known(self, name: Any, own: Callable[[Any], Any]) -> Any:
        try:
            return own(name)
        except ValidationError as error:
            if isinstance(name, str) and extensions.find(self.kind, name):
                return name
            told = _near_names(str(name), error.errors()[0])
            raise PydanticCustomError("no_such_name", "{told}, or one that --extension adds", {"told": told}) from None


def _near_names(name: str, fault: ErrorDetails) -> str:
    """What a choice takes, in words: all names if they are few, otherwise those that come near."""
    names = re.findall(r"'([^']+)'", fault["msg"])
    if len(names) <= MOST_LISTED:
        return fault["msg"]
    near = [one for one in names if name.strip() and name.lower() in one] or get_close_matches(name, names, 4, 0.5)
    return f"input should be one that okl train --help lists, such as {', '.join(near or names[:1] + names[-2:])}"
